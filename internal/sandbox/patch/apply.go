package patch

import (
	"fmt"
	"slices"
	"strings"
)

// edit replaces lines of the old text.
type edit struct {
	at, drop int // the first line, from 0, and how many go
	ins      []string
}

// Content returns what an added file holds: its lines, each with its end.
func (f File) Content() []byte {
	if len(f.added) == 0 {
		return nil
	}
	return []byte(strings.Join(f.added, "\n") + "\n")
}

// Apply returns what the file holds afterwards, and the change as people read
// it: a unified diff of the file's own lines. Lines that stay keep their bytes;
// new ones end as the file's first line does. Errors are [*Error]: they name the
// hunk, the line that it expects and what stands there.
func (f File) Apply(old []byte) (now []byte, diff string, err error) {
	t := textOf(old)
	var edits []edit
	cursor := 0
	for i, h := range f.hunks {
		here, next, err := t.place(h, cursor)
		if err != nil {
			return nil, "", refuse("%s, hunk %d of %d (line %d of the patch): %s", f.Path, i+1, len(f.hunks), h.line, err)
		}
		edits = append(edits, here...)
		cursor = next
	}
	return t.with(edits), t.diff(edits), nil
}

// text is a file's lines, without their ends.
type text struct {
	lines []string
	// whole says that the last line has an end; crlf that lines end in CR LF.
	whole, crlf bool
}

func textOf(data []byte) text {
	t := text{whole: true}
	if len(data) == 0 {
		return t
	}
	t.lines = strings.Split(string(data), "\n")
	if last := len(t.lines) - 1; t.lines[last] == "" {
		t.lines = t.lines[:last]
	} else {
		t.whole = false
	}
	t.crlf = strings.HasSuffix(t.lines[0], "\r")
	return t
}

// with returns the text after edits, which are in order.
func (t text) with(edits []edit) []byte {
	var out []string
	at := 0
	for _, e := range edits {
		out = append(out, t.lines[at:e.at]...)
		out = append(out, e.ins...)
		at = e.at + e.drop
	}
	out = append(out, t.lines[at:]...)
	if len(out) == 0 {
		return nil
	}
	data := strings.Join(out, "\n")
	if t.whole {
		data += "\n"
	}
	return []byte(data)
}

// place finds where a hunk belongs at or after the cursor, and what it changes
// there.
func (t text) place(h hunk, cursor int) (edits []edit, next int, err error) {
	for _, a := range h.anchors {
		if cursor, err = t.anchor(a, cursor); err != nil {
			return nil, 0, err
		}
	}
	var want []string // what must stand there
	for _, l := range h.lines {
		if l.op != '+' {
			want = append(want, l.text)
		}
	}
	at, ok := t.find(want, cursor, h.atEnd)
	switch {
	case len(want) == 0 && !h.atEnd && len(h.anchors) == 0 && len(t.lines) > 0:
		return nil, 0, fmt.Errorf("it only adds lines and does not say where; give the lines around them, or %q", eofMark)
	case !ok:
		return nil, 0, t.misfit(want, cursor, h.atEnd)
	}
	here := at
	for _, l := range h.lines {
		switch l.op {
		case ' ':
			here++
			continue
		case '+':
			text := l.text
			if t.crlf {
				text += "\r"
			}
			if n := len(edits); n > 0 && edits[n-1].at+edits[n-1].drop == here {
				edits[n-1].ins = append(edits[n-1].ins, text)
			} else {
				edits = append(edits, edit{at: here, ins: []string{text}})
			}
		case '-':
			if n := len(edits); n > 0 && edits[n-1].at+edits[n-1].drop == here {
				edits[n-1].drop++
			} else {
				edits = append(edits, edit{at: here, drop: 1})
			}
			here++
		}
	}
	return edits, here, nil
}

// anchor returns the line after the one that a header names. One that stands
// before the cursor has been passed.
func (t text) anchor(name string, cursor int) (int, error) {
	for _, like := range likenesses {
		if slices.ContainsFunc(t.lines[:cursor], func(l string) bool { return like(l, name) }) {
			return cursor, nil
		}
		for i := cursor; i < len(t.lines); i++ {
			if like(t.lines[i], name) {
				return i + 1, nil
			}
		}
	}
	return 0, fmt.Errorf("no line of the file is %q, which its \"@@\" header names", cut(name))
}

