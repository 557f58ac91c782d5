package policy

import (
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"
)

const (
	// maxCommand is how long a command may be, in bytes, to be judged and shown.
	maxCommand = 64 << 10 // 64 KiB
	// maxDisplayLines is how many lines a person can be asked to read.
	maxDisplayLines = 4_000
)

// Needs returns what the sandbox must look at before command is judged, as far as
// is known with the facts that there are: at first none. What they tell may lead to
// further files and patterns, so it is asked again until it names nothing new.
func (p *Policy) Needs(command string, env Env, known Facts) Needs {
	j := p.newJudge(env, known)
	j.guarded(func() { j.command(command) })
	return Needs{Paths: sorted(j.paths), Globs: sorted(j.globs), Heads: sorted(j.heads)}
}

// Judge returns the verdict on a command.
func (p *Policy) Judge(command string, env Env, facts Facts) Verdict {
	j := p.newJudge(env, facts)
	j.guarded(func() { j.command(command) })
	return j.verdict(command)
}

// guarded keeps a fault of this package from becoming an answer: what cannot be
// judged asks.
func (j *judge) guarded(f func()) {
	defer func() {
		if r := recover(); r != nil {
			j.raise(0, Risky, "the command could not be judged")
		}
	}()
	f()
}

// JudgeWrite returns the verdict on writing content to path by a file tool.
// path may be relative to env.Cwd; facts hold where it resolves to. Whoever is asked
// is shown the content.
func (p *Policy) JudgeWrite(path string, content []byte, env Env, facts Facts) Verdict {
	j := p.newJudge(env, facts)
	s := j.newScope()
	if path == "" || strings.IndexByte(path, 0) >= 0 || !utf8.ValidString(path) {
		j.raise(0, Risky, "the path is not one that can be written")
	} else {
		if unseen(path) {
			j.raise(0, Risky, "the path holds characters that do not show")
		}
		j.guarded(func() { s.writeTo(lit(path), "the write") })
	}
	if j.tier >= Risky {
		return j.verdict(fmt.Sprintf("write_file %s (%d bytes)\n%s", path, len(content), content))
	}
	v := j.verdict("write_file " + path)
	v.Displayable = v.Displayable && len(content) <= 8*maxCommand
	return v
}

// FileChange is a file that a patch makes, changes or takes away.
type FileChange struct {
	// Path is absolute; facts hold where it leads.
	Path   string
	Remove bool
}

// JudgeChanges returns the verdict on changing files by a file tool, all at once;
// display is what people are shown of it.
func (p *Policy) JudgeChanges(changes []FileChange, show string, env Env, facts Facts) Verdict {
	j := p.newJudge(env, facts)
	s := j.newScope()
	for _, c := range changes {
		switch {
		case c.Path == "" || strings.IndexByte(c.Path, 0) >= 0 || !utf8.ValidString(c.Path):
			j.raise(0, Risky, "a path is not one that can be changed")
			continue
		case unseen(c.Path):
			j.raise(0, Risky, "a path holds characters that do not show")
		}
		j.guarded(func() {
			if c.Remove {
				s.remove(lit(c.Path), "the patch", false, true)
			} else {
				s.writeTo(lit(c.Path), "the patch")
			}
		})
	}
	return j.verdict(show)
}

// Secret reports whether a path's name says that it holds credentials, so that it
// is not shown to people of a thread.
func (p *Policy) Secret(path string, env Env) bool {
	s := p.newJudge(env, Facts{}).newScope()
	path = cleanPath(path)
	return s.secret(path) || strings.HasSuffix(path, ".env")
}

// JudgeStdin returns the verdict on sending text to a running program: for a
// shell a script, for anything else it asks, unless a rule allows that
// program's input. On a terminal a shell's text asks, too: the shell expands its
// history and reads keys by settings of its own, and what it was sent before may have
// begun a program that reads keys, such as a pager. A rule holds there for whole
// lines without keys.
func (p *Policy) JudgeStdin(to Reader, text string, env Env, facts Facts) Verdict {
	j := p.newJudge(env, facts)
	name := to.Program
	t, allowed := p.stdinPrograms[name]
	switch {
	case to.Script:
		j.guarded(func() { j.shellStdin(name, text) })
		if to.Terminal {
			j.raise(0, Risky, fmt.Sprintf("`%s` is on a terminal, where it expands its history and reads keys, and what it has begun may read them instead", name))
		}
	case name == "":
		j.raise(0, Risky, "the command is sent text, and what in it reads that is not known")
		j.guarded(func() { j.otherStdin("the command", text) })
	case allowed:
		j.raise(0, t, fmt.Sprintf("`%s` may be sent text, by a rule", name))
	default:
		j.raise(0, Risky, fmt.Sprintf("`%s` is sent text, and what it does with it is not known", clip(name, 60)))
		j.guarded(func() { j.otherStdin(name, text) })
	}
	if why := keys(text); to.Terminal && why != "" {
		j.raise(0, Risky, why)
	}
	return j.verdict(text)
}

