package policy

import (
	"strings"
)

// wrapTable holds programs that run another command, each with its own option
// grammar. None lowers a tier; one that adds no power does not raise it.
const wrapTable = `
nice | wrap stop numbers | v* | -n,--adjustment:
nohup chronic unbuffer catchsegv fakeroot rlwrap | wrap stop | v* | -p -e -v
setsid | wrap stop | v* | -c,--ctty -f,--fork -w,--wait
timeout gtimeout | wrap stop skip1 full | v* | --preserve-status -p --foreground -f -k,--kill-after: -s,--signal: -v,--verbose --help --version
stdbuf | wrap stop full | v* | -i,--input: -o,--output: -e,--error:
time gtime | wrap stop full | v* | -p,--portability -f,--format: -o,--output:w -a,--append -v,--verbose -q,--quiet
ionice | wrap stop | v* | -c,--class: -n,--classdata: -t,--ignore -p,--pid:! -P! -u!
chrt | wrap stop skip1 | v* | -b,--batch -f,--fifo -i,--idle -o,--other -r,--rr -a,--all-tasks -R,--reset-on-fork -p!
taskset | wrap stop skip1 | v* | -a,--all-tasks -c,--cpu-list -p!
prlimit | wrap stop | v* | -c,--core? -d,--data? -n,--nofile? -u,--nproc? -v,--as? -t,--cpu? -f,--fsize? -s,--stack?
setarch linux32 linux64 i386 x86_64 | wrap stop | v* | -R,--addr-no-randomize -v,--verbose
caffeinate | wrap stop | v* | -d -i -m -s -u -t:
env genv | raw env | v* |
busybox toybox | raw busybox | v* |
xargs gxargs | raw xargs | v* |
watch | raw watch | v* |
flock | raw flock | v* |
script | raw script | v* |
parallel | raw parallel | v* |
hyperfine | raw strings | v* |
c8 nyc scan-build | coverwrap stop | v* | -r,--reporter: --all --include: --exclude: -x: --check-coverage --lines: --branches: --functions: --statements: --silent --src: --skip-full -o:w --report-dir,--reports-dir:w --temp-dir,--temp-directory:w --status-bugs -v
entr | wrap stop | v* | -a -c -d -n -p -r -s! -z
sudo doas pkexec | raw sudo | v* |
su runuser | raw su | v* |
strace ltrace perf valgrind gdb lldb rr dtruss | raw trace | v* |
systemd-run setpriv firejail bwrap dbus-run-session xvfb-run start-stop-daemon daemonize nsjail proot torsocks torify proxychains proxychains4 sshpass sem faketime unshare-user expect-run | raw riskywrap | v* |
chroot unshare nsenter capsh pivot_root | raw escape | v* |
bash sh dash zsh ksh ksh93 mksh ash fish csh tcsh rbash yash busybox-sh pwsh elvish nu | raw shell | v* |
ssh slogin autossh mosh | raw ssh | v* |
tmux screen byobu | raw tmux | v* |
poetry pipenv pdm rye hatch uv mise direnv dotenv nix-shell nix conda mamba micromamba volta asdf rtx fnm nvm foreman honcho with-contenv s6-setuidgid gosu su-exec | raw envrun | v* |
at batch | raw at | v* |
`

func runWrap(c *call, sp *spec, p parsed) {
	ops := p.operands
	if sp.attr("skip1") {
		if len(ops) == 0 {
			return
		}
		ops = ops[1:]
	}
	if c.name == "setarch" && len(ops) > 0 && ops[0].is("x86_64", "i386", "linux32", "linux64", "aarch64") {
		ops = ops[1:]
	}
	c.silent = true
	if len(ops) == 0 {
		return
	}
	if p.bad {
		c.suspicious(append(lits(c.name), c.args...))
	}
	c.inner(ops)
}

// runCoverWrap judges a wrapper that writes a report on the command that it runs.
func runCoverWrap(c *call, sp *spec, p parsed) {
	c.build()
	runWrap(c, sp, p)
}

