package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/local"
)

// On a disk that has room for little more an exec is refused, or it ends: none seems to
// run on because its end cannot be written down.
func TestHardlyAnyRoom(t *testing.T) {
	t.Parallel()
	for pages := range 10 {
		t.Run(fmt.Sprint(pages, " pages"), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
				t.Skipf("a small disk cannot be mounted here: %v", err)
			}
			t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
			b, err := local.New(t.Context(), local.Config{DataDir: dir})
			require.NoError(t, err)
			s := openOne(t, b)
			workspaces, err := filepath.Glob(filepath.Join(dir, "sandboxes", "*", "workspace"))
			require.NoError(t, err)
			require.Len(t, workspaces, 1)
			leave(t, filepath.Join(workspaces[0], "full"), pages)

			if err := s.Start(t.Context(), sandbox.ExecSpec{ID: "e", Command: "true"}); err != nil {
				require.ErrorIs(t, err, syscall.ENOSPC)
				return
			}
			require.Eventually(t, func() bool {
				st, err := s.Status(t.Context(), "e")
				require.NoError(t, err)
				return st.Ended()
			}, patience, 20*time.Millisecond)
		})
	}
}

// leave fills a disk up to so many pages.
func leave(t *testing.T, file string, pages int) {
	t.Helper()
	f, err := os.Create(file)
	require.NoError(t, err)
	page := make([]byte, os.Getpagesize())
	written := 0
	for ; err == nil; written++ {
		_, err = f.Write(page)
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, f.Truncate(int64((written-1-pages)*len(page))))
	require.NoError(t, f.Close())
}
