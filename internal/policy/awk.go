package policy

import "strings"

// runAwk judges awk: its options, and what its program may do besides reading.
func runAwk(c *call, _ *spec, _ parsed) {
	i := 0
	haveProg := false
	for ; i < len(c.args); i++ {
		w := c.args[i]
		if w.is("--") {
			i++
			break
		}
		if !w.lit || w.glob || len(w.text) < 2 || w.text[0] != '-' {
			if w.numbered().mayBeOption() && !haveProg {
				c.raise(Risky, "%s is given a program that is only known when it runs", c.by())
			}
			break
		}
		var prog bool
		i, prog = c.awkOption(i)
		haveProg = haveProg || prog
	}
	rest := c.args[min(i, len(c.args)):]
	if !haveProg {
		if len(rest) == 0 {
			return
		}
		c.awkProgram(rest[0].numbered())
		rest = rest[1:]
	}
	for _, w := range rest {
		if w.lit && isName(strings.SplitN(w.text, "=", 2)[0]) && strings.Contains(w.text, "=") {
			continue
		}
		c.out = c.out.and(c.read(w, false))
	}
	if len(rest) == 0 {
		c.out = c.out.and(c.in)
	}
	c.out = c.out.unread()
}

// awkOption reads one option, and returns the index of its last word and whether
// it gives the program.
func (c *call) awkOption(i int) (int, bool) {
	w := c.args[i]
	t := w.text
	next := func() word {
		if i+1 < len(c.args) {
			i++
			return c.args[i]
		}
		return lit("")
	}
	switch {
	case t == "-F", t == "-v", t == "--field-separator", t == "--assign":
		next()
	case strings.HasPrefix(t, "-F"), strings.HasPrefix(t, "-v"), strings.HasPrefix(t, "--field-separator="), strings.HasPrefix(t, "--assign="):
	case in([]string{"--posix", "--re-interval", "-P", "--csv", "-b", "--version", "-V", "-c", "--traditional", "-S", "--sandbox"}, t):
	case t == "-f", t == "--file", t == "-E":
		c.progFile(next())
		return i, true
	case strings.HasPrefix(t, "-f"):
		w.text = t[2:]
		c.progFile(w)
		return i, true
	case t == "-e", t == "--source":
		c.awkProgram(next())
		return i, true
	default:
		c.badOption(&parsed{}, t)
	}
	return i, false
}

// progFile judges a program that is read from a file.
func (c *call) progFile(w word) {
	c.raise(Risky, "%s runs the program `%s`", c.by(), w.show())
	for _, p := range c.s.resolve(w.text) {
		c.operand(p)
		if f := c.s.readContent(p); f.net {
			c.raise(Critical, "%s runs `%s`, which was downloaded", c.by(), w.show())
		}
	}
	if w.psub != nil && w.psub.net {
		c.raise(Critical, "%s runs what `%s` downloaded", c.by(), w.psub.from)
	}
}

func (c *call) awkProgram(w word) {
	if !w.lit {
		c.raise(Risky, "%s is given a program that is only known when it runs", c.by())
		awkScan(c, w.sample)
		return
	}
	awkScan(c, w.text)
}

// awkScan goes through a program's tokens and raises for what does more than
// read and print. In awk a ">" in a print statement outside parentheses is a
// redirection, and elsewhere a comparison.
func awkScan(c *call, t string) {
	sc := awkScanner{c: c, t: t}
	sc.run()
	if sc.runs {
		c.code(t)
	}
}

type awkScanner struct {
	c     *call
	t     string
	i     int
	print bool // in a print statement
	paren int
	value bool // the last token ends a value, so "/" divides
	runs  bool
}

func (s *awkScanner) run() {
	for s.i < len(s.t) {
		b := s.t[s.i]
		switch {
		case b == ' ' || b == '\t' || b == '\r':
			s.i++
			continue
		case b == '\\':
			s.i = min(s.i+2, len(s.t))
			continue
		case b == '#':
			for s.i < len(s.t) && s.t[s.i] != '\n' {
				s.i++
			}
			continue
		case b == '"':
			s.str()
			s.value = true
			continue
		case b == '/' && !s.value:
			s.regex()
			s.value = true
			continue
		case b == '>' && s.print && s.paren == 0:
			s.redirect()
			continue
		case isWordByte(b):
			s.word()
			continue
		}
		s.mark(b)
		s.i++
	}
}

