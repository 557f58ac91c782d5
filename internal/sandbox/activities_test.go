package sandbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/blob/execlog"
	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/policy"
	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/local"
	"github.com/countersign/countersign/internal/workflows"
)

const session = "agent/web/main/42"

// gate binds a script that `sh FILE` runs, calls rm risky and the rest a write.
type gate struct{}

func (gate) Secret(path string, _ policy.Env) bool { return strings.HasSuffix(path, ".env") }

func (gate) Version() string { return "test" }

func (gate) Shape(command string, _ policy.Env, _ policy.Verdict) string { return command }

func (gate) Needs(string, policy.Env, policy.Facts) policy.Needs { return policy.Needs{} }

func (gate) Judge(command string, env policy.Env, _ policy.Facts) policy.Verdict {
	v := policy.Verdict{Tier: policy.Write, Display: command, Displayable: true}
	if strings.HasPrefix(command, "rm ") || strings.HasPrefix(command, "sh ") {
		v.Tier, v.Reasons = policy.Risky, []policy.Reason{{Segment: 1, Tier: policy.Risky, Text: "it is risky"}}
	}
	if script, ok := strings.CutPrefix(command, "sh "); ok {
		v.Operands = []string{env.Cwd + "/" + script}
		v.Scripts = v.Operands
	}
	v.PackageInstall = strings.Contains(command, "install")
	return v
}

func (gate) JudgeWrite(path string, _ []byte, _ policy.Env, facts policy.Facts) policy.Verdict {
	v := policy.Verdict{Tier: policy.Write, Display: "write_file " + path, Displayable: true, Paths: []string{path}}
	if strings.Contains(facts.Files[path].Resolved, "/.git/") {
		v.Tier = policy.Risky
	}
	return v
}

func (gate) JudgeChanges(changes []policy.FileChange, show string, _ policy.Env, facts policy.Facts) policy.Verdict {
	v := policy.Verdict{Tier: policy.Write, Display: show, Displayable: true}
	for _, c := range changes {
		if strings.Contains(facts.Files[c.Path].Resolved, "/.git/") {
			v.Tier = policy.Risky
		}
	}
	return v
}

func (gate) Reader(command string, lang policy.Shell) policy.Reader {
	return policy.Default().Reader(command, lang)
}

func (gate) JudgeStdin(to policy.Reader, text string, env policy.Env, facts policy.Facts) policy.Verdict {
	return policy.Default().JudgeStdin(to, text, env, facts)
}

// rig is a worker's activities on one data directory.
type rig struct {
	t     *testing.T
	dir   string
	blobs *blob.Store
	acts  *sandbox.Activities
	ref   workflows.SandboxRef
	n     int
	// awaited says whether the server waits for the attempts of the next worker.
	awaited func(ctx context.Context, details ...any) error
	// notRemoved are those of which the worker was told that they could not be removed.
	notRemoved []workflows.SandboxRef
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return newRigIn(t, t.TempDir())
}

func newRigIn(t *testing.T, dir string) *rig {
	t.Helper()
	r := &rig{t: t, dir: dir}
	blobs, err := blob.Open(t.Context(), "file://"+filepath.Join(r.dir, "blobs"))
	require.NoError(t, err)
	r.blobs = blobs
	seed := filepath.Join(r.dir, "seed")
	require.NoError(t, os.MkdirAll(seed, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(seed, "README.md"), []byte("# Seed\n"), 0o644))
	r.restart()
	r.ref, err = r.open(workflows.OpenInput{WorkflowID: session, Generation: 1})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, _ = call[workflows.Inventory](r, r.acts.DestroySandbox, workflows.ReleaseInput{Sandbox: r.ref})
	})
	return r
}

// restart is another worker on the same data directory.
func (r *rig) restart() { r.restartWith(gate{}) }

