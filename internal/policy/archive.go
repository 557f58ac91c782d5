package policy

import "strings"

// runPack judges compressors, which replace their operands.
func runPack(c *call, _ *spec, p parsed) {
	if p.has("-c", "-l", "-t", "--list") || strings.HasSuffix(c.name, "cat") || len(p.operands) == 0 {
		c.out = c.out.and(c.in).unread()
		if p.has("-d") || strings.HasPrefix(c.name, "un") || strings.HasPrefix(c.name, "gun") || strings.HasPrefix(c.name, "bun") {
			c.decompress()
		}
		return
	}
	for _, w := range p.operands {
		c.write(w)
		w.text, w.sample = w.text+".gz", w.sample+".gz"
		if !w.glob {
			c.write(w)
		}
	}
	c.out = flow{known: true}
}

func runZip(c *call, _ *spec, p parsed) {
	for i, w := range p.operands {
		if i == 0 {
			c.write(w)
			continue
		}
		if f := c.read(w, p.has("-r")); f.secret {
			c.raise(Risky, "%s packs `%s`, which may hold credentials", c.by(), w.show())
		}
	}
}

// runUnzip judges unpacking: an archive's names cannot leave the directory, but
// may be protected ones.
func runUnzip(c *call, _ *spec, p parsed) {
	if len(p.operands) > 0 {
		c.read(p.operands[0], false)
	}
	if p.has("-l", "-t", "-v", "-Z", "-p", "-c") {
		return
	}
	dst := lit(".")
	if d, ok := p.value("-d"); ok {
		dst = d
	}
	c.unpack(dst)
}

// unpack judges writing an archive's content below a directory.
func (c *call) unpack(dst word) {
	c.write(dst)
	paths := c.s.resolve(dst.path())
	if dst.lit && len(paths) == 1 && c.s.inWorkspace(paths[0]) {
		return
	}
	c.raise(Risky, "%s writes whatever names the archive holds, protected ones too", c.by())
}

func runSevenZip(c *call, _ *spec, _ parsed) {
	if len(c.args) > 1 && c.args[0].is("l", "t") {
		c.read(c.args[1], false)
		return
	}
	c.raise(Risky, "%s writes whatever names the archive holds", c.by())
}
