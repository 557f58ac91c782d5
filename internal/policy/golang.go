package policy

import "strings"

// runGo judges go by its subcommand.
func runGo(c *call, _ *spec, _ parsed) {
	args := c.args
	if len(args) == 0 {
		return
	}
	if args[0].is("-C") && len(args) > 2 {
		c.s = c.s.child()
		c.gitDirLike(args[1])
		args = args[2:]
	}
	if !args[0].lit || args[0].glob {
		c.raise(Risky, "go's command, `%s`, is only known when it runs", args[0].show())
		return
	}
	c.subcommand(c.s.j.p.tables.golang, args, "go")
}

// gitDirLike judges a directory to work in.
func (c *call) gitDirLike(w word) {
	paths, known := c.s.targets(w)
	if !known {
		c.raise(Risky, "%s works in `%s`, which is only known when it runs", c.by(), w.show())
	}
	for _, p := range paths {
		c.s.touch(p)
		if pl := c.s.placeOf(p); pl != placeWorkspace && pl != placeRoot {
			c.raise(Risky, "%s works in `%s`, outside the workspace", c.by(), p)
		}
	}
	runCd(&call{s: c.s, name: "cd", args: []word{w}})
}

// subcommand judges tool sub args by a table of subcommands.
func (c *call) subcommand(table map[string]*spec, args []word, tool string) {
	sub := args[0].text
	c.sub = sub
	c.name = tool + " " + clip(sub, 40)
	c.args = args[1:]
	sp, ok := table[sub]
	if !ok {
		c.raise(Risky, "%s is not a command that the policy knows", c.by())
		c.suspicious(append(lits(c.name), c.args...))
		return
	}
	if sp.attr("gotest") {
		for i, w := range c.args {
			if w.is("-args", "--args") {
				c.goTestArgs(c.args[i+1:])
				c.args = c.args[:i]
				break
			}
		}
	}
	c.spec(sp)
}

// goTestArgs judges what is passed to the test's own program, which reads go
// test's flags there too, files to write among them.
func (c *call) goTestArgs(args []word) {
	for _, w := range args {
		if !w.lit {
			c.raise(Risky, "%s passes `%s` to the test, which is only known when it runs", c.by(), w.show())
			continue
		}
		name, _, _ := strings.Cut(strings.TrimLeft(w.text, "-"), "=")
		if strings.HasPrefix(w.text, "-") && strings.HasPrefix(name, "test.") && !in(goTestPlain, name) {
			c.badOption(&parsed{}, w.text)
		}
		if strings.HasPrefix(w.text, "/") || strings.Contains(w.text, "..") {
			c.toolPath(w, true)
		}
	}
}

// goTestPlain are flags of a test's program that only choose and show.
var goTestPlain = []string{
	"test.v", "test.run", "test.short", "test.count", "test.bench", "test.benchtime", "test.timeout", "test.parallel",
	"test.cpu", "test.list", "test.failfast", "test.skip", "test.benchmem",
}

// goFlagsPlain are flags of go's compiler, assembler and linker that write and
// run nothing else.
var goFlagsPlain = []string{
	"-N", "-l", "-m", "-m=2", "-S", "-s", "-w", "-e", "-B", "-+", "-race", "-live", "-wb", "-K", "-L", "-dwarf=false",
	"-checkptr", "-d=checkptr", "-d=checkptr=0",
}

// goFlags judges the flags that are passed on to go's compiler and linker: some
// name programs, or files that are written.
func (c *call) goFlags(p parsed) {
	for _, w := range p.values("-ldflags", "-gcflags", "-asmflags") {
		t := w.script()
		if pat, rest, ok := strings.Cut(t, "="); ok && !strings.HasPrefix(t, "-") && !strings.ContainsAny(pat, " \t") {
			t = rest
		}
		fields := splitQuoted(t)
		for i := 0; i < len(fields); i++ {
			f := fields[i]
			switch {
			case f == "-X" && i+1 < len(fields) && strings.Contains(fields[i+1], "="):
				i++
				continue
			case strings.HasPrefix(f, "-X=") || in(goFlagsPlain, f):
				continue
			}
			c.raise(Risky, "%s passes `%s` to a tool, which may run another or write files", c.by(), clip(f, 60))
			return
		}
		if !w.lit && (w.flow.net || w.split) {
			c.raise(Risky, "%s passes `%s` to a tool, which is only known when it runs", c.by(), w.show())
		}
	}
}

