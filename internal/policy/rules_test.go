package policy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/policy"
)

func load(t *testing.T, yaml string) *policy.Policy {
	t.Helper()
	p, warnings, err := policy.Load([]byte(yaml), "policy.yaml")
	require.NoError(t, err)
	require.Empty(t, warnings)
	return p
}

func TestRulesRaise(t *testing.T) {
	t.Parallel()
	p := load(t, `
rules:
  - {id: prod, command: [kubectl], flags: [--context], tier: forbidden, reason: production is off limits}
  - {id: force, command: git, subcommand: push, flags: [-f], tier: forbidden}
  - {id: db, path: ["/workspace/db/**", "/workspace/db*"], tier: critical, reason: the database's files}
  - {id: corp, host: ["*.corp.example"], tier: critical}
  - {id: local-net, command: curl, backend: local, tier: critical}
  - {id: tests, command: [pytest], isolated: true, tier: risky}
`)
	for _, tc := range []struct {
		command string
		want    policy.Tier
	}{
		{"kubectl --context prod get pods", policy.Forbidden}, {"kubectl --context=prod get pods", policy.Forbidden}, {"kubectl get pods", policy.Risky},
		{"timeout 5 kubectl --context prod get pods", policy.Forbidden}, {"sh -c 'kubectl --context prod get pods'", policy.Forbidden},
		{"git push -f", policy.Forbidden}, {"git push -uf origin main", policy.Forbidden}, {"git -C . push -f", policy.Forbidden}, {"git push", policy.Risky}, {"git log -f", policy.Risky},
		{"cat db/x.sql", policy.Critical}, {"echo x > db/y", policy.Critical}, {"cat src/x", policy.Safe}, {"rm db/x", policy.Critical}, {"cd db && cat x", policy.Critical},
		{"curl https://api.corp.example/x", policy.Critical}, {"curl https://example.com", policy.Risky}, {"ssh a.corp.example", policy.Critical}, {"pytest", policy.Risky}, {"python3 -m pytest", policy.Write},
	} {
		v := p.Judge(tc.command, sandbox(), policy.Facts{})
		require.Equal(t, tc.want, v.Tier, "%q: %s", tc.command, v.Summary())
	}
	require.Contains(t, p.Judge("kubectl --context prod get pods", sandbox(), policy.Facts{}).Summary(), "production is off limits (rule prod)")
	require.Equal(t, policy.Critical, p.Judge("curl https://example.com", bareHost(), policy.Facts{}).Tier)
	require.Equal(t, policy.Critical, p.JudgeWrite("db/x", nil, sandbox(), policy.Facts{}).Tier)
}

func TestRulesLowerOnlyExactShapes(t *testing.T) {
	t.Parallel()
	p := load(t, `
rules:
  - {id: gen, argv: [python3, scripts/gen.py, --all], tier: write, reason: generates code}
  - {id: rmtmp, argv: [rm, -rf, "{path}"], tier: write}
  - {id: dockerps, argv: [docker, ps], tier: safe}
  - {id: never, command: docker, flags: [-H], tier: critical}
stdin:
  - {program: psql, tier: write}
`)
	for _, tc := range []struct {
		command string
		want    policy.Tier
	}{
		{"python3 scripts/gen.py --all", policy.Write}, {"timeout 60 python3 scripts/gen.py --all", policy.Write}, {"cd . && python3 scripts/gen.py --all", policy.Write},
		{"python3 scripts/gen.py", policy.Risky}, {"python3 scripts/gen.py --all --x", policy.Risky}, {"python3 scripts/gen.py --all > /etc/x", policy.Critical}, {"python3 scripts/gen.py --all; id -x", policy.Risky},
		{"python3 scripts/gen.py $(rm -rf src)", policy.Risky}, {"python3 -c x", policy.Risky}, {"PYTHONPATH=/x python3 scripts/gen.py --all", policy.Risky}, {"sudo python3 scripts/gen.py --all", policy.Risky},
		{"rm -rf build", policy.Write}, {"rm -rf .git", policy.Risky}, {"rm -rf /tmp/x", policy.Risky}, {"rm -rf build dist", policy.Risky}, {"rm -rf /", policy.Forbidden}, {"rm -rf $X", policy.Risky}, {"rm -rf *", policy.Risky}, {"rm -rf .", policy.Risky}, {"rm -rf /workspace", policy.Risky},
		{"docker ps", policy.Safe}, {"docker -H tcp://x ps", policy.Critical}, {"docker ps -a", policy.Risky}, {"ssh host docker ps", policy.Risky}, {"./docker ps", policy.Risky},
	} {
		v := p.Judge(tc.command, sandbox(), policy.Facts{})
		require.Equal(t, tc.want, v.Tier, "%q: %s", tc.command, v.Summary())
	}
	require.Equal(t, policy.Write, p.JudgeStdin(p.Reader("psql -h db", policy.ShellBash), "select 1;\n", sandbox(), policy.Facts{}).Tier)
	require.Equal(t, []string{"/workspace/scripts/gen.py"}, p.Judge("python3 scripts/gen.py --all", sandbox(), policy.Facts{}).Operands, "a lowered command still binds what it runs")
}

