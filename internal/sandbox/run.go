package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/countersign/countersign/internal/blob/execlog"
	"github.com/countersign/countersign/internal/blob/owned"
	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/policy"
	"github.com/countersign/countersign/internal/workflows"
)

// holdAfterStart keeps the session's other execs halted until a shell that has
// begun has opened the script that it was given, on a machine under load too.
const holdAfterStart = time.Second

// RunTool runs a tool call whose verdict is in, or attaches to it where it was
// started before, and follows it to its end. It returns the context's error, and
// leaves the exec running, when the activity is cancelled, its worker drains or
// its heartbeat is lost.
func (a *Activities) RunTool(ctx context.Context, in workflows.RunInput) (workflows.ToolResult, error) {
	r := run{a: a, in: in, first: !in.Attach && attempt(ctx) == 1, began: time.Now()}
	var res workflows.ToolResult
	err := error(nil)
	if r.s, err = a.open(ctx, in.Sandbox); err == nil {
		switch tool := in.Call.Tool; {
		case in.Running != nil:
			res, err = r.talk(ctx)
		case tool == workflows.ToolShell:
			res, err = r.shell(ctx)
		default:
			res, err = r.onFiles(ctx, tool)
		}
	}
	return r.settle(ctx, res, err)
}

// onFiles carries out a tool that starts no command.
func (r *run) onFiles(ctx context.Context, tool string) (workflows.ToolResult, error) {
	defer r.a.beat(ctx)()
	switch tool {
	case workflows.ToolReadFile:
		return r.readFile(ctx)
	case workflows.ToolViewImage:
		return r.viewImage(ctx)
	case workflows.ToolWriteFile:
		return r.writeFile(ctx)
	case workflows.ToolListFiles:
		return r.list(ctx)
	case workflows.ToolApplyPatch:
		return r.patch(ctx)
	}
	return workflows.ToolResult{}, Refuse(fmt.Sprintf("There is no tool %q.", tool))
}

func attempt(ctx context.Context) int32 {
	if !activity.IsActivity(ctx) {
		return 1
	}
	return activity.GetInfo(ctx).Attempt
}

// run is one RunTool.
type run struct {
	a  *Activities
	s  Session
	in workflows.RunInput
	// first: nobody can have started the exec before this.
	first bool
	// started: this has begun to start it.
	started bool
	began   time.Time
}

// settle turns what ends a call into its result, and what may pass into an
// error that is retried.
func (r *run) settle(ctx context.Context, res workflows.ToolResult, err error) (workflows.ToolResult, error) {
	var refused *RefusedError
	var bad badCall
	switch {
	case err == nil:
		return res, nil
	case ctx.Err() != nil:
		return workflows.ToolResult{}, ctx.Err()
	case errors.As(err, &bad):
		return r.ended(ctx, workflows.CallFailed, string(bad))
	case errors.As(err, &refused):
		return r.ended(ctx, workflows.CallFailed, refused.Text)
	case errors.Is(err, ErrGone) && r.first && !r.started:
		return r.ended(ctx, workflows.CallFailed, "The sandbox and its files are gone from the worker; the command did not run.")
	case errors.Is(err, ErrGone):
		return r.ended(ctx, workflows.CallUnknown, "The sandbox is gone from the worker; the command may have run.")
	case errors.Is(err, ErrExecConflict):
		return r.ended(ctx, workflows.CallUnknown, "Another command ran under this call's name.")
	}
	return workflows.ToolResult{}, activityError(ctx, err)
}

// ended is the result of a call that has no output of its own.
func (r *run) ended(ctx context.Context, state, why string) (workflows.ToolResult, error) {
	out, err := r.a.putText(ctx, owned.Prefix(owned.Outputs, r.in.WorkflowID), r.a.cfg.Format(Output{State: state, Note: why}))
	return workflows.ToolResult{State: state, Error: r.a.cfg.Mask.Text(why), Output: out}, err
}

// shell starts the exec unless it was started, and follows it.
func (r *run) shell(ctx context.Context) (workflows.ToolResult, error) {
	_, err := r.s.Status(ctx, r.in.ExecID)
	if errors.Is(err, ErrNoExec) {
		var what string
		what, err = r.start(ctx)
		if err == nil && what != "" {
			return r.ended(ctx, workflows.ResultChanged, what)
		}
	}
	if err != nil {
		return workflows.ToolResult{}, err
	}
	f := newFollower(r)
	st, err := f.follow(ctx)
	if err != nil {
		return workflows.ToolResult{}, err
	}
	return f.result(ctx, st)
}

