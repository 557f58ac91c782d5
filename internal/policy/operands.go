package policy

import (
	"path"
	"strings"
)

// spec judges the call by a table entry.
func (c *call) spec(sp *spec) {
	if len(c.args) == 1 && c.args[0].is("--help", "--version") && !sp.attr("nohelp") {
		c.out = flow{}
		if c.byPath {
			c.build()
		}
		return
	}
	if sp.attr("raw") {
		sp.run(c, sp, parsed{})
		return
	}
	c.out = flow{known: true}
	args, tail := c.args, []word(nil)
	if sp.attr("dashdash") {
		args, tail = cutTail(args)
	}
	p := c.parse(sp, args)
	if p.bad && !sp.harmless {
		c.suspicious(append(lits(c.name), c.args...))
	}
	c.base(sp)
	c.byRole(sp, p.operands)
	c.toolPaths(sp, p)
	c.outflow(sp, p)
	if sp.run != nil {
		sp.run(c, sp, p)
	}
	if len(tail) > 0 {
		c.tailArgs(tail)
	}
}

// base raises what the command is whatever its arguments.
func (c *call) base(sp *spec) {
	if sp.attr("build") {
		c.build()
	}
	if sp.tier > Safe {
		c.raise(sp.tier, "%s %s", c.by(), sp.what)
	}
}

// build judges building or testing the workspace's own code: the one place
// where isolation counts, besides git's read commands.
func (c *call) build() {
	if c.s.remote != "" || !c.s.j.env.Isolated {
		c.raise(Risky, "%s runs the workspace's own code, and nothing confines it here", c.by())
		return
	}
	for _, cwd := range c.s.cwds {
		if pl := c.s.placeOf(cwd); pl != placeWorkspace && pl != placeRoot && pl != placeProtected {
			c.raise(Risky, "%s builds or tests what lies in `%s`, outside the workspace", c.by(), cwd)
			return
		}
	}
	if c.s.cwdUnknown {
		c.raise(Risky, "%s builds or tests in a directory that is only known when it runs", c.by())
		return
	}
	c.raise(Write, "%s builds or tests the workspace's own code", c.by())
}

// byRole judges operands by what the table says they are.
func (c *call) byRole(sp *spec, ops []word) {
	for i, w := range ops {
		r, ok := sp.roleAt(i, len(ops))
		if !ok {
			c.raise(Risky, "%s is given more operands than the policy knows it to take", c.by())
			return
		}
		if w.split && sp.changesFrom(i) {
			c.raise(Risky, "`%s` may be several operands of %s", w.show(), c.by())
		}
		switch r {
		case roleRead:
			c.out = c.out.and(c.look(w, false, sp.lists()))
		case roleDeep:
			c.out = c.out.and(c.look(w, !sp.lists(), sp.lists()))
		case roleWrite:
			c.write(w)
			if c.name == "mkdir" {
				c.made(w)
			}
		case roleDelete:
			c.s.remove(w, c.by(), false, false)
		case roleHost:
			c.host(w)
		case roleCode:
			c.code(w.script())
		case roleExec:
			c.raise(Risky, "%s runs `%s`", c.by(), w.show())
			c.s.worst(w.script(), c.by())
		default:
			c.out = c.out.and(c.taintOf(w))
		}
	}
}

// lists reports whether a command only looks at names and sizes.
func (s *spec) lists() bool { return s.attr("names") && !s.attr("shows") }

// made records a directory that this command makes, and those above it.
func (c *call) made(w word) {
	if !w.lit || w.glob {
		return
	}
	j := c.s.j
	if j.made == nil {
		j.made = map[string]bool{}
	}
	for _, p := range c.s.resolve(w.text) {
		for ; c.s.inWorkspace(p); p = path.Dir(p) {
			j.made[p] = true
		}
	}
}