func (r *rig) restartWith(g sandbox.Gate) {
	b, err := local.New(r.t.Context(), local.Config{DataDir: filepath.Join(r.dir, "data"), Forwarder: os.Args[0]})
	require.NoError(r.t, err)
	r.acts = sandbox.NewActivities(sandbox.Config{
		Offers: []sandbox.Offer{{Backend: b, Queue: "sandbox-exec/host", Host: "host"}}, Default: "local", Blobs: r.blobs, Gate: g,
		Format: format, Workspace: filepath.Join(r.dir, "seed"), TempDir: r.dir, StateDir: filepath.Join(r.dir, "snapshots"),
		Timeouts: sandbox.Timeouts{Read: 30 * time.Second, Shell: 60 * time.Second, Install: 600 * time.Second, Background: time.Hour / 2},
		Rules: func(tier, _ string) workflows.ApprovalRule {
			return workflows.ApprovalRule{Required: len(tier)}
		},
		Awaited: r.awaited, NotRemoved: func(ref workflows.SandboxRef) { r.notRemoved = append(r.notRemoved, ref) },
	})
}

func format(o sandbox.Output) string {
	return fmt.Sprintf("%s|%v|%s|%s%s|%s", o.State, o.TimedOut, o.Note, o.Stdout, o.StdoutTail, o.Stderr)
}

// call runs an activity as a worker would.
func call[R any](r *rig, fn any, in any) (R, error) {
	var res R
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(fn)
	v, err := env.ExecuteActivity(fn, in)
	if err == nil && v.HasValue() {
		err = v.Get(&res)
	}
	return res, err
}

func (r *rig) open(in workflows.OpenInput) (workflows.SandboxRef, error) {
	res, err := call[workflows.OpenResult](r, r.acts.OpenSandbox, in)
	return res.SandboxRef, err
}

func toolCall(t *testing.T, tool string, args any) workflows.ToolCall {
	t.Helper()
	data, err := json.Marshal(args)
	require.NoError(t, err)
	return workflows.ToolCall{CallID: "c", Tool: tool, Args: workflows.TextRef{Text: string(data)}}
}

func (r *rig) judge(c workflows.ToolCall) workflows.Judgement {
	r.t.Helper()
	j, err := call[workflows.Judgement](r, r.acts.JudgeToolCall, workflows.JudgeInput{WorkflowID: session, Sandbox: r.ref, Call: c})
	require.NoError(r.t, err)
	return j
}

func (r *rig) runInput(c workflows.ToolCall, j workflows.Judgement) workflows.RunInput {
	r.n++
	return workflows.RunInput{
		WorkflowID: session, Sandbox: r.ref, Call: c, ExecID: fmt.Sprintf("exec-%d", r.n), Digest: j.Digest, Timeout: j.Timeout,
	}
}

func (r *rig) run(in workflows.RunInput) workflows.ToolResult {
	r.t.Helper()
	res, err := call[workflows.ToolResult](r, r.acts.RunTool, in)
	require.NoError(r.t, err)
	return res
}

func (r *rig) shell(command string) workflows.ToolResult {
	r.t.Helper()
	c := toolCall(r.t, workflows.ToolShell, workflows.ShellArgs{Command: command})
	return r.run(r.runInput(c, r.judge(c)))
}

func (r *rig) log(exec, stream string) string {
	r.t.Helper()
	data, err := execlog.New(r.blobs, session).ReadAt(r.t.Context(), exec, stream, 0, 64<<20)
	require.NoError(r.t, err)
	return string(data)
}

func errType(err error) string {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return app.Type()
	}
	return ""
}

func TestOpenAndRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	require.Equal(t, "local", r.ref.Backend)
	require.Equal(t, "sandbox-exec/host", r.ref.Queue)
	require.NotEmpty(t, r.ref.WorkspacePath)
	require.Equal(t, r.ref.Isolated, r.ref.Notice == "")

	res := r.shell("cat README.md; echo problem >&2; exit 3")
	require.Equal(t, workflows.CallCompleted, res.State)
	require.Equal(t, 3, *res.ExitCode)
	require.Equal(t, "completed|false||# Seed\n|problem\n", res.Output.Text)
	require.ElementsMatch(t, []string{"# Seed", "problem"}, strings.Split(res.Tail, "\n"))
	require.EqualValues(t, 7, res.StdoutBytes)
	require.Equal(t, "# Seed\n", r.log("exec-1", execlog.Stdout))
	require.Equal(t, "problem\n", r.log("exec-1", execlog.Stderr))
	require.False(t, res.EndedAt.Before(res.StartedAt))

	again, err := r.open(workflows.OpenInput{WorkflowID: session, Current: &r.ref})
	require.NoError(t, err)
	require.Equal(t, r.ref, again)
}

