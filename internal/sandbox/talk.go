package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/blob/execlog"
	"github.com/countersign/countersign/internal/blob/owned"
	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/policy"
	"github.com/countersign/countersign/internal/sandbox/terminal"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// The keys of a terminal that are meant without one, too.
	keyInterrupt = "\x03"
	keyEnd       = "\x04"

	// sendHeld is how long the session's commands stay halted for text that its
	// reader's pipe does not take at once.
	sendHeld = 500 * time.Millisecond
	// catchUp is how long a look at output waits for what was printed to be stored.
	catchUp = 2 * time.Second
	// maxTo is how much of a command line an approval names as the one that gets
	// text, in bytes; Review shows all.
	maxTo = 300
)

// talk is what a call sends to a running command.
type talk struct {
	text      string
	interrupt bool
	end       bool
}

func (t talk) silent() bool { return t == talk{} }

func (t talk) input(key string, tty bool) Input {
	if tty {
		text := t.text
		if t.interrupt {
			text += keyInterrupt
		}
		if t.end {
			text += keyEnd
		}
		return Input{Key: key, Data: []byte(text)}
	}
	return Input{Key: key, Interrupt: t.interrupt, Data: []byte(t.text), EOF: t.end}
}

// readTalk reads what a model wants to send.
func readTalk(chars string, tty bool) (talk, error) {
	switch {
	case len(chars) > MaxInput:
		return talk{}, badCall(fmt.Sprintf("The text is %d bytes long; at most %d can be sent at once.", len(chars), MaxInput))
	case chars == keyInterrupt:
		return talk{interrupt: true}, nil
	case chars == keyEnd:
		return talk{end: true}, nil
	case tty:
		return talk{text: chars}, checkKeys(chars)
	}
	text, end := strings.CutSuffix(chars, keyEnd)
	if strings.ContainsAny(text, keyInterrupt+keyEnd) {
		return talk{}, badCall(`Without a terminal Ctrl-C (\x03) is sent alone, and Ctrl-D (\x04) alone or last.`)
	}
	return talk{text: text, end: end}, nil
}

// checkKeys refuses what a terminal would not pass on as it was judged.
func checkKeys(chars string) error {
	for line := range strings.SplitSeq(chars, "\n") {
		if len(line) > terminal.MaxLine {
			return badCall(fmt.Sprintf("A line of the text is %d bytes long; a terminal takes %d and drops the rest. Write it to a file instead.", len(line), terminal.MaxLine))
		}
	}
	return nil
}

// readStdin judges what a call sends to a running command.
func (a *Activities) readStdin(ctx context.Context, s Session, ref workflows.SandboxRef, args string, to *workflows.RunningExec) (act, error) {
	var in workflows.WriteStdinArgs
	if err := decode(args, &in); err != nil {
		return act{}, err
	}
	if to == nil {
		return act{}, badCall("There is no such session.")
	}
	shell, err := a.shellArgs(ctx, to.Call)
	if err != nil {
		return act{}, err
	}
	c := act{tool: workflows.ToolWriteStdin, cwd: ref.Root, command: shell.Command, tty: shell.TTY, to: to, timeout: to.Yield}
	if c.talk, err = readTalk(in.Chars, shell.TTY); err != nil {
		return act{}, err
	}
	if c.talk.text == "" {
		c.verdict = policy.Verdict{Tier: policy.Safe, Display: c.talk.what(to.Session), Displayable: true}
	} else {
		c.verdict = a.cfg.Gate.JudgeStdin(a.reader(ref, shell, to), c.talk.text, envOf(ref, ref.Root), policy.Facts{})
	}
	return c, c.bind(ctx, s, ref, a.cfg.Workspaces[ref.Workspace].Fingerprint())
}

// what is a call that sends no text, for people.
func (t talk) what(session string) string {
	switch {
	case t.interrupt:
		return "Ctrl-C to " + session
	case t.end:
		return "end of input to " + session
	}
	return "read on from " + session
}

// reader is who gets text that is sent to a running command. Where people had to
// allow earlier text, a shell may have started anything that now reads instead
// of it. One that was started elsewhere than in the workspace names its files from
// there.
func (a *Activities) reader(ref workflows.SandboxRef, shell workflows.ShellArgs, to *workflows.RunningExec) policy.Reader {
	r := a.cfg.Gate.Reader(shell.Command, policy.Shell(ref.Shell))
	r.Script, r.Terminal = r.Script && !to.Asked && within(ref.Root, shell.Cwd), shell.TTY
	return r
}

