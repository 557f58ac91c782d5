package slack

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/workflows"
)

// markup lets the shared texts hold what only Slack can show: times in the
// reader's zone and mentions. Its style writes a mark for each; pieces takes the
// finished text apart again. The marks hold a random word, so nothing that comes
// from outside can be one.
type markup struct {
	open, close string
	marks       []mark
	groups      []group
	// pings are the approvers that are mentioned; others are named. Nil mentions
	// all.
	pings []string
}

// mark is a time, a user or a user group.
type mark struct {
	at          time.Time
	format      string
	user, group string
}

// piece is literal text, or a mark when text is empty.
type piece struct {
	text string
	mark mark
}

func newMarkup(groups []group) *markup {
	word := rand.Text()[:10]
	return &markup{open: "\uE000" + word + ":", close: "\uE001", groups: groups}
}

func (m *markup) add(k mark) string {
	m.marks = append(m.marks, k)
	return m.open + strconv.Itoa(len(m.marks)-1) + m.close
}

// style writes times and approvers as marks, and people by name, which pings
// nobody.
func (m *markup) style() chat.Style {
	return chat.Style{
		Clock:  func(t time.Time) string { return m.add(mark{at: t, format: "{time}"}) },
		Exact:  func(t time.Time) string { return m.add(mark{at: t, format: "{time_secs}"}) },
		Person: func(a workflows.Actor) string { return cut(chat.ShownName(a.Label()), nameShown) },
		Approver: func(name string) string {
			if name == "*" {
				return "everybody"
			}
			if len(m.pings) > 0 && !slices.Contains(m.pings, name) {
				return named(name)
			}
			if isUserID(name) {
				return m.add(mark{user: name})
			}
			if id, ok := groupID(m.groups, name); ok {
				return m.add(mark{group: id})
			}
			if isGroupID(name) {
				return m.add(mark{group: name})
			}
			return named(name)
		},
	}
}

// named is an approver's name, as it was configured.
func named(approver string) string {
	return "@" + cut(chat.ShownName(strings.TrimPrefix(approver, "@")), nameShown)
}

// pieces takes a text apart.
func (m *markup) pieces(s string) []piece {
	var out []piece
	for s != "" {
		before, after, ok := strings.Cut(s, m.open)
		if before != "" {
			out = append(out, piece{text: before})
		}
		if !ok {
			break
		}
		n, rest, _ := strings.Cut(after, m.close)
		i, err := strconv.Atoi(n)
		if err == nil && i < len(m.marks) {
			out = append(out, piece{mark: m.marks[i]})
		}
		s = rest
	}
	return out
}

// fallback is the time for readers that cannot show it in their own zone.
func (k mark) fallback() string {
	if k.format == "{time_secs}" {
		return k.at.UTC().Format("15:04:05 UTC")
	}
	return k.at.UTC().Format("15:04 UTC")
}

// mrkdwn writes pieces for `text` fields and mrkdwn: literal text escaped, at
// most n characters of it. Mentions ping where pings is set.
func mrkdwn(pieces []piece, n int, pings bool) string {
	var b strings.Builder
	for _, p := range pieces {
		switch {
		case p.text != "" && n <= 0:
			b.WriteString("…")
			return b.String()
		case p.text != "":
			t := cut(p.text, n)
			n -= length(t)
			b.WriteString(escape(t))
			if t != p.text {
				return b.String()
			}
		case p.mark.user != "" && pings:
			b.WriteString("<@" + p.mark.user + ">")
		case p.mark.group != "" && pings:
			b.WriteString("<!subteam^" + p.mark.group + ">")
		case p.mark.user != "" || p.mark.group != "":
			b.WriteString("an approver")
		default:
			fmt.Fprintf(&b, "<!date^%d^%s|%s>", p.mark.at.Unix(), p.mark.format, p.mark.fallback())
		}
	}
	return b.String()
}

