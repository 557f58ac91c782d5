package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// redirections is where one statement's streams go.
type redirections struct {
	in    flow
	out   []target // where standard output goes instead of on
	toErr bool     // standard output goes to standard error
}

// target is a file that standard output is written to.
type target struct {
	path string // absolute, when known
	add  bool
	psub *syntax.ProcSubst
	net  bool
}

// redirects judges a statement's redirections.
func (s *scope) redirects(rs []*syntax.Redirect, in flow) redirections {
	io := redirections{in: in}
	for _, r := range rs {
		if r.N != nil && strings.HasPrefix(r.N.Value, "{") {
			name := strings.Trim(r.N.Value, "{}")
			if !isName(name) {
				s.raise(Risky, "a redirection evaluates the subscript in `%s`", clip(name, 60))
			} else {
				s.assign(name, variable{class: class{num: true, noDash: true}})
			}
		}
		s.redirect(&io, r)
	}
	return io
}

func (s *scope) redirect(io *redirections, r *syntax.Redirect) {
	fd := ""
	if r.N != nil {
		fd = r.N.Value
	}
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		if f := s.heredoc(r); fd == "" || fd == "0" {
			io.in = f
		}
	case syntax.WordHdoc:
		w := s.word(r.Word)
		if fd == "" || fd == "0" {
			io.in = s.asFlow(w, "\n")
		}
	case syntax.RdrIn:
		if f := s.redirIn(r); fd == "" || fd == "0" {
			io.in = f
		}
	case syntax.DplIn, syntax.DplOut:
		s.duplicate(io, r, fd)
	case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll, syntax.RdrInOut:
		t := s.redirOut(r)
		if fd == "" || fd == "1" || r.Op == syntax.RdrAll || r.Op == syntax.AppAll {
			io.out = append(io.out, t)
		} else if t.psub != nil {
			s.child().stmts(t.psub.Stmts, flow{})
		}
	default:
		s.raise(Risky, "a redirection of another shell is used")
	}
}

// heredoc is the stream that a here-document gives.
func (s *scope) heredoc(r *syntax.Redirect) flow {
	var w word
	if quotedWord(r.Word) {
		if r.Hdoc != nil {
			var b strings.Builder
			for _, p := range r.Hdoc.Parts {
				if l, ok := p.(*syntax.Lit); ok {
					b.WriteString(l.Value)
				}
			}
			w = lit(b.String())
		} else {
			w = lit("")
		}
	} else {
		w = s.hdoc(r.Hdoc)
	}
	if r.Op == syntax.DashHdoc && w.lit {
		lines := strings.Split(w.text, "\n")
		for i := range lines {
			lines[i] = strings.TrimLeft(lines[i], "\t")
		}
		w.text = strings.Join(lines, "\n")
	}
	return s.asFlow(w, "")
}

func quotedWord(w *syntax.Word) bool {
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.SglQuoted, *syntax.DblQuoted:
			return true
		case *syntax.Lit:
			if strings.Contains(p.Value, "\\") {
				return true
			}
		}
	}
	return false
}

// asFlow is the word as a stream.
func (s *scope) asFlow(w word, end string) flow {
	names := s.namesKeys(w)
	if w.flow.secret && strings.HasPrefix(w.flow.from, "$") {
		s.raise(Risky, "a here-document holds `%s`, which may be a credential", w.flow.from)
	}
	if w.lit {
		f := literal(w.text + end)
		f.net, f.secret, f.names, f.from = w.flow.net, w.flow.secret, names, w.flow.from
		return f
	}
	f := w.flow
	f.class, f.names = w.class, names
	// What is known of it is still worth reading as a script.
	f.text = w.tmpl + end
	return f
}

// redirIn judges < file and returns what it holds.
func (s *scope) redirIn(r *syntax.Redirect) flow {
	w := s.redirWord(r)
	if w.psub != nil {
		return *w.psub
	}
	if s.j.sent && (!w.lit || devicePath(w.text)) {
		s.raise(Risky, "a redirection may lead to what the shell is sent next")
	}
	if !w.lit || w.glob {
		return (&call{s: s, name: "<"}).read(w, false)
	}
	f := flow{}
	for _, p := range s.resolve(w.path()) {
		s.touch(p)
		f = s.readFile(p, false)
	}
	return f
}

