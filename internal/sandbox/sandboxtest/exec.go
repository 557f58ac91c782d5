package sandboxtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
)

func testStreams(t *testing.T, b *rig) {
	s := b.open(t)
	r := run(t, s, "echo out; echo problem >&2; echo more; exit 3")
	require.Equal(t, "out\nmore\n", r.Stdout)
	require.Equal(t, "problem\n", r.Stderr)
	require.Equal(t, sandbox.StateExited, r.State)
	require.Equal(t, 3, r.ExitCode)
	require.EqualValues(t, len(r.Stdout), r.StdoutBytes)
	require.EqualValues(t, len(r.Stderr), r.StderrBytes)
	require.False(t, r.StartedAt.IsZero())
	require.False(t, r.EndedAt.Before(r.StartedAt))
}

func testIdempotentStart(t *testing.T, b *rig) {
	s := b.open(t)
	spec := sandbox.ExecSpec{ID: newID(), Command: "echo run >> log; echo done"}
	for range 3 {
		require.NoError(t, s.Start(t.Context(), spec))
	}
	require.Equal(t, "done\n", await(t, s, spec.ID).Stdout)
	require.NoError(t, s.Start(t.Context(), spec), "starting a finished exec attaches to it")
	require.Equal(t, "done\n", await(t, s, spec.ID).Stdout)
	require.Equal(t, "run\n", content(t, s, "log"))
}

func testConcurrentStarts(t *testing.T, b *rig) {
	s := b.open(t)
	for range 5 {
		spec := sandbox.ExecSpec{ID: newID(), Command: "echo run >> log." + newID()}
		name := strings.Fields(spec.Command)[3]
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() { errs[i] = s.Start(t.Context(), spec) })
		}
		wg.Wait()
		require.NoError(t, errors.Join(errs...))
		await(t, s, spec.ID)
		require.Equal(t, "run\n", content(t, s, name))
	}
}

func testConflict(t *testing.T, b *rig) {
	s := b.open(t)
	id := Start(t, s, "echo one")
	await(t, s, id)
	require.ErrorIs(t, s.Start(t.Context(), sandbox.ExecSpec{ID: id, Command: "echo two"}), sandbox.ErrExecConflict)
	require.ErrorIs(t, s.Start(t.Context(), sandbox.ExecSpec{ID: id, Command: "echo one", Cwd: "/tmp"}), sandbox.ErrExecConflict)
	require.Equal(t, "one\n", await(t, s, id).Stdout)
}

func testAttachAtOffset(t *testing.T, b *rig) {
	s := b.open(t)
	id := Start(t, s, "printf 0123; while [ ! -e go ]; do sleep 0.05; done; printf 456789")
	eventually(t, "the first bytes", func() bool {
		st, err := s.Status(t.Context(), id)
		require.NoError(t, err)
		return st.StdoutBytes == 4
	})
	early := follow(t, s, id, 2)
	eventually(t, "what is there from the offset on", func() bool { return early.String() == "23" })
	require.ErrorIs(t, early.stop(), context.Canceled)
	require.Equal(t, "23", early.String())
	require.NoError(t, s.WriteFile(t.Context(), "go", nil))
	for offset := range int64(11) {
		var out bytes.Buffer
		require.NoError(t, s.Attach(t.Context(), id, sandbox.Stdout, offset, &out))
		require.Equal(t, "0123456789"[offset:], out.String())
	}
}

func testAttachEnds(t *testing.T, b *rig) {
	s := b.open(t)
	id := Start(t, s, "echo begun; sleep 300", limits(sandbox.Limits{Timeout: time.Hour}))
	f := follow(t, s, id, 0)
	eventually(t, "the first line", func() bool { return f.String() == "begun\n" })
	require.ErrorIs(t, f.stop(), context.Canceled)
	st, err := s.Status(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, sandbox.StateRunning, st.State, "an ended attachment leaves the exec alone")
	ids, err := s.Running(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{id}, ids)
}

func testExitCodes(t *testing.T, b *rig) {
	s := b.open(t)
	for command, code := range map[string]int{
		"true": 0, "exit 42": 42, "exit 255": 255, "no-such-program": 127, "./README": 126, "kill -9 $$": 137,
		"kill -TERM $$": 143, "false | true": 0, "exec false": 1,
	} {
		if command == "./README" {
			require.NoError(t, s.WriteFile(t.Context(), "README", []byte("x")))
		}
		r := run(t, s, command)
		require.Equal(t, sandbox.StateExited, r.State, command)
		require.Equal(t, code, r.ExitCode, command)
	}
}

