package chaos

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Rules that a run may break.
const (
	RuleMessageLost   = "message-lost"        // an accepted message is in no turn
	RuleMessageTwice  = "message-twice"       // or in two, or its command was asked for twice
	RuleExecTwice     = "exec-twice"          // a command ran twice
	RuleExecLost      = "exec-lost"           // a command counts as completed and left no trace, or an approved one came to nothing
	RuleNoVerdict     = "ran-without-verdict" // a command ran that nothing allowed
	RuleDeniedRan     = "denied-ran"          // a command ran that somebody had denied
	RuleVoteLost      = "vote-lost"           // a click that counts by its answer is not on record, or twice
	RuleDecidedTwice  = "decided-twice"       // a request has two outcomes
	RuleTooEarly      = "too-early"           // a request expired, or a host was called dead, long before its time
	RulePostTwice     = "post-twice"          // a message of ours stands twice in its thread
	RuleProjection    = "projection"          // a thread shows something else than its session's state
	RuleTurnFailed    = "turn-failed"         // a turn ended with an error
	RuleMoveLost      = "move-lost"           // a switch that was accepted came to nothing, and nobody was told
	RuleWorkLost      = "work-lost"           // a sandbox lacks what an earlier one of its session had
	RuleStuck         = "session-stuck"       // a session does not come to rest, or does not answer
	RuleAudit         = "audit-broken"        // the audit record is not whole
	RuleOrphanProcess = "orphan-process"      // a process is left that belongs to no command
	RuleOrphanSandbox = "orphan-sandbox"      // a sandbox is left that belongs to no session
)

// Rules are all of them, in the order in which they are told.
func Rules() []string {
	return []string{
		RuleMessageLost, RuleMessageTwice, RuleExecTwice, RuleExecLost, RuleNoVerdict, RuleDeniedRan, RuleVoteLost,
		RuleDecidedTwice, RuleTooEarly, RulePostTwice, RuleProjection, RuleTurnFailed, RuleMoveLost, RuleWorkLost, RuleStuck, RuleAudit, RuleOrphanProcess, RuleOrphanSandbox,
	}
}

// Violation is one rule broken at one place.
type Violation struct {
	Rule   string `json:"rule"`
	Thread string `json:"thread,omitempty"`
	What   string `json:"what"`
}

// checker collects what it finds.
type checker struct {
	e     *evidence
	found []Violation
}

// check holds the evidence against the rules.
func check(e *evidence) []Violation {
	c := &checker{e: e}
	for _, id := range slices.Sorted(maps.Keys(e.Sessions)) {
		s := e.Sessions[id]
		if s.Silent != "" {
			c.broken(RuleStuck, id, "it does not answer: %s", s.Silent)
			continue
		}
		c.rest(s)
		c.posts(s)
		c.projection(s)
		c.audit(s)
		c.messages(s)
		c.execs(s)
		c.votes(s)
		c.early(s)
		c.moves(s)
		c.work(s)
	}
	c.leftovers()
	order := Rules()
	slices.SortStableFunc(c.found, func(a, b Violation) int {
		return cmp.Compare(slices.Index(order, a.Rule), slices.Index(order, b.Rule))
	})
	return c.found
}

func (c *checker) broken(rule, thread, format string, args ...any) {
	c.found = append(c.found, Violation{Rule: rule, Thread: thread, What: fmt.Sprintf(format, args...)})
}

func (s *session) destroyed() bool { return s.State.Header.Liveness == "destroyed" }

// rest: no turn runs, no message waits, nobody is asked.
func (c *checker) rest(s *session) {
	id := s.Thread.ID
	if t := s.State.Turn; t != nil {
		c.broken(RuleStuck, id, "turn %d is %s", t.Number, t.State)
	}
	if s.State.Queued > 0 && !s.destroyed() {
		c.broken(RuleStuck, id, "%d messages wait", s.State.Queued)
	}
	if n := len(s.State.Approvals); n > 0 && !s.destroyed() {
		c.broken(RuleStuck, id, "%d requests wait", n)
	}
}

