package evidence

import (
	"fmt"
	"strconv"
	"strings"
)

// remove is a deletion: how many files and how much.
type remove struct {
	shown    []string
	operands []string // absolute paths
	globs    []string // absolute patterns
}

// remove plans for rm. One operand that cannot be read leaves all of it out.
func (p *planner) remove(args []word, cwd string) {
	s := remove{}
	options := true
	for _, w := range args {
		switch {
		case options && w.text == "--":
			options = false
			continue
		case options && strings.HasPrefix(w.text, "-") && len(w.text) > 1:
			continue
		case w.glob:
			abs := p.pattern(w.text, cwd)
			if abs == "" {
				return
			}
			s.globs = append(s.globs, abs)
		default:
			abs := absolute(w.text, cwd)
			if abs == "" || w.text == "" {
				return
			}
			s.operands = append(s.operands, abs)
		}
		s.shown = append(s.shown, w.text)
	}
	if len(s.shown) > 0 && len(p.plan.steps) < maxSteps {
		p.plan.steps = append(p.plan.steps, s)
	}
}

// script counts what is no directory and adds up the blocks. Links are not
// followed, as rm does not follow them.
func (s remove) script(found map[string][]string) string {
	paths := s.operands
	for _, g := range s.globs {
		list, ok := found[g]
		if !ok || len(list) > MaxMatches {
			return ""
		}
		paths = append(paths[:len(paths):len(paths)], list...)
	}
	if len(paths) == 0 {
		return ""
	}
	return fmt.Sprintf(`set -- %s; find "$@" ! -type d -print0 | tr -dc '\000' | wc -c; du -sck "$@" | tail -n 1 | cut -f1`, quoted(paths))
}

func (s remove) sentence(words []string, alone bool) string {
	if len(words) < 2 {
		return ""
	}
	files, err1 := strconv.ParseInt(words[0], 10, 64)
	kilobytes, err2 := strconv.ParseInt(words[1], 10, 64)
	if err1 != nil || err2 != nil {
		return ""
	}
	text := count(files, "file", "files") + ", " + size(kilobytes<<10)
	if files == 0 && kilobytes == 0 {
		text = "nothing is there"
	}
	if alone {
		return text
	}
	var names []string
	for _, n := range s.shown[:min(len(s.shown), maxNames)] {
		names = append(names, name(n))
	}
	return and(names, len(s.shown)) + ": " + text
}
