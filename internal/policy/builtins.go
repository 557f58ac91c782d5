package policy

import "strings"

// builtinTable holds the commands that a shell carries out itself. Those that
// are ordinary programs too, and do the same, stand in the tables instead.
func builtinTable() map[string]func(*call) {
	return map[string]func(*call){
		":": nothing, "true": nothing, "false": nothing, "break": nothing, "continue": nothing, "exit": nothing, "return": nothing, "times": nothing,
		"jobs": nothing, "bg": nothing, "fg": nothing, "disown": nothing, "dirs": nothing, "caller": nothing,
		"logout": nothing, "suspend": nothing, "help": nothing,
		"echo": runEcho, "printf": runPrintf, "pwd": runPwd,
		"cd": runCd, "pushd": runCd, "popd": runPopd, "chdir": runCd,
		"test": runTest, "[": runTest, "[[": runTest,
		"read": runRead, "mapfile": runMapfile, "readarray": runMapfile, "getopts": runGetopts, "wait": runWait,
		"set": runSet, "shopt": runShopt, "shift": runShift, "unset": runUnset, "umask": runUmask, "ulimit": runUlimit,
		"export": runDecl, "readonly": runDecl, "local": runDecl, "declare": runDecl, "typeset": runDecl, "let": runLet,
		"eval": runEval, "source": runSource, ".": runSource, "trap": runTrap, "exec": runExec, "command": runCommand, "builtin": runBuiltin, "type": runType,
		"alias": runAlias, "unalias": asks("changes what a command's name runs"), "hash": runHash, "enable": runEnable, "bind": asks("binds keys to commands"),
		"complete": asks("sets what completion runs"), "compgen": runCompgen, "compopt": asks("sets what completion runs"),
		"history": asks("reads or changes the shell's record"), "fc": asks("runs commands from the shell's record"),
		"kill": runKill, "coproc": asks("starts a command that goes on by itself"), "select": asks("waits for input"),
	}
}

// runCompgen judges compgen: alone, -e, -v, -b and -k list names, and no values.
func runCompgen(c *call) {
	if len(c.args) != 1 || !c.args[0].is("-e", "-v", "-b", "-k") {
		asks("evaluates its words")(c)
	}
}

func nothing(c *call) { c.out = flow{known: true} }

func asks(what string) func(*call) {
	return func(c *call) {
		c.raise(Risky, "%s %s", c.by(), what)
		c.suspicious(append(lits(c.name), c.args...))
	}
}

func runPwd(c *call) {
	c.out = flow{class: class{noDash: true}}
	if len(c.s.cwds) == 1 && !c.s.cwdUnknown {
		c.out = literal(c.s.cwds[0] + "\n")
	}
}

// runTest judges test and [: -v and -R evaluate the subscript in their operand,
// however it is quoted.
func runTest(c *call) {
	c.out = flow{known: true}
	for i, w := range c.args {
		if w.is("-v", "-R") && i+1 < len(c.args) {
			c.s.nameOperand(c.args[i+1], c.name+" "+w.text)
		}
		if !w.lit && w.split && !w.num {
			c.raise(Risky, "%s is given `%s` outside quotes, which may become an operator that evaluates it", c.by(), w.show())
		}
		if c.name == "[[" && w.is("-eq", "-ne", "-lt", "-le", "-gt", "-ge") {
			for _, k := range []int{i - 1, i + 1} {
				if k >= 0 && k < len(c.args) {
					c.s.arithmOperand(c.args[k])
				}
			}
		}
	}
}

// setName judges an operand that names the variable to set.
func (c *call) setName(w word, v variable) {
	if !c.s.nameOperand(w, c.name) {
		return
	}
	if isName(w.text) {
		c.s.assign(w.text, v)
		return
	}
	c.s.assignElement(w.text, v.flow)
}

// assignElement records writing an element, name[subscript]: the element 0 is
// what the plain name means.
func (s *scope) assignElement(name string, f flow) {
	base, _, ok := strings.Cut(name, "[")
	if !ok || !isName(base) {
		return
	}
	old := s.variable(base)
	s.assign(base, variable{exported: old.exported, assoc: old.assoc, flow: taint(old.flow.with(f))})
}

