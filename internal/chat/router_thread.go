package chat

import (
	"context"
	"strconv"
	"strings"

	"github.com/countersign/countersign/internal/workflows"
)

// inThread carries out a command that was given in a session's thread. Where no
// session takes it, it says why.
func (r *Router) inThread(ctx context.Context, ev Event, c Command) (Reply, error) {
	reply, err := r.forSession(ctx, ev, c)
	if isNoSession(err) {
		return Reply{}, r.ended(ctx, ev.Thread)
	}
	return reply, err
}

func (r *Router) forSession(ctx context.Context, ev Event, c Command) (Reply, error) {
	id := ev.Thread.WorkflowID()
	switch c.Verb {
	case VerbRun:
		return r.taskInThread(ctx, ev, c)
	case VerbTitle:
		if err := r.Sessions.SetTitle(ctx, id, workflows.SetTitle{Title: c.Title, By: ev.By}); err != nil {
			return Reply{}, failure(err)
		}
		return Reply{Thread: ev.Thread}, nil
	case VerbModel:
		return r.outcome(r.Sessions.SetModel(ctx, id, workflows.SetModel{Model: c.Model, By: ev.By}, updateID(ev, c.Verb)))
	case VerbStop:
		return r.outcome(r.Sessions.CancelTurn(ctx, id, workflows.CancelTurn{By: ev.By, At: ev.At}, updateID(ev, c.Verb)))
	case VerbPause:
		return r.outcome(r.Sessions.Pause(ctx, id, workflows.Pause{By: ev.By}, updateID(ev, c.Verb)))
	case VerbSwitch:
		return r.switchBackend(ctx, ev, c)
	case VerbFork:
		return r.fork(ctx, ev, workflows.ForkSession{Source: id, Title: c.Title, Backend: c.Backend})
	case VerbDone, VerbDestroy:
		return r.ask(ctx, ev, c.Verb)
	case VerbStatus:
		return r.status(ctx, ev)
	case VerbHistory:
		return r.history(ctx, ev)
	case VerbGrants:
		return r.grants(ctx, ev)
	case VerbRevoke:
		return r.outcome(r.Sessions.RevokeGrant(ctx, id, workflows.RevokeGrant{GrantID: c.Grant, By: ev.By}, updateID(ev, c.Verb)))
	case VerbFiles:
		return r.outcome(r.Sessions.SendFiles(ctx, id, workflows.SendFiles{Path: c.Path, By: ev.By}, updateID(ev, c.Verb)))
	}
	return Reply{}, invalid("unknown_command", "There is no command “"+Shown(string(c.Verb))+"”.", "See `help`.")
}

// taskInThread is a message to the session; what only a new session has is
// refused, because it would silently be ignored.
func (r *Router) taskInThread(ctx context.Context, ev Event, c Command) (Reply, error) {
	if c.Flags() {
		return Reply{}, invalid("flags_in_thread", "This thread has its session already; flags count when a session starts.",
			"Use `switch`, `model` or `title` here, or give the command in the channel.")
	}
	ev.Text = c.Task
	return r.send(ctx, ev)
}

// updateID names what a message asked for, so that it is carried out once
// however often it is delivered.
func updateID(ev Event, verb Verb) string {
	return strings.Join([]string{string(verb), ev.By.ID, ev.ID}, "/")
}

// outcome passes an update's answer on. What was recorded is shown by the session
// itself, so its answer is for the asker alone.
func (r *Router) outcome(o workflows.Outcome, err error) (Reply, error) {
	if err != nil {
		return Reply{}, failure(err)
	}
	return Reply{Text: o.Text, Private: o.Outcome == workflows.OutcomeRecorded}, nil
}

