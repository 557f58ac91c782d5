package local

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
)

// withSpareOf is withSpare with another limit of the output.
func withSpareOf(t *testing.T, limit int64) *session {
	t.Helper()
	s, _ := withSpare(t)
	s.takeSpare().end()
	sp, err := s.makeSpare(nil, limit)
	require.NoError(t, err)
	t.Cleanup(sp.end)
	self := filepath.Join(sp.dir, "run", "self")
	require.Eventually(t, func() bool { return size(self) > 0 }, patience, time.Millisecond)
	s.spares.mu.Lock()
	s.b.spares.Add(1)
	s.spares.ready, s.spares.wanted = []*spare{sp}, 0
	s.spares.mu.Unlock()
	return s
}

// kept is how an exec ended, and what it printed.
type kept struct {
	state       sandbox.State
	code        int
	out, errors string
}

func keptOf(t *testing.T, s *session, spec sandbox.ExecSpec) kept {
	t.Helper()
	require.NoError(t, s.Start(t.Context(), spec))
	var out, problem bytes.Buffer
	require.NoError(t, s.Attach(t.Context(), spec.ID, sandbox.Stdout, 0, &out))
	require.NoError(t, s.Attach(t.Context(), spec.ID, sandbox.Stderr, 0, &problem))
	st := mustStatus(t, s, spec.ID)
	return kept{st.State, st.ExitCode, out.String(), problem.String()}
}

// TestKeeperDoesWhatTheScriptDoes runs commands in a namespace that was made ahead
// and in one made for them: a command cannot tell, and neither can who reads its
// record.
func TestKeeperDoesWhatTheScriptDoes(t *testing.T) {
	t.Parallel()
	if signal.Ignored(syscall.SIGHUP) { // by nohup: what a shell has inherited so it cannot change, a keeper does
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	for name, command := range map[string]string{
		"streams and code":     "echo out; echo problem >&2; exit 3",
		"nothing":              "true",
		"killed":               "echo out; kill -KILL $$",
		"terminated":           "kill -TERM $$",
		"high code":            "exit 255",
		"left in background":   "sleep 1000 & sleep 1000 >/dev/null 2>&1 & echo out",
		"closed streams":       "exec >&- 2>&-; exit 7",
		"no such program":      "countersign-no-such-program",
		"limits":               "umask; ulimit -c; ulimit -n; ulimit -f",
		"open files":           "ls /proc/self/fd; grep flags /proc/self/fdinfo/[012]; cat; test -t 0 || echo no terminal",
		"signals":              "grep -E 'SigBlk|SigIgn|SigCgt' /proc/self/status",
		"sessions and parents": "cut -d' ' -f 1,4-6 /proc/$$/stat; tr '\\0' ' ' </proc/$$/cmdline; pwd",
		"environment":          "env | grep -v COUNTERSIGN_EXEC | sort",
		"a megabyte":           "yes 0123456789abcde | head -c 1048576",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := withSpareOf(t, sandbox.DefaultOutputBytes)
			spec := sandbox.ExecSpec{ID: "ahead", Command: command, Env: map[string]string{"WORD": "it's"}}
			ahead := keptOf(t, s, spec)
			require.FileExists(t, filepath.Join(s.record("ahead"), "run", "timeout"), "it was made ahead")
			again(t, s, sandbox.DefaultOutputBytes)
			spec.ID = "again"
			require.Equal(t, keptOf(t, s, spec), ahead)
			require.Equal(t, keeps(t, s, "ahead"), keeps(t, s, "again"))
			s.endSpares()
			spec.ID = "fresh"
			require.Equal(t, keptOf(t, s, spec), ahead)
			require.NoFileExists(t, filepath.Join(s.record("fresh"), "run", "timeout"))
		})
	}
}

func TestKeeperEndsACommand(t *testing.T) {
	t.Parallel()
	t.Run("its first", func(t *testing.T) {
		t.Parallel()
		testKeeperEndsACommand(t, withSpareOf)
	})
	t.Run("its second", func(t *testing.T) {
		t.Parallel()
		testKeeperEndsACommand(t, func(t *testing.T, limit int64) *session {
			s, _ := withUsedOf(t, limit)
			return s
		})
	})
}

