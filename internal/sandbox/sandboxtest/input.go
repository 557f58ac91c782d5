package sandboxtest

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/countersign/countersign/internal/sandbox"
)

// say is input under a key of its own.
func say(text string) sandbox.Input { return sandbox.Input{Key: newID(), Data: []byte(text)} }

func withStdin(s *sandbox.ExecSpec) { s.Stdin = true }

func testStdin(t *testing.T, b *rig) {
	s := b.open(t)
	id := Start(t, s, `read -r line; echo "got $line"; cat; echo end`, withStdin)
	ctx := t.Context()
	once := say("hello\nsecond\n")
	require.NoError(t, s.Send(ctx, id, once))
	awaitOutput(t, s, id, "got hello\nsecond\n")
	require.NoError(t, s.Send(ctx, id, once), "what was sent is not sent again")
	last := say("third\x00\xff\\101 \r\n\n")
	last.EOF = true
	require.NoError(t, s.Send(ctx, id, last))
	r := await(t, s, id)
	require.Equal(t, "got hello\nsecond\nthird\x00\xff\\101 \r\n\nend\n", r.Stdout)
	require.ErrorIs(t, s.Send(ctx, id, say("late")), sandbox.ErrExecEnded)
	require.NoError(t, s.Send(ctx, id, last), "it was sent")

	// More than a pipe holds, to a command that does not read: ctx bounds it.
	id = Start(t, s, "until [ -e read-on ]; do sleep 0.1; done; wc -c", withStdin)
	require.NoError(t, s.Send(ctx, id, say(strings.Repeat("x", 10<<10))))
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	more := say(strings.Repeat("y", sandbox.MaxInput))
	require.ErrorIs(t, s.Send(short, id, more), context.DeadlineExceeded)
	await(t, s, Start(t, s, ": >read-on"))
	require.NoError(t, s.Send(ctx, id, more), "what was begun goes on")
	require.NoError(t, s.Send(ctx, id, sandbox.Input{Key: newID(), EOF: true}))
	require.Equal(t, strconv.Itoa(sandbox.MaxInput+10<<10), strings.TrimSpace(await(t, s, id).Stdout))
}

// Input reaches a command once, however many send it at the same moment.
func testStdinOnce(t *testing.T, b *rig) {
	s := b.open(t)
	id := Start(t, s, "cat", withStdin)
	in := say("once\n")
	g, ctx := errgroup.WithContext(t.Context())
	for range 8 {
		g.Go(func() error { return s.Send(ctx, id, in) })
	}
	require.NoError(t, g.Wait())
	require.NoError(t, s.Send(t.Context(), id, sandbox.Input{Key: newID(), EOF: true}))
	require.Equal(t, "once\n", await(t, s, id).Stdout)
}

// An interrupt is sent once, too, and what it does is the command's affair.
func testStdinInterrupt(t *testing.T, b *rig) {
	s := b.open(t)
	id := Start(t, s, `trap 'echo interrupt' INT; echo ready; while [ ! -e over ]; do sleep 0.1; done`, withStdin)
	awaitOutput(t, s, id, "ready\n")
	in := sandbox.Input{Key: newID(), Interrupt: true}
	for range 3 {
		require.NoError(t, s.Send(t.Context(), id, in))
	}
	awaitOutput(t, s, id, "ready\ninterrupt\n")
	run(t, s, "sleep 0.3; touch over")
	require.Equal(t, "ready\ninterrupt\n", await(t, s, id).Stdout)
}

// What is sent to a command that is halted waits, and release ends the command.
func testStdinFrozen(t *testing.T, b *rig) {
	s := b.open(t)
	ctx := t.Context()
	id := Start(t, s, `echo ready; while read -r line; do echo "got $line"; done`, withStdin)
	awaitOutput(t, s, id, "ready\n")
	require.NoError(t, s.Signal(ctx, id, sandbox.SignalFreeze))
	require.NoError(t, s.Send(ctx, id, say("a\n")))
	time.Sleep(300 * time.Millisecond)
	st, err := s.Status(ctx, id)
	require.NoError(t, err)
	require.EqualValues(t, len("ready\n"), st.StdoutBytes, "it reads while it is halted")
	require.NoError(t, s.Signal(ctx, id, sandbox.SignalThaw))
	awaitOutput(t, s, id, "ready\ngot a\n")
	require.NoError(t, s.Release(ctx))
}
