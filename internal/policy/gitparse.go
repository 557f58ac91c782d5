package policy

import "strings"

// gitSetting is one setting of a git configuration file. Section and key are in
// lower case.
type gitSetting struct{ section, sub, key, value string }

// gitParse reads a git configuration file as git does: what git takes as a setting
// must not be a comment here. It is false where git would refuse the file, or may
// read it in another way.
func gitParse(text string) ([]gitSetting, bool) {
	if strings.IndexByte(text, 0) >= 0 {
		return nil, false
	}
	text = strings.TrimPrefix(text, "\ufeff")
	p := gitParser{rest: strings.ReplaceAll(text, "\r\n", "\n")}
	var out []gitSetting
	var at gitSetting
	for p.rest != "" {
		c := p.next()
		switch {
		case c == '#' || c == ';':
			p.line()
		case gitSpace(c):
		case c == '[':
			if at.section, at.sub = p.section(); p.bad {
				return out, false
			}
		case gitLetter(c):
			p.rest = string(c) + p.rest
			at.key = strings.ToLower(p.while(gitName))
			if at.value = p.assigned(); p.bad {
				return out, false
			}
			out = append(out, at)
		default:
			return out, false
		}
	}
	return out, true
}

func gitSpace(c byte) bool { return strings.IndexByte(" \t\n\r", c) >= 0 }

func gitLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func gitName(c byte) bool { return gitLetter(c) || c >= '0' && c <= '9' || c == '-' }

type gitParser struct {
	rest string
	bad  bool
}

// next takes a byte; after the last one the line ends.
func (p *gitParser) next() byte {
	if p.rest == "" {
		return '\n'
	}
	c := p.rest[0]
	p.rest = p.rest[1:]
	return c
}

// line takes the rest of a line.
func (p *gitParser) line() { _, p.rest, _ = strings.Cut(p.rest, "\n") }

func (p *gitParser) while(ok func(byte) bool) string {
	i := 0
	for i < len(p.rest) && ok(p.rest[i]) {
		i++
	}
	out := p.rest[:i]
	p.rest = p.rest[i:]
	return out
}

// section reads what follows "[".
func (p *gitParser) section() (name, sub string) {
	name = strings.ToLower(p.while(func(c byte) bool { return gitName(c) || c == '.' }))
	c := p.next()
	if c == ']' {
		return name, ""
	}
	for c == ' ' || c == '\t' {
		c = p.next()
	}
	if p.bad = c != '"'; p.bad {
		return name, ""
	}
	var b strings.Builder
	for c = p.next(); c != '"'; c = p.next() {
		if c == '\\' {
			c = p.next()
		}
		if p.bad = c == '\n'; p.bad {
			return name, ""
		}
		b.WriteByte(c)
	}
	p.bad = p.next() != ']'
	return name, b.String()
}

// assigned reads what follows a key. Nothing at all means true.
func (p *gitParser) assigned() string {
	c := p.next()
	for c == ' ' || c == '\t' {
		c = p.next()
	}
	if c == '\n' {
		return "true"
	}
	if p.bad = c != '='; p.bad {
		return ""
	}
	return p.value()
}

// value reads a value up to its line's end.
func (p *gitParser) value() string {
	var b strings.Builder
	quoted, end := false, 0 // end is where the value ends without the blanks behind it
	for {
		c := p.next()
		switch {
		case c == '\n':
			p.bad = quoted
			return b.String()[:end]
		case !quoted && (c == '#' || c == ';'):
			p.line()
			return b.String()[:end]
		case !quoted && gitSpace(c):
			if b.Len() > 0 {
				b.WriteByte(c)
			}
			continue
		case c == '"':
			quoted = !quoted
			end = b.Len()
			continue
		case c == '\\':
			i := strings.IndexByte("\n\\\"tbn", p.next())
			if p.bad = i < 0; p.bad {
				return ""
			}
			if i > 0 {
				b.WriteByte("\x00\\\"\t\b\n"[i])
			}
		default:
			b.WriteByte(c)
		}
		end = b.Len()
	}
}
