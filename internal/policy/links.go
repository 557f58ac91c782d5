package policy

import (
	"path"
	"strings"
)

func runLn(c *call, _ *spec, p parsed) {
	src, dst, dir, ok := destination(p)
	if !ok {
		if len(src) == 1 {
			dst = lit(".")
			dir = true
		} else {
			return
		}
	}
	if p.has("-s") {
		c.linksTo(src)
	} else {
		c.hardLinks(src)
	}
	at := c.targetPaths(src, dst, dir)
	for _, w := range at {
		c.write(w)
		if p.has("-s") && w.lit && !p.has("-r") {
			c.linksFrom(src, w)
		}
	}
	for _, w := range at {
		for _, s := range src {
			c.s.link(w, s)
		}
	}
}

// link remembers a symbolic link that this command makes.
func (s *scope) link(at, to word) {
	if !at.lit || !to.lit || at.glob || to.glob {
		return
	}
	for _, a := range s.resolve(at.text) {
		t := to.text
		if !strings.HasPrefix(t, "/") {
			t = path.Join(path.Dir(a), t)
		}
		if l := (link{at: a, to: path.Clean(t)}); l.at != l.to && len(s.j.links) < maxListed {
			s.j.links = append(s.j.links, l)
		}
	}
}

// linksTo judges what symbolic links would lead to.
func (c *call) linksTo(src []word) {
	for _, w := range src {
		if !w.lit {
			c.raise(Risky, "%s links to `%s`, which is only known when it runs", c.by(), w.show())
			continue
		}
		for _, p := range c.s.resolve(w.text) {
			switch c.s.placeOf(p) {
			case placeWorkspace, placeScratch, placeRoot:
			case placeProtected:
				c.raise(Risky, "%s links to `%s`, which is protected", c.by(), c.s.rel(p))
			default:
				c.raise(Risky, "%s makes a link that leads out of the workspace, to `%s`", c.by(), p)
			}
		}
	}
}

// linksFrom judges relative links by the directory that they are made in.
func (c *call) linksFrom(src []word, at word) {
	for _, w := range src {
		if w.lit && !strings.HasPrefix(w.text, "/") {
			c.linksTo([]word{lit(path.Join(path.Dir(at.text), w.text))})
		}
	}
}

// hardLinks judges what hard links would be another name of.
func (c *call) hardLinks(src []word) {
	for _, w := range src {
		paths, known := c.s.targets(w)
		if !known {
			c.raise(Risky, "%s links to `%s`, which is only known when it runs", c.by(), w.show())
		}
		for _, p := range paths {
			if pl := c.s.placeOf(p); pl != placeWorkspace && pl != placeScratch {
				c.raise(Risky, "%s makes another name for `%s`", c.by(), c.s.rel(p))
			}
		}
	}
}
