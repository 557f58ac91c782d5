package local

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/harness"
)

// withSpare opens a sandbox and makes a namespace ahead.
func withSpare(t *testing.T) (*session, *spare) {
	t.Helper()
	b, err := New(t.Context(), Config{DataDir: t.TempDir()})
	require.NoError(t, err)
	if ok, why := b.Isolated(); !ok {
		t.Skip(why)
	}
	opened, err := b.Open(t.Context(), sandbox.Spec{ID: "spare", Generation: 1})
	require.NoError(t, err)
	s := opened.(*session)
	t.Cleanup(func() { require.NoError(t, s.Destroy(context.WithoutCancel(t.Context()))) })
	s.Prepare()
	s.spares.makers.Wait()
	require.Len(t, s.spares.ready, 1)
	sp := s.spares.ready[0]
	self := filepath.Join(sp.dir, "run", "self")
	require.Eventually(t, func() bool { return size(self) > 0 }, patience, time.Millisecond)
	return s, sp
}

func output(t *testing.T, s *session, id string) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, s.Attach(t.Context(), id, sandbox.Stdout, 0, &out))
	return out.String()
}

func TestSpareIsUsedOnceAndReplaced(t *testing.T) {
	t.Parallel()
	s, sp := withSpare(t)
	before, err := os.Stat(filepath.Join(sp.dir, "stdout"))
	require.NoError(t, err)
	require.NoError(t, s.Start(t.Context(), sandbox.ExecSpec{ID: "a", Command: `echo "$COUNTERSIGN_EXEC in $PWD"`}))
	require.Equal(t, "a in /workspace\n", output(t, s, "a"))
	after, err := os.Stat(filepath.Join(s.record("a"), "stdout"))
	require.NoError(t, err, "the record is the one that was made ahead")
	require.NoFileExists(t, filepath.Join(s.record("a"), "run", "script"), "it holds the command's environment")
	require.True(t, os.SameFile(before, after))
	require.NoDirExists(t, sp.dir)
	require.Eventually(t, func() bool { return HasSpare(s) }, patience, time.Millisecond)
	require.NoError(t, s.Start(t.Context(), sandbox.ExecSpec{ID: "a", Command: `echo "$COUNTERSIGN_EXEC in $PWD"`}))
	require.True(t, HasSpare(s), "an exec that was started takes none")
}

// TestSpareWhoseWorkerDies lets the worker die at each point of a start.
func TestSpareWhoseWorkerDies(t *testing.T) {
	t.Parallel()
	for name, with := range map[string]func(*testing.T) (*session, *spare){"of a new keeper": withSpare, "of a used keeper": withUsed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testSpareWhoseWorkerDies(t, with)
		})
	}
}

func testSpareWhoseWorkerDies(t *testing.T, with func(*testing.T) (*session, *spare)) {
	spec := sandbox.ExecSpec{ID: "a", Command: "echo ran >> once", Limits: sandbox.Limits{}.WithDefaults()}
	order := func(s *session) (job, string) {
		j := job{Command: spec.Command, Cwd: insideWorkspace}
		script, ok := harness.Order{Cwd: j.Cwd, Env: s.env(spec.ID, nil), Argv: s.shellArgv(j.Command)}.Script()
		require.True(t, ok)
		return j, script
	}
	runs := func(s *session) string {
		data, err := os.ReadFile(filepath.Join(s.root.Name(), "once"))
		if os.IsNotExist(err) {
			return ""
		}
		require.NoError(t, err)
		return string(data)
	}
	t.Run("before it has a command", func(t *testing.T) {
		t.Parallel()
		_, sp := with(t)
		sp.keeper.giveUp()
		<-sp.ended
		require.NoDirExists(t, sp.dir)
	})
	t.Run("before the exec has a record", func(t *testing.T) {
		t.Parallel()
		s, sp := with(t)
		_, script := order(s)
		require.NoError(t, os.WriteFile(filepath.Join(sp.dir, "run", "script"), []byte(script), 0o600))
		sp.keeper.giveUp()
		<-sp.ended
		require.NoDirExists(t, sp.dir)
		require.Empty(t, runs(s))
		_, err := s.Status(t.Context(), "a")
		require.ErrorIs(t, err, sandbox.ErrNoExec)
		require.NoError(t, s.Start(t.Context(), spec))
		output(t, s, "a")
		require.Equal(t, "ran\n", runs(s))
	})
	t.Run("once the exec has a record", func(t *testing.T) {
		t.Parallel()
		s, sp := with(t)
		j, script := order(s)
		k := sp.keeper
		unheard, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		require.NoError(t, err)
		defer unheard.Close()
		sp.keeper = &keeping{orders: unheard}
		require.NoError(t, s.claim(sp, spec, j, script))
		sp.keeper = k
		st, err := s.Status(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, sandbox.StateRunning, st.State)
		require.NoError(t, s.Start(t.Context(), spec), "whoever starts it again attaches")
		require.Empty(t, runs(s))
		k.giveUp()
		output(t, s, "a")
		require.Equal(t, "ran\n", runs(s))
		require.Equal(t, sandbox.StateExited, mustStatus(t, s, "a").State)
	})
}

