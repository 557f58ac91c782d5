package policy

import (
	"slices"
	"strings"
)

// gitChange judges the subcommands that change something.
func (c *call) gitChange(sub string) {
	has := func(names ...string) bool {
		for _, w := range c.args {
			if w.is(names...) {
				return true
			}
			for _, n := range names {
				if w.lit && strings.HasPrefix(n, "--") && strings.HasPrefix(w.text, n+"=") {
					return true
				}
				// A cluster of short options, or an abbreviation.
				if w.lit && len(n) == 2 && len(w.text) > 2 && w.text[0] == '-' && w.text[1] != '-' && strings.Contains(w.text, n[1:]) {
					return true
				}
				if w.lit && strings.HasPrefix(n, "--") && len(w.text) > 4 && strings.HasPrefix(n, w.text) {
					return true
				}
			}
		}
		return false
	}
	switch sub {
	case "push":
		c.gitPush(has)
	case "commit":
		c.raise(Risky, "%s runs the repository's hooks", c.by())
	case "fetch", "pull", "clone", "ls-remote", "remote-update":
		c.raise(Risky, "%s talks to another machine", c.by())
		c.gitRemoteArgs(has)
		if sub == "clone" {
			c.gitClone()
		}
		c.out = flow{net: true, from: c.name}
	case "checkout", "switch":
		if c.gitNewBranch(sub) {
			return
		}
		c.raise(Risky, "%s changes the working tree and may throw changes away", c.by())
	case "reset", "restore", "clean", "rm", "revert", "merge", "rebase", "cherry-pick", "am", "apply", "stash":
		c.raise(Risky, "%s changes the working tree and may throw changes away", c.by())
		if has("--exec", "-x") {
			c.suspicious(append(lits(c.name), c.args...))
		}
	case "gc", "prune", "repack", "update-ref", "filter-branch", "filter-repo", "replace":
		c.raise(Risky, "%s rewrites or throws away history", c.by())
		c.suspicious(append(lits(c.name), c.args...))
	case "send-email", "request-pull", "daemon", "instaweb", "svn", "p4":
		c.raise(Risky, "%s talks to other machines", c.by())
	default:
		c.raise(Risky, "%s is not a git command that the policy knows", c.by())
		c.suspicious(append(lits(c.name), c.args...))
	}
}

// gitNewBranch judges checkout -b and switch -c with nothing but a name: they
// change no file of the working tree, and run the repository's post-checkout
// hook, which is the workspace's own code.
func (c *call) gitNewBranch(sub string) bool {
	args := c.args
	if len(args) > 0 && args[0].is("-q", "--quiet") {
		args = args[1:]
	}
	flag := map[string]string{"checkout": "-b", "switch": "-c"}[sub]
	if len(args) != 2 || !args[0].is(flag) && !(sub == "switch" && args[0].is("--create")) || !args[1].lit || !branchName(args[1].text) {
		return false
	}
	c.gitRead()
	c.raise(Write, "%s makes the branch `%s`", c.by(), args[1].show())
	return true
}

// branchName reports whether a word is a plain name of a branch.
func branchName(t string) bool {
	return t != "" && len(t) <= 200 && t[0] != '-' && t[0] != '.' && !strings.Contains(t, "..") && !strings.Contains(t, "//") && !strings.HasSuffix(t, "/") &&
		strings.Trim(t, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-#+") == ""
}

func (c *call) gitRemoteArgs(has func(...string) bool) {
	if has("--upload-pack", "-u", "--receive-pack", "--exec") {
		c.raise(Risky, "%s runs a command given by an option", c.by())
	}
	for _, w := range c.args {
		t := w.script()
		if strings.HasPrefix(t, "ext::") {
			c.raise(Risky, "%s runs the command in its address", c.by())
			c.s.worst(strings.TrimPrefix(t, "ext::"), c.by())
		}
		if _, v, ok := strings.Cut(t, "="); ok && slices.ContainsFunc([]string{"--upload-pa", "--receive-pa", "--exec", "--config", "-c"}, func(o string) bool { return strings.HasPrefix(t, o) }) {
			c.s.worst(v, c.by())
		}
		if strings.Contains(t, "://") || strings.Contains(t, "@") {
			c.host(w)
		}
	}
}

// gitClone remembers that what it makes was downloaded.
func (c *call) gitClone() {
	var ops []word
	for i := 0; i < len(c.args); i++ {
		w := c.args[i]
		if w.is(
			"-b", "--branch", "--depth", "-o", "--origin", "-c", "--config", "-j", "--jobs", "--filter", "--reference",
			"--template", "-u", "--upload-pack", "--separate-git-dir",
		) {
			i++
			continue
		}
		if w.lit && strings.HasPrefix(w.text, "-") {
			continue
		}
		ops = append(ops, w)
	}
	if len(ops) == 0 {
		return
	}
	dst := ""
	if len(ops) > 1 {
		dst = ops[1].text
		c.write(ops[1])
	} else if ops[0].lit {
		u := strings.TrimSuffix(strings.TrimRight(ops[0].text, "/"), ".git")
		dst = u[strings.LastIndexAny(u, "/:")+1:]
	}
	if dst == "" {
		return
	}
	for _, p := range c.s.resolve(dst) {
		c.s.setFile(p, flow{net: true, from: "git clone"}, false)
	}
}

// gitPush judges push: forcing, deleting and mirroring cannot be undone by us.
func (c *call) gitPush(has func(...string) bool) {
	c.raise(Risky, "%s changes another machine", c.by())
	c.gitRemoteArgs(has)
	if has("--force", "-f", "--force-with-lease", "--force-if-includes", "--mirror", "--delete", "-d", "--prune") {
		c.raise(Critical, "%s overwrites or deletes what others have", c.by())
	}
	for _, w := range c.args {
		if w.lit && (strings.HasPrefix(w.text, "+") || (strings.HasPrefix(w.text, ":") && len(w.text) > 1)) {
			c.raise(Critical, "%s overwrites or deletes `%s` for others", c.by(), strings.TrimLeft(w.text, "+:"))
		}
	}
	for _, w := range c.args {
		if w.flow.secret {
			c.raise(Critical, "%s sends out what `%s` read, which may hold credentials", c.by(), w.flow.from)
		}
	}
}
