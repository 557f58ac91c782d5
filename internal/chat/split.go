package chat

import (
	"strings"
	"unicode/utf8"
)

// SplitMarkdown cuts Markdown into parts of at most size characters, between
// blocks where it can, between lines where it must. A fenced block that is cut
// is closed in one part and opened again in the next.
func SplitMarkdown(s string, size int) []string {
	var parts []string
	var part strings.Builder
	used := 0
	flush := func() {
		if t := strings.Trim(part.String(), "\n"); t != "" {
			parts = append(parts, t)
		}
		part.Reset()
		used = 0
	}
	for _, b := range markdownBlocks(s) {
		n := utf8.RuneCountInString(b)
		if used > 0 && used+n+2 > size {
			flush()
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
	}
	flush()
	return parts
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

// cutBlock cuts one block between lines, and a line that is too long anywhere.
func cutBlock(b string, size int) []string {
	lines := strings.Split(b, "\n")
	open, end := "", ""
	if f := fenceOf(lines[0]); f != "" {
		open, end = lines[0]+"\n", "\n"+f
		lines = lines[1:]
		if n := len(lines); n > 0 && closes(lines[n-1], f) {
			lines = lines[:n-1]
		}
	}
	room := size - utf8.RuneCountInString(open+end)
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
			part = []string{string(r[:room])}
			flush()
			r = r[room:]
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

// Beginning is the first lines of Markdown, at most n characters; a fenced block
// that it cuts is closed.
func Beginning(s string, n int) string {
	head := []rune(s)
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