func runRead(c *call) {
	c.out = flow{known: true}
	names, whole := 0, false // whole: it reads up to a NUL
	v := variable{class: c.in.class, flow: taint(c.in)}
	if line, _, _ := strings.Cut(c.in.text, "\n"); c.in.known && !strings.Contains(line, "\\") {
		// Only right for the last name, and for that one it is what matters.
		if n := len(c.args); n > 0 && n < 3 {
			v.val, v.known = strings.TrimSpace(line), true
		}
		v.maybe = c.s.fieldsOf(line)
	}
	for i := 0; i < len(c.args); i++ {
		w := c.args[i]
		if !w.lit {
			c.s.nameOperand(w, "read")
			continue
		}
		if len(w.text) < 2 || w.text[0] != '-' {
			if names++; !whole || names > 1 {
				v.class = class{num: v.num, noDash: v.noDash, maybe: v.maybe} // a line, or a field of one
			}
			c.setName(w, v)
			continue
		}
		for k := 1; k < len(w.text); k++ {
			switch w.text[k] {
			case 'r', 's', 'e':
			case 'a', 'd', 'i', 'n', 'N', 'p', 't', 'u':
				val := lit(w.text[k+1:])
				if val.text == "" {
					if i+1 >= len(c.args) {
						return
					}
					i++
					val = c.args[i]
				}
				switch w.text[k] {
				case 'a':
					c.setName(val, variable{class: class{maybe: v.maybe}, flow: v.flow})
				case 'd':
					whole = val.is("") && c.in.nul
				}
				k = len(w.text)
			default:
				c.badOption(&parsed{}, w.text)
			}
		}
	}
	if names == 0 {
		c.s.setVar("REPLY", v)
	}
}

// fieldsOf are the fields of known text, by blanks and by what IFS holds.
func (s *scope) fieldsOf(text string) []string {
	if len(text) > maxKnownText {
		return nil
	}
	ifs, _ := s.ifs()
	out := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || strings.ContainsRune(ifs, r) })
	return either(out[:min(len(out), maxMaybe)], nil)
}

func runMapfile(c *call) {
	c.out = flow{known: true}
	for i := 0; i < len(c.args); i++ {
		w := c.args[i]
		switch {
		case !w.lit:
			c.s.nameOperand(w, c.name)
		case w.is("-t"):
		case w.is("-n", "-O", "-s", "-u", "-d"):
			i++
		case w.text != "" && w.text[0] == '-':
			if strings.Contains(w.text, "C") {
				c.raise(Risky, "%s runs a callback for the lines it reads", c.by())
				if i+1 < len(c.args) {
					c.s.worst(c.args[i+1].script(), c.by())
				}
				continue
			}
			c.badOption(&parsed{}, w.text)
		default:
			v := variable{flow: taint(c.in)}
			if c.in.known {
				v.maybe = c.s.fieldsOf(c.in.text)
			}
			c.setName(w, v)
		}
	}
}

func runGetopts(c *call) {
	if len(c.args) > 1 {
		c.setName(c.args[1], variable{})
	}
	c.s.setVar("OPTARG", variable{})
}

func runWait(c *call) {
	for i, w := range c.args {
		if w.is("-p") && i+1 < len(c.args) {
			c.setName(c.args[i+1], variable{class: class{num: true, noDash: true}})
		} else if strings.HasPrefix(w.text, "-p") {
			c.setName(lit(w.text[2:]), variable{class: class{num: true, noDash: true}})
		}
	}
}

func runSet(c *call) {
	c.out = flow{known: true}
	if len(c.args) == 0 {
		c.raise(Risky, "%s shows every variable, which may hold credentials", c.by())
		c.out = flow{secret: true, from: c.name}
		return
	}
	for i := 0; i < len(c.args); i++ {
		w := c.args[i]
		switch {
		case w.is("--", "-"):
			c.positional(c.args[i+1:])
			return
		case !w.lit:
			c.raise(Risky, "%s is given `%s`, which is only known when it runs", c.by(), w.show())
			return
		case w.text != "" && (w.text[0] == '-' || w.text[0] == '+'):
			if strings.Trim(w.text[1:], "eufxvanChbBmETo") != "" {
				c.badOption(&parsed{}, w.text)
			}
			if strings.HasSuffix(w.text, "o") && i+1 < len(c.args) {
				i++
				if !c.args[i].is(
					"pipefail", "errexit", "nounset", "noglob", "xtrace", "verbose", "noclobber", "noexec", "errtrace",
					"functrace", "posix", "monitor", "braceexpand", "allexport",
				) {
					c.raise(Risky, "%s changes the option `%s`", c.by(), c.args[i].show())
				}
			}
		default:
			c.positional(c.args[i:])
			return
		}
	}
}

func (c *call) positional(args []word) {
	c.s.setArgs(args)
}

