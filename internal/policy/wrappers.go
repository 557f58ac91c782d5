package policy

import "strings"

// wrapTable holds programs that run another command, each with its own option
// grammar. None lowers a tier; one that adds no power does not raise it.
const wrapTable = `
nice | wrap stop numbers | v* | -n,--adjustment:
nohup chronic unbuffer catchsegv fakeroot rlwrap | wrap stop | v* | -p -e -v
setsid | wrap stop | v* | -c,--ctty -f,--fork -w,--wait
timeout gtimeout | wrap stop skip1 full | v* | --preserve-status -p --foreground -f -k,--kill-after: -s,--signal:
	-v,--verbose --help --version
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
c8 nyc scan-build | coverwrap stop | v* | -r,--reporter: --all --include: --exclude: -x: --check-coverage --lines:
	--branches: --functions: --statements: --silent --src: --skip-full -o:w --report-dir,--reports-dir:w
	--temp-dir,--temp-directory:w --status-bugs -v
entr | wrap stop | v* | -a -c -d -n -p -r -s! -z
sudo doas pkexec | raw sudo | v* |
su runuser | raw su | v* |
strace ltrace perf valgrind gdb lldb rr dtruss | raw trace | v* |
systemd-run setpriv firejail bwrap dbus-run-session xvfb-run start-stop-daemon daemonize nsjail proot torsocks torify
	proxychains proxychains4 sshpass sem faketime unshare-user expect-run | raw riskywrap | v* |
chroot unshare nsenter capsh pivot_root | raw escape | v* |
bash sh dash zsh ksh ksh93 mksh ash fish csh tcsh rbash yash busybox-sh pwsh elvish nu | raw shell | v* |
ssh slogin autossh mosh | raw ssh | v* |
tmux screen byobu | raw tmux | v* |
poetry pipenv pdm rye hatch uv mise direnv dotenv nix-shell nix conda mamba micromamba volta asdf rtx fnm nvm foreman
	honcho with-contenv s6-setuidgid gosu su-exec | raw envrun | v* |
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

var watchSpec = mustSpec(`watch | full stop | v* | -b,--beep -c,--color -C,--no-color -d,--differences? -e,--errexit
	-g,--chgexit -q,--equexit: -n,--interval: -p,--precise -t,--no-title -w,--no-wrap -r,--no-rerun -x,--exec -h,--help
	-v,--version`)

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

var flockSpec = mustSpec(`flock | full stop | v* | -s,--shared -x,-e,--exclusive,--exclusive -u,--unlock
	-n,--nonblock,--nb -w,--timeout,--wait: -E,--conflict-exit-code: -o,--close -F,--no-fork --verbose -h,--help
	-V,--version`)

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

var scriptSpec = mustSpec(`script | full | v* | -I,--log-in:w -O,--log-out:w -B,--log-io:w -T,--log-timing:w
	-t,--timing? -m,--logging-format: -a,--append -c,--command: -e,--return -f,--flush --force -E,--echo:
	-o,--output-limit: -q,--quiet -h,--help -V,--version`)

// runStrings judges a command each of whose operands is a shell command.
func runStrings(c *call, _ *spec, _ parsed) {
	c.silent = true
	for _, w := range c.args {
		if w.lit && strings.HasPrefix(w.text, "-") {
			_, val, ok := strings.Cut(w.text, "=")
			if !ok && !strings.HasPrefix(w.text, "--") && len(w.text) > 2 {
				val, ok = w.text[2:], true
			}
			if w = lit(val); !ok {
				continue
			}
		}
		if w.lit && isNumber(w.text) {
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

var sudoSpec = mustSpec(`sudo | stop | v* | -A,--askpass -b,--background -B,--bell -C,--close-from: -D,--chdir:
	-E,--preserve-env? -e,--edit -g,--group: -H,--set-home -h,--host: -i,--login -K,--remove-timestamp
	-k,--reset-timestamp -l,--list -n,--non-interactive -P,--preserve-groups -p,--prompt: -R,--chroot: -r,--role:
	-S,--stdin -s,--shell -T,--command-timeout: -t,--type: -U,--other-user: -u,--user: -V,--version -v,--validate
	--disable-internal-agent`)

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

var suSpec = mustSpec(`su | | v* | -c,--command,--session-command: -f,--fast -g,--group: -G,--supp-group: -l,--login
	-m,-p,--preserve-environment -P,--pty -s,--shell: -w,--whitelist-environment: -u,--user: -h,--help -V,--version`)

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
