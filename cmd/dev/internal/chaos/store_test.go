package chaos

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/blob"
)

// While the store is away nothing is read, written or listed, and nothing is said to
// be absent that is there; afterwards all is as it was.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "blobs")
	s := &site{blobs: "file://" + dir}
	store, err := blob.Open(t.Context(), s.blobs)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	require.NoError(t, store.Write(t.Context(), "k/a/1", []byte("x")))
	ctx, back := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.storeAway(ctx, time.Hour) }()
	require.Eventually(t, func() bool {
		st, err := os.Lstat(filepath.Join(dir, "k"))
		return err == nil && st.Mode().IsRegular()
	}, time.Minute, time.Millisecond)
	_, err = store.Get(t.Context(), "k/a/1")
	require.Error(t, err)
	require.NotErrorIs(t, err, blob.ErrNotFound)
	require.Error(t, store.Write(t.Context(), "k/a/2", nil))
	require.Error(t, store.PutNew(t.Context(), "k/a/3", nil))
	listed := 0
	for _, err := range store.List(t.Context(), "k/a/") {
		require.Error(t, err)
		listed++
	}
	require.Equal(t, 1, listed, "nothing is said to be all there is")
	back()
	require.NoError(t, <-done)
	data, err := store.Get(t.Context(), "k/a/1")
	require.NoError(t, err)
	require.Equal(t, "x", string(data))
	require.NoError(t, store.Write(t.Context(), "k/a/2", nil))
	require.NoDirExists(t, filepath.Join(dir, "k"+awaySuffix))
}
