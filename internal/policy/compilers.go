package policy

import "strings"

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
		case t == "-MF" && i+1 < len(c.args):
			i++
			c.write(c.args[i])
		case t == "-include" && i+1 < len(c.args):
			i++
			c.read(c.args[i], false)
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
	if !out && !c.argHas("-E", "-fsyntax-only", "-M", "-MM") {
		c.write(lit("a.out"))
	}
	c.build()
}

func ccHarmless(t string) bool {
	for _, p := range []string{"-W", "-f", "-m", "-D", "-U", "-I", "-L", "-l", "-O", "-g", "-std=", "--std="} {
		if strings.HasPrefix(t, p) {
			for _, bad := range []string{
				"-Wa,", "-Wl,", "-Wp,", "-fplugin", "-fuse-ld", "-fopt-info", "-ftime-trace", "-fsave-",
				"-fstack-usage", "-fcallgraph", "-MF", "-gsplit", "-fdebug-", "-frandom", "-fsanitize-", "-fproc-stat",
				"-foptimization-record", "-fcoverage", "-ftest-coverage", "-fdump", "-wrapper", "-fmodule", "-fprofile",
				"-fcrash", "-fdiagnostics-add", "-mllvm", "-fpass-plugin", "-flto-",
			} {
				if strings.HasPrefix(t, bad) {
					return false
				}
			}
			return true
		}
	}
	return in([]string{
		"-c", "-S", "-E", "-v", "-w", "-s", "-static", "-shared", "-pthread", "-pedantic", "-pedantic-errors", "-ansi",
		"-pipe", "-M", "-MM", "-MD", "-MMD", "-MP", "-MG", "-P", "-C", "-rdynamic", "-nostdlib", "-nostdinc",
		"-fsyntax-only", "-no-pie", "-pie", "-###", "-dM", "-dD", "-dN", "-dI", "-dU",
	}, t)
}

// compilerPlain are options of compilers that load nothing; values follow some of them.
var compilerPlain = []string{
	"-o", "-d", "--out-dir", "--edition", "-O", "-g", "--test", "-cp", "-classpath", "-Wall", "-c", "--crate-type",
	"--emit", "-nowarn", "-include-runtime",
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
		case i > 0 && c.args[i-1].is("-cp", "-classpath"):
			c.classPath(w)
		case in(compilerPlain, t):
		case strings.HasPrefix(t, "--edition="), strings.HasPrefix(t, "--crate-type="), strings.HasPrefix(t, "-Xlint"), strings.HasPrefix(t, "--emit=") && !strings.ContainsAny(t[7:], "=/"):
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

// classPath judges a list of places that a compiler loads classes from: those
// outside the workspace hold others' code, which it runs as processors.
func (c *call) classPath(w word) {
	if !w.lit {
		c.raise(Risky, "%s loads classes from `%s`, which is only known when it runs", c.by(), w.show())
		return
	}
	for _, p := range strings.Split(w.text, ":") {
		if p != "" {
			c.toolPath(lit(strings.TrimSuffix(p, "*")), true)
		}
	}
}