// runEnv judges env: assignments, -S's own splitting, the command.
func runEnv(c *call, _ *spec, _ parsed) {
	args := append([]word(nil), c.args...)
	s := c.s.child()
	c.s = s
	for len(args) > 0 {
		w := args[0]
		t := w.text
		if !w.lit && !strings.Contains(w.prefix, "=") {
			if w.mayBeOption() || w.split {
				c.raise(Risky, "%s is given `%s`, which may be an option or an assignment", c.by(), w.show())
			}
			break
		}
		if i := strings.IndexByte(t, '='); i > 0 && t[0] != '-' {
			c.envAssign(w, i)
			args = args[1:]
			continue
		}
		if len(t) < 2 || t[0] != '-' {
			if t == "-" {
				s.dropEnv()
				args = args[1:]
				continue
			}
			break
		}
		var ok bool
		if args, ok = c.envOption(args); !ok {
			break
		}
	}
	c.silent = true
	if len(args) == 0 {
		c.silent = false
		c.raise(Risky, "%s shows every environment variable, which may hold credentials", c.by())
		c.out = flow{secret: true, from: c.name}
		return
	}
	c.inner(args)
}

func (c *call) envAssign(w word, i int) {
	name := w.text[:i]
	v := variable{val: w.text[i+1:], known: w.lit, exported: true, flow: w.flow}
	if !isName(name) {
		c.raise(Risky, "%s sets `%s`, which is no plain variable", c.by(), clip(name, 60))
		if strings.HasPrefix(name, "BASH_FUNC_") {
			c.raise(Critical, "%s replaces the command `%s`", c.by(), clip(name, 60))
		}
		return
	}
	c.s.assign(name, v)
}

func (s *scope) dropEnv() {
	s.ownGit = true
	s.own()
	clear(s.vars)
}

// envOption reads one option of env, and reports whether options may follow.
func (c *call) envOption(args []word) ([]word, bool) {
	t := args[0].text
	args = args[1:]
	next := func() word {
		if len(args) == 0 {
			return lit("")
		}
		w := args[0]
		args = args[1:]
		return w
	}
	name, val, attached := strings.Cut(t, "=")
	switch {
	case t == "--":
		return args, false
	case strings.HasPrefix(name, "--"):
		switch {
		case strings.HasPrefix("--ignore-environment", name) && len(name) > 9:
			c.s.dropEnv()
		case strings.HasPrefix("--unset", name) && len(name) > 2:
			w := lit(val)
			if !attached {
				w = next()
			}
			c.envUnset(w)
		case strings.HasPrefix("--chdir", name) && len(name) > 2:
			w := lit(val)
			if !attached {
				w = next()
			}
			c.envChdir(w)
		case strings.HasPrefix("--split-string", name) && len(name) > 2:
			w := lit(val)
			if !attached {
				w = next()
			}
			return c.envSplit(w, args), true
		case name == "--null", name == "--debug", name == "--list-signal-handling", strings.HasPrefix(name, "--block-signal"), strings.HasPrefix(name, "--default-signal"), strings.HasPrefix(name, "--ignore-signal"):
		default:
			c.badOption(&parsed{}, t)
			c.suspicious(append(lits("env"), args...))
		}
		return args, true
	}
	for k := 1; k < len(t); k++ {
		rest := lit(t[k+1:])
		switch t[k] {
		case 'i':
			c.s.dropEnv()
		case '0', 'v':
		case 'u', 'C', 'S', 'P':
			if rest.text == "" {
				rest = next()
			}
			switch t[k] {
			case 'u':
				c.envUnset(rest)
			case 'C':
				c.envChdir(rest)
			case 'S':
				return c.envSplit(rest, args), true
			case 'P':
				c.raise(Risky, "%s sets where the command is found", c.by())
			}
			return args, true
		default:
			c.badOption(&parsed{}, t)
			c.suspicious(append(lits("env"), args...))
			return args, true
		}
	}
	return args, true
}

func (c *call) envUnset(w word) {
	c.s.ownGit = c.s.ownGit || !w.lit || strings.HasPrefix(w.text, "GIT_")
	if what := specialVar(w.text); what != "" && w.lit {
		if what == "" || w.text == "HOME" || w.text == "PATH" {
			c.raise(Risky, "%s removes `%s`, which changes %s", c.by(), w.text, what)
		}
	}
	c.s.own()
	delete(c.s.vars, w.text)
}

func (c *call) envChdir(w word) {
	sub := &call{s: c.s, name: "cd", args: []word{w}}
	runCd(sub)
}