// mark reads a character that is a token by itself, or the start of one.
func (s *awkScanner) mark(b byte) {
	twice := s.i+1 < len(s.t) && s.t[s.i+1] == b
	switch b {
	case '@':
		s.ask("`%s` loads code or calls a function by a name in a variable", "@")
	case '|':
		if twice {
			s.i++
		} else {
			s.ask("`%s` runs a command through a pipe", "|")
		}
	case ';', '\n', '{', '}':
		s.print, s.paren = false, 0
	case '(':
		s.paren++
	case ')':
		s.paren--
	}
	s.value = b == ')' || b == ']' || b == '$'
	if (b == '+' || b == '-') && twice {
		s.i++
		s.value = true // x++ / 2 divides
	}
}

func isWordByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

func (s *awkScanner) ask(format, what string) {
	s.runs = true
	s.c.raise(Risky, "%s: "+format, s.c.by(), what)
}

func (s *awkScanner) word() {
	start := s.i
	for s.i < len(s.t) && isWordByte(s.t[s.i]) {
		s.i++
	}
	switch w := s.t[start:s.i]; w {
	case "print", "printf":
		s.print, s.paren, s.value = true, 0, false
	case "system":
		s.ask("`%s` runs a command", "system")
	case "getline":
		s.value = true
		s.getline()
	case "ENVIRON", "PROCINFO":
		if w == "ENVIRON" {
			s.c.raise(Risky, "%s reads environment variables, which may hold credentials", s.c.by())
			s.c.out.secret, s.c.out.from = true, s.c.name
		}
		s.value = true
	case "ARGV", "ARGC":
		s.c.raise(Risky, "%s may choose by itself which files it reads", s.c.by())
		s.value = true
	case "return", "in", "do", "else", "case":
		s.value = false
	default:
		s.value = true
	}
}

// getline < "file" reads a file.
func (s *awkScanner) getline() {
	j := s.i
	for j < len(s.t) && (isWordByte(s.t[j]) || s.t[j] == ' ' || s.t[j] == '$') {
		j++
	}
	if j >= len(s.t) || s.t[j] != '<' {
		return
	}
	j++
	for j < len(s.t) && s.t[j] == ' ' {
		j++
	}
	if j < len(s.t) && s.t[j] == '"' {
		s.i = j
		s.c.read(lit(s.str()), false)
		return
	}
	s.c.raise(Risky, "%s reads a file that is only known when it runs", s.c.by())
}

// redirect reads > "file" and >> "file".
func (s *awkScanner) redirect() {
	for s.i < len(s.t) && (s.t[s.i] == '>' || s.t[s.i] == ' ') {
		s.i++
	}
	if s.i < len(s.t) && s.t[s.i] == '"' {
		name := s.str()
		rest := strings.TrimLeft(s.t[min(s.i, len(s.t)):], " \t")
		if rest == "" || strings.IndexByte(";}\n)", rest[0]) >= 0 {
			s.c.write(lit(name))
			return
		}
	}
	s.c.raise(Risky, "%s writes to a file that is only known when it runs", s.c.by())
}

// str reads a string and returns it without its escapes.
func (s *awkScanner) str() string {
	start := s.i + 1
	for s.i++; s.i < len(s.t); s.i++ {
		if s.t[s.i] == '\\' {
			s.i++
			continue
		}
		if s.t[s.i] == '"' {
			break
		}
	}
	end := min(s.i, len(s.t))
	s.i = min(s.i+1, len(s.t))
	text := unescapeANSI(s.t[min(start, end):end])
	if strings.HasPrefix(text, "/") && s.c.s.secret(cleanPath(text)) {
		s.c.raise(Risky, "%s names `%s`, which may hold credentials", s.c.by(), clip(text, 60))
		s.c.out.secret, s.c.out.from = true, text
	}
	if strings.HasPrefix(text, "/inet") {
		s.ask("`%s` opens a connection", text)
		s.c.raise(Critical, "%s opens a connection to `%s`", s.c.by(), clip(text, 60))
	}
	return text
}

func (s *awkScanner) regex() {
	class := false
	for s.i++; s.i < len(s.t); s.i++ {
		switch b := s.t[s.i]; {
		case b == '\\':
			s.i++
		case b == '[':
			class = true
		case b == ']':
			class = false
		case b == '/' && class:
			s.ask("`%s` holds a slash in brackets, which some awks end it at", "a pattern")
		case b == '\n', b == '/' && !class:
			s.i++
			return
		}
	}
}
