package policy

import (
	"fmt"
	"strings"
)

// rule changes the tier of the commands that it matches.
type rule struct {
	id       string
	file     string
	line     int
	command  []string
	sub      []string
	flags    []string
	path     []string
	host     []string
	backend  []string
	isolated *bool
	argv     []string
	tool     []string // of servers, "mcp:server/tool"; then nothing else is set
	tier     Tier
	reason   string
}

// because is the rule's reason for people.
func (r *rule) because() string {
	if r.reason == "" {
		return fmt.Sprintf("the policy's rule %s", r.id)
	}
	return fmt.Sprintf("%s (rule %s)", r.reason, r.id)
}

// applyRules raises or lowers a command once it has been judged. m is where the
// judgement stood before.
func (j *judge) applyRules(c *call, m mark) {
	raised := false
	var lower *rule
	for _, r := range j.p.rules {
		if !r.matches(c, j.touched[min(m.touched, len(j.touched)):]) {
			continue
		}
		switch {
		case r.argv != nil && r.tier < j.cur:
			if lower == nil || r.tier < lower.tier {
				lower = r
			}
		case r.tier > j.cur:
			j.raise(j.seg, r.tier, fmt.Sprintf("%s: %s", c.by(), r.because()))
			raised = true
		}
	}
	if lower == nil || raised || j.cur >= Forbidden {
		return
	}
	j.tier, j.cur = m.tier, Safe
	j.reasons = j.reasons[:m.reasons]
	j.raise(j.seg, lower.tier, fmt.Sprintf("%s %s", c.by(), lower.because()))
}

// touch records a path that the command line names, and raises for the rules
// that are about paths alone.
func (s *scope) touch(p string) {
	j := s.j
	j.paths = appendOnce(j.paths, p)
	if len(j.touched) < 4*maxListed {
		j.touched = append(j.touched, p)
	}
	for _, r := range j.p.rules {
		if len(r.path) > 0 && len(r.command) == 0 && r.argv == nil && len(r.host) == 0 && r.envMatches(j.env) && matchesAny(r.path, p) {
			s.raise(r.tier, "`%s`: %s", s.rel(p), r.because())
		}
	}
}

func (r *rule) envMatches(env Env) bool {
	if len(r.backend) > 0 && !in(r.backend, env.Backend) {
		return false
	}
	return r.isolated == nil || *r.isolated == env.Isolated
}

func (r *rule) matches(c *call, touched []string) bool {
	if !r.envMatches(c.s.j.env) || c.s.remote != "" && r.argv != nil {
		return false
	}
	if r.argv != nil {
		return r.shape(c)
	}
	if len(r.command) > 0 && !in(r.command, c.program0) {
		return false
	}
	if len(r.sub) > 0 && !in(r.sub, c.subcommandName()) {
		return false
	}
	for _, f := range r.flags {
		if !c.given(f) {
			return false
		}
	}
	if len(r.path) > 0 {
		ok := false
		for _, p := range touched {
			ok = ok || matchesAny(r.path, p)
		}
		if !ok {
			return false
		}
	}
	if len(r.host) > 0 {
		ok := false
		for _, h := range c.hosts {
			ok = ok || matchesAny(r.host, h)
		}
		return ok
	}
	return len(r.command) > 0 || len(r.path) == 0 || len(r.host) > 0
}

func matchesAny(pats []string, s string) bool {
	for _, p := range pats {
		if globMatch(p, s, true) {
			return true
		}
	}
	return false
}

// subcommandName is the first word that is no option.
func (c *call) subcommandName() string {
	if c.sub != "" {
		return c.sub
	}
	for _, w := range c.words {
		if w.lit && !strings.HasPrefix(w.text, "-") {
			return w.text
		}
	}
	return ""
}

// given reports whether an option stands on the command line: by itself, with
// a value, abbreviated, or in a cluster.
func (c *call) given(flag string) bool {
	for _, w := range c.words {
		t := w.text
		if !w.lit {
			t = w.prefix
		}
		switch {
		case t == flag, strings.HasPrefix(t, flag+"="):
			return true
		case len(flag) == 2 && len(t) > 2 && t[0] == '-' && t[1] != '-' && strings.Contains(t[1:], flag[1:]):
			return true
		case strings.HasPrefix(flag, "--") && strings.HasPrefix(t, "--") && len(t) > 3 && strings.HasPrefix(flag, strings.SplitN(t, "=", 2)[0]):
			return true
		}
	}
	return false
}

// shape reports whether a command's words are exactly a rule's.
func (r *rule) shape(c *call) bool {
	if c.program0 != r.argv[0] || c.byPath {
		return false
	}
	words := c.words
	for _, a := range r.argv[1:] {
		if a == "{paths}" {
			for _, w := range words {
				if !c.plainPath(w) {
					return false
				}
			}
			return true
		}
		if len(words) == 0 {
			return false
		}
		w := words[0]
		words = words[1:]
		switch a {
		case "{path}":
			if !c.plainPath(w) {
				return false
			}
		case "{word}":
			if !plainWord(w) {
				return false
			}
		default:
			if !w.is(a) {
				return false
			}
		}
	}
	return len(words) == 0
}

// plainPath reports whether a word is one literal path in the workspace that is
// not protected. The workspace itself counts, unless it would be deleted.
func (c *call) plainPath(w word) bool {
	if !w.lit || w.glob || w.text == "" || w.text[0] == '-' {
		return false
	}
	paths := c.s.resolve(w.text)
	for _, p := range paths {
		pl := c.s.placeOf(p)
		if pl != placeWorkspace && (pl != placeRoot || in([]string{"rm", "rmdir", "mv", "chmod", "shred"}, c.program0)) {
			return false
		}
	}
	return len(paths) > 0
}

func plainWord(w word) bool {
	if !w.lit || w.glob || w.text == "" || w.text[0] == '-' || strings.Contains(w.text, "..") {
		return false
	}
	for i := 0; i < len(w.text); i++ {
		if b := w.text[i]; !isWordByte(b) && strings.IndexByte("./:@%+,=-", b) < 0 {
			return false
		}
	}
	return true
}
