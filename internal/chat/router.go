package chat

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/workflows"
)

// KnownBackends are the words that the grammar takes for a backend, built or not.
func KnownBackends() []string { return []string{"local", "docker", "e2b", "daytona", "modal"} }

// Router takes what people write and click to the sessions. It keeps no state
// and is safe for concurrent use.
type Router struct {
	Sessions Sessions
	Blobs    Blobs
	// Backends are those that can be used here, the default first.
	Backends []string
	// Workspaces are the named workspaces, where this process knows them: others
	// are then refused at once. A worker refuses them in any case.
	Workspaces []string
	Style      Style
	// Link is the address of a session's thread for Markdown links; nil and the
	// empty string make plain titles.
	Link func(workflows.Thread) string
	// Allow says whether a person may give a command to the session of a thread,
	// and returns nil if so; [Authority.Allow] is one. A message in a thread is
	// [VerbRun]. Nil allows everybody. Decisions are not asked about: the workflow
	// knows who may decide.
	Allow func(ctx context.Context, by workflows.Actor, verb Verb, t workflows.Thread) *Error
	// Outputs opens the outputs of the session with a workflow ID; nil has none.
	Outputs func(workflowID string) OutputReader
	// Mask takes secrets out of replies and reviews; nil knows their shapes only.
	Mask *mask.Masker
}

// Command carries out addressed text: a command or a task. The error is an
// [*Error].
func (r *Router) Command(ctx context.Context, ev Event) (Reply, error) {
	c, err := ev.command()
	if err != nil {
		return Reply{}, err
	}
	return r.Do(ctx, ev, c)
}

// command reads what was typed. Files without a text are a task.
func (ev Event) command() (Command, error) {
	if strings.TrimSpace(ev.Text) == "" && !ev.Empty() {
		return Command{Verb: VerbRun, Task: filesAlone}, nil
	}
	return Parse(ev.Text, KnownBackends())
}

// Do carries out a command that was parsed, or built from typed options. What
// the reply shows is masked.
func (r *Router) Do(ctx context.Context, ev Event, c Command) (Reply, error) {
	reply, err := r.do(ctx, ev, c)
	if err == nil && c.Verb != VerbRun {
		reply = withoutFiles(ev, reply)
	}
	reply.Text, reply.Title = r.Mask.Text(reply.Text), r.Mask.Text(reply.Title)
	return reply, err
}

func (r *Router) do(ctx context.Context, ev Event, c Command) (Reply, error) {
	if err := r.available(c.Backend); err != nil {
		return Reply{}, err
	}
	if err := r.allowed(ctx, ev.By, c.Verb, ev.Thread); err != nil {
		return Reply{}, err
	}
	switch c.Verb {
	case VerbHelp:
		return Reply{Text: helpText}, nil
	case VerbList:
		return r.list(ctx, ev)
	case VerbNew:
		return r.newFrom(ctx, ev, c)
	}
	if ev.Thread.ID == "" {
		if c.Verb == VerbRun {
			return r.run(ctx, ev, c)
		}
		return r.pick(ctx, ev, c)
	}
	return r.inThread(ctx, ev, c)
}

// run asks for a new session.
func (r *Router) run(ctx context.Context, ev Event, c Command) (Reply, error) {
	if c.Workspace != "" && len(r.Workspaces) > 0 && !slices.Contains(r.Workspaces, c.Workspace) {
		return Reply{}, invalid("unknown_workspace", "There is no workspace “"+Shown(c.Workspace)+"”.",
			"Workspaces: "+strings.Join(r.Workspaces, ", ")+".")
	}
	task, err := r.message(ctx, ev, c.Task)
	if err != nil {
		return Reply{}, err
	}
	title := c.Title
	if title == "" {
		title = titleOf(ev, c.Task)
	}
	err = r.Sessions.RequestSession(ctx, workflows.SessionRequest{
		ID: ev.ID, Thread: ev.New, Title: title, Task: task,
		Backend: c.Backend, Workspace: c.Workspace, Model: c.Model, By: ev.By,
	})
	if err != nil {
		return Reply{}, failure(err)
	}
	return Reply{Opens: true, Thread: ev.New, Title: title, Backend: c.Backend}, nil
}

// allowed asks [Router.Allow].
func (r *Router) allowed(ctx context.Context, by workflows.Actor, verb Verb, t workflows.Thread) error {
	if r.Allow == nil {
		return nil
	}
	if err := r.Allow(ctx, by, verb, t); err != nil {
		return err
	}
	return nil
}

