package policy

import (
	"path"
	"strings"
)

// gitSettings looks for settings with which git's read commands run a program:
// in the repository's own files, where facts hold them. Whoever may write such a
// file was asked then; what runs because of it is another question. Of a submodule
// that a command of its superproject looks into nothing is known here.
func (c *call) gitSettings() {
	s := c.s
	if s.j.sent {
		c.raise(Risky, "%s may run programs that a repository's settings name, and which repository is not known", c.by())
	}
	if s.remote != "" || s.cwdUnknown {
		return
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
	switch {
	case f.Exists && !f.IsDir:
		to, ok := strings.CutPrefix(string(f.Head), "gitdir: ")
		if to = strings.TrimSuffix(to, "\n"); !path.IsAbs(to) {
			to = path.Join(dir, to)
		}
		if to = path.Clean(to); !ok || !in(modules, to) || !c.gitDirSettings(to) {
			c.raise(Risky, "%s works in a repository that `%s` names, whose settings are not looked at", c.by(), c.s.rel(dot))
		}
		return true
	case !found && head.Exists && !head.IsDir:
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
		} else if key := gitRuns(string(f.Head)); key != "" {
			c.raise(Risky, "%s may run a program that the repository's setting `%s` names", c.by(), clip(key, 60))
		}
	}
	return found
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

// gitRuns returns the first setting in a git configuration file that names a
// program which git's read commands run, or "". A file that git would not read
// either counts as one.
func gitRuns(text string) string {
	settings, ok := gitParse(text)
	for _, g := range settings {
		if g.runs() {
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
	case "core":
		return key == "pager" && !in(gitPagers, val) || key == "fsmonitor" && !in(gitBools, val) || key == "worktree" || key == "alternaterefscommand"
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
	}
	return false
}

// gitRemerge are the ways to show a merge that do it once more, by programs that
// settings name.
var gitRemerge = []string{"remerge", "r"}
