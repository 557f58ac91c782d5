package e2e_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The shapes of the web chat's API, as far as the tests look at them.
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
		reader        *client
	}
	message struct {
		ID        string    `json:"id"`
		ThreadID  string    `json:"thread_id"`
		At        time.Time `json:"at"`
		Key       string    `json:"key"`
		Kind      string    `json:"kind"`
		Author    string    `json:"author"`
		Text      string    `json:"text"`
		Version   int       `json:"version"`
		ToolCalls []call    `json:"tool_calls"`
		Approval  *approval `json:"approval"`
		Buttons   []button  `json:"buttons"`
	}
	button struct {
		ID    string `json:"id"`
		Label string `json:"label"`
	}
	call struct {
		ID         string     `json:"id"`
		Tool       string     `json:"tool"`
		Command    string     `json:"command"`
		State      string     `json:"state"`
		ExitCode   *int       `json:"exit_code"`
		DurationMS int64      `json:"duration_ms"`
		Tail       string     `json:"tail"`
		StartedAt  *time.Time `json:"started_at"`
		Note       string     `json:"note"`
	}
	approval struct {
		ID        string    `json:"id"`
		State     string    `json:"state"`
		Tier      string    `json:"tier"`
		Command   string    `json:"command"`
		Cwd       string    `json:"cwd"`
		Backend   string    `json:"backend"`
		Reasons   []string  `json:"reasons"`
		Digest    string    `json:"digest"`
		ExpiresAt time.Time `json:"expires_at"`
		Votes     []struct {
			By      string `json:"by"`
			Verdict string `json:"verdict"`
		} `json:"votes"`
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
		Digest  string `json:"digest"`
	}
	refused struct {
		Error struct{ Code, Message, Hint string } `json:"error"`
	}
)

// client speaks for one person.
type client struct {
	dev  *dev
	name string
}

// request makes one request below /api/v1. body is nil, bytes, or what is sent
// as JSON.
func (c *client) request(method, path string, body any) (int, []byte, error) {
	var r io.Reader
	switch b := body.(type) {
	case nil:
	case []byte:
		r = bytes.NewReader(b)
	default:
		data, err := json.Marshal(b)
		if err != nil {
			return 0, nil, err
		}
		r = bytes.NewReader(data)
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.dev.WebURL+"/api/v1"+path, r)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.dev.Token)
	req.Header.Set("X-Act-As", c.name)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, data, err
}

// get reads JSON that must be there.
func (c *client) get(t testing.TB, path string, v any) {
	t.Helper()
	status, data, err := c.request(http.MethodGet, path, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, "%s: %s", path, data)
	require.NoError(t, json.Unmarshal(data, v), "%s", data)
}

// write posts a text that must be taken. Like the page it goes on while the
// answer is that the server cannot be reached, always under the same client_id:
// so it may be called while bots and servers are killed.
func (c *client) write(t testing.TB, path, text string) posted {
	t.Helper()
	body := map[string]string{"text": text, "client_id": rand.Text()}
	return await(t, within, "the message is taken", func() (posted, bool) {
		status, data, err := c.request(http.MethodPost, path, body)
		if err != nil || status == http.StatusServiceUnavailable {
			return posted{}, false
		}
		require.Equal(t, http.StatusAccepted, status, "%q: %s", text, data)
		var p posted
		require.NoError(t, json.Unmarshal(data, &p), "%s", data)
		require.NotEmpty(t, p.MessageID)
		return p, true
	})
}

// opens starts a session with a task and returns its thread's ID.
func (c *client) opens(t testing.TB, task string) string {
	t.Helper()
	return c.write(t, "/channels/general/messages", "/agent "+task).ThreadID
}

// says writes into a thread.
func (c *client) says(t testing.TB, thread, text string) posted {
	t.Helper()
	return c.write(t, "/threads/"+thread+"/messages", text)
}

// click clicks a button that must be there, again where it was not confirmed, as
// people are told to; a repeated click is the same click.
func (c *client) click(t testing.TB, m message, button string, values map[string]any) clicked {
	t.Helper()
	id := rand.Text()
	return await(t, within, "the click is answered", func() (clicked, bool) {
		out := c.clickOnce(t, m, button, id, values)
		return out, out.Outcome != "unconfirmed"
	})
}

func (c *client) clickOnce(t testing.TB, m message, button, id string, values map[string]any) clicked {
	t.Helper()
	status, data, err := c.request(http.MethodPost, "/messages/"+m.ID+"/click", map[string]any{"button": button, "values": values, "client_id": id})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, "%s on %s: %s", button, m.Key, data)
	var out clicked
	require.NoError(t, json.Unmarshal(data, &out), "%s", data)
	return out
}

// refusal posts what must be refused with a status and returns the sentence.
func (c *client) refusal(t testing.TB, status int, method, path string, body any) refused {
	t.Helper()
	got, data, err := c.request(method, path, body)
	require.NoError(t, err)
	require.Equal(t, status, got, "%s %s: %.300s", method, path, data)
	var r refused
	require.NoError(t, json.Unmarshal(data, &r), "%.300s", data)
	require.NotEmpty(t, r.Error.Code)
	require.NotEmpty(t, r.Error.Message)
	return r
}

// output reads a stream of a tool call from offset on.
func (c *client) output(t testing.TB, id, stream string, offset int) string {
	t.Helper()
	status, data, err := c.request(http.MethodGet, fmt.Sprintf("/tool_calls/%s/output?stream=%s&offset=%d", id, stream, offset), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, "%s", data)
	return string(data)
}

// thread reads a thread.
func (c *client) thread(t testing.TB, id string) thread {
	t.Helper()
	var th thread
	c.get(t, "/threads/"+id, &th)
	th.reader = c
	return th
}

// sees waits until a thread is as the person expects it.
func (c *client) sees(t testing.TB, id, what string, ok func(thread) bool) thread {
	t.Helper()
	return c.seesIn(t, within, id, what, ok)
}

func (c *client) seesIn(t testing.TB, limit time.Duration, id, what string, ok func(thread) bool) thread {
	t.Helper()
	var seen bool
	t.Cleanup(func() {
		if !seen && t.Failed() {
			t.Logf("not seen: %s; Temporal says of the session:\n%s", what, c.dev.describe("agent/web/main/"+id))
		}
	})
	th := await(t, limit, what, func() (thread, bool) {
		var th thread
		status, data, err := c.request(http.MethodGet, "/threads/"+id, nil)
		if err != nil || status != http.StatusOK || json.Unmarshal(data, &th) != nil {
			return th, false
		}
		return th, ok(th)
	})
	seen, th.reader = true, c
	return th
}

// describe returns what Temporal's Web UI knows of a workflow that hangs.
func (d *dev) describe(workflowID string) string {
	resp, err := http.Get(d.UIURL + "/api/v1/namespaces/" + d.Namespace + "/workflows/" + url.PathEscape(workflowID))
	if err != nil {
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	var about struct {
		Activities json.RawMessage `json:"pendingActivities"`
		Task       json.RawMessage `json:"pendingWorkflowTask"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&about); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("pending activities %s\npending workflow task %s", about.Activities, about.Task)
}