// Where a sandbox is removed while a command runs in it, the call ends as unknown, for
// who follows it and for who comes later; so does one that is the whole data directory.
func TestRemovedWhileACommandRuns(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"data/sandboxes/*-*", "data/sandboxes", "."} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			c := toolCall(t, workflows.ToolShell, workflows.ShellArgs{Command: "echo begun > begun; sleep 600"})
			j := r.judge(c)
			j.Timeout = 20 * time.Second // what nobody follows ends with it
			in := r.runInput(c, j)
			var res workflows.ToolResult
			var err error
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				res, err = call[workflows.ToolResult](r, r.acts.RunTool, in)
			}()
			require.Eventually(t, func() bool {
				_, err := os.Stat(filepath.Join(r.ref.WorkspacePath, "begun"))
				return err == nil
			}, time.Minute, 10*time.Millisecond)
			all, gerr := filepath.Glob(filepath.Join(r.dir, what))
			require.NoError(t, gerr)
			require.NotEmpty(t, all)
			for _, dir := range all {
				require.Eventually(t, func() bool { return os.RemoveAll(dir) == nil }, time.Minute, 10*time.Millisecond)
			}
			<-ended
			require.NoError(t, err)
			require.Equal(t, workflows.CallUnknown, res.State)
			require.Equal(t, "The sandbox is gone from the worker; the command may have run.", res.Error)
			in.Attach = true
			require.Equal(t, res.Error, r.run(in).Error)
			require.Equal(t, workflows.CallUnknown, r.run(in).State)
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.open(workflows.OpenInput{WorkflowID: "x", Backend: "docker"})
	require.Equal(t, workflows.ErrTypeUnknownBackend, errType(err))
	require.ErrorContains(t, err, `There is no backend "docker" here. There is: local.`)
	_, err = r.open(workflows.OpenInput{WorkflowID: "x", Workspace: "nope"})
	require.Equal(t, sandbox.ErrTypeRefused, errType(err))
	_, err = r.open(workflows.OpenInput{WorkflowID: "x", Root: "/etc"})
	require.Equal(t, sandbox.ErrTypeRefused, errType(err))
	_, err = r.open(workflows.OpenInput{WorkflowID: "x", Current: &workflows.SandboxRef{Backend: "local", ID: "x", Generation: 1}})
	require.Equal(t, workflows.ErrTypeSandboxGone, errType(err))
	_, err = r.open(workflows.OpenInput{WorkflowID: "x", Snapshot: "snapshots/../../etc/passwd"})
	require.Equal(t, sandbox.ErrTypeRefused, errType(err))
	_, err = r.open(workflows.OpenInput{WorkflowID: "x", Snapshot: "sha256:" + strings.Repeat("0", 64)})
	require.Equal(t, sandbox.ErrTypeRefused, errType(err))
}

func TestWriteAndReadFile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := toolCall(t, workflows.ToolWriteFile, workflows.WriteFileArgs{Path: "d/x.txt", Content: "hello\n"})
	j := r.judge(w)
	require.Equal(t, "write", j.Tier)
	in := r.runInput(w, j)
	require.Equal(t, workflows.CallCompleted, r.run(in).State)
	require.Equal(t, workflows.CallCompleted, r.run(in).State, "writing again leaves the same")

	c := toolCall(t, workflows.ToolReadFile, workflows.ReadFileArgs{Path: r.ref.Root + "/d/x.txt"})
	res := r.run(r.runInput(c, r.judge(c)))
	require.Equal(t, "|false||hello\n|", res.Output.Text)
	require.Equal(t, "hello\n", r.log("exec-2", execlog.Stdout))
	c = toolCall(t, workflows.ToolReadFile, workflows.ReadFileArgs{Path: "none"})
	res = r.run(r.runInput(c, r.judge(c)))
	require.Equal(t, workflows.CallFailed, res.State)
	require.Contains(t, res.Error, "does not exist")

	// The path turns into a link while the write waits.
	r.shell("mkdir .git; mkdir e")
	w = toolCall(t, workflows.ToolWriteFile, workflows.WriteFileArgs{Path: "e/config", Content: "evil"})
	j = r.judge(w)
	require.Equal(t, "write", j.Tier)
	r.shell("rmdir e; ln -s .git e")
	res = r.run(r.runInput(w, j))
	require.Equal(t, workflows.ResultChanged, res.State)
	require.Equal(t, "risky", r.judge(w).Tier)
}

func TestRunTwiceIsOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := toolCall(t, workflows.ToolShell, workflows.ShellArgs{Command: "echo run | tee -a runs"})
	in := r.runInput(c, r.judge(c))
	first := r.run(in)
	r.restart()
	require.Equal(t, first.Output, r.run(in).Output)
	require.Equal(t, "run\n", r.log(in.ExecID, execlog.Stdout))
	require.Equal(t, "completed|false||run\n|", r.shell("cat runs").Output.Text)
}

// An attempt that the server has given up, while its worker stood still, starts
// nothing; another one does.
func TestGivenUpIsNotStarted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	gone := errors.New("given up")
	r.awaited = func(context.Context, ...any) error { return gone }
	r.restart()
	c := toolCall(t, workflows.ToolShell, workflows.ShellArgs{Command: "echo ran >> log; cat log"})
	in := r.runInput(c, r.judge(c))
	_, err := call[workflows.ToolResult](r, r.acts.RunTool, in)
	require.ErrorContains(t, err, gone.Error())
	r.awaited = nil
	r.restart()
	require.Equal(t, "completed|false||ran\n|", r.run(in).Output.Text)
}

func TestTimeoutAndFailure(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := toolCall(t, workflows.ToolShell, workflows.ShellArgs{Command: "echo begun; sleep 60", TimeoutSeconds: 1})
	res := r.run(r.runInput(c, r.judge(c)))
	require.True(t, res.TimedOut)
	require.Equal(t, workflows.CallCompleted, res.State)
	require.Nil(t, res.ExitCode)
	require.Equal(t, "completed|true|ended after 1s, its time-out|begun\n|", res.Output.Text)

	if r.ref.Isolated {
		// A place that the sandbox lacks: bubblewrap says so, and nothing ran.
		c = toolCall(t, workflows.ToolShell, workflows.ShellArgs{Command: "true", Cwd: "/no/such/place"})
		res = r.run(r.runInput(c, r.judge(c)))
		require.Equal(t, workflows.CallFailed, res.State)
		require.Contains(t, res.Error, "It could not be started: ")
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := toolCall(t, workflows.ToolShell, workflows.ShellArgs{Command: "echo begun; sleep 60"})
	in := r.runInput(c, r.judge(c))
	done := make(chan workflows.ToolResult, 1)
	go func() {
		res, _ := call[workflows.ToolResult](r, r.acts.RunTool, in)
		done <- res
	}()
	require.Eventually(t, func() bool { return r.log(in.ExecID, execlog.Stdout) == "begun\n" }, time.Minute, 10*time.Millisecond,
		"output is in the blob store while the command runs")
	_, err := call[any](r, r.acts.SignalExec, workflows.SignalExecInput{Sandbox: r.ref, ExecID: in.ExecID, Why: "stop"})
	require.NoError(t, err)
	res := <-done
	require.Equal(t, workflows.CallCancelled, res.State)
	require.Contains(t, res.Output.Text, "begun")

	// A stop that comes first wins.
	in = r.runInput(c, r.judge(c))
	_, err = call[any](r, r.acts.SignalExec, workflows.SignalExecInput{Sandbox: r.ref, ExecID: in.ExecID, Why: "stop"})
	require.NoError(t, err)
	res = r.run(in)
	require.Equal(t, workflows.CallCancelled, res.State)
	require.NotContains(t, res.Output.Text, "begun")
}

// A worker that drains leaves the command running; the next one streams on, and
// no byte is lost or repeated.
func TestDrainAndReattach(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := toolCall(t, workflows.ToolShell, workflows.ShellArgs{
		Command: `for i in $(seq 500); do echo "line $i of many that are long enough to count"; sleep 0.01; done; echo run >> runs`,
	})
	in := r.runInput(c, r.judge(c))
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		_, err := r.acts.RunTool(ctx, in)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, "the context's own error")
		r.restart()
	}
	in.Attach = true
	res := r.run(in)
	require.Equal(t, workflows.CallCompleted, res.State)
	var want strings.Builder
	for i := range 500 {
		fmt.Fprintf(&want, "line %d of many that are long enough to count\n", i+1)
	}
	require.Equal(t, want.String(), r.log(in.ExecID, execlog.Stdout))
	require.EqualValues(t, want.Len(), res.StdoutBytes)
	require.True(t, strings.HasSuffix(res.Tail, "line 500 of many that are long enough to count"))
	require.Len(t, strings.Split(res.Tail, "\n"), 10)
	require.Contains(t, r.shell("cat runs").Output.Text, "|run\n|")
}

