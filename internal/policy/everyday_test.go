package policy_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/policy"
)

// everyday are everyday commands, of the sets named or of all.
func everyday(t testing.TB, names ...string) []string {
	t.Helper()
	if len(names) == 0 {
		names = []string{"everyday.txt", "everyday_other.txt"}
	}
	var out []string
	for _, name := range names {
		out = append(out, lines(t, name)...)
	}
	return out
}

func lines(t testing.TB, name string) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	var out []string
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		if !strings.HasPrefix(line, "#") {
			out = append(out, strings.ReplaceAll(line, "␊", "\n"))
		}
	}
	return out
}

// TestOnCallCommands holds both sides for what people type at an incident: what only
// looks runs, a look at what is elsewhere takes one person and never two, and what
// destroys there takes two.
func TestOnCallCommands(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	list := lines(t, "oncall.tsv")
	require.GreaterOrEqual(t, len(list), 400)
	for _, line := range list {
		want, command, ok := strings.Cut(line, "\t")
		require.True(t, ok, line)
		if v := p.Judge(command, sandbox(), policy.Facts{}); v.Tier.String() != want {
			t.Errorf("%q is %s, want %s: %s", command, v.Tier, want, v.Summary())
		}
	}
}

// TestEverydayCommandsRun holds the other side of the gate: at most 5 % of
// everyday commands may ask in an isolated sandbox.
func TestEverydayCommandsRun(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	for _, name := range []string{"everyday.txt", "everyday_other.txt"} {
		list := everyday(t, name)
		require.GreaterOrEqual(t, len(list), 300)
		asked := 0
		for _, c := range list {
			if v := p.Judge(c, sandbox(), policy.Facts{}); v.Tier > policy.Write {
				asked++
				t.Logf("asks: %q: %s", c, v.Summary())
			}
		}
		t.Logf("%s: %d of %d ask", name, asked, len(list))
		require.LessOrEqual(t, asked*100, len(list)*4, "%s: the bar is 5 %%; ours is tighter so that a slip shows", name)
	}
}
