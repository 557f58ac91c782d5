package policy

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// runCd judges cd and pushd: where the shell is afterwards, and where it is if
// the change fails.
func runCd(c *call) {
	args := c.args
	physical, stay := false, false
	for len(args) > 0 && args[0].is("-P", "-L", "-e", "-@", "-n") {
		physical = physical || args[0].is("-P")
		stay = stay || args[0].is("-n") && c.name == "pushd"
		args = args[1:]
	}
	if len(args) > 0 && args[0].is("--") {
		args = args[1:]
	}
	s := c.s
	c.out = flow{known: true}
	if s.j.sent {
		c.sentCd(append(args, word{})[0])
	}
	if stay {
		s.pushOnly(args)
		return
	}
	if c.name == "pushd" && !s.push(len(args) > 0 && !(args[0].lit && strings.HasPrefix(args[0].text, "+")) && !(len(args[0].text) > 1 && args[0].text[0] == '-')) {
		return
	}
	if len(args) == 0 {
		if home := s.variable("HOME"); home.known {
			s.setCwd(home.val)
		} else {
			s.loseCwd()
		}
		return
	}
	w := args[0]
	if w.is("-") {
		if _, set := s.vars["OLDPWD"]; s.oldpwd != "" && !set {
			s.setCwd(s.oldpwd)
		} else {
			s.loseCwd()
		}
		return
	}
	if physical && w.lit && throughDir(w.text) {
		s.loseCwd() // ".." leads out of where a link goes
		return
	}
	s.changeTo(w)
	for _, p := range s.cwds {
		if !s.cwdUnknown && s.placeOf(p) == placeKeys {
			c.raise(Risky, "%s goes to `%s`, where credentials are kept", c.by(), p)
		}
	}
}

// changeTo moves to where a word leads.
func (s *scope) changeTo(w word) {
	before, unknown := s.cwds, s.cwdUnknown
	if !w.lit || w.glob || strings.HasPrefix(w.text, "+") {
		if w.flat && !s.cwdUnknown {
			if p := s.resolve(w.path()); len(p) == 1 && s.inWorkspace(p[0]) {
				anyDir := s.anyOf(w)
				s.setCwd(p[0])
				s.anyDir, s.failed = anyDir, before
				return
			}
		}
		s.loseCwd()
		return
	}
	paths := s.resolve(w.text)
	if len(paths) == 0 {
		s.loseCwd()
		return
	}
	sure, anyDir := true, s.anyDir
	for _, p := range paths {
		s.touch(p)
		sure = sure && s.isDir(p)
	}
	s.setCwd(paths[0])
	if to := path.Join(anyDir, w.text); anyDir != "" && !path.IsAbs(w.text) && strings.Contains(to, "*") {
		s.anyDir = to
	}
	for _, p := range paths[1:] {
		s.addCwd(p)
	}
	if !sure && !unknown {
		s.failed = before
		s.unsure = true
	}
}

// anyOf is a pattern for the places that a word that is not known may stand for.
func (s *scope) anyOf(w word) string {
	pat := strings.ReplaceAll(w.tmpl, unknownVar, "*")
	if len(w.roots) == 1 {
		pat = path.Join(w.roots[0], "*")
	}
	if p := s.resolve(pat); len(p) > 0 {
		return p[0]
	}
	return ""
}

// isDir reports whether a directory is known to be there: by facts, because
// this command made it, or because the shell is in it.
func (s *scope) isDir(p string) bool {
	if f, ok := s.j.facts.Files[p]; ok {
		return f.Exists && f.IsDir || !f.Exists && s.j.made[p]
	}
	if p == "/" || p == s.j.env.Workspace || p == s.j.env.Home || s.j.made[p] {
		return true
	}
	for _, c := range s.cwds {
		if c != p && !strings.HasPrefix(c, p+"/") {
			return false
		}
	}
	return len(s.cwds) > 0
}

// settle counts in that the last change of directory may have failed.
func (s *scope) settle() {
	for _, c := range s.failed {
		s.addCwd(c)
	}
	s.failed = nil
}

// leaves reports whether a statement ends the script, the function or the turn
// of a loop.
func leaves(st *syntax.Stmt) bool {
	switch c := st.Cmd.(type) {
	case *syntax.CallExpr:
		return len(c.Args) > 0 && in([]string{"exit", "return"}, plainText(c.Args[0]))
	case *syntax.Block:
		return len(c.Stmts) > 0 && leaves(c.Stmts[len(c.Stmts)-1])
	}
	return false
}

// push remembers where the shell is, and reports whether it goes on from there.
func (s *scope) push(to bool) bool {
	if !to || len(s.cwds) != 1 || s.cwdUnknown {
		s.dirs = nil
		s.loseCwd()
		return to
	}
	s.dirs = append(s.dirs[:len(s.dirs):len(s.dirs)], s.cwds[0])
	return true
}

