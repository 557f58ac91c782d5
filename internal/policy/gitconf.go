package policy

import (
	"path"
	"strings"
)

// gitSettings looks for settings with which git's read commands run a program:
// in the repository's own files, where facts hold them. Whoever may write such a
// file was asked then; what runs because of it is another question.
func (c *call) gitSettings() {
	s := c.s
	if s.j.sent {
		c.raise(Risky, "%s may run programs that a repository's settings name, and which repository is not known", c.by())
	}
	if s.remote != "" || s.cwdUnknown {
		return
	}
	if s.anyDir != "" {
		for _, below := range []string{"/.git", "/*/.git", "/*/*/.git"} {
			c.gitInside(s.anyDir + below)
		}
	}
	for _, cwd := range s.cwds {
		for dir := cwd; s.inWorkspace(dir) || dir == s.j.env.Workspace; dir = path.Dir(dir) {
			if c.repository(dir) {
				break
			}
		}
	}
}

// repository judges the settings of the repository that begins at dir, and reports
// whether there is one.
func (c *call) repository(dir string) bool {
	dot := path.Join(dir, ".git")
	f, head := c.gitFact(dot), c.gitFact(path.Join(dir, "HEAD"))
	found := c.gitDirSettings(dot)
	modules := c.gitModules(dir)
	c.gitSubmodules(dir)
	if c.deep {
		c.gitEmbedded(dir)
	}
	switch {
	case f.Exists && !f.IsDir:
		if to, ok := gitDirOf(dir, f); !ok || !in(modules, to) || !c.gitDirSettings(to) {
			c.raise(Risky, "%s works in a repository that `%s` names, whose settings are not looked at", c.by(), c.s.rel(dot))
		}
		return true
	case !found && (head.Exists && !head.IsDir || head.Resolved != "" && head.Resolved != path.Join(dir, "HEAD")):
		c.raise(Risky, "%s works in `%s`, which may be a repository itself, whose settings are not looked at", c.by(), c.s.rel(dir))
	}
	return found || f.Exists
}

// gitModules are the directories where a submodule at dir is kept by the
// repositories above it.
func (c *call) gitModules(dir string) []string {
	var out []string
	for up := path.Dir(dir); c.s.inWorkspace(up) || up == c.s.j.env.Workspace; up = path.Dir(up) {
		m := path.Join(up, ".git/modules", strings.TrimPrefix(dir, up))
		for _, name := range gitDirFiles {
			c.s.j.heads = appendOnce(c.s.j.heads, path.Join(m, name))
		}
		out = append(out, m)
	}
	return out
}

// gitDirFiles hold a repository's settings, or say where they are.
var gitDirFiles = []string{"config", "config.worktree", "commondir"}

// gitDirSettings judges the settings in a repository's own directory, and reports
// whether it has any.
func (c *call) gitDirSettings(dir string) bool {
	found := false
	for _, name := range gitDirFiles {
		p := path.Join(dir, name)
		f := c.gitFact(p)
		if !f.Exists {
			continue
		}
		found = true
		if name == "commondir" || f.IsDir || len(f.Head) >= maxHead {
			c.raise(Risky, "%s reads settings by `%s`, which are not looked at", c.by(), c.s.rel(p))
		} else if key := c.gitRuns(dir, string(f.Head)); key != "" {
			c.raise(Risky, "%s may run a program that the repository's setting `%s` names", c.by(), clip(key, 60))
		}
	}
	return found
}

// moduleDepth is how many names a submodule's directory may have below .git/modules
// to be found there: a submodule's own name may hold slashes, and so may those of
// submodules inside it.
const moduleDepth = 4

