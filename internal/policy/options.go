package policy

import (
	"fmt"
	"sort"
	"strings"
)

// role is what an option's value or an operand is to its command.
type role byte

const (
	roleNone   role = 0
	roleValue  role = 'v' // a value that changes nothing
	roleRead   role = 'r' // a path that is read
	roleDeep   role = 'R' // a path that is read with everything below
	roleNames  role = 'f' // a path that is read, and names more of them
	roleWrite  role = 'w' // a path that is written
	roleDelete role = 'd' // a path that is deleted
	roleExec   role = 'x' // a command that is run
	roleDeny   role = '!' // known, and not allowed without asking
	roleCode   role = 'c' // code that is run
	roleHost   role = 'h' // a host or URL
	roleName   role = 'n' // a word that names nothing on disk
	roleKind   role = 'k' // one of the program's own kinds of output: a path would be code
)

// argMode is whether an option takes a value.
type argMode byte

const (
	argNone     argMode = 0
	argRequired argMode = ':'
	argOptional argMode = '?'
)

// option is one option of a command.
type option struct {
	names []string
	mode  argMode
	role  role
	short byte // the short form, for handlers; 0 when there is none
	two   bool // takes a name and then its value
}

// key is the option's main name: the first one listed.
func (o *option) key() string { return o.names[0] }

// spec is what a command may be given without asking.
type spec struct {
	name     string
	opts     map[string]*option
	longs    []string // sorted, for abbreviations
	operands []role   // the last may repeat; see star
	star     int      // index of the repeating operand, -1 for none
	harmless bool     // no option or operand of it can do anything but read

	stop    bool // options end at the first operand
	single  bool // long options have one dash, as Go's flag package reads them
	numbers bool // -5 is an option
	plus    bool // +5 is an option or operand of no harm
	exact   bool // short options are whole words, with a value after ":" or "="
	attrs   map[string]bool
	tier    Tier
	what    string // for the reason, when tier is above Safe
	run     func(*call, *spec, parsed)
}

func (s *spec) attr(name string) bool { return s.attrs[name] }

// hit is one option found on a command line.
type hit struct {
	*option
	name string // as spelled out
	val  *word
}

// parsed is a command line taken apart.
type parsed struct {
	hits     []hit
	operands []word
	bad      bool // something was not understood
}

func (p parsed) has(names ...string) bool {
	for _, h := range p.hits {
		for _, n := range names {
			if in(h.names, n) {
				return true
			}
		}
	}
	return false
}

// value returns the last value of an option.
func (p parsed) value(names ...string) (word, bool) {
	for i := len(p.hits) - 1; i >= 0; i-- {
		for _, n := range names {
			if p.hits[i].val != nil && in(p.hits[i].names, n) {
				return *p.hits[i].val, true
			}
		}
	}
	return word{}, false
}

func (p parsed) values(names ...string) []word {
	var out []word
	for _, h := range p.hits {
		for _, n := range names {
			if h.val != nil && in(h.names, n) {
				out = append(out, *h.val)
			}
		}
	}
	return out
}