func testInterrupt(t *testing.T, b *rig) {
	s := b.open(t)
	id := Start(t, s, "trap 'echo interrupted; exit 7' INT; echo ready; while :; do sleep 0.05; done")
	awaitOutput(t, s, id, "ready")
	require.NoError(t, s.Signal(t.Context(), id, sandbox.SignalInterrupt))
	r := await(t, s, id)
	require.Equal(t, sandbox.StateExited, r.State)
	require.Equal(t, 7, r.ExitCode)
	require.Equal(t, "ready\ninterrupted\n", r.Stdout)
	require.NoError(t, s.Signal(t.Context(), id, sandbox.SignalStop), "stopping what has ended is no error")
	require.Error(t, s.Signal(t.Context(), id, "HUP; id"))
}

// awaitOutput waits until standard output begins with want.
func awaitOutput(t *testing.T, s sandbox.Session, id, want string) {
	t.Helper()
	f := follow(t, s, id, 0)
	eventually(t, "output "+want, func() bool { return strings.HasPrefix(f.String(), want) })
	_ = f.stop() // it may have ended
}

// following is an attachment to standard output that goes on beside the test.
type following struct {
	cancel context.CancelFunc
	ended  chan error

	mu  sync.Mutex
	out bytes.Buffer
}

func follow(t *testing.T, s sandbox.Session, id string, offset int64) *following {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	f := &following{cancel: cancel, ended: make(chan error, 1)}
	go func() { f.ended <- s.Attach(ctx, id, sandbox.Stdout, offset, f) }()
	return f
}

func (f *following) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.Write(p)
}

// String is what was printed so far.
func (f *following) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.String()
}

// stop ends the attachment and returns how it ended.
func (f *following) stop() error {
	f.cancel()
	return <-f.ended
}

