package slack

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// post sends a request as Slack signs it; change may spoil it.
func post(t *testing.T, w *world, path, body string, change func(*http.Request)) (int, string) {
	t.Helper()
	srv := httptest.NewServer(w.app.Handler())
	defer srv.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	sign(r, body, "8f742231b10e8888abcd99yyyzzz85a5", time.Now())
	if change != nil {
		change(r)
	}
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(data)
}

func sign(r *http.Request, body, secret string, at time.Time) {
	ts := fmt.Sprint(at.Unix())
	m := hmac.New(sha256.New, []byte(secret))
	_, _ = m.Write([]byte("v0:" + ts + ":" + body))
	r.Header.Set("X-Slack-Request-Timestamp", ts)
	r.Header.Set("X-Slack-Signature", "v0="+hex.EncodeToString(m.Sum(nil)))
}

func byHTTP(t *testing.T) *world {
	return start(t, setup{still: true, config: func(c *Config) {
		c.Mode, c.SigningSecret, c.Listen = ModeHTTP, secret("8f742231b10e8888abcd99yyyzzz85a5"), "127.0.0.1:0"
	}})
}

func mentionBody(t *testing.T, w *world) string {
	t.Helper()
	ts := w.fake.Quiet(ada, general, "", bot+" do it")
	body, err := json.Marshal(map[string]any{"type": "event_callback", "event": map[string]any{
		"type": "app_mention", "channel": general, "user": ada, "ts": ts, "text": bot + " do it",
	}})
	require.NoError(t, err)
	return string(body)
}

func TestHTTPEvents(t *testing.T) {
	t.Parallel()
	w := byHTTP(t)
	body := mentionBody(t, w)
	for range 2 {
		status, _ := post(t, w, "/slack/events", body, func(r *http.Request) { r.Header.Set("X-Slack-Retry-Num", "1") })
		require.Equal(t, 200, status)
	}
	require.Len(t, w.sessions.Asked("RequestSession"), 1)
	status, answer := post(t, w, "/slack/events", `{"type":"url_verification","challenge":"c-1"}`, nil)
	require.Equal(t, 200, status)
	require.Equal(t, "c-1", answer)
}

func TestHTTPEventThatTemporalDoesNotTake(t *testing.T) {
	t.Parallel()
	w := byHTTP(t)
	body := mentionBody(t, w)
	w.setDown(workflows.ErrUnavailable)
	status, _ := post(t, w, "/slack/events", body, nil)
	require.Equal(t, 503, status)
	w.setDown(nil)
	status, _ = post(t, w, "/slack/events", body, nil)
	require.Equal(t, 200, status)
	require.Len(t, w.sessions.Asked("RequestSession"), 1)
	close(w.app.closing)
}

func TestHTTPSignatures(t *testing.T) {
	t.Parallel()
	w := byHTTP(t)
	body := mentionBody(t, w)
	for name, change := range map[string]func(*http.Request){
		"none":         func(r *http.Request) { r.Header.Del("X-Slack-Signature") },
		"other secret": func(r *http.Request) { sign(r, body, "another", time.Now()) },
		"other body":   func(r *http.Request) { sign(r, body+" ", "8f742231b10e8888abcd99yyyzzz85a5", time.Now()) },
		"six minutes": func(r *http.Request) {
			sign(r, body, "8f742231b10e8888abcd99yyyzzz85a5", time.Now().Add(-6*time.Minute))
		},
		"in the future": func(r *http.Request) {
			sign(r, body, "8f742231b10e8888abcd99yyyzzz85a5", time.Now().Add(6*time.Minute))
		},
		"no version": func(r *http.Request) {
			r.Header.Set("X-Slack-Signature", strings.TrimPrefix(r.Header.Get("X-Slack-Signature"), "v0="))
		},
	} {
		for _, path := range []string{"/slack/events", "/slack/commands", "/slack/interactions"} {
			status, _ := post(t, w, path, body, change)
			require.Equal(t, 401, status, "%s %s", name, path)
		}
	}
	require.Empty(t, w.sessions.Asked(""))
}

