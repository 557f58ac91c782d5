package policy

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// arithm judges an arithmetic expression. Bash evaluates the content of the
// variables in it as expressions too, and runs the substitutions in their
// subscripts, so every name must be known to hold a number.
func (s *scope) arithm(x syntax.ArithmExpr) {
	switch x := x.(type) {
	case nil:
	case *syntax.Word:
		if x != nil {
			s.arithmWord(x)
		}
	case *syntax.ParenArithm:
		s.arithm(x.X)
	case *syntax.UnaryArithm:
		s.arithm(x.X)
		if x.Op == syntax.Inc || x.Op == syntax.Dec {
			s.arithmAssign(x.X)
		}
	case *syntax.BinaryArithm:
		if isArithmAssign(x.Op) {
			if x.Op != syntax.Assgn {
				s.arithm(x.X)
			}
			s.arithm(x.Y)
			s.arithmAssign(x.X)
			return
		}
		s.arithm(x.X)
		s.arithm(x.Y)
	default:
		s.raise(Risky, "an arithmetic expression is not understood")
	}
}

func isArithmAssign(op syntax.BinAritOperator) bool {
	switch op {
	case syntax.Assgn, syntax.AddAssgn, syntax.SubAssgn, syntax.MulAssgn, syntax.QuoAssgn, syntax.RemAssgn,
		syntax.AndAssgn, syntax.OrAssgn, syntax.XorAssgn, syntax.ShlAssgn, syntax.ShrAssgn:
		return true
	}
	return false
}

func (s *scope) arithmAssign(x syntax.ArithmExpr) {
	w, ok := x.(*syntax.Word)
	if !ok {
		return
	}
	if name := w.Lit(); isName(name) {
		s.assign(name, variable{class: class{num: true, noDash: true}})
		return
	}
	// An array element: its subscript was judged when it was read.
	for _, p := range w.Parts {
		if pe, ok := p.(*syntax.ParamExp); ok && pe.Index != nil {
			s.arithm(pe.Index)
			if pe.Param == nil {
				continue
			}
			if old := s.variable(pe.Param.Value); !old.set || old.num {
				s.assign(pe.Param.Value, variable{assoc: old.assoc, class: class{num: true, noDash: true}})
				continue
			}
			s.assignElement(pe.Param.Value+"[", flow{})
		}
	}
}

func (s *scope) arithmWord(w *syntax.Word) {
	if l := w.Lit(); l != "" {
		s.arithmText(l, 0)
		return
	}
	for _, p := range w.Parts {
		if pe, ok := p.(*syntax.ParamExp); ok && !pe.Dollar.IsValid() && pe.Index != nil {
			s.arithm(pe.Index) // arr[i] without a dollar
			s.arithmElement(pe.Param)
			continue
		}
		v := s.pieces(nil, []syntax.WordPart{p}, false, false)
		for _, pc := range v {
			s.arithmPiece(pc)
		}
	}
}

// arithmElement judges evaluating an element of an array, whose content is an
// expression too.
func (s *scope) arithmElement(array *syntax.Lit) {
	if array == nil {
		return
	}
	v := s.variable(array.Value)
	if v.list != nil {
		for _, e := range v.list {
			s.arithmText(e, 0)
		}
		return
	}
	if (v.set || s.j.sent) && !v.num {
		s.raise(Risky, "arithmetic evaluates the content of `%s`, which is not known to be a number and can run commands", array.Value)
	}
}

func (s *scope) arithmPiece(p piece) {
	switch {
	case p.unknown && (p.num || p.sum):
	case p.unknown:
		s.raise(Risky, "arithmetic evaluates a value that is not known to be a number, which can run commands")
	default:
		s.arithmText(p.text, 0)
	}
}

