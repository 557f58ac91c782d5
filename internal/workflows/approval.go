package workflows

import (
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/countersign/countersign/internal/audit"
)

const (
	// maxDecided bounds the decided requests kept in state.
	maxDecided = 500
	// maxRefusals bounds the refused clicks that one person puts on record in a run.
	maxRefusals = 100
	// settleWait is how long a deciding click waits for the check of what it
	// binds; the bot has to answer within 3 seconds.
	settleWait = 1500 * time.Millisecond
	// deliveryGrace: a card delivered within it keeps the time it was made with,
	// so that no edit is needed only to move the time by a moment.
	deliveryGrace = time.Minute
)

// request holds a call until people have decided.
func (s *session) request(ctx workflow.Context, c *Call) {
	j := c.Judgement
	a := s.hold(ctx, c, j.Rule)
	s.showApproval(ctx, c, a, &ApprovalView{
		Tier: j.Tier, Command: j.Command, Displayable: j.whole(), Detail: j.Detail, Reasons: j.Reasons, Asking: j.Asking,
		Evidence: j.Evidence, Editable: j.Editable,
	})
}

// whole reports whether a card shows all of the command: a text that is kept
// elsewhere is shown in part.
func (j *Judgement) whole() bool { return j.Displayable && j.Command.Ref == "" }

// Why gives the reasons why the call asks or is refused.
func (j *Judgement) Why() []string { return asking(j.Reasons, j.Asking) }

// Why gives the reasons why the request is made, without those of parts that would
// not ask.
func (v *ApprovalView) Why() []string { return asking(v.Reasons, v.Asking) }

func asking(reasons []string, n int) []string {
	if n <= 0 || n > len(reasons) {
		return reasons
	}
	return reasons[:n]
}

// requestUnknown asks about a command that may have run. To run it again takes as many
// as it took before; one person may leave it.
func (s *session) requestUnknown(ctx workflow.Context, c *Call, why string) {
	j := c.Judgement
	rule := j.Rule
	if rule.TTL == 0 {
		rule.TTL = 24 * time.Hour
	}
	if len(rule.Approvers) == 0 || j.Tier == "safe" || j.Tier == "write" {
		// The command needed no approval, so who asked for it may decide.
		rule.RequesterMayApprove, rule.Required = true, 1
		for _, r := range s.st.Turn.Requesters {
			rule.Approvers = append(rule.Approvers, r.ID)
		}
	}
	a := s.hold(ctx, c, rule)
	a.UnknownRun = true
	v := s.callView(c)
	v.Note = cutText(why, maxShort)
	s.showApproval(ctx, c, a, &ApprovalView{
		Tier: j.Tier, Command: j.Command, Displayable: true, Detail: j.Detail,
		Reasons: []string{why}, UnknownRun: true,
	})
}

func (s *session) hold(ctx workflow.Context, c *Call, rule ApprovalRule) *Approval {
	s.st.Requests++
	n := itoa(s.st.Requests)
	a := &Approval{
		ID: s.st.Thread.ID + approvalMark + n, Key: approvalMessage + n, CallID: c.ID, Rule: rule,
		Digest: c.Judgement.Digest, CreatedAt: workflow.Now(ctx), State: ApprovalPending,
	}
	s.st.Pending = append(s.st.Pending, a)
	c.State, c.Approval = CallAwaiting, a.ID
	s.callView(c).State = CallAwaiting
	return a
}

func (s *session) showApproval(ctx workflow.Context, c *Call, a *Approval, v *ApprovalView) {
	v.ID, v.State, v.CallID, v.Digest = a.ID, ApprovalPending, c.ID, a.Digest
	v.To, v.Terminal = c.Judgement.To, c.Judgement.Terminal
	v.Cwd, v.Backend, v.Workspace = c.Judgement.Cwd, s.st.Backend, s.st.Workspace
	if c.MCP != nil {
		v.Backend, v.Workspace = "MCP server "+c.MCP.Server, ""
	}
	v.takes(a.Rule)
	v.RequestedBy = s.st.Turn.Requesters
	v.ExpiresAt = a.CreatedAt.Add(a.Rule.TTL)
	v.Queued = s.waiting()
	s.auditCall(ctx, audit.KindRequested, c, audit.Entry{Reasons: v.Reasons})
	s.flush = true
	s.show(MessageView{Key: a.Key, Kind: KindApproval, Approval: v, Buttons: s.approvalButtons(a, v)})
	s.cardChanged()
	s.liveness(ctx)
	s.step(ctx)
}

// takes shows what an approval takes.
func (v *ApprovalView) takes(r ApprovalRule) {
	v.Required, v.Approvers, v.RequesterMayApprove = r.Required, r.Approvers, r.RequesterMayApprove
	v.BreakGlass, v.Notify = r.BreakGlass, r.Notify
}