// TestHTTPByTheClockOfSlack: how old a request is, Slack's clock says. This machine's
// may be wrong, and may have been set since Slack was last asked.
func TestHTTPByTheClockOfSlack(t *testing.T) {
	t.Parallel()
	const secret = "8f742231b10e8888abcd99yyyzzz85a5"
	w := start(t, setup{still: true, fake: slackfake.Options{Ahead: time.Hour}, config: func(c *Config) {
		c.Mode, c.SigningSecret, c.Listen = ModeHTTP, telemetry.NewSecret(secret), "127.0.0.1:0"
	}})
	body := mentionBody(t, w)
	send := func(at time.Time) int {
		status, _ := post(t, w, "/slack/events", body, func(r *http.Request) { sign(r, body, secret, at) })
		return status
	}
	require.Equal(t, 200, send(time.Now().Add(time.Hour)))
	require.Equal(t, 401, send(time.Now()), "an hour old")
	w.app.api.gate.clock.Heed(http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}})
	w.app.taken = newMemory[string, bool]()
	require.Equal(t, 200, send(time.Now().Add(time.Hour)), "Slack is asked")
	require.Equal(t, 401, send(time.Now().Add(2*time.Hour)))
}

func TestHTTPCommandsAndClicks(t *testing.T) {
	t.Parallel()
	w := byHTTP(t)
	form := url.Values{"command": {"/agent"}, "text": {"fix it"}, "channel_id": {general}, "user_id": {ada}, "trigger_id": {"1.2.abc"}, "is_enterprise_install": {"false"}}
	status, answer := post(t, w, "/slack/commands", form.Encode(), nil)
	require.Equal(t, 200, status)
	require.Empty(t, answer)
	require.Equal(t, "fix it", one[workflows.SessionRequest](w, "RequestSession").Task.Text.Text)

	ts := w.approval(w.session(), nil)
	payload, err := w.fake.Action(grace, general, ts, workflows.ButtonApprove)
	require.NoError(t, err)
	data, err := json.Marshal(payload)
	require.NoError(t, err)
	status, _ = post(t, w, "/slack/interactions", url.Values{"payload": {string(data)}}.Encode(), nil)
	require.Equal(t, 200, status)
	require.Equal(t, grace, one[workflows.Decision](w, "Decide").By.ID)

	status, _ = post(t, w, "/slack/interactions?payload="+url.QueryEscape(string(data)), "", nil)
	require.Equal(t, 400, status, "what is not in the signed body is not read")
}

func TestHTTPModeServesAndStops(t *testing.T) {
	t.Parallel()
	w := byHTTP(t)
	w.app.cfg.SigningSecret = secret("")
	require.ErrorIs(t, w.app.serve(t.Context()), ErrRefused)
}

// TestHTTPAnswersBeforeTheOutcome: Slack waits three seconds. A click is
// acknowledged while its outcome is not known yet; an event that Temporal does not
// take in time is refused, so that it comes again.
func TestHTTPAnswersBeforeTheOutcome(t *testing.T) {
	t.Parallel()
	w := byHTTP(t)
	ts := w.approval(w.session(), nil)
	payload, err := w.fake.Action(grace, general, ts, workflows.ButtonApprove)
	require.NoError(t, err)
	data, err := json.Marshal(payload)
	require.NoError(t, err)
	release := w.sessions.hold()
	status, _ := post(t, w, "/slack/interactions", url.Values{"payload": {string(data)}}.Encode(), nil)
	require.Equal(t, 200, status)
	require.Empty(t, w.sessions.Asked("Decide"), "it was answered first")
	release()
	require.Equal(t, grace, one[workflows.Decision](w, "Decide").By.ID)

	hang := make(chan struct{})
	w.sessions.Fail = func(chattest.Call) error { <-hang; return nil }
	t.Cleanup(func() { close(w.app.closing) })
	status, _ = post(t, w, "/slack/events", mentionBody(t, w), nil)
	require.Equal(t, 503, status)
	close(hang)
}
