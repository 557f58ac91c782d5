package offline

import (
	"slices"
	"strings"
)

// step is one tool call of a plan: a command or, with talk, something for the
// command that the last interactive block began.
type step struct {
	command string
	// yield is yield_time_ms, 0 for none.
	yield int
	tty   bool
	talk  bool
	// chars are what is sent; with talk and none it reads on. session is set where
	// the block names it.
	chars   string
	session string
}

// steps returns what the backticks of one message ask for, in order. Each group
// is one response's calls: a group of several comes from a fenced block
// tagged "parallel", one call a line. Inline code follows CommonMark: a run of
// backticks is closed by the next run of the same length in the same paragraph,
// line breaks count as spaces, one space at both ends is taken off, and a
// backslash before a run outside code makes its first backtick plain. A block
// tagged "interactive" is read by [interactive]. A fenced block without a tag is
// one command, its whole body. Differently from
// CommonMark a fence tagged "parallel" may also open behind text, as people type
// it in chats. Lists and quotes are not looked at. It takes linear time.
func steps(text string) [][]step {
	var groups [][]step
	var paragraph []string
	flush := func() {
		for _, code := range spans(strings.Join(paragraph, "\n")) {
			groups = append(groups, []step{{command: code}})
		}
		paragraph = nil
	}
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for len(lines) > 0 {
		line := lines[0]
		lines = lines[1:]
		if strings.TrimSpace(line) == "" {
			flush()
			continue
		}
		f, before, ok := openFence(line)
		if !ok {
			paragraph = append(paragraph, line)
			continue
		}
		if before != "" {
			paragraph = append(paragraph, before)
		}
		flush()
		var body []string
		body, lines = f.read(lines)
		groups = f.add(groups, body)
	}
	flush()
	return groups
}

// fence is an opened fenced code block.
type fence struct {
	run      string // what must close it, at least
	parallel bool
	info     []string
	// behind says that it opened behind text; then it may close behind text too.
	behind bool
}

// openFence tells whether a fenced block opens in line, and what text stands
// before it.
func openFence(line string) (f fence, before string, ok bool) {
	at := strings.TrimLeft(line, " ")
	n := runLength(at)
	if n >= 3 && len(line)-len(at) <= 3 && (at[0] == '~' || !strings.Contains(at[n:], "`")) {
		return fence{run: at[:n], parallel: tagged(at[n:]), info: strings.Fields(at[n:])}, "", true
	}
	last := strings.LastIndexByte(line, '`')
	if last < 0 || !tagged(line[last+1:]) {
		return fence{}, "", false
	}
	start := len(strings.TrimRight(line[:last+1], "`"))
	if last+1-start < 3 {
		return fence{}, "", false
	}
	return fence{run: line[start : last+1], parallel: true, behind: true}, line[:start], true
}

func tagged(info string) bool {
	return slices.ContainsFunc(strings.Fields(info), func(w string) bool { return strings.EqualFold(w, "parallel") })
}

// read takes the block's body from lines and returns what follows it. Without
// an end the block goes to the end of the message.
func (f fence) read(lines []string) (body, rest []string) {
	for i, line := range lines {
		trimmed := strings.TrimSpace(line)
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if indent <= 3 && strings.HasPrefix(trimmed, f.run) && strings.Trim(trimmed, f.run[:1]) == "" {
			return lines[:i], lines[i+1:]
		}
		if before, after, found := strings.Cut(line, f.run); found && f.behind {
			body = append(slices.Clone(lines[:i]), before)
			lines[i] = strings.TrimLeft(after, f.run[:1])
			return body, lines[i:]
		}
	}
	return lines, nil
}

func (f fence) add(groups [][]step, body []string) [][]step {
	if slices.Contains(f.info, "interactive") {
		return append(groups, interactive(f.info, body)...)
	}
	if !f.parallel {
		if whole := strings.Join(body, "\n"); strings.TrimSpace(whole) != "" {
			groups = append(groups, []step{{command: whole}})
		}
		return groups
	}
	var calls []step
	for _, line := range body {
		if line = strings.TrimSpace(line); line != "" {
			calls = append(calls, step{command: line})
		}
	}
	if len(calls) == 0 {
		return groups
	}
	return append(groups, calls)
}

// spans returns the inline code spans of a paragraph.
func spans(text string) []string {
	runs := runsByLength(text)
	var found []string
	for i := 0; i < len(text); {
		switch text[i] {
		case '\\':
			i += 2
			continue
		case '`':
		default:
			i++
			continue
		}
		n := len(text[i:]) - len(strings.TrimLeft(text[i:], "`"))
		i += n
		closers := runs[n]
		k, _ := slices.BinarySearch(closers, i)
		if k == len(closers) {
			continue
		}
		if code := trimSpan(text[i:closers[k]]); strings.TrimSpace(code) != "" {
			found = append(found, code)
		}
		i = closers[k] + n
	}
	return found
}

// runsByLength returns where runs of backticks begin, by their length.
func runsByLength(text string) map[int][]int {
	runs := map[int][]int{}
	for i := 0; i < len(text); i++ {
		start := i
		for i < len(text) && text[i] == '`' {
			i++
		}
		if n := i - start; n > 0 {
			runs[n] = append(runs[n], start)
		}
	}
	return runs
}

func runLength(s string) int {
	if s == "" || (s[0] != '`' && s[0] != '~') {
		return 0
	}
	return len(s) - len(strings.TrimLeft(s, s[:1]))
}

// trimSpan does to a code span's content what CommonMark says.
func trimSpan(code string) string {
	code = strings.ReplaceAll(code, "\n", " ")
	if len(code) > 2 && code[0] == ' ' && code[len(code)-1] == ' ' && strings.Trim(code, " ") != "" {
		return code[1 : len(code)-1]
	}
	return code
}
