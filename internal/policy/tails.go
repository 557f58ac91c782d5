package policy

import "strings"

// cutTail splits arguments at "--": what follows goes to the program that is
// run.
func cutTail(args []word) (own, tail []word) {
	for i, w := range args {
		if w.is("--") {
			return args[:i], args[i+1:]
		}
	}
	return args, nil
}

// libtestPlain are options of Rust's test programs that only choose and show.
var libtestPlain = []string{
	"--nocapture", "--no-capture", "--show-output", "--ignored", "--include-ignored", "--exact", "--list", "-q",
	"--quiet", "--test", "--bench", "--force-run-in-process", "--test-threads", "--skip", "--color", "--format",
}

// tailArgs judges what stands after "--" by the program that gets it.
func (c *call) tailArgs(tail []word) {
	switch c.name {
	case "cargo test", "cargo t", "cargo bench", "cargo nextest":
		c.tailOptions(tail, libtestPlain)
	case "cargo clippy", "cargo rustc", "cargo rustdoc", "cargo doc", "cargo check", "cargo c":
		c.rustcTail(tail)
	case "cargo fmt":
		c.tailOptions(tail, []string{"--check", "-l", "-v", "-q", "--verbose", "--quiet", "--edition"})
		for _, w := range tail {
			if !strings.HasPrefix(w.text, "-") && strings.ContainsAny(w.text, "./") {
				c.write(w)
			}
		}
	default:
		c.scriptArgs(tail)
		for _, w := range tail {
			c.toolPath(w, true)
		}
		c.tailOptions(tail, []string{"-v", "-q", "-x", "-k", "-s", "-vv", "--verbose", "--quiet", "--lf", "--ff"})
	}
}

// tailOptions raises for options outside a list.
func (c *call) tailOptions(tail []word, plain []string) {
	for _, w := range tail {
		name, _, _ := strings.Cut(w.text, "=")
		switch {
		case !w.lit || w.glob:
			c.raise(Risky, "%s passes `%s` on, which is only known when it runs", c.by(), w.show())
		case strings.HasPrefix(w.text, "-") && !in(plain, name):
			c.badOption(&parsed{}, w.text)
		}
	}
}

// rustcTail allows lints alone: a compiler's other options name files and tools.
func (c *call) rustcTail(tail []word) {
	for i := 0; i < len(tail); i++ {
		w := tail[i]
		if w.is("-D", "-W", "-A", "-F", "--warn", "--deny", "--allow", "--forbid") {
			if i++; i < len(tail) && tail[i].lit {
				continue
			}
		}
		lint := len(w.text) > 2 && w.text[0] == '-' && strings.IndexByte("DWAF", w.text[1]) >= 0
		if !w.lit || !lint && !w.is("--no-deps") {
			c.raise(Risky, "%s passes `%s` to the compiler", c.by(), w.show())
		}
	}
}

// runGotestsum judges gotestsum: after "--" stand go test's own arguments.
func runGotestsum(c *call, _ *spec, _ parsed) {
	if _, tail := cutTail(c.args); len(tail) > 0 {
		sub := *c
		sub.subcommand(c.s.j.p.tables.golang, append(lits("test"), tail...), "go")
	}
}

// runGolangci judges golangci-lint: a format may name the file that it goes to.
func runGolangci(c *call, _ *spec, p parsed) {
	for _, w := range p.values("--out-format") {
		for _, f := range strings.Split(w.text, ",") {
			if _, file, ok := strings.Cut(f, ":"); ok && file != "stdout" && file != "stderr" {
				c.write(lit(file))
			}
		}
	}
}

// runSphinx judges sphinx-build, which writes its second operand.
func runSphinx(c *call, _ *spec, p parsed) {
	if len(p.operands) > 1 {
		c.write(p.operands[len(p.operands)-1])
	}
}

// pythonEnvs are environments of tox and nox that check, besides the targets of
// the policy and those named by a version of python.
var pythonEnvs = []string{"mypy", "ruff", "flake8", "pylint", "black", "isort", "coverage", "cov", "py", "unit", "style", "all", "pypy"}

// safeEnv reports whether an environment of tox or nox is known to check.
func (p *Policy) safeEnv(t string) bool {
	if p.safeTarget(t) {
		return true
	}
	parts := strings.FieldsFunc(strings.ToLower(t), func(r rune) bool { return strings.ContainsRune("-_.:/", r) })
	for _, part := range parts {
		if in(p.targetStops, part) {
			return false
		}
	}
	if len(parts) == 0 || strings.Contains(t, "..") {
		return false
	}
	return in(pythonEnvs, strings.Trim(parts[0], "0123456789"))
}

// runEnvList judges tox and nox by the environments or sessions that they run.
func runEnvList(c *call, _ *spec, p parsed) {
	ops := p.operands
	if len(ops) > 0 && strings.HasSuffix(c.name, "tox") && ops[0].is("run", "r", "run-parallel", "p", "list", "l", "config", "c") {
		ops = ops[1:]
	}
	if len(ops) > 0 {
		c.raise(Risky, "%s runs `%s`, which is not known to only test", c.by(), ops[0].show())
		c.suspicious(append(lits(c.name), c.args...))
	}
	for _, w := range p.values("-e", "-s", "--session", "--sessions", "-k", "-t") {
		for _, name := range strings.FieldsFunc(w.text, func(r rune) bool { return r == ',' || r == ' ' }) {
			if !w.lit || !c.s.j.p.safeEnv(name) {
				c.raise(Risky, "%s runs the environment `%s`, whatever it does", c.by(), w.show())
			}
		}
		if !w.lit {
			c.raise(Risky, "%s runs the environment `%s`, which is only known when it runs", c.by(), w.show())
		}
	}
}