// approvalButtons: no approve button where the card does not show all of it.
func (s *session) approvalButtons(a *Approval, v *ApprovalView) []Button {
	if a.State != ApprovalPending {
		return nil
	}
	switch {
	case a.Budget != nil:
		return budgetButtons(a, v)
	case a.Lost != nil:
		return hostButtons(v)
	case a.Switch != nil:
		return switchButtons
	}
	if a.UnknownRun {
		return []Button{{ID: ButtonDetails, Label: "Look at the output"}, {ID: ButtonRunAgain, Label: "Run again…"}, {ID: ButtonLeave, Label: "Leave it"}}
	}
	var b []Button
	if v.Displayable {
		b = append(b, Button{ID: ButtonApprove, Label: "Approve once"})
		if c := s.call(a.CallID); c != nil && grantable(c.Judgement) {
			b = append(b, Button{ID: ButtonGrant, Label: "Allow this for 1 h"})
		}
	}
	b = append(b, Button{ID: ButtonReview, Label: "Review…"}, Button{ID: ButtonDeny, Label: "Deny…"})
	if v.Queued > 0 {
		b = append(b, Button{ID: ButtonWithdraw, Label: "Withdraw and go on"})
	}
	return b
}

func (s *session) pending(id string) *Approval {
	for _, a := range s.st.Pending {
		if a.ID == id {
			return a
		}
	}
	return nil
}

func (s *session) decided(id string) *DecidedApproval {
	for i := range s.st.Decided {
		if s.st.Decided[i].ID == id {
			return &s.st.Decided[i]
		}
	}
	return nil
}

// approvalPost finds an approval's card by the approval's ID.
func (s *session) approvalPost(id string) *Post {
	for _, p := range s.st.Posts {
		if p.View.Approval != nil && p.View.Approval.ID == id {
			return p
		}
	}
	return nil
}

// decidedCall ends a call whose request was decided without it running.
func (s *session) decidedCall(ctx workflow.Context, c *Call) {
	d := s.decided(c.Approval)
	if d == nil {
		d = &DecidedApproval{State: ApprovalExpired}
	}
	if d.UnknownRun {
		why := "The worker died while this ran; it may have finished. It was not run again."
		s.finish(ctx, c, CallUnknown, why, modelText("unknown", why))
		s.step(ctx)
		return
	}
	switch d.State {
	case ApprovalApproved:
		s.start(ctx, c)
		return
	case ApprovalChanged:
		s.rejudge(ctx, c, "what was approved has changed")
		return
	case ApprovalDenied:
		why := "by " + d.By
		if d.Changes {
			why = "changes asked for by " + d.By
		}
		if d.Reason != "" {
			why += ": " + d.Reason
		}
		s.finish(ctx, c, CallDenied, why, modelText("denied", why))
	case ApprovalWithdrawn:
		s.finish(ctx, c, CallCancelled, "withdrawn by "+d.By, modelText("cancelled", "withdrawn by "+d.By+"; it did not run"))
	default:
		s.finish(ctx, c, CallExpired, "nobody decided in time", modelText("expired", "the request timed out: nobody decided, nobody denied it; it did not run"))
	}
	s.step(ctx)
}

// settle records how a request ended and shows it on its card.
func (s *session) settle(ctx workflow.Context, a *Approval, state string, by Actor) {
	a.State = state
	s.audit(ctx, audit.Entry{Kind: audit.KindDecided, ToolCall: a.CallID, Approval: a.ID, Digest: a.Digest, Actor: by.ID, Outcome: state})
	s.flush = true
	s.st.Pending = slices.DeleteFunc(s.st.Pending, func(b *Approval) bool { return b == a })
	d := DecidedApproval{ID: a.ID, State: state, At: workflow.Now(ctx), UnknownRun: a.UnknownRun, Interactions: a.Interactions}
	if by.ID != "" {
		d.By = by.Label()
	}
	if state == ApprovalApproved && !a.UnknownRun {
		if s.st.Stats.Deciders == nil {
			s.st.Stats.Deciders = map[string]int{}
		}
		s.st.Stats.Deciders[d.By]++
	}
	for _, v := range a.Votes {
		if v.Verdict != VerdictApprove {
			d.Reason, d.Changes = cutText(v.Reason, maxShort), v.Verdict == VerdictChanges
		}
	}
	s.st.Decided = append(s.st.Decided, d)
	if over := len(s.st.Decided) - maxDecided; over > 0 {
		s.st.Decided = slices.Delete(s.st.Decided, 0, over)
	}
	if p := s.approvalPost(a.ID); p != nil {
		v := p.View.Approval
		v.State, v.Votes, v.DecidedAt, v.BrokeGlass = state, slices.Clone(a.Votes), d.At, a.BrokeGlass && state == ApprovalApproved
		if d.Changes {
			v.Text = d.Reason
		}
		if by.ID != "" {
			v.DecidedBy = &by
		}
		p.View.Buttons = nil
		p.Final = state != ApprovalApproved
		s.changed(p)
	}
	if state != ApprovalApproved || s.call(a.CallID) == nil {
		s.liveness(ctx) // else with the call's start, in a moment
	}
}

// approvedEnded adds a call's end to the card of the request it was held by.
func (s *session) approvedEnded(c *Call) {
	p := s.approvalPost(c.Approval)
	if p == nil {
		return
	}
	v := p.View.Approval
	v.CallState, v.ExitCode = c.State, c.Result.ExitCode
	v.Duration = duration(c.Result.StartedAt, c.Result.EndedAt)
	p.Final = !s.gives(v.ID)
	s.changed(p)
}

// ApprovalKey is the key of the message that shows a request.
func ApprovalKey(approvalID string) string {
	return approvalMessage + approvalID[strings.LastIndex(approvalID, approvalMark)+len(approvalMark):]
}

// What a request's message and ID are named by; its number follows.
const (
	approvalMessage = "approval-"
	approvalMark    = ".a"
)