// Two attempts that overlap store each byte once.
func TestOverlappingAttempts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := toolCall(t, workflows.ToolShell, workflows.ShellArgs{
		Command: `i=0; while [ $i -lt 120 ]; do i=$((i+1)); head -c 20000 /dev/zero | tr '\0' $((i%10)); sleep 0.01; done`,
	})
	in := r.runInput(c, r.judge(c))
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			res, err := call[workflows.ToolResult](r, r.acts.RunTool, in)
			require.NoError(t, err)
			require.EqualValues(t, 120*20000, res.StdoutBytes)
		})
	}
	wg.Wait()
	var want strings.Builder
	for i := range 120 {
		want.WriteString(strings.Repeat(fmt.Sprint((i+1)%10), 20000))
	}
	require.True(t, want.String() == r.log(in.ExecID, execlog.Stdout), "the log is the output")
}

func TestHeartbeats(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := toolCall(t, workflows.ToolShell, workflows.ShellArgs{Command: `printf 'a\033[31mred\033[0m\n'; echo err >&2; sleep 2`})
	in := r.runInput(c, r.judge(c))
	var mu sync.Mutex
	var last workflows.ExecProgress
	beats := 0
	sandbox.OnHeartbeat(r.acts, func(_ context.Context, details ...any) {
		mu.Lock()
		defer mu.Unlock()
		if len(details) > 0 {
			last = details[0].(workflows.ExecProgress)
			beats++
		}
	})
	r.run(in)
	mu.Lock()
	defer mu.Unlock()
	require.GreaterOrEqual(t, beats, 4, "at least one a second")
	require.Equal(t, in.ExecID, last.ExecID)
	require.ElementsMatch(t, []string{"ared", "err"}, strings.Split(last.Tail, "\n"))
	require.EqualValues(t, 4, last.StderrBytes)
}

func TestLongOutput(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	res := r.shell("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end")
	require.NotEmpty(t, res.Output.Ref)
	require.LessOrEqual(t, len(res.Output.Text), workflows.MaxInlineText)
	require.EqualValues(t, 3000005, res.StdoutBytes)
	require.Len(t, r.log("exec-1", execlog.Stdout), 3000005)
	text, err := r.blobs.Get(t.Context(), res.Output.Ref)
	require.NoError(t, err)
	require.Contains(t, string(text), "\nend\n")
	require.Less(t, len(text), 64<<10)
	require.LessOrEqual(t, len(res.Tail), 1<<10)
}

func TestGone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := toolCall(t, workflows.ToolShell, workflows.ShellArgs{Command: "true"})
	in := r.runInput(c, r.judge(c))
	require.NoError(t, os.RemoveAll(filepath.Join(r.dir, "data", "sandboxes")))
	require.NoError(t, os.MkdirAll(filepath.Join(r.dir, "data", "sandboxes"), 0o700))
	r.restart()
	res := r.run(in)
	require.Equal(t, workflows.CallFailed, res.State, "it cannot have run")
	in.Attach = true
	res = r.run(in)
	require.Equal(t, workflows.CallUnknown, res.State)
	require.NotEmpty(t, res.Error)
	_, err := call[workflows.Judgement](r, r.acts.JudgeToolCall, workflows.JudgeInput{Sandbox: r.ref, Call: c})
	require.Equal(t, workflows.ErrTypeSandboxGone, errType(err))
}

