package discordfake

import (
	"bytes"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/stretchr/testify/require"
)

// to sends the library's requests to the fake.
type to struct{ base *url.URL }

func (t to) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = t.base.Scheme, t.base.Host
	return http.DefaultTransport.RoundTrip(r)
}

// library is a library's session with the fake, which is not connected yet.
func library(t *testing.T, s *Server) *discordgo.Session {
	t.Helper()
	d, err := discordgo.New("Bot " + s.Token())
	require.NoError(t, err)
	base, err := url.Parse(s.URL())
	require.NoError(t, err)
	d.Client = &http.Client{Transport: to{base}, Timeout: 20 * time.Second}
	d.Identify.Intents = discordgo.IntentGuilds | discordgo.IntentGuildMessages | discordgo.IntentMessageContent
	d.StateEnabled = false
	d.SyncEvents = true
	d.LogLevel = -1
	d.ShouldRetryOnRateLimit = false
	d.MaxRestRetries = 0
	return d
}

// heard collects events by name.
type heard struct {
	mu     sync.Mutex
	events []*discordgo.Event
}

func listen(t *testing.T, d *discordgo.Session) *heard {
	t.Helper()
	h := &heard{}
	d.AddHandler(func(_ *discordgo.Session, e *discordgo.Event) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.events = append(h.events, e)
	})
	require.NoError(t, d.Open())
	t.Cleanup(func() { _ = d.Close() })
	return h
}

func (h *heard) of(name string) []*discordgo.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []*discordgo.Event
	for _, e := range h.events {
		if e.Type == name {
			out = append(out, e)
		}
	}
	return out
}

// wait waits for the nth event of a name and decodes it.
func (h *heard) wait(t *testing.T, name string, n int) map[string]any {
	t.Helper()
	require.Eventually(t, func() bool { return len(h.of(name)) >= n }, wait5, 5*time.Millisecond, "no %s", name)
	var out map[string]any
	require.NoError(t, json.Unmarshal(h.of(name)[n-1].RawData, &out))
	return out
}

func fake(t *testing.T, o Options) *Server {
	t.Helper()
	s := New(o)
	t.Cleanup(s.Close)
	return s
}

// reply is a plain HTTP answer.
type reply struct {
	status int
	header http.Header
	body   map[string]any
	raw    string
}

func (r reply) code() int {
	n, _ := r.body["code"].(float64)
	return int(n)
}

// at follows keys in the body.
func (r reply) at(keys ...string) any {
	var v any = r.body
	for _, k := range keys {
		m, _ := v.(map[string]any)
		v = m[k]
	}
	return v
}

// call sends plain JSON; a nil body is none.
func call(t *testing.T, s *Server, method, path, body string) reply {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	return send(t, s, method, path, "application/json", r)
}

func send(t *testing.T, s *Server, method, path, kind string, body io.Reader) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL()+path, body)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bot "+s.Token())
	req.Header.Set("User-Agent", "DiscordBot (https://example.com, 1)")
	if body != nil {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	out := reply{status: resp.StatusCode, header: resp.Header, raw: string(data)}
	_ = json.Unmarshal(data, &out.body)
	return out
}

// form sends payload_json and files.
func form(t *testing.T, s *Server, method, path, payload string, files map[string]string) reply {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	require.NoError(t, w.WriteField("payload_json", payload))
	for field, content := range files {
		part, err := w.CreateFormFile(field, "out put.txt")
		require.NoError(t, err)
		_, err = io.WriteString(part, content)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return send(t, s, method, path, w.FormDataContentType(), &b)
}

const (
	wait5 = time.Minute
	tick  = 5 * time.Millisecond
)

func decodeList(t *testing.T, raw string) []map[string]any {
	t.Helper()
	var out []map[string]any
	require.NoError(t, json.Unmarshal([]byte(raw), &out))
	return out
}
