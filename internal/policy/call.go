package policy

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// call is one simple command while it is judged.
type call struct {
	s    *scope
	name string // the program, without its directory
	args []word
	in   flow
	out  flow

	words    []word   // the arguments as given, for rules
	program0 string   // the name as given, for rules
	byPath   bool     // named by a path that is not trusted
	sub      string   // its subcommand, for rules
	hosts    []string // what it talks to, for rules
	silent   bool     // a wrapper that adds nothing: no reason of its own
	deep     bool     // git looks into the repositories inside this one, too
}

func (c *call) raise(t Tier, format string, args ...any) { c.s.raise(t, format, args...) }

// by is the command's name as it stands in a reason.
func (c *call) by() string {
	if m, ok := strings.CutPrefix(c.name, "python-m-"); ok {
		return "`python -m " + m + "`"
	}
	return "`" + clip(c.name, 60) + "`"
}

// callExpr judges a simple command.
func (s *scope) callExpr(c *syntax.CallExpr, in flow) flow {
	saved := s.stdin
	s.stdin = in
	defer func() { s.stdin = saved }()
	if len(c.Args) == 0 {
		for _, a := range c.Assigns {
			s.assignment(a, false)
		}
		return flow{known: true}
	}
	words := s.words(c.Args)
	if len(c.Assigns) == 0 {
		return s.run(words, in, runOpts{})
	}
	// The assignments hold for the command only.
	type old struct {
		name string
		v    variable
		had  bool
	}
	var before []old
	for _, a := range c.Assigns {
		if a.Name != nil {
			v, had := s.vars[a.Name.Value]
			before = append(before, old{a.Name.Value, v, had})
		}
		s.assignment(a, true)
	}
	out := s.run(words, in, runOpts{})
	s.own()
	for i := len(before) - 1; i >= 0; i-- {
		if o := before[i]; o.had {
			s.vars[o.name] = o.v
		} else {
			delete(s.vars, o.name)
		}
	}
	return out
}

// assignment judges name=value.
func (s *scope) assignment(a *syntax.Assign, export bool) {
	if a.Name == nil {
		s.word(a.Value)
		return
	}
	name := a.Name.Value
	if a.Index != nil {
		s.arithmIndex(name, a.Index)
	}
	v := variable{exported: export}
	switch {
	case a.Array != nil:
		v.list = []string{}
		for _, e := range a.Array.Elems {
			if e.Index != nil {
				s.arithmIndex(name, e.Index)
			}
			if e.Value == nil {
				continue
			}
			for _, w := range s.expandArg(nil, e.Value) {
				v.flow = v.flow.with(w.flow)
				if !w.lit || w.glob {
					v.flow.names = s.namesKeys(w) || v.flow.names
					v.list, v.maybe = nil, either(v.maybe, w.maybe)
					continue
				}
				v.maybe = either(v.maybe, []string{w.text})
				if v.list != nil {
					v.list = append(v.list, w.text)
				}
			}
		}
	case a.Value != nil:
		w := s.word(a.Value)
		v.class, v.flow = w.class, w.flow
		if strings.ContainsAny(w.tmpl, " \t\n") {
			v.class = class{} // where it is split, what follows starts a word
		}
		v.val, v.known = w.text, w.lit && len(w.text) <= maxKnownText
		if tilde := s.assignTilde(a.Value); tilde != "" {
			v.val = tilde
		}
	default:
		v.known = true
	}
	old := s.variable(name)
	if a.Append {
		switch {
		case a.Array != nil && old.list != nil && v.list != nil:
			v.list = append(append([]string{}, old.list...), v.list...)
		case v.known && old.known:
			v.val = old.val + v.val
		default:
			v = variable{exported: export, flow: v.flow.with(old.flow)}
		}
	}
	if a.Index != nil {
		_, err := strconv.Atoi(v.val)
		nums := (old.nums || !old.set) && !a.Append && (v.num || v.known && err == nil)
		v = variable{exported: export, nums: nums, flow: v.flow.with(old.flow)}
	}
	v.assoc = old.assoc
	s.assign(name, v)
}

