package policy

import (
	"path"
	"strings"
)

// npmNeutral are options of npm and kin that change nothing about what runs.
var npmNeutral = []string{
	"-s", "--silent", "-q", "--quiet", "--if-present", "-w", "--workspaces", "-ws", "--no-progress", "--color",
	"--no-color", "--no-audit", "--no-fund", "-r", "--recursive", "-d", "-dd", "--loglevel=error", "--loglevel=warn",
	"--offline", "--frozen-lockfile", "--immutable", "--json", "--long", "-l", "--parseable", "-p", "--prod",
	"--production", "--all", "-a", "--stream", "--parallel", "--no-bail", "--bail", "--ci", "--coverage", "--runInBand",
	"-g", "--global", "-y", "--yes", "--verbose", "--no-watch", "--no-coverage", "--progress=false",
}

// runNpm judges npm, pnpm and yarn: scripts by name.
func runNpm(c *call, _ *spec, _ parsed) {
	var ops []word
	s := c.s
	for i := 0; i < len(c.args); i++ {
		w := c.args[i]
		switch {
		case w.is("--version", "-v", "--help", "-h"):
			if len(c.args) == 1 {
				return
			}
		case w.is("--"):
			ops = append(ops, word{lit: true, text: "--"})
			ops = append(ops, c.args[i+1:]...)
			i = len(c.args)
		case w.is("--prefix", "-C", "--dir", "--cwd"):
			i++
			if i < len(c.args) {
				s = c.s.child()
				runCd(&call{s: s, name: "cd", args: c.args[i : i+1]})
			}
		case w.is("--filter", "-F", "--workspace", "-w") && i+1 < len(c.args):
			i++
			c.toolPath(c.args[i], true)
		case w.lit && strings.Contains(w.text, "..") && strings.HasPrefix(w.text, "-"):
			c.badOption(&parsed{}, w.text)
		case w.lit && (strings.HasPrefix(w.text, "--workspace=") || strings.HasPrefix(w.text, "--filter=")):
		case w.lit && (in(npmNeutral, w.text) || strings.HasPrefix(w.text, "--depth=") || strings.HasPrefix(w.text, "--watch")):
		case !w.lit && w.mayBeOption():
			c.raise(Risky, "%s is given `%s`, which may be an option", c.by(), w.show())
		case w.lit && len(w.text) > 1 && w.text[0] == '-':
			if c.name != "npm" && len(ops) > 0 && !ops[0].is("run", "run-script", "exec", "x", "install", "i", "ci", "add", "publish") {
				ops = append(ops, w)
				continue
			}
			c.badOption(&parsed{}, w.text)
		default:
			ops = append(ops, w)
		}
	}
	c.npmCommand(s, ops)
}

func (c *call) npmCommand(s *scope, ops []word) {
	if len(ops) == 0 {
		c.s.j.install = c.name == "yarn"
		c.raise(Risky, "%s is given no command", c.by())
		return
	}
	sub := ops[0]
	c.sub = sub.text
	script := ""
	switch {
	case sub.is("test", "t", "tst"):
		script = "test"
	case sub.is("run", "run-script", "rum") && len(ops) > 1:
		if !ops[1].lit {
			c.raise(Risky, "%s runs the script `%s`, which is only known when it runs", c.by(), ops[1].show())
			return
		}
		script = ops[1].text
	case sub.is("run", "run-script"), sub.is(
		"ls", "list", "ll", "la", "view", "info", "show", "outdated", "explain", "why", "root", "prefix", "bin", "help",
		"pkg", "query", "fund", "doctor", "ping", "whoami", "search",
	):
		c.npmRead(sub, ops)
		return
	case c.name == "yarn" && sub.is("workspaces") && len(ops) == 2 && ops[1].is("info", "list"):
		return
	case sub.is("install", "i", "ci", "add", "install-test", "it", "update", "up", "upgrade", "import", "dedupe", "rebuild", "install-ci-test", "cit", "link", "fetch"):
		c.s.j.install = true
		c.raise(Risky, "%s downloads packages and runs what they say at installation", c.by())
		return
	case sub.is("publish", "unpublish", "deprecate", "dist-tag", "owner", "access", "team", "org", "token", "unstar"):
		c.raise(Critical, "%s %s changes what others install", c.by(), sub.text)
		return
	case sub.is("init") && len(ops) == 1:
		c.raise(Write, "%s writes package.json", c.by())
		return
	case sub.is("exec", "x", "dlx", "create", "init"):
		c.npxWords(ops[1:])
		return
	case c.name == "yarn" && sub.is("workspace") && len(ops) > 2:
		c.npmCommand(s, ops[2:])
		return
	case c.name != "npm" && sub.lit && c.s.j.p.safeTarget(sub.text):
		script = sub.text
	case c.name != "npm" && sub.lit && in(jsTools, sub.text):
		c.silent = true
		c.out = c.s.run(ops, c.in, runOpts{noFuncs: true, noShell: true})
		return
	default:
		c.raise(Risky, "%s %s is not a command that the policy knows as harmless", c.by(), sub.show())
		c.suspicious(append(lits(c.name), ops...))
		return
	}
	for _, cwd := range s.cwds {
		c.operandIfThere(path.Join(cwd, "package.json"), true)
		if pl := s.placeOf(cwd); pl != placeWorkspace && pl != placeRoot {
			c.raise(Risky, "%s runs what `%s` says, outside the workspace", c.by(), cwd)
		}
	}
	if s.cwdUnknown {
		c.raise(Risky, "%s runs in a directory that is only known when it runs", c.by())
	}
	c.targetList(lits(script), "script")
	c.scriptArgs(ops)
}