// within reports whether a command's directory, by its name, is in the workspace.
func within(root, cwd string) bool {
	if !path.IsAbs(cwd) {
		cwd = root + "/" + cwd
	}
	cwd = path.Clean(cwd)
	return cwd == root || strings.HasPrefix(cwd, root+"/")
}

func (a *Activities) shellArgs(ctx context.Context, call workflows.ToolCall) (workflows.ShellArgs, error) {
	var in workflows.ShellArgs
	text, err := a.getText(ctx, call.Args)
	if err != nil {
		return in, err
	}
	return in, decode(text, &in)
}

// bindTalk notes what is sent, and to which command.
func (c *act) bindTalk(b *binding) {
	b.Content, b.Exec = digestOf([]byte(c.talk.text)), c.to.ExecID
}

// talk sends what the call says to the running command, waits for its end or as
// long as the call may, and returns what it has printed since the last look.
func (r *run) talk(ctx context.Context) (workflows.ToolResult, error) {
	defer r.a.beat(ctx, workflows.ExecProgress{ExecID: r.in.ExecID})()
	to, began := r.in.Running, time.Now().UTC()
	until := began.Add(to.Yield)
	note, done := "", (*workflows.ToolResult)(nil)
	if r.in.Call.Tool == workflows.ToolWriteStdin {
		var err error
		if note, done, err = r.say(ctx, until); err != nil || done != nil {
			if done != nil {
				return *done, err
			}
			return workflows.ToolResult{}, err
		}
	}
	st, err := r.awaitEnd(ctx, until)
	if errors.Is(err, ErrNoExec) {
		st, err = ExecStatus{State: StateRunning}, nil // it is just about to start
	}
	if err != nil {
		return workflows.ToolResult{}, err
	}
	res, err := r.heard(ctx, st, note)
	res.StartedAt, res.EndedAt = began, began.Add(time.Since(began))
	return res, err
}

// say sends, once. The note is for the model; a result ends the call.
func (r *run) say(ctx context.Context, until time.Time) (note string, done *workflows.ToolResult, err error) {
	to := r.in.Running
	began, err := r.s.Sent(ctx, to.ExecID, r.in.ExecID)
	if err != nil && !errors.Is(err, ErrNoExec) {
		return "", nil, err
	}
	var c act
	if !began {
		var changed string
		if c, changed, err = r.firstSay(ctx); changed != "" {
			res, err := r.ended(ctx, workflows.ResultChanged, changed)
			return "", &res, err
		}
	} else if args, aerr := r.a.getText(ctx, r.in.Call.Args); aerr != nil {
		return "", nil, aerr
	} else {
		c.talk.text = args // whatever it is, it was begun
	}
	if err == nil && !c.talk.silent() {
		wait, cancel := context.WithDeadline(ctx, until)
		defer cancel()
		err = r.s.Send(wait, to.ExecID, Input{Key: r.in.ExecID}) // it was begun: only its end is awaited
	}
	switch {
	case err == nil, ctx.Err() != nil:
	case errors.Is(err, context.DeadlineExceeded):
		return "the command has not read all of the text yet", nil, nil
	case errors.Is(err, ErrExecEnded):
		return "the command had ended before it read all of the text", nil, nil
	case errors.Is(err, ErrNoExec):
		return "the command has not started yet; nothing was sent", nil, nil
	case errors.Is(err, ErrUnsure):
		res, err := r.ended(ctx, workflows.CallUnknown, "Who sent the text was ended from outside; the command may have got a part of it.")
		return "", &res, err
	}
	return "", nil, err
}

