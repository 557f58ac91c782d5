package workflows

import (
	"fmt"

	"go.temporal.io/sdk/workflow"

	"github.com/countersign/countersign/internal/audit"
)

// TierBudget is what an approval card says in a tier's place when a budget is to
// be raised.
const TierBudget = "budget"

// Budgets.
const (
	BudgetTurn      = "turn"
	BudgetSession   = "session"
	BudgetPersonDay = "person_day"
)

// Spending is what the session has cost so far, in millionths of the currency's
// unit: what a model call holds against the budgets.
type Spending struct {
	Turn    int64 `json:"turn,omitempty"`
	Session int64 `json:"session,omitempty"`
	// Payer began the turn, and Day is what this session has cost them on Date
	// (UTC); other sessions' part is in the blob store.
	Payer string `json:"payer,omitempty"`
	Date  string `json:"date,omitempty"`
	Day   Usage  `json:"day,omitzero"`
	// Raised are the limits that approvers have allowed, by budget.
	Raised map[string]int64 `json:"raised,omitempty"`
}

// OverBudget says that a model call was not made: a budget is used up.
type OverBudget struct {
	// Budget is one of the constants above.
	Budget string `json:"budget"`
	Spent  int64  `json:"spent"`
	Limit  int64  `json:"limit"`
	// Next is the limit to ask for.
	Next int64 `json:"next"`
	// Rule says who may raise it, by the settings of that moment.
	Rule ApprovalRule `json:"rule"`
}

// spending is what the next model call is held against.
func (s *session) spending(ctx workflow.Context) Spending {
	t := s.st.Turn
	sp := Spending{
		Turn: t.Card.Usage.Micros, Session: s.st.Usage.Micros, Date: workflow.Now(ctx).UTC().Format("2006-01-02"),
		Raised: map[string]int64{},
	}
	if len(t.Requesters) > 0 {
		sp.Payer = t.Requesters[0].ID
	}
	if s.st.Day != sp.Date {
		s.st.Day, s.st.DayUsage = sp.Date, nil
		delete(s.st.Raised, BudgetPersonDay)
	}
	sp.Day = s.st.DayUsage[sp.Payer]
	for _, b := range []string{BudgetSession, BudgetPersonDay} {
		if n := s.st.Raised[b]; n > 0 {
			sp.Raised[b] = n
		}
	}
	if t.Raised > 0 {
		sp.Raised[BudgetTurn] = t.Raised
	}
	return sp
}

// spent counts what a model call has cost.
func (s *session) spent(u Usage) {
	t := s.st.Turn
	t.Card.Usage = t.Card.Usage.Add(u)
	s.st.Usage = s.st.Usage.Add(u)
	if len(t.Requesters) == 0 {
		return
	}
	if s.st.DayUsage == nil {
		s.st.DayUsage = map[string]Usage{}
	}
	payer := t.Requesters[0].ID
	s.st.DayUsage[payer] = s.st.DayUsage[payer].Add(u)
}

// raiseBudget holds the turn until an approver has raised the budget that it has
// used up, and reports whether it may go on. The turn has ended where it may not,
// unless the run drains: the next run asks on.
func (s *session) raiseBudget(ctx workflow.Context, o *OverBudget) bool {
	if len(o.Rule.Approvers) == 0 {
		s.failed(ctx, s.overText(o)+" Nobody may raise it: no approvers are set.", "Raise budget."+o.Budget+" in the settings, or set approvals.approvers.")
		return false
	}
	s.st.Turn.Over, s.st.Turn.BudgetAsk = o, s.requestBudget(ctx, o).ID
	return s.awaitBudget(ctx)
}

// awaitBudget waits for the answer to the turn's request to raise a budget, which
// may have been given between two runs.
func (s *session) awaitBudget(ctx workflow.Context) bool {
	t := s.st.Turn
	if a := s.pending(t.BudgetAsk); a != nil && !s.awaitOwn(ctx, a, func() bool { return false }) {
		return false
	}
	o, d := t.Over, s.decided(t.BudgetAsk)
	if d == nil {
		d = &DecidedApproval{State: ApprovalExpired}
	}
	t.Over, t.BudgetAsk = nil, ""
	switch {
	case d.State == ApprovalApproved:
		s.raised(o)
		s.step(ctx)
		return !s.wanted
	case t.Stop != nil:
		s.stopped(ctx)
	case d.By == "":
		s.failed(ctx, s.overText(o)+" Nobody has raised it in time.", "Send a message to ask again.")
	case d.State == ApprovalWithdrawn:
		s.failed(ctx, s.overText(o)+" "+d.By+" has withdrawn the request to raise it.", "Send a message to ask again.")
	default:
		s.failed(ctx, s.overText(o)+" "+d.By+" has declined to raise it.", "Send a message to ask again.")
	}
	return false
}

// raised lets the turn, the session or the person's day cost more.
func (s *session) raised(o *OverBudget) {
	if o.Budget == BudgetTurn {
		s.st.Turn.Raised = o.Next
		return
	}
	if s.st.Raised == nil {
		s.st.Raised = map[string]int64{}
	}
	s.st.Raised[o.Budget] = o.Next
}

