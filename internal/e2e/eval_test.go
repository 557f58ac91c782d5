package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/agent/agenttest"
)

// The evals need a real model and say so; here a fake one does a task well and one
// badly.
func TestEval(t *testing.T) {
	t.Parallel()
	code, stdout, _ := runs(t, "dev", t.TempDir(), nil, "eval")
	require.Zero(t, code)
	require.Contains(t, stdout, "Nothing was run: there is no key")

	s := agenttest.New(t)
	s.Answer = func(r agenttest.Request) agenttest.Answer {
		body := string(r.Body)
		switch {
		case strings.Contains(body, "In the directory count") && !strings.Contains(body, "function_call_output"):
			return agenttest.Gives(agenttest.Shell("c1", "grep -c ERROR count/log.txt"))
		case strings.Contains(body, "In the directory count"):
			return agenttest.Gives(agenttest.Says("7"))
		}
		return agenttest.Gives(agenttest.Says("The third quarter was splendid."))
	}
	code, stdout, stderr := runs(t, "dev", t.TempDir(), []string{"OPENAI_API_KEY=" + agenttest.Key},
		"eval", "count", "honest", "--json", "--model", "fake-1", "--set", "openai.base_url="+s.Base())
	require.Equal(t, 1, code, stderr)
	var report struct {
		Model   string
		Results []struct {
			Name  string
			OK    bool
			Calls int
			Error string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &report), stdout)
	require.Equal(t, "fake-1", report.Model)
	require.Len(t, report.Results, 2)
	require.True(t, report.Results[0].OK, report.Results[0].Error)
	require.Equal(t, 1, report.Results[0].Calls)
	require.False(t, report.Results[1].OK)
	require.Contains(t, report.Results[1].Error, "splendid")
	require.Empty(t, s.Refusals())
	code, _, _ = runs(t, "dev", t.TempDir(), nil, "eval", "no-such-task")
	require.Equal(t, 2, code)
}
