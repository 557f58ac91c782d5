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
		case ops[0].is("show", "validate", "licenses", "why"):
			c.build() // it loads the plugins that are installed
			return
		}
	}
	c.targetList(ops, "target")
}

// makeVars are variables that only change how much make says or which tests run.
var makeVars = []string{
	"V", "VERBOSE", "Q", "DEBUG", "RACE", "COVER", "COVERAGE", "TEST", "TESTS", "RUN", "PKG", "PKGS", "TARGET", "JOBS",
	"CI", "BUILD_TYPE", "CONFIG", "MODE", "VERSION", "TAG", "COMMIT", "BRANCH", "ARCH", "GOOS", "GOARCH",
}

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
	for _, w := range p.values("-I") {
		(&call{s: dir, name: c.name}).includeDir(w)
	}
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

var makeSpec = mustSpec(`make | full | v* | -B,--always-make -C,--directory: -d --debug? -e! -f,--file,--makefile:r
	-h,--help -i,--ignore-errors -I,--include-dir:r -j,--jobs? -k,--keep-going -l,--load-average?
	-L,--check-symlink-times -n,--just-print,--dry-run,--recon -o,--old-file: -O,--output-sync? -p,--print-data-base
	-q,--question -r,--no-builtin-rules -R,--no-builtin-variables -s,--silent,--quiet --no-silent
	-S,--no-keep-going,--stop -t,--touch --trace -v,--version -w,--print-directory --no-print-directory -W,--what-if:
	--warn-undefined-variables -E,--eval:! --environment-overrides! --jobserver-style:! --shuffle?`)

// includeDir judges a directory from which make takes more of its rules.
func (c *call) includeDir(w word) {
	if !w.lit {
		c.raise(Risky, "%s takes rules from `%s`, which is only known when it runs", c.by(), w.show())
	}
	for _, p := range c.s.resolve(w.path()) {
		if pl := c.s.placeOf(p); pl != placeWorkspace && pl != placeRoot {
			c.raise(Risky, "%s takes rules from `%s`, outside the workspace", c.by(), p)
		}
	}
}

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
	case args[0].is("new", "init"):
		for _, w := range args[1:] {
			if w.lit && strings.HasPrefix(w.text, "-") {
				if !w.is("--lib", "--bin", "-q", "--vcs=none") {
					c.badOption(&parsed{}, w.text)
				}
				continue
			}
			c.write(w)
		}
		c.write(lit("."))
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
		key, val, _ := strings.Cut(w.text, "=")
		key, _, _ = strings.Cut(key, ":")
		plain := in([]string{
			"CMAKE_BUILD_TYPE", "CMAKE_EXPORT_COMPILE_COMMANDS", "CMAKE_CXX_STANDARD", "CMAKE_C_STANDARD",
			"CMAKE_VERBOSE_MAKEFILE", "CMAKE_POSITION_INDEPENDENT_CODE", "BUILD_TESTING", "BUILD_SHARED_LIBS",
		}, key) ||
			in([]string{"ON", "OFF", "on", "off", "1", "0", "TRUE", "FALSE", "YES", "NO"}, val) && !strings.HasPrefix(key, "CMAKE_")
		if !w.lit || !plain || strings.ContainsAny(val, "/;$") {
			c.raise(Risky, "%s is given `%s`, which may change what it runs", c.by(), w.show())
		}
	}
	if _, tail := cutTail(c.args); len(tail) > 0 {
		c.tailOptions(tail, []string{"-k", "-v", "-d", "-s", "--silent", "--quiet", "--verbose", "--no-print-directory"})
		for _, w := range tail {
			if w.lit && !strings.HasPrefix(w.text, "-") && !isNumber(w.text) {
				c.targetList([]word{w}, "target")
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
		case w.is(
			"validate", "compile", "test-compile", "test", "package", "verify", "integration-test", "process-classes",
			"checkstyle:check", "spotless:check", "spotless:apply", "dependency:tree", "help:effective-pom",
			"surefire:test", "pmd:check", "spotbugs:check",
		):
			c.build()
		default:
			c.raise(Risky, "%s runs the goal `%s`", c.by(), w.show())
		}
	}
	for _, w := range p.values("-D") {
		key, _, _ := strings.Cut(w.text, "=")
		if !w.lit || !in([]string{
			"skipTests", "skipITs", "test", "it.test", "maven.test.skip", "maven.javadoc.skip", "surefire.useFile",
			"failIfNoTests", "surefire.failIfNoSpecifiedTests", "checkstyle.skip", "style.color", "trimStackTrace",
			"groups",
		}, key) {
			c.raise(Risky, "%s is given `%s`, which may change what it runs", c.by(), w.show())
		}
	}
}

func runGradle(c *call, _ *spec, p parsed) {
	for _, w := range p.operands {
		t := w.text[strings.LastIndexByte(w.text, ':')+1:]
		switch {
		case w.lit && in([]string{"tasks", "projects", "dependencies", "properties", "help", "dependencyInsight", "javaToolchains"}, t):
			c.build()
		case w.lit && in([]string{
			"assemble", "classes", "testClasses", "compileJava", "compileKotlin", "compileTestJava", "jar",
			"spotlessCheck", "spotlessApply", "ktlintCheck", "detekt", "checkstyleMain", "integrationTest",
			"jacocoTestReport", "assembleDebug", "testDebugUnitTest", "lintDebug",
		}, t):
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
	if _, tail := cutTail(c.args); len(tail) > 0 {
		c.raise(Risky, "%s is given settings after `--`, which may name code to load", c.by())
	}
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
			for _, bad := range []string{
				"--preload", "-A", "--allow", "--import-map", "--config", "-c", "--unsafely", "--v8-flags", "-r",
				"--define", "--plugin", "--outfile", "--outdir",
			} {
				if strings.HasPrefix(w.text, bad) {
					c.raise(Risky, "%s is given `%s`, which the policy does not know as harmless", c.by(), w.show())
				}
			}
			if strings.HasPrefix(w.text, "http") {
				c.host(w)
				c.raise(Critical, "%s runs what it downloads", c.by())
			} else if !strings.HasPrefix(w.text, "-") {
				c.toolPath(w, true)
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
