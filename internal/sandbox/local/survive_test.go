package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/local"
)

// both runs a test on isolated and on bare sandboxes.
func both(t *testing.T, test func(t *testing.T, b *local.Backend, dir string)) {
	t.Helper()
	for _, bare := range []bool{false, true} {
		t.Run("bare="+strconv.FormatBool(bare), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			b, err := local.New(t.Context(), local.Config{DataDir: dir, NoIsolation: bare})
			require.NoError(t, err)
			if ok, why := b.Isolated(); !ok && !bare {
				t.Skip(why)
			}
			test(t, b, dir)
		})
	}
}

func openOne(t *testing.T, b *local.Backend) sandbox.Session {
	t.Helper()
	s, err := b.Open(t.Context(), sandbox.Spec{ID: "s", Generation: 1})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Destroy(context.WithoutCancel(t.Context())) })
	return s
}

// recordDir finds an exec's record on the host.
func recordDir(t *testing.T, dir, id string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "sandboxes", "s-*", "execs", id))
	require.NoError(t, err)
	require.Len(t, found, 1)
	return found[0]
}

func pidIn(t *testing.T, file string) int {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.Fields(string(data))[0])
	require.NoError(t, err)
	return pid
}

// An exec whose harness was killed has no known outcome. It is not run again, and
// what it left running ends with the sandbox.
func TestHarnessKilled(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, b *local.Backend, dir string) {
		s, ctx := openOne(t, b), t.Context()
		spec := sandbox.ExecSpec{
			ID: "e", Command: "echo run >> runs; while :; do echo x >> beats; sleep 0.05; done",
			// The clock outlives the harness, and this test: it is to end soon.
			Limits: sandbox.Limits{Timeout: time.Minute},
		}
		require.NoError(t, s.Start(ctx, spec))
		require.Eventually(t, func() bool {
			info, err := s.Stat(ctx, "beats")
			return err == nil && info.Exists
		}, patience, 10*time.Millisecond)
		require.NoError(t, syscall.Kill(pidIn(t, filepath.Join(recordDir(t, dir, "e"), "run", "self")), syscall.SIGKILL))
		require.Eventually(t, func() bool {
			st, err := s.Status(ctx, "e")
			return err == nil && st.State == sandbox.StateUnknown
		}, patience, 10*time.Millisecond)
		require.NoError(t, s.Attach(ctx, "e", sandbox.Stdout, 0, &bytes.Buffer{}), "an attachment ends")
		require.NoError(t, s.Start(ctx, spec))
		st, err := s.Status(ctx, "e")
		require.NoError(t, err)
		require.Equal(t, sandbox.StateUnknown, st.State)
		data, _, err := s.ReadFile(ctx, "runs", 100)
		require.NoError(t, err)
		require.Equal(t, "run\n", string(data))

		require.NoError(t, s.Release(ctx))
		s = openOne(t, b)
		before, err := s.Stat(ctx, "beats")
		require.NoError(t, err)
		time.Sleep(300 * time.Millisecond)
		after, err := s.Stat(ctx, "beats")
		require.NoError(t, err)
		require.Equal(t, before.Size, after.Size, "its processes are ended")
	})
}

// runsNow tells whether a process of this machine has these arguments.
func runsNow(t *testing.T, args ...string) bool {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, file := range lines {
		if line, err := os.ReadFile(file); err == nil && string(line) == strings.Join(args, "\x00")+"\x00" {
			return true
		}
	}
	return false
}

