package sandbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/countersign/countersign/internal/blob/owned"
	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/policy"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// headBytes is how much of a file the gate looks at.
	headBytes = 64 << 10 // 64 KiB, as policy.FileFact says
	// What of a verdict goes into history.
	maxReasons   = 20
	maxReasonLen = 400 // bytes
	// MaxTimeout bounds what a model may ask for.
	MaxTimeout = time.Hour
	// maxWrite is the longest content of write_file, in bytes.
	maxWrite = 8 << 20
)

// act is a tool call, read and judged.
type act struct {
	tool    string
	command string // shell
	cwd     string
	path    string // file tools, absolute
	content string // write_file, and the patch of apply_patch
	depth   int    // list_files
	changes []Change
	bound   []boundChange // of each change
	// stdin keeps the command's standard input open, tty gives it a terminal.
	stdin, tty bool
	// to is the running command that talk goes to; command then is its own.
	to      *workflows.RunningExec
	talk    talk
	timeout time.Duration
	verdict policy.Verdict
	binding binding
	heads   map[string][]byte // of operands, for Review
}

// badCall is what is wrong with a call that cannot run at all, as a sentence.
type badCall string

func (b badCall) Error() string { return string(b) }

// JudgeToolCall asks the gate about a tool call.
func (a *Activities) JudgeToolCall(ctx context.Context, in workflows.JudgeInput) (workflows.Judgement, error) {
	defer a.beat(ctx)()
	j, err := a.judge(ctx, in, a.evidence)
	return j, activityError(ctx, err)
}

// lookFor finds out what a command would lose.
type lookFor func(ctx context.Context, s Session, ref workflows.SandboxRef, c act) ([]string, error)

func (a *Activities) judge(ctx context.Context, in workflows.JudgeInput, look lookFor) (workflows.Judgement, error) {
	s, err := a.open(ctx, in.Sandbox)
	if err != nil {
		return workflows.Judgement{}, err
	}
	var edited *workflows.TextRef
	if in.Edit != "" {
		if edited, err = a.edited(ctx, in); err != nil {
			return workflows.Judgement{}, err
		}
		in.Call.Args = *edited
	}
	c, err := a.read(ctx, s, in.Sandbox, in.Call, in.Running)
	var bad badCall
	if errors.As(err, &bad) {
		return workflows.Judgement{Tier: policy.Forbidden.String(), Bad: a.cfg.Mask.Text(string(bad)), PolicyVersion: a.cfg.Gate.Version()}, nil
	}
	if err != nil {
		return workflows.Judgement{}, err
	}
	found, err := look(ctx, s, in.Sandbox, c)
	if err != nil {
		return workflows.Judgement{}, err
	}
	j, err := a.judgement(ctx, c, in)
	j.Edited = edited
	if c.tool == workflows.ToolShell && err == nil {
		if !c.tty { // where programs do other things, that is asked for each time
			j.Shape = a.cfg.Gate.Shape(c.command, envOf(in.Sandbox, c.cwd), c.verdict)
		}
		j.Evidence = found
		j.Editable = c.verdict.Displayable && len(c.command) <= workflows.MaxEdit && a.cfg.Mask.Text(c.verdict.Display) == c.command
	}
	return j, err
}

// edited are the arguments of a shell call with a person's command in place of
// the model's.
func (a *Activities) edited(ctx context.Context, in workflows.JudgeInput) (*workflows.TextRef, error) {
	if in.Call.Tool != workflows.ToolShell {
		return nil, Refuse("Only a shell command can be changed.")
	}
	if strings.Contains(in.Edit, mask.Mark) {
		return nil, Refuse("The command holds masked secrets and cannot be edited here: what was masked would be lost.")
	}
	text, err := a.getText(ctx, in.Call.Args)
	if err != nil {
		return nil, err
	}
	var args workflows.ShellArgs
	if err := decode(text, &args); err != nil {
		return nil, Refuse(err.Error())
	}
	args.Command = in.Edit
	data, err := json.Marshal(args)
	if err != nil {
		return nil, fmt.Errorf("encoding the changed command: %w", err)
	}
	ref, err := a.putText(ctx, owned.Prefix(owned.Arguments, in.WorkflowID), string(data))
	return &ref, err
}

// commandsPrefix is where whole commands lie in the blob store: they are on record,
// and outlast their session.
const commandsPrefix = "commands"

