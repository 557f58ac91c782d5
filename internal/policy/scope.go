package policy

import (
	"fmt"
	"maps"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const (
	maxVisits   = 100_000 // nodes judged for one command, loops and functions unrolled
	chargeBytes = 64      // bytes of text that cost as much as a node
	maxDepth    = 40      // scripts, substitutions and wrappers inside one another
	maxCwds     = 4       // directories that a command may be in, after a branch
	maxListed   = 256     // paths, operands and reasons that a verdict lists
)

// judge is the state of one judgement.
type judge struct {
	p      *Policy
	env    Env
	facts  Facts
	visits int
	spent  bool // visits have run out
	depth  int
	seg    int // the segment being judged; 0 for the whole command
	segs   map[syntax.Node]int
	nsegs  int
	nested int // inside a literal script: no new segments

	tier     Tier
	cur      Tier // the highest tier since the command being judged began
	quiet    int  // judging what a command might run, for its worst only
	trying   bool // judging a command with values that its words may have
	reasons  []Reason
	operands []string
	scripts  []string // of the operands
	paths    []string
	touched  []string // every path named, in order, with repetitions
	globs    []string
	heads    []string
	changes  []string
	install  bool
	open     bool // as in Verdict
	samples  []string
	funcs    []*function // in the order of declaration

	// What this command does to files, which every part of it sees.
	files map[string]flow // what it wrote, by absolute path
	links []link          // links that it made, in order
	made  map[string]bool // directories that it made

	traps []trapped           // traps that it set
	later map[string]variable // what it assigned after that
	moved bool                // it changed its directory after that

	unsure map[string]flow // variables that a trap may change at any time
	astray bool            // a trap may change the directory at any time

	sent bool // the text is for a shell that has run others before: nothing of its state is known
}

func (j *judge) raise(seg int, t Tier, text string) {
	j.tier, j.cur = max(j.tier, t), max(j.cur, t)
	if len(j.reasons) >= maxListed {
		return
	}
	for _, r := range j.reasons {
		if r.Segment == seg && r.Text == text {
			return
		}
	}
	j.reasons = append(j.reasons, Reason{Segment: seg, Tier: t, Text: text})
}

// link is a link that the command makes: a path, and what it leads to.
type link struct{ at, to string }

// mark is where a judgement stood when a command began.
type mark struct {
	tier, cur Tier
	reasons   int
	touched   int
}

func (j *judge) mark() mark {
	m := mark{tier: j.tier, cur: j.cur, reasons: len(j.reasons), touched: len(j.touched)}
	j.cur = Safe
	return m
}

// spend counts one visited node, and reports whether judging may go on.
func (j *judge) spend() bool {
	j.visits++
	if j.visits < maxVisits {
		return true
	}
	if !j.spent {
		j.spent = true
		j.raise(0, Risky, "the command is too complex to be judged whole")
	}
	return false
}

// charge counts work that grows with text, and reports whether judging may go on.
func (j *judge) charge(bytes int) bool {
	j.visits += bytes / chargeBytes
	return j.spend()
}

func appendOnce(list []string, s string) []string {
	if s == "" || len(list) >= maxListed {
		return list
	}
	for _, have := range list {
		if have == s {
			return list
		}
	}
	return append(list, s)
}

// scope is one shell's state as far as it is known.
type scope struct {
	j          *judge
	lang       Shell
	src        string   // the script's text
	cwds       []string // where it may be
	cwdUnknown bool
	anyDir     string // a pattern of where it is, when that stands for more than one place
	oldpwd     string
	dirs       []string // what pushd left
	remote     string   // the command that runs this somewhere else, such as "ssh"
	vars       map[string]variable
	funcs      map[string]*function
	arg0       variable
	args       []string // positional parameters
	argsKnown  bool
	argsAll    variable // what holds for each of them where they are not known
	dotglob    bool
	lastpipe   bool     // a pipe's last command runs in this shell
	ownGit     bool     // git is started without the settings that the exec gives it
	calls      int      // functions being called
	failed     []string // where it still is if the cd before failed
	unsure     bool     // a pushd may have failed
	stdin      flow
	shared     bool // the maps belong to the parent too: copy before writing

	// While one word or command is expanded:
	pending []*syntax.ProcSubst
	psub    *flow
}

type function struct {
	body   *syntax.Stmt
	depth  int // calls in progress
	called bool
}

func (s *scope) raise(t Tier, format string, args ...any) {
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	s.j.raise(s.j.seg, t, format)
}

// child is a copy of the shell: a subshell, a substitution, a pipeline's part.
func (s *scope) child() *scope {
	c := *s
	c.shared, s.shared = true, true
	c.pending, c.psub, c.failed = nil, nil, nil
	return &c
}

// own makes the maps this scope's alone.
func (s *scope) own() {
	if s.shared {
		s.vars, s.funcs = maps.Clone(s.vars), maps.Clone(s.funcs)
		s.shared = false
	}
	if s.vars == nil {
		s.vars = map[string]variable{}
	}
	if s.funcs == nil {
		s.funcs = map[string]*function{}
	}
}

// setVar records a variable without judging its name.
func (s *scope) setVar(name string, v variable) {
	s.own()
	v.set = true
	s.j.afterTrap(name, v)
	if old, ok := s.vars[name]; ok && old.exported {
		v.exported = true
	}
	s.vars[name] = v
}

// setFile records what this command wrote to a file.
func (s *scope) setFile(path string, f flow, add bool) {
	if path == "" || (f.known && len(f.text) > maxKnownText) {
		return
	}
	if s.remote != "" {
		return
	}
	j := s.j
	if old, ok := j.files[path]; ok && (add || old.net) {
		if !add {
			f.net, f.from = true, old.from // either may be what is there
		} else {
			f = old.and(f)
		}
	} else if add && !ok {
		f = f.unread()
	}
	if j.files == nil {
		j.files = map[string]flow{}
	}
	j.files[path] = f
}

// merge makes s what it is after a branch that may or may not have been taken.
func (s *scope) merge(o *scope) {
	s.own()
	for _, c := range o.cwds {
		s.addCwd(c)
	}
	s.cwdUnknown = s.cwdUnknown || o.cwdUnknown
	for k, v := range o.vars {
		old, ok := s.vars[k]
		if ok && old.known && v.known && old.val == v.val {
			continue
		}
		if !ok {
			old = s.variable(k)
		}
		n := variable{set: true, exported: old.exported || v.exported, assoc: old.assoc && v.assoc, nums: old.nums && v.nums, flow: old.flow.with(v.flow)}
		n.class = old.asClass().meet(v.asClass())
		s.vars[k] = n
	}
	for k := range s.vars {
		if _, ok := o.vars[k]; !ok {
			v := s.vars[k]
			s.vars[k] = variable{set: true, exported: v.exported, flow: v.flow, class: v.asClass().meet(o.variable(k).asClass())}
		}
	}
	for k, f := range o.funcs {
		s.funcs[k] = f
	}
	s.dotglob, s.lastpipe, s.ownGit = s.dotglob || o.dotglob, s.lastpipe || o.lastpipe, s.ownGit || o.ownGit
	if !o.argsKnown {
		s.argsKnown = false
	}
}

// asClass is what is known about a variable once its text is forgotten.
func (v variable) asClass() class {
	if !v.known {
		return v.class
	}
	c := class{noDash: v.val != "" && v.val[0] != '-'}
	if v.val != "" {
		c.maybe = []string{v.val}
	}
	c.num = v.val != "" && strings.Trim(v.val, "0123456789") == ""
	c.inside = c.noDash && v.val[0] != '/' && v.val[0] != '.' && !strings.Contains(v.val, "..") && !strings.Contains(v.val, "/.")
	return c
}

func (s *scope) addCwd(dir string) {
	for _, have := range s.cwds {
		if have == dir {
			return
		}
	}
	if len(s.cwds) >= maxCwds {
		s.cwdUnknown = true
		return
	}
	s.cwds = append(append([]string(nil), s.cwds...), dir)
}

func (s *scope) setCwd(dir string) {
	if s.j.astray {
		s.loseCwd()
		return
	}
	if len(s.cwds) == 1 && !s.cwdUnknown {
		s.oldpwd = s.cwds[0]
	} else {
		s.oldpwd = ""
	}
	s.cwds, s.cwdUnknown, s.anyDir = []string{dir}, false, ""
	s.moved()
}

// moved: the variables that say where the shell is are its own again.
func (s *scope) moved() {
	s.j.moved = s.j.moved || len(s.j.traps) > 0
	for _, n := range []string{"PWD", "OLDPWD"} {
		if _, ok := s.vars[n]; ok {
			s.own()
			delete(s.vars, n)
		}
	}
}

func (s *scope) loseCwd() {
	s.cwds, s.cwdUnknown, s.oldpwd = nil, true, ""
	s.moved()
}

// assign judges and records an assignment that changes this shell.
func (s *scope) assign(name string, v variable) {
	s.special(name, v)
	s.setVar(name, v)
}

// source is a node's text for people, as it stands in the script.
func (s *scope) source(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	if from < 0 || to > len(s.src) || from >= to {
		return "…"
	}
	return s.src[from:to]
}
