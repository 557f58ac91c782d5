package agent_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/agent"
	"github.com/countersign/countersign/internal/agent/agenttest"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

const fixtures = `{"fixtures":[
 {"match":{"userMessage":"list the files","hasToolResult":false},"response":{"toolCalls":[{"id":"call_list","name":"shell","arguments":{"command":"ls","cwd":null,"timeout_seconds":null}}]}},
 {"match":{"userMessage":"list the files","hasToolResult":true},"response":{"content":"There is one file."}},
 {"match":{"userMessage":"hello"},"response":{"content":"Hello to you."}}
]}`

// A server of the API by other people: a turn with a tool call, and each of its
// faults, which is an error that the next attempt may not meet.
func TestAIMock(t *testing.T) {
	t.Parallel()
	at := agenttest.AIMock(t, fixtures)
	o := agent.Options{BaseURL: at + "/v1", APIKey: telemetry.NewSecret("any"), Model: "gpt-test"}
	for _, stored := range []bool{false, true} {
		o.Stored = stored
		b := newBench(t, o)
		first := b.must(ask("list the files"))
		require.Len(t, first.Calls, 1)
		require.Equal(t, "ls", first.Calls[0].Shown)
		second := b.must(workflows.ModelInput{Transcript: first.Transcript, Append: []workflows.Item{result("call_list", exited(0, "README.md"))}})
		require.Equal(t, "There is one file.", second.Answer.Text)
	}
	o.Stored = false
	b := newBench(t, o)
	chaos := func(rates string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+"/__aimock/chaos", strings.NewReader(rates))
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode)
	}
	for rates, kind := range map[string]string{
		`{"dropRate":1}`: agent.ErrTypeUnavailable, `{"malformedRate":1}`: agent.ErrTypeUnavailable,
		`{"disconnectRate":1}`: agent.ErrTypeUnavailable, `{"rateLimitRate":1}`: workflows.ErrTypeRateLimited,
	} {
		chaos(rates)
		_, err := b.call(ask("hello"))
		app := applicationError(t, err)
		require.Equal(t, kind, app.Type(), "%s: %v", rates, err)
		require.False(t, app.NonRetryable())
		if kind == workflows.ErrTypeRateLimited {
			require.Positive(t, app.NextRetryDelay())
		}
		chaos(`{"dropRate":0,"malformedRate":0,"disconnectRate":0,"rateLimitRate":0}`)
	}
	chaos(`{"dropRate":0.3,"malformedRate":0.2,"disconnectRate":0.2}`)
	for range 5 {
		require.Eventually(t, func() bool {
			got, err := b.call(ask("hello"))
			return err == nil && got.Answer.Text == "Hello to you."
		}, time.Minute, time.Millisecond)
	}
}