// start starts the exec if what its verdict binds is still so; else it says what
// is not. Nothing else of the session starts or runs from the look to the start.
func (r *run) start(ctx context.Context) (changed string, err error) {
	unlock, err := r.a.lockSession(ctx, r.in.Sandbox)
	if err != nil {
		return "", err
	}
	defer unlock()
	defer r.a.beat(ctx, workflows.ExecProgress{ExecID: r.in.ExecID})()
	thaw, err := freezeOthers(ctx, r.s, r.in.ExecID)
	if err != nil {
		return "", err
	}
	defer thaw()
	c, what, err := r.asJudged(ctx)
	var bad badCall
	if errors.As(err, &bad) {
		return string(bad), nil
	}
	if err != nil || what != "" {
		return what, err
	}
	spec := ExecSpec{ID: r.in.ExecID, Command: c.command, Cwd: c.cwd, Stdin: c.stdin, TTY: c.tty, Limits: Limits{Timeout: r.in.Timeout}}
	env, err := r.a.environ(r.in.Sandbox.Workspace)
	if err != nil {
		return "", err
	}
	switch c.verdict.Tier {
	case policy.Safe:
		spec.Env = lookOnly()
	case policy.Write: // git's looks then write no index either, which is what a hook would run for
		spec.Env = withEnv(map[string]string{"GIT_OPTIONAL_LOCKS": "0"}, leaveInside(env["GIT_CONFIG_COUNT"]))
	}
	if c.tty {
		spec.Env = withEnv(spec.Env, noPager())
	}
	spec.Env = withEnv(env, spec.Env)
	if err := r.a.cfg.Awaited(ctx, workflows.ExecProgress{ExecID: r.in.ExecID}); err != nil {
		return "", err
	}
	scripts, err := r.pin(ctx, c)
	if err != nil {
		return "", err
	}
	r.started = true
	if err := r.s.Start(ctx, spec); err != nil || len(c.binding.Runs) == 0 {
		return "", err
	}
	r.hold(ctx)
	if err := scripts.release(ctx); err != nil {
		_ = r.s.Signal(context.WithoutCancel(ctx), r.in.ExecID, SignalKill)
		return "", err
	}
	return "", nil
}

// asJudged reads the call once more, and says what of its verdict's binding is no
// longer so.
func (r *run) asJudged(ctx context.Context) (c act, changed string, err error) {
	if c, err = r.a.read(ctx, r.s, r.in.Sandbox, r.in.Call, nil); err != nil {
		return c, "", err
	}
	changed, err = r.a.changed(ctx, r.in.WorkflowID, r.in.Digest, c.binding)
	return c, changed, err
}

// lookOnly is the environment of commands that were judged to read only: git
// runs no hook, no pager and no file system monitor for them, and what a partial
// clone lacks it does not fetch, which would run what the repository's settings name.
// Nor does it take a directory for a repository that only looks like one: its
// settings would be any file named config.
func lookOnly() map[string]string {
	return withEnv(leaveInside("3"), map[string]string{
		"GIT_PAGER": "cat", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none",
		"GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": "false",
		"GIT_CONFIG_KEY_1": "core.hooksPath", "GIT_CONFIG_VALUE_1": "/dev/null",
		"GIT_CONFIG_KEY_2": "safe.bareRepository", "GIT_CONFIG_VALUE_2": "explicit",
	})
}

// leaveInside is the environment in which git's looks leave the repositories inside a
// repository alone, but for the commits that they are at: their settings name programs,
// too. It is one setting more than the environment has.
func leaveInside(count string) map[string]string {
	n, _ := strconv.Atoi(count)
	n = max(n, 0) // git refuses any other
	at := strconv.Itoa(n)
	return map[string]string{"GIT_CONFIG_COUNT": strconv.Itoa(n + 1), "GIT_CONFIG_KEY_" + at: "diff.ignoreSubmodules", "GIT_CONFIG_VALUE_" + at: "dirty"}
}

