package sandboxtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
)

// What the tests of limits take a sandbox to have: whoever calls them opens it so.
const (
	LimitedMemory = 64 << 20 // bytes
	LimitedPIDs   = 64
	LimitedCPUs   = 0.1
)

// ForkBomb is a command that takes all processes there may be, and waits: a shell that
// can start no more ends, so what waits has nothing left to start.
const ForkBomb = "bomb() { bomb | bomb & sleep 600; }; bomb 2>/dev/null & exec sleep 600"

// OutOfMemory runs a command that takes more than [LimitedMemory] in a sandbox that has
// that much. It is ended and says why; what watches it is not, and the next one runs.
func OutOfMemory(t *testing.T, s sandbox.Session) {
	t.Helper()
	// tail keeps all of a line.
	got := run(t, s, "head -c 200M /dev/zero | tail -n 1 | wc -c; echo ${PIPESTATUS[1]}")
	require.Equal(t, sandbox.StateExited, got.State)
	require.Contains(t, got.Stdout, "137\n")
	require.Equal(t, 1, strings.Count(got.Stderr, "countersign: the sandbox ran out of memory"), got.Stderr)
	got = run(t, s, "echo fine")
	require.Equal(t, "fine\n", got.Stdout)
	require.Empty(t, got.Stderr)
}

// TooManyProcesses runs commands that take all of [LimitedPIDs] in a sandbox that may
// have so many. They get no more, and can be stopped all the same.
func TooManyProcesses(t *testing.T, s sandbox.Session) {
	t.Helper()
	require.NoError(t, s.WriteFile(t.Context(), "kept", []byte("kept")))
	got := run(t, s, "sh -c 'for i in $(seq 200); do sleep 600 & done; echo all'")
	require.NotContains(t, got.Stdout, "all", "nothing more can be started")
	require.Regexp(t, "(?i)fork", got.Stderr)
	// What a command has left may still be on its way out when its end is known.
	eventually(t, "there is room for processes again", func() bool {
		return run(t, s, "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.1 & done; wait; echo room").Stdout == "room\n"
	})
	id := Start(t, s, ForkBomb)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	require.NoError(t, s.Signal(ctx, id, sandbox.SignalStop))
	require.Equal(t, sandbox.StateCancelled, await(t, s, id).State)
	require.Equal(t, "kept", run(t, s, "cat kept").Stdout)
}

// TooBusy runs two commands at once that want a processor each, in a sandbox that has
// [LimitedCPUs]: together they get no more. On a busy machine they may get less.
func TooBusy(t *testing.T, s sandbox.Session) {
	t.Helper()
	got := run(t, s, `from=${EPOCHREALTIME/./}; for i in 1 2; do timeout 3 bash -c 'while :; do :; done' & done; wait
to=${EPOCHREALTIME/./}; echo $((to - from)); times`)
	require.Equal(t, 0, got.ExitCode, got.Stderr)
	lines := strings.Split(got.Stdout, "\n") // the time that passed; this shell's; its children's
	require.GreaterOrEqual(t, len(lines), 3, got.Stdout)
	passed, err := time.ParseDuration(lines[0] + "us")
	require.NoError(t, err)
	var used time.Duration
	for part := range strings.FieldsSeq(lines[2]) {
		d, err := time.ParseDuration(part)
		require.NoError(t, err, got.Stdout)
		used += d
	}
	const slack = 300 * time.Millisecond // what a period that has begun may give, and the clocks' grain
	require.Less(t, used, time.Duration(float64(passed)*LimitedCPUs)+slack, "in %s", passed)
}
