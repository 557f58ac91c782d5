package local

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/harness"
)

// withUsed is withSpare with a keeper that has served an exec, "before", already.
func withUsed(t *testing.T) (*session, *spare) {
	t.Helper()
	return withUsedOf(t, sandbox.DefaultOutputBytes)
}

// withUsedOf is withUsed with another limit of the output.
func withUsedOf(t *testing.T, limit int64) (*session, *spare) {
	t.Helper()
	s, _ := withSpare(t)
	s.spares.mu.Lock()
	s.spares.wanted = 0
	s.spares.mu.Unlock()
	got := keptOf(t, s, sandbox.ExecSpec{ID: "before", Command: "umask 077; ulimit -n 20; export LATER=1; sleep 1000 & echo before; exit 3", Env: map[string]string{"WORD": "another", "ONLY": "before"}})
	require.Equal(t, kept{state: sandbox.StateExited, code: 3, out: "before\n"}, got)
	return s, again(t, s, limit)
}

// idles waits until the session has a keeper that does nothing.
func idles(t *testing.T, s *session) *keeping {
	t.Helper()
	var k *keeping
	require.Eventually(t, func() bool {
		s.spares.mu.Lock()
		defer s.spares.mu.Unlock()
		if len(s.spares.idle) > 0 {
			k = s.spares.idle[0]
		}
		return k != nil
	}, patience, time.Millisecond)
	return k
}

// again has the session's keeper make one more namespace, and no other after that.
func again(t *testing.T, s *session, limit int64) *spare {
	t.Helper()
	k := idles(t, s)
	s.spares.mu.Lock()
	require.Same(t, k, s.spares.pop())
	s.spares.mu.Unlock()
	sp, err := s.makeSpare(k, limit)
	require.NoError(t, err)
	require.Same(t, k, sp.keeper)
	s.spares.mu.Lock()
	s.spares.ready, s.spares.wanted = []*spare{sp}, 0
	s.spares.mu.Unlock()
	self := filepath.Join(sp.dir, "run", "self")
	require.Eventually(t, func() bool { return size(self) > 0 }, patience, time.Millisecond)
	return sp
}

// keeps is the process that keeps an exec.
func keeps(t *testing.T, s *session, id string) int {
	t.Helper()
	line, err := os.ReadFile(filepath.Join(s.record(id), "run", "self"))
	require.NoError(t, err)
	self, err := harness.ParseProcess(string(line))
	require.NoError(t, err)
	return self.PID
}

// nothingLeft waits until no process names the directory.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(naming(t, dir)) == 0 }, patience, 5*time.Millisecond, "left")
}

// naming are the command lines that name a directory.
func naming(t *testing.T, dir string) (found []string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, p := range lines {
		if data, err := os.ReadFile(p); err == nil && strings.Contains(string(data), dir) {
			found = append(found, string(data))
		}
	}
	return found
}

// TestKeeperServesAgain: one process, exec after exec, and none is mistaken for
// another.
func TestKeeperServesAgain(t *testing.T) {
	t.Parallel()
	s, _ := withUsed(t)
	pid := keeps(t, s, "before")
	got := keptOf(t, s, sandbox.ExecSpec{ID: "env", Command: "umask; ulimit -n; echo $LATER$ONLY$WORD", Env: map[string]string{"WORD": "own"}})
	require.Regexp(t, `^0022\n[0-9]{3,}\nown\n$`, got.out, "it has nothing of the one before")
	again(t, s, sandbox.DefaultOutputBytes)
	for i := range 5 {
		id := fmt.Sprint("e", i)
		require.NoError(t, s.Start(t.Context(), sandbox.ExecSpec{ID: id, Command: "until [ -e " + id + " ]; do sleep 0.02; done; echo " + id}))
		require.Equal(t, pid, keeps(t, s, id))
		running, err := s.Running(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{id}, running)
		st := mustStatus(t, s, "before")
		require.Equal(t, sandbox.StateExited, st.State)
		require.Equal(t, 3, st.ExitCode)
		for _, sig := range []sandbox.Signal{sandbox.SignalFreeze, sandbox.SignalThaw, sandbox.SignalStop, sandbox.SignalKill} {
			require.NoError(t, s.Signal(t.Context(), "before", sig), "it is over, and has no process")
		}
		require.Equal(t, sandbox.StateRunning, mustStatus(t, s, id).State)
		require.NoError(t, s.WriteFile(t.Context(), id, nil))
		require.Equal(t, id+"\n", output(t, s, id))
		require.Equal(t, sandbox.StateExited, mustStatus(t, s, id).State)
		again(t, s, sandbox.DefaultOutputBytes)
	}
	require.Equal(t, int32(1), s.b.spares.Load())
}

// TestKeeperEndsWithWhatItEnded: a keeper that has ended a command itself serves no
// other.
func TestKeeperEndsWithWhatItEnded(t *testing.T) {
	t.Parallel()
	for state, spec := range map[sandbox.State]sandbox.ExecSpec{
		sandbox.StateTimedOut:    {ID: "a", Command: "sleep 1000", Limits: sandbox.Limits{Timeout: time.Second}},
		sandbox.StateOutputLimit: {ID: "a", Command: "yes"},
	} {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			s, sp := withUsedOf(t, 10_000)
			require.Equal(t, state, keptOf(t, s, spec).state)
			<-sp.keeper.gone
			require.Empty(t, s.spares.idle)
			require.NoError(t, s.Start(t.Context(), sandbox.ExecSpec{ID: "next", Command: "echo next"}))
			require.Equal(t, "next\n", output(t, s, "next"))
		})
	}
}

