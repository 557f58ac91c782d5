package policy_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/policy"
)

func everyday(t testing.TB) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/everyday.txt")
	require.NoError(t, err)
	var out []string
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		if !strings.HasPrefix(line, "#") {
			out = append(out, strings.ReplaceAll(line, "␊", "\n"))
		}
	}
	return out
}

// TestEverydayCommandsRun holds the other side of the gate: at most 5 % of
// everyday commands may ask in an isolated sandbox.
func TestEverydayCommandsRun(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	list := everyday(t)
	require.GreaterOrEqual(t, len(list), 300)
	asked := 0
	for _, c := range list {
		if v := p.Judge(c, sandbox(), policy.Facts{}); v.Tier > policy.Write {
			asked++
			t.Logf("asks: %q: %s", c, v.Summary())
		}
	}
	t.Logf("%d of %d ask", asked, len(list))
	require.LessOrEqual(t, asked*100, len(list)*4, "the bar is 5 %%; ours is tighter so that a slip shows")
}
