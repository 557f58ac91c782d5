package policy

import (
	"path"
	"strings"
)

// runCat passes on exactly what it read.
func runCat(c *call, _ *spec, p parsed) {
	for _, h := range p.hits {
		if h.short != 'u' {
			return
		}
	}
	out := flow{known: true}
	if len(p.operands) == 0 {
		out = c.in
	}
	for _, w := range p.operands {
		out = out.and(c.contentOf(w))
	}
	if out.known || out.net || out.secret || out.shell {
		c.out = out
	}
	if len(p.operands) == 0 {
		c.out = c.in
	}
}

// contentOf is what an operand holds, judged already.
func (c *call) contentOf(w word) flow {
	if w.psub != nil {
		return *w.psub
	}
	if w.is("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0") {
		return c.in
	}
	out := flow{}
	if w.lit && !w.glob {
		for _, p := range c.s.resolve(w.text) {
			out = c.s.readContent(p)
			if c.s.secret(p) {
				out.secret, out.from = true, p
			}
		}
	}
	return out
}

func runTee(c *call, _ *spec, p parsed) {
	c.out = c.in
	for _, w := range p.operands {
		if w.lit {
			if ps := c.s.resolve(w.text); len(ps) == 1 {
				c.s.setFile(ps[0], c.in, p.has("-a"))
			}
		}
	}
}

// destination splits the operands of cp, mv and ln into sources and target.
func destination(p parsed) (src []word, dst word, dir, ok bool) {
	if t, has := p.value("--target-directory"); has {
		return p.operands, t, true, true
	}
	n := len(p.operands)
	if n < 2 {
		return p.operands, word{}, false, false
	}
	return p.operands[:n-1], p.operands[n-1], false, true
}

// targetPaths are the paths that are written when each source goes to dst: dst
// itself, or names in it.
func (c *call) targetPaths(src []word, dst word, dir bool) []word {
	out := []word{dst}
	if p := c.s.resolve(dst.path()); len(p) == 1 && dst.lit {
		pl := c.s.placeOf(p[0])
		if pl == placeRoot || dir || strings.HasSuffix(dst.text, "/") {
			out = nil
		}
	}
	for _, s := range src {
		if !s.lit && !s.flat {
			continue
		}
		name := path.Base(s.path())
		if s.glob {
			continue
		}
		if name == "." || name == ".." || name == "/" {
			continue
		}
		w := dst
		w.text = strings.TrimSuffix(dst.text, "/") + "/" + name
		w.sample = strings.TrimSuffix(dst.sample, "/") + "/" + name
		if dst.lit && dst.text == "/" {
			w.text = "/" + name
		}
		out = append(out, w)
	}
	if len(out) == 0 {
		out = append(out, dst)
	}
	return out
}

func runCp(c *call, _ *spec, p parsed) {
	src, dst, dir, ok := destination(p)
	if !ok {
		return
	}
	deep := p.has("-r", "-a")
	var content flow
	for _, s := range src {
		content = c.read(s, deep)
		if content.secret {
			c.raise(Risky, "%s copies `%s`, which may hold credentials", c.by(), s.show())
		}
	}
	c.treeOver(src, dst, deep, p.has("-T"))
	if p.has("--parents") {
		for _, s := range src {
			if s.lit && dst.lit {
				c.write(lit(path.Join(dst.text, s.text)))
			}
			if s.glob {
				c.raise(Risky, "%s makes directories in `%s` by names that are only known when it runs", c.by(), dst.show())
			}
		}
	}
	c.copyTo(src, dst, dir, content)
	if p.has("-s") {
		c.linksTo(src)
	}
	if p.has("-l") {
		c.hardLinks(src)
	}
}

// copyTo judges the writing half of a copy, and remembers what was copied.
func (c *call) copyTo(src []word, dst word, dir bool, content flow) {
	for _, w := range c.targetPaths(src, dst, dir) {
		c.write(w)
	}
	for _, w := range src {
		if !w.lit && !w.flat && w.psub == nil {
			c.raise(Risky, "%s writes a name in `%s` that is only known when it runs", c.by(), dst.show())
		}
	}
	if dst.lit && len(src) == 1 && (content.known || content.net || content.secret) {
		for _, w := range c.targetPaths(src, dst, dir) {
			for _, p := range c.s.resolve(w.text) {
				c.s.setFile(p, content, false)
			}
		}
	}
}

