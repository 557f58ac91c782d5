package local

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/stretchr/testify/require"
)

// TestSpareOfAKilledWorker: nothing waits for a command of a worker that is gone.
func TestSpareOfAKilledWorker(t *testing.T) {
	if dir := os.Getenv("SPARE_WORKER"); dir != "" {
		b, err := New(t.Context(), Config{DataDir: dir})
		require.NoError(t, err)
		opened, err := b.Open(t.Context(), sandbox.Spec{ID: "spare", Generation: 1})
		require.NoError(t, err)
		opened.(*session).Prepare()
		select {}
	}
	t.Parallel()
	for _, frozen := range []bool{false, true} {
		t.Run(fmt.Sprint("frozen ", frozen), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b, err := New(t.Context(), Config{DataDir: dir})
			require.NoError(t, err)
			if ok, why := b.Isolated(); !ok {
				t.Skip(why)
			}
			cmd := exec.Command(os.Args[0], "-test.run=^TestSpareOfAKilledWorker$")
			cmd.Env = append(os.Environ(), "SPARE_WORKER="+dir)
			require.NoError(t, cmd.Start())
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			waiting := func() int {
				n := 0
				lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
				for _, p := range lines {
					if data, err := os.ReadFile(p); err == nil && strings.Contains(string(data), dir) {
						n++
					}
				}
				return n
			}
			selfs := filepath.Join(dir, "sandboxes", "*", "execs", spareMark+"*", "run", "self")
			require.Eventually(t, func() bool { found, _ := filepath.Glob(selfs); return len(found) > 0 && size(found[0]) > 0 }, patience, time.Millisecond)
			require.Positive(t, waiting())
			if frozen {
				require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
			}
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait()
			require.Eventually(t, func() bool { return waiting() == 0 }, patience, 5*time.Millisecond)
			left, _ := filepath.Glob(filepath.Join(dir, "sandboxes", "*", "execs", spareMark+"*"))
			require.Empty(t, left)
		})
	}
}
