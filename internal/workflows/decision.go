package workflows

import (
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/countersign/countersign/internal/audit"
)

// changedOutcome answers a click on a request whose command is not what it was.
var changedOutcome = Outcome{OutcomeChanged, "The command has changed since; look at the new request below."}

// validDecision rejects what cannot be a click on a card of this session. Lack
// of authority is no reason: that is answered, and so on record.
func (s *session) validDecision(ctx workflow.Context, d Decision) error {
	verdicts := []string{VerdictApprove, VerdictDeny, VerdictWithdraw, VerdictChanges}
	switch {
	case s.draining:
		return errDraining
	case d.ApprovalID == "" || d.By.ID == "" || d.Interaction == "":
		return fmt.Errorf("a decision needs approval_id, by and interaction")
	case !slices.Contains(verdicts, d.Verdict):
		return fmt.Errorf("verdict %q is none of %s", d.Verdict, strings.Join(verdicts, ", "))
	case len(d.Reason) > MaxInlineText:
		return fmt.Errorf("the reason is longer than %d bytes", MaxInlineText)
	case len(d.Edit) > MaxEdit:
		return fmt.Errorf("the edited command is longer than %d bytes", MaxEdit)
	case d.Verdict != VerdictApprove && (d.Edit != "" || d.GrantFor != 0 || d.BreakGlass):
		return fmt.Errorf("only an approval can carry an edit, a grant or break-glass")
	case d.GrantFor < 0 || d.GrantFor > MaxGrant:
		return fmt.Errorf("a grant lasts at most %s", MaxGrant)
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
	d.Reason = maskedText(ctx, d.Reason)
	if out, ok := s.counts(ctx, a, d); !ok {
		return s.refuse(ctx, d, out), nil
	}
	if d.Edit != "" {
		if out, ok := s.edit(ctx, a, d); !ok {
			return s.refuse(ctx, d, out), nil
		}
	}
	a.Interactions = append(a.Interactions, d.Interaction)
	s.auditClick(ctx, audit.KindVote, d, d.Verdict, d.Reason)
	a.Votes = append(a.Votes, Vote{By: d.By, Verdict: d.Verdict, At: workflow.Now(ctx), Reason: d.Reason})
	s.vote(ctx, a, d)
	s.step(ctx)
	if a.Quorum {
		_, _ = awaitFor(ctx, settleWait, func() bool { return a.State != ApprovalPending || !a.Quorum })
	}
	if a.State == ApprovalChanged {
		return changedOutcome, nil
	}
	return Outcome{OutcomeRecorded, s.recordedText(a)}, nil
}

// counts answers whether a click counts, and if not, what the clicker is told.
func (s *session) counts(ctx workflow.Context, a *Approval, d Decision) (Outcome, bool) {
	p := s.approvalPost(a.ID)
	switch {
	case workflow.Now(ctx).Sub(d.ClickedAt).Abs() > MaxDecisionAge: // from the future: by a bot's clock that is wrong
		return Outcome{OutcomeUnconfirmed, "Not confirmed: the click reached the server too late and did not count. Click again."}, false
	case a.Quorum || a.Editing:
		return Outcome{OutcomeAlreadyDecided, "Somebody has just decided this; the card shows what."}, false
	case d.Digest != "" && d.Digest != a.Digest:
		return changedOutcome, false
	case d.Verdict == VerdictApprove && d.Digest == "" && p != nil && !p.View.Approval.Displayable:
		return Outcome{OutcomeNotYours, "The card does not show all of this command. Open Review; approve from there."}, false
	}
	return s.mayDecide(a, d)
}

// vote applies a recorded vote.
func (s *session) vote(ctx workflow.Context, a *Approval, d Decision) {
	switch d.Verdict {
	case VerdictDeny, VerdictChanges:
		if !a.UnknownRun {
			s.st.Stats.Denied++
		}
		s.settle(ctx, a, ApprovalDenied, d.By)
		return
	case VerdictWithdraw:
		s.settle(ctx, a, ApprovalWithdrawn, d.By)
		return
	}
	a.BrokeGlass = d.BreakGlass
	a.Quorum = d.BreakGlass || approvals(a) >= a.Rule.Required
	if a.Quorum {
		a.GrantFor = d.GrantFor
	} else if p := s.approvalPost(a.ID); p != nil {
		p.View.Approval.Votes, p.View.Approval.Remark = slices.Clone(a.Votes), ""
		s.changed(p)
	}
}

// edit replaces the command of a request by a person's: it is judged and
// digested like any other, and the votes on the old one are void.
func (s *session) edit(ctx workflow.Context, a *Approval, d Decision) (Outcome, bool) {
	c := s.call(a.CallID)
	if c == nil || c.Tool != ToolShell || a.UnknownRun {
		return Outcome{OutcomeNotYours, "Only a shell command can be changed here."}, false
	}
	if !c.Judgement.Editable {
		return Outcome{OutcomeNotYours, "This command cannot be changed here: part of it is shown escaped or masked, and that part would be lost. Ask for changes instead."}, false
	}
	a.Editing = true
	defer func() { a.Editing = false }()
	sb := *s.st.Sandbox
	var j Judgement
	err := s.ask(ctx, sb.Queue, ActivityJudgeToolCall, JudgeInput{
		WorkflowID: s.id, Sandbox: sb, Call: c.ToolCall, Channel: s.st.Thread.Channel, Edit: d.Edit,
	}, &j, func() bool { return a.State == ApprovalPending })
	switch {
	case a.State != ApprovalPending:
		return s.tooLate(d), false
	case err != nil:
		return Outcome{OutcomeUnconfirmed, sentenceOf(err) + " The request stands as it was."}, false
	case j.Bad != "":
		return Outcome{OutcomeNotYours, j.Bad + " The request stands as it was."}, false
	case j.Tier == "forbidden":
		return Outcome{OutcomeNotYours, "That is never allowed: " + strings.Join(j.Why(), "; ") + ". The request stands as it was."}, false
	case j.Edited == nil:
		return Outcome{OutcomeNotYours, "This worker cannot judge a changed command. The request stands as it was."}, false
	}
	s.edited(ctx, a, c, &j, d)
	return Outcome{}, true
}

func (s *session) edited(ctx workflow.Context, a *Approval, c *Call, j *Judgement, d Decision) {
	before := c.Judgement
	c.Args, c.Shown, c.Judgement = *j.Edited, cutText(j.Command.Text, MaxShownCommand), j
	c.EditedBy = &d.By
	a.Digest, a.Votes = j.Digest, nil
	if j.Tier == "risky" || j.Tier == "critical" {
		a.Rule = j.Rule
	}
	s.auditCall(ctx, audit.KindJudged, c, audit.Entry{
		Actor: d.By.ID, Command: cutText(j.Command.Text, MaxShownCommand), Whole: j.Stored, Reasons: j.Reasons,
		Text: "edited; it was: " + cutText(before.Command.Text, MaxShownCommand),
	})
	s.callView(c).Command = c.Shown
	s.cardChanged()
	p := s.approvalPost(a.ID)
	if p == nil {
		return
	}
	v := p.View.Approval
	if v.Original == "" {
		v.Original = cutText(before.Command.Text, MaxShownCommand)
	}
	v.Command, v.Displayable, v.Detail, v.Evidence, v.Digest = j.Command, j.whole(), j.Detail, j.Evidence, j.Digest
	v.Reasons, v.Asking = j.Reasons, j.Asking
	v.Editable = j.Editable
	v.EditedBy, v.Votes = &d.By, nil
	v.takes(a.Rule)
	if j.Tier == "risky" || j.Tier == "critical" {
		v.Tier = j.Tier
	}
	p.View.Buttons = s.approvalButtons(a, v)
	s.changed(p)
}

// call finds a call of the current step.
func (s *session) call(id string) *Call {
	if t := s.st.Turn; t != nil {
		for _, c := range t.Calls {
			if c.ID == id {
				return c
			}
		}
	}
	return nil
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
	if !a.Quorum && a.State == ApprovalPending {
		return fmt.Sprintf("Recorded: %d of %d.", approvals(a), a.Rule.Required)
	}
	if a.BrokeGlass {
		return "Approved by you alone; this is on record."
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