// envSplit splits the text of -S as env does, and puts it before the rest.
func (c *call) envSplit(w word, rest []word) []word {
	if !w.lit {
		c.raise(Risky, "%s splits text that is only known when it runs", c.by())
		c.s.worst(w.script(), c.by())
		return append([]word{{tmpl: unknownVar, sample: "x", split: true}}, rest...)
	}
	// A shell would read more into the text than env does: the worse counts.
	c.s.runScript(w.text, scriptOpts{what: c.by()})
	f, err := c.s.j.p.parse("x "+strings.ReplaceAll(strings.ReplaceAll(w.text, "\\_", " "), "\\c", "#"), ShellSh)
	if err != nil || len(f.Stmts) == 0 {
		c.raise(Risky, "%s splits text that is not understood: `%s`", c.by(), w.show())
		return rest
	}
	var out []word
	for _, field := range splitQuoted(w.text) {
		if strings.Contains(field, "${") {
			out = append(out, word{tmpl: unknownVar, sample: "x"})
			continue
		}
		out = append(out, lit(field))
	}
	return append(out, rest...)
}

// splitQuoted splits text at blanks outside quotes, and removes the quotes.
func splitQuoted(t string) []string {
	var out []string
	var b strings.Builder
	have := false
	var quote byte
	for i := 0; i < len(t); i++ {
		ch := t[i]
		switch {
		case quote != 0 && ch == quote:
			quote = 0
		case quote == 0 && (ch == '\'' || ch == '"'):
			quote, have = ch, true
		case ch == '\\' && quote != '\'' && i+1 < len(t):
			i++
			have = true
			switch t[i] {
			case '_':
				if quote == 0 {
					out, have = append(out, b.String()), false
					b.Reset()
				} else {
					b.WriteByte(' ')
				}
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			default:
				b.WriteByte(t[i])
			}
		case quote == 0 && (ch == ' ' || ch == '\t' || ch == '\n'):
			if have {
				out, have = append(out, b.String()), false
				b.Reset()
			}
		default:
			b.WriteByte(ch)
			have = true
		}
	}
	if have {
		out = append(out, b.String())
	}
	return out
}

// runBusybox judges an applet as the program of its name.
func runBusybox(c *call, _ *spec, _ parsed) {
	c.silent = true
	if len(c.args) == 0 || c.args[0].is("--list", "--help", "--list-full") {
		return
	}
	if c.args[0].is("--install") {
		c.raise(Risky, "%s installs commands", c.by())
		return
	}
	c.inner(c.args)
}

// xargsLine is an xargs command line while it is read.
type xargsLine struct {
	c       *call
	args    []word
	replace string
	exact   bool // names are read exactly: by NUL or a delimiter
	src     flow
}

// runXargs judges the command that xargs runs with names it reads.
func runXargs(c *call, _ *spec, _ parsed) {
	x := &xargsLine{c: c, args: c.args, src: c.in}
	for len(x.args) > 0 && x.args[0].lit && len(x.args[0].text) > 1 && x.args[0].text[0] == '-' {
		t := x.args[0].text
		x.args = x.args[1:]
		if t == "--" {
			break
		}
		if strings.HasPrefix(t, "--") {
			x.long(t)
		} else {
			x.short(t)
		}
	}
	c.silent = true
	args := x.args
	if len(args) == 0 {
		args = lits("echo")
	}
	c.s.worstWords(args, c.by()) // should its input be empty
	if x.replace != "" {
		c.s.run(args, flow{none: true}, runOpts{noFuncs: true, noShell: true}) // as it stands
	}
	ws := c.xargsWords(args, x.src, x.replace, x.exact)
	saved := c.in
	c.in = flow{none: true}
	c.inner(ws)
	c.in = saved
	if x.src.secret || x.src.net {
		c.out.secret, c.out.net = c.out.secret || x.src.secret, c.out.net || x.src.net
		c.out.from = orElse(c.out.from, x.src.from)
	}
}

// next is an option's value: attached, or the next word.
func (x *xargsLine) next(val string) word {
	if val != "" || len(x.args) == 0 {
		return lit(val)
	}
	w := x.args[0]
	x.args = x.args[1:]
	return w
}

func (x *xargsLine) long(t string) {
	name, val, _ := strings.Cut(t, "=")
	switch name {
	case "--null":
		x.exact = true
	case "--no-run-if-empty", "--verbose", "--exit", "--show-limits", "--max-lines", "--eof":
	case "--max-args", "--max-procs", "--max-chars":
		x.next(val)
	case "--delimiter":
		x.next(val)
		x.exact = true
	case "--arg-file":
		x.src = x.c.read(x.next(val), false)
	case "--replace":
		x.replace = orElse(val, "{}")
	default:
		x.c.badOption(&parsed{}, t)
	}
}

