package agent_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/agent"
	"github.com/countersign/countersign/internal/workflows"
)

func TestErrorClasses(t *testing.T) {
	t.Parallel()
	failed := func(code string) http.HandlerFunc {
		return text(http.StatusOK, "application/json",
			`{"id":"r","status":"failed","error":{"code":"`+code+`","message":"secret prose"},"output":[]}`)
	}
	const (
		quota, auth, bad = workflows.ErrTypeQuota, workflows.ErrTypeAuth, workflows.ErrTypeBadRequest
		limited, away    = workflows.ErrTypeRateLimited, agent.ErrTypeUnavailable
	)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		kind   string
		final  bool
		delay  time.Duration
		says   string
	}{
		"quota":                {refuse(429, "insufficient_quota", "", "Retry-After", "5"), quota, true, 0, "quota"},
		"payment":              {refuse(402, "", ""), quota, true, 0, "quota"},
		"key":                  {refuse(401, "invalid_api_key", ""), auth, true, 0, "openai.api_key"},
		"forbidden":            {refuse(403, "unsupported_country", ""), auth, true, 0, "may not use"},
		"bad request":          {refuse(400, "unsupported_parameter", "tools[0].strict"), bad, true, 0, "unsupported_parameter, tools[0].strict"},
		"bad request, prose":   {refuse(400, "the key is "+apiKey, "a b"), bad, true, 0, "(400)"},
		"window":               {refuse(400, "context_length_exceeded", "input"), bad, true, 0, "window"},
		"no such model":        {refuse(404, "model_not_found", "model"), bad, true, 0, `"gpt-test"`},
		"no such path":         {text(404, "text/html", "<html>"+apiKey), bad, true, 0, "openai.base_url"},
		"unprocessable":        {refuse(422, "", ""), bad, true, 0, "(422)"},
		"rate, seconds":        {refuse(429, "rate_limit_exceeded", "", "Retry-After", "7"), limited, false, 7 * time.Second, "rate limit"},
		"rate, ms wins":        {refuse(429, "", "", "Retry-After", "7", "Retry-After-Ms", "250"), limited, false, 250 * time.Millisecond, "rate limit"},
		"rate, no header":      {refuse(429, "", ""), limited, false, 0, "rate limit"},
		"rate, absurd":         {refuse(429, "", "", "Retry-After", "1e300"), limited, false, time.Hour, "rate limit"},
		"rate, nonsense":       {refuse(429, "", "", "Retry-After", "soon"), limited, false, 0, "rate limit"},
		"rate, body no JSON":   {text(429, "text/plain", "slow down "+apiKey), limited, false, 0, "rate limit"},
		"server fault":         {refuse(500, "server_error", ""), away, false, 0, "(500)"},
		"overloaded":           {text(503, "text/html", "<h1>busy</h1>", "Retry-After", "3"), away, false, 3 * time.Second, "(503)"},
		"request timeout":      {refuse(408, "", ""), away, false, 0, "(408)"},
		"not the API":          {text(200, "text/html", "<html>log in</html>"), bad, true, 0, "openai.base_url"},
		"malformed":            {text(200, "application/json", `{"id": "r", "outp`), away, false, 0, "cannot be read"},
		"null":                 {text(200, "application/json", "null"), away, false, 0, "empty"},
		"failed, fault":        {failed("server_error"), away, false, 0, "fault"},
		"failed, rate":         {failed("rate_limit_exceeded"), limited, false, 0, "rate limit"},
		"failed, policy":       {failed("misalignment_policy_violation"), bad, true, 0, "usage policy"},
		"failed, other":        {failed("invalid_image"), bad, true, 0, "invalid_image"},
		"queued":               {text(200, "application/json", `{"id":"r","status":"queued","output":[]}`), away, false, 0, "queued"},
		"connection broken":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, away, false, 0, "cannot be reached"},
		"bad encrypted, twice": {refuse(400, "invalid_encrypted_content", "input"), bad, true, 0, "(400, invalid_encrypted_content, input)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, c.answer)
			b := newBench(t, s.options(agent.Options{}))
			_, err := b.call(workflows.ModelInput{Append: []workflows.Item{message("hi")}})
			app := applicationError(t, err)
			require.Equal(t, c.kind, app.Type())
			require.Equal(t, c.final, app.NonRetryable())
			require.Equal(t, c.delay, app.NextRetryDelay())
			var todo string
			require.NoError(t, app.Details(&todo))
			require.Contains(t, app.Message()+" "+todo, c.says)
			require.Contains(t, app.Message(), "The session and its files are safe.")
			require.NotContains(t, err.Error(), apiKey)
			require.NotContains(t, err.Error(), "secret prose")
			require.NotEmpty(t, todo)
			require.NotContains(t, todo, apiKey)
			tries, mended := map[string]int{"window": 8, "bad encrypted, twice": 2}[name]
			if !mended {
				tries = 1
			}
			require.Len(t, s.seen(), tries, "Temporal retries, not the client")
			for o, err := range b.blobs.List(t.Context(), "") {
				require.NoError(t, err)
				t.Errorf("a failed call has written %s", o.Key)
			}
		})
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	s := newServer(t, output(says("x")))
	o := s.options(agent.Options{})
	s.Close()
	_, err := newBench(t, o).call(workflows.ModelInput{Append: []workflows.Item{message("hi")}})
	app := applicationError(t, err)
	require.Equal(t, agent.ErrTypeUnavailable, app.Type())
	require.False(t, app.NonRetryable())
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestTimeout(t *testing.T) {
	t.Parallel()
	s := newServer(t, hang)
	b := newBench(t, s.options(agent.Options{RequestTimeout: 50 * time.Millisecond}))
	_, err := b.call(workflows.ModelInput{Append: []workflows.Item{message("hi")}})
	app := applicationError(t, err)
	require.Equal(t, agent.ErrTypeUnavailable, app.Type())
	require.Contains(t, app.Message(), "did not answer within 50ms")
}

