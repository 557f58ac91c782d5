package policy

import (
	"slices"
	"strings"
)

// shellStdin judges text for a running shell, whose directory, variables and
// functions are not known.
func (j *judge) shellStdin(name, text string) {
	line, whole := strings.CutSuffix(text, "\n")
	if text != "" && (!whole || strings.HasSuffix(line, "\\")) {
		j.raise(0, Risky, "the text does not end its last line, so what comes next is part of it")
	}
	if !j.readable(text) {
		return
	}
	j.sent = true
	s := j.newScope()
	s.loseCwd()
	s.stdin = flow{sent: true}
	lang := ShellBash
	if name != "bash" {
		lang = ShellSh
	}
	s.runScript(text, scriptOpts{what: "`" + name + "`", lang: lang, same: lang == s.lang, stdin: s.stdin})
	s.uncalled()
	if j.tier == Write {
		j.raise(0, Risky, "where this writes cannot be told: links on the way are not looked at")
	}
}

// keepsInput are commands that leave their standard input alone, or give it to a
// command that is judged by itself.
var keepsInput = []string{
	":", "[", "alias", "arch", "basename", "break", "builtin", "cal", "cd", "command", "continue", "date", "declare",
	"df", "dirname", "dirs", "disown", "du", "echo", "env", "eval", "exit", "export",
	"false", "file", "find", "free", "getconf", "getopts", "groups", "hash", "help", "hostname", "id", "jobs", "kill",
	"local", "locale", "logout", "ls", "lscpu", "nice", "nohup", "nproc",
	"popd", "printf", "ps", "pgrep", "pushd", "pwd", "readlink", "readonly", "realpath", "return", "seq", "set",
	"shift", "shopt", "sleep", "stat", "test", "time", "timeout", "times", "trap", "tree", "true",
	"type", "typeset", "ulimit", "umask", "unalias", "uname", "unset", "uptime", "wait", "whereis", "which", "whoami",
}

// readsFiles are commands that read files instead where they are given some.
var readsFiles = []string{
	"cat", "cmp", "diff", "grep", "egrep", "fgrep", "head", "less", "md5sum", "more", "nl", "od", "sha1sum",
	"sha256sum", "sort", "tac", "tail", "wc",
}

// sentInput judges a command whose standard input is what the shell that runs it is
// sent its own commands by. What it takes from there is missing from what the
// shell then reads: the rest is another script than the one that was judged.
func (c *call) sentInput() {
	_, fn := c.s.funcs[c.name]
	if fn || in(keepsInput, c.name) && !c.namesInput(c.args) {
		return
	}
	if in(readsFiles, c.name) && c.s.j.env.Isolated && c.readsFilesOnly() {
		return
	}
	c.raise(Risky, "%s may read what the shell is sent next, or a file that cannot be looked at", c.by())
}

// readsFilesOnly reports whether the files that a command reads are all named.
func (c *call) readsFilesOnly() bool {
	sp := c.s.j.p.spec(c.name)
	if sp == nil {
		return false
	}
	p := c.parse(sp, c.args)
	files := 0
	for i := range p.operands {
		if r, ok := sp.roleAt(i, len(p.operands)); i > 0 || ok && (r == roleRead || r == roleDeep) {
			files++
		}
	}
	return files > 0 && !c.namesInput(c.args)
}

// namesInput reports whether a word may name the standard input, or a file that
// says what is read.
func (c *call) namesInput(args []word) bool {
	return slices.ContainsFunc(args, func(w word) bool {
		t := w.text
		return !w.lit && !in(keepsInput, c.name) || t == "-" || strings.HasSuffix(t, "=-") || devicePath(t) || strings.Contains(t, "files0") || t == "-ok" || t == "-okdir"
	})
}

// devicePath reports whether a word holds a path by which open files can be named.
func devicePath(t string) bool { return strings.Contains(t, "/dev/") || strings.Contains(t, "/proc/") }

// sentCd judges a change of directory in a shell that is sent text. What it reads
// afterwards is named from there, so it stays where nothing but the workspace is.
func (c *call) sentCd(w word) {
	s := c.s
	inside := w.lit && !w.glob && w.text != "" && !strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "+") && !slices.Contains(strings.Split(w.text, "/"), "..")
	if inside && strings.HasPrefix(w.text, "/") {
		p := cleanPath(w.text)
		inside = s.inWorkspace(p) || p == s.j.env.Workspace
	}
	if !inside || !s.j.env.Isolated {
		s.raise(Risky, "%s may lead out of the workspace, and what is read there cannot be told", c.by())
	}
}
