package web_test

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/chat/web"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Del(name)
		if name == "Host" {
			r.Host = value
		} else if value != "" {
			r.Header.Set(name, value)
		}
	}
}

func TestEverythingNeedsTheToken(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, call := range []string{
		"GET /api/v1/meta", "GET /api/v1/channels", "GET /api/v1/channels/general/threads", "GET /api/v1/threads/x",
		"GET /api/v1/events", "GET /api/v1/tool_calls/x/output", "POST /api/v1/channels/general/messages",
		"POST /api/v1/threads/x/messages", "POST /api/v1/messages/x/click", "GET /api/v1/nonsense",
	} {
		method, path, _ := strings.Cut(call, " ")
		for _, auth := range []string{"", "Bearer", "Bearer ", "Bearer " + token + "x", "Bearer x" + token, "Basic " + token, token} {
			require.Equal(t, "unauthorized", s.refused(401, method, path, "{}", header("Authorization", auth)), call)
		}
	}
	s.refused(404, "GET", "/api/v1/nonsense", "")
	s.refused(404, "GET", "/api/v1/threads/x", "")
	s.refused(404, "GET", "/api/v1/channels/x/threads", "")
	s.refused(404, "POST", "/api/v1/channels/x/messages", text("/agent x", ""))
	s.refused(404, "POST", "/api/v1/threads/0000000000000001/messages", text("x", ""))
}

func TestOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, host := range []string{"evil.example", "evil.example:8466", "127.0.0.1.evil.example", "10.0.0.1:8466", "localhost.evil.example"} {
		require.Equal(t, "wrong_host", s.refused(403, "GET", "/", "", header("Host", host)))
		require.Equal(t, "wrong_host", s.refused(403, "GET", "/api/v1/meta", "", header("Host", host)))
	}
	for _, host := range []string{"localhost:8466", "127.0.0.1", "[::1]:8466", "LOCALHOST"} {
		status, _ := s.do("GET", "/api/v1/meta", "", header("Host", host))
		require.Equal(t, 200, status, host)
	}
	for _, origin := range []string{"https://evil.example", "null", "http://127.0.0.1:1", "http://localhost"} {
		require.Equal(t, "wrong_origin", s.refused(403, "POST", general, text("/agent x", ""), header("Origin", origin)))
	}
	status, _ := s.do("POST", general, text("/agent x", ""), header("Origin", s.URL()))
	require.Equal(t, http.StatusAccepted, status)
	require.Len(t, s.sessions.Asked("RequestSession"), 1)
}

func TestSecurityHeaders(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, path := range []string{"/", "/index.html", "/api/v1/meta", "/nothing"} {
		res, err := http.Get(s.URL() + path) //nolint:noctx // the test's server
		require.NoError(t, err)
		_ = res.Body.Close()
		require.Equal(t, "nosniff", res.Header.Get("X-Content-Type-Options"))
		require.Equal(t, "DENY", res.Header.Get("X-Frame-Options"))
		require.Equal(t, "no-referrer", res.Header.Get("Referrer-Policy"))
		require.Empty(t, res.Header.Get("Access-Control-Allow-Origin"))
	}
	res, err := http.Get(s.URL() + "/") //nolint:noctx // the test's server
	require.NoError(t, err)
	_ = res.Body.Close()
	require.Equal(t, 200, res.StatusCode)
	require.Equal(t, "default-src 'none'", res.Header.Get("Content-Security-Policy"))
	require.Contains(t, res.Header.Get("Content-Type"), "text/html")
	for _, path := range []string{"/../web.go", "/%2e%2e/chat.db", "/.git/config"} {
		s.refused(404, "GET", path, "")
	}
	s.refused(405, "POST", "/", "")
}

func TestWhoSpeaks(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, bad := range []string{"a b", "../x", "<b>", strings.Repeat("x", 33), "a/b"} {
		require.Equal(t, "bad_person", s.refused(400, "GET", "/api/v1/meta", "", as(bad)))
	}
	you := func(s *site, change ...func(*http.Request)) string {
		status, data := s.do("GET", "/api/v1/meta", "", change...)
		require.Equal(t, 200, status, string(data))
		return decode[struct{ You string }](t, data).You
	}
	require.Equal(t, "ada", you(s))
	require.Equal(t, "you", you(s, header("X-Act-As", "")))
	require.Equal(t, "zoë", you(s, as("zo%C3%AB")))

	own := openIn(t, t.TempDir(), &chattest.Sessions{}, func(o *web.Options) {
		o.ActAs, o.Token = false, telemetry.Secret{}
		o.People = map[string]telemetry.Secret{"ada": telemetry.NewSecret(token), "grace": telemetry.NewSecret("another-token-0123456789")}
	})
	require.Equal(t, "ada", you(own, header("X-Act-As", "")))
	require.Equal(t, "grace", you(own, header("X-Act-As", ""), header("Authorization", "Bearer another-token-0123456789")))
	require.Equal(t, "act_as_off", own.refused(403, "GET", "/api/v1/meta", "", as("grace")))
	require.NotContains(t, own.Link(), "token")
}

func TestTokenIsMadeOnceAndKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	random := func(o *web.Options) { o.Token = telemetry.Secret{} }
	s := openIn(t, dir, &chattest.Sessions{}, random)
	first := s.Token().Reveal()
	require.GreaterOrEqual(t, len(first), 32)
	require.Equal(t, s.URL()+"/#token="+first, s.Link())
	require.NotContains(t, s.URL(), first)
	info, err := os.Stat(filepath.Join(dir, "token"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	s.stop()
	require.Equal(t, first, openIn(t, dir, &chattest.Sessions{}, random).Token().Reveal())
}

func TestListenFailsInWords(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	_, err = web.New(t.Context(), web.Options{Dir: t.TempDir(), Listen: l.Addr().String()})
	require.ErrorContains(t, err, "is taken")
	_, err = web.New(t.Context(), web.Options{Dir: t.TempDir(), Listen: "0.0.0.0:0"})
	require.ErrorContains(t, err, "not a loopback address")
	_, err = web.New(t.Context(), web.Options{Dir: t.TempDir(), Listen: "8466"})
	require.ErrorContains(t, err, "host:port")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = web.New(t.Context(), web.Options{Dir: filepath.Join(file, "x"), Listen: "127.0.0.1:0"})
	require.ErrorContains(t, err, "web chat's directory")
}

func TestOutputIsRawAndResumable(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.post(general, text("/agent hello", ""))
	call := p.ThreadID + ".1.1"
	path := "/api/v1/tool_calls/" + call + "/output"
	s.refused(404, "GET", path, "")
	s.refused(404, "GET", "/api/v1/tool_calls/nonsense/output", "")
	s.refused(404, "GET", "/api/v1/tool_calls/0000000000000001.1.1/output", "")
	s.refused(400, "GET", path+"?stream=x", "")
	s.refused(400, "GET", path+"?offset=-1", "")

	turn := workflows.MessageView{Key: "turn-1", Kind: workflows.KindTurn, Version: 1, Turn: &workflows.TurnView{
		Number: 1, State: workflows.TurnWorking, Calls: []workflows.CallView{{ID: call, Command: "x", State: workflows.CallPending}},
	}}
	s.show(p.ThreadID, turn)
	status, data := s.do("GET", path, "")
	require.Equal(t, 200, status)
	require.Empty(t, data)

	turn.Version, turn.Turn.Calls[0].ExecID, turn.Turn.Calls[0].State = 2, call+".x1", workflows.CallRunning
	s.show(p.ThreadID, turn)
	s.outputs.data[call+".x1/stdout"] = "a\x00\xff\r\n" + strings.Repeat("y", 3<<20)
	s.outputs.data[call+".x1/stderr"] = "oops"
	_, data = s.do("GET", path, "")
	require.Equal(t, s.outputs.data[call+".x1/stdout"], string(data))
	_, data = s.do("GET", path+"?stream=stdout&offset=3", "")
	require.Equal(t, s.outputs.data[call+".x1/stdout"][3:], string(data))
	_, data = s.do("GET", path+"?stream=stdout&offset=99999999", "")
	require.Empty(t, data)
	_, data = s.do("GET", path+"?stream=stderr", "")
	require.Equal(t, "oops", string(data))

	// Secrets are covered byte for byte, wherever they are read from; while the
	// call runs, a last word that may become one is kept back.
	token := "ghp_" + strings.Repeat("a1B2c3D4e5", 4)[:36]
	covered := "ghp_" + strings.Repeat("*", 36)
	long := strings.Repeat("z 0123456789\n", 100_000)
	s.outputs.data[call+".x1/stdout"] = long + token + "\n" + long + token[:20]
	s.sessions.Calls = map[string]workflows.ToolCallInfo{call: {ExecID: call + ".x1"}}
	for _, offset := range []int{0, 1, len(long) - 3, len(long), len(long) + 2, len(long) + 10, len(long) + 39, len(long) + 41, 2 * len(long)} {
		_, data = s.do("GET", path+"?offset="+strconv.Itoa(offset), "")
		require.Equal(t, (long + covered + "\n" + long)[offset:], string(data), offset)
	}
	s.outputs.data[call+".x1/stdout"] += token[20:]
	_, data = s.do("GET", path+"?offset="+strconv.Itoa(2*len(long)+41), "")
	require.Empty(t, data)
	s.sessions.Calls = map[string]workflows.ToolCallInfo{call: {ExecID: call + ".x1", Ended: true}}
	_, data = s.do("GET", path+"?offset="+strconv.Itoa(2*len(long)+41), "")
	require.Equal(t, covered, string(data))

	// The card may lag behind the session.
	s.sessions.Calls = map[string]workflows.ToolCallInfo{p.ThreadID + ".1.2": {ExecID: call + ".x1"}}
	s.outputs.data[call+".x1/stderr"] = "oops\n"
	_, data = s.do("GET", "/api/v1/tool_calls/"+p.ThreadID+".1.2/output?stream=stderr", "")
	require.Equal(t, "oops\n", string(data))
}
