package workflows

import (
	"fmt"
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
		Tier: j.Tier, Command: j.Command, Displayable: j.Displayable, Detail: j.Detail, Reasons: j.Reasons,
	})
}

// requestUnknown asks a person about a command that may have run.
func (s *session) requestUnknown(ctx workflow.Context, c *Call, why string) {
	j := c.Judgement
	rule := j.Rule
	if rule.TTL == 0 {
		rule.TTL = 24 * time.Hour
	}
	if len(rule.Approvers) == 0 || j.Tier == "safe" || j.Tier == "write" {
		// The command needed no approval, so who asked for it may decide.
		rule.RequesterMayApprove = true
		for _, r := range s.st.Turn.Requesters {
			rule.Approvers = append(rule.Approvers, r.ID)
		}
	}
	rule.Required = 1
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
		ID: s.st.Thread.ID + ".a" + n, Key: "approval-" + n, CallID: c.ID, Rule: rule,
		Digest: c.Judgement.Digest, CreatedAt: workflow.Now(ctx), State: ApprovalPending,
	}
	s.st.Pending = append(s.st.Pending, a)
	c.State, c.Approval = CallAwaiting, a.ID
	s.callView(c).State = CallAwaiting
	return a
}

func (s *session) showApproval(ctx workflow.Context, c *Call, a *Approval, v *ApprovalView) {
	v.ID, v.State, v.CallID, v.Digest = a.ID, ApprovalPending, c.ID, a.Digest
	v.Cwd, v.Backend, v.Workspace = c.Judgement.Cwd, s.st.Backend, s.st.Workspace
	v.Required, v.Approvers = a.Rule.Required, a.Rule.Approvers
	v.RequestedBy = s.st.Turn.Requesters
	v.ExpiresAt = a.CreatedAt.Add(a.Rule.TTL)
	v.Queued = len(s.st.Queue)
	s.auditCall(ctx, audit.KindRequested, c, audit.Entry{Reasons: v.Reasons})
	s.flush = true
	s.show(MessageView{Key: a.Key, Kind: KindApproval, Approval: v, Buttons: approvalButtons(a, v)})
	s.cardChanged()
	s.liveness(ctx)
	s.step(ctx)
}