func (x *xargsLine) short(t string) {
	for k := 1; k < len(t); k++ {
		val := t[k+1:]
		switch t[k] {
		case '0':
			x.exact = true
			continue
		case 'r', 't', 'x', 'p', 'o':
			continue
		case 'n', 'P', 's', 'L', 'E':
			x.next(val)
		case 'd':
			x.next(val)
			x.exact = true
		case 'a':
			x.src = x.c.read(x.next(val), false)
		case 'I', 'J':
			x.replace = x.next(val).text
		case 'i':
			x.replace = orElse(val, "{}")
		case 'l', 'e':
		default:
			x.c.badOption(&parsed{}, t)
		}
		return
	}
}

// xargsWords is the command with what xargs reads put in.
func (c *call) xargsWords(args []word, src flow, replace string, exact bool) []word {
	item := word{tmpl: unknownVar, sample: "x", split: true}
	item.flow = taint(src)
	item.flat = src.num
	if exact || src.num {
		item.class = src.class
		item.noDash = item.noDash || len(src.roots) > 0
	} else {
		item.class = class{num: src.num, inside: src.inside && src.noDash}
		item.noDash = src.num
	}
	var known []word
	if src.known {
		for _, f := range splitQuoted(src.text) {
			known = append(known, lit(f))
		}
	}
	if replace == "" {
		ws := append([]word(nil), args...)
		if src.known && len(known) <= maxFields {
			return append(ws, known...)
		}
		return append(ws, item)
	}
	if src.known {
		item.text = strings.TrimSpace(src.text)
		if !strings.Contains(item.text, "\n") {
			item.lit = true
		} else {
			item.text = ""
		}
	}
	item.split = false
	var ws []word
	for _, w := range args {
		switch {
		case w.is(replace):
			ws = append(ws, item)
		case w.lit && strings.Contains(w.text, replace) && item.lit:
			ws = append(ws, lit(strings.ReplaceAll(w.text, replace, item.text)))
		case w.lit && strings.Contains(w.text, replace):
			ws = append(ws, splice(w.text, replace, item))
		default:
			ws = append(ws, w)
		}
	}
	return ws
}

func runWatch(c *call, _ *spec, _ parsed) {
	sp := watchSpec
	p := c.parse(sp, c.args)
	c.silent = true
	if p.bad {
		c.suspicious(append(lits(c.name), c.args...))
	}
	if p.has("-x") {
		c.inner(p.operands)
		return
	}
	c.shellText(p.operands, scriptOpts{what: c.by(), lang: ShellSh})
}

var watchSpec = mustSpec("watch | full stop | v* | -b,--beep -c,--color -C,--no-color -d,--differences? -e,--errexit -g,--chgexit -q,--equexit: -n,--interval: -p,--precise -t,--no-title -w,--no-wrap -r,--no-rerun -x,--exec -h,--help -v,--version")

func runFlock(c *call, _ *spec, _ parsed) {
	p := c.parse(flockSpec, c.args)
	c.silent = true
	ops := p.operands
	if len(ops) == 0 {
		return
	}
	if !isNumber(ops[0].text) || len(ops) > 1 {
		c.write(ops[0])
	}
	rest := ops[1:]
	switch {
	case len(rest) > 0 && rest[0].is("-c", "--command"):
		c.shellText(rest[1:], scriptOpts{what: c.by(), lang: ShellSh})
	case len(rest) > 0:
		c.inner(rest)
	}
	if p.bad {
		c.suspicious(append(lits(c.name), c.args...))
	}
}

var flockSpec = mustSpec("flock | full stop | v* | -s,--shared -x,-e,--exclusive,--exclusive -u,--unlock -n,--nonblock,--nb -w,--timeout,--wait: -E,--conflict-exit-code: -o,--close -F,--no-fork --verbose -h,--help -V,--version")

func runScriptCmd(c *call, _ *spec, _ parsed) {
	p := c.parse(scriptSpec, c.args)
	c.silent = true
	out := lit("typescript")
	if len(p.operands) > 0 {
		out = p.operands[0]
	}
	c.write(out)
	cmd, ok := p.value("--command")
	if !ok {
		c.raise(Risky, "%s starts a shell", c.by())
		if len(p.operands) > 1 { // as on BSD: script file command
			c.inner(p.operands[1:])
		}
		return
	}
	c.shellText([]word{cmd}, scriptOpts{what: c.by(), lang: ShellSh, stdin: c.in})
}

