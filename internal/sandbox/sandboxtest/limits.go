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
)

// ForkBomb is a command that takes all processes there may be, and waits.
const ForkBomb = "bomb() { bomb | bomb & sleep 600; }; bomb 2>/dev/null; sleep 600"

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
	id := Start(t, s, ForkBomb)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	require.NoError(t, s.Signal(ctx, id, sandbox.SignalStop))
	require.Equal(t, sandbox.StateCancelled, await(t, s, id).State)
	require.Equal(t, "kept", run(t, s, "cat kept").Stdout)
}