// Where the data directory is removed under a running command, the sandbox is said to
// be gone, and the time-out ends the command all the same.
func TestRemovedWhileItRuns(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{false, true} {
		both(t, func(t *testing.T, b *local.Backend, dir string) {
			isolated, _ := b.Isolated()
			if early && !isolated {
				t.Skip("only namespaces are made ahead")
			}
			var opener sandbox.Backend = b
			if early {
				opener = ahead{b}
			}
			ctx := t.Context()
			s, err := opener.Open(ctx, sandbox.Spec{ID: "s", Generation: 1})
			require.NoError(t, err)
			number := fmt.Sprintf("6%d%d", os.Getpid(), len(dir))
			if early {
				number += "7"
			} else if isolated {
				number += "8"
			}
			require.NoError(t, s.Start(ctx, sandbox.ExecSpec{
				ID: "e", Command: "trap '' TERM; sleep " + number + " & sleep " + number + "; sleep " + number, Limits: sandbox.Limits{Timeout: 10 * time.Second},
			}))
			require.Eventually(t, func() bool { return runsNow(t, "sleep", number) }, patience, 10*time.Millisecond)
			require.Eventually(t, func() bool { return os.RemoveAll(dir) == nil }, patience, 10*time.Millisecond)
			_, err = s.Status(ctx, "e")
			require.ErrorIs(t, err, sandbox.ErrGone)
			require.ErrorIs(t, s.Attach(ctx, "e", sandbox.Stdout, 0, io.Discard), sandbox.ErrGone)
			require.Eventually(t, func() bool { return !runsNow(t, "sleep", number) }, patience, 50*time.Millisecond)
		})
	}
}

// Another process may have the pid by now: it is neither believed nor harmed.
func TestPidReused(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, b *local.Backend, dir string) {
		s, ctx := openOne(t, b), t.Context()
		require.NoError(t, s.Start(ctx, sandbox.ExecSpec{ID: "e", Command: "true"}))
		require.NoError(t, s.Attach(ctx, "e", sandbox.Stdout, 0, &bytes.Buffer{}))
		record := recordDir(t, dir, "e")
		require.NoError(t, os.Remove(filepath.Join(record, "exit")))
		other := exec.CommandContext(ctx, "sleep", "60")
		require.NoError(t, other.Start())
		pid := strconv.Itoa(other.Process.Pid)
		for _, name := range []string{"self", "main", "init"} {
			line := pid + " (sh) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 12345 0\n"
			require.NoError(t, os.WriteFile(filepath.Join(record, "run", name), []byte(line), 0o600))
		}
		require.NoError(t, os.Remove(filepath.Join(record, "run", "done")))
		st, err := s.Status(ctx, "e")
		require.NoError(t, err)
		require.Equal(t, sandbox.StateUnknown, st.State)
		require.NoError(t, s.Signal(ctx, "e", sandbox.SignalKill))
		require.NoError(t, other.Process.Signal(syscall.Signal(0)))
		require.NoError(t, other.Process.Kill())
		require.ErrorContains(t, other.Wait(), "killed")
	})
}

// What a dead worker left frozen goes on when the next one opens the sandbox.
func TestThawedWhenOpened(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, b *local.Backend, dir string) {
		s, ctx := openOne(t, b), t.Context()
		require.NoError(t, s.Start(ctx, sandbox.ExecSpec{ID: "e", Command: "while [ ! -e go ]; do sleep 0.05; done; echo went"}))
		require.NoError(t, s.Signal(ctx, "e", sandbox.SignalFreeze))
		require.NoError(t, s.WriteFile(ctx, "go", nil))
		bare, _ := b.Isolated()
		next, err := local.New(ctx, local.Config{DataDir: dir, NoIsolation: !bare})
		require.NoError(t, err)
		s, err = next.Open(ctx, sandbox.Spec{ID: "s", Generation: 1, Existing: true})
		require.NoError(t, err)
		var out bytes.Buffer
		require.NoError(t, s.Attach(ctx, "e", sandbox.Stdout, 0, &out))
		st, err := s.Status(ctx, "e")
		require.NoError(t, err)
		require.Equal(t, sandbox.StateExited, st.State)
		require.Zero(t, st.ExitCode)
		require.Equal(t, "went\n", out.String())
	})
}