func (s *session) overText(o *OverBudget) string {
	return fmt.Sprintf("The budget of %s is used up: %s of %s.", s.budgetOf(o), dollars(o.Spent), dollars(o.Limit))
}

func (s *session) budgetOf(o *OverBudget) string {
	switch o.Budget {
	case BudgetTurn:
		return "this turn"
	case BudgetSession:
		return "this session"
	}
	return s.st.Turn.Requesters[0].Label() + " for today"
}

func dollars(micros int64) string { return fmt.Sprintf("$%.2f", float64(micros)/1e6) }

// requestBudget asks by a card of its own.
func (s *session) requestBudget(ctx workflow.Context, o *OverBudget) *Approval {
	s.st.Requests++
	n := itoa(s.st.Requests)
	a := &Approval{
		ID: s.st.Thread.ID + approvalMark + n, Key: approvalMessage + n, Rule: o.Rule, CreatedAt: workflow.Now(ctx),
		State: ApprovalPending, Budget: o,
	}
	s.st.Pending = append(s.st.Pending, a)
	text := "Raise the budget of " + s.budgetOf(o) + " from " + dollars(o.Limit) + " to " + dollars(o.Next)
	v := &ApprovalView{
		ID: a.ID, State: ApprovalPending, Tier: TierBudget, Displayable: true, Command: TextRef{Text: text, Bytes: len(text)},
		Reasons:     []string{s.overText(o) + " The turn waits; approved, it goes on where it is."},
		RequestedBy: s.st.Turn.Requesters, ExpiresAt: a.CreatedAt.Add(a.Rule.TTL), Queued: s.waiting(),
	}
	v.takes(a.Rule)
	s.audit(ctx, audit.Entry{Kind: audit.KindRequested, Approval: a.ID, Tier: TierBudget, Command: text, Reasons: v.Reasons})
	s.flush = true
	s.show(MessageView{Key: a.Key, Kind: KindApproval, Approval: v, Buttons: s.approvalButtons(a, v)})
	s.liveness(ctx)
	s.step(ctx)
	return a
}

// awaitOwn waits for the end of a request that is about no call; false means that
// the run drains. It is withdrawn when moot says so.
func (s *session) awaitOwn(ctx workflow.Context, a *Approval, moot func() bool) bool {
	p := s.approvalPost(a.ID)
	ready := func() bool {
		return moot() || a.Quorum || a.State != ApprovalPending || s.leaves(a) || s.stopOf(a) != nil || p == nil || p.Gone
	}
	for a.State == ApprovalPending {
		if a.ExpiresAt.IsZero() {
			_ = workflow.Await(ctx, func() bool { return ready() || p.Ref != "" })
			s.delivered(ctx, a, p)
		}
		if !ready() {
			until, widens := a.ExpiresAt, false
			if at, ok := a.widensAt(); ok && at.Before(until) {
				until, widens = at, true
			}
			ok, err := awaitFor(ctx, until.Sub(workflow.Now(ctx)), ready)
			switch {
			case err != nil:
				return false
			case ok:
			case widens:
				s.widen(a, p)
			default:
				s.st.Stats.Expired++
				s.settle(ctx, a, ApprovalExpired, Actor{})
			}
			continue
		}
		switch {
		case a.State != ApprovalPending:
		case s.stopOf(a) != nil:
			s.settle(ctx, a, ApprovalWithdrawn, s.stopOf(a).By)
		case a.Quorum:
			last := a.Votes[len(a.Votes)-1].By
			rule, ok := s.ruleNow(ctx, a)
			if !ok {
				return a.State != ApprovalPending
			}
			if s.stillCount(ctx, a, rule) {
				s.st.Stats.Approved++
				s.settle(ctx, a, ApprovalApproved, last)
			}
		case moot():
			s.settle(ctx, a, ApprovalWithdrawn, Actor{})
		case p == nil || p.Gone:
			s.settle(ctx, a, ApprovalExpired, Actor{})
		default:
			return false
		}
	}
	if p := s.approvalPost(a.ID); p != nil {
		p.Final = true
	}
	return true
}

// stopOf is the stop that ends a request, if there is one: a switch is not the
// turn's.
func (s *session) stopOf(a *Approval) *CancelTurn {
	if a.Switch != nil || s.st.Turn == nil {
		return nil
	}
	return s.st.Turn.Stop
}

// leaves reports that the next run waits on for the request.
func (s *session) leaves(a *Approval) bool {
	if a.Switch != nil {
		return s.draining
	}
	return s.wanted
}

func budgetButtons(a *Approval, v *ApprovalView) []Button {
	b := []Button{{ID: ButtonApprove, Label: "Raise to " + dollars(a.Budget.Next)}, {ID: ButtonDeny, Label: "End the turn…"}}
	if v.Queued > 0 {
		b = append(b, Button{ID: ButtonWithdraw, Label: "Withdraw and end the turn"})
	}
	return b
}