// otherStdin looks for what would be critical in text for a program.
func (j *judge) otherStdin(name, text string) {
	s := j.newScope()
	s.loseCwd()
	c := &call{s: s, name: name}
	c.code(text)
	s.worst(text, c.by())
	c.sqlText(text)
}

func (p *Policy) newJudge(env Env, facts Facts) *judge {
	if env.Shell == "" {
		env.Shell = ShellBash
	}
	env.Cwd, env.Home, env.Workspace = cleanAbs(env.Cwd), cleanAbs(env.Home), cleanAbs(env.Workspace)
	return &judge{p: p, env: env, facts: facts}
}

// cleanAbs keeps only absolute paths: others would be read against this
// process's directory.
func cleanAbs(p string) string {
	if !strings.HasPrefix(p, "/") {
		return ""
	}
	return cleanPath(p)
}

func (j *judge) newScope() *scope {
	s := &scope{j: j, lang: j.env.Shell, stdin: flow{none: true}}
	if j.env.Cwd != "" {
		s.cwds = []string{j.env.Cwd}
	} else {
		s.cwdUnknown = true
	}
	return s
}

// command judges a whole command line.
func (j *judge) command(text string) {
	if !j.readable(text) {
		return
	}
	if strings.TrimSpace(text) == "" {
		return
	}
	f, err := j.p.parse(text, j.env.Shell)
	if err != nil {
		j.raise(0, Risky, fmt.Sprintf("the command does not parse as %s: %s", j.env.Shell, parseError(err)))
		s := j.newScope()
		if j.env.Shell == ShellSh {
			s.worst(text, "the command")
		}
		return
	}
	s := j.newScope()
	s.src = text
	s.stmts(f.Stmts, flow{none: true})
	s.uncalled()
}

// readable raises for text that cannot be judged or shown as it is, and reports
// whether judging makes sense.
func (j *judge) readable(text string) bool {
	switch {
	case len(text) > maxCommand:
		j.raise(0, Risky, fmt.Sprintf("the command is longer than %d bytes", maxCommand))
		return false
	case strings.IndexByte(text, 0) >= 0:
		j.raise(0, Risky, "the command holds a NUL byte, which shells drop or stop at")
		return false
	case !utf8.ValidString(text):
		j.raise(0, Risky, "the command is not valid UTF-8")
	}
	if unseen(text) {
		j.raise(0, Risky, "the command holds characters that do not show or look like others")
	}
	if _, found := EndComments(text); found {
		j.raise(0, Risky, joined)
	}
	if padded(text) {
		j.raise(0, Risky, "the command holds a long run of blanks, which can push the rest out of sight")
	}
	return true
}

// verdict closes the judgement.
func (j *judge) verdict(text string) Verdict {
	show, whole := display(text)
	if !whole && j.tier < Risky {
		j.raise(0, Risky, "the command is too long to be shown whole")
	}
	v := Verdict{
		Tier: j.tier, Reasons: j.reasons, Operands: sorted(j.operands), Scripts: sorted(j.scripts), Paths: sorted(j.paths),
		EnvChanges: j.changes, Open: j.open, Display: show, Displayable: whole, PackageInstall: j.install,
	}
	for i := range v.Reasons {
		v.Reasons[i].Text = plainLine(v.Reasons[i].Text)
	}
	sort.SliceStable(v.Reasons, func(a, b int) bool { return v.Reasons[a].Segment < v.Reasons[b].Segment })
	return v
}

func sorted(list []string) []string {
	sort.Strings(list)
	return list
}

// plainLine is a reason fit for a card: one line, nothing in it that does not
// show.
func plainLine(text string) string {
	if !needsEscape(text) && !strings.ContainsAny(text, "\n\t") {
		return text
	}
	show, _ := display(strings.ToValidUTF8(text, "\ufffd"))
	return strings.NewReplacer("\n", "␊", "\t", " ").Replace(show)
}