func TestListsInAPolicyFile(t *testing.T) {
	t.Parallel()
	p := load(t, `
targets: [compile]
target_stops: [prod]
protected: [deploy/**, "*.tf"]
scratch: [/tmp]
`)
	for command, want := range map[string]policy.Tier{
		"make compile": policy.Write, "make compile-prod": policy.Risky, "make test": policy.Risky, "echo x > deploy/a/b": policy.Risky, "echo x > main.tf": policy.Risky, "echo x > main.go": policy.Write,
		"echo x > /tmp/y": policy.Write, "echo x > /tmpfoo": policy.Risky, "rm -rf /tmp/y": policy.Risky, "rm /tmp/y": policy.Write, "echo x > /var/tmp/y": policy.Risky,
	} {
		v := p.Judge(command, sandbox(), policy.Facts{})
		require.Equal(t, want, v.Tier, "%q: %s", command, v.Summary())
	}
}

func TestBadPoliciesAreRefusedWithTheirLine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ yaml, want string }{
		"unknown key":         {"version: 1\nrulez: []", `policy.yaml:2: unknown key "rulez"`},
		"unknown rule key":    {"rules:\n  - id: a\n    comand: git\n    tier: risky", `policy.yaml:3: unknown key "comand" in a rule`},
		"unknown tier":        {"rules:\n  - id: a\n    command: git\n    tier: dangerous", `policy.yaml:4: unknown tier "dangerous"`},
		"no tier":             {"rules:\n  - id: a\n    command: git", `policy.yaml:2: rule "a" has no tier`},
		"no id":               {"rules:\n  - command: git\n    tier: risky", "policy.yaml:2: a rule needs an id"},
		"lowers a command":    {"rules:\n  - id: a\n    command: docker\n    tier: safe", "policy.yaml:2: rule \"a\" would lower commands to safe without naming their exact shape"},
		"open interpreter":    {"rules:\n  - id: a\n    argv: [python3, \"{path}\"]\n    tier: safe", "runs what it is given"},
		"open wrapper":        {"rules:\n  - id: a\n    argv: [sudo, \"{word}\"]\n    tier: safe", "runs what it is given"},
		"open program":        {"rules:\n  - id: a\n    argv: [\"{word}\"]\n    tier: safe", "does not name the program"},
		"paths not last":      {"rules:\n  - id: a\n    argv: [rm, \"{paths}\", x]\n    tier: safe", "{paths} must stand last"},
		"unknown placeholder": {"rules:\n  - id: a\n    argv: [rm, \"{any}\"]\n    tier: safe", `unknown placeholder "{any}"`},
		"twice":               {"rules:\n  - {id: a, command: git, tier: risky}\n  - {id: a, command: go, tier: risky}", `policy.yaml:3: rule "a" is defined twice, first at line 2`},
		"builtin id":          {"rules:\n  - {id: git-add, command: git, tier: risky}", `rule "git-add" is defined twice`},
		"not a mapping":       {"- a", "the file is not a mapping"},
		"rules no list":       {"rules: 3", "rules is not a list"},
		"isolated no bool":    {"rules:\n  - {id: a, command: git, isolated: maybe, tier: risky}", "isolated is true or false"},
		"version":             {"version: 2", `version "2" is not known`},
		"flag":                {"rules:\n  - {id: a, command: git, flags: [force], tier: risky}", `flag "force" does not start with a dash`},
		"command path":        {"rules:\n  - {id: a, command: /bin/git, tier: risky}", "is not a name without a directory"},
		"scratch":             {"scratch: [tmp]", "is not an absolute directory"},
		"stdin shell":         {"stdin: [{program: bash, tier: safe}]", "a shell's text is always judged"},
		"subcommand alone":    {"rules:\n  - {id: a, subcommand: push, tier: risky}", "gives a subcommand without a command"},
		"argv and command":    {"rules:\n  - {id: a, command: git, argv: [git], tier: risky}", "gives argv, which holds command"},
		"argv empty":          {"rules:\n  - {id: a, argv: [], tier: safe}", `rule "a": argv is empty`},
		"part of a word":      {"rules:\n  - {id: a, argv: [make, \"O={path}\"], tier: write}", `{path} must be a word of its own, not a part of "O={path}"`},
		"command pattern":     {"rules:\n  - {id: a, command: \"git*\", tier: critical}", "is not a name: it is compared as it stands"},
		"stdin no mapping":    {"stdin: [psql]", "an entry of stdin is not a mapping"},
		"rule no mapping":     {"rules: [deny]", "policy.yaml:1: a rule is not a mapping"},
		"syntax":              {"rules: [", "policy.yaml:1: "},
		"duplicate key":       {"rules:\n  - id: a\n    id: b\n    command: git\n    tier: risky", "3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := policy.Load([]byte(tc.yaml), "policy.yaml")
			require.ErrorContains(t, err, tc.want)
		})
	}
	_, _, err := policy.Load([]byte("a: 1\nb: 2\nc: 3"), "policy.yaml")
	require.Len(t, strings.Split(err.Error(), "\n"), 3, "all faults are reported at once")
	_, _, err = policy.Load([]byte("rules:\n  - {id: a, command: git, tier: high}\n  - x\nstdin: [psql]"), "policy.yaml")
	require.Len(t, strings.Split(err.Error(), "\n"), 3, "no fault brings others that only follow from it")
}