// judgement is what history keeps of a verdict. What people read of it is masked;
// what its digest binds is not.
func (a *Activities) judgement(ctx context.Context, c act, in workflows.JudgeInput) (workflows.Judgement, error) {
	v := c.verdict
	j := workflows.Judgement{
		Tier: v.Tier.String(), Displayable: v.Displayable, Cwd: c.cwd, Timeout: c.timeout,
		PolicyVersion: a.cfg.Gate.Version(),
	}
	j.Reasons, j.Asking = a.reasons(v)
	if c.tool != workflows.ToolShell {
		j.Cwd = ""
	}
	if c.to != nil && c.talk.text != "" {
		j.To = cutText(a.cfg.Mask.Text(strings.Join(strings.Fields(clean(c.command)), " ")), maxTo) + " (" + c.to.Session + ")"
	}
	j.Terminal = c.tty
	var err error
	if j.Digest, err = a.saveBinding(ctx, in.WorkflowID, c); err != nil {
		return j, err
	}
	shown := a.cfg.Mask.Text(v.Display)
	if j.Command, err = a.putLong(ctx, commandsPrefix, shown, in.Inline); err != nil {
		return j, err
	}
	if j.Stored = j.Command.Ref; j.Stored == "" && len(shown) > workflows.MaxShownCommand {
		if j.Stored, err = a.cfg.Blobs.Put(ctx, commandsPrefix, []byte(shown)); err != nil {
			return j, err
		}
	}
	if v.Tier == policy.Risky || v.Tier == policy.Critical {
		if a.cfg.Rules != nil {
			j.Rule = a.cfg.Rules(j.Tier, in.Channel)
		}
		j.Detail, err = a.saveDetail(ctx, in.WorkflowID, c)
	}
	return j, err
}

// reasons are sentences for people, worst first, and how many of them say why the call
// asks or is refused. Where the command has one segment its number says nothing.
func (a *Activities) reasons(v policy.Verdict) (out []string, asking int) {
	one := !slices.ContainsFunc(v.Reasons, func(r policy.Reason) bool { return r.Segment > 1 })
	all := slices.Clone(v.Reasons)
	slices.SortStableFunc(all, func(x, y policy.Reason) int { return cmp.Compare(y.Tier, x.Tier) })
	for i, r := range all {
		if one {
			r.Segment = 0
		}
		if r.Tier > policy.Write {
			asking = i + 1
		}
		if i == maxReasons {
			return append(out, fmt.Sprintf("and %d more", len(all)-maxReasons)), asking
		}
		out = append(out, cutText(a.cfg.Mask.Text(r.String()), maxReasonLen))
	}
	return out, asking
}

// read reads a call, gathers facts and judges it. What is wrong with the call
// itself is a badCall.
func (a *Activities) read(ctx context.Context, s Session, ref workflows.SandboxRef, call workflows.ToolCall, to *workflows.RunningExec) (act, error) {
	args, err := a.getText(ctx, call.Args)
	if err != nil {
		return act{}, err
	}
	if err := sameAs(s.Info(), ref); err != nil {
		return act{}, err
	}
	switch call.Tool {
	case workflows.ToolShell:
		return a.readShell(ctx, s, ref, args)
	case workflows.ToolReadFile, workflows.ToolViewImage:
		return a.readRead(ctx, s, ref, call.Tool, args)
	case workflows.ToolWriteFile:
		return a.readWrite(ctx, s, ref, args)
	case workflows.ToolListFiles:
		return a.readList(ctx, s, ref, args)
	case workflows.ToolApplyPatch:
		return a.readPatch(ctx, s, ref, args)
	case workflows.ToolWriteStdin:
		return a.readStdin(ctx, s, ref, args, to)
	}
	return act{}, badCall(fmt.Sprintf("There is no tool %q.", call.Tool))
}

// sameAs refuses a sandbox that is no longer what the workflow knows: a verdict
// for an isolated one says nothing of one that is not.
func sameAs(info Info, ref workflows.SandboxRef) error {
	if info.Isolated != ref.Isolated || info.Workspace != ref.Root || info.Shell != ref.Shell || info.Network != ref.Network {
		return Refuse("The worker's isolation has changed since this turn began. Send the message again.")
	}
	return nil
}

func decode(args string, into any) error {
	d := json.NewDecoder(strings.NewReader(args))
	if err := d.Decode(into); err != nil {
		return badCall("The arguments are not the JSON that the tool takes.")
	}
	return nil
}

func envOf(ref workflows.SandboxRef, cwd string) policy.Env {
	return policy.Env{
		Backend: ref.Backend, Isolated: ref.Isolated, Network: ref.Network, Shell: policy.Shell(ref.Shell),
		Cwd: cwd, Home: ref.Home, Workspace: ref.Root,
	}
}

