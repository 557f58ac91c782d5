// Package tooloutput writes what a tool call gave as the text that the model
// reads, and reads that text back.
//
// The text is for a model first: plain header lines, then one section a stream.
// A section says how many bytes it holds, so that output which looks like a
// header cannot be mistaken for one.
//
//	exit code: 1
//	note: the file has changed since
//	stdout (6 bytes):
//	hello
//
// A call that did not run, or not to its end, begins with its state instead:
//
//	state: denied — @grace: not during the freeze
//
// One that goes on in the background is named:
//
//	state: running
//	session: 1.2
package tooloutput

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxStreamBytes is how much of each stream reaches the model, in bytes: half
// from its beginning, half from its end. It keeps one call's output below some
// twenty thousand tokens; the whole log is in the blob store.
const MaxStreamBytes = 32 << 10 // 32 KiB

// StateCompleted is the state of a call that ran to its end; it is the same
// word as workflows.CallCompleted and the only one that this package knows.
const StateCompleted = "completed"

// maxNoteBytes bounds reasons and remarks, which people type.
const maxNoteBytes = 4 << 10

// Output is what a tool call gave.
type Output struct {
	// State is a tool call's state, or "changed"; empty means completed.
	State    string
	ExitCode *int
	// TimedOut says that the command was ended because its time was over.
	TimedOut bool
	// Session names a command that goes on in the background.
	Session string
	// Note is a remark or reason, one line; line breaks become spaces.
	Note string
	// Stdout and Stderr are the streams, or their beginnings where the whole
	// was longer than what the caller kept; they need not be valid UTF-8.
	Stdout string
	Stderr string
	// StdoutTail and StderrTail are the ends of streams whose middle the caller
	// has left out already.
	StdoutTail string
	StderrTail string
	// StdoutBytes and StderrBytes are the lengths of the whole streams; 0 means
	// that what is given is all.
	StdoutBytes int64
	StderrBytes int64
}

// Format writes o. The result is valid UTF-8 without NUL bytes.
func Format(o Output) string {
	var b strings.Builder
	state := o.State
	if state == "" {
		state = StateCompleted
	}
	note := oneLine(o.Note)
	switch {
	case state != StateCompleted:
		b.WriteString("state: " + oneLine(state))
		if note != "" {
			b.WriteString(" — " + note)
		}
		b.WriteByte('\n')
		if o.ExitCode != nil {
			fmt.Fprintf(&b, "exit code: %d\n", *o.ExitCode)
		}
	case o.ExitCode != nil:
		fmt.Fprintf(&b, "exit code: %d\n", *o.ExitCode)
	default:
		b.WriteString("state: " + StateCompleted + "\n")
	}
	if o.Session != "" {
		b.WriteString("session: " + oneLine(o.Session) + "\n")
	}
	if o.TimedOut {
		b.WriteString("timed out: yes\n")
	}
	if note != "" && state == StateCompleted {
		b.WriteString("note: " + note + "\n")
	}
	writeStream(&b, "stdout", o.Stdout, o.StdoutTail, o.StdoutBytes)
	writeStream(&b, "stderr", o.Stderr, o.StderrTail, o.StderrBytes)
	return b.String()
}

const (
	changedBy  = "changed by: "
	ranInstead = "ran instead: "
)

// Changed are the lines that say who changed a command before it ran, and to
// what. They go before those of [Format].
func Changed(by, ran string) string {
	return changedBy + oneLine(by) + "\n" + ranInstead + strconv.Quote(clean(ran)) + "\n"
}

// CutChanged takes the lines of [Changed] off a text; by is empty where it does
// not begin with them.
func CutChanged(text string) (by, ran, rest string) {
	first, after, _ := strings.Cut(text, "\n")
	second, rest, _ := strings.Cut(after, "\n")
	by, ok1 := strings.CutPrefix(first, changedBy)
	quoted, ok2 := strings.CutPrefix(second, ranInstead)
	ran, err := strconv.Unquote(quoted)
	if !ok1 || !ok2 || err != nil {
		return "", "", text
	}
	return by, ran, rest
}

// writeStream adds one section; an empty stream gets none.
func writeStream(b *strings.Builder, name, head, tail string, total int64) {
	total = max(total, int64(len(head))+int64(len(tail)))
	if total == 0 {
		return
	}
	shown := fit(head, tail, total)
	if int64(len(shown)) == total {
		fmt.Fprintf(b, "%s (%d bytes):\n", name, total)
	} else {
		fmt.Fprintf(b, "%s (%d bytes, %d shown):\n", name, total, len(shown))
	}
	b.WriteString(shown)
	b.WriteByte('\n')
}

