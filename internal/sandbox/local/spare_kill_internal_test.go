package local

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/stretchr/testify/require"
)

// killedWorker opens a sandbox, runs so many execs in it in namespaces that were made
// ahead and, where it is to, begins one more; then it waits for its end.
func killedWorker(t *testing.T, dir string) {
	b, err := New(t.Context(), Config{DataDir: dir})
	require.NoError(t, err)
	opened, err := b.Open(t.Context(), sandbox.Spec{ID: "spare", Generation: 1})
	require.NoError(t, err)
	s := opened.(*session)
	s.Prepare()
	s.spares.makers.Wait()
	execs, err := strconv.Atoi(os.Getenv("SPARE_EXECS"))
	require.NoError(t, err)
	for i := range execs {
		output(t, s, started(t, s, strconv.Itoa(i)))
		require.Eventually(t, func() bool { return HasSpare(s) }, patience, time.Millisecond)
	}
	if os.Getenv("SPARE_RUNS") != "" {
		spec := sandbox.ExecSpec{ID: "last", Command: "echo ran >> once; until [ -e go ]; do sleep 0.02; done"}
		require.NoError(t, s.Start(t.Context(), spec))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "ready"), nil, 0o600))
	select {}
}

// TestSpareOfAKilledWorker: nothing waits for a command of a worker that is gone, and
// its last command runs to its end.
func TestSpareOfAKilledWorker(t *testing.T) {
	if dir := os.Getenv("SPARE_WORKER"); dir != "" {
		killedWorker(t, dir)
	}
	t.Parallel()
	for name, test := range map[string]struct {
		execs        string
		frozen, runs bool
	}{
		"a new keeper":                  {execs: "0"},
		"a new keeper, frozen":          {execs: "0", frozen: true},
		"a used keeper":                 {execs: "3"},
		"a used keeper, frozen":         {execs: "3", frozen: true},
		"a used keeper, with a command": {execs: "2", runs: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b, err := New(t.Context(), Config{DataDir: dir})
			require.NoError(t, err)
			if ok, why := b.Isolated(); !ok {
				t.Skip(why)
			}
			cmd := exec.Command(os.Args[0], "-test.run=^TestSpareOfAKilledWorker$")
			cmd.Env = append(os.Environ(), "SPARE_WORKER="+dir, "SPARE_EXECS="+test.execs)
			if test.runs {
				cmd.Env = append(cmd.Env, "SPARE_RUNS=1")
			}
			require.NoError(t, cmd.Start())
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			require.Eventually(t, func() bool { return exists(filepath.Join(dir, "ready")) }, patience, time.Millisecond)
			require.NotEmpty(t, naming(t, dir))
			if test.frozen {
				require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
			}
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait()
			if test.runs {
				endLast(t, b)
			}
			nothingLeft(t, dir)
			left, _ := filepath.Glob(filepath.Join(dir, "sandboxes", "*", "execs", spareMark+"*"))
			require.Empty(t, left)
		})
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// endLast lets the killed worker's last command end, as its next worker.
func endLast(t *testing.T, b *Backend) {
	t.Helper()
	opened, err := b.Open(t.Context(), sandbox.Spec{ID: "spare", Generation: 1, Existing: true})
	require.NoError(t, err)
	s := opened.(*session)
	running, err := s.Running(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"last"}, running)
	require.NoError(t, s.WriteFile(t.Context(), "go", nil))
	output(t, s, "last")
	require.Equal(t, sandbox.StateExited, mustStatus(t, s, "last").State)
	data, _, err := s.ReadFile(t.Context(), "once", 100)
	require.NoError(t, err)
	require.Equal(t, "ran\n", string(data))
}
