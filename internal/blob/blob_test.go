package blob_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/blob"
)

func open(t *testing.T, url string) *blob.Store {
	t.Helper()
	s, err := blob.Open(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"file": "file://" + filepath.Join(t.TempDir(), "a", "b"), "mem": "mem://"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, ctx := open(t, url), t.Context()

			key, err := s.Put(ctx, "text", []byte("hello"))
			require.NoError(t, err)
			require.Equal(t, "text/2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", key)
			again, err := s.Put(ctx, "text", []byte("hello"))
			require.NoError(t, err)
			require.Equal(t, key, again)

			got, err := s.Get(ctx, key)
			require.NoError(t, err)
			require.Equal(t, "hello", string(got))
			for _, c := range []struct {
				off, n int64
				want   string
			}{{0, 2, "he"}, {3, 99, "lo"}, {5, 1, ""}, {9, 1, ""}} {
				got, err := s.GetRange(ctx, key, c.off, c.n)
				require.NoError(t, err)
				require.Equal(t, c.want, string(got))
			}
			_, err = s.GetMax(ctx, key, 4)
			require.ErrorIs(t, err, blob.ErrTooLarge)
			_, err = s.Get(ctx, "text/none")
			require.ErrorIs(t, err, blob.ErrNotFound)
			_, err = s.GetRange(ctx, "text/none", 0, 1)
			require.ErrorIs(t, err, blob.ErrNotFound)

			require.NoError(t, s.PutNew(ctx, "x/1", []byte("one")))
			require.ErrorIs(t, s.PutNew(ctx, "x/1", []byte("two")), blob.ErrExists)
			require.NoError(t, s.Write(ctx, "x/2", []byte("two")))
			n, err := s.PutStream(ctx, "x/3", strings.NewReader("three"))
			require.NoError(t, err)
			require.EqualValues(t, 5, n)
			require.Equal(t, []string{"x/1 3", "x/2 3", "x/3 5"}, list(t, s, "x/"))

			require.NoError(t, s.Delete(ctx, "x/2"))
			require.NoError(t, s.Delete(ctx, "x/2"))
			require.Equal(t, []string{"x/1 3", "x/3 5"}, list(t, s, "x/"))
			for _, bad := range []string{"", "/a", "a/", "a//b", "../a", "a/../../b", ".", "a.tmp", "a.attrs", "a\x00", "a\\b", "a\xff"} {
				require.ErrorIs(t, s.Write(ctx, bad, nil), blob.ErrBadKey, bad)
			}
		})
	}
}

func list(t *testing.T, s *blob.Store, prefix string) []string {
	t.Helper()
	var out []string
	for o, err := range s.List(t.Context(), prefix) {
		require.NoError(t, err)
		out = append(out, o.Key+" "+string(rune('0'+o.Size)))
	}
	return out
}

func TestFailedStreamLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "blobs")
	s := open(t, "file://"+dir)
	_, err := s.PutStream(t.Context(), "k/v", io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errors.New("torn"))))
	require.ErrorContains(t, err, "torn")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.PutStream(ctx, "k/w", strings.NewReader("late"))
	require.Error(t, err)
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		require.False(t, err == nil && !d.IsDir(), "left behind: %s", p)
		return err
	}))
}

func TestFilesArePrivateAndBare(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "blobs")
	s := open(t, "file://"+dir)
	require.NoError(t, s.Write(t.Context(), "a/b", []byte("x")))
	var files []string
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, "%s is %s", p, info.Mode())
		if !d.IsDir() {
			files = append(files, d.Name())
		}
		return nil
	}))
	require.Equal(t, []string{"b"}, files)

	// What a killed writer left is no blob.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a", "b.18ecac1981198a05.tmp"), []byte("torn"), 0o600))
	require.Equal(t, []string{"a/b 1"}, list(t, s, "a/"))
	require.Equal(t, []string{"a/b 1"}, list(t, s, ""))
	require.Empty(t, list(t, s, "none/"))
}

// Listing while others write fails for nobody.
func TestListDuringWrites(t *testing.T) {
	t.Parallel()
	s := open(t, "file://"+filepath.Join(t.TempDir(), "blobs"))
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 100 {
				require.NoError(t, s.Write(t.Context(), fmt.Sprintf("a/%d-%d", w, i), []byte("x")))
			}
		})
	}
	wg.Go(func() {
		for range 100 {
			list(t, s, "a/")
		}
	})
	wg.Wait()
	require.Len(t, list(t, s, "a/"), 400)
}

