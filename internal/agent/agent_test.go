package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/countersign/countersign/internal/agent"
	"github.com/countersign/countersign/internal/agent/offline"
	"github.com/countersign/countersign/internal/agent/tooloutput"
	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	session = "agent/web/main/t1"
	apiKey  = "sk-very-secret-0123456789"
)

type object = map[string]any

// server is a Responses API whose answers a test gives. It refuses what the API
// refuses.
type server struct {
	*httptest.Server

	mu       sync.Mutex
	requests []request
	answers  []http.HandlerFunc // the last one repeats
}

type request struct {
	Model        string            `json:"model"`
	Instructions string            `json:"instructions"`
	Input        []json.RawMessage `json:"input"`
	Store        *bool             `json:"store"`
	Include      []string          `json:"include"`
	Parallel     bool              `json:"parallel_tool_calls"`
	CacheKey     string            `json:"prompt_cache_key"`
	Tools        json.RawMessage   `json:"tools"`
}

func newServer(t *testing.T, answers ...http.HandlerFunc) *server {
	t.Helper()
	s := &server{answers: answers}
	strict := &offline.Model{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if r.Header.Get("Authorization") != "Bearer "+apiKey || r.URL.Path != "/v1/responses" {
			http.Error(w, "not the client's key or path", http.StatusTeapot)
			return
		}
		check := httptest.NewRecorder()
		strict.ServeHTTP(check, httptest.NewRequestWithContext(r.Context(), http.MethodPost, r.URL.Path, bytes.NewReader(body)))
		if check.Code != http.StatusOK {
			t.Errorf("the API would refuse this: %s\n%s", check.Body, body)
		}
		req := request{}
		if err := json.Unmarshal(body, &req); err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		answer := s.answers[min(len(s.requests), len(s.answers)-1)]
		s.requests = append(s.requests, req)
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) seen() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func (s *server) options(o agent.Options) agent.Options {
	o.BaseURL = s.URL + "/v1"
	o.APIKey = telemetry.NewSecret(apiKey)
	if o.Model == "" {
		o.Model = "gpt-test"
	}
	return o
}

func text(status int, contentType, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func refuse(status int, code, param string, header ...string) http.HandlerFunc {
	data, _ := json.Marshal(object{"error": object{
		"message": "Incorrect API key provided: " + apiKey, "type": "x", "code": code, "param": param,
	}})
	return text(status, "application/json", string(data), header...)
}

// output answers with output items.
func output(items ...string) http.HandlerFunc {
	return text(http.StatusOK, "application/json", `{"id":"resp_1","object":"response","status":"completed","model":"gpt-test-2026",
		"output":[`+strings.Join(items, ",")+`],"usage":{"input_tokens":1000,"input_tokens_details":{"cached_tokens":400},
		"output_tokens":50,"output_tokens_details":{"reasoning_tokens":30},"total_tokens":1050}}`)
}

func says(text string) string {
	data, _ := json.Marshal(text)
	return `{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":` +
		string(data) + `,"annotations":[]}]}`
}

func calls(id, name, arguments string) string {
	data, _ := json.Marshal(arguments)
	return `{"id":"fc_` + id + `","type":"function_call","status":"completed","call_id":"` + id + `","name":"` + name +
		`","arguments":` + string(data) + `}`
}

// bench runs the activity.
type bench struct {
	t     testing.TB
	blobs *blob.Store
	acts  *agent.Activities
	// ctx is the worker's; beats are heartbeat details of an attempt before.
	ctx   context.Context
	beats any
}

func newBench(t testing.TB, o agent.Options) *bench {
	t.Helper()
	blobs, err := blob.Open(t.Context(), "mem://")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, blobs.Close()) })
	o.Blobs = blobs
	acts, err := agent.New(o)
	require.NoError(t, err)
	return &bench{t: t, blobs: blobs, acts: acts, ctx: t.Context()}
}

func (b *bench) call(in workflows.ModelInput) (workflows.ModelResult, error) {
	b.t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{BackgroundActivityContext: b.ctx})
	if b.beats != nil {
		env.SetHeartbeatDetails(b.beats)
	}
	b.acts.Register(env)
	if in.WorkflowID == "" {
		in.WorkflowID = session
	}
	value, err := env.ExecuteActivity(workflows.ActivityCallModel, in)
	if err != nil {
		return workflows.ModelResult{}, err
	}
	result := workflows.ModelResult{}
	require.NoError(b.t, value.Get(&result))
	return result, nil
}

func (b *bench) must(in workflows.ModelInput) workflows.ModelResult {
	b.t.Helper()
	result, err := b.call(in)
	require.NoError(b.t, err)
	return result
}

func message(text string) workflows.Item {
	return workflows.Item{Message: &workflows.Message{
		ID: "1", Author: workflows.Actor{ID: "u1", Name: "ada"}, At: time.Unix(1e9, 0).UTC(),
		Text: workflows.TextRef{Text: text},
	}}
}

func result(callID, text string) workflows.Item {
	return workflows.Item{CallID: callID, Output: workflows.TextRef{Text: text}}
}

func exited(code int, stdout string) string {
	return tooloutput.Format(tooloutput.Output{ExitCode: &code, Stdout: stdout})
}

func applicationError(t *testing.T, err error) *temporal.ApplicationError {
	t.Helper()
	var app *temporal.ApplicationError
	require.True(t, errors.As(err, &app), "%v", err)
	return app
}