// rich writes pieces as the elements of a rich text section, where text is
// literal and needs no escaping.
func rich(pieces []piece, style *slack.RichTextSectionTextStyle) []slack.RichTextSectionElement {
	var out []slack.RichTextSectionElement
	for _, p := range pieces {
		switch {
		case p.text != "":
			out = append(out, spans(p.text, style)...)
		case p.mark.user != "":
			out = append(out, slack.NewRichTextSectionUserElement(p.mark.user, nil))
		case p.mark.group != "":
			out = append(out, slack.NewRichTextSectionUserGroupElement(p.mark.group))
		default:
			fallback := p.mark.fallback()
			out = append(out, slack.NewRichTextSectionDateElement(p.mark.at.Unix(), p.mark.format, nil, &fallback))
		}
	}
	return out
}

// spans shows what stands between backticks as code. Text with an odd backtick is
// left as it is.
func spans(s string, style *slack.RichTextSectionTextStyle) []slack.RichTextSectionElement {
	parts := strings.Split(s, "`")
	if len(parts)%2 == 0 || strings.Contains(s, "``") {
		return texts(s, style)
	}
	var out []slack.RichTextSectionElement
	for i, p := range parts {
		if i%2 == 0 {
			out = append(out, texts(p, style)...)
		} else {
			out = append(out, texts(p, inCode())...)
		}
	}
	return out
}

// texts are the text elements of s: several where it is longer than one takes.
func texts(s string, style *slack.RichTextSectionTextStyle) []slack.RichTextSectionElement {
	var out []slack.RichTextSectionElement
	for r := []rune(s); len(r) > 0; {
		n := min(len(r), maxSection)
		out = append(out, slack.NewRichTextSectionTextElement(string(r[:n]), style))
		r = r[n:]
	}
	return out
}

// richText builds one rich text block: lines, which become one section with line
// breaks of its own, and boxes. What does not fit into a message is cut.
type richText struct {
	elements []slack.RichTextElement
	line     []slack.RichTextSectionElement
	used     int
}

// add adds a line, or several.
func (r *richText) add(elements []slack.RichTextSectionElement) { r.upTo(cardLine, elements) }

// upTo adds a line, or several, of at most n characters.
func (r *richText) upTo(n int, elements []slack.RichTextSectionElement) {
	elements = r.fit(elements, n)
	if len(elements) == 0 {
		return
	}
	if len(r.line) > 0 {
		r.line = append(r.line, slack.NewRichTextSectionTextElement("\n", nil))
	}
	r.line = append(r.line, elements...)
}

// box adds text in a box, byte for byte.
func (r *richText) box(s string) {
	r.flush()
	if s == "" {
		s = " "
	}
	if elements := r.fit(texts(s, nil), cardLine); len(elements) > 0 {
		r.elements = append(r.elements, &slack.RichTextPreformatted{Type: slack.RTEPreformatted, Elements: elements})
	}
}

// fit cuts text to the room that is left, and a line to its share of it.
func (r *richText) fit(elements []slack.RichTextSectionElement, n int) []slack.RichTextSectionElement {
	room := min(cardText-r.used, n)
	var out []slack.RichTextSectionElement
	for _, e := range elements {
		t, ok := e.(*slack.RichTextSectionTextElement)
		if !ok {
			out = append(out, e)
			continue
		}
		if room <= 0 {
			break
		}
		t.Text = cut(t.Text, room)
		room -= length(t.Text)
		r.used += length(t.Text)
		out = append(out, t)
	}
	return out
}

func (r *richText) flush() {
	if len(r.line) > 0 {
		r.elements = append(r.elements, slack.NewRichTextSection(r.line...))
		r.line = nil
	}
}

func (r *richText) block() *slack.RichTextBlock {
	r.flush()
	return slack.NewRichTextBlock("", r.elements...)
}

// bold and inCode are styles of rich text.
func bold() *slack.RichTextSectionTextStyle   { return &slack.RichTextSectionTextStyle{Bold: true} }
func inCode() *slack.RichTextSectionTextStyle { return &slack.RichTextSectionTextStyle{Code: true} }

func plain(s string, n int) *slack.TextBlockObject {
	s = cut(s, n)
	if strings.TrimSpace(s) == "" {
		s = "–"
	}
	return slack.NewTextBlockObject(slack.PlainTextType, s, false, false)
}