// assignTilde is the value of name=~/x, whose tilde is expanded.
func (s *scope) assignTilde(w *syntax.Word) string {
	if len(w.Parts) != 1 {
		return ""
	}
	l, ok := w.Parts[0].(*syntax.Lit)
	home := s.variable("HOME")
	if !ok || !home.known {
		return ""
	}
	if l.Value == "~" {
		return home.val
	}
	if rest, ok := strings.CutPrefix(l.Value, "~/"); ok {
		return home.val + "/" + rest
	}
	return ""
}

// arithmIndex judges a subscript on the left of an assignment, or of ${…}. For an
// associative array it is a string, expanded once, so only what can run matters.
func (s *scope) arithmIndex(array string, x syntax.ArithmExpr) {
	if w, ok := x.(*syntax.Word); ok && s.variable(array).assoc {
		s.word(w)
		return
	}
	s.arithm(x)
}

// runOpts is how a command is found.
type runOpts struct {
	noFuncs bool // functions are not looked up
	noShell bool // builtins are not looked up: another program starts it
}

// run judges a command by its words.
func (s *scope) run(ws []word, in flow, o runOpts) flow {
	if len(ws) == 0 {
		return flow{known: true}
	}
	if !s.j.charge(chargeBytes / 4 * len(ws)) {
		return flow{}
	}
	if s.j.depth++; s.j.depth > maxDepth {
		s.raise(Risky, "the command is nested too deeply to be judged whole")
		s.j.depth--
		return flow{}
	}
	defer func() { s.j.depth-- }()
	s.tryValues(ws, in, o)
	c := &call{s: s, args: ws[1:], words: ws[1:], in: in}
	name := ws[0]
	mark := s.j.mark()
	switch {
	case !name.lit || name.glob:
		c.dynamicName(name)
	case name.text == "":
		c.raise(Risky, "runs a command with an empty name")
	default:
		c.lookup(name.text, o)
	}
	if in.sent {
		c.sentInput()
	}
	c.givenSecret()
	s.j.applyRules(c, mark)
	if s.j.cur == Safe && !c.silent {
		s.raise(Safe, "%s only reads", c.by())
	}
	s.j.cur = max(s.j.cur, mark.cur)
	if name.flow.net {
		s.raise(Critical, "runs what `%s` downloaded", name.flow.from)
	}
	return c.out
}

// givenSecret judges giving a command what a variable holds whose name says that it
// is a credential: whatever it does with it, it may print it. What hands it on to
// another command is judged there.
func (c *call) givenSecret() {
	if c.silent || in([]string{"test", "[", ":", "true", "false"}, c.name) && !c.argHas("-eq", "-ne", "-lt", "-le", "-gt", "-ge") {
		return
	}
	for _, w := range c.words {
		if w.flow.secret && strings.HasPrefix(w.flow.from, "$") {
			c.raise(Risky, "%s is given `%s`, which may hold a credential", c.by(), w.flow.from)
		}
	}
}

// tryValues judges a command with each value that one of its words is known to
// have in some case, besides as it stands.
func (s *scope) tryValues(ws []word, in flow, o runOpts) {
	if s.j.trying {
		return
	}
	for i, w := range ws {
		if w.lit {
			continue
		}
		for _, v := range w.maybe {
			s.j.trying = true
			tried := slices.Clone(ws)
			tried[i] = word{text: v, lit: true, flow: w.flow}
			s.child().run(tried, in, o)
			s.j.trying = false
		}
	}
}

// lookup finds what a literal name runs.
func (c *call) lookup(name string, o runOpts) {
	c.name, c.program0 = name, name
	s := c.s
	if strings.Contains(name, "/") {
		c.runPath(name)
		return
	}
	if fn, ok := s.funcs[name]; ok && !o.noFuncs {
		c.silent = true
		c.out = s.call(name, fn, c.args, c.in)
		return
	}
	if !o.noShell {
		if h, ok := s.j.p.builtins[name]; ok {
			h(c)
			return
		}
	}
	c.program(name)
}

// program judges a program found by its name.
func (c *call) program(name string) {
	if c.onlyLooks() {
		return
	}
	if sp := c.s.j.p.spec(name); sp != nil {
		c.spec(sp)
		return
	}
	if in(builtinPrograms, name) {
		c.s.j.p.builtins[name](c)
		return
	}
	c.unknown()
}

// builtinPrograms are builtins that are programs too, and do the same.
var builtinPrograms = []string{
	"echo", "printf", "pwd", "test", "[", "kill", "true", "false", "getopts", "umask", "wait", "type", "command",
	"hash", "cd", "read",
}

