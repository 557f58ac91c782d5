package policy

import "strings"

// findTests maps find's tests and options to how many operands they take.
var findTests = map[string]int{
	"-amin": 1, "-anewer": 1, "-atime": 1, "-cmin": 1, "-cnewer": 1, "-ctime": 1, "-empty": 0, "-executable": 0,
	"-false": 0, "-fstype": 1, "-gid": 1, "-group": 1,
	"-ilname": 1, "-iname": 1, "-inum": 1, "-ipath": 1, "-iregex": 1, "-iwholename": 1, "-links": 1, "-lname": 1,
	"-mmin": 1, "-mtime": 1, "-name": 1, "-newer": 1,
	"-newermt": 1, "-newerct": 1, "-newerat": 1, "-newermm": 1, "-newercc": 1, "-nogroup": 0, "-nouser": 0, "-path": 1,
	"-perm": 1, "-readable": 0, "-regex": 1, "-samefile": 1, "-size": 1, "-true": 0, "-type": 1,
	"-uid": 1, "-used": 1, "-user": 1, "-wholename": 1, "-writable": 0, "-xtype": 1, "-context": 1,
	"-daystart": 0, "-depth": 0, "-d": 0, "-follow": 0, "-ignore_readdir_race": 0, "-noignore_readdir_race": 0,
	"-maxdepth": 1, "-mindepth": 1, "-mount": 0, "-noleaf": 0, "-regextype": 1, "-warn": 0, "-nowarn": 0, "-xdev": 0,
	"-print": 0, "-print0": 0, "-printf": 1, "-ls": 0, "-prune": 0, "-quit": 0,
	"-not": 0, "!": 0, "(": 0, ")": 0, "-a": 0, "-and": 0, "-o": 0, "-or": 0, ",": 0, "-help": 0, "--help": 0, "-version": 0, "--version": 0,
}

// runFind judges find's expression.
func runFind(c *call, _ *spec, _ parsed) {
	i := 0
	var roots []word
	for ; i < len(c.args); i++ {
		w := c.args[i]
		if w.lit && !w.glob && in([]string{"-H", "-L", "-P", "-O1", "-O2", "-O3", "-E", "-s", "-x"}, w.text) {
			continue
		}
		if w.is("-D") || w.is("-f") {
			i++
			continue
		}
		if w.is("!", "(", ")", ",") || (w.lit && strings.HasPrefix(w.text, "-")) {
			break
		}
		if w.mayBeOption() {
			c.maybeOption(sedSpec, w)
		}
		roots = append(roots, w)
	}
	if len(roots) == 0 {
		roots = lits(".")
	}
	found := c.findRoots(roots)
	for ; i < len(c.args); i++ {
		w := c.args[i]
		if !w.lit || w.glob {
			c.raise(Risky, "`%s` may be any test or action of find when it runs", w.show())
			continue
		}
		n, ok := findTests[w.text]
		switch {
		case ok:
			i += n
		case in([]string{"-exec", "-execdir", "-ok", "-okdir"}, w.text):
			i = c.findExec(i, found)
		case w.text == "-delete":
			c.raise(Risky, "%s deletes what it finds", c.by())
			for _, r := range roots {
				c.s.remove(r, c.by(), true, false)
			}
		case in([]string{"-fprint", "-fprint0", "-fls", "-fprintf"}, w.text):
			if i+1 < len(c.args) {
				c.write(c.args[i+1])
			}
			i++
			if w.text == "-fprintf" {
				i++
			}
		case w.text == "-files0-from":
			c.raise(Risky, "%s searches where a file says", c.by())
			i++
		default:
			c.badOption(&parsed{}, w.text)
		}
	}
	// Names may hold blanks and newlines: no field or line of them is known to be
	// a whole name. All of it begins with one, and what ends in NUL is one.
	c.out = flow{class: class{roots: found.roots, nul: c.argHas("-print0")}}
	for _, w := range c.args {
		if w.is("-printf", "-ls") {
			c.out = flow{}
		}
	}
	c.out.names = found.flow.names
}

// findRoots judges where find searches, and returns what each found path is.
func (c *call) findRoots(roots []word) word {
	found := word{tmpl: unknownVar, sample: "x"}
	found.noDash = true
	for _, r := range roots {
		c.s.targets(r)
		if r.lit && !r.glob {
			found.roots = append(found.roots, r.text)
		} else {
			found.roots = nil
			found.noDash = found.noDash && !r.mayBeOption()
		}
	}
	if len(found.roots) != len(roots) {
		found.roots = nil
	}
	found.flow.names = c.amongKeys(roots) || c.searchesKeys()
	return found
}

// findExec judges the command after -exec, up to ";" or "+".
func (c *call) findExec(i int, found word) int {
	var ws []word
	j := i + 1
	for ; j < len(c.args); j++ {
		w := c.args[j]
		if w.is(";") || (w.is("+") && j > i+1 && c.args[j-1].is("{}")) {
			break
		}
		switch {
		case w.is("{}"):
			f := found
			f.split = j+1 < len(c.args) && c.args[j+1].is("+") // else it is one word
			ws = append(ws, f)
		case w.lit && strings.Contains(w.text, "{}"):
			ws = append(ws, splice(w.text, "{}", found))
		default:
			ws = append(ws, w)
		}
	}
	if j >= len(c.args) {
		c.raise(Risky, "%s has an action that does not end", c.by())
	}
	c.s.worstWords(c.args[min(i+1, len(c.args)):j], c.by())
	if len(ws) > 0 && strings.HasSuffix(c.args[i].text, "dir") {
		// The command runs in the found file's directory.
		sub := c.s.child()
		sub.loseCwd()
		sub.run(ws, c.in, runOpts{noFuncs: true, noShell: true})
		return j
	}
	c.s.run(ws, c.in, runOpts{noFuncs: true, noShell: true})
	return j
}

// splice is text in which a marker is replaced by an unknown value.
func splice(text, marker string, v word) word {
	i := max(0, strings.Index(text, marker))
	w := word{text: strings.ReplaceAll(text, marker, ""), prefix: text[:i], sample: strings.ReplaceAll(text, marker, v.sample), tmpl: strings.ReplaceAll(text, marker, unknownVar)}
	w.noDash = i > 0 && text[0] != '-' || i == 0 && v.noDash
	w.flat = v.flat && !strings.Contains(text, "..")
	w.num = v.num && strings.Trim(w.text, "0123456789") == ""
	w.flow = v.flow
	return w
}

// runJq judges jq's program: it may read the environment, and include modules.
func runJq(c *call, _ *spec, p parsed) {
	if len(p.operands) == 0 {
		return
	}
	prog := p.operands[0]
	t := prog.text
	if !prog.lit {
		t = prog.sample
	}
	if identifier(t, "env") || strings.Contains(t, "$ENV") || identifier(t, "getpath_env") {
		c.raise(Risky, "%s reads environment variables, which may hold credentials", c.by())
		c.out.secret, c.out.from = true, c.name
	}
	if identifier(t, "include") || identifier(t, "import") {
		c.raise(Risky, "%s loads a module", c.by())
	}
}

// identifier reports whether a name stands in a program by itself: not as a
// field, and not inside another name.
func identifier(t, name string) bool {
	for from := 0; ; {
		i := strings.Index(t[from:], name)
		if i < 0 {
			return false
		}
		i += from
		from = i + len(name)
		if i > 0 && (isWordByte(t[i-1]) || strings.IndexByte(".\"$-", t[i-1]) >= 0) {
			continue
		}
		if from < len(t) && (isWordByte(t[from]) || t[from] == ':' || t[from] == '"') {
			continue
		}
		return true
	}
}