func TestSnapshotForkAndDestroy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.shell("git init -q -b main . && git add . && git -c user.name=a -c user.email=a@b commit -qm x; echo y > new; mkdir empty")
	in := workflows.SnapshotInput{WorkflowID: session, Sandbox: r.ref, Turn: 1}
	snap, err := call[workflows.SnapshotResult](r, r.acts.TakeSnapshot, in)
	require.NoError(t, err)
	require.Regexp(t, `^sha256:[0-9a-f]{64}$`, snap.Snapshot)
	again, err := call[workflows.SnapshotResult](r, r.acts.TakeSnapshot, in)
	require.NoError(t, err)
	require.Equal(t, snap, again, "what has not changed has one name")

	// The fork has what was there at the boundary, not what came later.
	r.shell("echo late > late")
	fork, err := r.open(workflows.OpenInput{WorkflowID: session + "-fork", Generation: 1, Snapshot: snap.Snapshot})
	require.NoError(t, err)
	source := r.ref
	r.ref = fork
	require.Equal(t, "completed|false||README.md\nempty\nnew\n|", r.shell("ls").Output.Text)
	_, err = call[workflows.Inventory](r, r.acts.DestroySandbox, workflows.ReleaseInput{Sandbox: fork})
	require.NoError(t, err)
	r.ref = source

	// A damaged one leaves no sandbox.
	damaged := 0
	for o, err := range r.blobs.List(t.Context(), "snapshots/") {
		require.NoError(t, err)
		if o.Key != "snapshots/blobs/sha256/"+strings.TrimPrefix(snap.Snapshot, "sha256:") {
			data, err := r.blobs.Get(t.Context(), o.Key)
			require.NoError(t, err)
			data[len(data)/2] ^= 1
			require.NoError(t, r.blobs.Write(t.Context(), o.Key, data))
			damaged++
		}
	}
	require.Positive(t, damaged)
	_, err = r.open(workflows.OpenInput{WorkflowID: "damaged", Generation: 1, Snapshot: snap.Snapshot})
	require.Equal(t, sandbox.ErrTypeRefused, errType(err))
	require.ErrorContains(t, err, "The snapshot is damaged")
	_, err = r.open(workflows.OpenInput{WorkflowID: "damaged", Current: &workflows.SandboxRef{Backend: "local", ID: "damaged", Generation: 1}})
	require.Equal(t, workflows.ErrTypeSandboxGone, errType(err))

	record, err := filepath.Glob(filepath.Join(r.dir, "data", "sandboxes", "*", "sandbox.json"))
	require.NoError(t, err)
	require.NotEmpty(t, record)
	whole := map[string][]byte{}
	for _, file := range record {
		whole[file], err = os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.Remove(file))
		require.NoError(t, os.Mkdir(file, 0o755))
	}
	_, err = call[workflows.Inventory](r, r.acts.DestroySandbox, workflows.ReleaseInput{Sandbox: r.ref})
	require.Error(t, err)
	require.Equal(t, []workflows.SandboxRef{r.ref}, r.notRemoved)
	for file, data := range whole {
		require.NoError(t, os.Remove(file))
		require.NoError(t, os.WriteFile(file, data, 0o600))
	}

	inv, err := call[workflows.Inventory](r, r.acts.DestroySandbox, workflows.ReleaseInput{Sandbox: r.ref})
	require.NoError(t, err)
	require.Len(t, r.notRemoved, 1, "this time it was")
	require.Equal(t, 3, inv.Files)
	require.Positive(t, inv.Bytes)
	require.Equal(t, 2, inv.Uncommitted)
	require.Equal(t, []string{"1 on main"}, inv.Unpushed)
	inv, err = call[workflows.Inventory](r, r.acts.DestroySandbox, workflows.ReleaseInput{Sandbox: r.ref})
	require.NoError(t, err)
	require.Zero(t, inv)
	_, err = call[any](r, r.acts.ReleaseSandbox, workflows.ReleaseInput{Sandbox: r.ref})
	require.NoError(t, err)
}