// treeOver judges names that a copy brings into a directory without spelling
// them out: a tree's content, or what a pattern matches, may be protected.
func (c *call) treeOver(src []word, dst word, deep, onto bool) {
	for _, w := range src {
		text := w.path()
		if w.glob {
			text = w.pat
		}
		base := text[strings.LastIndexByte(text, '/')+1:]
		switch {
		case w.glob && c.globBrings(w, base, dst):
			c.raise(Risky, "%s brings whatever `%s` matches into `%s`, protected names too", c.by(), w.show(), dst.show())
		case deep && (onto || base == "" || base == "." || base == ".." || !w.lit) && c.holdsProtected(dst):
			c.raise(Risky, "%s brings all that `%s` holds into `%s`, protected names too", c.by(), w.show(), dst.show())
		}
	}
}

// holdsProtected reports whether a directory is, or may be, one in which names
// of the workspace are protected by their place.
func (c *call) holdsProtected(dst word) bool {
	paths, known := c.s.targets(dst)
	if !known {
		return true
	}
	for _, p := range paths {
		if pl := c.s.placeOf(p); pl != placeWorkspace && pl != placeScratch {
			return true
		}
	}
	return false
}

// globBrings reports whether a pattern may match a protected name: any that
// starts with a dot, and in the workspace's root the others too.
func (c *call) globBrings(w word, base string, dst word) bool {
	if hits, ok := c.s.globFacts(w); ok && w.lit {
		for _, h := range hits {
			if c.s.protected(h) {
				return true
			}
		}
		return false
	}
	root := c.holdsProtected(dst)
	for _, n := range protectedNames {
		n = strings.TrimSuffix(n, "/")
		if (root || n[0] == '.') && !strings.HasPrefix(n, "*") && matchPath(base, strings.ReplaceAll(n, "*", "x"), c.s.dotglob) {
			return true
		}
	}
	return false
}

func runMv(c *call, _ *spec, p parsed) {
	src, dst, dir, ok := destination(p)
	if !ok {
		return
	}
	var content flow
	for _, s := range src {
		content = c.contentOf(s)
		c.moveFrom(s)
	}
	c.treeOver(src, dst, true, p.has("-T"))
	c.copyTo(src, dst, dir, content)
}

// moveFrom judges taking a path away.
func (c *call) moveFrom(w word) {
	paths, known := c.s.targets(w)
	if !known {
		c.s.remove(w, c.by(), true, false)
		return
	}
	for _, p := range paths {
		c.s.touch(p)
		switch c.s.placeOf(p) {
		case placeWorkspace, placeScratch:
			c.raise(Write, "%s moves `%s`", c.by(), c.s.rel(p))
		case placeProtected:
			c.raise(Risky, "%s moves `%s`, which is protected", c.by(), c.s.rel(p))
		case placeOutside, placeStartup:
			c.raise(Risky, "%s moves `%s` away, outside the workspace", c.by(), p)
		default:
			c.s.removePlace(p, c.by(), true, false)
		}
	}
	if w.glob {
		for _, p := range c.s.resolve(w.pat) {
			c.s.removeAll(p, c.by())
		}
	}
}

func runInstall(c *call, _ *spec, p parsed) {
	if p.has("-d") {
		for _, w := range p.operands {
			c.write(w)
		}
		return
	}
	if m, ok := p.value("--mode"); ok {
		c.modeTier(m)
	}
	runCp(c, nil, p)
}

func runRm(c *call, _ *spec, p parsed) {
	all, forced := p.has("-r"), p.has("-f") || p.has("-d")
	if p.has("--no-preserve-root") {
		c.raise(Critical, "%s may delete the root", c.by())
	}
	for _, w := range p.operands {
		c.s.remove(w, "`"+clip(c.name, 60)+rmFlags(all, forced)+"`", all, !all && !forced)
	}
	if p.bad {
		for _, w := range c.args {
			c.s.rootTarget(w, c.by())
		}
	}
}

