package policy

import (
	"path"
	"strings"
)

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
	members := p.operands[min(1, len(p.operands)):]
	switch {
	case p.has("-p", "-c"):
		c.printsMembers(members)
		return
	case p.has("-l", "-t", "-v", "-Z"):
		return
	}
	dst := lit(".")
	if d, ok := p.value("-d"); ok {
		dst = d
	}
	c.unpack(dst)
	c.unpackMembers(dst, members)
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

// unpackMembers judges writing files of an archive that are named.
func (c *call) unpackMembers(dst word, members []word) {
	for _, w := range members {
		if w.lit && dst.lit {
			c.write(lit(path.Join(dst.text, w.text)))
		}
	}
}

// printsMembers judges printing files of an archive that are named, or matched by a
// pattern: what they hold is judged by their names, like that of others.
func (c *call) printsMembers(members []word) {
	for _, w := range members {
		if w.flow.names || c.memberSecret(w.script()) {
			c.raise(Risky, "%s prints `%s`, which may hold credentials", c.by(), w.show())
			c.out = flow{secret: true, from: w.show()}
		}
	}
}

// memberSecret reports whether a name inside an archive or a commit, or a pattern for
// such names, is one of credentials.
func (c *call) memberSecret(name string) bool {
	if strings.ContainsAny(name, "*?[") && namesSecret(name) {
		return true
	}
	name = strings.TrimLeft(path.Clean(name), "/")
	return c.s.secret("/"+name) || c.s.secret(path.Join(c.s.j.env.Workspace, name))
}

// runSevenZip judges 7z by its command, which comes first.
func runSevenZip(c *call, _ *spec, _ parsed) {
	if len(c.args) > 1 && c.args[0].is("l", "t") {
		c.read(c.args[1], false)
		return
	}
	c.raise(Risky, "%s writes whatever names the archive holds", c.by())
}

// runAr judges ar: listing reads.
func runAr(c *call, sp *spec, p parsed) {
	if len(c.args) == 2 && c.args[0].is("t", "tv", "-t", "-tv") {
		c.read(c.args[1], false)
		c.out = flow{}
		return
	}
	runRiskyRun(c, sp, p)
}

// cpioList are cpio's options with which it lists an archive.
var cpioList = mustSpec("cpio | | - | -i,--extract -t,--list -v,--verbose -n,--numeric-uid-gid -F,--file:r --quiet")

// runCpio judges cpio: listing reads.
func runCpio(c *call, sp *spec, p parsed) {
	for _, w := range c.args {
		if w.lit && strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--") && strings.Contains(w.text, "t") && strings.Trim(w.text, "-itvn") == "" || w.is("--list") {
			c.out = flow{}
			c.byRole(cpioList, c.parse(cpioList, c.args).operands)
			return
		}
	}
	runRiskyRun(c, sp, p)
}