// Message takes a plain message in a thread to its session, as [VerbRun] does.
// The error is an [*Error].
func (r *Router) Message(ctx context.Context, ev Event) (Reply, error) {
	if err := r.allowed(ctx, ev.By, VerbRun, ev.Thread); err != nil {
		return Reply{}, err
	}
	return r.send(ctx, ev)
}

func (r *Router) send(ctx context.Context, ev Event) (Reply, error) {
	if ev.Empty() {
		return Reply{}, invalid("empty_text", "The message is empty.", "Write what the agent should do.")
	}
	m, err := r.message(ctx, ev, ev.Text)
	if err != nil {
		return Reply{}, err
	}
	err = r.Sessions.SendMessage(ctx, ev.Thread.WorkflowID(), m)
	if errors.Is(err, workflows.ErrNoSession) {
		return Reply{}, r.ended(ctx, ev.Thread)
	}
	if err != nil {
		return Reply{}, failure(err)
	}
	return Reply{Thread: ev.Thread}, nil
}

// ended says why a thread's session takes no message: it was destroyed, or there
// never was one. One that is still opening takes messages.
func (r *Router) ended(ctx context.Context, t workflows.Thread) *Error {
	st, err := r.Sessions.TurnState(ctx, t.WorkflowID())
	switch {
	case err == nil && st.Header.Liveness == workflows.LivenessDestroyed:
		return destroyed(t)
	case err != nil && !isNoSession(err):
		return failure(err)
	}
	return failure(workflows.ErrNoSession)
}

func destroyed(t workflows.Thread) *Error {
	return &Error{
		Kind: KindConflict, Code: "session_destroyed",
		Message: "This session has been destroyed; the message was not taken.",
		Hint:    "Start anew from its files with `/agent new --from " + SessionName(t) + "`.",
	}
}

func (r *Router) message(ctx context.Context, ev Event, text string) (workflows.Message, error) {
	ref, err := PutText(ctx, r.Blobs, withFiles(ev, text))
	if err != nil {
		return workflows.Message{}, &Error{
			Kind: KindUnavailable, Code: "store_unavailable",
			Message: "The message is long and the blob store cannot be written.",
			Hint:    "Nothing was recorded; try again in a moment.", Err: err,
		}
	}
	return workflows.Message{ID: ev.ID, EditedAt: ev.EditedAt, Author: ev.By, Text: ref, At: ev.At, Attachments: ev.Attachments}, nil
}

// available refuses a backend that cannot be used here, by name.
func (r *Router) available(name string) *Error {
	switch {
	case name == "" || slices.Contains(r.Backends, name):
		return nil
	case slices.Contains(KnownBackends(), name):
		return &Error{
			Kind: KindInvalid, Code: "backend_unavailable",
			Message: "The backend " + name + " is not available here yet.",
			Hint:    "Available: " + strings.Join(r.Backends, ", ") + ".",
		}
	}
	return invalid("unknown_backend", "There is no backend “"+Shown(name)+"”.",
		"Available: "+strings.Join(r.Backends, ", ")+".")
}

// failure puts what went wrong on the way to Temporal into words.
func failure(err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, workflows.ErrNoSession):
		return &Error{
			Kind: KindConflict, Code: "no_session", Message: "No session runs in this thread.",
			Hint: "Start one with `/agent <task>`, or see `/agent list`.", Err: err,
		}
	case errors.Is(err, workflows.ErrUnavailable):
		return &Error{
			Kind: KindUnavailable, Code: "server_unavailable", Message: "The server that keeps the sessions cannot be reached.",
			Hint: "Nothing was recorded and nothing is lost; try again in a moment.", Err: err,
		}
	}
	return &Error{
		Kind: KindUnconfirmed, Code: "unconfirmed", Message: "Not confirmed: the server did not answer in time.",
		Hint: "It may have been recorded; trying again is harmless.", Err: err,
	}
}

// TitleOf makes a session's title of its task: the first line that says
// something, at most 80 characters. One that only opens a code block says nothing.
func TitleOf(task string) string {
	rest := strings.TrimSpace(task)
	for {
		line, after, more := strings.Cut(rest, "\n")
		if !more || !opensBlock(line) {
			break
		}
		rest = strings.TrimSpace(after)
	}
	if opensBlock(rest) {
		rest = task
	}
	return workflows.TitleOf(rest)
}

func opensBlock(line string) bool {
	return strings.HasPrefix(line, "~~~") || strings.HasPrefix(line, "```") && !strings.Contains(strings.TrimLeft(line, "`"), "`")
}

func isNoSession(err error) bool { return errors.Is(err, workflows.ErrNoSession) }
