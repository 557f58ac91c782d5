package chaos

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/countersign/countersign/internal/audit"
	"github.com/countersign/countersign/internal/workflows"
)

// trace is what one exec has left in a session's own journals.
type trace struct {
	line
	generation int
}

// traces are the lines that this session's commands wrote. A fork's journal, and
// that of a later generation, begin with a copy of what was there before.
func (c *checker) traces(s *session) (own []trace, witnesses int) {
	seen := map[line]bool{}
	for _, w := range c.e.Journals {
		if w.WorkflowID != s.Thread.WorkflowID {
			continue
		}
		witnesses++
		here := map[line]int{}
		for _, l := range w.Lines {
			if here[l]++; here[l] > 1 {
				c.broken(RuleExecTwice, s.Thread.ID, "%s %s stands in the journal %d times for exec %s", l.Token, l.Word, here[l], l.Exec)
			}
			if strings.HasPrefix(l.Exec, s.Thread.ID+".") && !seen[l] {
				seen[l] = true
				own = append(own, trace{l, w.Generation})
			}
		}
	}
	return own, witnesses
}

// noted finds the lines that a command writes.
var noted = regexp.MustCompile(`echo (tok_\d+_\d+_) (\w+) \$`)

// execs: each command at most once, none without a verdict, each that counts as
// completed has left its lines.
func (c *checker) execs(s *session) {
	id := s.Thread.ID
	own, witnesses := c.traces(s)
	times := map[[2]string]int{}
	for _, t := range own {
		key := [2]string{t.Token, t.Word}
		if times[key]++; times[key] == 2 {
			c.broken(RuleExecTwice, id, "%s %s ran under two names, one is %s", t.Token, t.Word, t.Exec)
		}
		if why := s.allowed(t.Exec); why != "" {
			c.broken(RuleNoVerdict, id, "%s %s ran as %s: %s", t.Token, t.Word, t.Exec, why)
		}
	}
	for _, m := range s.Thread.of("turn") {
		for _, call := range m.ToolCalls {
			for _, f := range noted.FindAllStringSubmatch(call.Command, -1) {
				n := times[[2]string{f[1], f[2]}]
				switch {
				case call.State == workflows.CallCompleted && call.ExitCode != nil && *call.ExitCode == 0 && n == 0 && witnesses > 0:
					c.broken(RuleExecLost, id, "%s %s counts as completed (%s) and left no line", f[1], f[2], call.ID)
				case (call.State == workflows.CallDenied || call.State == workflows.CallExpired) && n > 0:
					c.broken(RuleDeniedRan, id, "%s %s is %s (%s) and ran", f[1], f[2], call.State, call.ID)
				}
			}
		}
	}
	c.approved(s)
}

// allowed says why an exec should not have run, by the audit record; empty when
// it should.
func (s *session) allowed(exec string) string {
	start := slices.IndexFunc(s.Entries, func(e audit.Entry) bool { return e.Kind == audit.KindExecStarted && e.Exec == exec })
	if start < 0 {
		return "its start is not on record"
	}
	call, before := s.Entries[start].ToolCall, s.Entries[:start]
	tier, approved := "", false
	for _, e := range before {
		if e.ToolCall != call {
			continue
		}
		switch e.Kind {
		case audit.KindJudged:
			tier, approved = e.Tier, false
		case audit.KindGranted:
			approved = true
		case audit.KindDecided:
			approved = e.Outcome == workflows.ApprovalApproved
		}
	}
	switch {
	case tier == "":
		return "no verdict is on record before its start"
	case (tier == "risky" || tier == "critical") && !approved:
		return "it is " + tier + " and no approval is on record before its start"
	}
	return ""
}

// approved: what was approved ran, or its outcome is said to be unknown, or
// somebody ended it.
func (c *checker) approved(s *session) {
	outcome := map[string]string{} // of calls, by ID
	for _, e := range s.Entries {
		if e.Kind == audit.KindExecEnded {
			outcome[e.ToolCall] = e.Outcome
		}
	}
	for _, e := range s.Entries {
		if e.Kind != audit.KindDecided || e.Outcome != workflows.ApprovalApproved || e.ToolCall == "" {
			continue // also what holds no call, such as a move
		}
		switch got := outcome[e.ToolCall]; got {
		case workflows.CallCompleted, workflows.CallUnknown, workflows.CallCancelled:
		default:
			c.broken(RuleExecLost, s.Thread.ID, "call %s was approved and ended as %q", e.ToolCall, got)
		}
	}
}

