package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Shape returns the exact parsed form of a command that a standing permission may
// allow, or "" where none may: it must be one plain command of literal words,
// without redirections, assignments or expansions; and never a shell, an
// interpreter or a wrapper, nor a command that runs a file of the workspace.
// Requoting and spacing do not change a shape; another word, working directory
// or shell does.
func (p *Policy) Shape(command string, env Env, v Verdict) string {
	if v.Tier != Risky || !v.Displayable || len(v.Operands) > 0 || len(v.EnvChanges) > 0 {
		return ""
	}
	f, err := p.parse(command, env.Shell)
	if err != nil || len(f.Stmts) != 1 {
		return ""
	}
	words, ok := plainWords(f.Stmts[0])
	if !ok || strings.ContainsRune(words[0], '/') || neverGranted(words[0]) || p.spec(words[0]) == nil {
		return ""
	}
	var b strings.Builder
	for _, w := range append([]string{string(env.Shell), env.Cwd}, words...) {
		q, err := syntax.Quote(w, syntax.LangBash)
		if err != nil {
			return ""
		}
		b.WriteString(q + " ")
	}
	return strings.TrimSuffix(b.String(), " ")
}

// plainWords are the words of a statement that is one command and nothing else.
func plainWords(st *syntax.Stmt) ([]string, bool) {
	call, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || st.Negated || st.Background || st.Coprocess || len(st.Redirs) > 0 || len(call.Assigns) > 0 || len(call.Args) == 0 {
		return nil, false
	}
	var words []string
	for _, w := range call.Args {
		text, ok := unexpanded(w.Parts, true)
		if !ok {
			return nil, false
		}
		words = append(words, text)
	}
	return words, true
}

// unexpanded is the text of parts that no shell expands.
func unexpanded(parts []syntax.WordPart, bare bool) (string, bool) {
	var b strings.Builder
	for _, part := range parts {
		switch x := part.(type) {
		case *syntax.Lit:
			if strings.ContainsRune(x.Value, '\\') || (bare && strings.ContainsAny(x.Value, "*?[]{}~!")) {
				return "", false
			}
			b.WriteString(x.Value)
		case *syntax.SglQuoted:
			if x.Dollar {
				return "", false
			}
			b.WriteString(x.Value)
		case *syntax.DblQuoted:
			text, ok := unexpanded(x.Parts, false)
			if !ok || x.Dollar {
				return "", false
			}
			b.WriteString(text)
		default:
			return "", false
		}
	}
	return b.String(), true
}

// neverGranted are programs that run what their arguments, a file or a remote
// side says, beside those that no rule may leave open.
func neverGranted(name string) bool {
	switch name {
	case "make", "npm", "go", "cargo", "git", "podman", "kubectl", "awk", "gawk", "mawk", "coproc", "time", "alias":
		return true
	}
	return runsOthers(name)
}
