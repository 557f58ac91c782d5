package policy

import "strings"

// xargsLine is an xargs command line while it is read.
type xargsLine struct {
	c       *call
	args    []word
	replace string
	exact   bool   // names are read exactly: by NUL or a delimiter
	delim   string // what ends a name then, where that is known
	few     bool   // the command may be run for some of the names at a time
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
	saved := c.in
	c.in = flow{none: true}
	for _, src := range x.turns() {
		c.inner(x.words(args, src))
	}
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
		x.exact, x.delim = true, "\x00"
	case "--no-run-if-empty", "--verbose", "--exit", "--show-limits", "--eof":
	case "--max-lines":
		x.few = true
	case "--max-args", "--max-procs", "--max-chars":
		x.next(val)
		x.few = true
	case "--delimiter":
		x.exact, x.delim = true, delimiter(x.next(val))
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
			x.exact, x.delim = true, "\x00"
			continue
		case 'r', 't', 'x', 'p', 'o':
			continue
		case 'n', 'P', 's', 'L':
			x.next(val)
			x.few = true
		case 'E':
			x.next(val)
		case 'd':
			x.exact, x.delim = true, delimiter(x.next(val))
		case 'a':
			x.src = x.c.read(x.next(val), false)
		case 'I', 'J':
			x.replace = x.next(val).text
		case 'i':
			x.replace = orElse(val, "{}")
		case 'l':
			x.few = true
		case 'e':
		default:
			x.c.badOption(&parsed{}, t)
		}
		return
	}
}

// delimiter is the character that a delimiter option gives, or "" where that is not
// known.
func delimiter(w word) string {
	if d := unescapeANSI(w.text); w.lit && len(d) == 1 {
		return d
	}
	return ""
}

// names are what xargs takes from known text.
func (x *xargsLine) names(text string) []string {
	switch {
	case x.exact && x.delim != "":
		return strings.Split(strings.TrimSuffix(text, x.delim), x.delim)
	case x.replace != "":
		var out []string
		for line := range strings.Lines(text) {
			if line = strings.Trim(line, " \t\n"); line != "" {
				out = append(out, strings.Join(xargsFields(line, ""), ""))
			}
		}
		return out
	}
	return xargsFields(text, " \t\n")
}

// xargsFields splits text at blanks as xargs does: quotes of either kind hold their
// text together, and a backslash the character after it.
func xargsFields(t, blanks string) []string {
	var out []string
	var b strings.Builder
	have := false
	for i := 0; i < len(t); i++ {
		switch ch := t[i]; {
		case ch == '\'' || ch == '"':
			end := strings.IndexByte(t[i+1:], ch)
			if end < 0 {
				end = len(t) - i - 1
			}
			b.WriteString(t[i+1 : i+1+end])
			have, i = true, i+1+end
		case ch == '\\' && i+1 < len(t):
			i++
			b.WriteByte(t[i])
			have = true
		case strings.IndexByte(blanks, ch) >= 0:
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

// turns are what the command may be run with: all names at once, or each by itself.
func (x *xargsLine) turns() []flow {
	if !x.src.known || x.exact && x.delim == "" {
		src := x.src
		src.known = false
		return []flow{src}
	}
	names := x.names(x.src.text)
	if len(names) > maxUnroll && (x.few || x.replace != "") || len(names) > maxFields {
		x.c.raise(Risky, "%s gets more names than can be followed", x.c.by())
		src := x.src
		src.known = false
		return []flow{src}
	}
	var out []flow
	if x.replace == "" {
		out = append(out, x.turn(names))
	}
	if len(names) > 1 && x.few || x.replace != "" {
		for _, n := range names {
			out = append(out, x.turn([]string{n}))
		}
	}
	return out
}

// turn is the names of one run, each ended by NUL.
func (x *xargsLine) turn(names []string) flow {
	src := x.src
	src.text = strings.Join(names, "\x00")
	if len(names) == 0 {
		src.text = "\x00"
	}
	return src
}

// words is the command with names put in: those of one turn, or some that are not
// known.
func (x *xargsLine) words(args []word, src flow) []word {
	replace, exact := x.replace, x.exact
	item := word{tmpl: unknownVar, sample: "x", split: true}
	item.flow = taint(src)
	item.flat = src.num
	if exact || src.num {
		item.class = src.class
		if !src.nul {
			item.roots = nil
		}
		item.noDash = item.noDash || len(item.roots) > 0
	} else {
		item.class = class{num: src.num, inside: src.inside && src.noDash}
		item.noDash = src.num
	}
	if replace == "" {
		ws := append([]word(nil), args...)
		switch {
		case !src.known:
			return append(ws, item)
		case src.text == "\x00": // none
			return ws
		}
		for _, n := range strings.Split(src.text, "\x00") {
			ws = append(ws, word{text: n, lit: true, flow: item.flow})
		}
		return ws
	}
	if src.known {
		item.text, item.lit = src.text, true
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

var parallelSpec = mustSpec(`parallel | stop | v* | -j,--jobs,-P,--max-procs: -k,--keep-order -n,--max-args: -N: -X -m
	-0,--null -d,--delimiter: -q,--quote --bar --progress --eta --dry-run --halt: --timeout: --retries: --delay:
	-u,--ungroup --line-buffer --lb --tag --will-cite --no-notice -r,--no-run-if-empty -t,--verbose -v --colsep: -C:
	--group -a,--arg-file:r --joblog:w --results:w -I: --load: --memfree: --nice: --shuf --tmpdir:w`)
