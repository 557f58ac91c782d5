package chat

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/sdk/temporal"

	"github.com/countersign/countersign/internal/workflows"
)

// ask puts the question that stands before a session's end. It names what would
// be lost.
func (r *Router) ask(ctx context.Context, ev Event, verb Verb) (Reply, error) {
	st, err := r.Sessions.TurnState(ctx, ev.Thread.WorkflowID())
	if err != nil {
		return Reply{}, failure(err)
	}
	if st.Header.Liveness == workflows.LivenessDestroyed {
		return Reply{Text: "This session has been destroyed already. `new --from " + SessionName(ev.Thread) + "` starts anew from its files."}, nil
	}
	if verb == VerbDone {
		return Reply{
			Text: "Done with **" + Escape(st.Header.Title) + "**? Kept, its sandbox is released and the next message goes on from here. " +
				"Destroyed, it ends. " + Losses(st),
			Question: QuestionDone,
			Buttons:  []workflows.Button{{ID: workflows.ButtonKeep, Label: "Keep"}, {ID: workflows.ButtonDestroy, Label: "Destroy"}},
		}, nil
	}
	return Reply{
		Text:     "Destroy **" + Escape(st.Header.Title) + "**? " + Losses(st),
		Question: QuestionDestroy,
		Buttons:  []workflows.Button{{ID: workflows.ButtonDestroy, Label: "Destroy"}, {ID: workflows.ButtonKeep, Label: "Keep"}},
	}, nil
}

// Losses says what destroying a session would end and what would stay.
func Losses(st workflows.TurnState) string {
	var lost []string
	if st.Sandbox != nil {
		lost = append(lost, "its sandbox on "+st.Header.Backend+", with all that is outside the workspace")
	}
	if t := st.Turn; t != nil && t.State == workflows.TurnWorking {
		lost = append(lost, "the turn that is running")
		if n := running(*t); n > 0 {
			lost = append(lost, Count(n, "running command, which is ended", "running commands, which are ended"))
		}
	}
	if n := len(st.Approvals); n > 0 {
		lost = append(lost, Count(n, "request that waits for approval", "requests that wait for approval"))
	}
	if st.Queued > 0 {
		lost = append(lost, Count(st.Queued, "queued message", "queued messages"))
	}
	text := "Nothing is running."
	if len(lost) > 0 {
		text = "Lost: " + strings.Join(lost, "; ") + "."
	}
	if w := st.Work; w != nil {
		var work []string
		for _, b := range w.Unpushed {
			work = append(work, Escape(b))
		}
		if len(work) > 0 {
			text += " Unpushed commits: " + strings.Join(work, ", ") + "."
		}
		if w.Uncommitted > 0 {
			text += " " + Count(w.Uncommitted, "file", "files") + " with changes that no commit holds."
		}
	}
	return fmt.Sprintf("%s Kept for some days: the conversation (%s) and the workspace's files, for `new --from`.", text, Count(st.Turns, "turn", "turns"))
}

func running(t workflows.TurnView) int {
	n := 0
	for _, c := range t.Calls {
		if c.State == workflows.CallRunning {
			n++
		}
	}
	return n
}

// Click carries out a click. The outcome is always an answer in words; the error
// is an [*Error] for what is no click on anything of ours.
func (r *Router) Click(ctx context.Context, c Click) (ClickReply, error) {
	if verb := clickVerb(c); verb != "" && r.Allow != nil {
		if err := r.Allow(ctx, c.By, verb, c.Thread); err != nil {
			return ClickReply{Outcome: workflows.Outcome{Outcome: workflows.OutcomeNotYours, Text: err.Text()}}, nil
		}
	}
	reply, err := r.click(ctx, c)
	if err == nil {
		return reply, nil
	}
	return clickFailure(err)
}

// clickVerb is the command that a click amounts to; empty for a decision.
func clickVerb(c Click) Verb {
	switch {
	case c.Button == workflows.ButtonStop:
		return VerbStop
	case c.Button == workflows.ButtonDestroy:
		return VerbDestroy
	case c.Question == QuestionDone:
		return VerbPause
	case c.Question == QuestionSwitch:
		return VerbSwitch
	case c.Question == QuestionGrants:
		return VerbRevoke
	}
	return ""
}