// TestUsedKeeperIsKilled: only the exec that it had is not known, and nothing of it
// runs again.
func TestUsedKeeperIsKilled(t *testing.T) {
	t.Parallel()
	t.Run("with an exec", func(t *testing.T) {
		t.Parallel()
		s, sp := withUsed(t)
		spec := sandbox.ExecSpec{ID: "a", Command: "echo run >> runs; until [ -e go ]; do sleep 0.05; done"}
		require.NoError(t, s.Start(t.Context(), spec))
		runs := filepath.Join(s.root.Name(), "runs")
		require.Eventually(t, func() bool { return size(runs) > 0 }, patience, time.Millisecond)
		require.NoError(t, syscall.Kill(keeps(t, s, "a"), syscall.SIGKILL))
		<-sp.keeper.gone
		require.NoError(t, s.Attach(t.Context(), "a", sandbox.Stdout, 0, &bytes.Buffer{}), "an attachment ends")
		require.NoError(t, s.Start(t.Context(), spec))
		require.Equal(t, sandbox.StateUnknown, mustStatus(t, s, "a").State)
		require.Equal(t, sandbox.StateExited, mustStatus(t, s, "before").State)
		require.NoError(t, s.Destroy(context.WithoutCancel(t.Context())))
		nothingLeft(t, s.dir)
	})
	t.Run("with a spare", func(t *testing.T) {
		t.Parallel()
		s, sp := withUsed(t)
		require.NoError(t, syscall.Kill(keeps(t, s, "before"), syscall.SIGKILL))
		<-sp.ended
		require.NoDirExists(t, sp.dir)
		require.NoError(t, s.Start(t.Context(), sandbox.ExecSpec{ID: "a", Command: "echo run"}))
		require.Equal(t, "run\n", output(t, s, "a"))
	})
	t.Run("idle", func(t *testing.T) {
		t.Parallel()
		s, _ := withUsed(t)
		output(t, s, started(t, s, "a"))
		k := idles(t, s)
		require.NoError(t, syscall.Kill(keeps(t, s, "a"), syscall.SIGKILL))
		<-k.gone
		require.Zero(t, s.b.spares.Load())
		s.Prepare()
		require.Eventually(t, func() bool { return HasSpare(s) }, patience, time.Millisecond)
		require.Equal(t, "b", strings.TrimSpace(output(t, s, started(t, s, "b"))))
	})
	t.Run("before it reads its order", func(t *testing.T) {
		t.Parallel()
		s, _ := withUsed(t)
		output(t, s, started(t, s, "a"))
		k, pid := idles(t, s), keeps(t, s, "a")
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
		require.Eventually(t, func() bool { return halted(pid) }, patience, time.Millisecond)
		s.Prepare()
		s.spares.makers.Wait()
		s.spares.mu.Lock()
		s.spares.wanted = 0
		sp := s.spares.ready[0]
		s.spares.mu.Unlock()
		require.Same(t, k, sp.keeper)
		require.Equal(t, "b", strings.TrimSpace(output(t, s, started(t, s, "b"))), "it is not waited for")
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		<-sp.ended
		require.NoDirExists(t, sp.dir)
	})
}

// halted tells whether every thread of a process stands still: the signal that asks for
// it has been sent before it has come to each.
func halted(pid int) bool {
	tasks, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "stat"))
	for _, task := range tasks {
		line, rerr := os.ReadFile(task)
		_, state, _ := strings.Cut(string(line), ") ")
		if rerr != nil || !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return err == nil && len(tasks) > 0
}

// started starts a command that prints its exec's name.
func started(t *testing.T, s *session, id string) string {
	t.Helper()
	require.NoError(t, s.Start(t.Context(), sandbox.ExecSpec{ID: id, Command: "echo " + id}))
	return id
}

// TestKeeperEndsWithItsSession, whatever it does.
func TestKeeperEndsWithItsSession(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(t *testing.T, s *session){
		"with a spare": func(*testing.T, *session) {},
		"idle": func(t *testing.T, s *session) {
			output(t, s, started(t, s, "a"))
			idles(t, s)
		},
		"with an exec": func(t *testing.T, s *session) {
			require.NoError(t, s.Start(t.Context(), sandbox.ExecSpec{ID: "a", Command: "sleep 1000 & sleep 1000"}))
		},
	} {
		for _, destroy := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, destroyed %v", name, destroy), func(t *testing.T) {
				t.Parallel()
				s, sp := withUsed(t)
				begin(t, s)
				if destroy {
					require.NoError(t, s.Destroy(t.Context()))
				} else {
					require.NoError(t, s.Release(t.Context()))
				}
				nothingLeft(t, s.dir)
				<-sp.keeper.gone
				require.Zero(t, s.b.spares.Load())
			})
		}
	}
}

// TestIdleKeepersAreFew, and none waits for long.
func TestIdleKeepersAreFew(t *testing.T) {
	t.Parallel()
	s, _ := withUsed(t)
	output(t, s, started(t, s, "a"))
	kept := []*keeping{idles(t, s)}
	for range mostSpares + 1 {
		k, err := s.startKeeper()
		require.NoError(t, err)
		kept = append(kept, k)
		s.park(k)
	}
	require.Len(t, s.spares.idle, mostSpares)
	require.Equal(t, int32(mostSpares), s.b.spares.Load())
	for _, k := range kept[mostSpares:] {
		<-k.gone
	}
	for _, k := range kept[:mostSpares] {
		s.retire(k)
		<-k.gone
	}
	require.Zero(t, s.b.spares.Load())
	nothingLeft(t, s.dir)
}