func mustStatus(t *testing.T, s *session, id string) sandbox.ExecStatus {
	t.Helper()
	st, err := s.Status(t.Context(), id)
	require.NoError(t, err)
	return st
}

// TestSpareLeavesNothingBehind: a sandbox's directory may go away before the harness.
func TestSpareLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s, sp := withSpare(t)
	require.NoError(t, s.Start(t.Context(), sandbox.ExecSpec{ID: "a", Command: "sleep 1000"}))
	line, err := os.ReadFile(filepath.Join(s.record("a"), "run", "init"))
	require.NoError(t, err)
	init, err := harness.ParseProcess(string(line))
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(s.record("a")))
	require.NoError(t, syscall.Kill(init.PID, syscall.SIGKILL))
	<-sp.ended
	require.Eventually(t, func() bool {
		lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
		require.NoError(t, err)
		for _, p := range lines {
			if data, _ := os.ReadFile(p); bytes.Contains(data, []byte(sp.dir)) {
				return false
			}
		}
		return true
	}, patience, 10*time.Millisecond)
}

// TestSparesOfAQuickSession: one is made while another serves, where commands follow
// each other closely.
func TestSparesOfAQuickSession(t *testing.T) {
	t.Parallel()
	s, _ := withSpare(t)
	waiting := func() int {
		s.spares.mu.Lock()
		defer s.spares.mu.Unlock()
		return len(s.spares.ready)
	}
	require.NoError(t, s.Start(t.Context(), sandbox.ExecSpec{ID: "a", Command: "true"}))
	output(t, s, "a")
	require.Eventually(t, func() bool { return waiting() == 1 }, patience, time.Millisecond)
	s.spares.mu.Lock()
	s.spares.taken = time.Now() // however long this machine has taken
	s.spares.mu.Unlock()
	require.NoError(t, s.Start(t.Context(), sandbox.ExecSpec{ID: "b", Command: "true"}))
	output(t, s, "b")
	require.Eventually(t, func() bool { return waiting() == mostSpares }, patience, time.Millisecond)
	s.spares.mu.Lock()
	idle := s.spares.ready[1]
	s.spares.mu.Unlock()
	s.drop(idle)
	require.Equal(t, 1, s.spares.wanted, "one that nobody wants is not made again")
	require.Equal(t, int32(1), s.b.spares.Load())
}

func TestSpareIsNotUsedWhereAnotherWouldBeMade(t *testing.T) {
	t.Parallel()
	s, sp := withSpare(t)
	sp.argv = append(sp.argv, "another")
	require.NoError(t, s.Start(t.Context(), sandbox.ExecSpec{ID: "a", Command: "echo fresh"}))
	require.Equal(t, "fresh\n", output(t, s, "a"))
	<-sp.ended
	require.NoDirExists(t, sp.dir)
}

func TestSpareCannotCarryEveryEnvironment(t *testing.T) {
	t.Parallel()
	s, sp := withSpare(t)
	require.NoError(t, s.Start(t.Context(), sandbox.ExecSpec{ID: "a", Command: "echo made for it", Env: map[string]string{"odd-name": "1"}}))
	require.Equal(t, "made for it\n", output(t, s, "a"))
	require.DirExists(t, sp.dir)
}

func TestSpareEnds(t *testing.T) {
	t.Parallel()
	s, sp := withSpare(t)
	s.drop(sp)
	require.NoDirExists(t, sp.dir)
	require.Zero(t, s.b.spares.Load())
	s.Prepare()
	s.spares.makers.Wait()
	sp = s.spares.ready[0]
	require.NoError(t, s.Release(t.Context()))
	<-sp.ended
	require.Zero(t, s.b.spares.Load())
	s.Prepare()
	require.False(t, HasSpare(s), "what was given up makes none")
}