func TestCancelEndsTheCallAtOnce(t *testing.T) {
	t.Parallel()
	started := make(chan struct{})
	s := newServer(t, func(_ http.ResponseWriter, r *http.Request) {
		close(started)
		<-r.Context().Done()
	})
	b := newBench(t, s.options(agent.Options{}))
	ctx, cancel := context.WithCancel(t.Context())
	b.ctx = ctx
	ended := make(chan error, 1)
	go func() {
		_, err := b.call(workflows.ModelInput{Append: []workflows.Item{message("hi")}})
		ended <- err
	}()
	<-started
	cancel()
	select {
	case err := <-ended:
		require.Error(t, err)
		require.Contains(t, err.Error(), "cancel")
	case <-time.After(time.Minute):
		t.Fatal("the call goes on")
	}
}

// Requests that were sent and never answered may have been billed.
func TestUnansweredRequestsAreCounted(t *testing.T) {
	t.Parallel()
	s := newServer(t, refuse(500, "", ""), output(says("x")))
	b := newBench(t, s.options(agent.Options{}))
	b.beats = map[string]int{"unsure": 2}
	_, err := b.call(workflows.ModelInput{Append: []workflows.Item{message("hi")}})
	require.Error(t, err)
	got := b.must(workflows.ModelInput{Append: []workflows.Item{message("hi")}})
	require.Equal(t, 3, got.Usage.Calls)
}

func TestRequestShape(t *testing.T) {
	t.Parallel()
	s := newServer(t, output(says("hello <you> & all")))
	b := newBench(t, s.options(agent.Options{}))
	sandbox := &workflows.SandboxRef{Backend: "local", Root: "/workspace", Home: "/home/agent", Shell: "bash", Isolated: true}
	first := b.must(workflows.ModelInput{Append: []workflows.Item{message("hi <b>")}, Sandbox: sandbox})
	require.Equal(t, "hello <you> & all", first.Answer.Text)
	require.Equal(t, "gpt-test", first.Model)
	b.must(workflows.ModelInput{
		Transcript: first.Transcript, Append: []workflows.Item{message("again")}, Turn: 2, Sandbox: sandbox, Shared: true,
	})
	reqs := s.seen()
	require.Len(t, reqs, 2)
	require.False(t, *reqs[0].Store)
	require.True(t, reqs[0].Parallel)
	require.Equal(t, []string{"reasoning.encrypted_content"}, reqs[0].Include)
	require.LessOrEqual(t, len(reqs[0].CacheKey), 64)
	require.NotContains(t, reqs[0].CacheKey, "t1")
	require.Contains(t, reqs[0].Instructions, "/workspace")
	require.Contains(t, reqs[0].Instructions, "no network")

	require.Equal(t, reqs[0].Instructions, reqs[1].Instructions, "the beginning of a request is stable")
	require.JSONEq(t, string(reqs[0].Tools), string(reqs[1].Tools))
	require.Equal(t, reqs[0].CacheKey, reqs[1].CacheKey)
	require.JSONEq(t, string(reqs[0].Input[0]), string(reqs[1].Input[0]))
	require.JSONEq(t, `{"type":"message","role":"user","content":[{"type":"input_text","text":"hi <b>"}]}`, string(reqs[1].Input[0]))
	require.JSONEq(t, says("hello <you> & all"), string(reqs[1].Input[1]))
	require.JSONEq(t, `{"type":"message","role":"user","content":[{"type":"input_text","text":"[@ada]: again"}]}`, string(reqs[1].Input[2]))
}