// redirOut judges > file and its kin.
func (s *scope) redirOut(r *syntax.Redirect) target {
	t := target{add: r.Op == syntax.AppOut || r.Op == syntax.AppAll}
	before := len(s.pending)
	w := s.redirWord(r)
	if w.out && len(s.pending) > before {
		t.psub = s.pending[len(s.pending)-1]
		s.pending = s.pending[:before]
		return t
	}
	t.net = strings.HasPrefix(w.text, "/dev/tcp/") || strings.HasPrefix(w.text, "/dev/udp/")
	if p := s.writeTo(w, "a redirection"); len(p) == 1 {
		t.path = p[0]
	}
	return t
}

func (s *scope) redirWord(r *syntax.Redirect) word {
	ws := s.expandArg(nil, r.Word)
	if len(ws) != 1 {
		s.raise(Risky, "a redirection's target is only known when it runs")
		return word{tmpl: unknownVar, sample: "x"}
	}
	w := ws[0]
	if w.lit {
		return w
	}
	switch to, net := deviceTCP(w.text); {
	case net:
		s.raise(Critical, "a redirection opens a connection to `%s`", clip(to, 80))
	case strings.HasPrefix(w.text, "/dev/"):
		s.raise(Risky, "a redirection leads to the device `%s`", w.show())
	}
	return w
}

// deviceTCP is what follows bash's names for connections.
func deviceTCP(t string) (to string, ok bool) {
	if to, ok = strings.CutPrefix(t, "/dev/tcp/"); !ok {
		to, ok = strings.CutPrefix(t, "/dev/udp/")
	}
	return to, ok
}

// duplicate judges >&n, <&n and >& file.
func (s *scope) duplicate(io *redirections, r *syntax.Redirect, fd string) {
	ws := s.expandArg(nil, r.Word)
	if len(ws) != 1 {
		s.raise(Risky, "a redirection's target is only known when it runs")
		return
	}
	w := ws[0]
	if w.num || (w.lit && w.text != "" && strings.Trim(strings.TrimSuffix(w.text, "-"), "0123456789") == "") {
		if r.Op == syntax.DplOut && (fd == "" || fd == "1") && w.is("2") {
			io.toErr = true
		}
		if r.Op == syntax.DplIn && s.j.sent && !w.is("-") {
			s.raise(Risky, "a redirection may lead to what the shell is sent next")
		}
		if r.Op == syntax.DplIn && (fd == "" || fd == "0") && !w.is("0") {
			io.in = flow{}
			if w.is("-") {
				io.in = flow{none: true}
			}
		}
		return
	}
	if r.Op == syntax.DplIn {
		s.raise(Risky, "a redirection's target is only known when it runs")
		return
	}
	t := target{net: strings.HasPrefix(w.text, "/dev/tcp/") || strings.HasPrefix(w.text, "/dev/udp/")}
	if p := s.writeTo(w, "a redirection"); len(p) == 1 {
		t.path = p[0]
	}
	io.out = append(io.out, t)
}

// deliver passes a statement's output on to where it was redirected.
func (s *scope) deliver(io redirections, out flow) flow {
	for _, p := range s.takePending() {
		s.child().stmts(p.Stmts, out.and(io.in).unreadKeepText())
	}
	if len(io.out) == 0 {
		if io.toErr {
			return flow{known: true}
		}
		return out
	}
	for i, t := range io.out {
		f := out
		if i < len(io.out)-1 {
			f = flow{known: true}
		}
		switch {
		case t.psub != nil:
			s.child().stmts(t.psub.Stmts, f)
		case t.net:
			s.sends(f, "a redirection to the network")
		default:
			s.setFile(t.path, f, t.add)
		}
	}
	return flow{known: true}
}

func (s *scope) takePending() []*syntax.ProcSubst {
	p := s.pending
	s.pending = nil
	return p
}

// unreadKeepText keeps the text, which something may pass on unchanged.
func (f flow) unreadKeepText() flow {
	f.none = false
	return f
}

// sends judges sending a stream out.
func (s *scope) sends(f flow, how string) {
	switch {
	case f.secret:
		s.raise(Critical, "%s sends out what `%s` read, which may hold credentials", how, f.from)
	case f.shell:
		s.raise(Critical, "%s gives `%s` to the other side", how, f.from)
	}
}