// parseSpec reads a table line: "name name | attributes | operands | options".
func parseSpec(line string) ([]string, *spec, error) {
	cols := strings.Split(line, " | ")
	if len(cols) != 4 {
		return nil, nil, fmt.Errorf("want 4 columns, have %d: %q", len(cols), line)
	}
	sp := &spec{opts: map[string]*option{}, star: -1, attrs: map[string]bool{}}
	for _, a := range strings.Fields(cols[1]) {
		switch a {
		case "stop":
			sp.stop = true
		case "single":
			sp.single = true
		case "numbers":
			sp.numbers = true
		case "plus":
			sp.plus = true
		case "exact":
			sp.exact = true
		default:
			sp.attrs[a] = true
		}
	}
	sp.harmless = true
	for i, f := range strings.Fields(cols[2]) {
		r := role(f[0])
		if f == "-" {
			continue
		}
		if strings.HasSuffix(f, "*") {
			sp.star = i
		}
		if r == roleWrite || r == roleDelete || r == roleExec || r == roleCode {
			sp.harmless = false
		}
		sp.operands = append(sp.operands, r)
	}
	for _, f := range strings.Fields(cols[3]) {
		o, err := parseOption(f)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", cols[0], err)
		}
		for _, n := range o.names {
			sp.opts[n] = o
			if strings.HasPrefix(n, "--") {
				sp.longs = append(sp.longs, n)
			}
		}
		if o.role == roleWrite || o.role == roleDelete || o.role == roleExec || o.role == roleDeny || o.role == roleCode {
			sp.harmless = false
		}
	}
	// Where the table does not hold all of a program's options, one that it does
	// not hold may do anything.
	sp.harmless = sp.harmless && (sp.attr("full") || sp.attr("mild"))
	sort.Strings(sp.longs)
	names := strings.Fields(cols[0])
	sp.name = names[0]
	return names, sp, nil
}

// parseOption reads "-o,--output:w": names, whether a value follows, its role.
func parseOption(f string) (*option, error) {
	o := &option{}
	body := f
	if strings.HasSuffix(body, "!") && len(body) > 1 {
		o.role, body = roleDeny, body[:len(body)-1]
	}
	if i := strings.IndexAny(body, ":?"); i > 1 || (i == 1 && len(body) > 2) {
		o.mode = argMode(body[i])
		if i+1 < len(body) {
			if body[i+1] == '2' {
				o.two = true
				body = body[:i+1] + body[i+2:]
			}
			o.role = role(body[i+1])
		} else if o.role == roleNone {
			o.role = roleValue
		}
		body = body[:i]
	}
	for _, n := range strings.Split(body, ",") {
		if !strings.HasPrefix(n, "-") {
			return nil, fmt.Errorf("option %q does not start with a dash", f)
		}
		o.names = append(o.names, n)
		if len(n) == 2 {
			o.short = n[1]
		}
	}
	return o, nil
}

// parse takes a command line apart by its spec, and raises for what the spec
// does not allow.
func (c *call) parse(sp *spec, args []word) parsed {
	var p parsed
	for i := 0; i < len(args); i++ {
		w := args[i]
		if w.nums && len(w.text) > 1 && w.text[0] == '-' {
			w = w.numbered() // such as -j$(nproc): any number does
			args = append([]word(nil), args...)
			args[i] = w
		}
		if c.parseValue(sp, &p, w) {
			continue
		}
		if !w.lit || w.glob {
			if w.mayBeOption() && !sp.harmless {
				c.maybeOption(sp, w)
			}
			p.operands = append(p.operands, w)
			if sp.stop {
				p.operands = append(p.operands, args[i+1:]...)
				return p
			}
			continue
		}
		t := w.text
		switch {
		case t == "--" && !sp.attr("nodashdash"):
			p.operands = append(p.operands, args[i+1:]...)
			return p
		case len(t) < 2 || t[0] != '-':
			p.operands = append(p.operands, w)
			if sp.stop {
				p.operands = append(p.operands, args[i+1:]...)
				return p
			}
		case sp.single, sp.exact && !strings.HasPrefix(t, "--"):
			i = c.parseSingle(sp, &p, args, i)
		case strings.HasPrefix(t, "--"):
			i = c.parseLong(sp, &p, args, i)
		default:
			i = c.parseShort(sp, &p, args, i)
		}
	}
	return p
}

