package policy

import (
	"path"
	"strings"
)

// runTargets judges task runners whose operands are targets.
func runTargets(c *call, _ *spec, p parsed) {
	if p.has("-T", "-l", "--list", "--tasks", "--summary") {
		return
	}
	ops := p.operands
	if c.name == "composer" && len(ops) > 0 {
		switch {
		case ops[0].is("run", "run-script") && len(ops) > 1:
			ops = ops[1:2]
		case ops[0].is("install", "require", "update"):
			c.s.j.install = true
		case ops[0].is("show", "validate", "outdated", "licenses", "why"):
			return
		}
	}
	c.targetList(ops, "target")
}

// makeVars are variables that only change how much make says or which tests run.
var makeVars = []string{"V", "VERBOSE", "Q", "DEBUG", "RACE", "COVER", "COVERAGE", "TEST", "TESTS", "RUN", "PKG", "PKGS", "TARGET", "JOBS", "CI", "BUILD_TYPE", "CONFIG", "MODE", "VERSION", "TAG", "COMMIT", "BRANCH", "ARCH", "GOOS", "GOARCH"}

// runMake judges make: its targets by name, and every way to change what they
// run.
func runMake(c *call, _ *spec, _ parsed) {
	if len(c.args) == 1 && c.args[0].is("--version", "-v", "--help", "-h") {
		return
	}
	p := c.parse(makeSpec, c.args)
	dir := c.s
	if d, ok := p.value("-C"); ok {
		dir = c.s.child()
		runCd(&call{s: dir, name: "cd", args: []word{d}})
		if dir.cwdUnknown {
			c.raise(Risky, "%s works in `%s`, which is only known when it runs", c.by(), d.show())
		}
		for _, cwd := range dir.cwds {
			if pl := dir.placeOf(cwd); pl != placeWorkspace && pl != placeRoot {
				c.raise(Risky, "%s runs what `%s` says, outside the workspace", c.by(), cwd)
			}
		}
	}
	c.makefiles(dir, p)
	var targets []word
	for _, w := range p.operands {
		name, val, ok := strings.Cut(w.text, "=")
		if !ok {
			targets = append(targets, w)
			continue
		}
		name = strings.TrimRight(name, ":?+")
		plain := w.lit && strings.Trim(val, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-,") == "" && !strings.HasPrefix(val, "/") && !strings.Contains(val, "..")
		if !in(makeVars, name) || !plain {
			c.raise(Risky, "%s is given the variable `%s`, which may change what it runs", c.by(), clip(name, 60))
			c.s.worst(val, c.by())
		}
	}
	if len(targets) == 0 {
		if t := c.defaultTarget(dir); t != "" {
			targets = lits(t)
		}
	}
	c.targetList(targets, "target")
	for _, w := range p.values("--eval") {
		c.code(w.script())
		_, recipe, _ := strings.Cut(w.script(), "\t")
		c.s.worst(recipe, c.by())
		if _, rule, ok := strings.Cut(w.script(), ";"); ok {
			c.s.worst(rule, c.by())
		}
		if i := strings.Index(w.script(), "$(shell "); i >= 0 {
			c.s.worst(strings.TrimRight(w.script()[i+8:], ")"), c.by())
		}
	}
}

var makeSpec = mustSpec("make | full | v* | -B,--always-make -C,--directory: -d --debug? -e! -f,--file,--makefile:r -h,--help -i,--ignore-errors -I,--include-dir:r -j,--jobs? -k,--keep-going -l,--load-average? -L,--check-symlink-times -n,--just-print,--dry-run,--recon -o,--old-file: -O,--output-sync? -p,--print-data-base -q,--question -r,--no-builtin-rules -R,--no-builtin-variables -s,--silent,--quiet --no-silent -S,--no-keep-going,--stop -t,--touch --trace -v,--version -w,--print-directory --no-print-directory -W,--what-if: --warn-undefined-variables -E,--eval:! --environment-overrides! --jobserver-style:! --shuffle?")

// makefiles records the files that make reads first.
func (c *call) makefiles(dir *scope, p parsed) {
	files := p.values("-f")
	for _, f := range files {
		for _, path := range dir.resolve(f.path()) {
			c.operand(path)
			if pl := dir.placeOf(path); pl != placeWorkspace {
				c.raise(Risky, "%s runs what `%s` says", c.by(), c.s.rel(path))
			}
			c.fileWritten(path)
		}
		if !f.lit || f.is("-") {
			c.raise(Risky, "%s runs what `%s` says", c.by(), f.show())
			c.s.worst(c.in.text, c.by())
		}
	}
	if len(files) > 0 || dir.cwdUnknown {
		return
	}
	for _, cwd := range dir.cwds {
		for _, n := range []string{"GNUmakefile", "makefile", "Makefile"} {
			c.operandIfThere(path.Join(cwd, n), n == "Makefile")
		}
	}
}

// operandIfThere records a file that is read when it is there: by facts, or
// always when sure.
func (c *call) operandIfThere(p string, sure bool) {
	f, ok := c.s.j.facts.Files[p]
	switch {
	case ok && f.Exists, !ok && sure:
		c.operand(p)
	case !ok:
		c.s.touch(p)
	}
	c.fileWritten(p)
}

// fileWritten raises when this command itself made or downloaded a file that
// is now run.
func (c *call) fileWritten(p string) {
	f := c.s.readContent(p)
	if f.net {
		c.raise(Critical, "%s runs `%s`, which was downloaded", c.by(), c.s.rel(p))
	}
	if _, made := c.s.j.files[p]; made && f.known {
		for _, line := range strings.Split(f.text, "\n") {
			if recipe, ok := strings.CutPrefix(line, "\t"); ok {
				c.s.worst(strings.TrimLeft(recipe, "@-+"), c.by())
			}
		}
		c.code(f.text)
	}
}

// defaultTarget is the first target of a Makefile, when facts hold it.
func (c *call) defaultTarget(dir *scope) string {
	if len(dir.cwds) != 1 {
		return ""
	}
	for _, n := range []string{"GNUmakefile", "makefile", "Makefile"} {
		f, ok := dir.j.facts.Files[path.Join(dir.cwds[0], n)]
		if !ok || !f.Exists {
			continue
		}
		for _, line := range strings.Split(string(f.Head), "\n") {
			if strings.Contains(line, ".DEFAULT_GOAL") || strings.HasPrefix(line, "include") || strings.HasPrefix(line, "-include") {
				return ""
			}
			name, _, ok := strings.Cut(line, ":")
			if ok && name != "" && !strings.ContainsAny(name, " \t#$%=.?+") && !strings.HasPrefix(line[len(name):], ":=") {
				return name
			}
		}
		return ""
	}
	return ""
}

// npmNeutral are options of npm and kin that change nothing about what runs.
var npmNeutral = []string{"-s", "--silent", "-q", "--quiet", "--if-present", "-w", "--workspaces", "-ws", "--no-progress", "--color", "--no-color", "--no-audit", "--no-fund", "-r", "--recursive", "-d", "-dd", "--loglevel=error", "--loglevel=warn", "--offline", "--frozen-lockfile", "--immutable", "--json", "--long", "-l", "--parseable", "-p", "--prod", "--production", "--all", "-a", "--stream", "--parallel", "--no-bail", "--bail", "--ci", "--coverage", "--runInBand", "-g", "--global", "--verbose", "--no-watch", "--no-coverage", "--progress=false"}

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
	case sub.is("run", "run-script"), sub.is("ls", "list", "ll", "la", "view", "info", "show", "outdated", "explain", "why", "root", "prefix", "bin", "help", "pkg", "query", "fund", "doctor", "ping", "whoami", "search"):
		c.npmRead(sub, ops)
		return
	case sub.is("install", "i", "ci", "add", "install-test", "it", "update", "up", "upgrade", "import", "dedupe", "rebuild", "install-ci-test", "cit", "link", "fetch"):
		c.s.j.install = true
		c.raise(Risky, "%s downloads packages and runs what they say at installation", c.by())
		return
	case sub.is("publish", "unpublish", "deprecate", "dist-tag", "owner", "access", "team", "org", "token", "unstar"):
		c.raise(Critical, "%s %s changes what others install", c.by(), sub.text)
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
		for _, bad := range []string{"--config", "--require", "-r", "--globalSetup", "--exec", "--eval", "-e", "--rulesdir", "--plugin", "--parser", "--setupFiles", "--runner", "--loader", "--import"} {
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
var jsTools = []string{"jest", "vitest", "mocha", "ava", "eslint", "prettier", "tsc", "vue-tsc", "stylelint", "biome", "oxlint", "playwright", "cypress", "c8", "nyc", "tap", "standard", "xo"}

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

func runGoWork(c *call, _ *spec, p parsed) {
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

func runGoRisky(c *call, _ *spec, p parsed) {
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

// runCargo judges cargo by its subcommand.
func runCargo(c *call, _ *spec, _ parsed) {
	args := c.args
	for len(args) > 0 && args[0].is("-q", "--quiet", "-v", "--verbose", "--offline", "--locked", "--frozen") {
		args = args[1:]
	}
	switch {
	case len(args) == 0, args[0].is("--version", "-V", "--help", "-h", "--list"):
		return
	case !args[0].lit || args[0].glob:
		c.raise(Risky, "cargo's command, `%s`, is only known when it runs", args[0].show())
		return
	case args[0].is("publish", "yank", "owner", "login"):
		c.raise(Critical, "%s %s changes what others install", c.by(), args[0].text)
		return
	case args[0].is("install", "add", "fetch", "update"):
		c.s.j.install = true
		c.raise(Risky, "%s downloads code", c.by())
		return
	case args[0].is("nextest") && len(args) > 1 && args[1].is("run", "list"):
		args = append(args[:1:1], args[2:]...)
	}
	c.subcommand(c.s.j.p.tables.cargo, args, "cargo")
}

func runCargoFmt(c *call, _ *spec, p parsed) {
	if !p.has("--check") {
		c.raise(Write, "%s rewrites workspace files", c.by())
	}
}

// runCoverage judges coverage: run is running a program.
func runCoverage(c *call, _ *spec, p parsed) {
	if len(p.operands) == 0 {
		return
	}
	switch op := p.operands[0]; {
	case op.is("report", "debug", "annotate"):
	case op.is("html", "xml", "json", "lcov", "combine", "erase"):
		c.raise(Write, "%s writes a report into the workspace", c.by())
	case op.is("run") && p.has("-m") && len(p.operands) > 1 && p.operands[1].is("pytest", "unittest"):
		c.build()
	default:
		c.raise(Risky, "%s runs `%s`", c.by(), op.show())
	}
}

func runPytest(c *call, _ *spec, p parsed) {
	for _, w := range p.values("-p") {
		if !w.lit || !strings.HasPrefix(w.text, "no:") {
			c.raise(Risky, "%s loads the plugin `%s`", c.by(), w.show())
		}
	}
	for _, w := range p.values("--cov-report") {
		if _, dst, ok := strings.Cut(w.text, ":"); ok {
			v := w
			v.text = dst
			c.write(v)
		}
	}
	for _, w := range p.operands {
		if w.lit {
			file, _, _ := strings.Cut(w.text, "::")
			for _, pth := range c.s.resolve(file) {
				if pl := c.s.placeOf(pth); pl != placeWorkspace && pl != placeRoot {
					c.raise(Risky, "%s runs `%s`, outside the workspace", c.by(), pth)
				}
			}
		}
	}
}

// subTargets judges tools whose first operand is a command: builds and tests by
// name, reads by a list, everything else asks.
func (c *call) subTargets(p parsed, build, read []string) bool {
	if len(p.operands) == 0 {
		return false
	}
	op := p.operands[0]
	c.sub = op.text
	switch {
	case op.lit && in(build, op.text):
		c.build()
	case op.lit && in(read, op.text):
	default:
		c.raise(Risky, "%s %s is not known to only build or test", c.by(), op.show())
		c.suspicious(append(lits(c.name), c.args...))
	}
	return true
}

func runNinja(c *call, _ *spec, p parsed) {
	if d, ok := p.value("-C"); ok {
		c.write(d)
	}
	if t, ok := p.value("-t"); ok {
		if !t.is("targets", "query", "commands", "deps", "rules", "list", "inputs", "compdb") {
			c.raise(Risky, "%s runs the tool `%s`", c.by(), t.show())
		}
		return
	}
	if len(p.operands) == 0 {
		c.build()
		return
	}
	c.targetList(p.operands, "target")
}

func runCmake(c *call, _ *spec, p parsed) {
	for _, w := range p.values("-D") {
		up := strings.ToUpper(w.text)
		for _, bad := range []string{"COMPILER", "LAUNCHER", "LINKER", "_EXECUTABLE", "TOOLCHAIN", "MAKE_PROGRAM", "PROJECT_INCLUDE", "INSTALL_PREFIX", "_COMMAND", "FLAGS"} {
			if strings.Contains(up, bad) && !strings.HasPrefix(up, "CMAKE_EXPORT_COMPILE_COMMANDS") {
				c.raise(Risky, "%s is given `%s`, which may change what it runs", c.by(), w.show())
			}
		}
	}
	if t, ok := p.value("--target"); ok {
		c.targetList([]word{t}, "target")
		return
	}
	c.build()
}

func runMeson(c *call, _ *spec, p parsed) {
	c.subTargets(p, []string{"compile", "test", "setup", "configure", "format"}, []string{"introspect"})
}

func runBazel(c *call, _ *spec, p parsed) {
	c.subTargets(p, []string{"build", "test", "coverage", "check", "lint", "fmt"}, []string{"query", "cquery", "aquery", "info", "version", "help", "list", "targets"})
}

func runMvn(c *call, _ *spec, p parsed) {
	if len(p.operands) == 0 {
		return
	}
	for _, w := range p.operands {
		switch {
		case w.is("validate", "compile", "test-compile", "test", "package", "verify", "integration-test", "process-classes", "checkstyle:check", "spotless:check", "spotless:apply", "dependency:tree", "help:effective-pom", "surefire:test", "pmd:check", "spotbugs:check"):
			c.build()
		default:
			c.raise(Risky, "%s runs the goal `%s`", c.by(), w.show())
		}
	}
	for _, w := range p.values("-D") {
		for _, bad := range []string{"exec.", "argline", "agent", "maven.repo", "maven.ext", "jvm", "user.home", "settings"} {
			if strings.Contains(strings.ToLower(w.text), bad) {
				c.raise(Risky, "%s is given `%s`, which may change what it runs", c.by(), w.show())
			}
		}
	}
}

func runGradle(c *call, _ *spec, p parsed) {
	for _, w := range p.operands {
		t := w.text[strings.LastIndexByte(w.text, ':')+1:]
		switch {
		case w.lit && in([]string{"tasks", "projects", "dependencies", "properties", "help", "dependencyInsight", "javaToolchains"}, t):
			c.build()
		case w.lit && in([]string{"assemble", "classes", "testClasses", "compileJava", "compileKotlin", "compileTestJava", "jar", "spotlessCheck", "spotlessApply", "ktlintCheck", "detekt", "checkstyleMain", "integrationTest", "jacocoTestReport", "assembleDebug", "testDebugUnitTest", "lintDebug"}, t):
			c.build()
		default:
			c.targetList([]word{lit(t)}, "task")
			if !w.lit {
				c.raise(Risky, "%s runs a task that is only known when it runs", c.by())
			}
		}
	}
}

func runDotnet(c *call, _ *spec, p parsed) {
	c.subTargets(p, []string{"build", "test", "format", "msbuild", "vstest"}, []string{"list", "sln", "help"})
}

func runSwift(c *call, _ *spec, p parsed) {
	c.subTargets(p, []string{"build", "test"}, nil)
}

func runZig(c *call, _ *spec, p parsed) {
	if len(p.operands) > 1 && p.operands[0].is("build") {
		c.targetList(p.operands[1:], "step")
		return
	}
	c.subTargets(p, []string{"build", "test", "fmt", "ast-check", "build-exe", "build-lib", "build-obj"}, []string{"version", "env", "zen", "targets"})
}

func runMix(c *call, _ *spec, p parsed) {
	c.subTargets(p, []string{"test", "compile", "format", "credo", "dialyzer", "lint", "check"}, []string{"help", "deps.tree", "xref"})
}

// jsTool judges the subcommands of bun and deno that test and check.
func (c *call) jsTool(args []word) bool {
	if len(args) == 0 || !args[0].lit {
		return false
	}
	rest := args[1:]
	ask := func() {
		for _, w := range rest {
			if !w.lit && w.mayBeOption() {
				c.raise(Risky, "%s is given `%s`, which may be an option", c.by(), w.show())
			}
			for _, bad := range []string{"--preload", "-A", "--allow", "--import-map", "--config", "-c", "--unsafely", "--v8-flags", "-r", "--define", "--plugin", "--outfile", "--outdir"} {
				if strings.HasPrefix(w.text, bad) {
					c.raise(Risky, "%s is given `%s`, which the policy does not know as harmless", c.by(), w.show())
				}
			}
			if strings.HasPrefix(w.text, "http") {
				c.host(w)
				c.raise(Critical, "%s runs what it downloads", c.by())
			}
		}
	}
	switch args[0].text {
	case "test", "check", "lint", "fmt":
		ask()
		c.build()
		return true
	case "build":
		if c.name == "bun" {
			ask()
			c.build()
			return true
		}
	case "run", "task":
		if len(rest) > 0 && rest[0].lit && c.s.j.p.safeTarget(rest[0].text) && !strings.Contains(rest[0].text, ".") {
			c.build()
			rest = rest[1:]
			ask()
			return true
		}
		if len(rest) > 0 {
			for _, w := range rest {
				if strings.HasPrefix(w.text, "http") {
					c.host(w)
					c.raise(Critical, "%s runs what it downloads", c.by())
				}
			}
		}
	case "install", "add", "i", "x":
		c.s.j.install = true
	}
	return false
}

// runCC judges compilers of C and kin: sources in, objects out, and the many
// options that run or load something else.
func runCC(c *call, _ *spec, _ parsed) {
	if len(c.args) == 1 && c.args[0].is("--version", "-v", "-dumpmachine", "-dumpversion") {
		return
	}
	out := false
	for i := 0; i < len(c.args); i++ {
		w := c.args[i]
		t := w.text
		switch {
		case !w.lit && w.mayBeOption():
			c.raise(Risky, "`%s` may add an option to %s that is only known when it runs", w.show(), c.by())
		case t == "-o" && i+1 < len(c.args):
			i++
			c.write(c.args[i])
			out = true
		case strings.HasPrefix(t, "-o") && len(t) > 2:
			c.write(lit(t[2:]))
			out = true
		case in([]string{"-I", "-L", "-D", "-U", "-l", "-isystem", "-iquote", "-include", "-x", "-std", "-arch", "-framework", "-MF", "-MT", "-MQ", "-target"}, t):
			i++
		case strings.HasPrefix(t, "@"):
			c.raise(Risky, "%s takes options from `%s`", c.by(), w.show())
		case len(t) < 2 || t[0] != '-':
			c.read(w, false)
		case ccHarmless(t):
		default:
			c.badOption(&parsed{}, t)
		}
	}
	if !out {
		c.write(lit("a.out"))
	}
	c.build()
}

func ccHarmless(t string) bool {
	for _, p := range []string{"-W", "-f", "-m", "-D", "-U", "-I", "-L", "-l", "-O", "-g", "-std=", "--std="} {
		if strings.HasPrefix(t, p) {
			for _, bad := range []string{"-Wa,", "-Wl,", "-Wp,", "-fplugin", "-fuse-ld", "-fdump", "-wrapper", "-fmodule", "-fprofile", "-fcrash", "-fdiagnostics-add", "-mllvm", "-fpass-plugin", "-flto-"} {
				if strings.HasPrefix(t, bad) {
					return false
				}
			}
			return true
		}
	}
	return in([]string{"-c", "-S", "-E", "-v", "-w", "-s", "-static", "-shared", "-pthread", "-pedantic", "-pedantic-errors", "-ansi", "-pipe", "-M", "-MM", "-MD", "-MMD", "-MP", "-MG", "-P", "-C", "-rdynamic", "-nostdlib", "-nostdinc", "-fsyntax-only", "-no-pie", "-pie", "-###"}, t)
}

func runCompiler(c *call, _ *spec, _ parsed) {
	if len(c.args) == 1 && c.args[0].is("--version", "-version", "-V", "-v", "-vV") || len(c.args) == 2 && c.args[0].is("--explain", "--print") {
		return
	}
	for i, w := range c.args {
		t := w.text
		switch {
		case !w.lit && w.mayBeOption():
			c.raise(Risky, "`%s` may add an option to %s that is only known when it runs", w.show(), c.by())
		case i > 0 && c.args[i-1].is("-o", "-d", "--out-dir"):
			c.write(w)
		case t == "-o", t == "-d", t == "--out-dir", t == "--edition", t == "-O", t == "-g", t == "--test", t == "-cp", t == "-classpath", t == "-Wall", t == "-c", t == "--crate-type", t == "--emit", t == "-nowarn", t == "-include-runtime":
		case strings.HasPrefix(t, "--edition="), strings.HasPrefix(t, "--crate-type="), strings.HasPrefix(t, "-Xlint"), strings.HasPrefix(t, "--emit="):
		case strings.HasPrefix(t, "-"):
			c.badOption(&parsed{}, t)
		case strings.HasPrefix(t, "@"):
			c.raise(Risky, "%s takes options from `%s`", c.by(), w.show())
		default:
			c.read(w, false)
		}
	}
	c.build()
}