// fit returns a stream of total bytes, of which head and tail are known, as
// text of about MaxStreamBytes.
func fit(head, tail string, total int64) string {
	headRoom, tailRoom := MaxStreamBytes/2, MaxStreamBytes/2
	switch gap := total - int64(len(head)) - int64(len(tail)); {
	case gap == 0 && total <= MaxStreamBytes:
		return clean(head + tail)
	case gap == 0:
		head += tail
		tail = head[headRoom:]
	case tail == "":
		headRoom, tailRoom = MaxStreamBytes, 0
	}
	head = head[:runeBorder(head, min(len(head), headRoom))]
	tail = trimPartialRune(tail[max(0, len(tail)-tailRoom):])
	left := total - int64(len(head)) - int64(len(tail))
	return clean(head) + fmt.Sprintf("\n[… %d bytes left out …]\n", left) + clean(tail)
}

// runeBorder returns n, or less where a rune of s would be split.
func runeBorder(s string, n int) int {
	for i := n - 1; i >= 0 && i > n-utf8.UTFMax; i-- {
		if !utf8.RuneStart(s[i]) {
			continue
		}
		if _, size := utf8.DecodeRuneInString(s[i:]); i+size > n {
			return i
		}
		break
	}
	return n
}

// trimPartialRune drops the rest of a rune that began before s.
func trimPartialRune(s string) string {
	for i := 0; i < len(s) && i < utf8.UTFMax; i++ {
		if utf8.RuneStart(s[i]) {
			return s[i:]
		}
	}
	return s
}

func clean(s string) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	return strings.ReplaceAll(s, "\x00", "␀")
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(clean(s)), " ")
	if len(s) > maxNoteBytes {
		s = s[:runeBorder(s, maxNoteBytes)] + " …"
	}
	return s
}

// Parse reads what [Format] wrote; the streams are as shown, cuts included, and
// the byte counts those of the whole. Text of another form is returned as
// Stdout of a completed call, with ok false.
func Parse(text string) (o Output, ok bool) {
	rest := text
	for rest != "" {
		line, after, _ := strings.Cut(rest, "\n")
		if name, total, shown, is := sectionHeader(line); is && shown <= len(after) {
			body := after[:shown]
			rest = strings.TrimPrefix(after[shown:], "\n")
			if name == "stdout" {
				o.Stdout, o.StdoutBytes = body, total
			} else {
				o.Stderr, o.StderrBytes = body, total
			}
			ok = true
			continue
		}
		if !o.header(line) {
			break
		}
		ok = true
		rest = after
	}
	if !ok {
		return Output{State: StateCompleted, Stdout: text, StdoutBytes: int64(len(text))}, false
	}
	if o.State == "" {
		o.State = StateCompleted
	}
	return o, true
}

// header takes in one header line and says whether it was one.
func (o *Output) header(line string) bool {
	key, value, found := strings.Cut(line, ": ")
	if !found {
		return false
	}
	switch key {
	case "state":
		state, note, _ := strings.Cut(value, " — ")
		o.State = state
		if note != "" {
			o.Note = note
		}
	case "exit code":
		n, err := strconv.Atoi(value)
		if err != nil {
			return false
		}
		o.ExitCode = &n
	case "timed out":
		o.TimedOut = value == "yes"
	case "session":
		o.Session = value
	case "note":
		o.Note = value
	default:
		return false
	}
	return true
}

// sectionHeader reads "stdout (12 bytes):" and "stderr (90000 bytes, 32801 shown):".
func sectionHeader(line string) (name string, total int64, shown int, ok bool) {
	name, inner, found := strings.Cut(line, " (")
	if !found || (name != "stdout" && name != "stderr") {
		return "", 0, 0, false
	}
	inner, found = strings.CutSuffix(inner, "):")
	if !found {
		return "", 0, 0, false
	}
	whole, part, cut := strings.Cut(inner, " bytes")
	if !cut {
		return "", 0, 0, false
	}
	total, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || total < 0 {
		return "", 0, 0, false
	}
	shownText := whole
	if part != "" {
		shownText = strings.TrimSuffix(strings.TrimPrefix(part, ", "), " shown")
	}
	shown, err = strconv.Atoi(shownText)
	return name, total, shown, err == nil && shown >= 0
}
