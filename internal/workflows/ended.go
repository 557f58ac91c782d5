package workflows

import (
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"
)

// CutShort is how a session's workflow came to an end that was not its own.
type CutShort struct {
	WorkflowID string
	// How is what happened to it, such as "was terminated".
	How string
	At  time.Time
}

// endedWait is how long an edit that a session had begun may still be under way after
// its workflow was ended: its bot hears of that with the next heartbeat.
const endedWait = 3 * time.Second

// EndedID is the ID of the workflow that brings the thread of a session up to date of
// which the given run was ended from outside.
func EndedID(workflowID, runID string) string { return "ended/" + workflowID + "/" + runID }

// EndedInput starts [Ended].
type EndedInput struct {
	Thread   Thread     `json:"thread"`
	Messages []Standing `json:"messages"`
}

// Standing is a message of a session's thread that shows, or may show, something that
// goes on.
type Standing struct {
	Key string `json:"key"`
	// Ref is empty where the session does not know whether it was posted.
	Ref   string    `json:"ref,omitempty"`
	First time.Time `json:"first,omitzero"`
}

// Ended is EndedWorkflow: it brings the thread of a session that was ended from outside
// up to date, which the session itself does not any more. Its ID makes it one for each
// such end. What the messages should show, bots read as ever.
func Ended(ctx workflow.Context, in EndedInput) error {
	if err := workflow.Sleep(ctx, endedWait); err != nil {
		return err
	}
	var edits []workflow.Future
	for _, m := range in.Messages {
		edits = append(edits, workflow.ExecuteActivity(endedOptions(ctx, in.Thread, m.Key), ActivityEditMessage, EditInput{
			WorkflowID: in.Thread.WorkflowID(), Thread: in.Thread, Key: m.Key, Ref: m.Ref, First: m.First,
		}))
	}
	for i, f := range edits {
		if err := f.Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Warn("Message stays as it was", "key", in.Messages[i].Key, "error", err)
		}
	}
	return nil
}

// endedOptions: an edit that waits for a bot for as long as there is something of the
// session to go on from.
func endedOptions(ctx workflow.Context, t Thread, key string) workflow.Context {
	priority := priorityState
	if strings.HasPrefix(key, approvalMessage) {
		priority = priorityApproval
	}
	ctx = postOptions(ctx, t.EditQueue(), priority, t.WorkflowID())
	return workflow.WithScheduleToCloseTimeout(ctx, KeepFor)
}

// standing answers [QueryStanding].
func (s *session) standing() (EndedInput, error) {
	in := EndedInput{Thread: s.st.Thread}
	for _, p := range s.st.Posts {
		if !p.Gone && (p.Ref != "" || !p.First.IsZero()) && p.View.goesOn(p.behind()) {
			in.Messages = append(in.Messages, Standing{Key: p.View.Key, Ref: p.Ref, First: p.First})
		}
	}
	return in, nil
}

// goesOn reports whether the message shows something that goes on; of one that is
// behind, whether its thread may show that.
func (v MessageView) goesOn(behind bool) bool {
	switch {
	case v.Header != nil:
		return behind || v.Header.Liveness != LivenessDestroyed
	case v.Turn != nil:
		return behind || v.Live() || v.Turn.State == TurnWorking
	case v.Approval != nil:
		return behind || v.Live() || v.Approval.State == ApprovalPending
	}
	return false
}

// CutShort is the view of a session that was ended from outside: what went on does not.
func (v MessageView) CutShort(end CutShort) MessageView {
	v.Running, v.Thinking, v.Over = nil, false, true
	switch {
	case v.Header != nil:
		h := v.Header.CutShort(end)
		v.Header, v.Buttons = &h, nil
	case v.Turn != nil:
		t := v.Turn.CutShort(end)
		v.Turn = &t
		v.Buttons = slices.DeleteFunc(slices.Clone(v.Buttons), func(b Button) bool { return b.ID != ButtonDetails })
	case v.Approval != nil:
		a := v.Approval.cutShort(end)
		v.Approval, v.Buttons = &a, nil
	}
	return v
}

// CutShort is the header of a session that was ended from outside.
func (h HeaderView) CutShort(end CutShort) HeaderView {
	if h.Liveness == LivenessDestroyed {
		return h
	}
	h.Liveness, h.Waiting, h.DestroyedAt = LivenessDestroyed, 0, end.At
	h.Notice = "Ended from outside: its workflow " + end.How + " in Temporal. What no turn's end has saved is lost; the rest is kept for some days: `new --from " + end.WorkflowID + "`."
	return h
}

// CutShort is the turn's card where its session was ended from outside.
func (t TurnView) CutShort(end CutShort) TurnView {
	t.Calls = slices.Clone(t.Calls)
	for i := range t.Calls {
		switch c := &t.Calls[i]; c.State {
		case CallRunning:
			c.State, c.EndedAt, c.Note = CallUnknown, end.At, ""
		case CallPending, CallAwaiting:
			c.State, c.EndedAt, c.Note = CallCancelled, end.At, "not run"
		}
	}
	if t.State == TurnWorking {
		t.State, t.EndedAt, t.Queued = TurnFailed, end.At, 0
		t.Error, t.Hint = "the session was ended from outside.", ""
	}
	return t
}

func (a ApprovalView) cutShort(end CutShort) ApprovalView {
	if a.State == ApprovalPending {
		a.State, a.DecidedAt, a.Queued, a.CutShort = ApprovalExpired, end.At, 0, true
	}
	if a.CallState == CallRunning {
		a.CallState = CallUnknown
	}
	return a
}