// gitSubmodules judges the settings of the submodules of a repository: what looks at
// its tree looks at theirs, too, with the programs that they name. One that was added
// without a word in .gitmodules, with its repository inside it, is left alone: the exec
// sets diff.ignoreSubmodules, which those that are named there may override.
func (c *call) gitSubmodules(dir string) {
	modules := path.Join(dir, ".git/modules")
	if f := c.gitFact(modules); f.Resolved != "" && f.Resolved != modules {
		c.raise(Risky, "%s may run programs that submodules name, whose settings are elsewhere", c.by())
	} else if f.Exists {
		pat := modules
		for range moduleDepth {
			pat += "/*"
			c.moduleConfigs(pat + "/config")
		}
	}
	at := path.Join(dir, ".gitmodules")
	f := c.gitFact(at)
	if !f.Exists {
		return
	}
	settings, ok := gitParse(string(f.Head))
	if !ok || f.IsDir || len(f.Head) >= maxHead {
		c.raise(Risky, "%s may run programs that submodules name, and `%s` cannot be read", c.by(), c.s.rel(at))
	}
	for _, g := range settings {
		if g.section != "submodule" {
			continue
		}
		c.moduleConfig(path.Join(modules, g.sub, "config"))
		if g.key == "path" {
			c.gitSubmodule(path.Join(dir, g.value), modules)
		}
	}
}

// looksInside reports whether a command looks into the repositories inside its own
// although it is told by settings to leave them alone.
func (c *call) looksInside(p parsed) bool {
	for _, w := range p.values("--ignore-submodules") {
		if !w.is("dirty", "all") {
			return true
		}
	}
	switch c.sub {
	case "diff-index", "diff-files":
		return !p.has("--ignore-submodules")
	case "describe":
		return p.has("--dirty", "--broken")
	}
	return false
}

// gitEmbedded judges the settings of the repositories inside one, whether or not it
// speaks of them, as far down as they usually are.
func (c *call) gitEmbedded(dir string) {
	for _, pat := range []string{"/*/.git", "/.[!.]*/.git", "/*/*/.git"} {
		for _, p := range c.gitFound(dir + pat) {
			c.gitSubmodule(path.Dir(p), path.Join(dir, ".git/modules"))
		}
	}
}

// gitSubmodule judges the settings of a submodule whose files lie in dir.
func (c *call) gitSubmodule(dir, modules string) {
	dot := path.Join(dir, ".git")
	f := c.gitFact(dot)
	if f.Exists && !f.IsDir {
		to, ok := gitDirOf(dir, f)
		if !ok || !strings.HasPrefix(to, modules+"/") {
			c.raise(Risky, "%s looks into a repository that `%s` names, whose settings are not looked at", c.by(), c.s.rel(dot))
			return
		}
		dot = to
	}
	if f.Exists {
		c.gitDirSettings(dot)
	}
}

// gitDirOf is the directory that a .git file in dir names.
func gitDirOf(dir string, f FileFact) (string, bool) {
	to, ok := strings.CutPrefix(string(f.Head), "gitdir: ")
	if to = strings.TrimSuffix(to, "\n"); !path.IsAbs(to) {
		to = path.Join(dir, to)
	}
	return path.Clean(to), ok
}

// gitInside judges working in any of some directories, of which those that a pattern
// finds are repositories of their own.
func (c *call) gitInside(pat string) {
	for _, p := range c.gitFound(pat) {
		c.repository(path.Dir(p))
	}
}

// gitFound are the repositories that a pattern finds.
func (c *call) gitFound(pat string) []string {
	j := c.s.j
	j.globs = appendOnce(j.globs, pat)
	list, ok := j.facts.Globs[pat]
	if !ok && j.facts.Files != nil {
		c.raise(Risky, "%s may work in repositories inside this one, which could not be looked at", c.by())
	}
	out := make([]string, len(list))
	for i, p := range list {
		out[i] = path.Clean(p)
	}
	return out
}

// moduleConfigs judges the settings that a pattern matches.
func (c *call) moduleConfigs(pat string) {
	j := c.s.j
	j.globs = appendOnce(j.globs, pat)
	if j.facts.Files == nil {
		return
	}
	list, ok := j.facts.Globs[pat]
	if !ok {
		c.raise(Risky, "%s may run programs that submodules name, which could not be looked at", c.by())
	}
	for _, p := range list {
		c.moduleConfig(path.Clean(p))
	}
}

func (c *call) moduleConfig(p string) {
	f := c.gitFact(p)
	if !f.Exists {
		return
	}
	key := c.gitRuns(path.Dir(p), string(f.Head))
	settings, _ := gitParse(string(f.Head))
	for _, g := range settings {
		if g.section == "extensions" && g.key == "worktreeconfig" {
			key = "extensions.worktreeConfig" // of which there is another file
		}
	}
	if key != "" || f.IsDir || len(f.Head) >= maxHead {
		c.raise(Risky, "%s may run a program that a submodule's settings in `%s` name (%s)", c.by(), c.s.rel(p), clip(key, 60))
	}
}

