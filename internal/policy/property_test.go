package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
	"pgregory.net/rapid"

	"github.com/countersign/countersign/internal/policy"
)

// argvWrappers run the simple command that follows them.
var argvWrappers = []string{
	"nice", "nice -n 5", "nice -10", "nohup", "setsid", "setsid -w", "timeout 60", "timeout -k 5 -s KILL 60", "timeout --signal=TERM 1m", "stdbuf -oL -e0",
	"time", "/usr/bin/time -p", "command", "command -p", "exec", "exec -a x", "env", "env -i", "env A=b", "env -u X -C .", "ionice -c3", "chrt -b 0", "taskset 1",
	"sudo", "sudo -n", "sudo -u root --", "doas", "busybox", "xargs", "xargs -0 -n1", "xargs -I{}", "xargs -r -P4", "find . -exec", "flock lock", "watch -x", "su root --",
	"caffeinate -i", "setarch x86_64", "strace", "unknownwrapper", "unknownwrapper --flag", "timeout --unknown 5", "nice --unknown", "poetry run", "parallel",
	"env -S", "chronic", "systemd-run", "setpriv", "ltrace", "docker exec c", "kubectl exec p --", "ssh host", "git bisect run", "xvfb-run", "entr",
}

// textWrappers run the script that follows them as one quoted word.
var textWrappers = []string{
	"sh -c", "bash -c", "bash -lc", "bash --norc -ec", "dash -c", "zsh -c", "eval", "watch", "watch -n 1", "flock lock -c", "script -qc", "su -c", "su root -c", "sudo sh -c",
	"sudo -s", "ssh host", "bash -x -c", "busybox sh -c", "env sh -c", "timeout 5 bash -c", "xargs sh -c", "find . -exec sh -c", "parallel", "hyperfine", "tmux new -d", "unknownwrapper -c",
	"docker run alpine sh -c", "env -S", "python3 -c", "perl -e", "nohup bash -c", "command eval", "builtin eval",
}

func quote(t testing.TB, s string) string {
	t.Helper()
	q, err := syntax.Quote(s, syntax.LangBash)
	require.NoError(t, err)
	return q
}

// simpleCommands are the tables' commands that are one simple command.
func simpleCommands(t testing.TB) []string {
	t.Helper()
	var out []string
	for _, c := range allCommands(t) {
		f, err := syntax.NewParser().Parse(strings.NewReader(c), "")
		if err != nil || len(f.Stmts) != 1 {
			continue
		}
		call, ok := f.Stmts[0].Cmd.(*syntax.CallExpr)
		if !ok || len(call.Assigns) > 0 || len(call.Args) == 0 || len(f.Stmts[0].Redirs) > 0 || f.Stmts[0].Background || f.Stmts[0].Negated || strings.Contains(c, "\n") {
			continue
		}
		out = append(out, c)
	}
	require.Greater(t, len(out), 200)
	return out
}

func allCommands(t testing.TB) []string {
	t.Helper()
	var out []string
	for _, name := range []string{"risk_cases.tsv", "more_cases.tsv"} {
		for _, r := range rows(t, name) {
			out = append(out, r.command)
		}
	}
	return append(out, everyday(t)...)
}

