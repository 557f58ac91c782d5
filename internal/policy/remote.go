package policy

import (
	"slices"
	"strings"
)

func runKeys(c *call, _ *spec, _ parsed) {
	if len(c.args) == 1 && c.args[0].is("--version") {
		return
	}
	c.raise(Risky, "%s reads or changes credentials", c.by())
	c.out = flow{secret: true, from: c.name}
	c.destructive()
}

// destroyWords are commands of remote tools that cannot be undone.
var destroyWords = []string{
	"delete", "destroy", "rm", "rb", "remove", "purge", "prune", "drain", "uninstall", "terminate", "drop", "wipe",
	"flushall", "flushdb", "nuke", "reset", "undeploy", "deprovision", "unpublish", "revoke", "deregister",
	"force-delete", "rmi", "down", "kill", "del", "unregister", "decommission", "evict", "cordon", "rollback",
	"force-unlock", "publish",
}

// destructive raises when a word of a remote tool's command line destroys.
func (c *call) destructive() {
	for _, w := range c.args {
		if !w.lit {
			continue
		}
		t := strings.ToLower(w.text)
		if w.flow.secret {
			c.raise(Critical, "%s sends out what `%s` read, which may hold credentials", c.by(), w.flow.from)
		}
		word, _, _ := strings.Cut(strings.TrimLeft(t, "-"), "=")
		for _, d := range destroyWords {
			if t == d || strings.HasPrefix(t, d+"-") || (strings.HasPrefix(t, "--") && word == d && d != "reset") || strings.HasSuffix(t, ":"+d) {
				c.raise(Critical, "%s %s may destroy what cannot be brought back", c.by(), clip(w.text, 40))
				return
			}
		}
	}
}

// runRemote judges tools that manage machines and services elsewhere.
func runRemote(c *call, _ *spec, _ parsed) {
	if len(c.args) == 1 && c.args[0].is("--version", "-version", "--help", "-h", "version", "help", "-v") {
		return
	}
	if len(c.args) == 2 && c.args[0].is("version") && c.args[1].is("--client", "--short", "-json") {
		return
	}
	if len(c.args) > 0 && c.args[0].is("fmt") && in([]string{"terraform", "tofu"}, c.name) {
		c.formatted()
		return
	}
	if c.checksHere() {
		return
	}
	if len(c.args) > 0 {
		c.sub = c.args[0].text
	}
	c.sendsIn()
	if c.looks() {
		c.raise(Risky, "%s looks at machines or services elsewhere", c.by())
		c.sendsSecrets()
		for _, w := range c.args {
			c.remoteFile(w)
		}
		c.out = flow{net: true, from: c.name}
		return
	}
	c.raise(Risky, "%s acts on machines or services elsewhere", c.by())
	c.destructive()
	for i, w := range c.args {
		if w.is("--") && i+1 < len(c.args) {
			c.s.run(c.args[i+1:], c.in, runOpts{noFuncs: true, noShell: true})
			return
		}
		c.remoteWord(i, w)
	}
	c.suspicious(append(lits(c.name), c.args...))
	c.out = flow{net: true, from: c.name}
}

// checksHere judges the forms of remote tools that only check the workspace's own
// files, with what is installed there.
func (c *call) checksHere() bool {
	if len(c.args) == 0 {
		return false
	}
	switch {
	case c.args[0].is("validate") && in([]string{"terraform", "tofu"}, c.name):
		for _, w := range c.parse(terraformValidate, c.args[1:]).values("-test-directory") {
			c.toolPath(w, true)
		}
	case c.args[0].is("lint") && c.name == "helm":
		p := c.parse(helmLint, c.args[1:])
		for _, w := range append(p.values("-f"), p.operands...) {
			c.toolPath(w, true)
			if strings.Contains(w.text, "://") {
				c.raise(Risky, "%s talks to another machine", c.by())
			}
		}
	default:
		return false
	}
	c.build()
	return true
}

var (
	terraformValidate = mustSpec("terraform-validate | single | - | -json -no-color -no-tests -test-directory:")
	helmLint          = mustSpec("helm-lint | | v* | --strict --quiet --with-subcharts -f,--values:r --set: --debug")
)

// remoteWord judges one word of a remote tool's command line.
func (c *call) remoteWord(i int, w word) {
	t := w.script()
	switch {
	case w.is("apply") && in([]string{"terraform", "tofu", "terragrunt", "cdktf"}, c.name), w.is("up") && c.name == "pulumi":
		c.raise(Critical, "%s %s changes what runs elsewhere, and may replace or destroy it", c.by(), w.text)
	case w.is("scale") && c.argHas("--replicas=0"):
		c.raise(Critical, "%s stops what runs elsewhere", c.by())
	case w.is("cp", "mv", "sync", "put", "upload") && i+1 < len(c.args):
		c.sendsFile(c.args[i+1])
	case strings.Contains(t, "privileged") && !strings.Contains(t, "false"), strings.Contains(t, "hostPID"), strings.Contains(t, "hostPath"):
		c.raise(Forbidden, "%s starts a container that controls the host", c.by())
	}
	c.remoteFile(w)
}

