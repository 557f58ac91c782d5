package discord

import (
	"crypto/rand"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/countersign/countersign/internal/chat"
)

// content is a text of ours or the model's, made fit for Discord: the messages,
// and the file that holds it whole where it is longer than they may be.
type content struct {
	parts []string
	// file, with its text, goes with the only part.
	file *file
	// rows stand below the last part.
	rows []component
}

// textContent renders Markdown under a key.
func textContent(key, text string) content {
	text = unmarked(strings.TrimSpace(chat.Prose(text)))
	if text == "" {
		text = "(empty)"
	}
	shown := dialect(text)
	parts := split(shown)
	if len(parts) <= maxParts {
		return content{parts: parts}
	}
	name := chat.FileName(key)
	note := "\n\n*This is the beginning; the whole text is in the file " + name + ".*"
	shown = cuttable(shown, shownText/16)
	head := chat.Beginning(shown, shownText-size(note)-10)
	for n := shownText - size(note) - 10; size(head+note) > shownText; n /= 2 {
		head = chat.Beginning(shown, n/2)
	}
	return content{parts: []string{head + note}, file: &file{name: name, text: cutFile(text)}}
}

// cutFile keeps a file below what Discord takes.
func cutFile(text string) string {
	const note = "\n… cut: the file is longer than Discord takes\n"
	if len(text) <= maxFile-len(note) {
		return text
	}
	return chat.CutBytes(text, maxFile-len(note)) + note
}

// split cuts Markdown into parts that fit into a message each, between blocks
// where it can. Discord's clients count some characters twice.
func split(s string) []string {
	for n := shownText; ; n /= 2 {
		parts := chat.SplitMarkdown(cuttable(s, n), n, 0)
		fits := true
		for _, p := range parts {
			fits = fits && size(p) <= shownText
		}
		if fits || n < 200 {
			return parts
		}
	}
}

// cuttable is text in Discord's dialect whose lines of more than n characters can be
// cut anywhere: those outside blocks have no three backticks that a cut would tear
// from each other, as the second half would turn the rest of its message into code.
func cuttable(s string, n int) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if strings.Count(line, "```") > 1 && utf8.RuneCountInString(line) > n {
			lines[i] = apart(line)
		}
	}
	return strings.Join(lines, "\n")
}

// dialect writes in Discord's Markdown what it lacks: tables become code, which
// keeps their columns, and headings below the third level bold lines.
func dialect(s string) string {
	var out []string
	lines := strings.Split(kept(s), "\n")
	fence := ""
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		mark := fenceMark(line)
		if item := itemMark(line); fence == "" && item != "" && fenceMark(line[len(item):]) != "" {
			// A block that begins behind a list's mark begins on a line of its own.
			out = append(out, strings.TrimRight(item, " "))
			line = line[len(item):]
			mark = fenceMark(line)
		}
		switch {
		case fence != "":
			if mark != "" && strings.HasPrefix(mark, fence) && strings.TrimSpace(strings.TrimLeft(line, " "))[len(mark):] == "" {
				fence = ""
				out = append(out, "```")
				continue
			}
			out = append(out, apart(line))
		case mark != "":
			fence = mark
			out = append(out, opening(strings.TrimLeft(strings.TrimLeft(line, " ")[len(mark):], " "))...)
		case isTable(lines[i:]):
			out = append(out, "```")
			for ; i < len(lines) && strings.HasPrefix(strings.TrimSpace(lines[i]), "|"); i++ {
				out = append(out, strings.ReplaceAll(lines[i], "```", "'''"))
			}
			i--
			out = append(out, "```")
		case strings.HasPrefix(line, "####"):
			out = append(out, "**"+prose(strings.TrimSpace(strings.TrimLeft(line, "#")))+"**")
		default:
			out = append(out, prose(line))
		}
	}
	if fence != "" {
		out = append(out, "```")
	}
	return strings.Join(out, "\n")
}

// opening is what begins a block that is said to hold info, its language: with
// backticks, which only tildes may have behind them, that is its first line.
func opening(info string) []string {
	if strings.Contains(info, "`") {
		return []string{"```", apart(info)}
	}
	return []string{"```" + info}
}

// kept is a text as [chat.Prose] leaves it, with our own joints: of the rest Discord
// drops some itself, and what stood around it would come together.
func kept(s string) string {
	return strings.Map(func(r rune) rune {
		if chat.UnseenInProse(r) && string(r) != joint {
			return -1
		}
		return r
	}, s)
}

// prose is a line outside blocks. Discord begins a block at three backticks wherever
// they stand: those that the line does not close are kept apart.
func prose(line string) string {
	if strings.Count(line, "```")%2 == 0 {
		return line
	}
	return apart(line)
}

// apart keeps the backticks that would begin or end a block from each other.
func apart(line string) string { return strings.ReplaceAll(line, "```", strings.Repeat("`"+joint, 3)) }

// itemMark is what a list's item begins with; empty where the line begins none.
func itemMark(line string) string {
	rest := strings.TrimLeft(line, " ")
	digits := strings.TrimLeft(rest, "0123456789")
	switch {
	case digits != rest && (strings.HasPrefix(digits, ". ") || strings.HasPrefix(digits, ") ")):
		rest = digits[1:]
	case strings.HasPrefix(rest, "- "), strings.HasPrefix(rest, "* "), strings.HasPrefix(rest, "+ "):
		rest = rest[1:]
	default:
		return ""
	}
	rest = strings.TrimLeft(rest, " ")
	return line[:len(line)-len(rest)]
}

