// Package ignore reads rules in the language of gitignore: what a workspace
// leaves out.
package ignore

import (
	"bytes"
	"path"
	"strings"
	"unicode"
)

// File is the name, at a workspace's root, of the file with its rules.
const File = ".countersignignore"

// MaxFile is how long such a file may be, in bytes.
const MaxFile = 64 << 10 // 64 KiB

// Caches are rules for what programs make anew by themselves, without a network.
// A rule of the workspace's own can keep one: "!__pycache__/".
const Caches = `__pycache__/
.pytest_cache/
.mypy_cache/
.ruff_cache/
.tox/
.parcel-cache/
**/node_modules/.cache/
`

// Rules are compiled rules: the last one that matches wins. The zero value
// ignores nothing.
type Rules struct{ list []rule }

type rule struct {
	pattern string
	keep    bool // "!": what it matches is not ignored after all
	dirOnly bool
	// whole matches the path; else the pattern is for the last name alone.
	whole   bool
	literal bool
}

// Parse compiles rules. What git would not understand matches nothing.
func Parse(texts ...string) Rules {
	var out Rules
	for _, text := range texts {
		text = strings.TrimPrefix(text, "\ufeff")
		for line := range strings.SplitSeq(text, "\n") {
			if r, ok := parseLine(strings.TrimSuffix(line, "\r")); ok {
				out.list = append(out.list, r)
			}
		}
	}
	return out
}

func parseLine(line string) (rule, bool) {
	line = trimSpaces(line)
	if line == "" || line[0] == '#' {
		return rule{}, false
	}
	var r rule
	if r.keep = line[0] == '!'; r.keep {
		line = line[1:]
	}
	if r.dirOnly = strings.HasSuffix(line, "/"); r.dirOnly {
		line = strings.TrimSuffix(line, "/")
	}
	r.whole = strings.Contains(line, "/")
	r.pattern = strings.TrimPrefix(line, "/")
	r.literal = !strings.ContainsAny(r.pattern, `*?[\`)
	return r, r.pattern != ""
}

// trimSpaces removes the spaces at the end that no backslash keeps.
func trimSpaces(line string) string {
	end := strings.TrimRight(line, " ")
	slashes := len(end) - len(strings.TrimRight(end, `\`))
	if slashes%2 == 1 && len(end) < len(line) {
		return line[:len(end)+1]
	}
	return end
}

// Match tells whether the rules leave out what is at a slash-separated path below
// the root. Whoever walks a tree asks for each parent first: below an ignored
// directory nothing is kept. A repository's own files are never left out: half a
// repository is none.
func (r Rules) Match(name string, dir bool) bool {
	if name == "." || name == "" || InGit(name) {
		return false
	}
	base := path.Base(name)
	for i := len(r.list) - 1; i >= 0; i-- {
		if r.list[i].match(name, base, dir) {
			return !r.list[i].keep
		}
	}
	return false
}

// InGit tells whether a path is a repository's directory or lies in one.
func InGit(name string) bool {
	return name == ".git" || strings.HasPrefix(name, ".git/") || strings.HasSuffix(name, "/.git") || strings.Contains(name, "/.git/")
}

func (r *rule) match(name, base string, dir bool) bool {
	if r.dirOnly && !dir {
		return false
	}
	text := base
	if r.whole {
		text = name
	}
	if r.literal {
		return text == r.pattern
	}
	return glob([]byte(r.pattern), []byte(text))
}

// glob matches a whole text: "*" and "?" match no slash, "**" between slashes or
// at an end matches any number of names.
func glob(p, text []byte) bool {
	for atName := true; len(p) > 0; {
		begins := atName
		atName = p[0] == '/'
		switch p[0] {
		case '*':
			return star(p, text, begins)
		case '?':
			if len(text) == 0 || text[0] == '/' {
				return false
			}
			p, text = p[1:], text[1:]
		case '[':
			n, ok := class(p, text)
			if !ok {
				return false
			}
			p, text = p[n:], text[1:]
		default:
			if p[0] == '\\' {
				if p = p[1:]; len(p) == 0 {
					return false
				}
			}
			if len(text) == 0 || text[0] != p[0] {
				return false
			}
			// "**/" may stand for nothing: what precedes it has its slash already.
			if p[0] == '/' && bytes.HasPrefix(p, []byte("/**/")) && glob(p[4:], text[1:]) {
				return true
			}
			p, text = p[1:], text[1:]
		}
	}
	return len(text) == 0
}

// star matches a pattern that begins with one or more stars, where a name begins
// or not.
func star(p, text []byte, begins bool) bool {
	n := 0
	for n < len(p) && p[n] == '*' {
		n++
	}
	rest := p[n:]
	deep := begins && n == 2 && (len(rest) == 0 || rest[0] == '/')
	if deep && len(rest) > 0 && bytes.HasPrefix(rest, []byte("/")) && glob(rest[1:], text) {
		return true
	}
	for i := 0; ; i++ {
		if glob(rest, text[i:]) {
			return true
		}
		if i == len(text) || text[i] == '/' && !deep {
			return false
		}
	}
}

// class matches one byte against a bracket expression, and returns the
// expression's length.
func class(p, text []byte) (int, bool) {
	if len(text) == 0 || text[0] == '/' {
		return 0, false
	}
	i, c, found := 1, text[0], false
	negated := i < len(p) && (p[i] == '!' || p[i] == '^')
	if negated {
		i++
	}
	for first := true; ; first = false {
		if i >= len(p) {
			return 0, false // never closed
		}
		if p[i] == ']' && !first {
			return i + 1, found != negated
		}
		if bytes.HasPrefix(p[i:], []byte("[:")) {
			if end := bytes.Index(p[i:], []byte(":]")); end > 0 {
				found = found || named(string(p[i+2:i+end]), c)
				i += end + 2
				continue
			}
		}
		low, n := literal(p[i:])
		i += n
		high := low
		if i+1 < len(p) && p[i] == '-' && p[i+1] != ']' {
			high, n = literal(p[i+1:])
			i += 1 + n
		}
		found = found || low <= c && c <= high
	}
}

// literal is one byte of a bracket expression, and how long it is written.
func literal(p []byte) (byte, int) {
	if p[0] == '\\' && len(p) > 1 {
		return p[1], 2
	}
	return p[0], 1
}

func named(class string, c byte) bool {
	r := rune(c)
	if c > unicode.MaxASCII {
		return false
	}
	switch class {
	case "alnum":
		return unicode.IsLetter(r) || unicode.IsDigit(r)
	case "alpha":
		return unicode.IsLetter(r)
	case "blank":
		return c == ' ' || c == '\t'
	case "cntrl":
		return unicode.IsControl(r)
	case "digit":
		return unicode.IsDigit(r)
	case "graph":
		return c > ' ' && c < 0x7f
	case "lower":
		return unicode.IsLower(r)
	case "print":
		return c >= ' ' && c < 0x7f
	case "punct":
		return c > ' ' && c < 0x7f && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	case "space":
		return unicode.IsSpace(r)
	case "upper":
		return unicode.IsUpper(r)
	case "xdigit":
		return strings.ContainsRune("0123456789abcdefABCDEF", r)
	}
	return false
}