func rmFlags(all, forced bool) string {
	switch {
	case all && forced:
		return " -rf"
	case all:
		return " -r"
	case forced:
		return " -f"
	}
	return ""
}

// runDelete judges the other commands that delete.
func runDelete(c *call, _ *spec, p parsed) {
	for _, w := range p.operands {
		c.s.remove(w, c.by(), false, false)
	}
}

func runSplit(c *call, _ *spec, p parsed) {
	prefix := lit("x")
	if len(p.operands) > 1 {
		prefix = p.operands[1]
	}
	c.write(prefix)
}

func runCsplit(c *call, _ *spec, p parsed) {
	if b, ok := p.value("-b"); ok && (!b.lit || strings.Contains(b.text, "/")) {
		c.raise(Risky, "%s writes to names made by `%s`", c.by(), b.show())
	}
	if !p.has("-f") {
		c.write(lit("xx00"))
	}
	for _, w := range p.operands[min(1, len(p.operands)):] {
		if !w.lit {
			c.raise(Risky, "%s is given `%s`, which is only known when it runs", c.by(), w.show())
		}
	}
}

// runPatch judges patch by the names in the patch, where its text is known.
func runPatch(c *call, _ *spec, p parsed) {
	text := c.in
	for _, w := range p.values("--input") {
		text = c.contentOf(w)
	}
	if len(p.operands) > 0 {
		c.write(p.operands[0])
		if len(p.operands) > 1 {
			text = c.contentOf(p.operands[1])
		}
	}
	if p.has("--dry-run") {
		return
	}
	if !text.known {
		if text.net {
			c.raise(Risky, "%s applies a patch that `%s` downloaded", c.by(), text.from)
		}
		c.raise(Risky, "%s changes whatever files the patch names, protected ones too", c.by())
		return
	}
	for _, line := range strings.Split(text.text, "\n") {
		name, ok := strings.CutPrefix(line, "+++ ")
		if !ok {
			name, ok = strings.CutPrefix(line, "--- ")
		}
		if !ok {
			continue
		}
		name, _, _ = strings.Cut(name, "\t")
		if name == "/dev/null" {
			continue
		}
		for _, drop := range []int{0, 1} {
			n := name
			if drop == 1 {
				_, n, _ = strings.Cut(name, "/")
			}
			if n != "" {
				c.write(lit(n))
			}
		}
	}
}

func runDd(c *call, _ *spec, _ parsed) {
	c.out = flow{known: true}
	var dst []word
	for _, w := range c.args {
		key, val, ok := strings.Cut(w.text, "=")
		v := w
		v.text = val
		v.sample = strings.TrimPrefix(w.sample, key+"=")
		switch {
		case w.is("--help", "--version"):
		case !ok:
			c.raise(Risky, "%s is given `%s`, which is not understood", c.by(), w.show())
		case key == "of":
			c.write(v)
			dst = append(dst, v)
		case key == "if":
			c.out = c.out.and(c.read(v, false))
		case in([]string{"bs", "count", "skip", "seek", "iseek", "oseek", "conv", "status", "ibs", "obs", "cbs", "iflag", "oflag"}, key):
		default:
			c.raise(Risky, "%s is given `%s`, which is not understood", c.by(), w.show())
		}
	}
	if c.out.none || c.out.silent() {
		c.out = c.in
	}
	for _, w := range dst {
		for _, p := range c.s.resolve(w.text) {
			c.s.setFile(p, c.out, false)
		}
	}
	if len(dst) > 0 {
		c.out = flow{known: true}
	}
}

func runObjWrite(c *call, _ *spec, p parsed) {
	for _, w := range p.operands {
		c.write(w)
	}
}

func runGofmt(c *call, _ *spec, p parsed) {
	if !p.has("-w", "--write") && (c.name != "clang-format" || !p.has("-i")) {
		return
	}
	for _, w := range p.operands {
		c.write(w)
	}
}