// trustedDirs hold the system's programs, which the workspace cannot change.
var trustedDirs = []string{
	"/bin", "/usr/bin", "/sbin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/usr/local/go/bin", "/opt/homebrew/bin",
}

// runPath judges a command that is named by its path.
func (c *call) runPath(name string) {
	paths := c.s.resolve(name)
	for _, p := range paths {
		if len(paths) == 1 && strings.HasPrefix(name, "/") && in(trustedDirs, path.Dir(p)) && c.s.remote == "" {
			c.name = path.Base(p)
			c.program0 = c.name
			if _, err := c.loader(p); err {
				return
			}
			c.program(c.name)
			return
		}
		c.script(p)
	}
	base := path.Base(path.Clean(name))
	c.program0, c.byPath = base, true
	if wrapperScript(base) && len(paths) == 1 && c.s.inWorkspace(paths[0]) {
		c.name = base
		c.program(base)
		return
	}
	if sp := c.s.j.p.spec(base); sp != nil && sp.attr("build") && len(paths) == 1 && c.s.inWorkspace(paths[0]) && toolDir(path.Dir(paths[0])) && !c.s.downloaded(paths[0]) {
		// The project's own copy of a build tool does what the tool does.
		c.name = base
		c.program(base)
		return
	}
	c.raise(Risky, "runs the program `%s`, whatever it holds", clip(name, 80))
	for _, p := range paths {
		f := c.s.readContent(p)
		if f.net {
			c.raise(Critical, "runs `%s`, which was downloaded", clip(name, 80))
		}
		if f.known && looksLikeShell(f.text) {
			c.s.runScript(f.text, scriptOpts{what: "`" + clip(name, 60) + "`", args: c.args, stdin: c.in})
		}
	}
	if strings.Contains(base, "ld-linux") || strings.HasPrefix(base, "ld.so") {
		c.inner(c.args)
		return
	}
	c.suspicious(append([]word{lit(base)}, c.args...))
}

// loader handles the dynamic loader called as a program.
func (c *call) loader(p string) (string, bool) {
	base := path.Base(p)
	if strings.HasPrefix(base, "ld-linux") || strings.HasPrefix(base, "ld-musl") || strings.HasPrefix(base, "ld.so") {
		c.raise(Risky, "runs a program through the loader")
		c.inner(c.args)
		return base, true
	}
	return base, false
}

// toolDir reports whether a directory is where package managers put a project's
// tools.
func toolDir(dir string) bool {
	for _, d := range []string{"/node_modules/.bin", "/vendor/bin", "/.venv/bin", "/venv/bin"} {
		if strings.HasSuffix(dir, d) {
			return true
		}
	}
	return false
}

// wrapperScript names the build wrappers that projects keep in their tree and
// that stand for a known build tool.
func wrapperScript(base string) bool { return base == "gradlew" || base == "mvnw" }

// operand records a file that the command line itself runs.
func (c *call) operand(p string) {
	c.s.j.operands = appendOnce(c.s.j.operands, p)
	c.s.j.heads = appendOnce(c.s.j.heads, p)
	c.s.touch(p)
}

// script records a file that the command line runs and that a shell may read.
func (c *call) script(p string) {
	c.operand(p)
	c.s.j.scripts = appendOnce(c.s.j.scripts, p)
}

// readContent is what a file is known to hold, without judging the reading.
func (s *scope) readContent(p string) flow {
	if f, ok := s.j.files[p]; ok {
		return f
	}
	f := flow{file: p}
	if s.downloaded(p) {
		f.net, f.from = true, "a download"
	}
	if fact, ok := s.j.facts.Files[p]; ok && fact.Exists && !fact.IsDir && len(fact.Head) > 0 && len(fact.Head) < maxHead {
		f.text, f.known = string(fact.Head), true
	}
	return f
}

// looksLikeShell reports whether a program's text is a shell script.
func looksLikeShell(text string) bool {
	line, _, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(line, "#!") {
		return strings.IndexByte(line, 0) < 0
	}
	return strings.HasSuffix(line, "sh") || strings.Contains(line, "sh ")
}

// inner judges the command that a wrapper runs.
func (c *call) inner(ws []word) {
	c.silent = true
	c.out = c.s.run(ws, c.in, runOpts{noFuncs: true, noShell: true})
}