// votes: a click that counts by its answer is on record once, and a request has
// one outcome.
func (c *checker) votes(s *session) {
	id := s.Thread.ID
	votes, decisions := map[[2]string]int{}, map[string]int{}
	for _, e := range s.Entries {
		switch e.Kind {
		case audit.KindVote:
			votes[[2]string{e.Approval, e.Actor}]++
		case audit.KindDecided:
			if decisions[e.Approval]++; decisions[e.Approval] == 2 {
				c.broken(RuleDecidedTwice, id, "request %s", e.Approval)
			}
		}
	}
	for _, k := range c.e.Clicks {
		if k.Thread != id || k.Approval == "" || k.Outcome != workflows.OutcomeRecorded {
			continue
		}
		if n := votes[[2]string{k.Approval, k.By}]; n != 1 {
			c.broken(RuleVoteLost, id, "%s's click %s on %s counts by its answer and is on record %d times", k.By, k.Button, k.Approval, n)
		}
	}
}

// early: nothing that takes minutes or hours is over within a run.
func (c *checker) early(s *session) {
	for _, m := range s.Thread.of("approval") {
		switch a := m.Approval; {
		case a == nil:
		case a.State == workflows.ApprovalExpired && !s.destroyed():
			c.broken(RuleTooEarly, s.Thread.ID, "request %s has expired; it may wait for a day", a.ID)
		case a.Tier == workflows.TierHost:
			c.broken(RuleTooEarly, s.Thread.ID, "request %s says that a host is dead; none was away for a minute", a.ID)
		}
	}
}

// projection: the thread shows what the session's state says.
func (c *checker) projection(s *session) {
	id := s.Thread.ID
	c.headerIs(s)
	cards := map[int]message{}
	for _, m := range s.Thread.of("turn") {
		if m.Turn != nil {
			cards[m.Turn.Number] = m
		}
	}
	if len(cards) != s.State.Turns {
		c.broken(RuleProjection, id, "the session has had %d turns, its thread shows %d cards", s.State.Turns, len(cards))
	}
	for _, t := range s.History.Turns {
		card, ok := cards[t.Number]
		if !ok {
			c.broken(RuleProjection, id, "turn %d has no card", t.Number)
			continue
		}
		if card.Turn.State != t.State {
			c.broken(RuleProjection, id, "turn %d is %s and its card says %s", t.Number, t.State, card.Turn.State)
		}
		if t.State == workflows.TurnFailed {
			c.broken(RuleTurnFailed, id, "turn %d: %s", t.Number, card.Turn.Error)
		}
		if t.State == workflows.TurnDone && !slices.ContainsFunc(s.Thread.Messages, func(m message) bool { return m.Key == "answer-"+itoa(t.Number) }) {
			c.broken(RuleProjection, id, "turn %d is done and its answer is not there", t.Number)
		}
		for _, call := range card.ToolCalls {
			switch call.State {
			case workflows.CallPending, workflows.CallAwaiting, workflows.CallRunning:
				c.broken(RuleProjection, id, "turn %d has ended and its card shows %s as %s", t.Number, call.ID, call.State)
			}
		}
	}
	for _, m := range s.Thread.of("approval") {
		if m.Approval != nil && m.Approval.State == workflows.ApprovalPending && !slices.Contains(s.State.Approvals, m.Approval.ID) {
			c.broken(RuleProjection, id, "request %s is decided and its card waits", m.Approval.ID)
		}
	}
}

func (c *checker) headerIs(s *session) {
	id := s.Thread.ID
	if s.Thread.Liveness != s.State.Header.Liveness {
		c.broken(RuleProjection, id, "the session is %s and the list says %s", s.State.Header.Liveness, s.Thread.Liveness)
	}
	want, err := json.Marshal(s.State.Header)
	if err != nil {
		c.broken(RuleProjection, id, "the session's header cannot be read: %v", err)
		return
	}
	for _, m := range s.Thread.Messages {
		if m.Key != "header" {
			continue
		}
		var shown workflows.HeaderView
		if err := json.Unmarshal(m.Header, &shown); err != nil {
			c.broken(RuleProjection, id, "the header cannot be read: %v", err)
			return
		}
		if have, err := json.Marshal(shown); err != nil || string(have) != string(want) {
			c.broken(RuleProjection, id, "the header shows %s and the session says %s", have, want)
		}
		return
	}
	c.broken(RuleProjection, id, "the thread has no header")
}

// audit: the record is whole and written.
func (c *checker) audit(s *session) {
	for _, p := range s.Audit.Problems {
		c.broken(RuleAudit, s.Thread.ID, "entry %d: %s", p.Seq, p.What)
	}
	if n := s.Head.Unwritten; n > 0 {
		c.broken(RuleAudit, s.Thread.ID, "%d entries are not written", n)
	}
}
