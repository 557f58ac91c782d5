package policy

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxUnroll is how many turns of a loop over known words are judged one by one.
const maxUnroll = 32

func (s *scope) stmts(list []*syntax.Stmt, in flow) flow {
	out := flow{known: true}
	for i, st := range list {
		f := s.stmt(st, in)
		if i == 0 {
			out = f
		} else {
			out = out.and(f)
		}
		s.settle()
	}
	return out
}

func (s *scope) stmt(st *syntax.Stmt, in flow) flow {
	if !s.j.spend() {
		return flow{}
	}
	if s.j.depth++; s.j.depth > maxDepth {
		s.raise(Risky, "the command is nested too deeply to be judged whole")
		s.j.depth--
		return flow{}
	}
	defer func() { s.j.depth-- }()
	if st.Coprocess || st.Disown {
		s.raise(Risky, "a construct of another shell is used")
	}
	if st.Background {
		s = s.child()
	}
	if c, ok := st.Cmd.(*syntax.CallExpr); ok {
		s.segment(c)
	} else if len(st.Redirs) > 0 && s.j.nested == 0 {
		s.j.seg = 0
	}
	io := s.redirects(st.Redirs, in)
	var out flow
	if st.Cmd == nil {
		out = flow{known: true}
	} else {
		out = s.command(st.Cmd, io.in)
	}
	if st.Negated {
		s.settle()
	}
	return s.deliver(io, out)
}

// segment numbers a simple command by the order in which it is written.
func (s *scope) segment(n syntax.Node) {
	if s.j.nested > 0 {
		return
	}
	seg, ok := s.j.segs[n]
	if !ok {
		if s.j.segs == nil {
			s.j.segs = map[syntax.Node]int{}
		}
		s.j.nsegs++
		seg = s.j.nsegs
		s.j.segs[n] = seg
	}
	s.j.seg = seg
}

func (s *scope) command(cmd syntax.Command, in flow) flow {
	switch cmd := cmd.(type) {
	case *syntax.CallExpr:
		return s.callExpr(cmd, in)
	case *syntax.BinaryCmd:
		return s.binary(cmd, in)
	case *syntax.Subshell:
		return s.child().stmts(cmd.Stmts, in)
	case *syntax.Block:
		return s.stmts(cmd.Stmts, in)
	case *syntax.IfClause:
		return s.ifClause(cmd, in)
	case *syntax.WhileClause:
		return s.while(cmd, in)
	case *syntax.ForClause:
		return s.forClause(cmd, in)
	case *syntax.CaseClause:
		return s.caseClause(cmd, in)
	case *syntax.FuncDecl:
		return s.funcDecl(cmd)
	case *syntax.ArithmCmd:
		s.arithm(cmd.X)
	case *syntax.TestClause:
		s.segment(cmd)
		s.test(cmd.X)
	case *syntax.DeclClause:
		s.segment(cmd)
		s.declClause(cmd)
	case *syntax.LetClause:
		s.letClause(cmd)
	case *syntax.TimeClause:
		if cmd.Stmt != nil {
			return s.stmt(cmd.Stmt, in)
		}
	case *syntax.CoprocClause:
		s.raise(Risky, "`coproc` starts a command that goes on by itself")
		if cmd.Stmt != nil {
			s.child().stmt(cmd.Stmt, flow{})
		}
		return flow{}
	default:
		s.raise(Risky, "`%s` is not understood", clip(s.source(cmd), 60))
		return flow{}
	}
	return flow{known: true}
}

func (s *scope) binary(b *syntax.BinaryCmd, in flow) flow {
	switch b.Op {
	case syntax.Pipe, syntax.PipeAll:
		s.bombPipe(b)
		out := s.child().stmt(b.X, in)
		if !s.lastpipe {
			return s.child().stmt(b.Y, out)
		}
		before := s.child()
		out = s.stmt(b.Y, out)
		s.merge(before)
		return out
	}
	out := s.stmt(b.X, in)
	failed := s.failed
	if b.Op == syntax.OrStmt {
		if !leaves(b.Y) {
			s.settle()
		}
		failed = nil
	}
	s.failed = nil
	skipped := s.child()
	out = out.and(s.stmt(b.Y, in))
	s.failed = append(s.failed[:len(s.failed):len(s.failed)], failed...)
	if sameState(s, skipped) {
		return out
	}
	// cd a && b: when cd fails, what follows runs where the shell was before.
	if b.Op == syntax.OrStmt || !assumeSuccess(b) {
		s.merge(skipped)
	}
	return out
}

