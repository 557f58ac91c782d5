package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The shapes of the web chat's API, as far as the run looks at them.
type (
	thread struct {
		ID            string    `json:"id"`
		WorkflowID    string    `json:"workflow_id"`
		Title         string    `json:"title"`
		Backend       string    `json:"backend"`
		WorkspacePath string    `json:"workspace_path"`
		Liveness      string    `json:"liveness"`
		Parent        string    `json:"parent"`
		Messages      []message `json:"messages"`
	}
	message struct {
		ID        string          `json:"id"`
		ThreadID  string          `json:"thread_id"`
		Key       string          `json:"key"`
		Kind      string          `json:"kind"`
		Author    string          `json:"author"`
		Text      string          `json:"text"`
		Version   int             `json:"version"`
		ToolCalls []toolCall      `json:"tool_calls"`
		Approval  *approval       `json:"approval"`
		Buttons   []button        `json:"buttons"`
		Question  string          `json:"question,omitempty"`
		Header    json.RawMessage `json:"header,omitempty"`
		Turn      *turn           `json:"turn,omitempty"`
		Deleted   bool            `json:"deleted,omitempty"`
	}
	button   struct{ ID, Label string }
	toolCall struct {
		ID       string `json:"id"`
		Command  string `json:"command"`
		State    string `json:"state"`
		ExitCode *int   `json:"exit_code"`
		Note     string `json:"note"`
	}
	approval struct {
		ID         string `json:"id"`
		State      string `json:"state"`
		Tier       string `json:"tier"`
		CallID     string `json:"call_id"`
		UnknownRun bool   `json:"unknown_run"`
	}
	turn struct {
		Number int    `json:"number"`
		State  string `json:"state"`
		Error  string `json:"error"`
	}
	posted struct {
		MessageID string `json:"message_id"`
		ThreadID  string `json:"thread_id"`
		Text      string `json:"text"`
		Opened    string `json:"opened"`
	}
	clicked struct {
		Outcome string `json:"outcome"`
		Text    string `json:"text"`
	}
)

func (m message) has(id string) bool {
	for _, b := range m.Buttons {
		if b.ID == id {
			return true
		}
	}
	return false
}

// of returns the thread's messages of a kind, in order.
func (t thread) of(kind string) []message {
	var out []message
	for _, m := range t.Messages {
		if m.Kind == kind {
			out = append(out, m)
		}
	}
	return out
}

// moves is how often something has changed in the thread.
func (t thread) moves() int {
	n := len(t.Messages)
	for _, m := range t.Messages {
		n += m.Version
	}
	return n
}

// working is the card of the turn that runs, if one does.
func (t thread) working() (message, bool) {
	for _, m := range t.of("turn") {
		if m.Turn != nil && m.Turn.State == "working" {
			return m, true
		}
	}
	return message{}, false
}

// pending are the cards that wait for a decision.
func (t thread) pending() []message {
	var out []message
	for _, m := range t.of("approval") {
		if m.Approval != nil && m.Approval.State == "pending" && len(m.Buttons) > 0 {
			out = append(out, m)
		}
	}
	return out
}

// web speaks to the web chat for anybody.
type web struct{ url, token string }

// callWithin bounds one request; the chat answers a post within 15 s.
const callWithin = 20 * time.Second

// refused is an answer of the chat that is not a success.
type refused struct {
	status int
	body   string
}

func (e *refused) Error() string { return fmt.Sprintf("HTTP %d: %s", e.status, e.body) }

// passing reports a failure that goes by when the parts are back.
func passing(err error) bool {
	var r *refused
	return err != nil && (!errors.As(err, &r) || r.status >= 500)
}

// call makes one request of the API.
func (w web) call(ctx context.Context, as, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encoding a request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, w.url+"/api/v1"+path, body)
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	req.Header.Set("X-Act-As", as)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("asking the web chat: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("reading the web chat's answer: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return &refused{resp.StatusCode, string(bytes.TrimSpace(data))}
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("decoding the web chat's answer: %w", err)
	}
	return nil
}

func (w web) thread(ctx context.Context, id string) (thread, error) {
	var t thread
	err := w.call(ctx, "recorder", http.MethodGet, "/threads/"+id, nil, &t)
	return t, err
}

// follow reads events after a number until the stream breaks, and returns the
// number of the last.
func (w web) follow(ctx context.Context, after int, each func(message)) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/api/v1/events?after="+strconv.Itoa(after), nil)
	if err != nil {
		return after, fmt.Errorf("making a request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return after, fmt.Errorf("following the web chat: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return after, &refused{status: resp.StatusCode}
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 8<<20) // a message has at most 1 MiB of text, escaped
	next := after
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			if next, err = strconv.Atoi(v); err != nil {
				return after, fmt.Errorf("reading an event's number: %w", err)
			}
		}
		if v, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var m message
			if err := json.Unmarshal([]byte(v), &m); err != nil {
				return after, fmt.Errorf("reading an event: %w", err)
			}
			each(m)
			after = next
		}
	}
	return after, lines.Err()
}
