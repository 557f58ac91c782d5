package discord

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

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
