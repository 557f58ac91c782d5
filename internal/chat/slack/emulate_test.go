package slack

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/slack-go/slack"
	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/workflows"
)

// emulatePackage is a Slack Web API that others wrote: a second opinion beside
// our own fake. It knows no Socket Mode, limits or rates.
const emulatePackage = "emulate@0.8.0"

// emulateSeed makes a bot, and a person with a token of her own.
const emulateSeed = `slack:
  team: {name: Fake, domain: fake}
  users:
    - {name: countersign, real_name: Countersign}
    - {name: ada, real_name: Ada}
  channels:
    - {name: general}
  tokens:
    - {token: xoxb-emulate, user: countersign, scopes: [chat:write, channels:read, channels:history, users:read, files:write]}
    - {token: xoxp-ada, user: ada, scopes: [chat:write, channels:read, channels:history, users:read]}
`

// emulator starts the emulator and returns its base URL. The directory that
// COUNTERSIGN_EMULATE names holds its node_modules; else npm fetches it.
func emulator(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("COUNTERSIGN_EMULATE")
	if dir == "" {
		dir = t.TempDir()
		out, err := exec.Command("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", dir, emulatePackage).CombinedOutput()
		if err != nil {
			t.Skipf("needs %s: set COUNTERSIGN_EMULATE to where it is installed, or install npm: %v: %s", emulatePackage, err, out)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	seed := filepath.Join(t.TempDir(), "seed.yaml")
	require.NoError(t, os.WriteFile(seed, []byte(emulateSeed), 0o600))
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "node_modules", ".bin", "emulate"), "start", "-s", "slack", "-p", port, "--seed", seed,
		"--base-url", "http://127.0.0.1:"+port)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	base := "http://127.0.0.1:" + port
	require.Eventually(t, func() bool {
		resp, err := http.Get(base + "/")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return true
	}, time.Minute, 50*time.Millisecond, "the emulator does not answer")
	return base
}

// bearer puts the token into the header too: slack-go sends it in the form, and
// the emulator reads only the header.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func (b bearer) client() *http.Client { return &http.Client{Transport: b, Timeout: callTimeout} }

func (b bearer) api(base string) *slack.Client {
	return slack.New(string(b), slack.OptionAPIURL(base+"/api/"), slack.OptionHTTPClient(b.client()))
}

func TestOnAnIndependentWebAPI(t *testing.T) {
	t.Parallel()
	base := emulator(t)
	robot, person := bearer("xoxb-emulate"), bearer("xoxp-ada").api(base)
	channels, _, err := person.GetConversationsContext(t.Context(), &slack.GetConversationsParameters{})
	require.NoError(t, err)
	require.NotEmpty(t, channels)
	channel := channels[0].ID
	app, err := Connect(t.Context(), Config{BotToken: secret("xoxb-emulate"), AppToken: secret("xapp-none"), APIURL: base + "/api/"}, Deps{
		Sessions: &chattest.Sessions{}, Views: &chattest.Sessions{}, Blobs: &chattest.Blobs{}, Backends: []string{"local"}, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		HTTP: robot.client(),
	})
	require.NoError(t, err)
	for _, api := range []*slack.Client{robot.api(base), person} {
		_, _, _, err := api.JoinConversationContext(t.Context(), channel)
		require.NoError(t, err)
	}
	var mu sync.Mutex // one root at a time, so that each test knows its own
	chattest.Conform(t, func(t *testing.T) chattest.Platform {
		mu.Lock()
		defer mu.Unlock()
		_, root, err := person.PostMessageContext(context.Background(), channel, slack.MsgOptionText("a question of "+t.Name(), false))
		require.NoError(t, err)
		return chattest.Platform{
			Poster: app.Poster(), Thread: app.thread(channel, root), New: app.thread(channel, ""),
			Read: func(t *testing.T, thread workflows.Thread) []chattest.Shown { return emulated(t, app, base, thread) },
		}
	})
}

// emulated reads a thread from the emulator.
func emulated(t *testing.T, app *App, base string, thread workflows.Thread) []chattest.Shown {
	t.Helper()
	var p struct {
		Messages []struct {
			TS     string          `json:"ts"`
			User   string          `json:"user"`
			Text   string          `json:"text"`
			Blocks json.RawMessage `json:"blocks"`
			Files  []struct {
				Name string `json:"name"`
				URL  string `json:"url_private"`
			} `json:"files"`
			Metadata struct {
				Payload payload `json:"event_payload"`
			} `json:"metadata"`
		} `json:"messages"`
	}
	_, err := app.api.call(t.Context(), "conversations.replies", url.Values{
		"channel": {thread.Channel}, "ts": {thread.ID}, "limit": {"200"}, "include_all_metadata": {"true"},
	}, &p)
	require.NoError(t, err)
	files := map[string]string{}
	for _, m := range p.Messages {
		for _, f := range m.Files {
			var b bytes.Buffer
			require.NoError(t, bearer("xoxb-emulate").api(base).GetFileContext(t.Context(), f.URL, &b))
			files[f.Name] = b.String()
		}
	}
	var out []chattest.Shown
	for _, m := range p.Messages {
		if m.User != app.self.User || len(m.Files) > 0 {
			continue
		}
		text := blockText(m.Blocks)
		if m.Metadata.Payload.File != "" {
			text += files[m.Metadata.Payload.File]
		}
		if m.Metadata.Payload.Part > 0 {
			out[len(out)-1].Text += text
			continue
		}
		out = append(out, chattest.Shown{Ref: m.TS, Text: text, Buttons: labels(m.Blocks)})
	}
	return out
}