// pushOnly is pushd -n, which changes what popd goes to and nothing else.
func (s *scope) pushOnly(args []word) {
	if len(args) == 1 && args[0].lit && !strings.HasPrefix(args[0].text, "+") {
		if p := s.resolve(args[0].text); len(p) == 1 {
			s.dirs = append(s.dirs[:len(s.dirs):len(s.dirs)], p[0])
			s.unsure = true
			return
		}
	}
	s.dirs = nil
}

func runPopd(c *call) {
	s := c.s
	n := len(s.dirs)
	if _, set := s.vars["DIRSTACK"]; n == 0 || len(c.args) > 0 || set {
		s.dirs = nil
		s.loseCwd()
		return
	}
	before := s.cwds
	s.setCwd(s.dirs[n-1])
	if s.unsure {
		for _, d := range s.dirs[:n-1] {
			s.addCwd(d)
		}
		if n > 1 {
			s.failed = before
		}
	}
	s.dirs = s.dirs[:n-1]
}

// throughDir reports whether a path goes up again after a named component,
// which may be a link to elsewhere.
func throughDir(p string) bool {
	named := false
	for _, part := range strings.Split(p, "/") {
		switch part {
		case "", ".":
		case "..":
			if named {
				return true
			}
		default:
			named = true
		}
	}
	return false
}

// throughLink raises for a path that goes up again after a named component,
// unless facts say that the component is no link.
func (s *scope) throughLink(p, by string) {
	if !throughDir(p) {
		return
	}
	for _, cwd := range append([]string{""}, s.cwds...) {
		if strings.HasPrefix(p, "/") != (cwd == "") {
			continue
		}
		at := cwd
		for _, part := range strings.Split(p, "/") {
			switch part {
			case "", ".":
				continue
			case "..":
				if f, ok := s.j.facts.Files[at]; at != cwd && at != "" && (!ok || f.Exists && f.Resolved != at) {
					s.touch(at)
					if !s.j.made[at] || ok {
						s.raise(Risky, "%s goes through `%s` and up again, which may be a link to elsewhere", by, s.rel(at))
						return
					}
				}
				at = path.Dir(at)
			default:
				at += "/" + part
			}
		}
	}
}

// trapped is a trap's body, and the shell as it was when it was set.
type trapped struct {
	body word
	at   *scope
	name string
}

// runTrap judges trap: its body at once, and at the end with what has changed
// since.
func runTrap(c *call) {
	args := c.args
	for len(args) > 0 && args[0].is("-p", "-l", "--") {
		args = args[1:]
	}
	if len(args) < 2 {
		return
	}
	c.silent = true
	if args[0].is("", "-") {
		return
	}
	c.midwayTrap(args[0], args[1:])
	if len(c.s.j.traps) < maxListed {
		c.s.j.traps = append(c.s.j.traps, trapped{body: args[0], at: c.s.child(), name: c.name})
	}
}

// midwayTrap judges a trap's body where it is set. One for anything but the end
// may run between any two commands that follow, so what it changes may hold.
func (c *call) midwayTrap(body word, signals []word) {
	s := c.s
	after := s.child()
	after.shellTrap(c, body)
	for _, w := range signals {
		if w.is("EXIT", "0") {
			continue
		}
		s.unsettle(after)
		return
	}
}

// unsettle makes what a trap changes unknown from here on: it may change it
// again at any time.
func (s *scope) unsettle(after *scope) {
	j := s.j
	for name, v := range after.vars {
		old, ok := s.vars[name]
		if ok && old.known && v.known && old.val == v.val {
			continue
		}
		if j.unsure == nil {
			j.unsure = map[string]flow{}
		}
		j.unsure[name] = j.unsure[name].with(old.flow).with(v.flow)
	}
	for name, fn := range after.funcs {
		if s.funcs[name] != fn {
			s.raise(Risky, "a trap declares the function `%s`", clip(name, 60))
		}
	}
	if after.cwdUnknown != s.cwdUnknown || !slices.Equal(after.cwds, s.cwds) {
		j.astray = true
		s.loseCwd()
	}
}

// endTraps judges the traps with what was assigned after they were set, in any
// directory that the shell went to.
func (s *scope) endTraps() {
	traps := s.j.traps
	s.j.traps = nil
	for _, t := range traps {
		if len(s.j.later) == 0 && !s.j.moved {
			return
		}
		end := s.child()
		end.merge(t.at.child())
		for name, v := range s.j.later {
			old, had := t.at.vars[name]
			if had {
				v = variable{set: true, flow: old.flow.with(v.flow), class: old.asClass().meet(v.asClass())}
			}
			end.own()
			end.vars[name] = v
		}
		if s.j.moved {
			end.loseCwd()
		}
		end.shellTrap(&call{s: end, name: t.name}, t.body)
	}
}

// afterTrap notes what changes once a trap is set.
func (j *judge) afterTrap(name string, v variable) {
	if len(j.traps) == 0 {
		return
	}
	if j.later == nil {
		j.later = map[string]variable{}
	}
	if old, ok := j.later[name]; ok && (!old.known || !v.known || old.val != v.val) {
		v = variable{set: true, flow: old.flow.with(v.flow), class: old.asClass().meet(v.asClass())}
	}
	j.later[name] = v
}