// posts: every message of ours stands once.
func (c *checker) posts(s *session) {
	id := s.Thread.ID
	keys, answers, approvals := map[string]int{}, map[string]string{}, map[string]int{}
	cards := map[int]int{}
	for _, m := range s.Thread.Messages {
		if m.Key != "" {
			keys[m.Key]++
		}
		switch {
		case m.Kind == "answer" && answers[m.Text] != "":
			c.broken(RulePostTwice, id, "%s and %s are the same answer", answers[m.Text], m.Key)
		case m.Kind == "answer":
			answers[m.Text] = m.Key
		case m.Turn != nil:
			cards[m.Turn.Number]++
		case m.Approval != nil:
			approvals[m.Approval.ID]++
		}
	}
	for key, n := range keys {
		if n > 1 {
			c.broken(RulePostTwice, id, "%s stands there %d times", key, n)
		}
	}
	for n, times := range cards {
		if times > 1 {
			c.broken(RulePostTwice, id, "turn %d has %d cards", n, times)
		}
	}
	for request, times := range approvals {
		if times > 1 {
			c.broken(RulePostTwice, id, "request %s has %d cards", request, times)
		}
	}
}

// taken is how often the session took a message with the token.
func (s *session) taken(token string) int {
	n := 0
	for _, t := range s.History.Turns {
		for _, text := range t.Messages {
			n += strings.Count(text, "echo "+token+" ") / max(1, strings.Count(text, "echo "+token+" "))
		}
	}
	return n
}

// notTaken is what a receipt says of messages that came too late.
var notTaken = regexp.MustCompile(`Not taken any more: (\d+) message`)

// messages: each accepted message is in one turn, and stands in the thread once.
func (c *checker) messages(s *session) {
	id := s.Thread.ID
	stands := map[string]int{}
	late := 0
	for _, m := range s.Thread.Messages {
		stands[m.ID]++
		if f := notTaken.FindStringSubmatch(m.Text); f != nil && m.Kind == "notice" {
			late, _ = strconv.Atoi(f[1]) // it is digits
		}
		if m.Kind == "notice" && strings.HasPrefix(m.Text, "This session is destroyed; messages are not taken") {
			late++
		}
	}
	for _, m := range c.e.Said {
		if m.Thread != id {
			continue
		}
		if m.Accepted && stands[m.MessageID] != 1 {
			c.broken(RuleMessageLost, id, "message %s stands in its thread %d times", m.Token, stands[m.MessageID])
		}
		switch n := s.taken(m.Token); {
		case n > 1:
			c.broken(RuleMessageTwice, id, "message %s is in %d turns", m.Token, n)
		case n == 0 && m.Accepted && s.destroyed() && late > 0:
			late--
		case n == 0 && m.Accepted:
			c.broken(RuleMessageLost, id, "message %s, accepted at %s, is in no turn", m.Token, m.At.Format("15:04:05.000"))
		}
		if asked := s.calls(m.Token); len(asked) > len(m.Commands) {
			c.broken(RuleMessageTwice, id, "message %s has led to %d calls", m.Token, len(asked))
		}
	}
}

// calls are the tool calls with a token.
func (s *session) calls(token string) []toolCall {
	var out []toolCall
	for _, m := range s.Thread.of("turn") {
		for _, t := range m.ToolCalls {
			if strings.Contains(t.Command, "echo "+token+" ") {
				out = append(out, t)
			}
		}
	}
	return out
}

// leftovers: no process and no sandbox without an owner.
func (c *checker) leftovers() {
	for _, line := range c.e.Strays {
		c.broken(RuleOrphanProcess, "", "%.200s", line)
	}
	owner := map[box]bool{}
	for _, s := range c.e.Sessions {
		if sb := s.State.Sandbox; sb != nil && !s.destroyed() {
			owner[box{sb.Host, sb.ID, sb.Generation}] = true
		}
	}
	for _, b := range c.e.Boxes {
		if !owner[b] {
			c.broken(RuleOrphanSandbox, b.WorkflowID[strings.LastIndexByte(b.WorkflowID, '/')+1:],
				"generation %d on host %s", b.Generation, b.Host)
		}
	}
}
