package policy

import "strings"

// runSystem judges the system's package managers.
func runSystem(c *call, _ *spec, _ parsed) {
	if len(c.args) == 0 || c.args[0].is("--version", "--help", "-h") {
		return
	}
	for _, w := range c.args {
		if w.is("install", "add", "upgrade", "update", "dist-upgrade", "full-upgrade", "reinstall", "-S", "-Sy", "-Syu", "-i") {
			c.s.j.install = true
		}
	}
	for i, w := range c.args {
		if strings.HasPrefix(w.text, "-o") || (i > 0 && c.args[i-1].is("-o")) {
			if _, v, ok := strings.Cut(w.script(), "="); ok {
				c.s.worst(strings.Trim(v, "\"'"), c.by())
			}
		}
	}
	if c.systemReads() {
		return
	}
	c.raise(Risky, "%s changes the system's programs", c.by())
}

// systemReads reports whether a call of a package manager only lists or shows.
func (c *call) systemReads() bool {
	if !in([]string{"apt", "dpkg", "apt-cache"}, c.name) ||
		!c.args[0].is(
			"list", "search", "show", "info", "policy", "depends", "rdepends", "madison", "showpkg", "pkgnames",
			"stats", "-l", "-L", "-s", "-S", "--list", "--listfiles", "--search", "--print-architecture", "-p",
		) {
		return false
	}
	for _, w := range c.args[1:] {
		if w.mayBeOption() && !w.is("--installed", "--upgradable", "--all-versions", "-a", "-n", "--names-only", "-q", "-qq", "-f", "--full", "-i", "--installed-size") {
			return false
		}
	}
	return true
}

// runPackages judges language package managers.
func runPackages(c *call, _ *spec, _ parsed) {
	if len(c.args) == 0 {
		return
	}
	first := c.args[0]
	c.sub = first.text
	switch {
	case first.is("--version", "-V", "--help", "-v") && len(c.args) == 1:
		return
	case strings.HasPrefix(c.name, "pip") && first.is("list", "show", "freeze", "check", "inspect") && c.name != "pipx":
		c.parse(pipRead, c.args[1:])
		return
	case (c.name == "bundle" || c.name == "bundler") && first.is("exec") && len(c.args) > 1:
		c.silent = true
		c.inner(c.args[1:])
		return
	case (c.name == "bundle" || c.name == "gem") && first.is("list", "show", "info", "check", "env", "environment"):
		return
	case first.is("publish", "upload", "push", "yank", "owner", "trunk"):
		c.raise(Critical, "%s %s changes what others install", c.by(), first.text)
		return
	}
	if first.is(
		"install", "add", "update", "upgrade", "sync", "i", "download", "wheel", "restore",
	) || c.name == "pipx" || c.name == "uvx" || c.name == "bundle" || c.name == "cpanm" || c.name == "cpan" {
		c.s.j.install = true
	}
	c.raise(Risky, "%s downloads packages and runs what they say at installation", c.by())
	c.suspicious(append(lits(c.name), c.args...))
	if c.in.net {
		c.raise(Risky, "%s reads what `%s` downloaded", c.by(), c.in.from)
	}
}

var pipRead = mustSpec(`pip | - | v* | -v,--verbose -q,--quiet --format: -l,--local --user -f,--files --not-required
	-o,--outdated! --exclude-editable --all -e,--editable --disable-pip-version-check`)

func runRpm(c *call, _ *spec, p parsed) {
	for _, w := range p.operands {
		if strings.Contains(w.text, "://") {
			c.raise(Risky, "%s talks to another machine", c.by())
		}
	}
	if !p.has("-q", "-V") {
		c.raise(Risky, "%s changes the system's programs", c.by())
	}
}

func runPkgQuery(c *call, _ *spec, p parsed) {
	if len(p.operands) > 0 && p.operands[0].is("info", "list", "search", "policy", "version", "stats") {
		return
	}
	if len(p.operands) > 0 && p.operands[0].is("add", "upgrade", "update", "fix") {
		c.s.j.install = true
	}
	c.raise(Risky, "%s changes the system's programs", c.by())
}
