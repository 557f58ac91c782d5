package policy

import "strings"

// runEnv judges env: assignments, -S's own splitting, the command.
func runEnv(c *call, _ *spec, _ parsed) {
	args := append([]word(nil), c.args...)
	s := c.s.child()
	c.s = s
	for len(args) > 0 {
		w := args[0]
		t := w.text
		if !w.lit && !strings.Contains(w.prefix, "=") {
			if w.mayBeOption() || w.split {
				c.raise(Risky, "%s is given `%s`, which may be an option or an assignment", c.by(), w.show())
			}
			break
		}
		if i := strings.IndexByte(t, '='); i > 0 && t[0] != '-' {
			c.envAssign(w, i)
			args = args[1:]
			continue
		}
		if len(t) < 2 || t[0] != '-' {
			if t == "-" {
				s.dropEnv()
				args = args[1:]
				continue
			}
			break
		}
		var ok bool
		if args, ok = c.envOption(args); !ok {
			break
		}
	}
	c.silent = true
	if len(args) == 0 {
		c.silent = false
		c.raise(Risky, "%s shows every environment variable, which may hold credentials", c.by())
		c.out = flow{secret: true, from: c.name}
		return
	}
	c.inner(args)
}

func (c *call) envAssign(w word, i int) {
	name := w.text[:i]
	v := variable{val: w.text[i+1:], known: w.lit, exported: true, flow: w.flow}
	if !isName(name) {
		c.raise(Risky, "%s sets `%s`, which is no plain variable", c.by(), clip(name, 60))
		if strings.HasPrefix(name, "BASH_FUNC_") {
			c.raise(Critical, "%s replaces the command `%s`", c.by(), clip(name, 60))
		}
		return
	}
	c.s.assign(name, v)
}

func (s *scope) dropEnv() {
	s.ownGit = true
	s.own()
	clear(s.vars)
}

// envOption reads one option of env, and reports whether options may follow.
func (c *call) envOption(args []word) ([]word, bool) {
	t := args[0].text
	args = args[1:]
	next := func() word {
		if len(args) == 0 {
			return lit("")
		}
		w := args[0]
		args = args[1:]
		return w
	}
	name, val, attached := strings.Cut(t, "=")
	switch {
	case t == "--":
		return args, false
	case strings.HasPrefix(name, "--"):
		switch {
		case strings.HasPrefix("--ignore-environment", name) && len(name) > 9:
			c.s.dropEnv()
		case strings.HasPrefix("--unset", name) && len(name) > 2:
			w := lit(val)
			if !attached {
				w = next()
			}
			c.envUnset(w)
		case strings.HasPrefix("--chdir", name) && len(name) > 2:
			w := lit(val)
			if !attached {
				w = next()
			}
			c.envChdir(w)
		case strings.HasPrefix("--split-string", name) && len(name) > 2:
			w := lit(val)
			if !attached {
				w = next()
			}
			return c.envSplit(w, args), true
		case name == "--null", name == "--debug", name == "--list-signal-handling", strings.HasPrefix(name, "--block-signal"), strings.HasPrefix(name, "--default-signal"), strings.HasPrefix(name, "--ignore-signal"):
		default:
			c.badOption(&parsed{}, t)
			c.suspicious(append(lits("env"), args...))
		}
		return args, true
	}
	for k := 1; k < len(t); k++ {
		rest := lit(t[k+1:])
		switch t[k] {
		case 'i':
			c.s.dropEnv()
		case '0', 'v':
		case 'u', 'C', 'S', 'P':
			if rest.text == "" {
				rest = next()
			}
			switch t[k] {
			case 'u':
				c.envUnset(rest)
			case 'C':
				c.envChdir(rest)
			case 'S':
				return c.envSplit(rest, args), true
			case 'P':
				c.raise(Risky, "%s sets where the command is found", c.by())
			}
			return args, true
		default:
			c.badOption(&parsed{}, t)
			c.suspicious(append(lits("env"), args...))
			return args, true
		}
	}
	return args, true
}

func (c *call) envUnset(w word) {
	c.s.ownGit = c.s.ownGit || !w.lit || strings.HasPrefix(w.text, "GIT_")
	if what := specialVar(w.text); what != "" && w.lit {
		if what == "" || w.text == "HOME" || w.text == "PATH" {
			c.raise(Risky, "%s removes `%s`, which changes %s", c.by(), w.text, what)
		}
	}
	c.s.own()
	delete(c.s.vars, w.text)
}

func (c *call) envChdir(w word) {
	sub := &call{s: c.s, name: "cd", args: []word{w}}
	runCd(sub)
}

// envSplit splits the text of -S as env does, and puts it before the rest.
func (c *call) envSplit(w word, rest []word) []word {
	if !w.lit {
		c.raise(Risky, "%s splits text that is only known when it runs", c.by())
		c.s.worst(w.script(), c.by())
		return append([]word{{tmpl: unknownVar, sample: "x", split: true}}, rest...)
	}
	// A shell would read more into the text than env does: the worse counts.
	c.s.runScript(w.text, scriptOpts{what: c.by()})
	f, err := c.s.j.p.parse("x "+strings.ReplaceAll(strings.ReplaceAll(w.text, "\\_", " "), "\\c", "#"), ShellSh)
	if err != nil || len(f.Stmts) == 0 {
		c.raise(Risky, "%s splits text that is not understood: `%s`", c.by(), w.show())
		return rest
	}
	var out []word
	for _, field := range splitQuoted(w.text) {
		if strings.Contains(field, "${") {
			out = append(out, word{tmpl: unknownVar, sample: "x"})
			continue
		}
		out = append(out, lit(field))
	}
	return append(out, rest...)
}

// splitQuoted splits text at blanks outside quotes, and removes the quotes.
func splitQuoted(t string) []string {
	var out []string
	var b strings.Builder
	have := false
	var quote byte
	for i := 0; i < len(t); i++ {
		ch := t[i]
		switch {
		case quote != 0 && ch == quote:
			quote = 0
		case quote == 0 && (ch == '\'' || ch == '"'):
			quote, have = ch, true
		case ch == '\\' && quote != '\'' && i+1 < len(t):
			i++
			have = true
			switch t[i] {
			case '_':
				if quote == 0 {
					out, have = append(out, b.String()), false
					b.Reset()
				} else {
					b.WriteByte(' ')
				}
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			default:
				b.WriteByte(t[i])
			}
		case quote == 0 && (ch == ' ' || ch == '\t' || ch == '\n'):
			if have {
				out, have = append(out, b.String()), false
				b.Reset()
			}
		default:
			b.WriteByte(ch)
			have = true
		}
	}
	if have {
		out = append(out, b.String())
	}
	return out
}