func testStop(t *testing.T, b *rig) {
	s := b.open(t)
	id := Start(t, s, "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
	awaitOutput(t, s, id, "ready")
	require.NoError(t, s.Signal(t.Context(), id, sandbox.SignalStop))
	r := await(t, s, id)
	require.Equal(t, sandbox.StateCancelled, r.State)
	require.Equal(t, "ready\nbye\n", r.Stdout)
}

func testStopStubborn(t *testing.T, b *rig) {
	s := b.open(t)
	id := Start(t, s, "trap '' TERM INT HUP; echo ready; while :; do sleep 0.05; done")
	awaitOutput(t, s, id, "ready")
	began := time.Now()
	require.NoError(t, s.Signal(t.Context(), id, sandbox.SignalStop))
	require.Equal(t, sandbox.StateCancelled, await(t, s, id).State)
	require.Less(t, time.Since(began), 2*time.Minute, "it would go on for five")

	id = Start(t, s, "trap '' TERM; echo ready; sleep 300")
	awaitOutput(t, s, id, "ready")
	require.NoError(t, s.Signal(t.Context(), id, sandbox.SignalKill))
	require.Equal(t, sandbox.StateCancelled, await(t, s, id).State)
}

// What ends one exec leaves another alone, whatever the two are called.
func testStopOnlyOne(t *testing.T, b *rig) {
	s, other, ctx := b.open(t), b.open(t), t.Context()
	named := func(id string) func(*sandbox.ExecSpec) { return func(s *sandbox.ExecSpec) { s.ID = id } }
	Start(t, s, "echo one; sleep 300", named("exec-1"))
	Start(t, s, "echo ten; while [ ! -e go ]; do sleep 0.05; done; echo end", named("exec-10"))
	Start(t, other, "echo other; while [ ! -e go ]; do sleep 0.05; done; echo end", named("exec-1"))
	awaitOutput(t, s, "exec-10", "ten")
	awaitOutput(t, other, "exec-1", "other")
	require.NoError(t, s.Signal(ctx, "exec-1", sandbox.SignalStop))
	require.Equal(t, sandbox.StateCancelled, await(t, s, "exec-1").State)
	require.NoError(t, s.WriteFile(ctx, "go", nil))
	require.NoError(t, other.WriteFile(ctx, "go", nil))
	require.Equal(t, "ten\nend\n", await(t, s, "exec-10").Stdout)
	require.Equal(t, "other\nend\n", await(t, other, "exec-1").Stdout)
}

// beats starts processes in every way that commands use to leave one behind;
// each appends to its own file while it lives.
const beats = `beat() { while :; do echo x >> "$1"; sleep 0.05; done; }
beat child &
(beat grandchild &) &
nohup bash -c 'while :; do echo x >> nohup; sleep 0.05; done' >/dev/null 2>&1 &
setsid bash -c 'while :; do echo x >> session; sleep 0.05; done' &
(setsid bash -c '(while :; do echo x >> daemon; sleep 0.05; done) &' &)
(trap "" TERM HUP; beat stubborn) &
`

var beating = [...]string{"child", "grandchild", "nohup", "session", "daemon", "stubborn"}

func awaitBeats(t *testing.T, s sandbox.Session) {
	t.Helper()
	for _, name := range beating {
		eventually(t, "process "+name, func() bool { return content(t, s, name) != "" })
	}
}

func requireSilence(t *testing.T, s sandbox.Session) {
	t.Helper()
	before := map[string]int{}
	for _, name := range beating {
		before[name] = len(content(t, s, name))
	}
	pause(t, 300*time.Millisecond)
	for _, name := range beating {
		require.Equal(t, before[name], len(content(t, s, name)), "process %s still runs", name)
	}
}

func testStopReachesAll(t *testing.T, b *rig) {
	s := b.open(t)
	if s.Info().Shell != "bash" {
		t.Skip("needs bash in the sandbox")
	}
	id := Start(t, s, beats+"wait")
	awaitBeats(t, s)
	require.NoError(t, s.Signal(t.Context(), id, sandbox.SignalStop))
	require.Equal(t, sandbox.StateCancelled, await(t, s, id).State)
	requireSilence(t, s)
}

func testBackgroundEnds(t *testing.T, b *rig) {
	s := b.open(t)
	if s.Info().Shell != "bash" {
		t.Skip("needs bash in the sandbox")
	}
	began := time.Now()
	r := run(t, s, beats+"while [ ! -s stubborn ] || [ ! -s daemon ] || [ ! -s session ]; do sleep 0.05; done; echo end; exit 5")
	require.Equal(t, sandbox.StateExited, r.State)
	require.Equal(t, 5, r.ExitCode)
	require.Equal(t, "end\n", r.Stdout)
	require.Less(t, time.Since(began), 2*time.Minute, "they would go on for five")
	requireSilence(t, s)
}

func limits(l sandbox.Limits) func(*sandbox.ExecSpec) {
	return func(s *sandbox.ExecSpec) { s.Limits = l }
}

// Nobody is attached while the limits hold.
func testTimeout(t *testing.T, b *rig) {
	s := b.open(t)
	began := time.Now()
	id := Start(t, s, "echo begun; sleep 300; echo never", limits(sandbox.Limits{Timeout: 5 * time.Second}))
	eventually(t, "the time-out", func() bool {
		st, err := s.Status(t.Context(), id)
		require.NoError(t, err)
		return st.Ended()
	})
	require.Less(t, time.Since(began), 2*time.Minute, "it would go on for five")
	r := await(t, s, id)
	require.Equal(t, sandbox.StateTimedOut, r.State)
	require.Equal(t, "begun\n", r.Stdout)

	r = run(t, s, "echo quick", limits(sandbox.Limits{Timeout: time.Hour}))
	require.Equal(t, sandbox.StateExited, r.State)
}

func testOutputLimit(t *testing.T, b *rig) {
	s := b.open(t)
	const limit = 256 << 10
	id := Start(t, s, "yes", limits(sandbox.Limits{OutputBytes: limit, Timeout: 60 * time.Second}))
	eventually(t, "the limit", func() bool {
		st, err := s.Status(t.Context(), id)
		require.NoError(t, err)
		return st.Ended()
	})
	r := await(t, s, id)
	require.Equal(t, sandbox.StateOutputLimit, r.State)
	require.Equal(t, strings.Repeat("y\n", limit/2), r.Stdout)
}

func testNoStdin(t *testing.T, b *rig) {
	s := b.open(t)
	id := Start(t, s, "cat; echo end")
	require.Equal(t, "end\n", await(t, s, id).Stdout)
	id = Start(t, s, "sleep 300")
	require.Error(t, s.Send(t.Context(), id, say("x")))
}

func testBigOutput(t *testing.T, b *rig) {
	s := b.open(t)
	const size = 100 << 20
	id := Start(t, s, fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; echo problem >&2", size))
	h := sha256.New()
	peak := peakWriter{w: h}
	require.NoError(t, s.Attach(t.Context(), id, sandbox.Stdout, 0, &peak))
	want := sha256.New()
	block := bytes.Repeat([]byte("x"), 1<<20)
	for range size >> 20 {
		want.Write(block)
	}
	require.EqualValues(t, size, peak.n)
	require.Equal(t, want.Sum(nil), h.Sum(nil))
	// Other tests run beside: the bound is far below the output, not tight.
	require.Less(t, peak.heap, uint64(80<<20), "memory grows with the output")
	require.Equal(t, "problem\n", await2(t, s, id))
}

func await2(t *testing.T, s sandbox.Session, id string) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, s.Attach(t.Context(), id, sandbox.Stderr, 0, &out))
	return out.String()
}

