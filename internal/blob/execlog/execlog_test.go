package execlog_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/blob/execlog"
)

const session = "agent/web/main/1"

func store(t *testing.T) *blob.Store {
	t.Helper()
	s, err := blob.Open(t.Context(), "file://"+filepath.Join(t.TempDir(), "blobs"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestLog(t *testing.T) {
	t.Parallel()
	ctx, l := t.Context(), execlog.New(store(t), session)
	got, err := l.ReadAt(ctx, "e1", execlog.Stdout, 0, 10)
	require.NoError(t, err)
	require.Empty(t, got)

	require.NoError(t, l.Append(ctx, "e1", execlog.Stdout, 0, []byte("hello ")))
	require.NoError(t, l.Append(ctx, "e1", execlog.Stdout, 6, nil))
	require.NoError(t, l.Append(ctx, "e1", execlog.Stdout, 6, []byte("world")))
	require.NoError(t, l.Append(ctx, "e1", execlog.Stderr, 0, []byte("oops")))
	require.ErrorIs(t, l.Append(ctx, "e1", execlog.Stdout, 6, []byte("w")), execlog.ErrMoved)
	require.NoError(t, l.Append(ctx, "e1", execlog.Stdout, 99, []byte("behind a gap")))

	size, err := l.Size(ctx, "e1", execlog.Stdout)
	require.NoError(t, err)
	require.EqualValues(t, 11, size)
	for _, c := range []struct {
		offset int64
		limit  int
		want   string
	}{{0, 100, "hello world"}, {3, 5, "lo wo"}, {6, 5, "world"}, {11, 5, ""}, {50, 5, ""}} {
		got, err := l.ReadAt(ctx, "e1", execlog.Stdout, c.offset, c.limit)
		require.NoError(t, err)
		require.Equal(t, c.want, string(got))
	}
	other, err := execlog.New(store(t), "agent/web/main_1").ReadAt(ctx, "e1", execlog.Stdout, 0, 10)
	require.NoError(t, err)
	require.Empty(t, other)
}

func TestLogRefuses(t *testing.T) {
	t.Parallel()
	ctx, l := t.Context(), execlog.New(store(t), session)
	require.Error(t, l.Append(ctx, "e", "stdin", 0, []byte("x")))
	require.Error(t, l.Append(ctx, "", execlog.Stdout, 0, []byte("x")))
	require.Error(t, l.Append(ctx, "e", execlog.Stdout, 0, make([]byte, execlog.MaxChunk+1)))
	_, err := l.ReadAt(ctx, "e", execlog.Stdout, -1, 1)
	require.Error(t, err)
	require.NotEqual(t, execlog.Prefix("a/b"), execlog.Prefix("a_b"))
	require.Error(t, execlog.New(store(t), "../../etc").Append(t.Context(), "e1", execlog.Stdout, 0, []byte("x")))
}

// However a stream is cut into chunks, and wherever it is read, the bytes are
// the stream's.
func TestLogAnyCut(t *testing.T) {
	t.Parallel()
	l, ctx := execlog.New(store(t), session), t.Context()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		exec := "e" + strings.Repeat("x", n)
		var want bytes.Buffer
		for _, part := range rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, 20), 0, 6).Draw(t, "parts") {
			require.NoError(t, l.Append(ctx, exec, execlog.Stdout, int64(want.Len()), part))
			want.Write(part)
		}
		off := rapid.IntRange(0, want.Len()).Draw(t, "offset")
		limit := rapid.IntRange(1, 50).Draw(t, "limit")
		got, err := l.ReadAt(ctx, exec, execlog.Stdout, int64(off), limit)
		require.NoError(t, err)
		require.Equal(t, string(want.Bytes()[off:min(off+limit, want.Len())]), string(got))
	})
}
