package policy_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"github.com/countersign/countersign/internal/policy"
)

// FuzzJudge: no panic, nothing unparsable below risky, and the same verdict
// every time.
func FuzzJudge(f *testing.F) {
	for _, c := range allCommands(f) {
		f.Add(c, false)
	}
	f.Add("\x00", true)
	f.Add("ls \u202e", false)
	f.Add("$($($($(", true)
	p := policy.Default()
	f.Fuzz(func(t *testing.T, command string, posix bool) {
		env := sandbox()
		lang := syntax.LangBash
		if posix {
			env.Shell, lang = policy.ShellSh, syntax.LangPOSIX
		}
		began := time.Now()
		v := p.Judge(command, env, policy.Facts{})
		if took := time.Since(began); took > 5*time.Second {
			t.Fatalf("judging %q took %s", command, took)
		}
		if again := p.Judge(command, env, policy.Facts{}); again.Tier != v.Tier || again.Summary() != v.Summary() {
			t.Fatalf("%q: %s %q, then %s %q", command, v.Tier, v.Summary(), again.Tier, again.Summary())
		}
		_, err := syntax.NewParser(syntax.Variant(lang)).Parse(strings.NewReader(command), "")
		if err != nil && v.Tier < policy.Risky {
			t.Fatalf("%q does not parse (%v) and is %s", command, err, v.Tier)
		}
		if (!utf8.ValidString(command) || strings.ContainsAny(command, "\x00\r\x1b\u200b\u202e")) && v.Tier < policy.Risky {
			t.Fatalf("%q holds what does not show, and is %s", command, v.Tier)
		}
		if !v.Displayable && v.Tier < policy.Risky {
			t.Fatalf("%q cannot be shown, and is %s", command, v.Tier)
		}
		if !utf8.ValidString(v.Display) || strings.ContainsAny(v.Display, "\x00\r\x1b\u200b\u202e") {
			t.Fatalf("%q is shown as %q", command, v.Display)
		}
		p.Unguarded(command, env)
		p.Needs(command, env, policy.Facts{})
		p.JudgeStdin(policy.Reader{Program: "bash", Script: true}, command, env, policy.Facts{})
		p.JudgeStdin(policy.Reader{Program: "python3"}, command, env, policy.Facts{})
		p.JudgeWrite(command, nil, env, policy.Facts{})
	})
}

// FuzzLoad: any file is refused or makes a policy that judges, and lowers
// nothing that is forbidden.
func FuzzLoad(f *testing.F) {
	f.Add(string(policy.BuiltinFile()))
	f.Add("version: 1\ntargets: [a]\nscratch: [/tmp]\nstdin: [{program: psql, tier: write}]\nprotected: [x]\ntarget_stops: b")
	f.Add("rules:\n  - {id: a, argv: [rm, -rf, \"{paths}\"], tier: write, isolated: true, reason: x}\n  - {id: b, command: [git], subcommand: push, flags: [-f], path: [\"**\"], host: [x], backend: local, tier: critical}")
	f.Add("rules:\n  - {id: a, argv: [], tier: safe}\n  - &x {id: *y}")
	f.Add("a: [\n\t{")
	f.Fuzz(func(t *testing.T, text string) {
		p, _, err := policy.Load([]byte(text), "policy.yaml")
		if err != nil {
			return
		}
		for command, least := range map[string]policy.Tier{"rm -rf /": policy.Forbidden, "reboot": policy.Forbidden, "ls": policy.Safe, "git push -f x": policy.Safe} {
			v := p.Judge(command, sandbox(), policy.Facts{})
			if v.Tier < least || strings.Contains(v.Summary(), "could not be judged") {
				t.Fatalf("%q is %s under %q: %s", command, v.Tier, text, v.Summary())
			}
		}
	})
}

func BenchmarkJudge(b *testing.B) {
	p := policy.Default()
	for name, c := range map[string]string{
		"simple":   "ls -la src",
		"typical":  `cd internal/router && go test -race -run 'TestReconnect' -count=20 ./... 2>&1 | tail -50`,
		"pipeline": `git log --oneline -20 | grep -v Merge | awk '{print $1}' | sort | uniq -c`,
		"loop":     `for f in *.go; do if grep -q TODO "$f"; then wc -l "$f"; fi; done`,
		"nested":   `bash -c 'timeout 60 rm -rf build && sh -c "echo done"'`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Judge(c, sandbox(), policy.Facts{})
			}
		})
	}
	b.Run("everyday", func(b *testing.B) {
		list := everyday(b)
		i := 0
		for b.Loop() {
			p.Judge(list[i%len(list)], sandbox(), policy.Facts{})
			i++
		}
	})
}