// assumeSuccess reports whether what follows X && Y may take Y as done.
func assumeSuccess(b *syntax.BinaryCmd) bool {
	c, ok := b.X.Cmd.(*syntax.CallExpr)
	return ok && !b.X.Negated && len(c.Args) > 0 && in([]string{"cd", "mkdir", "true", ":"}, plainText(c.Args[0])) && len(b.X.Redirs) == 0
}

func sameState(a, b *scope) bool {
	return a.shared && b.shared && a.cwdUnknown == b.cwdUnknown && len(a.cwds) == len(b.cwds) &&
		(len(a.cwds) == 0 || &a.cwds[0] == &b.cwds[0])
}

func (s *scope) ifClause(c *syntax.IfClause, in flow) flow {
	out := s.stmts(c.Cond, in)
	base := s.child()
	out = out.and(s.stmts(c.Then, in))
	other := base
	if c.Else != nil {
		if len(c.Else.Cond) > 0 {
			out = out.and(other.ifClause(c.Else, in))
		} else {
			out = out.and(other.stmts(c.Else.Then, in))
		}
	}
	s.merge(other)
	return out
}

func (s *scope) while(c *syntax.WhileClause, in flow) flow {
	before := s.child()
	var out flow
	for range 2 {
		out = s.stmts(c.Cond, in)
		out = out.and(s.stmts(c.Do, in))
	}
	s.merge(before)
	return out.lines()
}

func (s *scope) forClause(f *syntax.ForClause, in flow) flow {
	if f.Select {
		s.raise(Risky, "`select` waits for input")
	}
	switch l := f.Loop.(type) {
	case *syntax.CStyleLoop:
		before := s.child()
		s.arithm(l.Init)
		var out flow
		for range 2 {
			s.arithm(l.Cond)
			out = s.stmts(f.Do, in)
			s.arithm(l.Post)
		}
		s.merge(before)
		return out.lines()
	case *syntax.WordIter:
		return s.forWords(f, l, in)
	}
	s.raise(Risky, "a loop is not understood")
	return flow{}
}

func (s *scope) forWords(f *syntax.ForClause, l *syntax.WordIter, in flow) flow {
	items, every := s.words(l.Items), l.InPos.IsValid()
	if !every {
		items, every = lits(s.args...), s.argsKnown
	}
	known := every && len(items) <= maxUnroll
	for _, w := range items {
		known = known && w.lit && !w.glob
	}
	before := s.child()
	out := flow{known: true}
	if !known {
		v := s.loopValue(items)
		if !every {
			v = s.argsAll
		}
		for range 2 {
			s.assign(l.Name.Value, v)
			out = s.stmts(f.Do, in)
		}
		s.merge(before)
		return out.lines()
	}
	for _, w := range items {
		s.assign(l.Name.Value, variable{val: w.text, known: true, flow: w.flow})
		out = out.and(s.stmts(f.Do, in))
	}
	if len(items) == 0 {
		s.assign(l.Name.Value, variable{})
		s.stmts(f.Do, in)
	}
	s.merge(before)
	return out
}

// loopValue is what is known about a variable that runs over items.
func (s *scope) loopValue(items []word) variable {
	v := variable{class: class{num: true, noDash: true, inside: true}}
	for i, w := range items {
		c := w.class
		if w.lit && !w.glob {
			c = variable{val: w.text, known: true}.asClass()
		}
		if w.glob {
			c = s.globClass(w)
		} else if w.split {
			c = class{num: c.num, noDash: c.noDash}
		}
		if i == 0 {
			v.roots = c.roots
		}
		v.class = v.meet(c)
		v.flow = v.flow.with(w.flow)
		if w.glob {
			v.flow.names = v.flow.names || s.namesKeys(w)
		}
	}
	if len(items) == 0 {
		v.class = class{}
	}
	return v
}

// globClass is what is known about each path that a pattern matches.
func (s *scope) globClass(w word) class {
	if !w.lit {
		return class{}
	}
	p := strings.TrimPrefix(w.text, "./")
	c := class{noDash: !w.mayBeOption()}
	c.inside = p != "" && p[0] != '/' && p[0] != '.' && p[0] != '[' && p[0] != '\\' && !strings.Contains(p, "..") && !strings.Contains(p, "/.")
	if i := strings.LastIndexByte(w.text, '/'); i > 0 {
		c.roots = []string{globDir(w.pat)}
	}
	_, hits := s.expandGlob(w)
	for _, h := range hits {
		if strings.HasSuffix(w.pat, "/") && protectedFile(path.Base(h)) {
			continue // only directories match
		}
		c.inside = c.inside && s.placeOf(h) == placeWorkspace
	}
	return c
}

