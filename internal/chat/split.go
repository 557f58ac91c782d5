package chat

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxOpening is the longest line, in characters, that may open a fenced block: it
// stands in each part of a block that is cut. Languages have short names.
const maxOpening = 50

// noFence before a run of backticks or tildes keeps it from opening or closing a
// block: a word joiner, which nobody sees.
const noFence = "\u2060"

// SplitMarkdown cuts Markdown into parts of at most size characters (at least 120),
// between blocks where it can, between lines where it must. A fenced block that is
// cut is closed in one part and opened again in the next. A part has at most so many
// pieces as a platform draws each by itself, such as headings and runs of text; 0 is
// any number.
func SplitMarkdown(s string, size, pieces int) []string {
	var parts []string
	var part strings.Builder
	used, drawn, run := 0, 0, false
	flush := func() {
		if t := strings.Trim(part.String(), "\n"); t != "" {
			parts = append(parts, t)
		}
		part.Reset()
		used, drawn, run = 0, 0, false
	}
	for _, b := range markdownBlocks(tamed(s)) {
		n := utf8.RuneCountInString(b)
		more, runs := piecesOf(b, run)
		if used > 0 && (used+n+2 > size || pieces > 0 && drawn+more > pieces) {
			flush()
			more, runs = piecesOf(b, run)
		}
		if n > size {
			pieces := cutBlock(b, size)
			for _, p := range pieces[:len(pieces)-1] {
				part.WriteString(p)
				flush()
			}
			b = pieces[len(pieces)-1]
			n = utf8.RuneCountInString(b)
		}
		if used > 0 {
			part.WriteString("\n\n")
			used += 2
		}
		part.WriteString(b)
		used += n
		drawn, run = drawn+more, runs
	}
	flush()
	return parts
}

// piecesOf is how many pieces a block adds to a part, whose last one is a run of text
// or not: each heading is one, and each rule, and the text between them, with its empty
// lines.
func piecesOf(b string, run bool) (n int, runs bool) {
	lines := strings.Split(b, "\n")
	if fenceOf(lines[0]) != "" {
		return 1, false
	}
	for _, line := range lines {
		t := strings.TrimSpace(line)
		alone := strings.HasPrefix(t, "#") || len(t) > 2 && strings.Trim(t, "-*_ ") == ""
		if alone || !run {
			n++
		}
		run = !alone
	}
	return n, run
}

// tamed is Markdown whose fenced blocks open with short lines.
func tamed(s string) string {
	lines := strings.Split(s, "\n")
	var out []string
	for i := 0; i < len(lines); i++ {
		mark := fenceOf(lines[i])
		if mark == "" {
			out = append(out, lines[i])
			continue
		}
		end := i + 1
		for end < len(lines) && !closes(lines[end], mark) {
			end++
		}
		out = append(out, tamedBlock(lines[i:min(end+1, len(lines))], mark)...)
		i = end
	}
	return strings.Join(out, "\n")
}

// tamedBlock is a fenced block with a short first line: what else that said is the
// first line of its content.
func tamedBlock(block []string, mark string) []string {
	if utf8.RuneCountInString(block[0]) <= maxOpening {
		return block
	}
	short := mark[:3]
	info := strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(block[0]), mark[:1]))
	language, rest, _ := strings.Cut(info, " ")
	if utf8.RuneCountInString(language) > maxOpening-len(short) {
		language, rest = "", info
	}
	out := []string{short + language}
	if rest != "" {
		out = append(out, rest)
	}
	for i, line := range block[1:] {
		switch {
		case !closes(line, short):
			out = append(out, line)
		case i == len(block)-2 && closes(line, mark):
			out = append(out, short)
		default:
			out = append(out, noFence+line)
		}
	}
	return out
}

