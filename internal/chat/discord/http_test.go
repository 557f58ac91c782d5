package discord

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat/chattest/discordfake"
	"github.com/countersign/countersign/internal/workflows"
)

// TestInteractionsOverHTTP: the same commands and clicks as over the gateway.
func TestInteractionsOverHTTP(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	w.app.cfg.PublicKey = w.fake.PublicKey()
	h, err := w.app.Handler()
	require.NoError(t, err)
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	require.NoError(t, w.fake.Endpoint(srv.URL+"/discord/interactions"), "it answers the ping, and refuses a wrong signature")

	i := w.use(ada, general, "agent run", map[string]any{"task": "fix the test"})
	require.Contains(t, w.said(i), "Accepted")
	require.Equal(t, i.ID, one[workflows.SessionRequest](w, "RequestSession").ID)
	s := w.session()
	card := w.approval(s, nil)
	require.Equal(t, discordfake.AnswerDeferredUpdate, w.click(grace, s.ID, card, "Approve once").Answer().Kind)
	require.Equal(t, grace, one[workflows.Decision](w, "Decide").By.ID)
	require.Equal(t, discordfake.AnswerModal, w.click(grace, s.ID, card, "Deny…").Answer().Kind)

	for name, change := range map[string]func(*http.Request){
		"no signature": func(*http.Request) {},
		"an old one":   func(r *http.Request) { r.Header.Set("X-Signature-Timestamp", "1500000000") },
		"no hex":       func(r *http.Request) { r.Header.Set("X-Signature-Ed25519", "xyz") },
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/discord/interactions", bytes.NewReader([]byte(`{"type":2}`)))
		require.NoError(t, err)
		change(r)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode, name)
	}
}

func TestAKeyIsNeeded(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true, config: func(c *Config) { c.Listen = "127.0.0.1:0" }})
	require.ErrorIs(t, w.app.Run(t.Context()), ErrRefused)
}

// TestSignatures: only what the application's key has signed lately, as it stands, is
// taken.
func TestSignatures(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	_, other, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	w.app.cfg.PublicKey = hex.EncodeToString(public)
	h, err := w.app.Handler()
	require.NoError(t, err)
	const ping = `{"type":1,"id":"1","token":"t"}`
	for name, c := range map[string]struct {
		age        time.Duration
		key        ed25519.PrivateKey
		sent, path string
		stamp      string
		want       int
	}{
		"as it should be":     {want: http.StatusOK},
		"four minutes old":    {age: 4 * time.Minute, want: http.StatusOK},
		"six minutes old":     {age: 6 * time.Minute, want: http.StatusUnauthorized},
		"of the future":       {age: -6 * time.Minute, want: http.StatusUnauthorized},
		"another key's":       {key: other, want: http.StatusUnauthorized},
		"another body":        {sent: `{"type":2,"id":"1","token":"t"}`, want: http.StatusUnauthorized},
		"another time":        {stamp: strconv.FormatInt(time.Now().Unix()-1, 10), want: http.StatusUnauthorized},
		"a time that is none": {stamp: "soon", want: http.StatusUnauthorized},
		"too long":            {sent: ping + strings.Repeat(" ", maxRequest), want: http.StatusUnauthorized},
		"another path":        {path: "/", want: http.StatusNotFound},
		"signed, and no JSON": {sent: "signed", want: http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stamp := strconv.FormatInt(time.Now().Add(-c.age).Unix(), 10)
			key, body, signed := private, ping, ping
			if c.key != nil {
				key = c.key
			}
			if c.sent == "signed" {
				body, signed = "{", "{"
			} else if c.sent != "" {
				body = c.sent
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, cmp.Or(c.path, "/discord/interactions"), strings.NewReader(body))
			r.Header.Set("X-Signature-Ed25519", hex.EncodeToString(ed25519.Sign(key, []byte(stamp+signed))))
			r.Header.Set("X-Signature-Timestamp", cmp.Or(c.stamp, stamp))
			got := httptest.NewRecorder()
			h.ServeHTTP(got, r)
			require.Equal(t, c.want, got.Code, got.Body.String())
		})
	}
}
