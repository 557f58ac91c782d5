package sandbox

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/countersign/countersign/internal/mask"
)

// ansi is what terminals take as commands.
var ansi = regexp.MustCompile(`^\x1b(?:\[([0-?]*)[ -/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-Z\\^-~])`)

// maxPartial is how long the beginning of such a command may be that is waited for.
const maxPartial = 64

// screen is output as a terminal shows it, as text: lines as they last looked,
// without colours. It knows what programs do within a line, and nothing of those that
// draw a whole screen.
func screen(s string) string {
	var out strings.Builder
	var l screenLine
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == '\x1b':
			if m := ansi.FindStringSubmatch(s); m != nil {
				n = len(m[0])
				l.command(m[2], m[1])
			}
		case r == '\n':
			out.WriteString(string(l.cells) + "\n")
			l = screenLine{}
		case r == '\r':
			l.at = 0
		case r == '\b':
			l.at = max(0, l.at-1)
		case r == 0:
			l.put('␀')
		case r >= ' ' && r < 0x7f || r >= 0xa0 || r == '\t':
			l.put(r)
		}
		s = s[n:]
	}
	return out.String() + string(l.cells)
}

// screenLine is a line and the place in it that is written to next.
type screenLine struct {
	cells []rune
	at    int
}

func (l *screenLine) put(r rune) {
	if l.at < len(l.cells) {
		l.cells[l.at] = r
	} else {
		l.cells = append(l.cells, r)
	}
	l.at++
}

// command does what is about this line, and never goes past its end.
func (l *screenLine) command(name, args string) {
	n, err := strconv.Atoi(args)
	switch {
	case name == "K" && args == "2":
		l.cells = []rune(strings.Repeat(" ", l.at))
	case name == "K" && (args == "" || args == "0"):
		l.cells = l.cells[:min(l.at, len(l.cells))]
	case name == "P":
		end := min(len(l.cells), l.at+steps(n, err))
		l.cells = append(l.cells[:min(l.at, end)], l.cells[end:]...)
	case name == "D":
		l.at = max(0, l.at-steps(n, err))
	case name == "C":
		l.at = min(len(l.cells), l.at+steps(n, err))
	case name == "G" && err == nil:
		l.at = min(len(l.cells), max(0, n-1))
	}
}

// steps is a count that is 1 where none is given, and no more than a line may have.
func steps(n int, err error) int {
	if err != nil || n < 1 {
		return 1
	}
	return min(n, 1<<16)
}

// partial is how many bytes at the end of output are the beginning of a command
// of which more is to come.
func partial(s string) int {
	i := strings.LastIndexByte(s, '\x1b')
	if i < 0 || len(s)-i > maxPartial {
		return 0
	}
	m := ansi.FindString(s[i:])
	titled := strings.HasPrefix(m, "\x1b]") && i+len(m) == len(s) && !strings.HasSuffix(m, "\a") // its end is to come
	if m != "" && !titled {
		return 0
	}
	return len(s) - i
}

// cutEnd takes bytes off the end of standard output.
func (o *Output) cutEnd(n int) {
	if o.StdoutTail != "" {
		o.StdoutTail = o.StdoutTail[:len(o.StdoutTail)-n]
		return
	}
	o.Stdout = o.Stdout[:len(o.Stdout)-n]
}

// onTerminal tells whether the command that the call is about has a terminal.
func (r *run) onTerminal(ctx context.Context) bool {
	call := r.in.Call
	if r.in.Running != nil {
		call = r.in.Running.Call
	}
	args, err := r.a.shellArgs(ctx, call)
	return err == nil && args.TTY
}

// onScreen makes what the model reads of a terminal's output: as it looks, and
// without secrets that only show there.
func (o *Output) onScreen(cover *mask.Masker) {
	was := len(o.Stdout) + len(o.StdoutTail)
	look := func(s string) string {
		text := []byte(screen(s))
		cover.Hide(text)
		return string(text)
	}
	o.Stdout, o.StdoutTail = look(o.Stdout), look(o.StdoutTail)
	o.StdoutBytes += int64(len(o.Stdout) + len(o.StdoutTail) - was)
}