var scriptSpec = mustSpec("script | full | v* | -I,--log-in:w -O,--log-out:w -B,--log-io:w -T,--log-timing:w -t,--timing? -m,--logging-format: -a,--append -c,--command: -e,--return -f,--flush --force -E,--echo: -o,--output-limit: -q,--quiet -h,--help -V,--version")

// runParallel judges GNU parallel: words before ::: are the command, and it is
// given to a shell.
func runParallel(c *call, _ *spec, _ parsed) {
	p := c.parse(parallelSpec, c.args)
	ops := p.operands
	var cmd, items []word
	for i, w := range ops {
		if w.is(":::", ":::+", "::::", "::::+") {
			items = ops[i+1:]
			break
		}
		cmd = append(cmd, w)
	}
	c.silent = true
	if p.bad {
		c.suspicious(append(lits(c.name), c.args...))
	}
	if len(cmd) == 0 {
		for _, it := range items {
			c.shellText([]word{it}, scriptOpts{what: c.by()})
		}
		if len(items) == 0 {
			c.runContent(c.in, "its input", scriptOpts{what: c.by()})
			c.raise(Risky, "%s runs the lines of its input as commands", c.by())
		}
		return
	}
	// As it was meant, before a shell splits it again, and without its input.
	c.s.worstWords(cmd, c.by())
	if len(cmd) > 0 {
		c.s.worst(scriptOf(cmd), c.by())
	}
	for _, it := range items {
		// With known items the command is known too.
		if !it.lit || it.is(":::", ":::+") || !strings.Contains(joinWords(cmd), "{}") {
			continue
		}
		var ws []word
		for _, w := range cmd {
			if w.lit {
				w.text = strings.ReplaceAll(w.text, "{}", it.text)
			}
			ws = append(ws, w)
		}
		c.shellText(ws, scriptOpts{what: c.by()})
	}
	item := word{tmpl: unknownVar, sample: "x", split: true, flow: taint(c.in)}
	marked := false
	var ws []word
	for _, w := range cmd {
		if w.lit && strings.Contains(w.text, "{") && strings.Contains(w.text, "}") {
			marked = true
			c.raise(Risky, "%s puts what it reads into a shell command", c.by())
			w = splice(w.text, "{}", item)
		}
		ws = append(ws, w)
	}
	if len(items) > 0 && !marked {
		for _, it := range items {
			if it.is(":::", ":::+") {
				continue
			}
			c.shellText(append(append([]word(nil), ws...), it), scriptOpts{what: c.by()})
		}
		return
	}
	if !marked {
		ws = append(ws, item)
	}
	c.shellText(ws, scriptOpts{what: c.by()})
}

var parallelSpec = mustSpec("parallel | stop | v* | -j,--jobs,-P,--max-procs: -k,--keep-order -n,--max-args: -N: -X -m -0,--null -d,--delimiter: -q,--quote --bar --progress --eta --dry-run --halt: --timeout: --retries: --delay: -u,--ungroup --line-buffer --lb --tag --will-cite --no-notice -r,--no-run-if-empty -t,--verbose -v --colsep: -C: --group -a,--arg-file:r --joblog:w --results:w -I: --load: --memfree: --nice: --shuf --tmpdir:w")

// runStrings judges a command each of whose operands is a shell command.
func runStrings(c *call, _ *spec, _ parsed) {
	c.silent = true
	for _, w := range c.args {
		if w.lit && strings.HasPrefix(w.text, "-") || w.lit && isNumber(w.text) {
			continue
		}
		c.shellText([]word{w}, scriptOpts{what: c.by(), lang: ShellSh})
	}
}

// runSudo judges sudo, doas and pkexec.
func runSudo(c *call, _ *spec, _ parsed) {
	c.raise(Risky, "%s runs a command with other rights", c.by())
	p := c.parse(sudoSpec, c.args)
	ops := p.operands
	if p.has("-e") {
		for _, w := range ops {
			c.write(w)
		}
		return
	}
	for len(ops) > 1 && ops[0].lit && isName(strings.SplitN(ops[0].text, "=", 2)[0]) && strings.Contains(ops[0].text, "=") {
		c.envAssign(ops[0], strings.IndexByte(ops[0].text, '='))
		ops = ops[1:]
	}
	if d, ok := p.value("--chdir"); ok {
		c.s = c.s.child()
		c.envChdir(d)
	}
	if p.bad {
		c.suspicious(append(lits(c.name), c.args...))
	}
	if p.has("-s", "-i") {
		c.shellText(ops, scriptOpts{what: c.by(), stdin: c.in})
		if len(ops) == 0 {
			c.runContent(c.in, "its input", scriptOpts{what: c.by()})
		}
		return
	}
	if len(ops) > 0 {
		c.inner(ops)
	}
}

