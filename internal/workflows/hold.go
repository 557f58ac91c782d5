package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// membershipWait bounds the look at who still is in a group; unanswered, the
// votes that rest on it do not count.
const membershipWait = 10 * time.Second

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
		return a.Quorum || a.State != ApprovalPending || s.draining || s.lost || s.st.Turn.Stop != nil || p == nil || p.Gone
	}
	if a.ExpiresAt.IsZero() {
		_ = workflow.Await(ctx, func() bool { return ready() || p.Ref != "" })
		s.delivered(ctx, a, p)
	}
	for !ready() {
		until, widens := a.ExpiresAt, false
		if at, ok := a.widensAt(); ok && at.Before(until) {
			until, widens = at, true
		}
		ok, err := awaitFor(ctx, until.Sub(workflow.Now(ctx)), ready)
		switch {
		case err != nil || ok:
		case widens:
			s.widen(a, p)
		default:
			s.st.Stats.Expired++
			s.settle(ctx, a, ApprovalExpired, Actor{})
		}
		if err != nil {
			return
		}
	}
	switch {
	case s.st.Turn.Stop != nil:
	case a.Quorum && a.State == ApprovalPending:
		// Also when the run drains: the click is waiting for this answer.
		s.verify(ctx, c, a)
	case s.draining, s.lost:
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

// widensAt is when a second set of approvers may answer too.
func (a *Approval) widensAt() (time.Time, bool) {
	if a.Widened || a.Rule.WidenAfter <= 0 || len(a.Rule.WidenTo) == 0 {
		return time.Time{}, false
	}
	return a.ExpiresAt.Add(a.Rule.WidenAfter - a.Rule.TTL), true
}

// widen lets a second set of approvers answer, because the first did not.
func (s *session) widen(a *Approval, p *Post) {
	a.Widened = true
	for _, who := range a.Rule.WidenTo {
		if !slices.Contains(a.Rule.Approvers, who) {
			a.Rule.Approvers = append(a.Rule.Approvers, who)
		}
	}
	p.View.Approval.Approvers, p.View.Approval.Widened = a.Rule.Approvers, true
	s.changed(p)
	s.notice("Nobody has answered the request above since " + Duration(a.Rule.WidenAfter) + " ago. It may now also be approved by " +
		approversText(a.Rule.WidenTo) + ".")
}

// verify looks, when the last vote has fallen, whether what was approved is
// still what would run, and whether those who approved still may. The exec
// looks at the first again.
func (s *session) verify(ctx workflow.Context, c *Call, a *Approval) {
	last := a.Votes[len(a.Votes)-1].By
	if a.UnknownRun {
		if !s.stillCount(ctx, a, a.Rule) {
			return
		}
		s.settle(ctx, a, ApprovalApproved, last)
		c.Attempt++
		c.Started, c.YieldAt = false, time.Time{}
		s.start(ctx, c)
		return
	}
	queue, sb, _, binding := s.gate(c)
	in := BindingInput{
		WorkflowID: s.id, Sandbox: sb, Call: c.ToolCall, Running: s.ref(c), Digest: a.Digest, Tier: c.Judgement.Tier, Channel: s.st.Thread.Channel,
	}
	res, err := askHere(ctx, sb, s.here.CheckHere, in), error(nil)
	a.looked = true
	if res == nil {
		res = &BindingResult{}
		err = s.ask(ctx, queue, binding, in, res, s.notStopped)
	}
	if !s.notStopped() || a.State != ApprovalPending || s.draining && temporal.IsCanceledError(err) {
		return
	}
	if err != nil {
		res = &BindingResult{Changed: true, What: sentenceOf(err)}
	}
	if res.Changed {
		s.settle(ctx, a, ApprovalChanged, Actor{})
		s.rejudge(ctx, c, res.What)
		return
	}
	if !s.stillCount(ctx, a, res.Rule) {
		return
	}
	s.st.Stats.Approved++
	s.grant(ctx, c, a, last)
	s.settle(ctx, a, ApprovalApproved, last)
	s.start(ctx, c)
}

// stillCount holds the votes against the settings and groups of this moment.
// Where they no longer are enough, those that count stay and the request goes on.
func (s *session) stillCount(ctx workflow.Context, a *Approval, now ApprovalRule) bool {
	if now.Required > 0 { // also where nobody may approve any more
		if a.Widened {
			now.Approvers = append(now.Approvers, now.WidenTo...)
		}
		a.Rule = now
	}
	votes := s.members(ctx, a)
	if s.stopOf(a) != nil || a.State != ApprovalPending {
		return false
	}
	kept := slices.DeleteFunc(slices.Clone(votes), func(v Vote) bool {
		if a.BrokeGlass {
			return !isApprover(a.Rule.BreakGlass, v.By)
		}
		return !isApprover(a.Rule.Approvers, v.By) || (s.requested(a, v.By) && !a.Rule.RequesterMayApprove)
	})
	if len(kept) >= a.Rule.Required || (a.BrokeGlass && len(kept) > 0) {
		return true
	}
	a.Votes, a.Quorum, a.BrokeGlass, a.GrantFor = kept, false, false, 0
	if p := s.approvalPost(a.ID); p != nil {
		v := p.View.Approval
		v.Votes = slices.Clone(kept)
		v.takes(a.Rule)
		v.Remark = "A vote does not count any more: who gave it may not approve now."
		s.changed(p)
	}
	return false
}

// members asks the platform again about voters whose right rests on a group.
func (s *session) members(ctx workflow.Context, a *Approval) []Vote {
	var ask []Actor
	for _, v := range a.Votes {
		if len(v.By.Groups) > 0 {
			ask = append(ask, v.By)
		}
	}
	if len(ask) == 0 {
		return a.Votes
	}
	mctx := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: s.st.Thread.PostQueue(), StartToCloseTimeout: membershipWait, ScheduleToCloseTimeout: membershipWait,
		RetryPolicy: forever(200*time.Millisecond, 2*time.Second),
	})
	var res MembershipResult
	err := workflow.ExecuteActivity(mctx, ActivityCheckMembership, MembershipInput{
		Thread: s.st.Thread, People: ask, Approvers: a.Rule.Approvers,
	}).Get(ctx, &res)
	if err != nil {
		workflow.GetLogger(ctx).Warn("Group membership is not known; votes that rest on it do not count", "error", err)
	}
	votes := slices.Clone(a.Votes)
	for i := range votes {
		if len(votes[i].By.Groups) == 0 {
			continue
		}
		votes[i].By.Groups = nil
		for _, p := range res.People {
			if p.ID == votes[i].By.ID && !p.Bot && !p.Guest && !p.External {
				votes[i].By.Groups = p.Groups
			}
		}
	}
	return votes
}