func (r *Router) switchBackend(ctx context.Context, ev Event, c Command) (Reply, error) {
	if c.Backend == "" {
		return r.pickBackend(ctx, ev)
	}
	return r.outcome(r.Sessions.SwitchBackend(ctx, ev.Thread.ManagerID(), workflows.SwitchSession{
		WorkflowID:    ev.Thread.WorkflowID(),
		SwitchBackend: workflows.SwitchBackend{Backend: c.Backend, Root: c.Root, By: ev.By},
	}, updateID(ev, c.Verb)))
}

// pickBackend offers the backends that the session is not on.
func (r *Router) pickBackend(ctx context.Context, ev Event) (Reply, error) {
	st, err := r.Sessions.TurnState(ctx, ev.Thread.WorkflowID())
	if err != nil {
		return Reply{}, failure(err)
	}
	var buttons []workflows.Button
	for _, b := range r.Backends {
		if b != st.Header.Backend {
			buttons = append(buttons, workflows.Button{ID: ButtonSwitch + b, Label: b})
		}
	}
	if len(buttons) == 0 {
		return Reply{Text: "This session runs on " + st.Header.Backend + ", the only backend that is available here yet."}, nil
	}
	return Reply{Text: "This session runs on " + st.Header.Backend + ". Move it to:", Question: QuestionSwitch, Buttons: buttons}, nil
}

// fork copies a session into a new thread. The new thread's identity comes with
// the event, or from the platform when it is opened.
func (r *Router) fork(ctx context.Context, ev Event, f workflows.ForkSession) (Reply, error) {
	f.ID, f.Thread, f.By = ev.ID, ev.New, ev.By
	res, err := r.Sessions.Fork(ctx, ev.Thread.ManagerID(), f)
	if err != nil {
		return Reply{}, failure(err)
	}
	if res.Outcome.Outcome == workflows.OutcomeRefused {
		return Reply{Text: res.Text}, nil
	}
	reply := Reply{Thread: res.Thread, Opens: true, Title: f.Title, Backend: f.Backend}
	if res.Thread.ID == ev.ID {
		return reply, nil // the message is the new thread's root: the session speaks there
	}
	title := f.Title
	if title == "" {
		title = "the new thread"
	}
	reply.Text = "Copied as of " + boundary(res.Turn) + ". The copy goes on in " + r.linked(res.Thread, title) + "."
	return reply, nil
}

func boundary(turn int) string {
	if turn == 0 {
		return "its beginning"
	}
	return "the end of turn " + strconv.Itoa(turn)
}

// newFrom starts a session from another's last boundary, also a destroyed one's.
func (r *Router) newFrom(ctx context.Context, ev Event, c Command) (Reply, error) {
	t, ok := FindSession(c.From, ev.Thread)
	if !ok {
		return Reply{}, invalid("unknown_session", "“"+Shown(c.From)+"” names no session here.", "See `list` for the sessions and their names.")
	}
	return r.fork(ctx, ev, workflows.ForkSession{Source: t.WorkflowID(), OfClosed: true})
}

// SessionName is the shortest name that `new --from` takes for a thread's
// session: the thread's ID, in Slack after its channel's.
func SessionName(t workflows.Thread) string {
	if t.Platform == workflows.PlatformSlack {
		return t.Channel + "/" + t.ID
	}
	return t.ID
}

// FindSession reads a session's name, as [SessionName] or as a workflow ID. here
// is where it was written: sessions of other platforms and teams have no name.
func FindSession(name string, here workflows.Thread) (workflows.Thread, bool) {
	if strings.HasPrefix(name, "agent/") {
		t, err := workflows.ParseWorkflowID(name)
		return t, err == nil && t.Platform == here.Platform && t.Team == here.Team
	}
	t := workflows.Thread{Platform: here.Platform, Team: here.Team, Channel: here.Channel, ID: name}
	if here.Platform == workflows.PlatformSlack {
		channel, ts, ok := strings.Cut(name, "/")
		if ok {
			t.Channel, t.ID = channel, ts
		}
	}
	return t, t.ID != "" && !strings.Contains(t.ID, "/")
}
