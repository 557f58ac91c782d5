package policy

import (
	"path"
	"strings"
)

// gitSettings looks for settings with which git's read commands run a program:
// in the repository's own file, where facts hold it. Whoever may write that
// file was asked then; what runs because of it is another question.
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
			p := path.Join(dir, ".git/config")
			s.j.heads = appendOnce(s.j.heads, p)
			f, ok := s.j.facts.Files[p]
			if !ok || !f.Exists {
				continue
			}
			if key := gitRuns(string(f.Head)); key != "" {
				c.raise(Risky, "%s may run a program that the repository's setting `%s` names", c.by(), clip(key, 60))
			}
			break
		}
	}
}

// gitLFS are the filters of Git LFS, which its own installation sets.
var gitLFS = []string{"git-lfs clean -- %f", "git-lfs smudge -- %f", "git-lfs smudge --skip -- %f", "git-lfs filter-process", "git-lfs filter-process --skip"}

// gitPagers are pagers that repositories commonly name, and that run nothing.
var gitPagers = []string{"cat", "less", "less -R", "less -FRX", "less -FX", "less -F -X", "delta", "true", "false", ""}

var gitBools = []string{"true", "false", "on", "off", "1", "0", "yes", "no"}

// gitRuns returns the first setting in a git configuration file that names a
// program which git's read commands run, or "".
func gitRuns(text string) string {
	section := ""
	text = strings.ReplaceAll(text, "\\\n", "")
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			head, rest, _ := strings.Cut(line[1:], "]")
			section, line = strings.ToLower(head), strings.TrimSpace(rest)
		}
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		key, val, _ := strings.Cut(line, "=")
		key, val = strings.ToLower(strings.TrimSpace(key)), strings.Trim(strings.TrimSpace(val), `"`)
		if gitKeyRuns(section, key, val) {
			return strings.ReplaceAll(strings.ReplaceAll(section, ` "`, "."), `"`, "") + "." + key
		}
	}
	return ""
}

// gitKeyRuns reports whether one setting names a program, or more settings.
// Hooks are left out: no hook runs for a command that only reads.
func gitKeyRuns(section, key, val string) bool {
	kind, name, _ := strings.Cut(section, " ")
	kind, _, _ = strings.Cut(kind, ".") // [diff.x] is an old spelling
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
		return key == "program" || name != "" && strings.HasSuffix(key, "program") || strings.HasSuffix(key, "command")
	case "include", "includeif":
		return key == "path"
	}
	return false
}
