package policy

import "strings"

// sedLine is a sed command line while it is read.
type sedLine struct {
	c          *call
	scripts    []word
	files      []word
	haveScript bool
	inPlace    bool
	sandbox    bool
}

// runSed judges sed: its options, and every command of its script.
func runSed(c *call, _ *spec, _ parsed) {
	l := &sedLine{c: c}
	options := true
	for i := 0; i < len(c.args); i++ {
		w := c.args[i]
		t := w.text
		switch {
		case !options || !w.lit || w.glob || len(t) < 2 || t[0] != '-':
			if options && w.mayBeOption() {
				c.maybeOption(sedSpec, w)
			}
			l.files = append(l.files, w)
		case t == "--":
			options = false
		case strings.HasPrefix(t, "--"):
			i = l.long(i)
		default:
			i = l.short(i)
		}
	}
	if !l.haveScript && len(l.files) > 0 {
		l.scripts, l.files = []word{l.files[0].numbered()}, l.files[1:]
	}
	if !l.sandbox {
		c.sedScripts(l.scripts)
	}
	c.sedFiles(l.files, l.inPlace)
}

// long reads a long option and returns the index of its last word.
func (l *sedLine) long(i int) int {
	c := l.c
	name, val, attached := strings.Cut(c.args[i].text, "=")
	o := sedSpec.long(name)
	if o == nil {
		c.badOption(&parsed{}, c.args[i].text)
		return i
	}
	v := lit(val)
	if o.mode == argRequired && !attached {
		if i+1 >= len(c.args) {
			return i
		}
		i++
		v = c.args[i]
	}
	l.option(o.key(), v)
	return i
}

func (l *sedLine) option(key string, v word) {
	switch key {
	case "-e":
		l.scripts, l.haveScript = append(l.scripts, v), true
	case "-f":
		l.haveScript = true
		l.c.sedFile(v)
	case "-i":
		l.inPlace = true
		l.c.sedSuffix(v)
	case "--sandbox":
		l.sandbox = true
	}
}

// short reads a cluster of short options and returns the index of its last word.
func (l *sedLine) short(i int) int {
	c := l.c
	t := c.args[i].text
	for k := 1; k < len(t); k++ {
		switch t[k] {
		case 'n', 'E', 'r', 's', 'u', 'z':
		case 'i':
			l.option("-i", lit(t[k+1:]))
			return i
		case 'e', 'f', 'l':
			v := lit(t[k+1:])
			if v.text == "" && i+1 < len(c.args) {
				i++
				v = c.args[i]
			}
			l.option("-"+t[k:k+1], v)
			return i
		default:
			c.badOption(&parsed{}, t)
			return i
		}
	}
	return i
}

func (c *call) sedFiles(files []word, inPlace bool) {
	for _, f := range files {
		if inPlace {
			c.write(f)
		} else {
			c.out = c.out.and(c.read(f, false))
		}
	}
	if inPlace {
		c.out = flow{known: true}
		return
	}
	if len(files) == 0 {
		c.out = c.in
	}
	c.out = c.out.unread()
}

// sedSuffix judges the backup suffix of -i: one with a slash or a star names
// another place.
func (c *call) sedSuffix(v word) {
	if strings.ContainsAny(v.text, "/*") || !v.lit {
		c.raise(Risky, "%s keeps backups in a place that its suffix names", c.by())
	}
}

func (c *call) sedFile(v word) {
	c.raise(Risky, "%s runs the script `%s`", c.by(), v.show())
	for _, p := range c.s.resolve(v.text) {
		c.operand(p)
	}
}

var sedSpec = mustSpec(`sed | full | v* | -n,--quiet,--silent --debug -e,--expression: -f,--file: --follow-symlinks
	-i,--in-place? -l,--line-length: --posix -E,-r,--regexp-extended -s,--separate --sandbox -u,--unbuffered
	-z,--null-data --help --version -x!`)

// sedScripts judges the scripts of several -e, which sed reads as one.
func (c *call) sedScripts(scripts []word) {
	all := true
	var text []string
	for _, w := range scripts {
		all = all && w.lit
		text = append(text, w.text)
	}
	if all {
		if len(scripts) > 0 {
			c.sedParse(strings.Join(text, "\n"))
		}
		return
	}
	for _, w := range scripts {
		c.sedScript(w)
	}
}

// sedScript judges each command of a sed script.
func (c *call) sedScript(w word) {
	if !w.lit {
		// Unknown parts inside a fixed script, such as s/x/$Y/, may hold anything.
		if w.num && strings.Trim(w.text, "0123456789,p$dq!") == "" {
			return
		}
		c.raise(Risky, "%s is given a script that is only known when it runs: `%s`", c.by(), w.show())
		c.sedParse(w.sample)
		return
	}
	c.sedParse(w.text)
}

func (c *call) sedParse(text string) {
	p := sedParser{s: text}
	if !p.script(c) {
		c.raise(Risky, "%s is given a script that is not understood: `%s`", c.by(), clip(text, 60))
	}
}

type sedParser struct {
	s     string
	i     int
	depth int
}

func (p *sedParser) peek() byte {
	if p.i < len(p.s) {
		return p.s[p.i]
	}
	return 0
}

func (p *sedParser) skip(chars string) {
	for p.i < len(p.s) && strings.IndexByte(chars, p.s[p.i]) >= 0 {
		p.i++
	}
}

