package local_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/local"
)

// A removal that was cut short between the word that the sandbox is destroyed and the
// end of it goes on when it is asked for again.
func TestARemovalCutShortGoesOn(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	b, err := local.New(t.Context(), local.Config{DataDir: data, NoIsolation: true})
	require.NoError(t, err)
	left := func() []string {
		dirs, err := filepath.Glob(filepath.Join(data, "sandboxes", "left-*", "sandbox.json"))
		require.NoError(t, err)
		return dirs
	}
	for _, aside := range []string{"", ".trash-1"} { // before it was put aside, and after
		spec := sandbox.Spec{ID: "left", Generation: 1 + len(aside)}
		_, err = b.Open(t.Context(), spec)
		require.NoError(t, err)
		require.Len(t, left(), 1)
		dir := filepath.Dir(left()[0])
		require.NoError(t, os.WriteFile(dir+".gone", nil, 0o600))
		if aside != "" {
			require.NoError(t, os.Rename(dir, dir+aside))
		}
		spec.Existing = true
		_, err = b.Open(t.Context(), spec)
		require.ErrorIs(t, err, sandbox.ErrGone)
		require.Empty(t, left())
	}
}

// TestARecordThatCannotBeRead: the other sandboxes are listed all the same, and it is
// said once, and once more when it could be read in between.
func TestARecordThatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var log bytes.Buffer
	b, err := local.New(t.Context(), local.Config{DataDir: dir, NoIsolation: true, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))})
	require.NoError(t, err)
	for _, id := range []string{"one", "two"} {
		_, err := b.Open(t.Context(), sandbox.Spec{ID: id})
		require.NoError(t, err)
	}
	records, err := filepath.Glob(filepath.Join(dir, "sandboxes", "two*", "sandbox.json"))
	require.NoError(t, err)
	require.Len(t, records, 1)
	whole, err := os.ReadFile(records[0])
	require.NoError(t, err)
	look := func(want ...string) {
		t.Helper()
		boxes, err := b.Boxes()
		require.NoError(t, err)
		var ids []string
		for _, x := range boxes {
			ids = append(ids, x.ID)
		}
		require.ElementsMatch(t, want, ids)
	}
	require.NoError(t, os.WriteFile(records[0], whole[:len(whole)/2], 0o600))
	for range 3 {
		look("one")
	}
	require.Equal(t, 1, strings.Count(log.String(), filepath.Dir(records[0])))
	require.NoError(t, os.WriteFile(records[0], whole, 0o600))
	look("one", "two")
	require.NoError(t, os.WriteFile(records[0], nil, 0o600))
	look("one")
	require.Equal(t, 2, strings.Count(log.String(), filepath.Dir(records[0])))
}