// shellOnly are commands that mean something else, or nothing, when a program
// other than a shell runs them.
func shellOnly(c string) bool {
	word := strings.Trim(strings.Fields(c)[0], `'"\`)
	switch word {
	case "cd", "pushd", "popd", "set", "unset", "export", "declare", "local", "readonly", "typeset", "alias", "unalias", "shopt", "enable", "hash", "read", "mapfile", "readarray", "let", "source", ".", "eval", "exec", "builtin", "trap", "command", "compgen", "complete", "history", "wait", "umask", "ulimit", "shift", "getopts", "[[", "type", "bind", "fc", "jobs", "bg", "fg", "disown", "break", "continue", "caller", "dirs", "logout", "suspend", "help", "return", "exit", "times", "time":
		return true
	}
	return false
}

// parallelSpecial: parallel reads braces in its command as places for input.
func wrapArgv(w, c string) string {
	if strings.HasSuffix(w, "-exec") {
		return w + " " + c + " ';'"
	}
	return w + " " + c
}

func TestNoWrapperLowersATier(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	for _, c := range simpleCommands(t) {
		want := p.Judge(c, sandbox(), policy.Facts{}).Tier
		for _, w := range argvWrappers {
			if shellOnly(c) {
				continue
			}
			wrapped := wrapArgv(w, c)
			if got := p.Judge(wrapped, sandbox(), policy.Facts{}).Tier; got < want {
				t.Errorf("%q is %s, but %q is %s", wrapped, got, c, want)
			}
		}
	}
	for _, c := range allCommands(t) {
		want := p.Judge(c, sandbox(), policy.Facts{}).Tier
		for _, w := range textWrappers {
			if w == "python3 -c" || w == "perl -e" {
				continue // not shell text; the tables hold cases of their own
			}
			wrapped := w + " " + quote(t, c)
			if got := p.Judge(wrapped, sandbox(), policy.Facts{}).Tier; got < want {
				t.Errorf("%q is %s, but %q is %s", wrapped, got, c, want)
			}
		}
	}
}

// TestPlainWrappersAddNothing: a wrapper that adds no power does not raise.
func TestPlainWrappersAddNothing(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	plain := []string{"nice", "nice -n 5", "nohup", "setsid", "timeout 60", "timeout -k 5 -s KILL 60", "stdbuf -oL", "time", "command", "env A=b", "ionice -c3", "busybox"}
	for _, c := range simpleCommands(t) {
		want := p.Judge(c, sandbox(), policy.Facts{}).Tier
		for _, w := range plain {
			if shellOnly(c) {
				continue
			}
			got := p.Judge(w+" "+c, sandbox(), policy.Facts{}).Tier
			if got != want {
				t.Errorf("%q is %s, but %q is %s", w+" "+c, got, c, want)
			}
		}
	}
	for _, c := range everyday(t) {
		want := p.Judge(c, sandbox(), policy.Facts{}).Tier
		for _, w := range []string{"bash -c", "bash -ec", "eval"} {
			if got := p.Judge(w+" "+quote(t, c), sandbox(), policy.Facts{}).Tier; got > want && got > policy.Write && want <= policy.Write && !strings.Contains(c, "$name") {
				t.Errorf("%s %q is %s, but it is %s", w, c, got, want)
			}
		}
	}
}

func TestNestedWrappers(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	simple, all := simpleCommands(t), allCommands(t)
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(simple).Draw(t, "simple")
		if rapid.Bool().Draw(t, "any") || shellOnly(c) {
			c = "bash -c " + mustQuote(rapid.SampledFrom(all).Draw(t, "any command"))
		}
		want := p.Judge(c, sandbox(), policy.Facts{}).Tier
		wrapped := c
		for range rapid.IntRange(1, 4).Draw(t, "depth") {
			if rapid.Bool().Draw(t, "text") {
				w := rapid.SampledFrom(textWrappers).Draw(t, "wrapper")
				if strings.HasPrefix(w, "python") || strings.HasPrefix(w, "perl") {
					w = "sh -c"
				}
				wrapped = w + " " + mustQuote(wrapped)
			} else {
				wrapped = wrapArgv(rapid.SampledFrom(argvWrappers).Draw(t, "wrapper"), wrapped)
			}
		}
		if got := p.Judge(wrapped, sandbox(), policy.Facts{}).Tier; got < want {
			t.Fatalf("%q is %s, but %q is %s", wrapped, got, c, want)
		}
	})
}

func mustQuote(s string) string {
	q, err := syntax.Quote(s, syntax.LangBash)
	if err != nil {
		panic(err)
	}
	return q
}

// TestRespelling: other quotes, escapes and blanks never change a tier.
func TestRespelling(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	for _, c := range allCommands(t) {
		want := p.Judge(c, sandbox(), policy.Facts{}).Tier
		for name, r := range respellings(c) {
			if got := p.Judge(r, sandbox(), policy.Facts{}).Tier; got != want {
				t.Errorf("%s: %q is %s, but %q is %s", name, r, got, c, want)
			}
		}
	}
}

// respellings rewrites the literal words of a command.
func respellings(c string) map[string]string {
	out := map[string]string{}
	for name, f := range map[string]func(string) string{
		"single": func(s string) string { return "'" + s + "'" },
		"double": func(s string) string { return `"` + s + `"` },
		"ansi":   func(s string) string { return "$'" + s + "'" },
		"split":  func(s string) string { return s[:1] + "''" + s[1:] },
		"escape": func(s string) string { return `\` + s },
	} {
		if r, ok := rewrite(c, f); ok {
			out[name] = r
		}
	}
	if !strings.Contains(c, "\n") && !strings.ContainsAny(c, "'\"\\`") {
		out["blanks"] = "  " + strings.ReplaceAll(c, " ", "   ") + "  "
		out["tabs"] = strings.ReplaceAll(c, " ", "\t")
		if !strings.HasPrefix(c, "let ") { // the parser reads # in let as arithmetic
			out["comment"] = c + " # and so on"
		}
		out["newline"] = "\n" + c + "\n"
	}
	return out
}

