package policy

import (
	"path"
	"strings"
)

// path is the word as a path, unknown parts that cannot leave their directory
// replaced.
func (w word) path() string {
	if w.lit {
		return w.text
	}
	return w.sample
}

// maxLinks is how many spellings of one path are followed through links.
const maxLinks = 16

// resolve returns the absolute, cleaned paths that a path may mean: one for each
// directory that the shell may be in, and what facts and this command's own
// links make of it. None when that is unknown.
func (s *scope) resolve(p string) []string {
	if p == "" {
		return nil
	}
	var out []string
	if p[0] == '/' {
		out = []string{path.Clean(p)}
	} else {
		if s.cwdUnknown {
			return nil
		}
		for _, c := range s.cwds {
			out = append(out, path.Join(c, p))
		}
	}
	if len(s.j.links) == 0 && len(s.j.facts.Files) == 0 {
		return out
	}
	for i := 0; i < len(out) && i < maxLinks; i++ {
		a := out[i]
		for _, l := range s.j.links {
			if a == l.at || strings.HasPrefix(a, l.at+"/") {
				out = appendOnce(out, path.Clean(l.to+a[len(l.at):]))
			}
		}
		if r := s.linkFact(a); r != "" && r != a {
			out = appendOnce(out, r)
		}
	}
	return out
}

// linkFact is where the sandbox says that a path leads, by the fact of the
// path itself or of a directory above it.
func (s *scope) linkFact(p string) string {
	rest := ""
	for q := p; q != "/" && q != "."; q = path.Dir(q) {
		if f, ok := s.j.facts.Files[q]; ok && f.Resolved != "" {
			return path.Clean(f.Resolved + rest)
		}
		rest = "/" + path.Base(q) + rest
	}
	return ""
}

// expandGlob returns the absolute pattern, where one is known, and what it
// matches or may match: from facts, and from what the gate knows by heart.
func (s *scope) expandGlob(w word) (pats, hits []string) {
	for _, pat := range s.resolve(w.pat) {
		pats = append(pats, pat)
		s.j.globs = appendOnce(s.j.globs, pat)
		matches, known := s.j.facts.Globs[pat]
		for _, m := range matches {
			m = path.Clean(m)
			hits = append(hits, m)
			if r := s.linkFact(m); r != "" && r != m {
				hits = append(hits, r)
			}
		}
		for _, sample := range s.j.globSamples(s) {
			if !known && matchPath(pat, sample, s.dotglob) {
				hits = append(hits, sample)
			}
		}
	}
	return pats, hits
}

// globSamples caches the scope's samples for one judgement.
func (j *judge) globSamples(s *scope) []string {
	if j.samples == nil {
		j.samples = s.globSamples()
	}
	return j.samples
}

// matchPath matches component by component, as a shell does: a leading dot is
// matched only by a dot.
func matchPath(pat, p string, dotglob bool) bool {
	for {
		pc, prest, pmore := strings.Cut(pat, "/")
		sc, srest, smore := strings.Cut(p, "/")
		if pc == "**" && pmore {
			pc = "*"
		}
		if strings.HasPrefix(sc, ".") && !dotglob && !strings.HasPrefix(strings.TrimPrefix(pc, "\\"), ".") {
			return false
		}
		if pc != sc && !globMatch(pc, sc, false) {
			return false
		}
		if pmore != smore {
			return false
		}
		if !pmore {
			return true
		}
		pat, p = prest, srest
	}
}

// globDir is the directory above a pattern's first variable component.
func globDir(pat string) string {
	i := strings.IndexAny(pat, "*?[")
	if i < 0 {
		return path.Dir(pat)
	}
	d := pat[:i]
	d = d[:strings.LastIndexByte(d, '/')+1]
	if d == "" {
		return "."
	}
	return path.Clean(strings.ReplaceAll(d, "\\", ""))
}

// targets returns every absolute path that an operand may mean, and whether
// that is all of them.
func (s *scope) targets(w word) (paths []string, known bool) {
	if len(w.maybe) > 0 {
		for _, t := range w.maybe {
			paths = append(paths, s.resolve(t)...)
		}
		w.maybe = nil
		more, all := s.targets(w)
		return append(paths, more...), all
	}
	switch {
	case w.psub != nil || w.out:
		return nil, true
	case w.glob && w.lit:
		pats, hits := s.expandGlob(w)
		for _, p := range pats {
			// What the pattern matches lies here; by the pattern's own text.
			paths = append(paths, path.Join(globDir(p), path.Base(p)))
		}
		return append(paths, hits...), len(pats) > 0
	case w.lit || w.flat:
		paths = s.resolve(w.path())
		return paths, len(paths) > 0
	case len(w.roots) > 0 && w.text == "":
		for _, r := range w.roots {
			for _, p := range s.resolve(r) {
				paths = append(paths, path.Join(p, "x"))
			}
		}
		return paths, false
	}
	return nil, false
}