// While one exec's binding is looked at and it starts, no other can change what
// it binds.
func TestOthersAreHeld(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.shell("echo 'echo good >> result' > s.sh")
	c := toolCall(t, workflows.ToolShell, workflows.ShellArgs{Command: "sh s.sh"})
	j := r.judge(c)
	// This one turns the script bad and good again, as fast as it can.
	flip := toolCall(t, workflows.ToolShell, workflows.ShellArgs{
		Command: `cp s.sh good; echo 'echo BAD >> result' > bad; while [ ! -e stop ]; do cp bad t; mv t s.sh; cp good t; mv t s.sh; done`,
	})
	flipping := r.runInput(flip, r.judge(flip))
	done := make(chan error, 1)
	go func() {
		_, err := call[workflows.ToolResult](r, r.acts.RunTool, flipping)
		done <- err
	}()
	ran, changed := 0, 0
	for i := 0; i < 60 && (ran < 5 || changed < 2); i++ {
		switch r.run(r.runInput(c, j)).State {
		case workflows.CallCompleted:
			ran++
		case workflows.ResultChanged:
			changed++
		}
	}
	_, err := call[any](r, r.acts.SignalExec, workflows.SignalExecInput{Sandbox: r.ref, ExecID: flipping.ExecID})
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.Positive(t, ran)
	require.NotContains(t, r.shell("cat result").Output.Text, "BAD")
}

// What another command adds to a script while a shell still reads it does not run,
// whether that command had it open before or opens it by its name.
func TestScriptsAreReadAsTheyWere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.shell(`printf '%s\n' ': > go' 'until [ -e added ]; do sleep 0.1; done' 'echo good >> result' > s.sh; chmod 750 s.sh`)
	c := toolCall(t, workflows.ToolShell, workflows.ShellArgs{Command: "sh s.sh"})
	j := r.judge(c)
	other := toolCall(t, workflows.ToolShell, workflows.ShellArgs{
		Command: `exec 3>> s.sh; : > open; until [ -e go ]; do sleep 0.1; done; echo 'echo BAD >> result' >> s.sh; echo 'echo BAD >> result' >&3; : > added; until [ -e stop ]; do sleep 0.1; done`,
	})
	adding := r.runInput(other, r.judge(other))
	done := make(chan error, 1)
	go func() {
		_, err := call[workflows.ToolResult](r, r.acts.RunTool, adding)
		done <- err
	}()
	r.shell("until [ -e open ]; do sleep 0.1; done")
	require.Equal(t, workflows.CallCompleted, r.run(r.runInput(c, j)).State)
	require.Contains(t, r.shell("cat result; stat -c %a s.sh; : > stop").Output.Text, "good\n750\n")
	require.NoError(t, <-done)
	require.NotContains(t, r.shell("cat result").Output.Text, "BAD")
	require.Contains(t, r.shell("cat s.sh").Output.Text, "BAD", "what is written to the file is in it")
}

// A secret in a command is masked wherever people read it, and nowhere else.
func TestSecretsAreMaskedForPeopleOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	secret := "xoxb-" + strings.Repeat("1a2B", 8)
	shell := func(command string) workflows.ToolCall {
		return toolCall(t, workflows.ToolShell, workflows.ShellArgs{Command: command})
	}
	command := `rm -f x; echo "Authorization: Bearer ` + secret + `" | tee out`
	c := shell(command)
	j := r.judge(c)
	require.Equal(t, `rm -f x; echo "Authorization: Bearer `+mask.Mark+`" | tee out`, j.Command.Text)
	other := r.judge(shell(strings.Replace(command, secret, secret+"9", 1)))
	require.Equal(t, j.Command, other.Command)
	require.NotEqual(t, j.Digest, other.Digest, "the digest binds what is masked")

	res := r.run(r.runInput(c, j))
	require.Equal(t, workflows.CallCompleted, res.State, "what was judged is what runs")
	require.Equal(t, "Authorization: Bearer "+mask.Mark, res.Tail)
	require.Equal(t, "Authorization: Bearer "+secret+"\n", r.log("exec-1", execlog.Stdout))
	require.Contains(t, r.shell("cat out").Output.Text, secret)

	require.NoError(t, os.WriteFile(filepath.Join(r.ref.WorkspacePath, "s.sh"), []byte("TOKEN="+secret+" ./deploy\n"), 0o644))
	j = r.judge(shell("sh s.sh"))
	detail, err := r.blobs.Get(t.Context(), j.Detail)
	require.NoError(t, err)
	require.Contains(t, string(detail), "TOKEN="+mask.Mark+" ./deploy")
	require.NotContains(t, string(detail), secret)
}