// rewrite applies f to each plain literal word of a command, by its position.
func rewrite(c string, f func(string) string) (string, bool) {
	file, err := syntax.NewParser().Parse(strings.NewReader(c), "")
	if err != nil {
		return "", false
	}
	type span struct{ from, to int }
	var spans []span
	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok {
			return true
		}
		for _, w := range call.Args {
			l := w.Lit()
			if l == "" || strings.ContainsAny(l, "\\{}*?[]~!'\"$`\n") || strings.Trim(l, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,@%+-") != "" {
				continue
			}
			from, to := int(w.Pos().Offset()), int(w.End().Offset())
			if c[from:to] == l {
				spans = append(spans, span{from, to})
			}
		}
		return true
	})
	if len(spans) == 0 {
		return "", false
	}
	var b strings.Builder
	last := 0
	for _, s := range spans {
		if s.from < last {
			continue
		}
		b.WriteString(c[last:s.from])
		b.WriteString(f(c[s.from:s.to]))
		last = s.to
	}
	b.WriteString(c[last:])
	return b.String(), true
}

// TestRenaming: another name for the same kind of operand never changes a tier.
func TestRenaming(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	templates := []string{
		"cat NAME", "ls NAME", "wc -l NAME", "grep -rn PATTERN NAME", "sed -n '1,5p' NAME", "awk '{print $1}' NAME", "sort -o NAME other", "rm NAME", "rm -rf NAME", "mv NAME other", "cp other NAME",
		"echo x > NAME", "echo x > NAME/y", "find NAME -name PATTERN", "find . -name NAME -delete", "tee NAME < other", "touch NAME", "mkdir -p NAME/x", "ln -s NAME link", "chmod +x NAME",
		"cat /etc/NAME", "echo x > /etc/NAME", "rm -rf /etc/NAME", "rm -rf /tmp/NAME", "bash NAME", "./NAME", "python3 NAME", "for f in NAME other; do wc -l $f; done", "f=NAME; cat \"$f\"",
		"git diff -- NAME", "git show HEAD:NAME", "go test ./NAME/...", "make deploy-NAME", "curl https://NAME.example/x", "curl https://NAME.example | sh", "tar czf NAME.tgz src", "dd if=NAME of=other",
		"echo x > ~/NAME", "echo x > .git/NAME", "cp NAME .github/workflows/x.yml", "test -f NAME", "xargs -a NAME rm -f", "sh -c 'rm -rf NAME'", "NAME=1; echo done", "timeout 5 cat NAME",
	}
	rapid.Check(t, func(t *rapid.T) {
		tpl := rapid.SampledFrom(templates).Draw(t, "template")
		name := rapid.StringMatching(`[a-z][a-z0-9]{2,9}`).Draw(t, "name")
		if p.Judge("command -v "+name, sandbox(), policy.Facts{}).Tier != policy.Safe {
			return
		}
		pattern := rapid.StringMatching(`[A-Za-z]{2,9}`).Draw(t, "pattern")
		fill := func(n, pt string) string {
			return strings.ReplaceAll(strings.ReplaceAll(tpl, "NAME", n), "PATTERN", pt)
		}
		want := p.Judge(fill("zzdata", "zzpat"), sandbox(), policy.Facts{}).Tier
		if got := p.Judge(fill(name, pattern), sandbox(), policy.Facts{}).Tier; got != want {
			t.Fatalf("%q is %s, but %q is %s", fill(name, pattern), got, fill("zzdata", "zzpat"), want)
		}
	})
}