// script reads commands until the end, and reports whether it understood all.
func (p *sedParser) script(c *call) bool {
	for {
		p.skip(" \t\n;")
		if p.i >= len(p.s) {
			return p.depth == 0
		}
		if p.s[p.i] == '#' {
			p.line()
			continue
		}
		if !p.address() {
			return false
		}
		if !p.command(c) {
			return false
		}
	}
}

func (p *sedParser) line() string {
	start := p.i
	for p.i < len(p.s) && p.s[p.i] != '\n' {
		p.i++
	}
	return p.s[start:p.i]
}

// address reads addr[,addr][!].
func (p *sedParser) address() bool {
	for n := 0; n < 2; n++ {
		p.skip(" \t")
		switch b := p.peek(); {
		case b >= '0' && b <= '9':
			p.skip("0123456789")
			if p.peek() == '~' {
				p.i++
				p.skip("0123456789")
			}
		case b == '$':
			p.i++
		case (b == '+' || b == '~') && n == 1:
			p.i++
			p.skip("0123456789")
		case b == '/' || b == '\\':
			d := b
			if b == '\\' {
				p.i++
				d = p.peek()
			}
			p.i++
			if !p.pattern(d) {
				return false
			}
			p.skip("IM")
		default:
			if n == 1 {
				return false
			}
		}
		p.skip(" \t")
		if n == 0 && p.peek() == ',' {
			p.i++
			continue
		}
		break
	}
	p.skip(" \t")
	for p.peek() == '!' {
		p.i++
		p.skip(" \t")
	}
	return true
}

// until moves past the next unescaped delimiter.
func (p *sedParser) until(d byte) bool {
	for p.i < len(p.s) {
		switch p.s[p.i] {
		case '\\':
			p.i += 2
			continue
		case d:
			p.i++
			return true
		}
		p.i++
	}
	return false
}

// pattern moves past a pattern and its delimiter. A delimiter in brackets ends
// the pattern for some seds and not for others, so it is not understood.
func (p *sedParser) pattern(d byte) bool {
	class := 0
	for ; p.i < len(p.s); p.i++ {
		b := p.s[p.i]
		switch {
		case b == '\\' && class == 0:
			p.i++
		case b == d:
			if class > 0 {
				return false
			}
			p.i++
			return true
		case b == '[' && class == 0:
			class = p.i + 1
			if p.i+1 < len(p.s) && p.s[p.i+1] == '^' {
				class++
			}
		case b == ']' && class > 0 && p.i > class:
			class = 0
		}
	}
	return false
}

// end reads what may follow a command.
func (p *sedParser) end() bool {
	p.skip(" \t")
	switch p.peek() {
	case 0:
		return p.i >= len(p.s)
	case ';', '\n':
		p.i++
		return true
	case '}', '#':
		return true
	}
	return false
}

func (p *sedParser) command(c *call) bool {
	b := p.peek()
	p.i++
	switch b {
	case '{':
		p.depth++
		return p.depth < 64
	case '}':
		p.depth--
		return p.depth >= 0 && p.end()
	case '=', 'd', 'D', 'g', 'G', 'h', 'H', 'n', 'N', 'p', 'P', 'x', 'z', 'F':
		return p.end()
	case 'q', 'Q', 'l', 'L':
		p.skip(" \t0123456789")
		return p.end()
	case 'a', 'i', 'c':
		return p.text()
	case ':', 'b', 't', 'T':
		for p.i < len(p.s) && p.s[p.i] != '\n' && p.s[p.i] != ';' {
			p.i++
		}
		return true
	case 'y':
		d := p.peek()
		p.i++
		for range 2 {
			if !p.until(d) {
				return false
			}
		}
		return p.end()
	case 's':
		return p.substitute(c)
	case 'r', 'R':
		c.out = c.out.and(c.read(lit(strings.TrimLeft(p.line(), " \t")), false))
		return true
	case 'w', 'W':
		c.write(lit(strings.TrimLeft(p.line(), " \t")))
		return true
	case 'e':
		cmd := strings.TrimSpace(p.line())
		c.raise(Risky, "%s runs `%s`", c.by(), clip(cmd, 60))
		c.s.worst(cmd, c.by())
		return true
	}
	return false
}

// text reads the text of a, i and c, which ends at an unescaped newline.
func (p *sedParser) text() bool {
	for p.i < len(p.s) {
		if p.s[p.i] == '\\' {
			p.i += 2
			continue
		}
		if p.s[p.i] == '\n' {
			break
		}
		p.i++
	}
	p.i = min(p.i, len(p.s))
	return true
}

func (p *sedParser) substitute(c *call) bool {
	d := p.peek()
	if d == 0 || d == '\n' || d == '\\' {
		return false
	}
	p.i++
	if !p.pattern(d) {
		return false
	}
	start := p.i
	if !p.until(d) {
		return false
	}
	with := p.s[start : p.i-1]
	for {
		switch b := p.peek(); {
		case b == 'g' || b == 'p' || b == 'i' || b == 'I' || b == 'm' || b == 'M' || (b >= '0' && b <= '9'):
			p.i++
		case b == 'e':
			p.i++
			c.raise(Risky, "%s runs what its `s` command makes, `%s`", c.by(), clip(with, 60))
			c.s.worst(with, c.by())
		case b == 'w':
			p.i++
			c.write(lit(strings.TrimLeft(p.line(), " \t")))
			return true
		default:
			return p.end()
		}
	}
}
