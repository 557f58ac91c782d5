package policy

import "strings"

// gitOut says what a read command prints.
func (c *call) gitOut(p parsed) {
	if c.sub == "rev-parse" && p.has("--show-toplevel") && len(p.hits) == 1 && len(c.s.cwds) == 1 && !c.s.cwdUnknown {
		if pl := c.s.placeOf(c.s.cwds[0]); pl == placeWorkspace || pl == placeRoot {
			c.out = literal(c.s.j.env.Workspace + "\n")
			return
		}
	}
	switch c.sub {
	case "rev-parse", "merge-base", "symbolic-ref", "branch", "name-rev", "describe", "tag":
		c.out = flow{class: class{noDash: p.only(append(gitPlain, "--format")...) && p.namesRefs() && c.gitPlainWords(p)}}
	case "log", "show", "for-each-ref":
		c.out = flow{class: class{noDash: p.namesCommits()}}
	case "rev-list":
		c.out = flow{class: class{noDash: p.only(gitListing...), num: p.has("--count") && p.only(gitListing...)}}
	case "config":
		c.out = flow{}
	}
	for _, w := range p.operands {
		c.out.names = c.out.names || c.s.namesKeys(w) || strings.ContainsRune(w.script(), ':') && c.memberSecret(inCommit(w))
	}
}

// namesRefs reports whether a list's format, if any, prints names alone.
func (p parsed) namesRefs() bool {
	w, ok := p.value("--format")
	return !ok || w.is("%(refname)", "%(refname:short)", "%(objectname)")
}

// namesCommits reports whether a listing prints nothing but hashes.
func (p parsed) namesCommits() bool {
	n := 0
	for _, h := range p.hits {
		switch {
		case in(h.names, "--format"), in(h.names, "--pretty"):
			if h.val == nil || !h.val.is("%H", "%h", "%T", "%P", "format:%H", "format:%h", "tformat:%H", "%(objectname)") {
				return false
			}
			n++
		case !in(gitListing, h.key()) && !in([]string{"-s", "--no-patch", "-1"}, h.name):
			return false
		}
	}
	return n > 0
}

// gitPlain are the options with which the commands that name things print no
// field that starts with a dash.
var gitPlain = []string{
	"--abbrev-ref", "--show-toplevel", "--show-prefix", "--show-cdup", "--git-dir", "--absolute-git-dir",
	"--git-common-dir", "--is-inside-work-tree", "--is-inside-git-dir", "--is-bare-repository",
	"--is-shallow-repository", "--short", "--verify", "-q", "--symbolic-full-name", "--show-object-format",
	"--show-current", "-a", "--all", "-r", "-l", "--tags", "--always", "--long", "--abbrev", "--no-abbrev",
	"--contains", "--no-contains", "--merged", "--no-merged", "--points-at", "--sort", "--no-color", "--exact-match",
	"--first-parent", "--match", "--exclude", "--candidates", "--octopus", "--independent", "--is-ancestor",
	"--fork-point", "--name-only",
}

// gitListing are the options with which rev-list prints nothing but numbers or
// names of commits.
var gitListing = []string{
	"--count", "-n", "--max-count", "--skip", "--all", "--since", "--until", "--author", "--committer", "--grep",
	"--merges", "--no-merges", "--first-parent", "--reverse", "--branches", "--tags", "--remotes", "--not",
	"--max-parents", "--min-parents", "--topo-order", "--date-order", "--no-walk", "--abbrev-commit",
}

// gitPlainWords reports whether the operands, which git may print as they are,
// start with no dash.
func (c *call) gitPlainWords(p parsed) bool {
	for _, w := range append(c.args[:len(c.args):len(c.args)], p.operands...) {
		if w.is("--") || w.split && !w.noDash && !w.num {
			return false
		}
	}
	for _, w := range p.operands {
		if w.mayBeOption() || strings.ContainsAny(w.text, " \t\n") {
			return false
		}
	}
	return true
}