// setArgs sets the positional parameters.
func (s *scope) setArgs(args []word) {
	s.args, s.argsKnown, s.argsAll = nil, true, variable{}
	for _, w := range args {
		if !w.lit || w.glob {
			s.args, s.argsKnown, s.argsAll = nil, false, s.loopValue(args)
			return
		}
		s.args = append(s.args, w.text)
	}
}

func runShift(c *call) {
	if c.s.argsKnown && len(c.args) == 0 && len(c.s.args) > 0 {
		c.s.args = c.s.args[1:]
		return
	}
	c.s.argsKnown, c.s.args = false, nil
}

func runShopt(c *call) {
	set := true
	for _, w := range c.args {
		switch {
		case w.is("-s", "-p", "-q", "-o"):
		case w.is("-u"):
			set = false
		case w.is("dotglob"):
			c.s.dotglob = set
		case w.is("lastpipe"):
			c.s.lastpipe = set
		case w.is("globstar", "nullglob", "failglob", "extglob", "nocasematch", "inherit_errexit", "globskipdots", "xpg_echo", "pipefail", "checkwinsize", "globasciiranges"):
		default:
			c.raise(Risky, "%s changes the option `%s`", c.by(), w.show())
		}
	}
}

func runUnset(c *call) {
	for _, w := range c.args {
		switch {
		case w.is("-v", "-n"):
		case w.is("-f"):
		default:
			if !c.s.nameOperand(w, "unset") {
				continue
			}
			if what := specialVar(w.text); what != "" {
				c.raise(Risky, "%s removes `%s`, which changes %s", c.by(), w.text, what)
			}
			if !isName(w.text) {
				c.s.assignElement(w.text, flow{})
				continue
			}
			c.s.own()
			c.s.vars[w.text] = variable{known: true, set: true}
			delete(c.s.funcs, w.text)
		}
	}
}

func runUmask(c *call) {
	for _, w := range c.args {
		if !w.lit || strings.Trim(w.text, "01234567augorwxS=,-+p") != "" {
			c.raise(Risky, "%s is given `%s`, which is not understood", c.by(), w.show())
		}
	}
}

func runUlimit(c *call) {
	for _, w := range c.args {
		if !w.lit && !w.num {
			c.raise(Risky, "%s is given `%s`, which is only known when it runs", c.by(), w.show())
		}
	}
}

func runType(c *call) { c.out = flow{} }

// runAlias judges alias: an alias stands for other commands under an innocent
// name.
func runAlias(c *call) {
	for _, w := range c.args {
		if w.is("-p") {
			continue
		}
		if w.lit && !strings.Contains(w.text, "=") {
			continue
		}
		c.raise(Risky, "%s makes `%s` stand for another command", c.by(), w.show())
		if _, val, ok := strings.Cut(w.script(), "="); ok {
			c.s.worst(val, c.by())
		}
	}
}

func runHash(c *call) {
	for _, w := range c.args {
		if w.is("-r", "-l", "-t") || (w.lit && isName(w.text) && !strings.HasPrefix(w.text, "-")) {
			continue
		}
		c.raise(Risky, "%s changes which program a name runs", c.by())
		return
	}
}

func runEnable(c *call) {
	if len(c.args) == 0 {
		return
	}
	c.raise(Risky, "%s changes or loads builtins", c.by())
}

// runKill judges signals: to one process it asks, to all of them it is worse.
func runKill(c *call) {
	args := c.args
	zero := false
	if len(args) > 0 && args[0].is("-l", "-L", "--list", "--table") {
		return
	}
	for len(args) > 0 && args[0].lit && len(args[0].text) > 1 && args[0].text[0] == '-' {
		t := args[0].text
		switch {
		case t == "--":
			args = args[1:]
		case t == "-s" || t == "-n" || t == "--signal" || t == "-q":
			zero = len(args) > 1 && args[1].is("0")
			args = args[min(2, len(args)):]
			continue
		case isNumber(t[1:]) && len(args) == 1:
		case t == "-0":
			zero = true
			args = args[1:]
			continue
		default:
			args = args[1:]
			continue
		}
		break
	}
	for _, w := range args {
		switch {
		case w.is("-1"):
			c.raise(Forbidden, "%s signals every process it may", c.by())
		case w.is("1"):
			c.raise(Critical, "%s signals the first process, on which all others rest", c.by())
		case w.lit && strings.HasPrefix(w.text, "%"), w.job:
			c.silent = true
		case zero:
			c.raise(Safe, "%s looks whether a process is there", c.by())
		default:
			c.raise(Risky, "%s signals the process `%s`", c.by(), w.show())
		}
	}
}