var sudoSpec = mustSpec("sudo | stop | v* | -A,--askpass -b,--background -B,--bell -C,--close-from: -D,--chdir: -E,--preserve-env? -e,--edit -g,--group: -H,--set-home -h,--host: -i,--login -K,--remove-timestamp -k,--reset-timestamp -l,--list -n,--non-interactive -P,--preserve-groups -p,--prompt: -R,--chroot: -r,--role: -S,--stdin -s,--shell -T,--command-timeout: -t,--type: -U,--other-user: -u,--user: -V,--version -v,--validate --disable-internal-agent")

// runSu judges su and runuser, whose -c is a shell command wherever it stands.
func runSu(c *call, _ *spec, _ parsed) {
	c.raise(Risky, "%s runs a command as another user", c.by())
	p := c.parse(suSpec, c.args)
	if cmd, ok := p.value("-c"); ok {
		c.shellText([]word{cmd}, scriptOpts{what: c.by(), stdin: c.in})
		return
	}
	if p.bad {
		c.suspicious(append(lits(c.name), c.args...))
	}
	if len(p.operands) > 0 && (p.has("-u") || len(p.operands) > 1) {
		ops := p.operands
		if !p.has("-u") {
			ops = ops[1:]
		}
		c.inner(ops)
		return
	}
	c.runContent(c.in, "its input", scriptOpts{what: c.by()})
}

var suSpec = mustSpec("su | | v* | -c,--command,--session-command: -f,--fast -g,--group: -G,--supp-group: -l,--login -m,-p,--preserve-environment -P,--pty -s,--shell: -w,--whitelist-environment: -u,--user: -h,--help -V,--version")

// runTrace judges tools that watch or steer another program.
func runTrace(c *call, _ *spec, _ parsed) {
	c.raise(Risky, "%s watches or steers another program", c.by())
	c.suspicious(append(lits(c.name), c.args...))
	for i, w := range c.args {
		if w.is("-ex", "-iex", "--eval-command", "-o") && i+1 < len(c.args) {
			t := c.args[i+1].script()
			for _, p := range []string{"shell ", "!", "python ", "|"} {
				t = strings.TrimPrefix(t, p)
			}
			c.s.worst(t, c.by())
			c.code(c.args[i+1].script())
		}
	}
}

func runRiskyWrap(c *call, _ *spec, _ parsed) {
	c.raise(Risky, "%s runs a command in another way than it says", c.by())
	c.suspicious(append(lits(c.name), c.args...))
}

// runEscape judges what changes the namespaces or the root that a command sees.
func runEscape(c *call, _ *spec, _ parsed) {
	if len(c.args) == 1 && c.args[0].is("--help", "--version", "--print") {
		return
	}
	c.raise(Critical, "%s changes what a command can reach", c.by())
	for i, w := range c.args {
		if c.name == "nsenter" && (w.is("-t1", "--target=1") || (w.is("-t", "--target") && i+1 < len(c.args) && c.args[i+1].is("1"))) {
			c.raise(Forbidden, "%s enters the host's own namespaces", c.by())
		}
	}
	c.suspicious(append(lits(c.name), c.args...))
}

// runTmux judges terminal multiplexers, which run shell commands for later.
func runTmux(c *call, _ *spec, _ parsed) {
	c.raise(Risky, "%s runs commands that go on by themselves", c.by())
	c.suspicious(append(lits(c.name), c.args...))
}

func runAt(c *call, _ *spec, _ parsed) {
	c.raise(Critical, "%s leaves a command to run later", c.by())
	c.runContent(c.in, "its input", scriptOpts{what: c.by(), lang: ShellSh})
	c.suspicious(append(lits(c.name), c.args...))
}

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
		if !w.lit || strings.HasPrefix(w.text, "-") && !w.is("--tree", "-t", "--no-dev", "--top-level", "-T", "--all", "-a", "--path", "-p") || args[0].is("env") && i == 0 && !w.is("info", "list") {
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

func scriptOf(ws []word) string {
	var parts []string
	for _, w := range ws {
		parts = append(parts, w.script())
	}
	return strings.Join(parts, " ")
}

func joinWords(ws []word) string {
	var parts []string
	for _, w := range ws {
		parts = append(parts, w.text)
	}
	return strings.Join(parts, " ")
}