// markdownBlocks are runs of lines between empty ones; a fenced block is one,
// whatever it holds.
func markdownBlocks(s string) []string {
	var blocks []string
	var block []string
	fence := ""
	flush := func() {
		if len(block) > 0 {
			blocks = append(blocks, strings.Join(block, "\n"))
			block = nil
		}
	}
	for line := range strings.SplitSeq(s, "\n") {
		mark := fenceOf(line)
		switch {
		case fence != "":
			block = append(block, line)
			if closes(line, fence) {
				fence = ""
				flush()
			}
		case mark != "":
			flush()
			fence = mark
			block = append(block, line)
		case strings.TrimSpace(line) == "":
			flush()
		default:
			block = append(block, line)
		}
	}
	flush()
	return blocks
}

// fenceOf is the run of backticks or tildes that opens a fenced block.
func fenceOf(line string) string {
	t := strings.TrimLeft(line, " ")
	if len(line)-len(t) > 3 {
		return ""
	}
	for _, c := range []string{"`", "~"} {
		if strings.HasPrefix(t, c+c+c) {
			rest := strings.TrimLeft(t, c)
			if c == "`" && strings.Contains(rest, "`") {
				return ""
			}
			return t[:len(t)-len(rest)]
		}
	}
	return ""
}

func closes(line, fence string) bool {
	t := strings.TrimSpace(line)
	return len(t) >= len(fence) && strings.Trim(t, fence[:1]) == ""
}

// cutBlock cuts one block between lines, and a line that is too long where it can.
func cutBlock(b string, size int) []string {
	lines := strings.Split(b, "\n")
	open, end := "", ""
	fence := fenceOf(lines[0])
	if fence != "" {
		open, end = lines[0]+"\n", "\n"+fence
		lines = lines[1:]
		if n := len(lines); n > 0 && closes(lines[n-1], fence) {
			lines = lines[:n-1]
		}
	}
	room := max(1, size-utf8.RuneCountInString(open+end))
	var parts, part []string
	used := 0
	flush := func() {
		if len(part) > 0 {
			parts = append(parts, open+strings.Join(part, "\n")+end)
			part, used = nil, 0
		}
	}
	for _, line := range lines {
		r := []rune(line)
		for len(r) > room {
			flush()
			first, rest := cutLine(r, room, fence)
			part = []string{string(first)}
			flush()
			r = rest
		}
		if used+len(r)+1 > room {
			flush()
		}
		part = append(part, string(r))
		used += len(r) + 1
	}
	flush()
	if len(parts) == 0 {
		return []string{open + end}
	}
	return parts
}

// cutLine cuts a line that has more than room characters, two at least:
// behind a word, where one ends in the last quarter of the room. Neither half opens
// or closes a fenced block; fence is that of the block that the line is in.
func cutLine(line []rune, room int, fence string) (first, rest []rune) {
	end := room
	for n := room; n > room*3/4; n-- {
		if unicode.IsSpace(line[n-1]) {
			end = n
			break
		}
	}
	isFence := func(half []rune) bool {
		if fence == "" {
			return fenceOf(string(half)) != ""
		}
		return closes(string(half), fence)
	}
	first = line[:end]
	if isFence(first) {
		end--
		first = append([]rune(noFence), line[:end]...)
	}
	rest = line[end:]
	if isFence(rest) {
		rest = append([]rune(noFence), rest...)
	}
	return first, rest
}

// Beginning is the first lines of Markdown, at most n characters; a fenced block
// that it cuts is closed.
func Beginning(s string, n int) string {
	head := []rune(tamed(s))
	head = head[:min(n, len(head))]
	text := string(head)
	if i := strings.LastIndexByte(text, '\n'); i > len(text)/2 {
		text = text[:i]
	}
	fence := ""
	for line := range strings.SplitSeq(text, "\n") {
		switch mark := fenceOf(line); {
		case fence != "" && closes(line, fence):
			fence = ""
		case fence == "" && mark != "":
			fence = mark
		}
	}
	if fence != "" {
		text += "\n" + fence
	}
	return text
}

// FileName names the file that holds a text whole.
func FileName(key string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '-'
	}, key) + ".md"
}
