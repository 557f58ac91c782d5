// Package evidence says what a held command would lose, as far as that is cheap
// to find out: what a glob expands to, how much a deletion takes, which changes
// or commits git would throw away or publish.
//
// It plans from the command's text alone, and leaves out what it cannot read
// with certainty: what people see is a help for deciding, never what is bound.
// The script that looks runs nothing of the workspace: only find, du, tr, wc and
// git's plumbing, and git only where its configuration names no program.
package evidence

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// maxSteps and maxPatterns bound what one command is looked at for.
	maxSteps    = 3
	maxPatterns = 3
	// maxNames is how many names of a list are shown, and maxName how long each
	// may be, in characters.
	maxNames = 3
	maxName  = 60
	// MaxMatches is the most paths that a glob is expanded to.
	MaxMatches = 1000
	// maxScript keeps a script within what every backend can start, in bytes.
	maxScript = 64 << 10
)

// Plan is what is worth looking at for one command.
type Plan struct {
	steps []step
	// globs are the patterns in the order of the command.
	globs []glob
}

// glob is a pattern as it is written and as an absolute one.
type glob struct{ shown, pattern string }

// step is one look. Its output is one line of words.
type step interface {
	// script is shell text that prints the line, without a line end.
	script(found map[string][]string) string
	// sentence reads the line; empty when it says nothing.
	sentence(words []string, alone bool) string
}

// Empty reports whether nothing is worth looking at.
func (p Plan) Empty() bool { return len(p.steps) == 0 && len(p.globs) == 0 }

// Patterns are the absolute patterns whose expansion the plan needs.
func (p Plan) Patterns() []string {
	var out []string
	for _, g := range p.globs {
		if !slices.Contains(out, g.pattern) {
			out = append(out, g.pattern)
		}
	}
	return out
}

// Script looks; found holds the expansion of each pattern that is known. It is
// empty when there is nothing to run. Each step ends its line at once, so that
// what a time limit cuts off is only the rest.
func (p Plan) Script(found map[string][]string) string {
	var b strings.Builder
	for i, s := range p.steps {
		if text := s.script(found); text != "" && b.Len()+len(text) < maxScript {
			fmt.Fprintf(&b, "echo %d $( %s )\n", i, text)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return prelude + b.String()
}

// prelude is for scripts that print words only.
const prelude = "exec 2>/dev/null\nset -f\n" + Git

// Git is the beginning of a script that looks at repositories, whoever wrote their
// configuration: with g git changes nothing and talks to nobody, and quiet fails
// where the configuration names a program that a look would run, be it a filter, a
// driver or a monitor. Submodules have a configuration of their own: g must be told
// to leave them alone.
const Git = `export LC_ALL=C GIT_OPTIONAL_LOCKS=0 GIT_NO_LAZY_FETCH=1 GIT_ALLOW_PROTOCOL=none GIT_TERMINAL_PROMPT=0
g() { git --no-pager -c core.fsmonitor=false -c core.hooksPath=/dev/null -c core.untrackedCache=false -c diff.autoRefreshIndex=false -c safe.directory='*' "$@"; }
quiet() {
	g rev-parse --is-inside-work-tree >/dev/null || return 1
	! g config --name-only --get-regexp '^(filter\..*\.(clean|smudge|process)|diff\..*\.(command|textconv)|diff\.external|extensions\.partialclone|remote\..*\.promisor)$' >/dev/null
}
`

// Sentences reads what a script printed, which may be cut off anywhere.
func (p Plan) Sentences(output string, found map[string][]string) []string {
	var out []string
	for _, g := range p.globs {
		if list, ok := found[g.pattern]; ok {
			out = append(out, expansion(g, list))
		}
	}
	lines := map[string]string{}
	for line := range strings.Lines(output) {
		if whole, ok := strings.CutSuffix(line, "\n"); ok {
			n, rest, _ := strings.Cut(whole, " ")
			lines[n] = rest
		}
	}
	for i, s := range p.steps {
		line, ok := lines[fmt.Sprint(i)]
		if !ok {
			continue
		}
		if text := s.sentence(strings.Fields(line), len(p.steps) == 1); text != "" {
			out = append(out, text)
		}
	}
	return out
}

// expansion says what a glob is now.
func expansion(g glob, list []string) string {
	if len(list) == 0 {
		return name(g.shown) + " matches nothing"
	}
	if len(list) > MaxMatches {
		return fmt.Sprintf("%s matches more than %d", name(g.shown), MaxMatches)
	}
	// Names are shown from where the pattern's own words end.
	cut := strings.LastIndexByte(g.pattern[:strings.IndexAny(g.pattern, globChars)], '/') + 1
	var names []string
	for _, p := range list[:min(len(list), maxNames)] {
		names = append(names, name(p[min(cut, len(p)):]))
	}
	return name(g.shown) + " is " + and(names, len(list))
}

// and joins the first names of a list of n.
func and(names []string, n int) string {
	switch more := n - len(names); {
	case more > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	case len(names) < 2:
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// name shows a name from the workspace as code, in a form that cannot be taken
// for the sentence around it or for a chat's markup.
func name(s string) string {
	if r := []rune(s); len(r) > maxName {
		s = string(r[:maxName-1]) + "…"
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '`' || r == '\\':
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029':
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return "`" + strings.ToValidUTF8(b.String(), "�") + "`"
}

// quote makes one word of s for any shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func quoted(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = quote(w)
	}
	return strings.Join(out, " ")
}

// size shows bytes in MB of 10^6.
func size(bytes int64) string {
	mb := float64(bytes) / 1e6
	switch {
	case mb < 0.1:
		return "under 0.1 MB"
	case mb < 9.95:
		return fmt.Sprintf("%.1f MB", mb)
	}
	return fmt.Sprintf("%.0f MB", mb)
}

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