func TestPutNewIsOnce(t *testing.T) {
	t.Parallel()
	s := open(t, "file://"+filepath.Join(t.TempDir(), "blobs"))
	for i := range 20 {
		key := fmt.Sprintf("a/%d", i)
		var wg sync.WaitGroup
		var won atomic.Int32
		for w := range 4 {
			wg.Go(func() {
				err := s.PutNew(t.Context(), key, []byte{byte(w)})
				if err == nil {
					won.Add(1)
				} else {
					require.ErrorIs(t, err, blob.ErrExists)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, won.Load())
	}
	require.Len(t, list(t, s, "a/"), 20)
}

func TestListOrder(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"file": "file://" + filepath.Join(t.TempDir(), "blobs"), "mem": "mem://"} {
		s := open(t, url)
		for _, key := range []string{"a-b", "a/b/c.d", "ab", "b"} {
			require.NoError(t, s.Write(t.Context(), key, nil))
		}
		require.Equal(t, []string{"a-b 0", "a/b/c.d 0", "ab 0"}, list(t, s, "a"), name)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"nosuch://x", "file://", "file:///tmp/x?metadata=", "://"} {
		_, err := blob.Open(t.Context(), url)
		require.Error(t, err, url)
	}
}

// A store tells its own time: not before what was written last, and not after what is
// written next.
func TestNow(t *testing.T) {
	t.Parallel()
	s, err := blob.Open(t.Context(), "file://"+t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	at := func(key string) time.Time {
		require.NoError(t, s.Write(t.Context(), key, []byte(key)))
		written, err := s.ModTime(t.Context(), key)
		require.NoError(t, err)
		return written
	}
	before := at("before")
	for range 2 {
		now, err := s.Now(t.Context())
		require.NoError(t, err)
		require.False(t, now.Before(before))
		require.False(t, at("after").Before(now))
	}
}

// Blobs come in the order of their keys, which is not that of directories; what is
// listed may be removed meanwhile, and a list may be left.
func TestListOfDirectories(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"mem://", "file://" + t.TempDir()} {
		s, err := blob.Open(t.Context(), url)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		keys := []string{"k/a-b/1", "k/a.txt", "k/a/1", "k/a/b/2", "k/a0", "kk/1"}
		for _, key := range slices.Backward(keys) {
			require.NoError(t, s.Write(t.Context(), key, []byte("x")))
		}
		list := func(prefix string) (found []string) {
			for o, err := range s.List(t.Context(), prefix) {
				require.NoError(t, err)
				found = append(found, o.Key)
			}
			return found
		}
		require.Equal(t, keys, list(""))
		require.Equal(t, keys[:5], list("k/"))
		require.Equal(t, []string{"k/a/1", "k/a/b/2"}, list("k/a/"))
		require.Equal(t, keys[:5], list("k/a"))
		require.Empty(t, list("k/a.txt/"))
		require.Empty(t, list("none/at/all"))
		for o, err := range s.List(t.Context(), "k/a/") {
			require.NoError(t, err)
			require.NoError(t, s.Delete(t.Context(), o.Key))
		}
		for range s.List(t.Context(), "") {
			break
		}
		require.NoError(t, s.Prune("k"))
		require.NoError(t, s.Prune("none"))
		require.Equal(t, []string{"k/a-b/1", "k/a.txt", "k/a0", "kk/1"}, list(""))
	}
}

// What is stored again is new by the store's clock, whatever the time is here: the
// store's may be ahead, and what it has an hour old, or a day.
func TestPutMakesNew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, "file://"+dir)
	key, err := s.Put(t.Context(), "k", []byte("x"))
	require.NoError(t, err)
	for _, at := range []time.Duration{-30 * time.Minute, 30 * time.Minute, 48 * time.Hour} {
		was := time.Now().Add(at)
		require.NoError(t, os.Chtimes(filepath.Join(dir, key), was, was))
		again, err := s.Put(t.Context(), "k", []byte("x"))
		require.NoError(t, err)
		require.Equal(t, key, again)
		now, err := s.Now(t.Context())
		require.NoError(t, err)
		got, err := s.ModTime(t.Context(), key)
		require.NoError(t, err)
		require.InDelta(t, 0, now.Sub(got).Seconds(), 60, at)
	}
}
