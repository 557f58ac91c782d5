package transcript_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/agent/transcript"
	"github.com/countersign/countersign/internal/blob"
)

// counting is a blob store that counts reads.
type counting struct {
	*blob.Store

	mu   sync.Mutex
	gets int
}

func (c *counting) Get(ctx context.Context, key string) ([]byte, error) {
	c.mu.Lock()
	c.gets++
	c.mu.Unlock()
	return c.Store.Get(ctx, key)
}

func (c *counting) reads() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gets
}

func open(t *testing.T) *counting {
	t.Helper()
	s, err := blob.Open(t.Context(), "mem://")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return &counting{Store: s}
}

func record(n int) transcript.Record {
	return transcript.Record{
		Item: json.RawMessage(fmt.Sprintf(`{"role":"user","content":"<%d> & ü"}`, n)), Author: "@ada", Turn: n,
	}
}

func items(records []transcript.Record) []string {
	var got []string
	for _, r := range records {
		got = append(got, string(r.Item))
	}
	return got
}

func TestAppendAndLoadKeepOrderAndBytes(t *testing.T) {
	t.Parallel()
	blobs := open(t)
	s := transcript.NewStore(blobs, 0)
	ref, refs := "", []string{""}
	var want []string
	for n := range 200 {
		var err error
		ref, err = s.Append(t.Context(), "agent/web/main/t1", ref, []transcript.Record{record(2 * n), record(2*n + 1)})
		require.NoError(t, err)
		refs = append(refs, ref)
		want = append(want, string(record(2*n).Item), string(record(2*n+1).Item))
	}
	fresh := transcript.NewStore(blobs, 0)
	for n, ref := range refs {
		got, err := fresh.Load(t.Context(), ref)
		require.NoError(t, err)
		if n > 0 {
			require.Equal(t, want[:2*n], items(got), "what a reference stands for never changes")
		} else {
			require.Empty(t, got)
		}
	}
}

// Loading after n steps reads about log2 n blobs, and a warm cache reads none.
func TestLoadReadsFewBlobs(t *testing.T) {
	t.Parallel()
	blobs := open(t)
	s := transcript.NewStore(blobs, 0)
	ref := ""
	for n := range 1000 {
		var err error
		ref, err = s.Append(t.Context(), "s", ref, []transcript.Record{record(n)})
		require.NoError(t, err)
	}
	require.Zero(t, blobs.reads(), "appending with a warm cache")
	got, err := s.Load(t.Context(), ref)
	require.NoError(t, err)
	require.Len(t, got, 1000)
	require.Zero(t, blobs.reads(), "loading with a warm cache")

	cold := transcript.NewStore(blobs, 0)
	_, err = cold.Load(t.Context(), ref)
	require.NoError(t, err)
	require.LessOrEqual(t, blobs.reads(), 10)
	keys, err := cold.Keys(t.Context(), ref)
	require.NoError(t, err)
	require.Len(t, keys, blobs.reads())
}

// A cache too small for anything still gives right answers, and reads few
// blobs for each append.
func TestWithoutCache(t *testing.T) {
	t.Parallel()
	blobs := open(t)
	s := transcript.NewStore(blobs, -1)
	ref := ""
	for n := range 100 {
		var err error
		ref, err = s.Append(t.Context(), "s", ref, []transcript.Record{record(n)})
		require.NoError(t, err)
	}
	require.LessOrEqual(t, blobs.reads(), 200, "amortised two reads an append")
	got, err := s.Load(t.Context(), ref)
	require.NoError(t, err)
	require.Len(t, got, 100)
	require.Equal(t, 99, got[99].Turn)
}

func TestSegmentsStopGrowing(t *testing.T) {
	t.Parallel()
	blobs := open(t)
	s := transcript.NewStore(blobs, 0)
	big := transcript.Record{Item: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)}
	ref := ""
	for range 16 {
		var err error
		ref, err = s.Append(t.Context(), "s", ref, []transcript.Record{big})
		require.NoError(t, err)
	}
	for o, err := range blobs.List(t.Context(), transcript.Prefix) {
		require.NoError(t, err)
		require.LessOrEqual(t, o.Size, int64(5<<20))
	}
	got, err := s.Load(t.Context(), ref)
	require.NoError(t, err)
	require.Len(t, got, 16)
}

// A fork shares the past and neither side sees the other's future; nor does a
// zombie attempt damage anything.
func TestForksAndZombies(t *testing.T) {
	t.Parallel()
	s := transcript.NewStore(open(t), 0)
	base, err := s.Append(t.Context(), "parent", "", []transcript.Record{record(1)})
	require.NoError(t, err)
	mine, err := s.Append(t.Context(), "parent", base, []transcript.Record{record(2)})
	require.NoError(t, err)
	again, err := s.Append(t.Context(), "parent", base, []transcript.Record{record(2)})
	require.NoError(t, err)
	require.Equal(t, mine, again, "the same content has the same reference")
	zombie, err := s.Append(t.Context(), "parent", base, []transcript.Record{record(3)})
	require.NoError(t, err)
	child, err := s.Append(t.Context(), "child", mine, []transcript.Record{record(4)})
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(child, transcript.Folder("child")))
	require.NotEqual(t, mine, zombie)

	got, err := s.Load(t.Context(), mine)
	require.NoError(t, err)
	require.Equal(t, []string{string(record(1).Item), string(record(2).Item)}, items(got))
	got, err = s.Load(t.Context(), child)
	require.NoError(t, err)
	require.Len(t, got, 3)
	nothing, err := s.Append(t.Context(), "child", child, nil)
	require.NoError(t, err)
	require.Equal(t, child, nothing)
}

func TestLoadRefusesWhatIsNotThere(t *testing.T) {
	t.Parallel()
	blobs := open(t)
	s := transcript.NewStore(blobs, -1)
	ref, err := s.Append(t.Context(), "s", "", []transcript.Record{record(1)})
	require.NoError(t, err)
	data, err := blobs.Store.Get(t.Context(), ref)
	require.NoError(t, err)

	require.NoError(t, blobs.Write(t.Context(), ref, append(data, ' ')))
	_, err = s.Load(t.Context(), ref)
	require.ErrorIs(t, err, transcript.ErrCorrupt)

	require.NoError(t, blobs.Delete(t.Context(), ref))
	_, err = s.Load(t.Context(), ref)
	require.ErrorIs(t, err, transcript.ErrMissing)
	_, err = s.Append(t.Context(), "s", ref, []transcript.Record{record(2)})
	require.ErrorIs(t, err, transcript.ErrMissing)
	_, err = s.Load(t.Context(), "somewhere/else")
	require.ErrorIs(t, err, transcript.ErrCorrupt)
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	s := transcript.NewStore(open(t), 4<<10)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			ref := ""
			for n := range 50 {
				var err error
				ref, err = s.Append(t.Context(), fmt.Sprint("s", g), ref, []transcript.Record{record(n)})
				if err != nil {
					t.Error(err)
					return
				}
			}
			if got, err := s.Load(t.Context(), ref); err != nil || len(got) != 50 {
				t.Errorf("%d records, %v", len(got), err)
			}
		})
	}
	wg.Wait()
}