// parseValue takes a word that is a known option and a value in quotes that is
// only known when it runs, such as --author="$x".
func (c *call) parseValue(sp *spec, p *parsed, w word) bool {
	if w.lit || w.glob || w.split || w.loose || !strings.HasPrefix(w.prefix, "--") || sp.single || sp.exact {
		return false
	}
	// Not -k"$x": were it empty, the next word would be its value.
	name, _, ok := strings.Cut(w.prefix, "=")
	o := sp.opts[name]
	if !ok || o == nil || o.mode == argNone || o.two || o.role == roleDeny || o.role == roleExec || o.role == roleCode {
		return false
	}
	n := len(name) + 1
	val := word{text: w.text[n:], sample: w.sample[n:], tmpl: w.tmpl[n:], prefix: w.prefix[n:], flow: w.flow}
	for _, m := range w.maybe {
		val.maybe = append(val.maybe, m[n:])
	}
	c.take(sp, p, o, name, &val)
	return true
}

// maybeOption raises for an unknown word that could turn out to be an option.
func (c *call) maybeOption(sp *spec, w word) {
	if sp.attr("tame") || sp.attr("globsafe") && w.flat && !w.split {
		return // at worst an option that reads, or one without a path in it
	}
	if w.glob && w.lit {
		if hits, ok := c.s.globFacts(w); ok {
			for _, h := range hits {
				if strings.HasPrefix(h, "-") {
					c.raise(Risky, "`%s` matches a file whose name `%s` takes as an option", w.show(), clip(c.name, 60))
				}
			}
			return
		}
		if !sp.attr("globsafe") {
			c.raise(Risky, "`%s` may match a file whose name `%s` takes as an option", w.show(), clip(c.name, 60))
		}
		return
	}
	if w.glob && w.prefix == "" && w.noDash {
		return
	}
	c.raise(Risky, "`%s` may add an option to %s that is only known when it runs", w.show(), c.by())
}

// globFacts returns the names that facts say a pattern matches, as the command
// would get them.
func (s *scope) globFacts(w word) ([]string, bool) {
	pats := s.resolve(w.pat)
	var out []string
	for _, p := range pats {
		list, ok := s.j.facts.Globs[p]
		if !ok {
			return nil, false
		}
		for _, m := range list {
			out = append(out, m[strings.LastIndexByte(m, '/')+1:])
		}
	}
	return out, len(pats) > 0
}

func (c *call) badOption(p *parsed, t string) {
	p.bad, c.s.j.open = true, true
	c.raise(Risky, "%s is given the option `%s`, which the policy does not know as harmless", c.by(), clip(t, 60))
}

// take records an option, and judges its value by its role.
func (c *call) take(sp *spec, p *parsed, o *option, name string, val *word) {
	p.hits = append(p.hits, hit{option: o, name: name, val: val})
	switch o.role {
	case roleDeny:
		c.badOption(p, name)
	case roleExec:
		c.s.j.open = true
		c.raise(Risky, "%s runs a command given by `%s`", c.by(), name)
		if val != nil {
			c.s.worst(val.script(), c.by())
		}
	case roleCode:
		c.s.j.open = true
		c.raise(Risky, "%s runs code given by `%s`", c.by(), name)
		if val != nil {
			c.code(val.script())
		}
	}
	if val == nil {
		return
	}
	if (val.split || val.glob) && !sp.harmless && o.mode == argRequired {
		c.valueSplit(sp, *val)
	}
	switch o.role {
	case roleRead:
		c.out = c.out.and(c.read(*val, false))
	case roleDeep:
		c.out = c.out.and(c.read(*val, true))
	case roleNames:
		c.readsNamed(c.read(*val, false))
	case roleWrite:
		c.write(*val)
	case roleHost:
		c.host(*val)
	case roleKind:
		c.kind(name, *val)
	}
}

// kind judges a value that names one of the program's own reporters, loggers or
// formats, or else code to load.
func (c *call) kind(name string, w word) {
	if !w.lit || strings.ContainsAny(w.text, "/\\") || strings.HasPrefix(w.text, ".") {
		c.raise(Risky, "%s may load code given by `%s`: `%s`", c.by(), name, w.show())
	}
}

