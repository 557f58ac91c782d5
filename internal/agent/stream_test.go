package agent_test

import (
	"context"
	"io"
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

// strictly is a bench whose model is served by s, which must not have refused
// anything when the test ends.
func strictly(t *testing.T, s *agenttest.Server, o agent.Options) *bench {
	t.Helper()
	o.BaseURL, o.APIKey, o.Model = s.Base(), telemetry.NewSecret(agenttest.Key), "gpt-test"
	t.Cleanup(func() { require.Empty(t, s.Refusals()) })
	return newBench(t, o)
}

func ask(text string) workflows.ModelInput {
	return workflows.ModelInput{Append: []workflows.Item{message(text)}}
}

// What was streamed is what is read at the end.
func TestStream(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("It goes on and on.\n", 30)
	s := agenttest.New(t, agenttest.Gives(agenttest.Thinks("Looking at the router."), agenttest.Says("first"), agenttest.Says(long)))
	got := strictly(t, s, agent.Options{}).must(ask("hi"))
	require.Equal(t, "first\n\n"+strings.TrimSpace(long), got.Answer.Text)
	require.Equal(t, 1, got.Usage.Calls)
	require.NotZero(t, got.Usage.Output)
	require.True(t, s.Requests()[0].Stream)
}

// A stream that breaks is an error, and may have been billed.
func TestBrokenStream(t *testing.T) {
	t.Parallel()
	says := []any{agenttest.Says("a whole answer that is never heard")}
	s := agenttest.New(t, agenttest.Answer{Output: says, CutAfter: 5}, agenttest.Answer{Output: says})
	b := strictly(t, s, agent.Options{})
	_, err := b.call(ask("hi"))
	app := applicationError(t, err)
	require.Equal(t, agent.ErrTypeUnavailable, app.Type())
	require.False(t, app.NonRetryable())
	require.Contains(t, app.Message(), "broke off in the middle of its answer")
	b.beats = workflows.ModelProgress{Unsure: 1, Text: "a whole"}
	got := b.must(ask("hi"))
	require.Equal(t, 2, got.Usage.Calls, "both may have been billed")
}

// How a streamed response ended is told apart.
func TestStreamEnds(t *testing.T) {
	t.Parallel()
	raw := func(body string) agenttest.Answer {
		return agenttest.Answer{Handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, body)
		}}
	}
	for name, c := range map[string]struct {
		answer     agenttest.Answer
		kind, says string
	}{
		"failed, fault":  {agenttest.Answer{Status: "failed", Reason: "server_error"}, agent.ErrTypeUnavailable, "fault"},
		"failed, rate":   {agenttest.Answer{Status: "failed", Reason: "rate_limit_exceeded"}, workflows.ErrTypeRateLimited, "rate limit"},
		"failed, policy": {agenttest.Answer{Status: "failed", Reason: "misalignment_policy_violation"}, workflows.ErrTypeBadRequest, "usage policy"},
		"error event":    {raw("event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"x\",\"sequence_number\":3}\n\n"), agent.ErrTypeUnavailable, "fault"},
		"error object":   {raw("data: {\"type\":\"error\",\"error\":{\"type\":\"tokens\",\"code\":\"insufficient_quota\"}}\n\n"), workflows.ErrTypeQuota, "quota"},
		"no end":         {raw("data: {\"type\":\"response.created\",\"response\":{}}\n\ndata: [DONE]\n\n"), agent.ErrTypeUnavailable, "broke off"},
		"nothing":        {raw(""), agent.ErrTypeUnavailable, "broke off"},
		"429":            {agenttest.Refuses(429, "rate_limit_exceeded"), workflows.ErrTypeRateLimited, "rate limit"},
		"503":            {agenttest.Refuses(503, ""), agent.ErrTypeUnavailable, "(503)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := strictly(t, agenttest.New(t, c.answer), agent.Options{}).call(ask("hi"))
			app := applicationError(t, err)
			require.Equal(t, c.kind, app.Type())
			require.Contains(t, app.Message(), c.says)
		})
	}
	for reason, says := range map[string]string{"max_output_tokens": "output limit", "content_filter": "content filter", "odd": "by the model's server"} {
		s := agenttest.New(t, agenttest.Answer{Status: "incomplete", Reason: reason, Output: []any{agenttest.Says("half an")}})
		got := strictly(t, s, agent.Options{}).must(ask("hi"))
		require.Contains(t, got.Incomplete, says)
		require.Equal(t, "half an", got.Answer.Text)
	}
}

// A server that does not stream, or leaves the output to the events, serves too.
func TestOtherServersStreams(t *testing.T) {
	t.Parallel()
	s := agenttest.New(t, agenttest.Answer{Output: []any{agenttest.Says("whole")}, Plain: true})
	require.Equal(t, "whole", strictly(t, s, agent.Options{}).must(ask("hi")).Answer.Text)

	s = agenttest.New(t, agenttest.Answer{Handler: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": a remark\n\ndata: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":"+says("by events")+
			"}\n\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"status\":\"completed\",\"output\":[]}}\n\n")
	}})
	require.Equal(t, "by events", strictly(t, s, agent.Options{}).must(ask("hi")).Answer.Text)
}

// What a model cannot is asked of it once only.
func TestModelWithoutSummariesOrStreams(t *testing.T) {
	t.Parallel()
	s := agenttest.New(t, agenttest.Gives(agenttest.Says("fine")))
	s.NoSummary = true
	o := agent.Options{BaseURL: s.Base(), APIKey: telemetry.NewSecret(agenttest.Key), Model: "gpt-test"}
	b := newBench(t, o)
	b.must(ask("hi"))
	b.must(ask("hi"))
	require.Len(t, s.Refusals(), 1)
	require.Len(t, s.Requests(), 3)

	s.Answer = func(r agenttest.Request) agenttest.Answer {
		if r.Stream {
			return agenttest.Answer{Refuse: &agenttest.Refusal{Status: 400, Code: "unsupported_value", Param: "stream"}}
		}
		return agenttest.Gives(agenttest.Says("not streamed"))
	}
	require.Equal(t, "not streamed", b.must(ask("hi")).Answer.Text)
	b.must(ask("hi"))
	require.Len(t, s.Requests(), 6)
}

// A stop ends a stream at once, and the server learns it.
func TestCancelEndsAStream(t *testing.T) {
	t.Parallel()
	s := agenttest.New(t, agenttest.Answer{Output: []any{agenttest.Says(strings.Repeat("word ", 10_000))}, Pause: 50 * time.Millisecond})
	b := strictly(t, s, agent.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	b.ctx = ctx
	ended := make(chan error, 1)
	go func() {
		_, err := b.call(ask("hi"))
		ended <- err
	}()
	require.Eventually(t, func() bool { return len(s.Requests()) > 0 }, time.Minute, 5*time.Millisecond)
	time.AfterFunc(200*time.Millisecond, cancel)
	select {
	case err := <-ended:
		require.ErrorContains(t, err, "cancel")
	case <-time.After(time.Minute):
		t.Fatal("the stream goes on")
	}
}