// remoteFile judges a word that names a file to send, or an address.
func (c *call) remoteFile(w word) {
	t := w.script()
	if w.lit && (strings.HasPrefix(t, "file://") || strings.HasPrefix(t, "fileb://")) {
		c.sendsFile(lit(t[strings.Index(t, "://")+3:]))
	}
	if strings.Contains(t, "169.254.169.254") {
		c.raise(Critical, "%s asks the cloud's metadata service, which gives out credentials", c.by())
	}
}

// sendsFile judges a file that is sent out.
func (c *call) sendsFile(w word) {
	if f := c.read(w, true); f.secret {
		c.raise(Critical, "%s sends out `%s`, which may hold credentials", c.by(), w.show())
	}
}

// formatted judges terraform fmt, which only rewrites the files it is given.
func (c *call) formatted() {
	p := c.parse(terraformFmt, c.args[1:])
	if p.has("-check", "-diff") {
		return
	}
	if len(p.operands) == 0 {
		c.write(lit("."))
	}
	for _, w := range p.operands {
		c.write(w)
	}
}

var terraformFmt = mustSpec("terraform-fmt | single | v* | -check -diff -list: -write: -recursive -no-color")

func (c *call) argHas(names ...string) bool {
	for _, w := range c.args {
		if w.is(names...) {
			return true
		}
	}
	return false
}

func runDatabase(c *call, _ *spec, _ parsed) {
	if len(c.args) == 1 && c.args[0].is("--version", "-V", "--help") {
		return
	}
	c.raise(Risky, "%s runs statements on a database", c.by())
	if in([]string{"dropdb", "dropuser"}, c.name) {
		c.raise(Critical, "%s destroys data", c.by())
	}
	for _, w := range c.args {
		c.sqlText(w.script())
		c.s.j.open = c.s.j.open || readsStatements(w.text)
	}
	c.sqlText(c.in.text)
	c.destructive()
	if slices.ContainsFunc(c.args, func(w word) bool { return strings.EqualFold(w.text, "shutdown") }) {
		c.raise(Critical, "%s ends a server elsewhere", c.by())
	}
	c.sendsIn()
	c.out = flow{net: true, from: c.name}
}

// readsStatements reports whether a word has a database's client read its statements
// from a file or run a program.
func readsStatements(t string) bool {
	return strings.HasPrefix(t, "-f") || strings.HasPrefix(t, "--file") || strings.HasPrefix(t, "--eval") || strings.Contains(t, "\\") || strings.Contains(strings.ToLower(t), "source ")
}

func runCriticalHost(c *call, _ *spec, p parsed) {
	if c.name == "shutdown" && p.has("-c") {
		c.raise(Risky, "%s cancels a planned end of the machine", c.by())
		return
	}
	if c.name == "init" && (len(c.args) == 0 || !c.args[0].lit || strings.Trim(c.args[0].text, "0123456sSuUqQ") != "") {
		c.raise(Risky, "%s tells the machine's first process something", c.by())
		return
	}
	c.raise(Forbidden, "%s ends the machine", c.by())
}

func runServices(c *call, _ *spec, _ parsed) {
	if c.argHas("poweroff", "reboot", "halt", "kexec", "rescue", "emergency", "suspend", "hibernate", "isolate", "exit", "soft-reboot") {
		c.raise(Forbidden, "%s ends or changes the machine", c.by())
		return
	}
	if c.argHas("enable", "mask", "load", "bootstrap", "link", "edit", "set-default", "defaults", "add", "submit", "set-property") {
		c.raise(Critical, "%s changes what runs at every start", c.by())
		return
	}
	c.raise(Risky, "%s changes or looks at the system's services", c.by())
}

// runDisks judges tools that change disks and file systems.
func runDisks(c *call, _ *spec, _ parsed) {
	if len(c.args) == 1 && c.args[0].is("--version", "--help", "-V", "-h") {
		return
	}
	for _, w := range c.args {
		for _, p := range c.s.resolve(w.path()) {
			if strings.HasPrefix(w.text, "/") && c.s.placeOf(p) == placeDevice {
				c.raise(Forbidden, "%s changes the disk `%s`", c.by(), p)
			}
		}
	}
	c.raise(Critical, "%s changes disks or file systems", c.by())
}

func runKernel(c *call, _ *spec, _ parsed) {
	if c.name == "sysctl" && len(c.args) > 0 {
		reads := true
		for _, w := range c.args {
			reads = reads && w.lit && !strings.Contains(w.text, "=") && !strings.HasPrefix(w.text, "-w") && !strings.HasPrefix(w.text, "-p") && !strings.HasPrefix(w.text, "--")
		}
		if reads {
			return
		}
	}
	if c.listsRules() {
		return
	}
	if c.name == "mount" && len(c.args) == 0 || len(c.args) == 1 && c.args[0].is("-L", "-S", "--list", "--version", "-l", "status") {
		return
	}
	c.raise(Critical, "%s changes the kernel, its modules, mounts or filters", c.by())
}