// noPager is the environment of commands on a terminal: what they print does not go
// through a program that waits for keys, and starts others by them.
func noPager() map[string]string {
	return map[string]string{"PAGER": "cat", "GIT_PAGER": "cat", "MANPAGER": "cat", "SYSTEMD_PAGER": "cat", "LESSSECURE": "1"}
}

// hold waits while another exec could still change a script that has only just
// been started.
func (r *run) hold(ctx context.Context) {
	if ids, err := r.s.Running(ctx); err != nil || len(ids) < 2 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(holdAfterStart):
	}
}

// readFile reads for the model. Reading again is harmless.
func (r *run) readFile(ctx context.Context) (workflows.ToolResult, error) {
	started := time.Now().UTC()
	return r.onContent(ctx, execlog.MaxChunk, func(_ string, data []byte, size int64) (workflows.ToolResult, error) {
		mask.New(r.a.secrets(r.in.Sandbox.Workspace)...).Hide(data)
		log := execlog.New(r.a.cfg.Blobs, r.in.WorkflowID)
		if err := log.Append(ctx, r.in.ExecID, execlog.Stdout, 0, data); err != nil && !errors.Is(err, execlog.ErrMoved) {
			return workflows.ToolResult{}, err
		}
		head := data[:min(len(data), MaxStreamBytes)]
		return r.done(ctx, started, Output{Stdout: string(head), StdoutBytes: size}, int64(len(data)))
	})
}

// onContent gives use the file that the call names, if that is as judged and can be
// read: its path, up to limit bytes of it, and its length.
func (r *run) onContent(ctx context.Context, limit int64, use func(path string, data []byte, size int64) (workflows.ToolResult, error)) (workflows.ToolResult, error) {
	c, what, err := r.asJudged(ctx)
	if err != nil {
		return workflows.ToolResult{}, err
	}
	if what != "" {
		return r.ended(ctx, workflows.ResultChanged, what)
	}
	data, size, err := r.s.ReadFile(ctx, c.path, limit)
	if why := cannotRead(c.path, err); why != "" {
		return r.ended(ctx, workflows.CallFailed, why)
	}
	if err != nil {
		return workflows.ToolResult{}, err
	}
	return use(c.path, data, size)
}

// cannotRead says why a file cannot be read, where that is the file's own fault.
func cannotRead(path string, err error) string {
	switch {
	case err == nil, errors.Is(err, ErrGone), errors.Is(err, ErrUnavailable), !ofPath(err):
		return ""
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return path + " does not exist."
	case errors.Is(err, ErrNotFile):
		return path + " is no regular file."
	case errors.Is(err, fs.ErrPermission):
		return path + " may not be read."
	}
	return path + " cannot be read: " + unfit(err) + "."
}

func (r *run) done(ctx context.Context, started time.Time, o Output, bytes int64) (workflows.ToolResult, error) {
	out, err := r.a.putLong(ctx, owned.Prefix(owned.Outputs, r.in.WorkflowID), r.a.cfg.Format(o), r.in.Inline)
	return workflows.ToolResult{
		State: workflows.CallCompleted, Output: out, StdoutBytes: bytes, StartedAt: started, EndedAt: started.Add(time.Since(started)),
	}, err
}

// writeFile writes what was judged. Writing it again leaves the same.
func (r *run) writeFile(ctx context.Context) (workflows.ToolResult, error) {
	started := time.Now().UTC()
	release, err := r.a.alone(ctx, r.s, r.in.Sandbox)
	if err != nil {
		return workflows.ToolResult{}, err
	}
	defer release()
	c, what, err := r.asJudged(ctx)
	if err != nil {
		return workflows.ToolResult{}, err
	}
	if what != "" {
		return r.ended(ctx, workflows.ResultChanged, what)
	}
	err = r.s.WriteFile(ctx, c.path, []byte(c.content))
	switch {
	case err == nil:
	case fatal(ctx, err), !ofPath(err):
		return workflows.ToolResult{}, err
	default:
		return r.ended(ctx, workflows.CallFailed, fmt.Sprintf("%s cannot be written: %s.", c.path, unfit(err)))
	}
	note := fmt.Sprintf("%d bytes written to %s", len(c.content), strings.ToValidUTF8(c.path, "�"))
	return r.done(ctx, started, Output{Note: note}, 0)
}