// gitFact is what the sandbox knows of a file of git's. Where the sandbox was
// looked at, but not here, nothing is assumed.
func (c *call) gitFact(p string) FileFact {
	s := c.s
	s.j.heads = appendOnce(s.j.heads, p)
	f, ok := s.j.facts.Files[p]
	if s.j.facts.Files == nil {
		return f
	}
	if outside := f.Resolved != "" && !s.inWorkspace(f.Resolved); !ok || outside {
		c.raise(Risky, "%s may run a program that `%s` names, which could not be looked at", c.by(), s.rel(p))
	}
	return f
}

// gitLFS are the filters of Git LFS, which its own installation sets.
var gitLFS = []string{"git-lfs clean -- %f", "git-lfs smudge -- %f", "git-lfs smudge --skip -- %f", "git-lfs filter-process", "git-lfs filter-process --skip"}

// gitPagers are pagers that repositories commonly name, and that run nothing.
var gitPagers = []string{"cat", "less", "less -R", "less -FRX", "less -FX", "less -F -X", "delta", "true", "false", ""}

var gitBools = []string{"true", "false", "on", "off", "1", "0", "yes", "no"}

// gitRuns returns the first setting in a git configuration file of the directory dir
// that names a program which git's read commands run, or a tree outside the
// workspace, or "". A file that git would not read either counts as one.
func (c *call) gitRuns(dir, text string) string {
	settings, ok := gitParse(text)
	for _, g := range settings {
		if g.runs() || g.section == "core" && g.key == "worktree" && !c.gitTree(dir, g.value) {
			name := g.section
			if g.sub != "" {
				name += "." + g.sub
			}
			return name + "." + g.key
		}
	}
	if !ok {
		return "(unreadable)"
	}
	return ""
}

// gitTree reports whether the tree that a repository's own directory names is the one
// around it or, for a submodule kept by the repository above it, in the workspace.
func (c *call) gitTree(dir, tree string) bool {
	if !path.IsAbs(tree) {
		tree = path.Join(dir, tree)
	}
	tree = path.Clean(tree)
	return tree == path.Dir(dir) && path.Base(dir) == ".git" || strings.Contains(dir, "/.git/modules/") && c.s.inWorkspace(tree) && c.s.placeOf(tree) == placeWorkspace
}

// runs reports whether a setting names a program, or more settings.
// Hooks are left out: no hook runs for a command that only reads. So is what is
// run to talk to another machine: nothing that reads may.
func (g gitSetting) runs() bool {
	kind, _, _ := strings.Cut(g.section, ".") // [diff.x] is an old spelling
	key, val := g.key, g.value
	switch kind {
	case "diff":
		return key == "external" || key == "textconv" || key == "command"
	case "filter":
		return (key == "clean" || key == "smudge" || key == "process") && !in(gitLFS, val)
	case "lfs": // extensions, which git-lfs runs
		return key == "clean" || key == "smudge"
	case "core":
		return key == "pager" && !in(gitPagers, val) || key == "fsmonitor" && !in(gitBools, val) || key == "alternaterefscommand"
	case "pager":
		return !in(gitBools, val) && !in(gitPagers, val)
	case "tar":
		return key == "command"
	case "gpg":
		return strings.HasSuffix(key, "program") || strings.HasSuffix(key, "command")
	case "log":
		return key == "diffmerges" && in(gitRemerge, strings.ToLower(val))
	case "remote":
		return key == "uploadpack" || key == "vcs"
	case "include", "includeif":
		return key == "path"
	case "man":
		return key == "viewer" || key == "cmd" || key == "path"
	case "browser":
		return key == "cmd" || key == "path"
	case "web", "help":
		return key == "browser" || key == "format" && !in([]string{"man", "info"}, val)
	}
	return false
}

// gitRemerge are the ways to show a merge that do it once more, by programs that
// settings name.
var gitRemerge = []string{"remerge", "r"}
