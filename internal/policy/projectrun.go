package policy

import "strings"

// runEnvRun judges tools that run a command in a project's own environment:
// "poetry run pytest" is what pytest is. Their other subcommands ask.
func runEnvRun(c *call, _ *spec, _ parsed) {
	args := c.args
	if len(args) == 0 || args[0].is("--version", "-V", "--help") {
		return
	}
	rest := args[1:]
	switch {
	case args[0].is("run") && in([]string{"poetry", "pipenv", "pdm", "rye", "hatch"}, c.name):
	case args[0].is("run") && c.name == "uv":
		for len(rest) > 0 && rest[0].is("--frozen", "--locked", "--no-sync", "--offline", "--quiet", "-q") {
			rest = rest[1:]
		}
		if len(rest) > 0 && rest[0].lit && strings.HasPrefix(rest[0].text, "-") && !rest[0].is("--") {
			c.badOption(&parsed{}, rest[0].text)
		}
	case args[0].is("exec") && (c.name == "mise" || c.name == "asdf" || c.name == "volta") && len(rest) > 0 && rest[0].is("--"):
	case c.name == "poetry" && args[0].is("show", "check", "env") && poetryReads(args):
		return
	default:
		if args[0].is("install", "add", "sync", "update", "lock", "pip") {
			c.s.j.install = true
		}
		c.raise(Risky, "%s changes or runs a project's environment", c.by())
		c.suspicious(append(lits(c.name), c.args...))
		return
	}
	if len(rest) > 0 && rest[0].is("--") {
		rest = rest[1:]
	}
	if len(rest) == 0 {
		c.raise(Risky, "%s starts a shell", c.by())
		return
	}
	c.silent = true
	if !c.projectScript(rest) {
		c.inner(rest)
	}
}

// poetryReads reports whether poetry only shows what is locked or installed.
func poetryReads(args []word) bool {
	for i, w := range args[1:] {
		if !w.lit || strings.HasPrefix(w.text, "-") && !w.is(
			"--tree", "-t", "--no-dev", "--top-level", "-T", "--all", "-a", "--path", "-p",
		) || args[0].is("env") && i == 0 && !w.is("info", "list") {
			return false
		}
	}
	return true
}

// projectScript judges the name of what a project's own runner runs: its
// environment's program of that name or, with some, a script of the project. It
// reports whether that is all.
func (c *call) projectScript(ws []word) bool {
	w := ws[0]
	scripts := !in([]string{"poetry", "uv", "mise", "asdf", "volta"}, c.name)
	sp := c.s.j.p.spec(w.text)
	tool := w.lit && sp != nil && (sp.attr("build") || sp.attr("targets") || sp.attr("coverage") || sp.attr("python"))
	switch {
	case tool, !scripts:
		c.build()
		return false
	case w.lit && c.s.j.p.safeTarget(w.text):
		c.build()
		c.scriptArgs(ws[1:])
		return true
	}
	c.raise(Risky, "%s runs the project's script `%s`, whatever it does", c.by(), w.show())
	return false
}