// dynamicName judges a command whose name is only known when it runs.
func (c *call) dynamicName(name word) {
	c.name = name.show()
	c.raise(Risky, "the command's name, `%s`, is only known when it runs", name.show())
	if name.flow.net {
		c.raise(Critical, "runs what `%s` downloaded", name.flow.from)
	}
	words := append([]word{lit("rm")}, c.args...)
	if strings.HasPrefix(name.text, "/") || strings.Contains(name.tmpl, "-") {
		words = append(words, lit(strings.TrimLeft(strings.ReplaceAll(name.tmpl, unknownVar, " "), " ")))
	}
	c.suspicious(words)
	for _, t := range name.maybe {
		if strings.ContainsAny(t, " \t\n") { // it is split
			c.s.worst(t+" "+scriptOf(c.args), "what the command's name may be")
		}
	}
	if name.alt != "" && name.alt != name.text {
		c.s.worst(name.alt, "the default in the command's name")
	}
}

// unknown judges a program that no table knows.
func (c *call) unknown() {
	c.raise(Risky, "`%s` is not a command that the policy knows", clip(c.name, 80))
	if c.in.net {
		c.raise(Risky, "%s reads what `%s` downloaded", c.by(), c.in.from)
	}
	c.suspicious(append([]word{lit(c.name)}, c.args...))
}

// suspicious looks for what would be critical in the words of a command that is
// not understood: a command after it, a script in one of them, a target that no
// command should touch.
func (c *call) suspicious(ws []word) {
	recursive := false
	for i, w := range ws {
		if i > 0 && w.lit && len(w.text) > 1 && w.text[0] == '-' && (strings.ContainsAny(w.text, "rRf") || w.text == "--delete") {
			recursive = true
		}
	}
	for i, w := range ws {
		if i == 0 {
			continue
		}
		if w.lit && strings.HasPrefix(w.text, "/dev/") && c.s.placeOf(path.Clean(w.text)) == placeDevice {
			c.raise(Critical, "%s is given the device `%s`", c.by(), w.show())
		}
		if recursive && (w.lit || w.glob) {
			c.s.rootTarget(w, c.by())
		}
		if i <= 24 && (w.lit && !w.glob && c.s.j.p.knows(w.text) && !c.ownWord(ws, i) || !w.lit && recursive) {
			c.s.worstWords(ws[i:], c.by())
		}
		if i <= 64 && strings.ContainsAny(w.script(), " ;|&$`{\n") {
			c.s.worst(w.script(), c.by())
		}
	}
}

// runsInside are commands of such tools that run a program elsewhere.
var runsInside = []string{"exec", "run", "ssh", "sh", "bash", "create", "start", "up", "attach", "debug"}

// ownWord reports whether a word is a command of the tool that it is given to, such as
// the init of `terraform init`, and not the program of that name: the first word of a
// tool with commands of its own, or among its first ones where that ends a machine,
// which is then one that the tool manages.
func (c *call) ownWord(ws []word, i int) bool {
	ends := ws[i].is("halt", "poweroff", "reboot", "shutdown", "kexec")
	sp := c.s.j.p.spec(c.name)
	if sp == nil || !sp.attr("remote") && !sp.attr("database") && !sp.attr("docker") && !sp.attr("packages") {
		return false
	}
	if ends && ws[0].is(runsInside...) {
		return false
	}
	for n, w := range ws[1:i] {
		own := ends && n < 2 && !w.is(runsInside...)
		if !w.lit || strings.HasPrefix(w.text, "-") == own {
			return false
		}
	}
	if ends {
		c.raise(Critical, "%s %s ends machines or services elsewhere", c.by(), ws[i].text)
	}
	return true
}

// rootTarget raises when a word names what no recursive command should touch.
func (s *scope) rootTarget(w word, by string) {
	paths, _ := s.targets(w)
	for _, p := range paths {
		if pl := s.placeOf(p); pl == placeSystemTop || pl == placeHome || pl == placeAbove || pl == placeDevice {
			s.raise(Critical, "%s is given `%s` with options that delete or change everything below", by, p)
		}
	}
	if w.glob {
		for _, p := range s.resolve(w.pat) {
			if d := path.Dir(p); d == "/" {
				s.raise(Critical, "%s is given `%s` with options that delete or change everything below", by, p)
			}
		}
	}
}