func TestSweep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, err := local.New(t.Context(), local.Config{DataDir: dir, NoIsolation: true})
	require.NoError(t, err)
	s := openOne(t, b)
	write(t, dir, map[string]string{"sandboxes/s-1.new-abc/x": "", "sandboxes/s-1.trash-abc/d/x": ""})
	scratch, err := b.Open(t.Context(), sandbox.Spec{ID: local.ScratchID("probe")})
	require.NoError(t, err)
	require.NoError(t, scratch.Start(t.Context(), sandbox.ExecSpec{ID: "e", Command: "sleep 61415"}))
	boxes, err := b.Boxes()
	require.NoError(t, err)
	require.Len(t, boxes, 2)
	next, err := local.New(t.Context(), local.Config{DataDir: dir, NoIsolation: true})
	require.NoError(t, err)
	require.NoError(t, next.Sweep(t.Context()))
	st, err := scratch.Status(t.Context(), "e")
	require.True(t, errors.Is(err, sandbox.ErrNoExec) || errors.Is(err, sandbox.ErrGone), "%+v %v", st, err)
	boxes, err = b.Boxes()
	require.NoError(t, err)
	require.Len(t, boxes, 1)
	require.Equal(t, "s", boxes[0].ID)
	left, err := filepath.Glob(filepath.Join(dir, "sandboxes", "*"))
	require.NoError(t, err)
	require.Len(t, left, 2, "the harness and the sandbox")
	require.NoError(t, s.WriteFile(t.Context(), "x", nil))
}

// The data directory stays hidden where it lies below what commands may read.
func TestDataDirBelowReadOnly(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	write(t, top, map[string]string{"tool/bin/hello": "#!/bin/sh\necho hello\n", "tool/data/x": "secret"})
	require.NoError(t, os.Chmod(filepath.Join(top, "tool/bin/hello"), 0o755))
	b, err := local.New(t.Context(), local.Config{DataDir: filepath.Join(top, "tool/data"), ReadOnly: []string{filepath.Join(top, "tool")}})
	require.NoError(t, err)
	if ok, why := b.Isolated(); !ok {
		t.Skip(why)
	}
	s, ctx := openOne(t, b), t.Context()
	require.NoError(t, s.Start(ctx, sandbox.ExecSpec{ID: "e", Command: "hello; ls -A '" + top + "/tool/data'; cat '" + top + "/tool/data/x' || echo hidden"}))
	var out bytes.Buffer
	require.NoError(t, s.Attach(ctx, "e", sandbox.Stdout, 0, &out))
	require.Equal(t, "hello\nhidden\n", out.String())
}

func TestUnusableDataDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"file": ""})
	_, err := local.New(t.Context(), local.Config{DataDir: filepath.Join(dir, "file")})
	require.Error(t, err)
}

// BenchmarkExec is one command from start to its last byte; BenchmarkFork is the
// yardstick.
func BenchmarkExec(b *testing.B) {
	for _, bare := range []bool{false, true} {
		b.Run("bare="+strconv.FormatBool(bare), func(b *testing.B) {
			be, err := local.New(b.Context(), local.Config{DataDir: b.TempDir(), NoIsolation: bare})
			require.NoError(b, err)
			s, err := be.Open(b.Context(), sandbox.Spec{ID: "s"})
			require.NoError(b, err)
			n := 0
			for b.Loop() {
				n++
				id := "e" + strconv.Itoa(n)
				require.NoError(b, s.Start(b.Context(), sandbox.ExecSpec{ID: id, Command: "echo x"}))
				require.NoError(b, s.Attach(b.Context(), id, sandbox.Stdout, 0, &bytes.Buffer{}))
			}
			require.NoError(b, s.Destroy(b.Context()))
		})
	}
}

func BenchmarkFork(b *testing.B) {
	for b.Loop() {
		out, err := exec.CommandContext(b.Context(), "bash", "--noprofile", "--norc", "-c", "echo x").Output()
		require.NoError(b, err)
		require.Equal(b, "x\n", string(out))
	}
}
