package policy

import "strings"

func runEval(c *call) {
	args := c.args
	if len(args) > 0 && args[0].is("--") {
		args = args[1:]
	}
	c.silent = true
	c.out = c.shellText(args, scriptOpts{what: c.by(), same: true, stdin: c.in})
}

// shellText judges words that are put together and read as a script.
func (c *call) shellText(args []word, o scriptOpts) flow {
	parts := make([]string, 0, len(args))
	known := true
	for _, w := range args {
		parts = append(parts, w.script())
		known = known && w.lit
		for _, t := range w.maybe {
			c.s.worst(t, c.by())
		}
		if w.flow.net {
			c.raise(Critical, "%s runs what `%s` downloaded", c.by(), w.flow.from)
		}
		if w.psub != nil && w.psub.net {
			c.raise(Critical, "%s runs what `%s` downloaded", c.by(), w.psub.from)
		}
	}
	text := strings.Join(parts, " ")
	if strings.TrimSpace(text) == "" {
		return flow{known: true}
	}
	if !known {
		c.raise(Risky, "%s runs text that is only known when it runs: `%s`", c.by(), clip(strings.ReplaceAll(text, unknownVar, "…"), 60))
	}
	return c.s.runScript(text, o)
}

func runSource(c *call) {
	args := c.args
	if len(args) > 0 && args[0].is("--") {
		args = args[1:]
	}
	if len(args) == 0 {
		return
	}
	c.runFile(args[0], args[1:], true)
}

// runFile judges running a script file: always risky, and worse when its
// content is known to be.
func (c *call) runFile(w word, args []word, same bool) {
	c.raise(Risky, "%s runs the script `%s`", c.by(), w.show())
	var content flow
	switch {
	case w.psub != nil:
		content = *w.psub
	case w.is("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
		content = c.in
	case w.lit && !w.glob:
		for _, p := range c.s.resolve(w.text) {
			c.script(p)
			content = c.s.readContent(p)
		}
	}
	c.runContent(content, w.show(), scriptOpts{what: c.by(), args: args, stdin: c.in, same: same})
}

// runContent judges running what a stream or file holds.
func (c *call) runContent(f flow, name string, o scriptOpts) {
	if f.net {
		c.raise(Critical, "%s runs what `%s` downloaded", c.by(), f.from)
	}
	switch {
	case f.known && strings.TrimSpace(f.text) != "":
		c.out = c.s.runScript(f.text, o)
	case f.text != "":
		c.s.worst(f.text, c.by())
	case f.opaque:
		c.raise(Risky, "%s runs what `%s` decoded, which cannot be read here", c.by(), f.from)
	}
	c.out.shell, c.out.from = true, c.name
}

func (s *scope) shellTrap(c *call, w word) {
	if w.is("", "-") {
		return
	}
	sub := &call{s: s, name: c.name, in: c.in}
	sub.shellText([]word{w}, scriptOpts{what: c.by(), same: true})
}

func runExec(c *call) {
	args := c.args
	for len(args) > 0 && args[0].lit && len(args[0].text) > 1 && args[0].text[0] == '-' {
		t := args[0].text
		args = args[1:]
		if t == "--" {
			break
		}
		if strings.Trim(t[1:], "cl") == "" {
			c.s.ownGit = c.s.ownGit || strings.Contains(t, "c")
			continue
		}
		if t == "-a" && len(args) > 0 {
			args = args[1:]
			continue
		}
		if strings.HasPrefix(t, "-a") {
			continue
		}
		c.badOption(&parsed{}, t)
	}
	c.silent = true
	if c.s.j.sent {
		c.raise(Risky, "%s changes where the shell reads its commands, or what reads them", c.by())
	}
	if len(args) > 0 {
		c.inner(args)
	}
}

// runCommand judges command: with -v and -V it only looks a name up.
func runCommand(c *call) {
	args := c.args
	for len(args) > 0 && args[0].lit && len(args[0].text) > 1 && args[0].text[0] == '-' {
		t := args[0].text
		args = args[1:]
		switch {
		case t == "--":
		case strings.Trim(t[1:], "pvV") == "":
			if strings.ContainsAny(t, "vV") {
				c.out = flow{class: class{noDash: !strings.Contains(t, "V") && allPlain(args) && len(c.s.funcs) == 0}}
				return
			}
			continue
		default:
			c.badOption(&parsed{}, t)
			continue
		}
		break
	}
	c.silent = true
	if len(args) > 0 {
		c.out = c.s.run(args, c.in, runOpts{noFuncs: true})
	}
}

func runBuiltin(c *call) {
	args := c.args
	if len(args) > 0 && args[0].is("--") {
		args = args[1:]
	}
	c.silent = true
	if len(args) > 0 {
		c.out = c.s.run(args, c.in, runOpts{noFuncs: true})
	}
}
