// Package patch reads and applies patches in the V4A format, in which models
// write changes to several files: sections of files between "*** Begin Patch"
// and "*** End Patch", each with hunks that are found by their context, never by
// line numbers.
//
// It works on bytes that it is given; who applies the result to a workspace is
// package sandbox.
package patch

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Op is what a section does to its file.
type Op string

// What a section does.
const (
	Add    Op = "add"
	Update Op = "update"
	Delete Op = "delete"
)

// MaxFiles is how many files one patch may name.
const MaxFiles = 100

// The marks of the format.
const (
	Begin = "*** Begin Patch"

	end      = "*** End Patch"
	addMark  = "*** Add File: "
	updMark  = "*** Update File: "
	delMark  = "*** Delete File: "
	moveMark = "*** Move to: "
	eofMark  = "*** End of File"
)

// File is one section.
type File struct {
	Op   Op
	Path string
	// MoveTo is the new path of an updated file; empty where it stays.
	MoveTo string

	added []string
	hunks []hunk
}

// hunk is one change with the lines around it.
type hunk struct {
	line    int // of the patch, from 1
	anchors []string
	lines   []hunkLine
	atEnd   bool
}

type hunkLine struct {
	op   byte // ' ', '-' or '+'
	text string
}

// Error says why a patch cannot be read or applied: sentences from which a model
// can mend it.
type Error struct{ Text string }

func (e *Error) Error() string { return e.Text }

func refuse(format string, args ...any) error { return &Error{Text: fmt.Sprintf(format, args...)} }

// Parse reads a patch. Its errors are [*Error].
func Parse(text string) ([]File, error) {
	p := parser{lines: strings.Split(strings.ReplaceAll(strings.Trim(text, " \t\r\n"), "\r\n", "\n"), "\n")}
	if p.lines[0] != Begin {
		return nil, refuse("The patch must begin with the line %q; it begins with %q.", Begin, cut(p.lines[0]))
	}
	if last := p.lines[len(p.lines)-1]; len(p.lines) < 2 || strings.TrimSpace(last) != end {
		return nil, refuse("The patch must end with the line %q; it ends with %q.", end, cut(last))
	}
	p.lines, p.at = p.lines[:len(p.lines)-1], 1
	var files []File
	for p.more() {
		f, err := p.section()
		if err != nil {
			return nil, err
		}
		if len(files) == MaxFiles {
			return nil, refuse("The patch names more than %d files; split it.", MaxFiles)
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, refuse("The patch changes nothing: it has no %q, %q or %q section.", addMark, updMark, delMark)
	}
	return files, nil
}

type parser struct {
	lines []string
	at    int
}

func (p *parser) more() bool { return p.at < len(p.lines) }

// section reads one file's part.
func (p *parser) section() (File, error) {
	line := p.lines[p.at]
	for mark, op := range map[string]Op{addMark: Add, updMark: Update, delMark: Delete} {
		name, ok := strings.CutPrefix(line, mark)
		if !ok {
			continue
		}
		f := File{Op: op, Path: strings.TrimSpace(name)}
		if f.Path == "" {
			return f, refuse("Line %d of the patch names no file: %q.", p.at+1, line)
		}
		p.at++
		switch op {
		case Add:
			return f, p.addition(&f)
		case Update:
			return f, p.update(&f)
		}
		return f, nil
	}
	return File{}, refuse("Line %d of the patch, %q, begins no section: sections begin with %q, %q or %q.", p.at+1, cut(line), addMark, updMark, delMark)
}

func (p *parser) addition(f *File) error {
	for p.more() && !section(p.lines[p.at]) {
		text, ok := strings.CutPrefix(p.lines[p.at], "+")
		if !ok {
			return refuse("Line %d of the patch, %q, is no line of the new file %s: each begins with \"+\".", p.at+1, cut(p.lines[p.at]), f.Path)
		}
		f.added = append(f.added, text)
		p.at++
	}
	return nil
}

func (p *parser) update(f *File) error {
	if p.more() {
		if to, ok := strings.CutPrefix(p.lines[p.at], moveMark); ok {
			if f.MoveTo = strings.TrimSpace(to); f.MoveTo == "" {
				return refuse("Line %d of the patch names no file to move to.", p.at+1)
			}
			p.at++
		}
	}
	for p.more() && !section(p.lines[p.at]) {
		h, err := p.hunk(f)
		if err != nil {
			return err
		}
		f.hunks = append(f.hunks, h)
	}
	if len(f.hunks) == 0 && f.MoveTo == "" {
		return refuse("The section for %s changes nothing: it has no hunk.", f.Path)
	}
	return nil
}

// numbers are what other formats write behind "@@": they say nothing here.
var numbers = regexp.MustCompile(`^-\d+(,\d+)? \+\d+(,\d+)? @@`)

// hunk reads its headers and lines. The first one of a file may go without "@@".
func (p *parser) hunk(f *File) (hunk, error) {
	h := hunk{line: p.at + 1}
	for p.more() && strings.HasPrefix(p.lines[p.at], "@@") {
		header := strings.TrimPrefix(strings.TrimPrefix(p.lines[p.at], "@@"), " ")
		header = strings.TrimSuffix(strings.TrimRight(header, " "), "@@")
		if strings.TrimSpace(header) != "" && !numbers.MatchString(strings.TrimSpace(header)+" @@") {
			h.anchors = append(h.anchors, strings.TrimRight(header, " "))
		}
		p.at++
	}
	if len(f.hunks) > 0 && h.line == p.at+1 {
		return h, refuse("Line %d of the patch, %q, belongs to no hunk of %s: after the first one each begins with \"@@\".", p.at+1, cut(p.lines[p.at]), f.Path)
	}
	for ; p.more() && !section(p.lines[p.at]) && !strings.HasPrefix(p.lines[p.at], "@@"); p.at++ {
		line := p.lines[p.at]
		if strings.TrimRight(line, " ") == eofMark {
			h.atEnd = true
			p.at++
			break
		}
		if line == "" {
			line = " " // an empty line of context whose blank was lost
		}
		if !strings.ContainsRune(" +-", rune(line[0])) {
			return h, refuse("Line %d of the patch, %q, is no line of a hunk of %s: each begins with a blank, \"-\" or \"+\".", p.at+1, cut(line), f.Path)
		}
		h.lines = append(h.lines, hunkLine{line[0], line[1:]})
	}
	if !slices.ContainsFunc(h.lines, func(l hunkLine) bool { return l.op != ' ' }) {
		return h, refuse("The hunk at line %d of the patch changes nothing in %s: it has no line with \"-\" or \"+\".", h.line, f.Path)
	}
	return h, nil
}

func section(line string) bool {
	for _, mark := range []string{addMark, updMark, delMark} {
		if strings.HasPrefix(line, mark) {
			return true
		}
	}
	return false
}

// cut shortens what an error repeats.
func cut(s string) string {
	const limit = 200
	r := []rune(s)
	if len(r) <= limit {
		return s
	}
	return string(r[:limit]) + "…"
}
