package sandbox_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/workflows"
)

// background is a command that goes on by itself, and the activity that follows it.
type background struct {
	*rig
	to   workflows.RunningExec
	done chan workflows.ToolResult
}

func (r *rig) background(args workflows.ShellArgs) *background {
	r.t.Helper()
	args.YieldTimeMS = 1
	c := toolCall(r.t, workflows.ToolShell, args)
	in := r.runInput(c, r.judge(c))
	b := &background{rig: r, to: workflows.RunningExec{Session: "1.1", ExecID: in.ExecID, Call: c}, done: make(chan workflows.ToolResult, 1)}
	go func() {
		res, err := call[workflows.ToolResult](r, r.acts.RunTool, in)
		if err != nil {
			res.Error = err.Error()
		}
		b.done <- res
	}()
	return b
}

func chars(t *testing.T, text string) workflows.ToolCall {
	t.Helper()
	return toolCall(t, workflows.ToolWriteStdin, workflows.WriteStdinArgs{SessionID: "1.1", Chars: text})
}

func (b *background) judge(text string) workflows.Judgement {
	b.t.Helper()
	j, err := call[workflows.Judgement](b.rig, b.acts.JudgeToolCall, workflows.JudgeInput{
		WorkflowID: session, Sandbox: b.ref, Call: chars(b.t, text), Running: &b.to,
	})
	require.NoError(b.t, err)
	return j
}

// input is what the workflow would run once the text may be sent.
func (b *background) input(text string) workflows.RunInput {
	in := b.runInput(chars(b.t, text), b.judge(text))
	to := b.to
	to.Yield = 400 * time.Millisecond
	in.Running = &to
	return in
}

func (b *background) say(text string) workflows.ToolResult {
	b.t.Helper()
	return b.heard(b.input(text))
}

func (b *background) heard(in workflows.RunInput) workflows.ToolResult {
	b.t.Helper()
	res := b.run(in)
	b.to.Stdout, b.to.Stderr = res.StdoutBytes, res.StderrBytes
	return res
}

func (b *background) ended() workflows.ToolResult {
	b.t.Helper()
	select {
	case res := <-b.done:
		return res
	case <-time.After(3 * time.Minute):
		b.t.Fatal("the command in the background does not end")
		return workflows.ToolResult{}
	}
}

// hears sends text and reads on until the model has read so much more, and returns
// what it has read since, and the state in which the command then was.
func (b *background) hears(text, stdout, stderr string) (state, out, problem string) {
	b.t.Helper()
	b.eventually("the model reads "+stdout+stderr, func() bool {
		parts := strings.SplitN(b.say(text).Output.Text, "|", 5)
		text = ""
		state, out, problem = parts[0], out+parts[3], problem+parts[4]
		return strings.Contains(out, stdout) && strings.Contains(problem, stderr)
	})
	return state, out, problem
}

// A command is read on from where the model was, written to and interrupted.
func TestTalk(t *testing.T) {
	t.Parallel()
	b := newRig(t).background(workflows.ShellArgs{Command: `echo one; while read -r line; do echo "got $line"; echo problem >&2; done; echo end; exit 3`})
	b.eventually("the first line", func() bool { return b.log(b.to.ExecID, "stdout") == "one\n" })
	require.Equal(t, "running|false||one\n|", b.say("").Output.Text)
	state, out, problem := b.hears("a b\n", "got a b\n", "problem\n")
	require.Equal(t, []string{"running", "got a b\n", "problem\n"}, []string{state, out, problem})
	require.Equal(t, "running|false|||", b.say("").Output.Text, "nothing is read twice")
	_, out, problem = b.hears("last\n\x04", "end\n", "problem\n")
	require.Equal(t, []string{"got last\nend\n", "problem\n"}, []string{out, problem})
	res := b.ended()
	require.Equal(t, 3, *res.ExitCode)
	require.Equal(t, "completed|false|||", b.say("").Output.Text, "an ended command can still be read")
	late := b.say("late\n")
	require.Equal(t, workflows.CallCompleted, late.State)
	require.Contains(t, late.Output.Text, "had ended before")
}

