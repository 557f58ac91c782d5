package chaos

import (
	"regexp"
	"slices"
)

// stays finds what a session says of a move that it could not or may not make.
var stays = regexp.MustCompile(`^The session stays on `)

// moves: the last switch that was accepted has brought the session there, or the
// thread says why it has not.
func (c *checker) moves(s *session) {
	last := slices.IndexFunc(c.e.Moves, func(m moved) bool { return m.Thread == s.Thread.ID })
	if last < 0 || s.destroyed() {
		return
	}
	for i, m := range c.e.Moves {
		if m.Thread == s.Thread.ID && m.At.After(c.e.Moves[last].At) {
			last = i
		}
	}
	told := slices.ContainsFunc(s.Thread.Messages, func(m message) bool { return m.Kind == "notice" && stays.MatchString(m.Text) })
	if to := c.e.Moves[last].To; s.State.Header.Backend != to && !told {
		c.broken(RuleMoveLost, s.Thread.ID, "the move to %s was accepted; the session is on %s and its thread does not say why", to, s.State.Header.Backend)
	}
}

// work: whatever a command wrote in a sandbox is in those that came after it.
func (c *checker) work(s *session) {
	sb := s.State.Sandbox
	if sb == nil || s.destroyed() {
		return
	}
	var now map[line]bool
	for _, w := range c.e.Journals {
		if w.WorkflowID == sb.ID && w.Generation == sb.Generation {
			now = map[line]bool{}
			for _, l := range w.Lines {
				now[l] = true
			}
		}
	}
	if now == nil {
		return // it was not witnessed
	}
	for _, w := range c.e.Journals {
		if w.WorkflowID != sb.ID || w.Generation >= sb.Generation {
			continue
		}
		for _, l := range w.Lines {
			if !now[l] {
				c.broken(RuleWorkLost, s.Thread.ID, "%s %s was written in generation %d and is not in generation %d", l.Token, l.Word, w.Generation, sb.Generation)
			}
		}
	}
}
