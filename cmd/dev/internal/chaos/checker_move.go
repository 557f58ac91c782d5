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
	var last moved
	may := map[string]bool{} // by what was asked for after it, and may have been accepted
	for _, m := range slices.SortedFunc(slices.Values(c.e.Moves), func(a, b moved) int { return a.At.Compare(b.At) }) {
		switch {
		case m.Thread != s.Thread.ID:
		case m.Unsure:
			may[m.To] = true
		default:
			last, may = m, map[string]bool{}
		}
	}
	if last.To == "" || s.destroyed() {
		return
	}
	told := slices.ContainsFunc(s.Thread.Messages, func(m message) bool { return m.Kind == "notice" && stays.MatchString(m.Text) })
	if is := s.State.Header.Backend; is != last.To && !may[is] && !told {
		c.broken(RuleMoveLost, s.Thread.ID, "the move to %s was accepted; the session is on %s and its thread does not say why", last.To, is)
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
