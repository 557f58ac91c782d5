package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// modelKey is the API key that the fake model's server expects.
const modelKey = "sk-test-key-that-must-not-leak-0123456789"

// fakeModel is a server of the Responses API that answers as a test says, one
// function a request; the last one answers all further ones.
type fakeModel struct {
	*httptest.Server
	mu       sync.Mutex
	script   []http.HandlerFunc
	requests []time.Time
	// loose are call IDs that a request held without their output.
	loose []string
}

func newFakeModel(t testing.TB) *fakeModel {
	t.Helper()
	f := &fakeModel{}
	f.Server = httptest.NewServer(http.HandlerFunc(f.answer))
	t.Cleanup(f.Close)
	return f
}

func (f *fakeModel) answer(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Input []struct {
			Type   string `json:"type"`
			CallID string `json:"call_id"`
		} `json:"input"`
	}
	err := json.NewDecoder(r.Body).Decode(&body)
	f.mu.Lock()
	f.requests = append(f.requests, time.Now())
	calls := map[string]int{}
	for _, it := range body.Input {
		switch it.Type {
		case "function_call":
			calls[it.CallID]++
		case "function_call_output":
			calls[it.CallID]--
		}
	}
	for id, n := range calls {
		if n != 0 {
			f.loose = append(f.loose, id)
		}
	}
	next := f.script[0]
	if len(f.script) > 1 {
		f.script = f.script[1:]
	}
	f.mu.Unlock()
	if err != nil || r.Header.Get("Authorization") != "Bearer "+modelKey || r.URL.Path != "/v1/responses" {
		http.Error(w, fmt.Sprintf("odd request: %s %v", r.URL.Path, err), http.StatusTeapot)
		return
	}
	next(w, r)
}

// will sets what the next requests get and forgets the earlier ones.
func (f *fakeModel) will(script ...http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script, f.requests = script, nil
}

func (f *fakeModel) seen() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]time.Time{}, f.requests...)
}

// refuses answers with an error status.
func refuses(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	}
}

// gives answers with a response of these output items, as JSON.
func gives(items ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"resp_%d","object":"response","created_at":1,"status":"completed","model":"fake","output":[%s],
			"usage":{"input_tokens":10,"output_tokens":5,"total_tokens":15,"input_tokens_details":{"cached_tokens":0},"output_tokens_details":{"reasoning_tokens":0}}}`,
			time.Now().UnixNano(), strings.Join(items, ","))
	}
}

func text(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // of a string
	}
	return `{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":` + string(data) + `,"annotations":[]}]}`
}

func asks(id, name, arguments string) string {
	data, err := json.Marshal(arguments)
	if err != nil {
		panic(err) // of a string
	}
	return fmt.Sprintf(`{"type":"function_call","id":"fc_%s","call_id":%q,"name":%q,"arguments":%s,"status":"completed"}`, id, id, name, data)
}

// withModel starts a cmd/dev whose model is served by f.
func withModel(t testing.TB, f *fakeModel) *dev {
	t.Helper()
	d := newDev(t, "--set", "openai.base_url="+f.URL+"/v1", "--model", "fake-1")
	d.env = []string{"OPENAI_API_KEY=" + modelKey}
	d.up(t)
	return d
}