// likenesses are how lines are compared, the strictest first: models lose blanks.
var likenesses = []func(have, want string) bool{
	func(have, want string) bool { return strings.TrimSuffix(have, "\r") == want },
	func(have, want string) bool {
		return strings.TrimRight(have, " \t\r") == strings.TrimRight(want, " \t\r")
	},
	func(have, want string) bool { return strings.TrimSpace(have) == strings.TrimSpace(want) },
}

// find returns the first place at or after from where all the lines stand.
func (t text) find(want []string, from int, atEnd bool) (int, bool) {
	last := len(t.lines) - len(want)
	if atEnd {
		from = max(from, last)
	}
	for _, like := range likenesses {
		for i := from; i <= last; i++ {
			if t.matched(want, i, like) == len(want) {
				return i, true
			}
		}
	}
	return 0, false
}

// matched counts how many of the lines stand at at, from the first on.
func (t text) matched(want []string, at int, like func(have, want string) bool) int {
	n := 0
	for n < len(want) && at+n < len(t.lines) && like(t.lines[at+n], want[n]) {
		n++
	}
	return n
}

// misfit says what does not fit: the first line of the hunk that is not where
// the ones before it are.
func (t text) misfit(want []string, from int, atEnd bool) error {
	loose := likenesses[len(likenesses)-1]
	if atEnd {
		if at, ok := t.find(want, from, false); ok {
			return fmt.Errorf("it stands at line %d, not at the end of the file as %q says", at+1, eofMark)
		}
	}
	if at, ok := t.find(want, 0, false); ok {
		return fmt.Errorf("it stands at line %d, before the hunk or header that comes first in the patch; hunks follow the file's order", at+1)
	}
	best, where := 0, -1
	for i := from; i < len(t.lines); i++ {
		if n := t.matched(want, i, loose); n > best {
			best, where = n, i
		}
	}
	switch {
	case where < 0:
		return fmt.Errorf("it does not fit: none of the file's lines from line %d on (it has %d) is its first line, %q", from+1, len(t.lines), cut(want[0]))
	case where+best == len(t.lines):
		return fmt.Errorf("it does not fit: its first %d lines stand at line %d, then it expects %q, but the file ends", best, where+1, cut(want[best]))
	}
	return fmt.Errorf("it does not fit: at line %d of the file it expects %q, but found %q", where+best+1, cut(want[best]), cut(strings.TrimSuffix(t.lines[where+best], "\r")))
}

// around is how many lines a diff shows around a change.
const around = 3

// diff is a unified diff of the edits.
func (t text) diff(edits []edit) string {
	var b strings.Builder
	grown := 0 // lines more than before, so far
	for len(edits) > 0 {
		n := 1
		for n < len(edits) && edits[n].at-(edits[n-1].at+edits[n-1].drop) <= 2*around {
			n++
		}
		group := edits[:n]
		edits = edits[n:]
		from := max(0, group[0].at-around)
		to := min(len(t.lines), group[n-1].at+group[n-1].drop+around)
		more := 0
		for _, e := range group {
			more += len(e.ins) - e.drop
		}
		fmt.Fprintf(&b, "@@ -%s +%s @@\n", span(from, to-from), span(from+grown, to-from+more))
		grown += more
		at := from
		write := func(op string, lines []string) {
			for _, l := range lines {
				b.WriteString(op + strings.TrimSuffix(l, "\r") + "\n")
			}
		}
		for _, e := range group {
			write(" ", t.lines[at:e.at])
			write("-", t.lines[e.at:e.at+e.drop])
			write("+", e.ins)
			at = e.at + e.drop
		}
		write(" ", t.lines[at:to])
	}
	return b.String()
}

func span(at, n int) string {
	if n == 0 {
		return fmt.Sprintf("%d,0", at)
	}
	if n == 1 {
		return fmt.Sprint(at + 1)
	}
	return fmt.Sprintf("%d,%d", at+1, n)
}

// Added is the diff of a file that is made.
func (f File) Added() string {
	var b strings.Builder
	for _, l := range f.added {
		b.WriteString("+" + l + "\n")
	}
	return b.String()
}