func runAccounts(c *call, _ *spec, _ parsed) {
	c.raise(Critical, "%s changes who may use the machine", c.by())
}

// runKillers judges signals by name.
func runKillers(c *call, _ *spec, _ parsed) {
	if c.name == "fuser" && !c.argHas("-k", "-km", "-mk", "--kill") {
		c.raise(Risky, "%s looks at other processes", c.by())
		return
	}
	c.raise(Risky, "%s signals processes that it finds by name", c.by())
	everything := c.name == "killall5"
	byUser, names := false, 0
	for i := 0; i < len(c.args); i++ {
		w := c.args[i]
		t := w.text
		switch {
		case w.is("-u", "--euid", "--user", "-U", "--uid", "-g", "--pgroup", "-G", "--group", "-t", "--terminal", "-P", "--parent", "-s", "--signal", "-n", "--ns"):
			byUser = true
			i++
		case strings.HasPrefix(t, "-u") || strings.HasPrefix(t, "-U") || strings.HasPrefix(t, "--user=") || strings.HasPrefix(t, "--euid="):
			byUser = true
		case w.is("-v", "--inverse"):
			everything = true
		case w.lit && strings.HasPrefix(t, "-") && t != "-":
		default:
			names++
			everything = everything || w.is(".", ".*", "", "init", "systemd") || w.glob && w.pat == "*"
		}
	}
	everything = everything || byUser && names == 0
	if everything {
		c.raise(Critical, "%s signals every process it may", c.by())
	}
}

func runHostSet(c *call, _ *spec, _ parsed) {
	if c.showsHost() {
		return
	}
	c.raise(Risky, "%s looks at or changes the machine's settings", c.by())
}

func runMiner(c *call, _ *spec, _ parsed) {
	c.raise(Critical, "%s uses the machine for others", c.by())
}

func runScanner(c *call, _ *spec, _ parsed) {
	c.raise(Risky, "%s looks at or attacks networks and other machines", c.by())
	c.suspicious(append(lits(c.name), c.args...))
}

func runSSHKeys(c *call, _ *spec, _ parsed) {
	c.raise(Risky, "%s makes, loads or asks for keys", c.by())
	for i, w := range c.args {
		if w.is("-f", "-D") && i+1 < len(c.args) {
			c.s.writeTo(c.args[i+1], c.by())
		}
	}
	if c.name == "ssh-copy-id" {
		c.raise(Critical, "%s opens another machine to a key", c.by())
	}
}

// runCrontab judges crontab: anything but listing leaves commands behind.
func runCrontab(c *call, _ *spec, p parsed) {
	if len(p.hits) == 1 && p.has("-l") && len(p.operands) == 0 {
		c.raise(Risky, "%s shows what runs by itself", c.by())
		return
	}
	c.raise(Critical, "%s changes what runs by itself", c.by())
	for _, line := range strings.Split(c.in.text, "\n") {
		if f := strings.Fields(line); len(f) > 5 {
			c.s.worst(strings.Join(f[5:], " "), c.by())
		}
	}
}

// runIP judges ip: show is all that it may do, and what follows it chooses what. Not
// "s", which is "set" for a link.
func runIP(c *call, _ *spec, p parsed) {
	for i, w := range p.operands {
		ok := false
		switch i {
		case 0:
			ok = w.is("a", "addr", "address", "r", "route", "l", "link", "n", "neigh", "rule", "maddr", "netns", "-V")
		case 1:
			ok = w.is("show", "list", "ls", "get")
		default:
			ok = w.lit && (isName(w.text) || strings.Trim(w.text, "0123456789abcdefABCDEF.:/") == "")
		}
		if !ok {
			c.raise(Risky, "%s changes the network", c.by())
		}
	}
}

// tempName reports whether mktemp makes its file directly in the directory for
// temporary files.
func tempName(p parsed) bool {
	if len(p.operands) == 0 {
		return true
	}
	t := p.operands[0].text
	if !p.has("-t") {
		t = strings.TrimPrefix(t, "/tmp/")
		if t == p.operands[0].text {
			return false
		}
	}
	return !strings.Contains(t, "/")
}

func runMktemp(c *call, sp *spec, p parsed) {
	if d, ok := p.value("-p"); ok {
		c.write(d)
		return
	}
	if len(p.operands) > 0 && strings.Contains(p.operands[0].text, "/") && !strings.HasPrefix(p.operands[0].text, "/tmp/") && !p.has("-t") {
		c.write(p.operands[0])
		return
	}
	if !p.has("-u") {
		c.raise(Write, "%s makes an empty file or directory for itself", c.by())
	}
	c.out = flow{class: class{noDash: c.printsPlain(sp, p)}}
	c.out.temp = c.out.noDash && !p.has("-u") && !p.bad && tempName(p)
}
