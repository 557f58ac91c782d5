package policy

import "strings"

// runDocker judges container engines: some options hand over the host.
func runDocker(c *call, _ *spec, _ parsed) {
	if len(c.args) == 1 && c.args[0].is("--version", "-v", "--help") {
		return
	}
	if c.looks() {
		c.raise(Risky, "%s looks at containers outside this one", c.by())
		c.sendsSecrets()
		return
	}
	c.raise(Risky, "%s controls containers outside this one", c.by())
	for i, w := range c.args {
		t := w.script()
		name, val, attached := strings.Cut(t, "=")
		if !attached && i+1 < len(c.args) {
			val = c.args[i+1].script()
		}
		switch {
		case dockerEscape(name, val, attached):
			c.raise(Forbidden, "%s starts a container that controls the host: `%s`", c.by(), clip(t, 40))
		case (name == "--net" || name == "--network") && val == "host" && !c.args[0].is("build") && !(len(c.args) > 1 && c.args[0].is("buildx", "image", "builder") && c.args[1].is("build")):
			c.raise(Critical, "%s gives a container the host's network", c.by())
		case name == "-v" || name == "--volume" || name == "--mount" || (strings.HasPrefix(t, "-v") && len(t) > 2 && t[2] != 'e'):
			if strings.HasPrefix(t, "-v") && len(t) > 2 {
				val = t[2:]
			}
			c.dockerMount(strings.TrimPrefix(val, "="))
		case name == "-H" || name == "--host" || name == "--context" || name == "-c":
			c.raise(Risky, "%s acts on the engine at `%s`", c.by(), clip(val, 60))
		}
	}
	c.dockerCommand()
}

// dockerEscape reports whether an option gives a container power over the host.
func dockerEscape(name, val string, attached bool) bool {
	up := strings.ToUpper(val)
	switch name {
	case "--privileged":
		return !attached || val != "false"
	case "--cap-add":
		return strings.Contains(up, "ALL") || strings.Contains(up, "SYS_") || strings.Contains(up, "DAC_")
	case "--pid", "--ipc", "--uts", "--userns", "--cgroupns":
		return val == "host"
	case "--device":
		return true
	case "--security-opt":
		return strings.Contains(val, "unconfined") || strings.Contains(val, "disable")
	}
	return false
}

// dockerMount judges a directory of the host that a container sees.
func (c *call) dockerMount(v string) {
	src := v
	for _, part := range strings.Split(v, ",") {
		if k, val, ok := strings.Cut(part, "="); ok && (k == "source" || k == "src") {
			src = val
		}
	}
	src, _, _ = strings.Cut(src, ":")
	if strings.HasSuffix(src, ".sock") {
		c.raise(Forbidden, "%s gives a container the engine's socket", c.by())
		return
	}
	for _, p := range c.s.resolve(src) {
		if !strings.HasPrefix(src, "/") && !strings.HasPrefix(src, ".") && !strings.HasPrefix(src, "~") {
			return // a named volume
		}
		switch c.s.placeOf(p) {
		case placeSystemTop, placeSystem, placeKernel, placeDevice:
			c.raise(Forbidden, "%s gives a container the host's `%s`", c.by(), p)
		case placeAbove, placeHome, placeKeys:
			c.raise(Critical, "%s gives a container `%s`", c.by(), p)
		}
	}
}

func (c *call) dockerCommand() {
	for i, w := range c.args {
		switch {
		case w.is("prune", "rm", "rmi", "kill", "down", "swarm", "remove"):
			c.raise(Critical, "%s %s ends or deletes what may be in use", c.by(), w.text)
		case w.is("push", "login", "logout", "save", "export"):
			c.raise(Risky, "%s %s sends images or credentials out", c.by(), w.text)
		case w.is("run", "exec", "create", "start", "build", "buildx", "up"):
			// What runs in the container is judged for its worst.
			c.suspicious(c.args[i:])
			return
		}
	}
}