func runGoBuild(c *call, sp *spec, p parsed) {
	c.goFlags(p)
	for _, w := range p.operands {
		if w.lit && strings.Contains(w.text, "@") {
			c.raise(Risky, "%s takes code from outside the workspace", c.by())
		}
		c.goPackage(w)
	}
	switch {
	case sp.attr("golist"):
		if p.has("-f", "-json") {
			c.out.noDash = false
		}
		if p.has("-export", "-compiled", "-u", "-versions") { // it compiles, or downloads what a build does
			c.build()
		}
		if p.has("-m") && len(p.operands) > 0 && !p.operands[0].is("all") && strings.Contains(p.operands[0].text, "@") {
			c.raise(Risky, "%s asks for modules elsewhere", c.by())
		}
	case sp.attr("gofmtpkgs"):
		if !p.has("-n") {
			c.raise(Write, "%s rewrites workspace files", c.by())
		}
	}
}

// goPackage: packages by a path outside the workspace are others' code.
func (c *call) goPackage(w word) {
	if !w.lit || !(strings.HasPrefix(w.text, "/") || strings.HasPrefix(w.text, "..")) {
		return
	}
	for _, p := range c.s.resolve(strings.TrimSuffix(w.text, "...")) {
		if pl := c.s.placeOf(p); pl != placeWorkspace && pl != placeRoot {
			c.raise(Risky, "%s takes code from `%s`, outside the workspace", c.by(), p)
		}
	}
}

func runGoMod(c *call, _ *spec, p parsed) {
	if len(p.operands) == 0 {
		return
	}
	switch op := p.operands[0]; {
	case op.is("graph", "why", "verify"):
	case op.is("tidy", "vendor", "download"):
		c.build()
	case op.is("edit") && p.has("-json", "-print"):
	case op.is("edit") && p.has("-fmt") && len(p.hits) == 1:
		if len(p.operands) < 2 {
			c.raise(Write, "%s rewrites go.mod", c.by())
		}
		for _, w := range p.operands[1:] {
			c.write(w)
		}
	case op.is("init"):
		c.raise(Write, "%s writes go.mod", c.by())
	default:
		c.raise(Risky, "%s changes which code is built", c.by())
	}
}

func runGoWork(c *call, _ *spec, _ parsed) {
	c.raise(Risky, "%s changes which code is built", c.by())
}

// goTools are go's tools that only read, with the options that leave it so.
// Those marked ":" take a value.
var goTools = map[string]*spec{
	"pprof": mustSpec(`pprof | single nodashdash | r* | -top -text -list: -peek: -tree -raw -traces -cum -flat
	-nodecount: -sample_index: -focus: -ignore: -show: -hide: -lines -functions -files -unit: -alloc_space
	-alloc_objects -inuse_space -inuse_objects -base:r -diff_base:r -output:w`),
	"cover":     mustSpec("cover | single | v* | -func:r"),
	"nm":        mustSpec("nm | single | r* | -n -size -sort: -type"),
	"objdump":   mustSpec("objdump | single | r* | -S -gnu -s:"),
	"addr2line": mustSpec("addr2line | single | r* |"),
	"buildid":   mustSpec("buildid | single | r* |"),
	"dist":      mustSpec("dist | single | v* | -json -v"),
}

// runGoTool judges go's tools: pprof without a form of report is a shell of its
// own, dist also cleans and installs.
func runGoTool(c *call, _ *spec, p parsed) {
	if len(p.operands) == 0 {
		return
	}
	op := p.operands[0]
	sp := goTools[op.text]
	if !op.lit || sp == nil {
		c.raise(Risky, "%s runs the tool `%s`", c.by(), op.show())
		c.suspicious(append(lits(c.name), p.operands...))
		return
	}
	tool := c.parse(sp, p.operands[1:])
	c.byRole(sp, tool.operands)
	for _, w := range tool.operands {
		if strings.Contains(w.text, "://") || strings.Contains(w.text, ":") && op.is("pprof") {
			c.host(w)
			c.raise(Risky, "%s talks to another machine", c.by())
		}
	}
	switch {
	case op.is("pprof") && !tool.has("-top", "-text", "-list", "-peek", "-tree", "-raw", "-traces"):
		c.raise(Risky, "%s starts pprof's own command line", c.by())
	case op.is("dist") && !tool.first("list", "env", "version", "banner"):
		c.raise(Risky, "%s runs `dist`, which builds and cleans go itself", c.by())
	case op.is("cover") && !tool.has("-func"):
		c.raise(Risky, "%s rewrites code", c.by())
	}
}

func runGoClean(c *call, _ *spec, p parsed) {
	if p.has("-n") {
		return
	}
	if p.has("-testcache") && len(p.operands) == 0 {
		c.build()
		return
	}
	c.raise(Risky, "%s deletes what was built", c.by())
}

func runGoRisky(c *call, _ *spec, _ parsed) {
	switch c.sub {
	case "get", "install":
		c.s.j.install = true
		c.raise(Risky, "%s downloads code or installs programs", c.by())
	case "generate":
		c.raise(Risky, "%s runs the commands in the workspace's comments", c.by())
	default:
		c.raise(Risky, "%s runs the workspace's program", c.by())
	}
	c.suspicious(append(lits(c.name), c.args...))
}
