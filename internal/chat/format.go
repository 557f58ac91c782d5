package chat

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/countersign/countersign/internal/policy"
	"github.com/countersign/countersign/internal/workflows"
)

// Style is how a platform writes what differs between platforms. The zero value
// is not usable; see [PlainStyle].
type Style struct {
	// Clock shows a time of day to the minute, Exact to the second, both in the
	// reader's zone where the platform has markup for that.
	Clock, Exact func(time.Time) string
	// Person names a person without pinging them.
	Person func(workflows.Actor) string
	// Approver names an ID or group of an approver set.
	Approver func(string) string
}

// PlainStyle writes clock times in loc and names as @name.
func PlainStyle(loc *time.Location) Style {
	return Style{
		Clock:    func(t time.Time) string { return t.In(loc).Format("15:04") },
		Exact:    func(t time.Time) string { return t.In(loc).Format("15:04:05") },
		Person:   func(a workflows.Actor) string { return ShownName(a.Label()) },
		Approver: plainApprover,
	}
}

// RFC3339Style writes times as RFC 3339 in UTC, for readers that convert them,
// and names as @name.
func RFC3339Style() Style {
	s := PlainStyle(time.UTC)
	s.Clock = func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	s.Exact = s.Clock
	return s
}

func plainApprover(id string) string {
	if id == "*" {
		return "everybody"
	}
	return "@" + Shown(id)
}

// Duration shows how long something took: "0.4 s", "1 m 42 s", "3 h 12 m".
// Negative durations, which come of clocks that differ, are shown as nothing.
func Duration(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < 59950*time.Millisecond:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Hour-500*time.Millisecond:
		s := int64(d.Round(time.Second).Seconds())
		return fmt.Sprintf("%d m %d s", s/60, s%60)
	}
	m := int64(d.Round(time.Minute).Minutes())
	return fmt.Sprintf("%d h %d m", m/60, m%60)
}

// Size shows bytes in MB of 10^6: "48 MB", "1.4 MB".
func Size(bytes int64) string {
	mb := float64(bytes) / 1e6
	switch {
	case bytes <= 0:
		return "0 MB"
	case mb < 0.1:
		return "under 0.1 MB"
	case mb < 9.95:
		return strconv.FormatFloat(mb, 'f', 1, 64) + " MB"
	}
	return strconv.FormatFloat(mb, 'f', 0, 64) + " MB"
}

// Money shows millionths of a dollar: "$0.08". It is empty for nothing, which is
// also what a model without a price costs.
func Money(micros int64) string {
	switch {
	case micros <= 0:
		return ""
	case micros < 5000:
		return "under $0.01"
	}
	cents := (micros + 5000) / 10000
	return fmt.Sprintf("$%d.%02d", cents/100, cents%100)
}

// Tokens shows a count of tokens: "812 tokens", "1.2k tokens", "18k tokens".
func Tokens(n int64) string {
	switch {
	case n == 1:
		return "1 token"
	case n < 1000:
		return strconv.FormatInt(n, 10) + " tokens"
	case n < 9950:
		return strconv.FormatFloat(float64(n)/1e3, 'f', 1, 64) + "k tokens"
	case n < 999500:
		return strconv.FormatFloat(float64(n)/1e3, 'f', 0, 64) + "k tokens"
	}
	return strconv.FormatFloat(float64(n)/1e6, 'f', 1, 64) + "M tokens"
}

// UsedTokens shows what was used: "18k tokens", or "18k tokens (12k cached)" where
// the model's server had part of the input in its cache. Empty for nothing.
func UsedTokens(u workflows.Usage) string {
	all := u.Input + u.Output
	if all <= 0 {
		return ""
	}
	if u.Cached <= 0 {
		return Tokens(all)
	}
	cached, _, _ := strings.Cut(Tokens(u.Cached), " ")
	return Tokens(all) + " (" + cached + " cached)"
}