// TestIndirection: words that come out of variables, arguments, arrays,
// substitutions or branches are judged as if they were spelled out.
func TestIndirection(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	judge := func(c string) policy.Tier { return p.Judge(c, sandbox(), policy.Facts{}).Tier }
	for _, c := range simpleCommands(t) {
		if shellOnly(c) || strings.ContainsAny(c, "=$`*?[{~<>\\#()") {
			continue
		}
		ws, err := shellFields(c)
		require.NoError(t, err)
		if len(ws) < 2 {
			continue
		}
		q := make([]string, len(ws))
		for i, w := range ws {
			q[i] = quote(t, w)
		}
		all, last, but := strings.Join(q, " "), q[len(q)-1], strings.Join(q[:len(q)-1], " ")
		var set, use []string
		for i := range q[1:] {
			set, use = append(set, fmt.Sprintf("v%d=%s", i, q[i+1])), append(use, fmt.Sprintf(`"$v%d"`, i))
		}
		want := judge(c)
		for _, same := range []string{
			strings.Join(set, "; ") + "; " + q[0] + " " + strings.Join(use, " "),
			`go7() { "$@"; }; go7 ` + all, "set -- " + all + `; "$@"`, "a7=(" + all + `); "${a7[@]}"`,
			"for w7 in zz " + last + "; do " + but + ` "$w7"; done`, "printf -v w7 %s " + last + "; " + but + ` "$w7"`,
		} {
			if got := judge(same); got < want {
				t.Errorf("%q is %s, but %q is %s", same, got, c, want)
			}
		}
		if want < policy.Risky {
			continue
		}
		for _, maybe := range []string{
			"ls && w7=" + last + "; " + but + ` "$w7"`, "if ls; then w7=" + last + "; fi; " + but + ` "$w7"`,
			"case $z in a) w7=" + last + ";; *) w7=zz;; esac; " + but + ` "$w7"`, "f7() { " + but + ` "$2"; }; f7 "$z" ` + last,
		} {
			if got := judge(maybe); got < policy.Risky {
				t.Errorf("%q is %s, but %q is %s", maybe, got, c, want)
			}
		}
	}
}

// shellFields are a simple command's words, unquoted.
func shellFields(c string) ([]string, error) {
	f, err := syntax.NewParser().Parse(strings.NewReader(c), "")
	if err != nil {
		return nil, fmt.Errorf("parsing %q: %w", c, err)
	}
	var out []string
	for _, w := range f.Stmts[0].Cmd.(*syntax.CallExpr).Args {
		s, err := expand.Literal(nil, w)
		if err != nil {
			return nil, fmt.Errorf("expanding %q: %w", c, err)
		}
		out = append(out, s)
	}
	return out, nil
}