func TestTalkInterrupts(t *testing.T) {
	t.Parallel()
	b := newRig(t).background(workflows.ShellArgs{Command: `trap 'echo interrupted; exit 4' INT; echo ready; while :; do sleep 0.1; done`})
	b.eventually("it is ready", func() bool { return b.log(b.to.ExecID, "stdout") == "ready\n" })
	require.Contains(t, b.judge("a\x03").Bad, "alone")
	require.Equal(t, "safe", b.judge("\x03").Tier)
	b.hears("\x03", "interrupted\n", "")
	require.Equal(t, 4, *b.ended().ExitCode)
}

// What is sent is judged by who reads it, and bound by its digest.
func TestTalkIsJudged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.background(workflows.ShellArgs{Command: "cat"})
	j := b.judge("rm -rf build\n")
	require.Equal(t, "risky", j.Tier)
	require.Equal(t, "rm -rf build\n", j.Command.Text)
	require.Equal(t, "cat (1.1)", j.To)
	require.Empty(t, j.Shape, "no standing permission")
	require.False(t, j.Editable)
	require.Equal(t, []string{"`cat` is sent text, and what it does with it is not known"}, j.Reasons)
	require.Equal(t, j, b.judge("rm -rf build\n"))
	require.NotEqual(t, j.Digest, b.judge("rm -rf build \n").Digest)
	require.Equal(t, "safe", b.judge("").Tier)
	require.NotEmpty(t, b.judge(strings.Repeat("x", 65<<10)).Bad)

	shell := workflows.RunningExec{Session: "1.2", ExecID: "another", Call: toolCall(t, workflows.ToolShell, workflows.ShellArgs{Command: "bash", YieldTimeMS: 1})}
	other := *b
	other.to = shell
	require.NotEqual(t, j.Digest, other.judge("rm -rf build\n").Digest, "another command is another digest")
	require.Equal(t, "safe", other.judge("ls\n").Tier, "a shell gets a script")
	other.to.Asked = true
	require.Equal(t, "risky", other.judge("ls\n").Tier, "what it was made to start may read now")
	other.to.Asked, other.to.Call = false, toolCall(t, workflows.ToolShell, workflows.ShellArgs{Command: "bash", YieldTimeMS: 1, Cwd: "sub/../.."})
	require.Equal(t, "risky", other.judge("ls\n").Tier, "a shell that was started elsewhere names files there")
	other.to.Asked, other.to.Call = false, toolCall(t, workflows.ToolShell, workflows.ShellArgs{Command: "bash", TTY: true})
	require.Equal(t, "risky", other.judge("ls\n").Tier, "a terminal's shell reads keys, and expands its history")
	require.Equal(t, "forbidden", other.judge("rm -rf /\n").Tier)

	// A text other than what was allowed is not sent.
	in := b.input("a\n")
	in.Digest = b.judge("b\n").Digest
	require.Equal(t, workflows.ResultChanged, b.run(in).State)
	b.say("\x04")
	require.Empty(t, b.log(b.to.ExecID, "stdout"))
	b.ended()
}

