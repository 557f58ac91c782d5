package chat

import (
	"strings"

	"github.com/countersign/countersign/internal/workflows"
)

// Code is s as a Markdown code span, whatever it contains.
func Code(s string) string {
	s = Shown(s)
	if s == "" {
		return ""
	}
	fence := "`"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}

// Escape makes text from outside literal in Markdown, on one line.
func Escape(s string) string {
	s = Shown(s)
	if !strings.ContainsAny(s, markdownSpecial) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune(markdownSpecial, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// markdownSpecial are the characters that mean something within a line.
const markdownSpecial = "\\`*_[]<>|~&"

// linked is a title that leads to a thread.
func (r *Router) linked(t workflows.Thread, title string) string {
	if r.Link != nil {
		if href := r.Link(t); href != "" {
			return "[" + Escape(title) + "](" + href + ")"
		}
	}
	return "**" + Escape(title) + "**"
}
