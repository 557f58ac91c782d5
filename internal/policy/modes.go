package policy

import "strings"

// runChmod reads its own options: a mode such as -x looks like one.
func runChmod(c *call, _ *spec, _ parsed) {
	var ops []word
	deep, modeSeen, options := false, false, true
	for _, w := range c.args {
		t := w.text
		switch {
		case !w.lit || !options || len(t) < 2 || t[0] != '-':
			if !w.lit && w.mayBeOption() {
				c.raise(Risky, "`%s` may add an option to %s that is only known when it runs", w.show(), c.by())
			}
			ops = append(ops, w)
		case t == "--":
			options = false
		case strings.Trim(t[1:], "rwxXstugo") == "" && !modeSeen && t != "-o":
			ops, modeSeen = append(ops, w), true
		case strings.Trim(t[1:], "Rcfv") == "":
			deep = deep || strings.Contains(t, "R")
		case strings.HasPrefix("--recursive", t) && len(t) > 4:
			deep = true
		case t == "--changes", t == "--silent", t == "--quiet", t == "--verbose", t == "--preserve-root", t == "--help", t == "--version":
		case strings.HasPrefix(t, "--reference="):
			ops = append([]word{lit("0")}, ops...)
		default:
			c.badOption(&parsed{}, t)
		}
	}
	if len(ops) == 0 {
		return
	}
	c.modeTier(ops[0])
	c.closes(ops[0], ops[1:], deep)
	c.change(ops[1:], deep)
}

// closes raises for a mode without which nobody gets into a directory.
func (c *call) closes(mode word, ops []word, deep bool) {
	m := mode.text
	octal := isNumber(m)
	who, bits, symbolic := strings.Cut(m, "-")
	switch {
	case !mode.lit:
		return
	case octal && (len(m) < 3 || (m[len(m)-3]-'0')&1 == 1):
		return
	case !octal && !(symbolic && strings.Contains(bits, "x") && !strings.ContainsAny(who, "go+=") && !strings.ContainsAny(bits, "+=")):
		if !strings.Contains(m, "=") || strings.ContainsAny(m, "xX") || strings.HasPrefix(m, "g") || strings.HasPrefix(m, "o") {
			return
		}
	}
	for _, w := range ops {
		for _, p := range c.s.resolve(w.path()) {
			f, known := c.s.j.facts.Files[p]
			if c.s.isDir(p) || deep || !known && !octal || known && f.Exists && f.IsDir {
				c.raise(Risky, "%s may close the directory `%s`", c.by(), c.s.rel(p))
			}
		}
	}
}

// modeTier judges a file mode: set-uid and set-gid bits give power away.
func (c *call) modeTier(m word) {
	if !m.lit {
		c.raise(Risky, "%s sets a mode that is only known when it runs", c.by())
		return
	}
	if isNumber(m.text) && (len(m.text) < 3 || m.text[len(m.text)-3] < '4') {
		c.raise(Risky, "%s takes the owner's own access away", c.by())
	}
	if i := strings.IndexByte(m.text, '-'); i >= 0 && strings.Contains(m.text[i:], "r") && !strings.Contains("go", strings.Trim(m.text[:i], " ")) || strings.HasPrefix(m.text, "-r") {
		c.raise(Risky, "%s takes the owner's own access away", c.by())
	}
	digits := strings.TrimLeft(m.text, "0=+-")
	if strings.Trim(m.text, "01234567=+-") == "" && len(digits) >= 4 && strings.IndexByte("2467", digits[0]) >= 0 {
		c.raise(Critical, "%s sets the set-uid or set-gid bit", c.by())
		return
	}
	if strings.ContainsAny(m.text, "+=") && strings.Contains(m.text[strings.IndexAny(m.text, "+="):], "s") {
		c.raise(Critical, "%s sets the set-uid or set-gid bit", c.by())
	}
}

// change judges changing the mode or owner of paths.
func (c *call) change(ops []word, deep bool) {
	for _, w := range ops {
		paths, known := c.s.targets(w)
		if !known {
			c.raise(Risky, "%s changes `%s`, which is only known when it runs", c.by(), w.show())
		}
		for _, p := range paths {
			c.s.touch(p)
			pl := c.s.placeOf(p)
			switch {
			case pl == placeSystemTop || (deep && pl == placeKernel):
				if deep {
					c.raise(Forbidden, "%s changes everything below `%s`", c.by(), p)
				} else {
					c.raise(Critical, "%s changes `%s`", c.by(), p)
				}
			case deep && (pl == placeHome || pl == placeAbove || pl == placeSystem):
				c.raise(Critical, "%s changes everything below `%s`", c.by(), p)
			case deep && pl == placeRoot:
				c.raise(Risky, "%s changes everything in the workspace, protected files too", c.by())
			default:
				c.s.writePlace(p, c.by())
			}
		}
		if w.glob && deep {
			for _, p := range c.s.resolve(w.pat) {
				c.s.removeAll(p, c.by())
			}
		}
	}
}

func runOwner(c *call, _ *spec, p parsed) {
	c.raise(Risky, "%s changes who may use files", c.by())
	if len(p.operands) > 1 {
		c.change(p.operands[1:], p.has("-R"))
	}
}
