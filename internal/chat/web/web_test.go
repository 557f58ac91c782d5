package web_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/chat/web"
	"github.com/countersign/countersign/internal/telemetry"
)

const token = "a-token-of-the-tests-0123456789abcdef"

// site is a running web chat over stand-in sessions.
type site struct {
	*web.Server
	t        *testing.T
	dir      string
	sessions *chattest.Sessions
	blobs    *chattest.Blobs
	outputs  *outputs
	stop     func()
}

type outputs struct{ data map[string]string }

func (o *outputs) ReadAt(_ context.Context, exec, stream string, offset int64, limit int) ([]byte, error) {
	all := o.data[exec+"/"+stream]
	from := min(int(offset), len(all))
	return []byte(all[from:min(len(all), from+limit)]), nil
}

func open(t *testing.T) *site {
	t.Helper()
	return openIn(t, t.TempDir(), &chattest.Sessions{})
}

func openIn(t *testing.T, dir string, sessions *chattest.Sessions, change ...func(*web.Options)) *site {
	t.Helper()
	s := &site{t: t, dir: dir, sessions: sessions, blobs: &chattest.Blobs{}, outputs: &outputs{data: map[string]string{}}}
	opt := web.Options{
		Dir: dir, Listen: "127.0.0.1:0", ActAs: true, Token: telemetry.NewSecret(token),
		Sessions: sessions, Blobs: s.blobs, Outputs: func(string) chat.OutputReader { return s.outputs },
		Backends: []web.Backend{{Name: "local"}}, Page: fstest.MapFS{"index.html": {Data: []byte("<!doctype html>")}},
		PagePolicy: "default-src 'none'",
	}
	for _, f := range change {
		f(&opt)
	}
	var err error
	s.Server, err = web.New(t.Context(), opt)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	s.stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(t, <-done)
		}
	}
	t.Cleanup(s.stop)
	return s
}

// do sends a request as ada and returns status and body.
func (s *site) do(method, path, body string, change ...func(*http.Request)) (int, []byte) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.URL()+path, strings.NewReader(body))
	require.NoError(s.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("X-Act-As", "ada")
	for _, f := range change {
		f(req)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	return res.StatusCode, data
}

func as(name string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("X-Act-As", name) }
}

type posted struct {
	MessageID string `json:"message_id"`
	ThreadID  string `json:"thread_id"`
	Text      string `json:"text"`
	Opened    string `json:"opened"`
}

func text(s, clientID string) string {
	b, _ := json.Marshal(map[string]string{"text": s, "client_id": clientID})
	return string(b)
}

func (s *site) post(path, body string) posted {
	s.t.Helper()
	status, data := s.do("POST", path, body)
	require.Equal(s.t, http.StatusAccepted, status, string(data))
	return decode[posted](s.t, data)
}

func decode[T any](t *testing.T, data []byte) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal(data, &v), string(data))
	return v
}

type refusal struct {
	Error struct{ Code, Message, Hint string }
}

// refused expects an error in the API's form.
func (s *site) refused(status int, method, path, body string, change ...func(*http.Request)) string {
	s.t.Helper()
	got, data := s.do(method, path, body, change...)
	require.Equal(s.t, status, got, string(data))
	r := decode[refusal](s.t, data)
	require.NotEmpty(s.t, r.Error.Code)
	require.NotEmpty(s.t, r.Error.Hint)
	require.True(s.t, strings.HasSuffix(r.Error.Message, "."), r.Error.Message)
	return r.Error.Code
}

type msg struct {
	ID, Key, Kind, Author, Text, At string
	ThreadID                        string `json:"thread_id"`
	Version                         int
	Deleted                         bool
	ToolCalls                       []struct {
		ID, Command, State, Tail string
		ExitCode                 *int  `json:"exit_code"`
		DurationMS               int64 `json:"duration_ms"`
	} `json:"tool_calls"`
	Approval *struct {
		ID, State, Command, Digest string
		Reasons, Why               []string
		Votes                      []struct{ By, Verdict string }
	}
	Buttons []struct{ ID, Label string }
}

type threadDoc struct {
	ID            string
	WorkflowID    string `json:"workflow_id"`
	Title         string
	Backend       string
	WorkspacePath string `json:"workspace_path"`
	Liveness      string
	Parent        string
	Messages      []msg
}

func (s *site) thread(id string) threadDoc {
	s.t.Helper()
	status, data := s.do("GET", "/api/v1/threads/"+id, "")
	require.Equal(s.t, http.StatusOK, status, string(data))
	return decode[threadDoc](s.t, data)
}

// events opens the event stream and returns a channel of its events.
func (s *site) events(after string) <-chan event {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), "GET", s.URL()+"/api/v1/events?after="+after, nil)
	require.NoError(s.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, res.StatusCode)
	require.Contains(s.t, res.Header.Get("Content-Type"), "text/event-stream")
	out := make(chan event, 1000)
	go func() {
		defer close(out)
		defer func() { _ = res.Body.Close() }()
		sc := bufio.NewScanner(res.Body)
		sc.Buffer(nil, 8<<20)
		var e event
		for sc.Scan() {
			switch line := sc.Text(); {
			case strings.HasPrefix(line, "id: "):
				e.id = line[4:]
			case strings.HasPrefix(line, "data: "):
				_ = json.NewDecoder(bytes.NewReader([]byte(line[6:]))).Decode(&e.m)
			case line == "" && e.id != "":
				out <- e
				e = event{}
			}
		}
	}()
	return out
}

type event struct {
	id string
	m  msg
}

func next(t *testing.T, events <-chan event) event {
	t.Helper()
	select {
	case e, ok := <-events:
		require.True(t, ok, "the stream has ended")
		return e
	case <-time.After(10 * time.Second):
		require.FailNow(t, "no event came")
	}
	return event{}
}
