package policy

import "strings"

// runShell judges a shell started as a program: -c text, a script, or what it
// is sent.
func runShell(c *call, _ *spec, _ parsed) {
	lang := ShellBash
	if c.name == "sh" || c.name == "dash" || c.name == "ash" {
		lang = ShellSh
	}
	args, o := c.shellOptions()
	if o.help {
		return
	}
	foreign := !in([]string{"bash", "sh", "dash", "ash", "rbash", "zsh", "ksh", "mksh", "ksh93", "yash", "busybox-sh"}, c.name)
	if foreign {
		c.raise(Risky, "%s reads another language than the policy does", c.by())
	}
	switch {
	case o.command:
		if len(args) == 0 {
			c.raise(Risky, "%s is given no script", c.by())
			return
		}
		c.silent = true
		if c.name == "zsh" || strings.HasPrefix(c.name, "ksh") || c.name == "mksh" {
			c.otherShell(args[0])
		}
		var pos []word
		if len(args) > 2 {
			pos = args[2:]
		}
		var name *word
		if len(args) > 1 {
			name = &args[1]
		}
		c.out = c.shellText(args[:1], scriptOpts{what: c.by(), lang: lang, name: name, args: pos, stdin: c.in})
	case len(args) > 0 && !o.stdin && o.check:
		c.read(args[0], false) // -n only reads
	case len(args) > 0 && !o.stdin:
		c.runFile(args[0], args[1:], false)
	default:
		c.shellInput(lang, args)
	}
}

// otherShell raises for what zsh and ksh read in another way than bash.
func (c *call) otherShell(w word) {
	if strings.ContainsAny(w.script(), "=~(){}[]*?^#<>$`!") {
		c.raise(Risky, "%s reads some of its script in another way than the policy does", c.by())
	}
}

// shellInput judges a shell that reads its commands from standard input.
func (c *call) shellInput(lang Shell, args []word) {
	in := c.in
	if in.file != "" {
		c.script(in.file)
		if f := c.s.readContent(in.file); !in.known {
			in.text, in.known, in.net, in.from = f.text, f.known, in.net || f.net, orElse(in.from, f.from)
		}
	}
	c.raise(Risky, "%s runs whatever it is sent", c.by())
	if in.net {
		c.raise(Critical, "%s runs what `%s` downloaded", c.by(), in.from)
	}
	o := scriptOpts{what: c.by(), lang: lang, args: args}
	switch {
	case in.known:
		c.s.runScript(in.text, o)
	case in.text != "":
		c.s.worst(in.text, c.by())
	case in.opaque:
		c.raise(Risky, "%s runs what `%s` decoded, which cannot be read here", c.by(), in.from)
	}
	c.out = flow{shell: true, from: c.name}
}

type shellFlags struct{ command, stdin, help, check bool }

// shellOptions reads a shell's options and returns what follows them.
func (c *call) shellOptions() ([]word, shellFlags) {
	var o shellFlags
	args := c.args
	for len(args) > 0 {
		w := args[0]
		if !w.lit || w.glob {
			if w.psub == nil && w.mayBeOption() {
				c.raise(Risky, "%s is given `%s`, which may be an option or a script", c.by(), w.show())
			}
			return args, o
		}
		t := w.text
		if len(t) < 2 || (t[0] != '-' && t[0] != '+') {
			if t == "-" {
				return args[1:], o
			}
			return args, o
		}
		args = args[1:]
		switch t {
		case "--":
			return args, o
		case "--help", "--version":
			o.help = true
			return args, o
		case "--norc", "--noprofile", "--posix", "--login", "--noediting", "--verbose", "--restricted":
			continue
		case "--rcfile", "--init-file":
			c.raise(Risky, "%s runs a start-up file", c.by())
			if len(args) > 0 {
				for _, p := range c.s.resolve(args[0].path()) {
					c.operand(p)
				}
				args = args[1:]
			}
			continue
		}
		if strings.HasPrefix(t, "--") {
			c.badOption(&parsed{}, t)
			continue
		}
		takes := c.shellCluster(t, &o)
		for ; takes > 0 && len(args) > 0; takes-- {
			if args[0].is("expand_aliases", "lastpipe", "privileged", "emacs", "vi", "history") {
				c.raise(Risky, "%s changes the option `%s`", c.by(), args[0].show())
			}
			args = args[1:]
		}
	}
	return args, o
}

