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
	if sp.attr("dashdash") {
		// What stands after "--" goes to the program that is run.
		for i, w := range c.args {
			if w.is("--") {
				c.scriptArgs(c.args[i+1:])
				c.args = c.args[:i]
				break
			}
		}
	}
	if sp.attr("gotest") {
		for i, w := range c.args {
			if w.is("-args", "--args") {
				c.args = c.args[:i]
				break
			}
		}
	}
	c.spec(sp)
}

// goLdflags judges the linker's flags: some name programs.
func (c *call) goFlags(p parsed) {
	for _, w := range p.values("-ldflags", "-gcflags", "-asmflags") {
		t := w.script()
		for _, bad := range []string{"-extld", "-extldflags", "-linkmode", "-importcfg", "-o ", "-I", "-L", "-r ", "-toolexec", "-complete", "-embedcfg", "-cpuprofile", "-memprofile"} {
			if strings.Contains(t, bad) || !w.lit && w.flow.net {
				c.raise(Risky, "%s passes `%s` to a tool, which may run another", c.by(), clip(t, 60))
				return
			}
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
		if p.has("-export", "-compiled") {
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
		c.raise(Write, "%s rewrites go.mod", c.by())
	case op.is("init"):
		c.raise(Write, "%s writes go.mod", c.by())
	default:
		c.raise(Risky, "%s changes which code is built", c.by())
	}
}

func runGoWork(c *call, _ *spec, _ parsed) {
	c.raise(Risky, "%s changes which code is built", c.by())
}

func runGoTool(c *call, _ *spec, p parsed) {
	if len(p.operands) == 0 {
		return
	}
	switch op := p.operands[0]; {
	case op.is("cover", "dist", "nm", "objdump", "pprof", "trace", "buildid", "addr2line"):
		for _, w := range p.operands[1:] {
			t := w.script()
			if strings.HasPrefix(t, "-o") || strings.HasPrefix(t, "-http") || strings.HasPrefix(t, "-html") || strings.HasPrefix(t, "-output") || strings.HasPrefix(t, "-tools") {
				c.raise(Risky, "%s is given `%s`", c.by(), clip(t, 60))
			}
			if strings.HasPrefix(t, "http") {
				c.host(w)
				c.raise(Risky, "%s talks to another machine", c.by())
			}
		}
	default:
		c.raise(Risky, "%s runs the tool `%s`", c.by(), op.show())
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