func (s *scope) caseClause(c *syntax.CaseClause, in flow) flow {
	s.word(c.Word)
	base := s.child()
	out := flow{known: true}
	for _, item := range c.Items {
		for _, p := range item.Patterns {
			s.word(p)
		}
		branch := base.child()
		out = out.and(branch.stmts(item.Stmts, in))
		s.merge(branch)
	}
	return out
}

func (s *scope) funcDecl(f *syntax.FuncDecl) flow {
	if f.Name == nil || f.Body == nil {
		s.raise(Risky, "a function without a name is declared")
		return flow{}
	}
	name := f.Name.Value
	s.own()
	fn := &function{body: f.Body}
	s.funcs[name] = fn
	if s.shadows(name) {
		s.raise(Risky, "declares a function `%s`, which replaces that command", name)
	}
	if s.j.sent {
		s.raise(Risky, "declares a function `%s`, which what is sent later may run", name)
	}
	if forksItself(f.Body, name) {
		s.raise(Forbidden, "`%s` starts copies of itself without end", name)
		return flow{known: true}
	}
	s.j.funcs = append(s.j.funcs, fn)
	return flow{known: true}
}

// uncalled judges the functions that nothing here calls: they still show what
// the command is for.
func (s *scope) uncalled() {
	for _, fn := range s.j.funcs {
		if fn.called {
			continue
		}
		fn.called = true
		body := s.child()
		body.argsKnown, body.args, body.argsAll = false, nil, variable{}
		fn.depth++
		body.stmt(fn.body, flow{})
		fn.depth--
	}
	s.endTraps()
}

// call runs a function's body with its arguments.
func (s *scope) call(name string, fn *function, args []word, in flow) flow {
	if fn.depth > 0 {
		if fn.depth == 1 {
			s.raise(Risky, "`%s` calls itself", name)
		}
		return flow{}
	}
	fn.called = true
	fn.depth++
	s.calls++
	defer func() { fn.depth--; s.calls-- }()
	savedArgs, savedKnown, savedAll := s.args, s.argsKnown, s.argsAll
	s.setArgs(args)
	out := s.stmt(fn.body, in)
	s.args, s.argsKnown, s.argsAll = savedArgs, savedKnown, savedAll
	return out
}

// bombPipe finds a script that pipes itself into itself.
func (s *scope) bombPipe(b *syntax.BinaryCmd) {
	if runsItself(b.X) && runsItself(b.Y) {
		s.raise(Forbidden, "the script starts copies of itself without end")
	}
}

// runsItself reports whether a statement's command is $0.
func runsItself(st *syntax.Stmt) bool {
	c, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || len(c.Args) == 0 || len(c.Args[0].Parts) != 1 {
		return false
	}
	p := c.Args[0].Parts[0]
	if q, ok := p.(*syntax.DblQuoted); ok && len(q.Parts) == 1 {
		p = q.Parts[0]
	}
	pe, ok := p.(*syntax.ParamExp)
	return ok && pe.Param != nil && pe.Param.Value == "0"
}

// forksItself reports whether a function's body runs the function again in the
// background, in a pipe or twice over.
func forksItself(body *syntax.Stmt, name string) bool {
	calls, forked := 0, false
	var inFork int
	var visit func(n syntax.Node) bool
	visit = func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			if n.Background && n.Cmd != nil {
				inFork++
				syntax.Walk(n.Cmd, visit)
				inFork--
				return false
			}
		case *syntax.BinaryCmd:
			if n.Op == syntax.Pipe || n.Op == syntax.PipeAll {
				inFork++
				syntax.Walk(n.X, visit)
				syntax.Walk(n.Y, visit)
				inFork--
				return false
			}
		case *syntax.CallExpr:
			if len(n.Args) > 0 && plainText(n.Args[0]) == name {
				calls++
				forked = forked || inFork > 0
			}
		}
		return true
	}
	syntax.Walk(body, visit)
	return forked || calls > 1
}

// plainText is a word's text with quotes and backslashes removed, when it is
// literal.
func plainText(w *syntax.Word) string {
	var b strings.Builder
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(strings.ReplaceAll(p.Value, "\\", ""))
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				if l, ok := q.(*syntax.Lit); ok {
					b.WriteString(l.Value)
				}
			}
		default:
			return ""
		}
	}
	return b.String()
}

// shadows reports whether a function of that name would replace a command.
func (s *scope) shadows(name string) bool { return s.j.p.knows(name) }