// On a terminal the model sees what it typed and what that brought about, as it
// looks; what is stored is what came. Ctrl-C and Ctrl-D are keys.
func TestTalkOnATerminal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.background(workflows.ShellArgs{Command: `test -t 0 || exit 9; printf 'name: '; read -r x; printf '\033[1mhello %s\033[0m\n10%%\r20%%\n' "$x"; ` +
		`trap 'echo interrupted' INT; read -r y; echo on; cat; exit 6`, TTY: true})
	_, out, _ := b.hears("", "name: ", "")
	require.Equal(t, "name: ", out)
	require.Equal(t, "risky", b.judge("ada\n").Tier)
	require.True(t, b.judge("ada\n").Terminal)
	remove := workflows.ShellArgs{Command: "rm -rf build"}
	require.NotEmpty(t, b.rig.judge(toolCall(t, workflows.ToolShell, remove)).Shape)
	remove.TTY = true
	require.Empty(t, b.rig.judge(toolCall(t, workflows.ToolShell, remove)).Shape, "no standing permission holds on a terminal")
	require.Contains(t, b.judge("ada\n\x03").Reasons, "the text holds keys that edit, complete or interrupt on a terminal")
	require.Contains(t, b.judge("ada").Reasons, "the text does not end its last line, so what comes next is part of it")
	require.Contains(t, b.judge(strings.Repeat("x", 4096)+"\n").Bad, "a terminal takes 4095")
	_, out, _ = b.hears("ada\n", "20%\n", "")
	require.Equal(t, "ada\nhello ada\n20%\n", out)
	require.Contains(t, b.log(b.to.ExecID, "stdout"), "\x1b[1mhello ada\x1b[0m\r\n10%\r20%\r\n")
	require.Equal(t, "safe", b.judge("\x03").Tier)
	b.hears("\x03", "interrupted\n", "")
	require.Equal(t, "safe", b.judge("\x04").Tier)
	b.hears("\x04", "on\n", "") // of read
	b.say("\x04")               // of cat
	res := b.ended()
	require.Equal(t, 6, *res.ExitCode, res.Output.Text)
	require.NotContains(t, res.Tail, "\x1b")
	require.Contains(t, res.Tail, "hello ada\n20%\n")
}

// A retry on another worker sends nothing a second time, also where what was
// bound is different by now.
func TestTalkOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.background(workflows.ShellArgs{Command: `echo ready; while read -r line; do echo "got $line"; done`})
	b.eventually("it is ready", func() bool { return b.log(b.to.ExecID, "stdout") == "ready\n" })
	b.to.Stdout = int64(len("ready\n"))
	in := b.input("once\n")
	b.eventually("it is answered", func() bool { return b.run(in).Output.Text == "running|false||got once\n|" })
	for i := range 3 {
		if i == 2 {
			in.Running.Asked, in.Digest = true, "another"
		}
		res := b.run(in)
		require.Equal(t, "running|false||got once\n|", res.Output.Text, i)
	}
	b.say("\x04")
	b.ended()
	require.Equal(t, "ready\ngot once\n", b.log(b.to.ExecID, "stdout"))
}

// A snapshot halts what runs in the background; it goes on afterwards. A release
// ends it.
func TestTalkAndSnapshot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.background(workflows.ShellArgs{Command: `i=0; while :; do i=$((i + 1)); echo $i > t; mv t a; echo $i > t; mv t b; done`})
	b.eventually("it writes", func() bool { return *r.shell("cat b").ExitCode == 0 })
	for turn := range 3 {
		taken, err := call[workflows.SnapshotResult](r, r.acts.TakeSnapshot, workflows.SnapshotInput{WorkflowID: session, Sandbox: r.ref, Turn: turn + 1})
		require.NoError(t, err)
		fork, err := r.open(workflows.OpenInput{WorkflowID: fmt.Sprint(session, ".", turn), Generation: 1, Snapshot: taken.Snapshot})
		require.NoError(t, err)
		ours := r.ref
		r.ref = fork
		res := r.shell("cat a b")
		var first, second int
		_, err = fmt.Sscan(res.Tail, &first, &second)
		require.NoError(t, err, res.Tail)
		require.InDelta(t, first, second, 1, "both files are of one moment")
		_, err = call[workflows.Inventory](r, r.acts.DestroySandbox, workflows.ReleaseInput{Sandbox: fork})
		require.NoError(t, err)
		r.ref = ours
	}
	_, err := call[any](r, r.acts.ReleaseSandbox, workflows.ReleaseInput{WorkflowID: session, Sandbox: r.ref})
	require.NoError(t, err)
	require.Equal(t, workflows.CallCancelled, b.ended().State)
}

func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("never came: %s", what)
		}
	}
}