// firstSay begins to send if what the verdict binds is still so. Nothing of the
// session runs from the look until then.
func (r *run) firstSay(ctx context.Context) (c act, changed string, err error) {
	unlock, err := r.a.lockSession(ctx, r.in.Sandbox)
	if err != nil {
		return c, "", err
	}
	defer unlock()
	c, err = r.a.read(ctx, r.s, r.in.Sandbox, r.in.Call, r.in.Running)
	if err != nil || c.talk.silent() {
		return c, "", err
	}
	if c.talk.text != "" {
		thaw, err := freezeOthers(ctx, r.s, "")
		if err != nil {
			return c, "", err
		}
		defer thaw()
		if c, err = r.a.read(ctx, r.s, r.in.Sandbox, r.in.Call, r.in.Running); err != nil {
			return c, "", err
		}
	}
	if what, err := r.a.changed(ctx, r.in.WorkflowID, r.in.Digest, c.binding); err != nil || what != "" {
		return c, what, err
	}
	held, cancel := context.WithTimeout(ctx, sendHeld)
	defer cancel()
	err = r.s.Send(held, r.in.Running.ExecID, c.talk.input(r.in.ExecID, c.tty))
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = nil
	}
	return c, "", err
}

// awaitEnd returns how the command stands when it has ended, or at the given time.
func (r *run) awaitEnd(ctx context.Context, until time.Time) (ExecStatus, error) {
	id := r.in.Running.ExecID
	st, err := r.s.Status(ctx, id)
	if err != nil || st.Ended() || !time.Now().Before(until) {
		return st, err
	}
	wait, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	err = r.s.Attach(wait, id, Stdout, st.StdoutBytes, io.Discard)
	if err != nil && (ctx.Err() != nil || wait.Err() == nil) {
		return st, err
	}
	return r.s.Status(ctx, id)
}

// heard is what the model gets: the output since its last look, and how the
// command stands. The log has it, with secrets covered.
func (r *run) heard(ctx context.Context, st ExecStatus, note string) (workflows.ToolResult, error) {
	to := r.in.Running
	log := execlog.New(r.a.cfg.Blobs, r.in.WorkflowID)
	var sizes [2]int64
	deadline := time.Now().Add(catchUp)
	for {
		behind := false
		for i, stream := range []string{execlog.Stdout, execlog.Stderr} {
			n, err := log.Size(ctx, to.ExecID, stream)
			if err != nil {
				return workflows.ToolResult{}, err
			}
			sizes[i] = n
			behind = behind || n < [...]int64{st.StdoutBytes, st.StderrBytes}[i]
		}
		if !behind || time.Now().After(deadline) {
			break
		}
		select {
		case <-ctx.Done():
			return workflows.ToolResult{}, ctx.Err()
		case <-time.After(flushEvery / 5):
		}
	}
	o := Output{State: stateTalk, Session: to.Session, Note: note}
	if st.Ended() {
		var res workflows.ToolResult
		o, res = outcome(st, 0)
		o.State, o.Note = res.State, strings.TrimSpace(strings.Join([]string{note, o.Note}, " "))
		if st.State == StateTimedOut {
			o.Note = strings.TrimSpace(note + " ended by its time-out")
		}
	}
	f := &follower{run: r, log: log}
	var err error
	if o.Stdout, o.StdoutTail, err = f.part(ctx, to.ExecID, execlog.Stdout, to.Stdout, sizes[0]); err != nil {
		return workflows.ToolResult{}, err
	}
	tty := r.onTerminal(ctx)
	if tty && !st.Ended() {
		n := partial(o.Stdout + o.StdoutTail)
		sizes[0] -= int64(n)
		o.cutEnd(n)
	}
	if o.Stderr, o.StderrTail, err = f.part(ctx, to.ExecID, execlog.Stderr, to.Stderr, sizes[1]); err != nil {
		return workflows.ToolResult{}, err
	}
	o.StdoutBytes, o.StderrBytes = max(0, sizes[0]-to.Stdout), max(0, sizes[1]-to.Stderr)
	if tty {
		o.onScreen(mask.New(r.a.secrets(r.in.Sandbox.Workspace)...))
	}
	text, err := r.a.putLong(ctx, owned.Prefix(owned.Outputs, r.in.WorkflowID), r.a.cfg.Format(o), r.in.Inline)
	return workflows.ToolResult{
		State: workflows.CallCompleted, Output: text, Over: st.Ended(), StdoutBytes: max(sizes[0], to.Stdout), StderrBytes: max(sizes[1], to.Stderr),
	}, err
}

// stateTalk is what the model is told of a command that goes on.
const stateTalk = "running"
