package owned_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/blob/execlog"
	"github.com/countersign/countersign/internal/blob/owned"
)

// needs are a living session, two that are over, of which the living one was made from
// the second, and an upload and a text that wait.
type needs struct{ arriving []string }

func (needs) Over(id string) bool        { return id == over || id == source }
func (needs) Inherited(id string) bool   { return id == source }
func (n needs) Arriving(key string) bool { return slices.Contains(n.arriving, key) }

const (
	alive  = "agent/web/main/1"
	over   = "agent/slack/T1/C1/1700000000.000100"
	source = "agent/discord/G1/11"
)

// What is of a session that is over is removed, and uploads that nobody waits for;
// nothing else is, and what was written anew since the look is not.
func TestRemove(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, url := range []string{"mem://", "file://" + dir} {
		store, err := blob.Open(t.Context(), url)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		put := func(prefix, text string) string {
			key, err := store.Put(t.Context(), prefix, []byte(text))
			require.NoError(t, err)
			return key
		}
		var stay, gone []string
		for _, kind := range []string{
			owned.Attached, owned.Sent, owned.Waiting, owned.Seen, owned.Texts, owned.Arguments, owned.Bindings,
			owned.Details, owned.Outputs, owned.Guides,
		} {
			stay = append(stay, put(owned.Prefix(kind, alive), "a"), put(kind, "nobody's"), put(owned.Prefix(kind, over+"0"), "another's"))
			gone = append(gone, put(owned.Prefix(kind, over), "a"), put(owned.Prefix(kind, source), "a"))
		}
		for _, kind := range []string{owned.Transcripts, owned.Images} {
			stay = append(stay, put(owned.Prefix(kind, alive), "a"), put(kind, "nobody's"), put(owned.Prefix(kind, source), "shared"))
			gone = append(gone, put(owned.Prefix(kind, over), "a"))
		}
		for _, id := range []string{alive, over} {
			l := execlog.New(store, id)
			require.NoError(t, l.Append(t.Context(), "1.1/x", execlog.Stdout, 0, []byte("a")))
			for o, err := range store.List(t.Context(), execlog.Prefix(id)) {
				require.NoError(t, err)
				if id == over {
					gone = append(gone, o.Key)
				} else {
					stay = append(stay, o.Key)
				}
			}
		}
		upload, text := put(owned.Uploads, "waits"), put(owned.Messages, "waits")
		stay = append(stay, upload, text, put("audit/"+over, "the record"), put("commands", "the record"), put(owned.Execs, "nobody's"))
		gone = append(gone, put(owned.Uploads, "taken"), put(owned.Messages, "taken"))

		before := time.Now().Add(time.Minute) // all of it is old
		collect := func(before time.Time, dry bool) owned.Collected {
			old, kept, err := owned.Candidates(t.Context(), store, before)
			require.NoError(t, err)
			res, err := owned.Remove(t.Context(), store, old, before, dry, needs{[]string{upload, text}})
			require.NoError(t, err)
			res.Kept += kept
			return res
		}
		none := collect(time.Now().Add(-time.Minute), false)
		require.Zero(t, none.Blobs, "they are young")
		said := collect(before, true)
		require.Equal(t, len(gone), said.Blobs)

		// Cut short in the middle, and done again.
		old, _, err := owned.Candidates(t.Context(), store, before)
		require.NoError(t, err)
		_, err = owned.Remove(t.Context(), store, old[:len(old)/2], before, false, needs{[]string{upload, text}})
		require.NoError(t, err)
		require.NoError(t, store.Write(t.Context(), gone[0], []byte("a")))
		res, err := owned.Remove(t.Context(), store, old, before, false, needs{[]string{upload, text}})
		require.NoError(t, err, "also of what has gone meanwhile")
		require.Less(t, res.Blobs, said.Blobs)
		require.Zero(t, collect(before, false).Blobs)
		for _, key := range stay {
			require.True(t, exists(t.Context(), t, store, key), key)
		}
		for _, key := range gone {
			require.False(t, exists(t.Context(), t, store, key), key)
		}
	}
	require.NoDirExists(t, filepath.Join(dir, owned.Execs, over), "nothing is left of it")
	require.DirExists(t, filepath.Join(dir, owned.Execs, alive))
	left, err := os.ReadDir(filepath.Join(dir, owned.Outputs, "agent"))
	require.NoError(t, err)
	require.NotEmpty(t, left)
}

func exists(ctx context.Context, t *testing.T, store *blob.Store, key string) bool {
	t.Helper()
	ok, err := store.Exists(ctx, key)
	require.NoError(t, err)
	return ok
}

// An upload that somebody makes again while it is looked for is not removed.
func TestWrittenAnew(t *testing.T) {
	t.Parallel()
	store, err := blob.Open(t.Context(), "mem://")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	key, err := store.Put(t.Context(), owned.Uploads, []byte("a"))
	require.NoError(t, err)
	before := time.Now()
	old, _, err := owned.Candidates(t.Context(), store, before)
	require.NoError(t, err)
	require.Len(t, old, 1)
	require.NoError(t, store.Write(t.Context(), key, []byte("a")))
	res, err := owned.Remove(t.Context(), store, old, before, false, needs{})
	require.NoError(t, err)
	require.Equal(t, owned.Collected{Kept: 1}, res)
	require.True(t, exists(t.Context(), t, store, key))
}
