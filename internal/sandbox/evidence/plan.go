package evidence

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/countersign/countersign/internal/policy"
)

const globChars = "*?["

// word is one word of a command: text that no shell changes, or a pattern.
type word struct {
	text string
	glob bool
}

// Of plans for a command as it would run in cwd. It is empty for what it cannot
// read with certainty.
func Of(command string, bash bool, cwd, home string) Plan {
	lang := syntax.LangPOSIX
	if bash {
		lang = syntax.LangBash
	}
	command, joined := policy.EndComments(command)
	f, err := syntax.NewParser(syntax.Variant(lang)).Parse(strings.NewReader(command), "")
	if err != nil || joined || !path.IsAbs(cwd) {
		return Plan{}
	}
	p := planner{home: home}
	for _, st := range f.Stmts {
		cwd = p.statement(st, cwd)
	}
	if p.opaque {
		return Plan{}
	}
	return p.plan
}

// planner goes through a command's statements.
type planner struct {
	plan Plan
	home string
	// opaque: names may mean something else (functions, aliases, evaluation).
	opaque bool
}

// statement plans one statement and returns the directory that the next one
// runs in: empty where it is not known.
func (p *planner) statement(st *syntax.Stmt, cwd string) string {
	switch c := st.Cmd.(type) {
	case *syntax.CallExpr:
		return p.call(c, cwd)
	case *syntax.BinaryCmd:
		if c.Op == syntax.AndStmt || c.Op == syntax.OrStmt {
			return p.statement(c.Y, p.statement(c.X, cwd))
		}
		p.statement(c.X, cwd) // a pipeline's parts are subshells
		p.statement(c.Y, cwd)
		return cwd
	case *syntax.Subshell:
		p.statements(c.Stmts, cwd)
		return cwd
	case *syntax.Block:
		return p.statements(c.Stmts, cwd)
	case *syntax.FuncDecl:
		p.opaque = true
	case *syntax.IfClause:
		p.statements(c.Cond, cwd)
		p.statements(c.Then, "")
		return ""
	}
	return "" // loops and the rest: what they do depends on their run
}

func (p *planner) statements(list []*syntax.Stmt, cwd string) string {
	for _, st := range list {
		cwd = p.statement(st, cwd)
	}
	return cwd
}

// transparent run the words after them as they are, when no option follows.
var transparent = map[string]bool{"sudo": true, "doas": true, "command": true, "nohup": true, "nice": true, "exec": true, "time": true}

func (p *planner) call(c *syntax.CallExpr, cwd string) string {
	if len(c.Args) == 0 {
		return cwd // assignments alone
	}
	words, ok := p.words(c.Args)
	for ok && len(words) > 1 && transparent[words[0].text] && !strings.HasPrefix(words[1].text, "-") {
		words = words[1:]
	}
	if !ok || words[0].glob {
		if first, known := p.word(c.Args[0]); !known || changesDirectory(first.text) {
			return ""
		}
		return cwd
	}
	name, args := words[0].text, words[1:]
	switch {
	case name == "alias" || name == "eval" || name == "." || name == "source":
		p.opaque = true
	case changesDirectory(name):
		if name != "cd" || len(args) != 1 || args[0].glob || strings.HasPrefix(args[0].text, "-") {
			return ""
		}
		return absolute(args[0].text, cwd)
	case len(c.Assigns) > 0:
	case name == "rm":
		p.remove(args, cwd)
	case name == "git":
		p.git(args, cwd)
	default:
		p.patterns(args, cwd)
	}
	return cwd
}

func changesDirectory(name string) bool {
	switch name {
	case "cd", "pushd", "popd", "chdir":
		return true
	}
	return false
}

// absolute is a path from a known directory; empty where that is not known.
func absolute(p, cwd string) string {
	if path.IsAbs(p) {
		return path.Clean(p)
	}
	if cwd == "" {
		return ""
	}
	return path.Join(cwd, p)
}

// patterns notes what globs a command has among its words.
func (p *planner) patterns(args []word, cwd string) {
	for _, w := range args {
		if w.glob && !strings.HasPrefix(w.text, "-") {
			p.pattern(w.text, cwd)
		}
	}
}

// pattern notes a glob and returns its absolute form; empty where that is not
// known. A directory whose own name would be read as a pattern is none.
func (p *planner) pattern(text, cwd string) string {
	if strings.ContainsAny(cwd, globChars+`\`) && !path.IsAbs(text) {
		return ""
	}
	abs := absolute(text, cwd)
	if abs == "" || len(p.plan.globs) == maxPatterns {
		return ""
	}
	p.plan.globs = append(p.plan.globs, glob{text, abs})
	return abs
}

// words reads words that no shell changes but for globs.
func (p *planner) words(args []*syntax.Word) ([]word, bool) {
	var out []word
	for _, a := range args {
		w, ok := p.word(a)
		if !ok {
			return nil, false
		}
		out = append(out, w)
	}
	return out, true
}

func (p *planner) word(a *syntax.Word) (word, bool) {
	var b strings.Builder
	w := word{}
	for i, part := range a.Parts {
		switch x := part.(type) {
		case *syntax.Lit:
			text := x.Value
			if i == 0 && strings.HasPrefix(text, "~") {
				if text != "~" && !strings.HasPrefix(text, "~/") || p.home == "" || text == "~" && len(a.Parts) > 1 {
					return w, false
				}
				text = p.home + text[1:]
			}
			if strings.ContainsAny(text, `\{}!`) {
				return w, false
			}
			w.glob = w.glob || strings.ContainsAny(text, globChars)
			b.WriteString(text)
		case *syntax.SglQuoted:
			if x.Dollar || strings.ContainsAny(x.Value, globChars) {
				return w, false // a glob character that is none
			}
			b.WriteString(x.Value)
		case *syntax.DblQuoted:
			for _, q := range x.Parts {
				lit, ok := q.(*syntax.Lit)
				if !ok || strings.ContainsAny(lit.Value, globChars+`\`) {
					return w, false
				}
				b.WriteString(lit.Value)
			}
		default:
			return w, false
		}
	}
	w.text = b.String()
	return w, !strings.ContainsRune(w.text, 0)
}