// writeTo judges writing to a path and returns what it means when known.
func (s *scope) writeTo(w word, by string) []string {
	if w.temp && !w.glob && s.remote == "" {
		s.raise(Write, "%s writes to a temporary file that this command makes", by)
		return nil
	}
	paths, known := s.targets(w)
	s.throughLink(w.path(), by)
	for _, p := range paths {
		s.touch(p)
		s.writePlace(p, by)
	}
	if !known {
		if w.lit {
			s.raise(Risky, "%s writes to `%s`, and where that is cannot be told", by, w.show())
		} else {
			s.worstPrefix(w, by)
			s.raise(Risky, "%s writes to `%s`, which is only known when it runs", by, w.show())
		}
		return nil
	}
	return paths
}

// worstPrefix judges what is known of an unknown path: its beginning, and what
// is left of it if the unknown parts are empty.
func (s *scope) worstPrefix(w word, by string) {
	for _, t := range []string{w.text, w.alt} {
		if len(t) > 1 && t[0] == '/' {
			if pl := s.placeOf(path.Clean(t)); pl >= placeSystem {
				s.writePlace(path.Clean(t), by)
			}
		}
	}
}

func (s *scope) writePlace(p, by string) {
	switch s.placeOf(p) {
	case placeNull:
		if s.j.sent && (p == "/dev/stdin" || strings.Contains(p, "/fd/")) {
			s.raise(Risky, "%s may write to `%s` what the shell then reads as commands", by, p)
		}
	case placeWorkspace, placeRoot:
		s.raise(Write, "%s changes `%s` in the workspace", by, s.rel(p))
	case placeScratch:
		s.raise(Write, "%s writes `%s`", by, p)
	case placeProtected:
		s.raise(Risky, "%s changes `%s`, which is protected", by, s.rel(p))
	case placeStartup:
		s.raise(Risky, "%s changes `%s`, which runs at every login", by, p)
	case placeKeys:
		s.raise(Critical, "%s changes `%s`, which holds credentials", by, p)
	case placeSystem, placeSystemTop:
		tier := Critical
		if strings.HasPrefix(p, "/var/") || strings.HasPrefix(p, "/run/") || strings.HasPrefix(p, "/usr/local/") {
			tier = Risky
			if strings.HasSuffix(p, ".sock") || strings.Contains(p, "/cron") {
				tier = Critical
			}
		}
		s.raise(tier, "%s changes `%s`, which belongs to the system", by, p)
	case placeKernel:
		s.raise(Forbidden, "%s changes the running kernel through `%s`", by, p)
	case placeDevice:
		s.raise(Forbidden, "%s writes to the device `%s`", by, p)
	case placeOutside, placeHome, placeAbove:
		if strings.HasPrefix(p, "/dev/tcp/") || strings.HasPrefix(p, "/dev/udp/") {
			s.raise(Critical, "%s opens a connection to `%s`", by, p[len("/dev/tcp/"):])
			return
		}
		s.raise(Risky, "%s writes `%s`, outside the workspace", by, p)
	}
}

// remove judges deleting a path. all says that what lies below goes too, named
// that the path is spelled out and the deletion is not forced.
func (s *scope) remove(w word, by string, all, named bool) {
	if w.temp && w.text == "" && !w.glob && s.remote == "" {
		s.raise(Write, "%s deletes a temporary file that this command made", by)
		return
	}
	paths, known := s.targets(w)
	s.throughLink(w.path(), by)
	for _, p := range paths {
		s.touch(p)
		s.removePlace(p, by, all, named && w.lit && !w.glob)
	}
	if w.glob {
		for _, p := range s.resolve(w.pat) {
			s.removeAll(p, by)
		}
	}
	for _, r := range w.roots {
		for _, p := range s.resolve(r) {
			if pl := s.placeOf(p); w.text == "" && pl >= placeHome {
				s.raise(Critical, "%s deletes what is found below `%s`", by, p)
			}
		}
	}
	if known && !w.glob {
		return
	}
	if !w.lit {
		for _, t := range []string{w.text, w.alt} {
			t = strings.TrimRight(t, "*")
			if t == "" || t[0] != '/' {
				continue
			}
			if pl := s.placeOf(path.Clean(t)); pl >= placeHome {
				s.raise(Critical, "%s deletes `%s`, which is `%s` if its unknown part is empty", by, w.show(), t)
			}
		}
		if w.flow.known {
			return
		}
	}
	if !known {
		s.raise(Risky, "%s deletes `%s`, which is only known when it runs", by, w.show())
	}
}