// changesFrom reports whether an operand from i on does more than read, so that
// one word becoming several matters.
func (s *spec) changesFrom(i int) bool {
	for k := min(i, len(s.operands)); k < len(s.operands); k++ {
		if r := s.operands[k]; (r == roleWrite || r == roleDelete || r == roleExec || r == roleCode) && s.star != k {
			return true
		}
	}
	return false
}

// roleAt is the role of operand i of n.
func (s *spec) roleAt(i, n int) (role, bool) {
	m := len(s.operands)
	if s.star < 0 {
		if i >= m {
			return roleNone, false
		}
		return s.operands[i], true
	}
	after := m - s.star - 1
	switch {
	case i < s.star:
		return s.operands[i], true
	case i >= n-after && n-after >= s.star:
		return s.operands[m-(n-i)], true
	}
	return s.operands[s.star], true
}

// outflow says what the command's standard output carries.
func (c *call) outflow(sp *spec, p parsed) {
	switch {
	case sp.attr("num"):
		c.out = flow{class: c.printsNumber(p)}
	case sp.attr("names"):
		c.out = flow{class: class{noDash: c.printsPlain(sp, p)}}
		c.out.num = c.name == "date" && c.out.noDash && dateDigits(p)
		c.out.names = c.listsKeys(sp, p)
		if f, ok := p.value("--format"); ok && c.name == "stat" && f.is("%Y", "%X", "%Z", "%W", "%s", "%i", "%h", "%u", "%g", "%b", "%B") {
			c.out.class = class{num: true, noDash: true}
		}
	case sp.attr("silent"):
		c.out = flow{known: true}
	default:
		f := c.out
		if c.out.none || c.out.silent() || sp.attr("stdin") {
			f = f.and(c.in)
		}
		switch {
		case c.name == "head" && !p.has("-c"):
			c.out = f.first()
		case sp.attr("lines"):
			c.out = f.lines()
			if f.nul && p.has("-z") {
				c.out.roots, c.out.nul = f.roots, true
			}
		default:
			c.out = f.unread()
		}
		if c.out.silent() {
			c.out = flow{}
		}
		c.out.noDash = c.out.noDash || c.printsPlain(sp, p)
	}
}

// taintOf is what an operand's unknown parts carry into the output.
func (c *call) taintOf(w word) flow {
	if w.psub != nil {
		return *w.psub
	}
	if w.flow.net || w.flow.secret || w.flow.names {
		return w.flow
	}
	return flow{known: true}
}

// read judges reading an operand and returns what it holds. deep says that what
// lies below it is read too.
func (c *call) read(w word, deep bool) flow { return c.look(w, deep, false) }

// look is read, or with list only a look at names and sizes.
func (c *call) look(w word, deep, list bool) flow {
	if w.psub != nil {
		return *w.psub
	}
	if w.is("-") || w.is("/dev/stdin") || w.is("/dev/fd/0") || w.is("/proc/self/fd/0") {
		return c.in
	}
	s := c.s
	if w.flow.names && !list {
		c.readsKeys()
		return flow{secret: true, from: c.name}
	}
	var paths []string
	switch {
	case w.glob && w.lit:
		_, paths = s.expandGlob(w)
	case w.lit || w.flat:
		paths = s.resolve(w.path())
	case len(w.roots) > 0 && w.text == "" && !list:
		for _, r := range w.roots {
			paths = append(paths, s.resolve(r)...)
		}
		deep = true
	}
	if !w.lit && w.prefix == "" && w.text != "" && w.text[0] == '/' {
		for _, r := range w.roots { // what lies in any of what was found there
			paths = append(paths, s.resolve(r+"/x"+w.text)...)
		}
	}
	for _, t := range w.maybe {
		paths = append(paths, s.resolve(t)...)
	}
	if len(paths) == 0 {
		if len(w.text) > 1 && w.text[0] == '/' {
			if t := path.Clean(w.text); s.placeOf(t) == placeKeys || s.secret(t) {
				c.raise(Risky, "reads `%s`, which may hold credentials", w.show())
				return flow{secret: true, from: w.show()}
			}
		}
		return flow{net: w.flow.net, secret: w.flow.secret, from: w.flow.from}
	}
	out := flow{known: true}
	for _, p := range paths {
		s.touch(p)
		if list && openFiles(p) {
			continue // how many there are, and of which kind
		}
		out = out.and(s.readFile(p, deep))
	}
	if out.silent() {
		return flow{}
	}
	return out
}

