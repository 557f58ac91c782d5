package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// runDecl judges export and its kin where they are ordinary commands: in sh, or
// after builtin and command.
func runDecl(c *call) {
	c.out = flow{known: true}
	operands, prints := 0, false
	for _, w := range c.args {
		if w.lit && len(w.text) > 1 && (w.text[0] == '-' || w.text[0] == '+') {
			c.declOption(w.text)
			prints = prints || strings.Contains(w.text, "p")
			continue
		}
		operands++
		c.declWord(w, c.name == "export")
		c.declPrints(w.text, prints)
	}
	if operands == 0 {
		c.declList()
	}
}

func (c *call) declList() {
	c.raise(Risky, "%s shows every variable, which may hold credentials", c.by())
	c.out = flow{secret: true, from: c.name}
}

// declPrints judges printing a variable, with declare -p.
func (c *call) declPrints(name string, prints bool) {
	if prints && secretName(name) {
		c.raise(Risky, "%s prints `%s`, which may hold a credential", c.by(), name)
		c.out = flow{secret: true, from: "$" + name}
	}
}

func (c *call) declOption(t string) {
	if strings.Trim(t[1:], "agrxlutpFfA") != "" || t[0] == '+' && t != "+x" {
		c.badOption(&parsed{}, t)
	}
}

// declWord judges name or name=value given as a word.
func (c *call) declWord(w word, export bool) {
	if !w.lit {
		name, val, ok := strings.Cut(w.tmpl, "=")
		if ok && isName(name) {
			_ = val
			c.s.assign(name, variable{exported: export, flow: w.flow})
			return
		}
		c.raise(Risky, "%s is given `%s`, whose name and subscript are only known when it runs", c.by(), w.show())
		return
	}
	name, val, ok := strings.Cut(w.text, "=")
	if !ok {
		c.s.ownGit = c.s.ownGit || !export && strings.HasPrefix(name, "GIT_")
		if c.s.nameOperand(w, c.name) && export {
			if v, set := c.s.vars[name]; set {
				v.exported = true
				c.s.setVar(name, v)
			}
		}
		return
	}
	add := strings.HasSuffix(name, "+")
	name = strings.TrimSuffix(name, "+")
	if !c.s.nameOperand(lit(name), c.name) {
		return
	}
	if !isName(name) {
		c.s.assignElement(name, w.flow)
		return
	}
	v := variable{val: val, known: true, exported: export, flow: w.flow}
	if add {
		if old := c.s.variable(name); old.known {
			v.val = old.val + val
		} else {
			v = variable{exported: export}
		}
	}
	c.s.assign(name, v)
}

// declClause judges export, declare and kin as bash parses them.
func (s *scope) declClause(d *syntax.DeclClause) {
	c := &call{s: s, name: d.Variant.Value}
	export := c.name == "export"
	for _, a := range d.Args {
		if a.Name == nil && a.Value != nil {
			if l := a.Value.Lit(); strings.HasPrefix(l, "-") && strings.Contains(l, "x") && c.name != "export" {
				export = true
			}
		}
	}
	operands := 0
	assoc := s.calls == 0 && declHas(d, "A")
	for _, a := range d.Args {
		if a.Name != nil && assoc {
			if _, had := s.vars[a.Name.Value]; !had {
				s.setVar(a.Name.Value, variable{assoc: true, nums: true})
			}
		}
		switch {
		case a.Name != nil && !a.Naked:
			operands++
			s.assignment(a, export)
			if isArithDecl(d) && a.Value != nil {
				s.arithmOperand(s.word(a.Value))
			}
		case a.Name != nil:
			operands++
			if a.Index != nil {
				s.arithm(a.Index)
			}
			c.declWord(lit(a.Name.Value), export)
			c.declPrints(a.Name.Value, declHas(d, "p"))
		case a.Value != nil:
			operands += c.declNaked(s.expandArg(nil, a.Value), export, len(d.Args) == 1)
		}
	}
	if operands == 0 && c.name != "local" {
		c.declList()
	}
}

// declNaked judges words of declare that are not plain assignments: options, or
// what expands to names. It returns how many of them name or list something.
func (c *call) declNaked(ws []word, export, alone bool) int {
	n := 0
	for _, w := range ws {
		if !w.lit || len(w.text) < 2 || (w.text[0] != '-' && w.text[0] != '+') {
			n++
			c.declWord(w, export)
			continue
		}
		c.declOption(w.text)
		if strings.ContainsAny(w.text, "fFp") {
			n++
		}
		if strings.Contains(w.text, "p") && alone {
			c.declList()
		}
	}
	return n
}

func isArithDecl(d *syntax.DeclClause) bool { return declHas(d, "i") }

// declHas reports whether a declaration is given an option's letter.
func declHas(d *syntax.DeclClause, letter string) bool {
	for _, a := range d.Args {
		if a.Name == nil && a.Value != nil {
			if l := a.Value.Lit(); strings.HasPrefix(l, "-") && strings.Contains(l, letter) {
				return true
			}
		}
	}
	return false
}

func runLet(c *call) {
	for _, w := range c.args {
		if !w.lit || w.glob {
			c.raise(Risky, "%s evaluates `%s`, which is only known when it runs", c.by(), w.show())
			continue
		}
		c.s.arithmText(w.text, 0)
	}
}
