package policy

import "strings"

// runPython knows the modules that build, test and read.
func runPython(c *call, _ *spec, _ parsed) {
	args := c.args
	for len(args) > 0 && args[0].lit && in([]string{"-B", "-E", "-I", "-s", "-S", "-u", "-O", "-OO", "-q", "-v", "-b", "-bb", "-d"}, args[0].text) {
		args = args[1:]
	}
	if len(args) > 1 && args[0].is("-W") {
		args = args[2:]
	}
	if len(args) == 1 && args[0].is("--version", "-V", "-VV", "--help", "-h") {
		return
	}
	if len(args) > 1 && args[0].lit && args[0].is("-m") && args[1].lit {
		c.pythonModule(args[1].text, args[2:])
		return
	}
	if c.manageTests(args) {
		return
	}
	c.interpreter()
}

func (c *call) pythonModule(name string, rest []word) {
	switch name {
	case "pytest", "unittest", "mypy", "flake8", "black", "isort", "ruff", "pylint", "pyflakes", "pycodestyle", "tox", "nox", "coverage", "doctest", "compileall", "py_compile", "build":
		c.silent = true
		c.out = c.s.run(append(lits("python-m-"+name), rest...), c.in, runOpts{noFuncs: true, noShell: true})
		return
	case "json.tool":
		c.pythonFirst()
		n := 0
		for _, w := range rest {
			if w.lit && strings.HasPrefix(w.text, "-") {
				continue
			}
			if n++; n == 2 {
				c.write(w)
			} else {
				c.read(w, false)
			}
		}
		return
	case "site", "sysconfig", "platform", "this", "tokenize", "calendar", "ast", "tabnanny", "pyclbr":
		c.raise(Safe, "%s shows what `%s` prints", c.by(), name)
		c.pythonFirst()
		for _, w := range rest {
			if !w.lit || !strings.HasPrefix(w.text, "-") {
				c.read(w, false)
			}
		}
		return
	case "venv":
		c.pythonVenv(rest)
		return
	case "pip":
		c.pythonFirst()
		c.silent = true
		c.out = c.s.run(append(lits("pip"), rest...), c.in, runOpts{noFuncs: true, noShell: true})
		return
	}
	if name == "ensurepip" {
		c.s.j.install = true
	}
	c.raise(Risky, "%s runs the module `%s`", c.by(), clip(name, 60))
	for _, w := range rest {
		c.code(w.script())
	}
}

// pythonFirst: python -m looks for modules in the working directory before its
// own, so it may run what lies there.
func (c *call) pythonFirst() {
	if c.s.remote != "" || !c.s.j.env.Isolated {
		c.raise(Risky, "%s loads modules from the working directory first, and nothing confines it here", c.by())
	}
}

var venvSpec = mustSpec("python-m-venv | | w* | --system-site-packages --symlinks --copies --without-pip --prompt: -h,--help")

// pythonVenv judges making an environment: python's own files, copied into new
// directories. Emptying one, or upgrading from the network, asks.
func (c *call) pythonVenv(rest []word) {
	c.s.j.install = true
	c.build()
	p := c.parse(venvSpec, rest)
	c.byRole(venvSpec, p.operands)
	for _, w := range p.operands {
		for _, path := range c.s.resolve(w.path()) {
			if pl := c.s.placeOf(path); pl != placeWorkspace {
				c.raise(Risky, "%s fills `%s`", c.by(), c.s.rel(path))
			}
		}
	}
}

// manageTests judges the commands of Django's manage.py that test and check the
// workspace's own code, as task runners' targets are.
func (c *call) manageTests(args []word) bool {
	if len(args) < 2 || !args[0].lit || args[0].byName() != "manage.py" || !args[1].is("test", "check") {
		return false
	}
	paths := c.s.resolve(args[0].text)
	if len(paths) != 1 || c.s.placeOf(paths[0]) != placeWorkspace || c.s.downloaded(paths[0]) {
		return false
	}
	if _, tail := cutTail(args[2:]); len(tail) > 0 {
		return false
	}
	p := c.parse(manageSpec, args[2:])
	c.toolPaths(manageSpec, p)
	c.operand(paths[0])
	c.fileWritten(paths[0])
	c.build()
	return true
}

var manageSpec = mustSpec(`manage.py | build | v* | -v,--verbosity: --failfast --parallel? --keepdb -k: --tag:
	--exclude-tag: --noinput --no-input --no-color --force-color --timing --deploy --fail-level: -t: --shuffle?
	--reverse --traceback`)

// byName is the last component of a path.
func (w word) byName() string { return w.text[strings.LastIndexByte(w.text, '/')+1:] }
