package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Shape returns the exact parsed form of a command that a standing permission may
// allow, or "" where none may: it must be one plain command of literal words,
// without redirections, assignments or expansions; and never a shell, an
// interpreter or a wrapper, nor a command that runs a file of the workspace or is given
// an option that the policy does not know.
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
	if !ok || strings.ContainsRune(words[0], '/') || v.Open || p.neverGranted(words[0]) && !plainLook(words) {
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

// grantedNever marks the table lines of programs that run or read as code what lies in
// files, beside the build and test tools and those that no rule may leave open: what
// they do is not told by their words.
var grantedNever = append([]string{"make", "npm", "go", "cargo", "git", "awk", "envlist", "packages", "risky-run", "cc", "compiler", "patch", "pager", "pytest"}, toolAttrs...)

// runsProject are tools for what is elsewhere that run the workspace's own code, or
// what its files say, before they get there.
var runsProject = []string{
	"podman", "kubectl", "ansible", "ansible-playbook", "ansible-galaxy", "terraform", "tofu", "terragrunt", "pulumi",
	"cdk", "cdktf", "sam", "serverless", "sls", "helmfile", "packer", "vagrant",
	"fastlane", "wrangler", "vercel", "netlify", "firebase", "man",
}

// neverGranted reports whether a program runs what its arguments, a file or a remote
// side says.
func (p *Policy) neverGranted(name string) bool {
	sp := p.spec(name)
	if sp == nil || in(runsProject, name) || in([]string{"coproc", "time", "alias"}, name) || runsOthers(name) {
		return true
	}
	for _, a := range grantedNever {
		if sp.attr(a) {
			return true
		}
	}
	return false
}