func testKeeperEndsACommand(t *testing.T, with func(*testing.T, int64) *session) {
	const forever = `trap 'echo asked; exit 4' TERM; echo begun; while :; do sleep 0.05; done`
	t.Run("when its time is over", func(t *testing.T) {
		t.Parallel()
		s := with(t, sandbox.DefaultOutputBytes)
		got := keptOf(t, s, sandbox.ExecSpec{ID: "a", Command: forever, Limits: sandbox.Limits{Timeout: 5 * time.Second}})
		got.errors = "" // the shell may say that its sleep was terminated
		require.Equal(t, kept{state: sandbox.StateTimedOut, code: 4, out: "begun\nasked\n"}, got)
	})
	t.Run("that does not listen", func(t *testing.T) {
		t.Parallel()
		s := with(t, sandbox.DefaultOutputBytes)
		got := keptOf(t, s, sandbox.ExecSpec{ID: "a", Command: "trap '' TERM; while :; do sleep 0.05; done", Limits: sandbox.Limits{Timeout: 4 * time.Second}})
		got.errors = ""
		require.Equal(t, kept{state: sandbox.StateTimedOut, code: 137}, got)
	})
	t.Run("that is stopped", func(t *testing.T) {
		t.Parallel()
		s := with(t, sandbox.DefaultOutputBytes)
		require.NoError(t, s.Start(t.Context(), sandbox.ExecSpec{ID: "a", Command: forever}))
		require.Eventually(t, func() bool { return size(filepath.Join(s.record("a"), "stdout")) > 0 }, patience, time.Millisecond)
		require.NoError(t, s.Signal(t.Context(), "a", sandbox.SignalFreeze))
		require.NoError(t, s.Signal(t.Context(), "a", sandbox.SignalThaw))
		require.NoError(t, s.Signal(t.Context(), "a", sandbox.SignalStop))
		require.Equal(t, "begun\nasked\n", output(t, s, "a"))
		require.Equal(t, sandbox.StateCancelled, mustStatus(t, s, "a").State)
	})
	for stream, to := range map[sandbox.Stream]string{sandbox.Stdout: "", sandbox.Stderr: " >&2"} {
		t.Run("that writes too much to "+string(stream), func(t *testing.T) {
			t.Parallel()
			s := with(t, 10_000)
			got := keptOf(t, s, sandbox.ExecSpec{ID: "a", Command: "yes" + to + "; echo never"})
			require.Equal(t, sandbox.StateOutputLimit, got.state)
			require.Equal(t, 10_000, len(got.out)+len(got.errors))
			require.NotContains(t, got.out, "never")
		})
	}
}

// TestKeeperIsKilled: what the command came to is not known then, and it does not
// run again.
func TestKeeperIsKilled(t *testing.T) {
	t.Parallel()
	s, _ := withSpare(t)
	spec := sandbox.ExecSpec{ID: "a", Command: "echo run >> runs; while :; do sleep 0.05; done"}
	require.NoError(t, s.Start(t.Context(), spec))
	runs := filepath.Join(s.root.Name(), "runs")
	require.Eventually(t, func() bool { return size(runs) > 0 }, patience, time.Millisecond)
	require.NoError(t, syscall.Kill(keeps(t, s, "a"), syscall.SIGKILL))
	require.NoError(t, s.Attach(t.Context(), "a", sandbox.Stdout, 0, &bytes.Buffer{}), "an attachment ends")
	require.NoError(t, s.Start(t.Context(), spec))
	require.Equal(t, sandbox.StateUnknown, mustStatus(t, s, "a").State)
	require.NoError(t, s.Signal(t.Context(), "a", sandbox.SignalKill), "what it left running ends")
	data, err := os.ReadFile(runs)
	require.NoError(t, err)
	require.Equal(t, "run\n", string(data))
}

// TestKeeperOutlivesSignals that end a worker's whole group.
func TestKeeperOutlivesSignals(t *testing.T) {
	t.Parallel()
	s, _ := withSpare(t)
	require.NoError(t, s.Start(t.Context(), sandbox.ExecSpec{ID: "a", Command: "while [ ! -e go ]; do sleep 0.05; done; echo went"}))
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGUSR1} {
		require.NoError(t, syscall.Kill(keeps(t, s, "a"), sig))
	}
	require.NoError(t, s.WriteFile(context.WithoutCancel(t.Context()), "go", nil))
	require.Equal(t, "went", strings.TrimSpace(output(t, s, "a")))
	require.Equal(t, sandbox.StateExited, mustStatus(t, s, "a").State)
}