// peakWriter notes the largest heap seen while it is written to.
type peakWriter struct {
	w    io.Writer
	n    int64
	next int64
	heap uint64
}

func (p *peakWriter) Write(data []byte) (int, error) {
	p.n += int64(len(data))
	if p.n >= p.next {
		p.next = p.n + 10<<20
		runtime.GC() // what tests beside have left does not count
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		p.heap = max(p.heap, m.HeapAlloc)
	}
	return p.w.Write(data)
}

func testBinaryOutput(t *testing.T, b *rig) {
	s := b.open(t)
	var want []byte
	for i := range 256 {
		want = append(want, byte(i), byte(i))
	}
	require.NoError(t, s.WriteFile(t.Context(), "bytes", want))
	r := run(t, s, "cat bytes; cat bytes >&2")
	require.Equal(t, want, []byte(r.Stdout))
	require.Equal(t, want, []byte(r.Stderr))
}

func testOddArguments(t *testing.T, b *rig) {
	s := b.open(t)
	for _, arg := range []string{
		"it's", `"double"`, "`id`", "$HOME", "$(id)", `back\slash`, "two\nlines", "tab\tbed", "-n", "--help", "*", "~",
		"ünïcödé 🙂", "\xff\xfe", "  spaces  ", "; exit 9", "#", "!!", "%s%d", "\r", "\x1b[31m", "a\n",
	} {
		r := run(t, s, "printf %s "+quote(arg))
		require.Equal(t, arg, r.Stdout)
		require.Equal(t, 0, r.ExitCode)
		r = run(t, s, `printf %s "$ARG"`, func(s *sandbox.ExecSpec) { s.Env = map[string]string{"ARG": arg} })
		require.Equal(t, arg, r.Stdout)
	}
	r := run(t, s, "-no-such-program")
	require.Equal(t, 127, r.ExitCode, "a command may begin with a dash")
	r = run(t, s, "echo $0 $#; echo trailing\\\n\n\n")
	require.Contains(t, r.Stdout, " 0\ntrailing")

	long := "printf %s " + strings.Repeat("x", sandbox.MaxCommand-10)
	require.Len(t, long, sandbox.MaxCommand)
	require.Len(t, run(t, s, long).Stdout, sandbox.MaxCommand-10)
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func testRefusals(t *testing.T, b *rig) {
	s := b.open(t)
	var refused *sandbox.RefusedError
	for name, spec := range map[string]sandbox.ExecSpec{
		"long":      {ID: "a", Command: strings.Repeat("x", sandbox.MaxCommand+1)},
		"nul":       {ID: "a", Command: "echo \x00"},
		"empty":     {ID: "a"},
		"no id":     {Command: "true"},
		"path id":   {ID: "../a", Command: "true"},
		"dot id":    {ID: ".a", Command: "true"},
		"long id":   {ID: strings.Repeat("a", 129), Command: "true"},
		"no cwd":    {ID: "a", Command: "true", Cwd: "nowhere"},
		"file cwd":  {ID: "a", Command: "true", Cwd: "file"},
		"env name":  {ID: "a", Command: "true", Env: map[string]string{"A=B": "c"}},
		"env value": {ID: "a", Command: "true", Env: map[string]string{"A": "\x00"}},
		"env long":  {ID: "a", Command: "true", Env: map[string]string{"A": strings.Repeat("x", sandbox.MaxCommand)}},
		"negative":  {ID: "a", Command: "true", Limits: sandbox.Limits{Timeout: -1}},
	} {
		require.NoError(t, s.WriteFile(t.Context(), "file", nil))
		require.ErrorAs(t, s.Start(t.Context(), spec), &refused, name)
	}
	_, err := s.Status(t.Context(), "a")
	require.ErrorIs(t, err, sandbox.ErrNoExec)
}

func testNoExec(t *testing.T, b *rig) {
	s, ctx := b.open(t), t.Context()
	_, err := s.Status(ctx, "none")
	require.ErrorIs(t, err, sandbox.ErrNoExec)
	require.ErrorIs(t, s.Attach(ctx, "none", sandbox.Stdout, 0, io.Discard), sandbox.ErrNoExec)
	require.ErrorIs(t, s.Signal(ctx, "none", sandbox.SignalInterrupt), sandbox.ErrNoExec)
	require.ErrorIs(t, s.Send(ctx, "none", say("x")), sandbox.ErrNoExec)
	id := Start(t, s, "true")
	require.Error(t, s.Attach(ctx, id, "stdin", 0, io.Discard))
}

// A stop that overtakes the start wins.
func testStopBeforeStart(t *testing.T, b *rig) {
	s, ctx := b.open(t), t.Context()
	require.NoError(t, s.Signal(ctx, "late", sandbox.SignalStop))
	require.NoError(t, s.Signal(ctx, "late", sandbox.SignalStop))
	require.NoError(t, s.Start(ctx, sandbox.ExecSpec{ID: "late", Command: "echo ran >> ran"}))
	r := await(t, s, "late")
	require.Equal(t, sandbox.StateCancelled, r.State)
	require.Empty(t, content(t, s, "ran"))
	require.Error(t, s.Signal(ctx, "../late", sandbox.SignalStop))

	// At the same moment, one of the two wins: it runs to a stop, or never.
	for range 10 {
		id := newID()
		var wg sync.WaitGroup
		wg.Go(func() { require.NoError(t, s.Signal(ctx, id, sandbox.SignalStop)) })
		wg.Go(func() { require.NoError(t, s.Start(ctx, sandbox.ExecSpec{ID: id, Command: "sleep 300"})) })
		wg.Wait()
		require.Equal(t, sandbox.StateCancelled, await(t, s, id).State)
	}
}

func testFreeze(t *testing.T, b *rig) {
	s, ctx := b.open(t), t.Context()
	id := Start(t, s, "i=0; while :; do i=$((i+1)); echo $i > count; sleep 0.01; done")
	eventually(t, "a count", func() bool { return content(t, s, "count") != "" })
	require.NoError(t, s.Signal(ctx, id, sandbox.SignalFreeze))
	pause(t, 50*time.Millisecond)
	before := content(t, s, "count")
	pause(t, 200*time.Millisecond)
	require.Equal(t, before, content(t, s, "count"), "a frozen exec goes on")
	require.NoError(t, s.Signal(ctx, id, sandbox.SignalThaw))
	was, err := strconv.Atoi(strings.TrimSpace(before))
	eventually(t, "the count to go on", func() bool {
		n, cerr := strconv.Atoi(strings.TrimSpace(content(t, s, "count")))
		return err != nil || (cerr == nil && n > was)
	})
	// One that is frozen is ended all the same.
	require.NoError(t, s.Signal(ctx, id, sandbox.SignalFreeze))
	require.NoError(t, s.Signal(ctx, id, sandbox.SignalStop))
	require.Equal(t, sandbox.StateCancelled, await(t, s, id).State)
}

func testCwd(t *testing.T, b *rig) {
	s := b.open(t)
	info := s.Info()
	require.NoError(t, s.WriteFile(t.Context(), "a b/c/file", nil))
	for cwd, want := range map[string]string{
		"": info.Workspace, ".": info.Workspace, "a b/c": info.Workspace + "/a b/c", info.Workspace + "/a b": info.Workspace + "/a b",
		"a b/../a b": info.Workspace + "/a b", "~": info.Home,
	} {
		r := run(t, s, "pwd", func(s *sandbox.ExecSpec) { s.Cwd = cwd })
		require.Equal(t, want+"\n", r.Stdout, cwd)
	}
}

func testEnvironment(t *testing.T, b *rig) {
	s := b.open(t)
	r := run(t, s, "env", func(s *sandbox.ExecSpec) { s.Env = map[string]string{"GIVEN": "yes"} })
	allowed := map[string]bool{
		"PATH": true, "HOME": true, "TMPDIR": true, "USER": true, "LOGNAME": true, "LANG": true, "TERM": true, "COUNTERSIGN_EXEC": true,
		"GIVEN": true, "PWD": true, "OLDPWD": true, "SHLVL": true, "_": true, // the last four are the shell's own
	}
	for line := range strings.Lines(r.Stdout) {
		name, _, _ := strings.Cut(line, "=")
		require.True(t, allowed[name], "%s is in a command's environment", name)
	}
	require.Contains(t, r.Stdout, "GIVEN=yes\n")
	require.Contains(t, r.Stdout, "TERM=dumb\n")
	require.NotContains(t, r.Stdout, SecretEnv)
	r = run(t, s, `touch "$HOME/x" "$TMPDIR/y" && command -v sh >/dev/null && umask && echo ok`)
	require.Equal(t, "0022\nok\n", r.Stdout)
}