// scriptArgs judges what is passed on to a script after "--".
func (c *call) scriptArgs(ops []word) {
	for _, w := range ops {
		if !w.lit {
			c.raise(Risky, "%s passes `%s` on to the script, which is only known when it runs", c.by(), w.show())
			continue
		}
		for _, bad := range []string{
			"--config", "--require", "-r", "--globalSetup", "--exec", "--eval", "-e", "--rulesdir", "--plugin",
			"--parser", "--setupFiles", "--runner", "--loader", "--import",
		} {
			if w.text == bad || strings.HasPrefix(w.text, bad+"=") {
				c.raise(Risky, "%s passes `%s` on to the script, which may name code to run", c.by(), w.show())
			}
		}
	}
}

func (c *call) npmRead(sub word, ops []word) {
	if sub.is("view", "info", "show", "outdated", "ping", "whoami", "search", "fund", "doctor") {
		c.raise(Risky, "%s %s asks the registry", c.by(), sub.text)
	}
	if sub.is("pkg") && len(ops) > 1 && !ops[1].is("get") {
		c.raise(Risky, "%s changes package.json", c.by())
	}
}

// jsTools are build and test tools of JavaScript projects.
var jsTools = []string{
	"jest", "vitest", "mocha", "ava", "eslint", "prettier", "tsc", "vue-tsc", "stylelint", "biome", "oxlint",
	"playwright", "cypress", "c8", "nyc", "tap", "standard", "xo", "vite", "next", "nuxt", "astro", "docusaurus", "ng",
	"parcel", "webpack", "rollup", "tsup", "esbuild", "swc", "turbo", "nx", "lerna", "knip", "svelte-check",
}

// runJSBuild judges bundlers and frameworks: those that serve or deploy, too, build and
// check by a word of their own.
func runJSBuild(c *call, _ *spec, p parsed) {
	if in([]string{"webpack", "rollup", "tsup", "esbuild", "swc"}, c.name) {
		if p.has("-c") && (c.name != "rollup" || len(p.operands) > 0 || len(p.values("-c")) > 0) {
			c.raise(Risky, "%s is given a configuration to run", c.by())
		}
		if len(p.operands) > 0 && !p.first("build") && (c.name == "webpack" && !strings.ContainsAny(p.operands[0].script(), "./") || p.first("plugin")) {
			c.raise(Risky, "%s %s does more than build or test", c.by(), p.operands[0].show())
		}
		return
	}
	if !p.first("build", "test", "check", "lint", "typecheck") {
		c.raise(Risky, "%s does more than build or test", c.by())
	}
}

// runJSTasks judges what runs tasks of many packages, by the tasks' names.
func runJSTasks(c *call, _ *spec, p parsed) {
	tasks := p.operands
	switch {
	case c.name == "nx" && p.first("run-many", "affected"):
		tasks = nil
		for _, w := range append(p.values("-t"), p.operands[1:]...) {
			tasks = append(tasks, lits(strings.Split(w.script(), ",")...)...)
		}
	case c.name == "nx" && p.first("run") && len(p.operands) == 2:
		_, task, _ := strings.Cut(p.operands[1].script(), ":")
		tasks = lits(task)
	case c.name == "nx" && len(tasks) > 0:
		tasks = tasks[:1] // and a project
	case p.first("run"):
		tasks = tasks[1:]
	}
	c.targetList(tasks, "task")
}

func runNpx(c *call, _ *spec, _ parsed) { c.npxWords(c.args) }

// npxWords judges running a package's program: a known tool of the workspace
// is that tool, anything else may be downloaded.
func (c *call) npxWords(args []word) {
	for len(args) > 0 && args[0].is("--no-install", "--no", "--offline", "--prefer-offline", "--", "-q", "--quiet") {
		args = args[1:]
	}
	if len(args) > 0 && args[0].lit && in(jsTools, args[0].text) {
		c.silent = true
		c.out = c.s.run(args, c.in, runOpts{noFuncs: true, noShell: true})
		return
	}
	if len(args) == 1 && args[0].is("--version", "--help") {
		return
	}
	c.s.j.install = true
	c.raise(Risky, "%s may download a package and run it", c.by())
	c.suspicious(append(lits(c.name), args...))
}