func (r *Router) click(ctx context.Context, c Click) (ClickReply, error) {
	id := c.Thread.WorkflowID()
	update := strings.Join([]string{c.Button, c.By.ID, c.Interaction}, "/")
	switch {
	case c.ApprovalID != "":
		return r.decide(ctx, id, c)
	case c.Button == workflows.ButtonStop:
		return clicked(r.Sessions.CancelTurn(ctx, id, workflows.CancelTurn{By: c.By, Turn: c.Turn, At: c.At}, update))
	case c.Question != "" && c.Button == workflows.ButtonDestroy:
		reply, err := clicked(r.Sessions.Destroy(ctx, c.Thread.ManagerID(), workflows.DestroySession{WorkflowID: id, By: c.By, At: c.At}, update))
		return r.answered(reply, c, "Destroy confirmed by "), err
	case c.Question == QuestionDone && c.Button == workflows.ButtonKeep:
		reply, err := clicked(r.Sessions.Pause(ctx, id, workflows.Pause{By: c.By}, update))
		return r.answered(reply, c, "Kept by "), err
	case c.Question == QuestionDestroy && c.Button == workflows.ButtonKeep:
		st, err := r.Sessions.TurnState(ctx, id)
		if errors.Is(err, workflows.ErrNoSession) || err == nil && st.Header.Liveness == workflows.LivenessDestroyed {
			return ClickReply{}, workflows.ErrNoSession
		}
		reply := ClickReply{Outcome: workflows.Outcome{Outcome: workflows.OutcomeRecorded, Text: "Kept."}}
		return r.answered(reply, c, "Kept by "), nil
	case c.Question == QuestionSwitch && strings.HasPrefix(c.Button, ButtonSwitch):
		reply, err := clicked(r.Sessions.SwitchBackend(ctx, c.Thread.ManagerID(), workflows.SwitchSession{
			WorkflowID:    id,
			SwitchBackend: workflows.SwitchBackend{Backend: strings.TrimPrefix(c.Button, ButtonSwitch), By: c.By},
		}, update))
		return r.answered(reply, c, "Chosen by "), err
	case c.Question == QuestionGrants && strings.HasPrefix(c.Button, ButtonRevoke):
		grant := strings.TrimPrefix(c.Button, ButtonRevoke)
		reply, err := clicked(r.Sessions.RevokeGrant(ctx, id, workflows.RevokeGrant{GrantID: grant, By: c.By}, update))
		return r.answered(reply, c, Shown(grant)+" revoked by "), err
	}
	return ClickReply{}, &Error{
		Kind: KindConflict, Code: "no_such_button", Message: "That message has no such button.",
		Hint: "It may have changed; look at it again.",
	}
}

func clicked(o workflows.Outcome, err error) (ClickReply, error) {
	return ClickReply{Outcome: o}, err
}

// answered makes the line that takes a question's buttons' place, unless the
// answer was refused. Who comes too late has not answered it.
func (r *Router) answered(reply ClickReply, c Click, what string) ClickReply {
	switch reply.Outcome.Outcome {
	case workflows.OutcomeRecorded:
		reply.Answered = what + r.Style.Person(c.By) + " at " + r.Style.Clock(c.At) + "."
	case workflows.OutcomeAlreadyDecided:
		reply.Answered = reply.Text // who did
	}
	return reply
}

// unconfirmedText answers a click whose update got no answer in time.
const unconfirmedText = "Not confirmed: the server did not answer in time. If your click was recorded, the card shows it; else click again."

func clickFailure(err error) (ClickReply, error) {
	var e *Error
	var rejected *temporal.ApplicationError
	switch {
	case errors.As(err, &e):
		return ClickReply{}, e
	case errors.As(err, &rejected):
		return ClickReply{}, &Error{
			Kind: KindConflict, Code: "click_rejected", Message: "The session did not take this click: " + Sentence(Shown(rejected.Message())),
			Hint: "Look at the card again; it may have changed.", Err: err,
		}
	case errors.Is(err, workflows.ErrNoSession):
		return ClickReply{Outcome: workflows.Outcome{
			Outcome: workflows.OutcomeExpired, Text: "This session has ended; nothing here can be decided any more.",
		}}, nil
	}
	return ClickReply{Outcome: workflows.Outcome{Outcome: workflows.OutcomeUnconfirmed, Text: unconfirmedText}}, nil
}