// write judges writing an operand.
func (c *call) write(w word) {
	if w.out || w.is("-") {
		return
	}
	c.s.writeTo(w, c.by())
}

// host judges an address that the command talks to.
func (c *call) host(w word) {
	if h := hostOf(w.text); h != "" {
		c.hosts = append(c.hosts, h)
		if metadataHost(h) {
			c.raise(Critical, "%s asks the cloud's metadata service, which gives out credentials", c.by())
		}
	}
	if w.flow.secret {
		c.raise(Critical, "%s sends out what `%s` read, which may hold credentials", c.by(), w.flow.from)
	}
	if strings.HasPrefix(w.text, "file://") {
		c.read(lit(strings.TrimPrefix(w.text, "file://")), false)
	}
}

// hostOf is the host in a URL, a host:path or a host.
func hostOf(t string) string {
	if i := strings.Index(t, "://"); i >= 0 {
		t = t[i+3:]
	}
	if i := strings.IndexAny(t, "/?#"); i >= 0 {
		t = t[:i]
	}
	if i := strings.LastIndexByte(t, '@'); i >= 0 {
		t = t[i+1:]
	}
	if strings.HasPrefix(t, "[") {
		if i := strings.IndexByte(t, ']'); i > 0 {
			return strings.ToLower(t[1:i])
		}
	}
	if i := strings.IndexByte(t, ':'); i >= 0 && strings.Count(t, ":") == 1 {
		t = t[:i]
	}
	return strings.ToLower(strings.TrimSuffix(t, "."))
}

// metadataHost reports whether a host is a cloud's metadata service, in any of
// the spellings of an IPv4 address.
func metadataHost(h string) bool {
	switch h {
	case "169.254.169.254", "metadata.google.internal", "metadata", "100.100.100.200", "169.254.170.2", "169.254.170.23", "fd00:ec2::254",
		"192.0.0.192", "metadata.azure.internal", "instance-data", "instance-data.ec2.internal", "169.254.169.123", "168.63.129.16":
		return true
	}
	if strings.HasPrefix(h, "::ffff:") {
		return metadataHost(h[len("::ffff:"):]) || h == "::ffff:a9fe:a9fe"
	}
	ip, ok := ipv4(h)
	return ok && (ip == 0xA9FEA9FE || ip == 0xA9FEAA02 || ip == 0x646464C8) || strings.HasSuffix(h, ".169.254.169.254.nip.io") || h == "169.254.169.254.nip.io"
}

// ipv4 reads an address as inet_aton does: one to four numbers, each decimal,
// octal or hexadecimal, the last filling what is left.
func ipv4(h string) (uint32, bool) {
	parts := strings.Split(h, ".")
	if len(parts) > 4 {
		return 0, false
	}
	var ip uint64
	for i, p := range parts {
		n, ok := number(p)
		if !ok {
			return 0, false
		}
		if i == len(parts)-1 {
			ip = ip<<(8*(4-uint(i))) | n
			break
		}
		if n > 255 {
			return 0, false
		}
		ip = ip<<8 | n
	}
	return uint32(ip), ip <= 0xFFFFFFFF
}

func number(p string) (uint64, bool) {
	base, digitsOnly := 10, p
	switch {
	case strings.HasPrefix(p, "0x"), strings.HasPrefix(p, "0X"):
		base, digitsOnly = 16, p[2:]
	case len(p) > 1 && p[0] == '0':
		base, digitsOnly = 8, p[1:]
	}
	if digitsOnly == "" || len(digitsOnly) > 12 {
		return 0, false
	}
	v, used := digits(digitsOnly, base, 12)
	return uint64(v), used == len(digitsOnly)
}
