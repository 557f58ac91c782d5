package sandboxtest

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
)

func onTerminal(s *sandbox.ExecSpec) { s.TTY = true }

// shows waits until the terminal has shown text, and returns all that it has.
func shows(t *testing.T, s sandbox.Session, id, text string) string {
	t.Helper()
	var all string
	t.Cleanup(func() {
		if t.Failed() && !strings.Contains(all, text) {
			t.Logf("the terminal showed %q", all)
		}
	})
	eventually(t, "the terminal shows "+text, func() bool {
		all = outputSoFar(t, s, id)
		return strings.Contains(all, text)
	})
	return all
}

// outputSoFar is what an exec's standard output holds now.
func outputSoFar(t *testing.T, s sandbox.Session, id string) string {
	t.Helper()
	st, err := s.Status(t.Context(), id)
	require.NoError(t, err)
	if st.StdoutBytes == 0 {
		return ""
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	some := &upTo{most: int(st.StdoutBytes), reached: cancel}
	if err := s.Attach(ctx, id, sandbox.Stdout, 0, some); err != nil {
		require.ErrorIs(t, err, context.Canceled)
	}
	return some.String()
}

// upTo tells when it has got so many bytes.
type upTo struct {
	bytes.Buffer
	most    int
	reached func()
}

func (u *upTo) Write(p []byte) (int, error) {
	n, err := u.Buffer.Write(p)
	if u.Len() >= u.most {
		u.reached()
	}
	return n, err
}

// A command on a terminal finds one on all its streams, of a known size, that
// controls it; its output is one stream, and its exit code its own.
func testTerminal(t *testing.T, b *rig) {
	s := b.open(t)
	r := run(t, s, `test -t 0 && test -t 1 && test -t 2 && echo all; stty size; echo problem >&2; echo own >/dev/tty; ls -l /proc/$$/fd >fds; grep -c -- '-> /dev/pts/' fds; exit 3`, onTerminal)
	require.Equal(t, sandbox.StateExited, r.State, r.Stderr)
	require.Equal(t, 3, r.ExitCode, r.Stderr)
	lines := strings.Split(r.Stdout, "\r\n")
	require.Len(t, lines, 6, "%q", r.Stdout)
	require.Equal(t, []string{"all", "40 120", "problem", "own"}, lines[:4])
	require.Empty(t, r.Stderr)
	require.Zero(t, r.StderrBytes)

	require.Equal(t, 137, run(t, s, "kill -s KILL $$", onTerminal).ExitCode)
	require.Equal(t, 127, run(t, s, "no-such-program-here", onTerminal).ExitCode)
	plain := run(t, s, "test -t 0 || test -t 1 || echo none")
	require.Equal(t, "none\n", plain.Stdout)

	spec := sandbox.ExecSpec{ID: newID(), Command: "echo run >>log; read -r x; echo \"$x\" >>log", TTY: true}
	for range 3 {
		require.NoError(t, s.Start(t.Context(), spec))
	}
	other := spec
	other.TTY, other.Stdin = false, true
	require.ErrorIs(t, s.Start(t.Context(), other), sandbox.ErrExecConflict)
	once := say("answer\n")
	for range 3 {
		require.NoError(t, s.Send(t.Context(), spec.ID, once))
	}
	require.Equal(t, "answer\r\n", await(t, s, spec.ID).Stdout, "the terminal echoes what it is sent")
	require.Equal(t, "run\nanswer\n", content(t, s, "log"))
}

// Keys do what a terminal makes of them: Ctrl-C interrupts, Ctrl-D ends input,
// others edit the line.
func testTerminalKeys(t *testing.T, b *rig) {
	s := b.open(t)
	ctx := t.Context()
	id := Start(t, s, `trap 'echo interrupted' INT; echo ready; while :; do sleep 0.1; [ ! -e over ] || exit 5; done`, onTerminal)
	shows(t, s, id, "ready")
	interrupt := say("\x03")
	for range 3 {
		require.NoError(t, s.Send(ctx, id, interrupt))
	}
	shows(t, s, id, "interrupted")
	run(t, s, "sleep 0.3; touch over")
	r := await(t, s, id)
	require.Equal(t, 5, r.ExitCode)
	require.Equal(t, 1, strings.Count(r.Stdout, "interrupted"), r.Stdout)

	id = Start(t, s, "sleep 1000", onTerminal)
	require.NoError(t, s.Send(ctx, id, say("\x03")))
	require.Equal(t, 130, await(t, s, id).ExitCode)

	id = Start(t, s, "cat >copy; echo end", onTerminal)
	require.NoError(t, s.Send(ctx, id, say("onf\x7fe\n")))
	require.NoError(t, s.Send(ctx, id, say("\x04")))
	require.Contains(t, await(t, s, id).Stdout, "end")
	require.Equal(t, "one\n", content(t, s, "copy"))

	id = Start(t, s, "cat >copy", onTerminal)
	require.NoError(t, s.Send(ctx, id, sandbox.Input{Key: newID(), Data: []byte("two\n"), EOF: true}))
	require.Equal(t, 0, await(t, s, id).ExitCode, "the end of its input is a key")
	require.Equal(t, "two\n", content(t, s, "copy"))

	id = Start(t, s, `stty -echo; printf 'password: '; read -r x; stty echo; echo; echo "${#x} letters"`, onTerminal)
	shows(t, s, id, "password: ")
	require.NoError(t, s.Send(ctx, id, say("secret\n")))
	require.Equal(t, "password: \r\n6 letters\r\n", await(t, s, id).Stdout)
}

// What is sent arrives whole and once, however much; what is shown is kept to the
// byte and is read from any offset.
func testTerminalWhole(t *testing.T, b *rig) {
	s := b.open(t)
	ctx := t.Context()
	id := Start(t, s, "stty -echo; echo ready; cat >copy", onTerminal)
	shows(t, s, id, "ready")
	text := strings.Repeat(strings.Repeat("x", 999)+"\n", sandbox.MaxInput/1000)
	require.NoError(t, s.Send(ctx, id, say(text)))
	require.NoError(t, s.Send(ctx, id, say(strings.Repeat("y", 4095)+"\n")))
	require.NoError(t, s.Send(ctx, id, say("\x04")))
	require.Equal(t, 0, await(t, s, id).ExitCode)
	require.Equal(t, text+strings.Repeat("y", 4095)+"\n", content(t, s, "copy"))

	id = Start(t, s, "i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done; sleep 1000 &", onTerminal)
	r := await(t, s, id)
	lines := strings.Split(r.Stdout, "\r\n")
	require.Len(t, lines, 5001)
	require.Equal(t, "line 4999", lines[4999], "the end is not lost, whatever was left in the background")
	rest := &strings.Builder{}
	require.NoError(t, s.Attach(ctx, id, sandbox.Stdout, int64(len(r.Stdout)-11), rest))
	require.Equal(t, "line 4999\r\n", rest.String())
}

// Stop, time-out, halt and release reach all that runs on a terminal.
func testTerminalEnds(t *testing.T, b *rig) {
	s := b.open(t)
	ctx := t.Context()
	id := Start(t, s, "trap '' HUP TERM INT; sleep 31415 & echo ready; sleep 31415", onTerminal)
	shows(t, s, id, "ready")
	require.NoError(t, s.Signal(ctx, id, sandbox.SignalStop))
	require.Equal(t, sandbox.StateCancelled, await(t, s, id).State)

	r := run(t, s, "sleep 31415", onTerminal, func(s *sandbox.ExecSpec) { s.Limits.Timeout = 300 * time.Millisecond })
	require.Equal(t, sandbox.StateTimedOut, r.State)

	id = Start(t, s, `echo ready; while read -r line; do echo "got $line" >>log; done`, onTerminal)
	shows(t, s, id, "ready")
	require.NoError(t, s.Signal(ctx, id, sandbox.SignalFreeze))
	require.NoError(t, s.Send(ctx, id, say("a\n")))
	pause(t, 300*time.Millisecond)
	require.Empty(t, content(t, s, "log"), "it reads while it is halted")
	require.NoError(t, s.Signal(ctx, id, sandbox.SignalThaw))
	eventually(t, "it goes on", func() bool { return content(t, s, "log") == "got a\n" })
	require.NoError(t, s.Release(ctx))
}

// An interactive shell and its job go on after a halt as if there had been none.
func testTerminalJobs(t *testing.T, b *rig) {
	s := b.open(t)
	ctx := t.Context()
	shell := "sh -i"
	if s.Info().Shell == "bash" {
		shell = "bash --norc --noprofile -i"
	}
	id := Start(t, s, "PS1='ready> ' "+shell, onTerminal)
	shows(t, s, id, "ready> ")
	require.NoError(t, s.Send(ctx, id, say(`sh -c 'echo job; while [ ! -e over ]; do sleep 0.05; done; echo d""one'`+"\n")))
	shows(t, s, id, "job\r\n")
	for range 10 {
		require.NoError(t, s.Signal(ctx, id, sandbox.SignalFreeze))
		require.NoError(t, s.Signal(ctx, id, sandbox.SignalThaw))
	}
	run(t, s, ": >over")
	shows(t, s, id, "done\r\nready> ")
	require.NoError(t, s.Send(ctx, id, say("exit 4\n")))
	r := await(t, s, id)
	require.Equal(t, 4, r.ExitCode, r.Stdout)
	require.NotContains(t, strings.ToLower(r.Stdout), "stopped")
}