// A model's errors are told apart: what no retry can mend is said at once, the
// rest is tried again when the server says. The session survives them all.
func TestModelErrors(t *testing.T) {
	t.Parallel()
	f := newFakeModel(t)
	d := withModel(t, f)
	ada := d.as("ada")
	f.will(refuses(401, `{"error":{"message":"Incorrect API key provided: sk-tes*****6789","type":"invalid_request_error","code":"invalid_api_key"}}`))
	id := ada.opens(t, "hello")
	turn := 1
	failed := func(words ...string) {
		t.Helper()
		th := ada.sees(t, id, fmt.Sprintf("turn %d fails", turn), over(turn))
		require.Contains(t, th.turn(turn).Text, "Could not go on")
		for _, w := range words {
			require.Contains(t, th.turn(turn).Text, w)
		}
		require.Len(t, f.seen(), 1, "not retried")
		require.Empty(t, th.answer(turn).ID)
	}
	next := func(text string, script ...http.HandlerFunc) {
		t.Helper()
		f.will(script...)
		turn++
		ada.says(t, id, text)
	}
	failed("API key", "OPENAI_API_KEY")
	next("again", refuses(429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`))
	failed("quota")
	next("again", refuses(400, `{"error":{"message":"bad","type":"invalid_request_error","param":"input","code":null}}`))
	failed("refused the request")
	next("again", refuses(404, `{"error":{"message":"no","type":"invalid_request_error","param":"model","code":"model_not_found"}}`))
	failed("does not know the model", "model <name>")
	next("again", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "<html>hello") })
	failed("no Responses API")

	next("again", refuses(429, `{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}`, "Retry-After", "3"), gives(text("after the limit")))
	th := ada.sees(t, id, "the answer after the rate limit", answered(turn))
	require.Equal(t, "after the limit", th.answer(turn).Text)
	seen := f.seen()
	require.Len(t, seen, 2)
	require.GreaterOrEqual(t, seen[1].Sub(seen[0]), 2900*time.Millisecond, "after its Retry-After")

	next("again", refuses(503, `busy`), refuses(500, `{}`), gives(text("after the faults")))
	th = ada.sees(t, id, "the answer after two faults", answered(turn))
	require.Equal(t, "after the faults", th.answer(turn).Text)
	require.Len(t, f.seen(), 3)
	require.NotContains(t, d.printed(), modelKey)
	for _, m := range th.Messages {
		require.NotContains(t, m.Text, "sk-")
	}
	require.Empty(t, f.loose)
}

// A model that answers nonsense gets an answer to each of its calls, and the
// turn ends.
func TestModelNonsense(t *testing.T) {
	t.Parallel()
	f := newFakeModel(t)
	d := withModel(t, f)
	ada := d.as("ada")
	f.will(
		gives(asks("c1", "no_such_tool", `{}`), asks("c2", "shell", `{"command":`), asks("c3", "shell", `{"command":7}`)),
		gives(asks("c4", "shell", `{"command":""}`), asks("c5", "shell", `{"command":"echo a","danger":true}`), asks("c5", "shell", `{"command":"echo twin"}`)),
		gives(asks("c6", "read_file", `{"path":"../../../etc/shadow"}`), asks("c7", "write_file", `{"path":"/etc/countersign-e2e","content":"x"}`), `{"type":"surprise","x":1}`, `17`),
		gives(asks("", "shell", `{"command":"echo without an id"}`)),
		gives(asks("c8", "shell", `{"command":"echo fine","cwd":null,"timeout_seconds":null}`)),
		gives(text("done <script>alert(1)</script> \x00 `code`")),
	)
	id := ada.opens(t, "do something odd")
	for {
		th := ada.sees(t, id, "it asks or ends", func(th thread) bool { return waiting(th) || over(1)(th) })
		if over(1)(th) {
			break
		}
		m := th.pending()[0]
		require.Equal(t, "recorded", d.as("grace").click(t, m, "deny", nil).Outcome)
		ada.sees(t, id, "it is denied", func(th thread) bool { return th.byKey(m.Key).Approval.State != "pending" })
	}
	th := ada.sees(t, id, "the answer", answered(1))
	require.Equal(t, "done <script>alert(1)</script>  `code`", th.answer(1).Text, "as it was said: who shows it escapes it")
	for _, c := range th.calls(1) {
		require.Contains(t, []string{"completed", "failed", "denied"}, c.State, "%+v", c)
	}
	last := th.calls(1)[len(th.calls(1))-1]
	require.Equal(t, "fine\n", ada.output(t, last.ID, "stdout", 0))
	require.NoFileExists(t, "/etc/countersign-e2e")
	require.Empty(t, f.loose, "every call_id got an output")

	f.will(gives())
	ada.says(t, id, "say nothing")
	ada.sees(t, id, "an empty answer is an end", answered(2))
	f.will(gives(text(strings.Repeat("A long answer. ", 20000))))
	ada.says(t, id, "say much")
	th = ada.sees(t, id, "a long answer", answered(3))
	require.GreaterOrEqual(t, len(th.answer(3).Text), 15*20000-1)
}

// A stop ends a model call that hangs.
func TestStopWhileTheModelThinks(t *testing.T) {
	t.Parallel()
	f := newFakeModel(t)
	d := withModel(t, f)
	ada := d.as("ada")
	gone := make(chan struct{}, 1)
	f.will(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
			gone <- struct{}{}
		case <-time.After(within):
		}
	}, gives(text("here again")))
	id := ada.opens(t, "think")
	th := ada.sees(t, id, "it thinks", func(th thread) bool { return len(f.seen()) > 0 && th.turn(1).has("stop") })
	began := time.Now()
	require.Equal(t, "recorded", ada.click(t, th.turn(1), "stop", nil).Outcome)
	th = ada.sees(t, id, "the turn is stopped", over(1))
	require.Contains(t, th.turn(1).Text, "Stopped by @ada")
	require.Less(t, time.Since(began), stretched(5*time.Second))
	select {
	case <-gone:
	case <-time.After(within):
		t.Error("the request goes on")
	}
	ada.says(t, id, "and now")
	th = ada.sees(t, id, "the session goes on", answered(2))
	require.Equal(t, "here again", th.answer(2).Text)
}