// Count is "1 command", "6 commands".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// Shown makes text from outside safe to show on one line: line breaks become
// spaces, and control, bidirectional and invisible characters are escaped.
func Shown(s string) string {
	return strings.Join(strings.Fields(ShownLines(s)), " ")
}

// ShownName is a name in a line of ours, in which two backticks make code of what stands
// between them.
func ShownName(s string) string { return strings.ReplaceAll(Shown(s), "`", "'") }

// ShownExactly is like [Shown] and keeps spacing, so that two different texts look
// different: line breaks and tabs are escaped, too.
func ShownExactly(s string) string {
	return strings.NewReplacer("\n", `\u{a}`, "\t", `\u{9}`).Replace(ShownLines(s))
}

// ShownLines is like [Shown] and keeps lines, tabs and spacing.
func ShownLines(s string) string {
	if !strings.ContainsFunc(s, hidden) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, "\\x%02x", s[i])
		case hidden(r):
			fmt.Fprintf(&b, "\\u{%x}", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// hidden reports characters that a reader does not see or that reorder what
// they see. Emoji joiners are among them: in a command they are no ornament. The
// blanks that keyboards write are not: commands were judged and escaped before.
func hidden(r rune) bool {
	switch r {
	case '\u00A0', '\u202F', '\u3000':
		return false
	case '\uFE0F':
		return true
	}
	return policy.Hidden(r)
}

// Prose is a text of the model's, or of a person's, without the characters that do
// not show and those that turn the direction of writing, as the browser's page leaves
// them out. It keeps the joiners that emoji and some scripts need, and blanks of all
// widths.
func Prose(s string) string {
	return strings.Map(func(r rune) rune {
		if UnseenInProse(r) {
			return -1
		}
		return r
	}, s)
}

// UnseenInProse reports what [Prose] leaves out.
func UnseenInProse(r rune) bool {
	if r == '\u200C' || r == '\u200D' || unicode.In(r, unicode.Zs, unicode.Co, unicode.Variation_Selector, unicode.Prepended_Concatenation_Mark) {
		return false
	}
	return policy.Hidden(r)
}

// Cut shortens s to at most n runes, the last of which is then an ellipsis.
func Cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return strings.TrimRightFunc(string([]rune(s)[:n-1]), unicode.IsSpace) + "…"
}

// CutBytes shortens s to at most n bytes without breaking a rune.
func CutBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Tail makes the last lines of a command's output fit to show: terminal escapes
// are dropped, of lines that were written over only the last state is kept, and
// what is invisible is escaped.
func Tail(s string, lines int) string {
	s = dropEscapes(s)
	all := strings.Split(strings.TrimRight(s, "\n\r "), "\n")
	all = all[max(0, len(all)-lines):]
	for i, l := range all {
		l = strings.TrimRight(l, "\r")
		if cr := strings.LastIndexByte(l, '\r'); cr >= 0 {
			l = l[cr+1:]
		}
		all[i] = ShownLines(l)
	}
	return strings.Join(all, "\n")
}

// dropEscapes removes ANSI escape sequences: CSI and OSC ones whole, others with
// the byte that follows.
func dropEscapes(s string) string {
	if strings.IndexByte(s, 0x1b) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != 0x1b {
			b.WriteByte(s[i])
			i++
			continue
		}
		i = escapeEnd(s, i+1)
	}
	return b.String()
}

func escapeEnd(s string, i int) int {
	if i >= len(s) {
		return i
	}
	switch s[i] {
	case '[':
		for i++; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
		}
		return i
	case ']':
		for i++; i < len(s); i++ {
			if s[i] == 0x07 {
				return i + 1
			}
			if s[i] == 0x1b && i+1 < len(s) && s[i+1] == '\\' {
				return i + 2
			}
		}
		return i
	}
	_, n := utf8.DecodeRuneInString(s[i:])
	return i + n
}