// valueSplit raises when an option's value may become several words, of which
// all but the first stand for themselves.
func (c *call) valueSplit(sp *spec, w word) {
	if w.num && !w.glob {
		return
	}
	if w.glob {
		c.maybeOption(sp, w)
		return
	}
	c.raise(Risky, "`%s` may add an option to %s that is only known when it runs", w.show(), c.by())
}

func (c *call) parseLong(sp *spec, p *parsed, args []word, i int) int {
	t := args[i].text
	name, val, attached := strings.Cut(t, "=")
	o := sp.long(name)
	if o == nil {
		c.badOption(p, t)
		return i
	}
	switch {
	case attached && o.mode == argNone:
		c.badOption(p, t)
	case attached:
		w := args[i]
		w.text = val
		c.take(sp, p, o, o.longName(name), &w)
	case o.mode == argRequired:
		if i+1 >= len(args) {
			p.bad = true
			return i
		}
		return c.takeNext(sp, p, o, o.longName(name), args, i)
	default:
		c.take(sp, p, o, o.longName(name), nil)
	}
	return i
}

// longName is the option's full long name.
func (o *option) longName(given string) string {
	for _, n := range o.names {
		if strings.HasPrefix(n, given) {
			return n
		}
	}
	return given
}

// long finds a long option by its name or, where the table holds all of a
// program's options, by an unambiguous abbreviation.
func (s *spec) long(name string) *option {
	if o, ok := s.opts[name]; ok {
		return o
	}
	if !s.attr("full") || len(name) < 3 {
		return nil
	}
	var found *option
	i := sort.SearchStrings(s.longs, name)
	for ; i < len(s.longs) && strings.HasPrefix(s.longs[i], name); i++ {
		o := s.opts[s.longs[i]]
		if found != nil && found != o {
			return nil
		}
		found = o
	}
	return found
}

// parseShort reads a cluster of short options.
func (c *call) parseShort(sp *spec, p *parsed, args []word, i int) int {
	t := args[i].text
	if o, ok := sp.opts[t]; ok && len(t) > 2 { // such as find-like -name
		return c.takeNext(sp, p, o, t, args, i)
	}
	if sp.numbers && strings.Trim(t[1:], "0123456789") == "" {
		return i
	}
	for k := 1; k < len(t); k++ {
		name := "-" + t[k:k+1]
		o, ok := sp.opts[name]
		if !ok {
			if sp.numbers && t[k] >= '0' && t[k] <= '9' {
				continue
			}
			c.badOption(p, t)
			return i
		}
		if o.mode == argNone {
			c.take(sp, p, o, name, nil)
			continue
		}
		if k+1 < len(t) {
			w := args[i]
			w.text = t[k+1:]
			c.take(sp, p, o, name, &w)
			return i
		}
		if o.mode == argOptional {
			c.take(sp, p, o, name, nil)
			return i
		}
		return c.takeNext(sp, p, o, name, args, i)
	}
	return i
}

func (c *call) takeNext(sp *spec, p *parsed, o *option, name string, args []word, i int) int {
	if o.two {
		i++
	}
	if o.mode == argRequired {
		if i+1 >= len(args) {
			p.bad = true
			return i
		}
		c.take(sp, p, o, name, &args[i+1])
		return i + 1
	}
	c.take(sp, p, o, name, nil)
	return i
}

// parseSingle reads -name value, -name=value and --name alike.
func (c *call) parseSingle(sp *spec, p *parsed, args []word, i int) int {
	t := args[i].text
	name, val, attached := strings.Cut(t, "=")
	if i := strings.IndexByte(t, ':'); sp.exact && i > 0 {
		name, val, attached = t[:i], t[i+1:], true
	}
	if strings.HasPrefix(name, "--") && !sp.exact {
		name = name[1:]
	}
	o, ok := sp.opts[name]
	if !ok {
		c.badOption(p, t)
		return i
	}
	if attached {
		w := args[i]
		w.text = val
		c.take(sp, p, o, name, &w)
		return i
	}
	return c.takeNext(sp, p, o, name, args, i)
}