// arithmText checks text that is evaluated as an expression.
func (s *scope) arithmText(t string, depth int) {
	t = strings.TrimSpace(t)
	if t == "" || depth > 8 {
		return
	}
	if _, err := strconv.ParseInt(t, 0, 64); err == nil {
		return
	}
	if strings.ContainsAny(t, "[$`") {
		s.raise(Risky, "arithmetic evaluates `%s`, whose subscript or substitution can run commands", clip(t, 60))
		return
	}
	names := strings.FieldsFunc(t, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if strings.Contains(t, "=") || strings.Contains(t, "++") || strings.Contains(t, "--") {
		// It may set what it names.
		defer func() {
			for _, name := range names {
				if old := s.variable(name); isName(name) && (old.known || specialVar(name) != "") {
					s.assign(name, variable{flow: old.flow, exported: old.exported})
				}
			}
		}()
	}
	for _, name := range names {
		if !isName(name) {
			continue
		}
		v := s.variable(name)
		switch {
		case v.num:
		case v.known:
			s.arithmText(v.val, depth+1)
		case v.set || len(v.list) > 0 || v.flow.secret || s.j.sent:
			s.raise(Risky, "arithmetic evaluates the content of `%s`, which is not known to be a number and can run commands", name)
		}
	}
}

// test judges [[ … ]].
func (s *scope) test(x syntax.TestExpr) {
	switch x := x.(type) {
	case *syntax.Word:
		s.word(x)
	case *syntax.ParenTest:
		s.test(x.X)
	case *syntax.UnaryTest:
		switch x.Op {
		case syntax.TsVarSet, syntax.TsRefVar:
			if w, ok := x.X.(*syntax.Word); ok {
				s.nameOperand(s.word(w), "[[ -v")
				return
			}
		}
		s.test(x.X)
	case *syntax.BinaryTest:
		switch x.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			for _, side := range []syntax.TestExpr{x.X, x.Y} {
				if w, ok := side.(*syntax.Word); ok {
					s.arithmOperand(s.word(w))
				}
			}
			return
		}
		s.test(x.X)
		s.test(x.Y)
	}
}

func (s *scope) arithmOperand(w word) {
	switch {
	case w.lit:
		s.arithmText(w.text, 0)
	case w.num:
	default:
		s.raise(Risky, "`[[` evaluates a value that is not known to be a number as arithmetic, which can run commands")
	}
}

// nameOperand checks an operand that a builtin takes as a variable's name: a
// subscript in it is evaluated, and runs the substitutions in it.
func (s *scope) nameOperand(w word, what string) bool {
	if w.lit && isName(w.text) {
		return true
	}
	if w.lit && subscriptOK(w.text) {
		return true
	}
	s.raise(Risky, "`%s` takes `%s` as a variable's name, and evaluates the subscript in it", what, w.show())
	return false
}

// subscriptOK accepts name[123], name[@] and name[word].
func subscriptOK(t string) bool {
	i := strings.IndexByte(t, '[')
	if i < 0 || !isName(t[:i]) || !strings.HasSuffix(t, "]") {
		return false
	}
	in := t[i+1 : len(t)-1]
	if in == "@" || in == "*" {
		return true
	}
	_, err := strconv.Atoi(in)
	return err == nil
}

// letClause judges let. The parser takes its words for arithmetic, operators and all;
// bash reads words first, so that an operator outside quotes ends the command, sends
// its output somewhere or is a pattern.
func (s *scope) letClause(c *syntax.LetClause) {
	for _, x := range c.Exprs {
		s.arithm(x)
		syntax.Walk(x, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.ParenArithm:
				s.letOperator(c)
			case *syntax.BinaryArithm:
				if in([]string{"&&", "||", "&", "|", "<", ">", "<=", ">=", "<<", ">>", "*", "**", "?", "&=", "|=", "<<=", ">>=", "*=", "^^"}, n.Op.String()) {
					s.letOperator(c)
				}
			case *syntax.Word, *syntax.CmdSubst:
				return false
			}
			return true
		})
	}
}

func (s *scope) letOperator(c *syntax.LetClause) {
	s.raise(Risky, "`let` is given an operator outside quotes, which the shell takes for its own")
	if text, ok := strings.CutPrefix(s.source(c), "let"); ok {
		s.worst(":"+text, "`let`")
	}
}