func TestQuestionableRulesAreReported(t *testing.T) {
	t.Parallel()
	_, warnings, err := policy.Load([]byte(`rules:
  - {id: all, backend: local, tier: risky}
  - {id: nowhere, command: git, backend: moon, tier: critical}
  - {id: git, command: git, tier: critical}
  - {id: push, command: git, subcommand: push, tier: critical}
  - {id: status, argv: [git, status, -s], tier: safe}
  - {id: odd, command: frobnicate, tier: risky}
  - {id: everywhere, path: ["**"], tier: risky}
  - {id: infra, path: ["infra/**"], tier: critical}
  - {id: ls, argv: [ls, -la], tier: safe}
  - {id: reboot, argv: [reboot], tier: risky}
  - {id: script, argv: [./deploy.sh], tier: write}
  - {id: cluster, argv: [kubectl, "{word}", pods], tier: safe}
targets: [build, build-deploy]
`), "policy.yaml")
	require.NoError(t, err)
	var got []string
	for _, w := range warnings {
		require.NotZero(t, w.Line)
		got = append(got, w.Text)
	}
	for _, want := range []string{
		`rule "all" is over-broad: it raises every command to risky`,
		`rule "nowhere" is unreachable: no backend is called "moon"`,
		`rule "push" is shadowed: rule "git" raises all it matches to critical`,
		`rule "status" never lowers anything: rule "git" raises what it matches to critical`,
		`rule "odd" changes nothing: "frobnicate" is not a command that the policy knows, so it is risky already`,
		`rule "everywhere" is over-broad: it raises every command to risky`,
		`rule "infra" is unreachable: the path "infra/**" starts with neither / nor *, and paths are absolute`,
		`rule "ls" changes nothing: what it matches is safe already`,
		`rule "reboot" never lowers anything: what it matches is forbidden`,
		`rule "script" is unreachable: a program named by its path is never lowered`,
		`rule "cluster" is over-broad: it leaves open which command "kubectl" is given`,
		`target "build-deploy" never counts: one of target_stops is in it`,
	} {
		require.Contains(t, got, want)
	}
}

func TestVersionIsADigestOfContent(t *testing.T) {
	t.Parallel()
	a := load(t, "targets: [build]")
	require.Len(t, a.Version(), 64)
	require.Equal(t, a.Version(), load(t, "targets: [build]").Version())
	require.NotEqual(t, a.Version(), load(t, "targets: [test]").Version())
	require.NotEqual(t, a.Version(), policy.Default().Version())
	require.Same(t, policy.Default(), policy.Default())
}

func TestEmptyFileIsTheBuiltInPolicy(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# nothing\n", "version: 1\n"} {
		p := load(t, text)
		require.Equal(t, policy.Write, p.Judge("make test", sandbox(), policy.Facts{}).Tier)
	}
	_, _, err := policy.Load(policy.BuiltinFile(), "copy.yaml")
	require.ErrorContains(t, err, "defined twice", "the built-in rules are there already")
}
