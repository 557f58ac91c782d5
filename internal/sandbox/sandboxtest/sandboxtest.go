// Package sandboxtest is the suite that every sandbox backend passes: what
// package sandbox promises, tried on real processes.
//
// A backend's test calls [Main] from TestMain and [Run] from a test. Main lets
// the test binary play the worker that is killed.
package sandboxtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/egress"
	"github.com/countersign/countersign/internal/sandbox/terminal"
)

// Fixture is what the suite knows of a backend.
type Fixture struct {
	// Dir makes a place for one backend's state and returns its name, which
	// means something to Open only.
	Dir func(t *testing.T) string
	// Open opens the backend on that state. Several processes do so.
	Open func(ctx context.Context, dir string) (sandbox.Backend, error)
	// Secret, if set, returns a path on the worker that commands must not read
	// where they are isolated.
	Secret func(dir string) string
}

// childEnv makes the test binary a worker: it holds the backend's directory.
const childEnv = "COUNTERSIGN_SANDBOXTEST_WORKER"

// SecretEnv is set in the worker's environment and must not be in a command's.
const SecretEnv = "SECRET_X"

// Main runs the tests, or plays a worker when it is started as one. open is the
// fixture's Open.
func Main(m *testing.M, open func(ctx context.Context, dir string) (sandbox.Backend, error)) {
	if egress.Forwarding(os.Args) {
		os.Exit(egress.Forward(os.Args))
	}
	if terminal.Asked(os.Args) {
		os.Exit(terminal.Run(os.Args))
	}
	os.Setenv(SecretEnv, "1")
	if dir := os.Getenv(childEnv); dir != "" {
		if err := playWorker(dir, open); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Run runs the suite.
func Run(t *testing.T, f Fixture) {
	for name, test := range map[string]func(*testing.T, *rig){
		"Streams": testStreams, "IdempotentStart": testIdempotentStart, "ConcurrentStarts": testConcurrentStarts,
		"Conflict": testConflict, "AttachAtOffset": testAttachAtOffset, "AttachEnds": testAttachEnds,
		"ExitCodes": testExitCodes, "Interrupt": testInterrupt, "Stop": testStop, "StopStubborn": testStopStubborn,
		"StopReachesAll": testStopReachesAll, "StopOnlyOne": testStopOnlyOne, "BackgroundEnds": testBackgroundEnds, "Timeout": testTimeout,
		"OutputLimit": testOutputLimit, "Stdin": testStdin, "StdinOnce": testStdinOnce, "StdinInterrupt": testStdinInterrupt, "StdinFrozen": testStdinFrozen, "NoStdin": testNoStdin, "BigOutput": testBigOutput,
		"BinaryOutput": testBinaryOutput, "OddArguments": testOddArguments, "Refusals": testRefusals,
		"Environment": testEnvironment, "Cwd": testCwd, "Freeze": testFreeze, "FrozenSnapshot": testFrozenSnapshot, "NoExec": testNoExec, "StopBeforeStart": testStopBeforeStart,
		"Files": testFiles, "ReadDir": testReadDir, "Change": testChange, "ChangeUndone": testChangeUndone, "Links": testLinks, "Outside": testOutside, "Glob": testGlob,
		"Isolation": testIsolation, "Confined": testConfined, "EnvironIsNotListed": testEnvironIsNotListed, "RecordNotForged": testRecordNotForged, "OutputNotTruncated": testOutputNotTruncated,
		"Network": testNetwork, "NoNetwork": testNoNetwork,
		"Terminal": testTerminal, "TerminalKeys": testTerminalKeys, "TerminalWhole": testTerminalWhole, "TerminalEnds": testTerminalEnds,
		"TerminalJobs": testTerminalJobs, "TerminalWorkerDies": testTerminalWorkerDies,
		"Temp": testTemp, "Release": testRelease, "Gone": testGone, "Destroy": testDestroy,
		"Export": testExport, "Generations": testGenerations, "TornSnapshot": testTornSnapshot, "WorkerDies": testWorkerDies, "OpenTwice": testOpenTwice,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := f.Dir(t)
			b, err := f.Open(t.Context(), dir)
			require.NoError(t, err)
			test(t, &rig{f: f, dir: dir, backend: b})
		})
	}
}

// rig is one test's backend.
type rig struct {
	f       Fixture
	dir     string
	backend sandbox.Backend
}

func newID() string {
	var b [6]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// open opens a new sandbox and destroys it after the test.
func (b *rig) open(t *testing.T) sandbox.Session {
	t.Helper()
	return b.openSpec(t, sandbox.Spec{ID: "agent/web/main/" + newID(), Generation: 1})
}

func (b *rig) openSpec(t *testing.T, spec sandbox.Spec) sandbox.Session {
	t.Helper()
	s, err := b.backend.Open(t.Context(), spec)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
		defer cancel()
		require.NoError(t, s.Destroy(ctx))
	})
	return s
}

// Start starts a command under a new ID.
func Start(t *testing.T, s sandbox.Session, command string, change ...func(*sandbox.ExecSpec)) string {
	t.Helper()
	spec := sandbox.ExecSpec{ID: newID(), Command: command, Limits: sandbox.Limits{Timeout: 5 * time.Minute}}
	for _, c := range change {
		c(&spec)
	}
	require.NoError(t, s.Start(t.Context(), spec))
	return spec.ID
}

// Ran is an exec that was followed to its end.
type Ran struct {
	sandbox.ExecStatus
	Stdout, Stderr string
}

// Await follows an exec to its end, for so long at most.
func Await(t *testing.T, s sandbox.Session, id string, within time.Duration) Ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	var out, problem bytes.Buffer
	require.NoError(t, s.Attach(ctx, id, sandbox.Stdout, 0, &out))
	require.NoError(t, s.Attach(ctx, id, sandbox.Stderr, 0, &problem))
	st, err := s.Status(ctx, id)
	require.NoError(t, err)
	require.True(t, st.Ended(), "Attach returned while the exec is %s", st.State)
	return Ran{ExecStatus: st, Stdout: out.String(), Stderr: problem.String()}
}

func await(t *testing.T, s sandbox.Session, id string) Ran {
	t.Helper()
	return Await(t, s, id, 5*time.Minute)
}

// run runs a command to its end.
func run(t *testing.T, s sandbox.Session, command string, change ...func(*sandbox.ExecSpec)) Ran {
	t.Helper()
	return await(t, s, Start(t, s, command, change...))
}

// eventually polls until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			require.Fail(t, "timed out waiting", what)
		}
		pause(t, 5*time.Millisecond)
	}
}

func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		require.NoError(t, t.Context().Err())
	}
}

// content reads a workspace file; "" where there is none.
func content(t *testing.T, s sandbox.Session, path string) string {
	t.Helper()
	info, err := s.Stat(t.Context(), path)
	require.NoError(t, err)
	if !info.Exists {
		return ""
	}
	data, _, err := s.ReadFile(t.Context(), path, 1<<20)
	require.NoError(t, err)
	return string(data)
}
