package policy_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/policy"
)

// sandbox is the environment that the tables assume.
func sandbox() policy.Env {
	return policy.Env{Backend: "docker", Isolated: true, Shell: policy.ShellBash, Cwd: "/workspace", Home: "/home/agent", Workspace: "/workspace"}
}

func bareHost() policy.Env {
	env := sandbox()
	env.Backend, env.Isolated = "local", false
	return env
}

type row struct {
	line                   int
	command, expected, why string
}

// rows reads a table: command, expected class, source; ␊ stands for a newline.
func rows(t testing.TB, name string) []row {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	var out []row
	for i, line := range strings.Split(strings.TrimRight(string(data), "\n"), "\n") {
		cols := strings.Split(line, "\t")
		if i == 0 && cols[0] == "command" || strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		require.Lenf(t, cols, 3, "%s:%d", name, i+1)
		out = append(out, row{i + 1, strings.ReplaceAll(cols[0], "␊", "\n"), cols[1], cols[2]})
	}
	return out
}

// allowed says whether a tier is what a row expects, as its tags relax it.
func allowed(r row, tier policy.Tier) bool {
	ok := false
	switch r.expected {
	case "safe-readonly":
		ok = tier == policy.Safe
	case "write-in-workspace":
		ok = tier == policy.Write
	case "risky-needs-approval":
		ok = tier >= policy.Risky
	case "forbidden":
		ok = tier >= policy.Critical
	}
	if strings.Contains(r.why, "[strict: risky exactly]") {
		return tier == policy.Risky
	}
	for t, name := range map[policy.Tier]string{policy.Safe: "safe", policy.Write: "write", policy.Risky: "risky"} {
		if strings.Contains(r.why, "policy: "+name+" accepted") && tier == t {
			ok = true
		}
	}
	return ok
}

func TestRiskTables(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	for _, name := range []string{"risk_cases.tsv", "more_cases.tsv"} {
		list := rows(t, name)
		require.NotEmpty(t, list)
		for _, r := range list {
			v := p.Judge(r.command, sandbox(), policy.Facts{})
			if !allowed(r, v.Tier) {
				t.Errorf("%s:%d: %q is %s, want %s\n  %s\n  (%s)", name, r.line, r.command, v.Tier, r.expected, v.Summary(), r.why)
			}
		}
	}
}