func (a *Activities) readShell(ctx context.Context, s Session, ref workflows.SandboxRef, args string) (act, error) {
	var in workflows.ShellArgs
	if err := decode(args, &in); err != nil {
		return act{}, err
	}
	c := act{tool: workflows.ToolShell, command: in.Command, cwd: s.Info().Abs(in.Cwd), stdin: in.Interactive(), tty: in.TTY}
	var refused *RefusedError
	if err := (ExecSpec{ID: "check", Command: in.Command, Cwd: in.Cwd}).Check(); errors.As(err, &refused) {
		return act{}, badCall(refused.Text)
	}
	if !utf8.ValidString(in.Command) {
		return act{}, badCall("The command is not valid UTF-8, so it cannot be shown.")
	}
	at, err := s.Stat(ctx, c.cwd)
	if err != nil {
		return act{}, badPath(err)
	}
	if !at.Outside && !at.Mode.IsDir() {
		return act{}, badCall(fmt.Sprintf("The working directory %s does not exist.", c.cwd))
	}
	c.cwd = at.Resolved
	env := envOf(ref, c.cwd)
	facts, err := a.factsFor(ctx, s, c.command, env)
	if err != nil {
		return act{}, err
	}
	c.verdict = a.cfg.Gate.Judge(c.command, env, facts)
	c.timeout = a.cfg.Timeouts.Shell
	if c.verdict.PackageInstall {
		c.timeout = max(c.timeout, a.cfg.Timeouts.Install)
	}
	if c.stdin {
		c.timeout = max(c.timeout, a.cfg.Timeouts.Background)
	}
	if in.TimeoutSeconds > 0 {
		c.timeout = min(time.Duration(in.TimeoutSeconds)*time.Second, MaxTimeout)
	}
	return c, c.bind(ctx, s, ref, a.cfg.Workspaces[ref.Workspace].Fingerprint())
}

func (a *Activities) readRead(ctx context.Context, s Session, ref workflows.SandboxRef, tool, args string) (act, error) {
	var in workflows.ReadFileArgs
	if err := decode(args, &in); err != nil {
		return act{}, err
	}
	c := act{tool: tool, path: s.Info().Abs(in.Path), timeout: a.cfg.Timeouts.Read}
	at, err := insideFile(ctx, s, in.Path)
	if err != nil {
		return act{}, err
	}
	c.verdict = policy.Verdict{Tier: policy.Safe, Display: tool + " " + c.path, Displayable: true, Paths: []string{c.path}}
	c.cwd = ref.Root
	c.path = at.Resolved
	return c, c.bind(ctx, s, ref, a.cfg.Workspaces[ref.Workspace].Fingerprint())
}

func (a *Activities) readWrite(ctx context.Context, s Session, ref workflows.SandboxRef, args string) (act, error) {
	var in workflows.WriteFileArgs
	if err := decode(args, &in); err != nil {
		return act{}, err
	}
	if len(in.Content) > maxWrite {
		return act{}, badCall(fmt.Sprintf("The content is %d bytes long; at most %d can be written at once.", len(in.Content), maxWrite))
	}
	at, err := insideFile(ctx, s, in.Path)
	if err != nil {
		return act{}, err
	}
	if at.Exists && !at.Mode.IsRegular() {
		return act{}, badCall(fmt.Sprintf("%s is there and is no regular file.", at.Resolved))
	}
	c := act{tool: workflows.ToolWriteFile, path: s.Info().Abs(in.Path), content: in.Content, timeout: a.cfg.Timeouts.Read, cwd: ref.Root}
	facts, err := gather(ctx, s, policy.Needs{Paths: []string{c.path}})
	if err != nil {
		return act{}, err
	}
	c.verdict = a.cfg.Gate.JudgeWrite(c.path, []byte(c.content), envOf(ref, ref.Root), facts)
	if !slices.Contains(c.verdict.Paths, c.path) {
		c.verdict.Paths = append(c.verdict.Paths, c.path)
	}
	return c, c.bind(ctx, s, ref, a.cfg.Workspaces[ref.Workspace].Fingerprint())
}

// insideFile looks at a file tool's path, which must be inside the workspace.
func insideFile(ctx context.Context, s Session, path string) (FileInfo, error) {
	if path == "" {
		return FileInfo{}, badCall("The path is empty.")
	}
	at, err := s.Stat(ctx, path)
	if err != nil {
		return at, badPath(err)
	}
	if at.Outside {
		return at, badCall(fmt.Sprintf("%s is outside the workspace, which is all that file tools see.", at.Resolved))
	}
	return at, nil
}

// badPath tells a path that cannot be from a sandbox that fails.
func badPath(err error) error {
	var refused *RefusedError
	if errors.As(err, &refused) {
		return badCall(refused.Text)
	}
	var link *fs.PathError
	if errors.Is(err, ErrGone) || errors.Is(err, ErrUnavailable) || errors.As(err, &link) && !ofPath(err) {
		return err
	}
	return badCall("The path cannot be followed: " + unfit(err) + ".")
}