// approvalButtons: no approve button where the card does not show all of it.
func approvalButtons(a *Approval, v *ApprovalView) []Button {
	if a.State != ApprovalPending {
		return nil
	}
	if a.UnknownRun {
		return []Button{{ID: ButtonRunAgain, Label: "Run again…"}, {ID: ButtonLeave, Label: "Leave it"}}
	}
	var b []Button
	if v.Displayable {
		b = append(b, Button{ID: ButtonApprove, Label: "Approve once"})
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

// await holds a call until its request is decided, expires, cannot be shown, or
// the run drains.
func (s *session) await(ctx workflow.Context, c *Call) {
	a := s.pending(c.Approval)
	if a == nil {
		s.decidedCall(ctx, c)
		return
	}
	p := s.approvalPost(a.ID)
	ready := func() bool {
		return a.Quorum || a.State != ApprovalPending || s.draining || s.st.Turn.Stop != nil || p == nil || p.Gone
	}
	if a.ExpiresAt.IsZero() {
		_ = workflow.Await(ctx, func() bool { return ready() || p.Ref != "" })
		s.delivered(ctx, a, p)
	}
	if !ready() {
		ok, err := workflow.AwaitWithTimeout(ctx, a.ExpiresAt.Sub(workflow.Now(ctx)), ready)
		if err == nil && !ok {
			s.st.Stats.Expired++
			s.settle(ctx, a, ApprovalExpired, Actor{})
		}
	}
	switch {
	case s.st.Turn.Stop != nil:
	case a.Quorum && a.State == ApprovalPending:
		// Also when the run drains: the click is waiting for this answer.
		s.verify(ctx, c, a)
	case s.draining:
	case p == nil || p.Gone:
		s.settle(ctx, a, ApprovalExpired, Actor{})
	case a.State != ApprovalPending:
		s.decidedCall(ctx, c)
	}
}

// delivered starts the request's time: it counts from the card's delivery.
func (s *session) delivered(ctx workflow.Context, a *Approval, p *Post) {
	if p == nil || p.Ref == "" {
		return
	}
	now := workflow.Now(ctx)
	a.ExpiresAt = a.CreatedAt.Add(a.Rule.TTL)
	if now.Sub(a.CreatedAt) > deliveryGrace {
		a.ExpiresAt = now.Add(a.Rule.TTL)
		p.View.Approval.ExpiresAt = a.ExpiresAt
		s.changed(p)
	}
}

// verify looks, when the last vote has fallen, whether what was approved is
// still what would run. The exec looks again.
func (s *session) verify(ctx workflow.Context, c *Call, a *Approval) {
	last := a.Votes[len(a.Votes)-1].By
	if a.UnknownRun {
		s.settle(ctx, a, ApprovalApproved, last)
		c.Attempt++
		c.Started = false
		s.start(ctx, c)
		return
	}
	sb := *s.st.Sandbox
	var res BindingResult
	err := workflow.ExecuteActivity(gateOptions(ctx, sb.Queue), ActivityCheckBinding, BindingInput{
		WorkflowID: s.id, Sandbox: sb, Call: c.ToolCall, Digest: a.Digest,
	}).Get(ctx, &res)
	if s.st.Turn.Stop != nil || a.State != ApprovalPending {
		return
	}
	if err != nil {
		res = BindingResult{Changed: true, What: sentenceOf(err)}
	}
	if res.Changed {
		s.settle(ctx, a, ApprovalChanged, Actor{})
		s.rejudge(ctx, c, res.What)
		return
	}
	s.st.Stats.Approved++
	s.settle(ctx, a, ApprovalApproved, last)
	s.start(ctx, c)
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
		if s.st.Stats.Deciders == nil {
			s.st.Stats.Deciders = map[string]int{}
		}
		s.st.Stats.Deciders[d.By]++
	}
	for _, v := range a.Votes {
		if v.Verdict != VerdictApprove {
			d.Reason = cutText(v.Reason, maxShort)
		}
	}
	s.st.Decided = append(s.st.Decided, d)
	if over := len(s.st.Decided) - maxDecided; over > 0 {
		s.st.Decided = slices.Delete(s.st.Decided, 0, over)
	}
	if p := s.approvalPost(a.ID); p != nil {
		v := p.View.Approval
		v.State, v.Votes, v.DecidedAt = state, slices.Clone(a.Votes), d.At
		p.View.Buttons = nil
		p.Final = state != ApprovalApproved
		s.changed(p)
	}
	s.liveness(ctx)
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
	p.Final = true
	s.changed(p)
}

// validDecision rejects what cannot be a click on a card of this session. Lack
// of authority is no reason: that is answered, and so on record.
func (s *session) validDecision(ctx workflow.Context, d Decision) error {
	switch {
	case s.draining:
		return errDraining
	case d.ApprovalID == "" || d.By.ID == "" || d.Interaction == "":
		return fmt.Errorf("a decision needs approval_id, by and interaction")
	case d.Verdict != VerdictApprove && d.Verdict != VerdictDeny && d.Verdict != VerdictWithdraw:
		return fmt.Errorf("verdict %q is none of approve, deny, withdraw", d.Verdict)
	case len(d.Reason) > MaxInlineText:
		return fmt.Errorf("the reason is longer than %d bytes", MaxInlineText)
	case s.pending(d.ApprovalID) == nil && s.decided(d.ApprovalID) == nil && !strings.HasPrefix(d.ApprovalID, s.st.Thread.ID+".a"):
		return fmt.Errorf("no approval %q in this session", d.ApprovalID)
	case s.refusals[d.By.ID] >= maxRefusals:
		return fmt.Errorf("too many clicks that did not count")
	}
	return nil
}

// decide takes a person's verdict on a request.
func (s *session) decide(ctx workflow.Context, d Decision) (Outcome, error) {
	a := s.pending(d.ApprovalID)
	if a == nil {
		return s.tooLate(d), nil
	}
	if slices.Contains(a.Interactions, d.Interaction) {
		return Outcome{OutcomeRecorded, s.recordedText(a)}, nil
	}
	if age := workflow.Now(ctx).Sub(d.ClickedAt); age > MaxDecisionAge {
		return s.refuse(ctx, d, Outcome{OutcomeUnconfirmed, "Not confirmed: the click reached the server too late and did not count. Click again."}), nil
	}
	if a.Quorum {
		return Outcome{OutcomeAlreadyDecided, "This has been approved and is about to run."}, nil
	}
	if d.Digest != "" && d.Digest != a.Digest {
		return s.refuse(ctx, d, Outcome{OutcomeChanged, "The command has changed since; look at the new request below."}), nil
	}
	if out, ok := s.mayDecide(a, d); !ok {
		return s.refuse(ctx, d, out), nil
	}
	a.Interactions = append(a.Interactions, d.Interaction)
	s.auditClick(ctx, audit.KindVote, d, d.Verdict, d.Reason)
	a.Votes = append(a.Votes, Vote{By: d.By, Verdict: d.Verdict, At: workflow.Now(ctx), Reason: d.Reason})
	switch d.Verdict {
	case VerdictDeny:
		if !a.UnknownRun {
			s.st.Stats.Denied++
		}
		s.settle(ctx, a, ApprovalDenied, d.By)
	case VerdictWithdraw:
		s.settle(ctx, a, ApprovalWithdrawn, d.By)
	default:
		s.approveVote(ctx, a)
	}
	s.step(ctx)
	if a.Quorum {
		_, _ = workflow.AwaitWithTimeout(ctx, settleWait, func() bool { return a.State != ApprovalPending })
	}
	if a.State == ApprovalChanged {
		return Outcome{OutcomeChanged, "The command has changed since; look at the new request below."}, nil
	}
	return Outcome{OutcomeRecorded, s.recordedText(a)}, nil
}

func (s *session) approveVote(_ workflow.Context, a *Approval) {
	a.Quorum = approvals(a) >= a.Rule.Required
	if p := s.approvalPost(a.ID); p != nil && !a.Quorum {
		p.View.Approval.Votes = slices.Clone(a.Votes)
		s.changed(p)
	}
}

func approvals(a *Approval) int {
	n := 0
	for _, v := range a.Votes {
		if v.Verdict == VerdictApprove {
			n++
		}
	}
	return n
}

// refuse answers a click that does not count, and counts it.
func (s *session) refuse(ctx workflow.Context, d Decision, out Outcome) Outcome {
	s.refusals[d.By.ID]++
	s.auditClick(ctx, audit.KindRefused, d, out.Outcome, out.Text)
	return out
}

// auditClick puts a click on record: who, in which groups, and what it came to.
func (s *session) auditClick(ctx workflow.Context, kind string, d Decision, outcome, text string) {
	s.audit(ctx, audit.Entry{
		Kind: kind, Approval: d.ApprovalID, Actor: d.By.ID, Evidence: d.By.Groups, Interaction: d.Interaction,
		Outcome: outcome, Text: cutText(text, maxShort),
	})
	s.flush = true
}

func (s *session) recordedText(a *Approval) string {
	switch a.State {
	case ApprovalDenied:
		if a.UnknownRun {
			return "Left as it is."
		}
		return "Denied: it will not run."
	case ApprovalWithdrawn:
		return "Withdrawn: it will not run."
	}
	if a.Rule.Required > 1 {
		return fmt.Sprintf("Recorded: %d of %d.", approvals(a), a.Rule.Required)
	}
	return "Approved."
}

// tooLate answers a click on a request that is decided.
func (s *session) tooLate(d Decision) Outcome {
	x := s.decided(d.ApprovalID)
	if x == nil {
		return Outcome{OutcomeAlreadyDecided, "This was decided long ago."}
	}
	if slices.Contains(x.Interactions, d.Interaction) {
		return Outcome{OutcomeRecorded, "Recorded."}
	}
	at := x.At.UTC().Format("15:04 UTC")
	switch x.State {
	case ApprovalExpired:
		return Outcome{OutcomeExpired, "This expired at " + at + "."}
	case ApprovalChanged:
		return Outcome{OutcomeChanged, "The command has changed since; look at the new request below."}
	case ApprovalDenied:
		return Outcome{OutcomeAlreadyDecided, x.By + " already denied this at " + at + "."}
	case ApprovalWithdrawn:
		return Outcome{OutcomeAlreadyDecided, x.By + " withdrew this at " + at + "."}
	}
	return Outcome{OutcomeAlreadyDecided, x.By + " already approved this at " + at + "."}
}