func TestUsageAndCost(t *testing.T) {
	t.Parallel()
	for model, micros := range map[string]int64{
		"gpt-test": 600*2 + 400*1 + 50*10, "gpt-test-2026-08-01": 600*2 + 400*1 + 50*10, "gpt-test-mini": 0,
	} {
		s := newServer(t, output(says("x")))
		b := newBench(t, s.options(agent.Options{Prices: map[string]agent.Price{
			"gpt-test": {Input: 2_000_000, Cached: 1_000_000, Output: 10_000_000},
		}}))
		got := b.must(workflows.ModelInput{Model: model, Append: []workflows.Item{message("hi")}})
		require.Equal(t, workflows.Usage{
			Input: 1000, Cached: 400, Output: 50, Reasoning: 30, Micros: micros, Calls: 1,
		}, got.Usage, model)
	}
}

func TestModelWithoutEncryptedReasoning(t *testing.T) {
	t.Parallel()
	s := newServer(t, refuse(400, "invalid_value", "include[0]"), output(says("x")))
	b := newBench(t, s.options(agent.Options{}))
	b.must(workflows.ModelInput{Append: []workflows.Item{message("hi")}})
	b.must(workflows.ModelInput{Append: []workflows.Item{message("hi")}})
	reqs := s.seen()
	require.Len(t, reqs, 3, "it is asked for once only")
	require.Empty(t, reqs[1].Include)
	require.Empty(t, reqs[2].Include)
}

const reasoning = `{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"gAAAA","status":null,"content":null}`

// Reasoning goes back whole, in order and with its calls.
func TestReasoningIsReplayed(t *testing.T) {
	t.Parallel()
	s := newServer(t,
		output(reasoning, calls("a", "shell", `{"command":"ls","cwd":null,"timeout_seconds":null}`), calls("b", "read_file", `{"path":"x"}`)),
		output(says("done")))
	b := newBench(t, s.options(agent.Options{}))
	first := b.must(workflows.ModelInput{Append: []workflows.Item{message("hi")}})
	require.Len(t, first.Calls, 2)
	second := b.must(workflows.ModelInput{Transcript: first.Transcript, Append: []workflows.Item{
		result("a", exited(0, "x")), result("b", "state: denied — no"),
	}})
	require.Equal(t, "done", second.Answer.Text)
	input := s.seen()[1].Input
	require.Len(t, input, 6)
	require.JSONEq(t, `{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"gAAAA"}`, string(input[1]))
	require.Contains(t, string(input[2]), `"fc_a"`)
	require.Contains(t, string(input[3]), `"fc_b"`)
	require.JSONEq(t, `{"type":"function_call_output","call_id":"b","output":"state: denied — no"}`, string(input[5]))
}

// What another model thought, or what the server can no longer read, is left
// out, and the items that came with it lose their IDs.
func TestReasoningThatCannotBeRead(t *testing.T) {
	t.Parallel()
	thinks := output(reasoning, calls("a", "shell", `{"command":"ls"}`))
	for name, c := range map[string]struct {
		answers []http.HandlerFunc
		model   string
	}{
		"other model":    {[]http.HandlerFunc{thinks, output(says("done"))}, "gpt-other"},
		"refused":        {[]http.HandlerFunc{thinks, refuse(400, "invalid_encrypted_content", ""), output(says("done"))}, ""},
		"not given back": {[]http.HandlerFunc{output(strings.Replace(reasoning, `"gAAAA"`, "null", 1), calls("a", "shell", `{"command":"ls"}`)), output(says("done"))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, c.answers...)
			b := newBench(t, s.options(agent.Options{}))
			first := b.must(workflows.ModelInput{Append: []workflows.Item{message("hi")}})
			b.must(workflows.ModelInput{
				Transcript: first.Transcript, Model: c.model, Append: []workflows.Item{result("a", exited(0, ""))},
			})
			reqs := s.seen()
			for _, raw := range reqs[len(reqs)-1].Input {
				require.NotContains(t, string(raw), "rs_1")
				require.NotContains(t, string(raw), "fc_a")
			}
			require.Len(t, reqs[len(reqs)-1].Input, 3)
		})
	}
}

func TestOfflineWhereverThereIsNoServer(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]agent.Options{
		"no key": {Model: "gpt-5"}, "by name": {Model: "offline", BaseURL: "http://127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := newBench(t, o).must(workflows.ModelInput{Append: []workflows.Item{message("`ls`")}})
			require.Equal(t, "offline", got.Model)
			args := workflows.ShellArgs{}
			require.NoError(t, json.Unmarshal([]byte(got.Calls[0].Args.Text), &args))
			require.Equal(t, "ls", args.Command)
		})
	}
}

func TestNewRefusesAddressesThatAreNone(t *testing.T) {
	t.Parallel()
	for _, u := range []string{"api.openai.com", "ftp://x/", "http://", "://"} {
		_, err := agent.New(agent.Options{BaseURL: u})
		require.Error(t, err, u)
	}
}