// shellCluster reads a cluster of short options, and returns how many of them
// take the next word.
func (c *call) shellCluster(t string, o *shellFlags) int {
	takes := 0
	for _, f := range t[1:] {
		switch f {
		case 'c':
			o.command = t[0] == '-'
		case 's':
			o.stdin = true
		case 'o', 'O':
			takes++
		case 'n':
			o.check = t[0] == '-'
		case 'l', 'e', 'u', 'x', 'v', 'f', 'a', 'h', 'm', 'p', 'B', 'C', 'E', 'T', 'b', 'k', 't', 'P', 'r':
		case 'i':
			if !o.command && !strings.Contains(t, "c") {
				c.raise(Risky, "%s starts an interactive shell", c.by())
			}
		default:
			c.badOption(&parsed{}, t)
		}
	}
	return takes
}

// runSSH judges a command that runs on another machine.
func runSSH(c *call, _ *spec, _ parsed) {
	if len(c.args) == 1 && c.args[0].is("-V") {
		return
	}
	c.raise(Risky, "%s acts on another machine", c.by())
	p := c.parse(sshSpec, c.args)
	for _, o := range p.values("-o") {
		key, val := o.script(), ""
		if i := strings.IndexAny(key, "= "); i > 0 {
			key, val = key[:i], key[i+1:]
		}
		switch strings.ToLower(key) {
		case "proxycommand", "localcommand", "knownhostscommand", "permitlocalcommand", "pkcs11provider", "securitykeyprovider", "include", "match":
			c.raise(Risky, "%s runs a command given by `%s`", c.by(), key)
			c.s.worst(strings.TrimLeft(val, "= "), c.by())
		}
	}
	if p.has("-R", "-w") || p.has("-D") || p.has("-L") {
		c.raise(Risky, "%s opens a tunnel", c.by())
	}
	c.sendsIn()
	if len(p.operands) == 0 {
		return
	}
	c.host(p.operands[0])
	c.out = flow{net: true, from: c.name}
	if p.bad {
		c.suspicious(append(lits(c.name), c.args...))
	}
	cmd := p.operands[1:]
	if len(cmd) == 0 {
		if c.in.known && !c.in.none {
			c.worstEither(c.in.text)
		}
		return
	}
	for _, w := range cmd {
		if w.flow.secret {
			c.raise(Critical, "%s sends out what `%s` read, which may hold credentials", c.by(), w.flow.from)
		}
	}
	parts := make([]string, len(cmd))
	for i, w := range cmd {
		parts[i] = w.script()
	}
	text := strings.Join(parts, " ")
	c.s.runScript(text, scriptOpts{what: c.by(), remote: c.name, stdin: c.in})
	c.out = flow{net: true, from: c.name}
	c.worstEither(text)
	// The other side splits the text again; what was meant counts too.
	c.s.worstWords(cmd, c.by())
}

// worstEither raises for text that would be critical here: there it is too.
func (c *call) worstEither(text string) {
	c.s.worst(text, c.by())
}

var sshSpec = mustSpec(`ssh | stop | v* | -4 -6 -A -a -B: -b: -C -c: -D: -E:w -e: -F:! -f -G -g -I:! -i: -J: -K -k -L: -l: -M
	-m: -N -n -O: -o: -P: -p: -Q: -q -R: -S: -s -T -t -V -v -W: -w: -X -x -Y -y`)

// sendsIn raises when what the command is sent should not leave.
func (c *call) sendsIn() {
	c.s.sends(c.in, c.by())
}