// fenceMark is the run that opens or closes a fenced block; Discord knows only
// three backticks.
func fenceMark(line string) string {
	t := strings.TrimLeft(line, " ")
	for _, c := range []string{"`", "~"} {
		if strings.HasPrefix(t, c+c+c) {
			rest := strings.TrimLeft(t, c)
			if c == "`" && strings.Contains(rest, c) {
				return ""
			}
			return t[:len(t)-len(rest)]
		}
	}
	return ""
}

// isTable reports whether a table begins: a row, and below it a row of dashes.
func isTable(lines []string) bool {
	if len(lines) < 2 || !strings.HasPrefix(strings.TrimSpace(lines[0]), "|") {
		return false
	}
	rule := strings.TrimSpace(lines[1])
	return strings.HasPrefix(rule, "|") && strings.Contains(rule, "-") && strings.Trim(rule, "|-: ") == ""
}

// escape makes text literal in Discord's Markdown, on one line.
func escape(s string) string {
	r := []rune(unmarked(chat.Shown(s)))
	var b strings.Builder
	for i, c := range r {
		if special(r, i, c) {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// special reports a character that means something where it stands: of colons
// those of links and emoji, of at signs those of mentions without brackets.
func special(r []rune, i int, c rune) bool {
	switch c {
	case '\\', '`', '*', '_', '[', ']', '<', '>', '|', '~':
		return true
	case ':':
		return i+1 < len(r) && (r[i+1] == '/' || unicode.IsLetter(r[i+1]))
	case '@':
		rest := string(r[i+1 : min(len(r), i+9)])
		return strings.HasPrefix(rest, "everyone") || strings.HasPrefix(rest, "here")
	case '#', '-', '+':
		return i == 0
	}
	return false
}

// spans is like escape, but keeps what stands between backticks as code. Text
// with an odd backtick is literal.
func spans(s string) string {
	parts := strings.Split(s, "`")
	if len(parts)%2 == 0 || strings.Contains(s, "``") {
		return escape(s)
	}
	var b strings.Builder
	for i, p := range parts {
		switch {
		case i%2 == 1:
			b.WriteString(span(p))
		default:
			b.WriteString(padded(p, escape))
		}
	}
	return b.String()
}

// joint keeps apart what Discord would take for the end of code: nobody sees it.
const joint = "\u200b"

// span is s as code within a line, whatever it holds.
func span(s string) string {
	s = unmarked(chat.Shown(s))
	switch {
	case s == "":
		return ""
	case !strings.Contains(s, "`"):
		return "`" + s + "`"
	}
	return "`` " + jointed(jointed(s)) + " ``" // once leaves two of three together
}

// jointed takes two backticks apart wherever they stand together.
func jointed(s string) string { return strings.ReplaceAll(s, "``", "`"+joint+"`") }

// fence is s as a block of code, whatever it holds. It looks as it is; the joints
// in three backticks are not seen. Discord begins no block that is empty.
func fence(s string) string {
	if strings.Trim(s, "\n") == "" {
		s = " "
	}
	return "```\n" + jointed(unmarked(s)) + "\n```"
}

// ink lets the shared texts hold what only Discord's markup can show: times in the
// reader's zone, and mentions. Its style writes a mark for each, and dry puts the
// markup in its place. The marks hold a random word, so nothing that comes from
// outside can be one.
type ink struct {
	open  string
	marks []string
}

// inkEnd closes a mark.
const inkEnd = "\uE001"

func newInk() *ink { return &ink{open: "\uE000" + rand.Text()[:10] + ":"} }

func (k *ink) add(markup string) string {
	k.marks = append(k.marks, markup)
	return k.open + strconv.Itoa(len(k.marks)-1) + inkEnd
}

// dry makes a text literal, but for the marks in it.
func (k *ink) dry(s string, literal func(string) string) string {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(s, k.open)
		b.WriteString(padded(before, literal))
		if !ok {
			return b.String()
		}
		n, rest, _ := strings.Cut(after, inkEnd)
		if i, err := strconv.Atoi(n); err == nil && i < len(k.marks) {
			b.WriteString(k.marks[i])
		}
		s = rest
	}
}

// fit makes a text literal in at most n units; what is more is cut, and never within
// a mark.
func (k *ink) fit(s string, n int, draw func(string) string) string {
	out := draw(s)
	for most := n; size(out) > n && most > 0; most -= most/8 + 1 {
		out = draw(k.cut(s, most))
	}
	return out
}

// cut shortens a text with marks to at most n units, of which a mark takes what it
// stands for.
func (k *ink) cut(s string, n int) string {
	var b strings.Builder
	for n > 0 {
		before, after, ok := strings.Cut(s, k.open)
		if size(before) > n || !ok {
			b.WriteString(cut(before, n))
			break
		}
		number, rest, _ := strings.Cut(after, inkEnd)
		n -= size(before)
		if i, err := strconv.Atoi(number); err == nil && i < len(k.marks) {
			if n -= size(k.marks[i]); n < 0 {
				b.WriteString(before + "…")
				break
			}
		}
		b.WriteString(before + k.open + number + inkEnd)
		s = rest
	}
	return b.String()
}

// padded makes the inside of s literal and keeps the space around it.
func padded(s string, literal func(string) string) string {
	inside := strings.TrimSpace(s)
	if inside == "" {
		return s
	}
	at := strings.Index(s, inside)
	return s[:at] + literal(inside) + s[at+len(inside):]
}