// removeAll judges a pattern that takes everything in a directory.
func (s *scope) removeAll(pat, by string) {
	base := path.Base(pat)
	if strings.Trim(base, "*?.") != "" && base != "[!.]*" {
		return
	}
	d := path.Dir(pat)
	if hasGlob(d) {
		return
	}
	switch s.placeOf(d) {
	case placeSystemTop:
		s.raise(Forbidden, "%s deletes everything in `%s`", by, d)
	case placeHome, placeAbove, placeSystem, placeKeys, placeStartup, placeKernel, placeDevice:
		s.raise(Critical, "%s deletes everything in `%s`", by, d)
	}
}

func (s *scope) removePlace(p, by string, all, named bool) {
	switch s.placeOf(p) {
	case placeWorkspace, placeScratch, placeNull:
		if named && !all {
			s.raise(Write, "%s deletes `%s` in the workspace", by, s.rel(p))
			return
		}
		s.raise(Risky, "%s deletes `%s` in the workspace", by, s.rel(p))
	case placeRoot:
		s.raise(Risky, "%s deletes the whole workspace", by)
	case placeProtected:
		s.raise(Risky, "%s deletes `%s`, which is protected", by, s.rel(p))
	case placeSystemTop:
		if p == "/" {
			s.raise(Forbidden, "%s deletes everything: `/`", by)
			return
		}
		s.raise(Forbidden, "%s destroys the system: `%s`", by, p)
	case placeAbove, placeHome:
		s.raise(Critical, "%s deletes `%s` and what others keep there", by, p)
	case placeKeys:
		s.raise(Critical, "%s deletes the credentials `%s`", by, p)
	case placeSystem:
		s.raise(Critical, "%s deletes `%s`, which belongs to the system", by, p)
	case placeKernel, placeDevice:
		s.raise(Forbidden, "%s deletes `%s`", by, p)
	case placeStartup, placeOutside:
		s.raise(Risky, "%s deletes `%s`, outside the workspace", by, p)
	}
}

// rel is a path as people know it: relative to the workspace.
func (s *scope) rel(p string) string {
	if s.inWorkspace(p) {
		return p[len(s.j.env.Workspace)+1:]
	}
	return p
}

// readFile judges reading a path and returns what it holds as far as known.
// deep says that everything below it is read too.
func (s *scope) readFile(p string, deep bool) flow {
	f := flow{file: p}
	switch {
	case s.secret(p):
		s.raise(Risky, "reads `%s`, which may hold credentials", s.rel(p))
		f.secret, f.from = true, p
		return f
	case deep && s.remote == "" && s.holdsKeys(p):
		s.raise(Risky, "reads everything below `%s`, where credentials are kept", p)
		f.secret, f.from = true, p
	}
	switch s.placeOf(p) {
	case placeDevice:
		s.raise(Risky, "reads the device `%s`", p)
		f.secret, f.from = true, p
	case placeOutside:
		if strings.HasPrefix(p, "/dev/tcp/") || strings.HasPrefix(p, "/dev/udp/") {
			s.raise(Critical, "opens a connection to `%s`", p[len("/dev/tcp/"):])
			return flow{net: true, from: "/dev/tcp"}
		}
	}
	if w, ok := s.j.files[p]; ok {
		w.file = p
		return w
	}
	if s.downloaded(p) {
		f.net, f.from = true, "a download"
	}
	if fact, ok := s.j.facts.Files[p]; ok && fact.Exists && !fact.IsDir && len(fact.Head) > 0 && len(fact.Head) < maxHead {
		f.text, f.known = string(fact.Head), true
	}
	return f
}

// maxHead is how much of a script's content facts hold.
const maxHead = 64 << 10 // 64 KiB

func (s *scope) holdsKeys(p string) bool {
	home := s.j.env.Home
	if rel, ok := strings.CutPrefix(p, home+"/"); ok && home != "" {
		for _, n := range keyNames {
			if strings.HasPrefix(n, rel+"/") {
				return true
			}
		}
	}
	return p == "/" || p == home || p == "/root" || p == "/home" || p == "/etc" || p == "/proc" ||
		(home != "" && strings.HasPrefix(home, p+"/"))
}

// downloaded reports whether this session downloaded a file or the directory
// that it lies in.
func (s *scope) downloaded(p string) bool {
	for q := p; len(q) > 1; q = path.Dir(q) {
		if s.j.facts.Downloaded[q] {
			return true
		}
		if f, ok := s.j.files[q]; ok && f.net {
			return true
		}
	}
	return false
}
