package e2e_test

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Bad input gets a clear sentence and the right status; nothing starts by it.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	id := ada.opens(t, "`echo up`")
	th := ada.sees(t, id, "the answer", answered(1))
	const channel = "/channels/general/messages"
	in := "/threads/" + id + "/messages"
	text := func(s string) any { return map[string]string{"text": s, "client_id": rand.Text()} }
	click := "/messages/" + th.turn(1).ID + "/click"
	long := strings.Repeat("x", 1<<20+1)
	for name, c := range map[string]struct {
		status int
		method string
		path   string
		body   any
		says   string
	}{
		"empty":                     {400, "POST", channel, text(""), "empty"},
		"blank":                     {400, "POST", in, text(" \n\t "), "empty"},
		"nothing after the command": {400, "POST", channel, text("/agent  "), "nothing to do"},
		"no text":                   {400, "POST", in, []byte(`{"client_id":"x"}`), "empty"},
		"text of another type":      {400, "POST", in, []byte(`{"text":7}`), ""},
		"plain in a channel":        {400, "POST", channel, text("hello"), "starts nothing"},
		"too long":                  {413, "POST", channel, text("/agent " + long), "1 MiB"},
		"too long in a thread":      {413, "POST", in, text(long), "1 MiB"},
		"far too long":              {413, "POST", in, text(strings.Repeat(long, 8)), ""},
		"invalid UTF-8":             {400, "POST", in, []byte("{\"text\":\"a\xffb\"}"), "UTF-8"},
		"half a surrogate":          {400, "POST", in, []byte(`{"text":"a\ud800b"}`), "UTF-8"},
		"NUL":                       {400, "POST", in, []byte(`{"text":"a\u0000b"}`), "NUL"},
		"malformed JSON":            {400, "POST", in, []byte(`{"text":`), "JSON"},
		"no JSON":                   {400, "POST", in, []byte(`hello`), "JSON"},
		"an array":                  {400, "POST", in, []byte(`["text"]`), "JSON"},
		"empty body":                {400, "POST", in, []byte(``), "JSON"},
		"unknown flag":              {400, "POST", channel, text("/agent --bakend local do it"), "bakend"},
		"flag without a value":      {400, "POST", channel, text("/agent --title"), "--title"},
		"flags in a thread":         {400, "POST", in, text("/agent run --backend local -- do it"), ""},
		"unknown backend":           {400, "POST", channel, text("/agent --backend nowhere do it"), "nowhere"},
		"switch to nowhere":         {400, "POST", in, text("/agent switch nowhere"), "nowhere"},
		"new from nothing":          {400, "POST", channel, text("/agent new --from a/b"), ""},
		"unknown channel":           {404, "POST", "/channels/none/messages", text("/agent hello"), ""},
		"unknown channel's threads": {404, "GET", "/channels/none/threads", nil, ""},
		"unknown thread":            {404, "GET", "/threads/1234567890123456", nil, ""},
		"odd thread":                {404, "GET", "/threads/..%2f..%2fetc", nil, ""},
		"message to no thread":      {404, "POST", "/threads/1234567890123456/messages", text("hello"), ""},
		"unknown message":           {404, "POST", "/messages/1234567890123456/click", map[string]string{"button": "approve"}, ""},
		"unknown tool call":         {404, "GET", "/tool_calls/" + id + ".9.9/output", nil, ""},
		"unknown thread's call":     {404, "GET", "/tool_calls/1234567890123456.1.1/output", nil, ""},
		"odd tool call":             {404, "GET", "/tool_calls/x/output", nil, ""},
		"odd offset":                {400, "GET", "/tool_calls/" + th.calls(1)[0].ID + "/output?offset=-1", nil, ""},
		"odd stream":                {400, "GET", "/tool_calls/" + th.calls(1)[0].ID + "/output?stream=stdin", nil, ""},
		"unknown call of the API":   {404, "GET", "/nothing", nil, ""},
		"a button it lacks":         {409, "POST", click, map[string]string{"button": "approve"}, ""},
		"a button that is none":     {409, "POST", click, map[string]string{"button": "explode"}, ""},
		"no button":                 {400, "POST", click, map[string]string{}, ""},
		"malformed click":           {400, "POST", click, []byte(`{`), ""},
		"button of another type":    {400, "POST", click, []byte(`{"button":5}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := ada.refusal(t, c.status, c.method, c.path, c.body)
			require.Contains(t, r.Error.Message+r.Error.Hint, c.says)
			require.NotContains(t, r.Error.Message, "panic")
		})
	}
	t.Cleanup(func() {
		th := ada.thread(t, id)
		require.Len(t, th.all("turn"), 1, "nothing started")
		require.Len(t, th.all("user"), 1)
	})
}

// Without the token, or with another one, nothing is said.
func TestWrongToken(t *testing.T) {
	t.Parallel()
	d := sharedDev(t)
	for _, token := range []string{"", "Bearer ", "Bearer x", "Bearer " + d.Token + "x", "Basic " + d.Token, "Bearer " + d.Token[:len(d.Token)-1]} {
		for _, path := range []string{"/api/v1/channels/general/threads", "/api/v1/events", "/api/v1/nothing", "/api/v1/meta"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.WebURL+path, nil)
			require.NoError(t, err)
			if token != "" {
				req.Header.Set("Authorization", token)
			}
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, http.StatusUnauthorized, resp.StatusCode, "%q %s", token, path)
		}
	}
	odd := &client{dev: d, name: "a b\tc"}
	status, _, err := odd.request(http.MethodGet, "/meta", nil)
	if err == nil {
		require.Equal(t, http.StatusBadRequest, status, "a name that is none")
	}
}

// Odd commands run, or say why not; the session goes on.
func TestOddCommands(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	huge := "echo " + strings.Repeat("a", 1<<20-200)
	id := ada.opens(t, "a 1 MB command: `"+huge+"`")
	began := time.Now()
	ada.sees(t, id, "it is answered or asks", func(th thread) bool { return len(th.calls(1)) > 0 && (answered(1)(th) || waiting(th) || over(1)(th)) })
	ada.approves(t, id, 1)
	c := ada.thread(t, id).calls(1)[0]
	t.Logf("%v for 1 MB", time.Since(began))
	require.Contains(t, []string{"completed", "failed"}, c.State, "%.300v", c)
	if c.State == "completed" && *c.ExitCode == 0 {
		require.Len(t, ada.output(t, c.ID, "stdout", 0), len(huge)-len("echo ")+1)
	}
	turn := 1
	for _, x := range []struct{ command, want string }{
		{"printf 'a\\000b\\377c\\n'", "a\x00b\xffc\n"},
		{"echo 'unclosed", ""},
		{"no_such_program_here", ""},
		{"exit 300", ""},
		{"kill -SEGV $$", ""},
		{"printf '\\033[31mred\\033[0m'", "\x1b[31mred\x1b[0m"},
		{"echo 'Zürich 日本 🎉'", "Zürich 日本 🎉\n"},
		{"cat", ""},
		{"head -c 3000000 /dev/zero | tr '\\0' x", strings.Repeat("x", 3000000)},
		{"echo last", "last\n"},
	} {
		turn++
		began := time.Now()
		c := ada.does(t, id, turn, x.command)
		t.Logf("%v %.60q", time.Since(began), x.command)
		require.Contains(t, []string{"completed", "failed", "denied"}, c.State, "%q: %+v", x.command, c)
		if x.want != "" {
			require.Equal(t, x.want, ada.output(t, c.ID, "stdout", 0), x.command)
		}
	}
}

// Backends that are not there are refused by name, in chat and as a setting.
func TestBackendsThatAreNotThere(t *testing.T) {
	t.Parallel()
	d := sharedDev(t)
	ada := d.as("ada")
	var meta struct {
		Backends []struct{ Name string } `json:"backends"`
	}
	ada.get(t, "/meta", &meta)
	have := map[string]bool{}
	for _, b := range meta.Backends {
		have[b.Name] = true
	}
	for _, name := range []string{"docker", "e2b", "daytona", "modal"} {
		if have[name] {
			continue
		}
		r := ada.refusal(t, http.StatusBadRequest, http.MethodPost, "/channels/general/messages", map[string]string{"text": "/agent --backend " + name + " `ls`"})
		require.Contains(t, r.Error.Message, name)
		require.Contains(t, r.Error.Hint, "local")
		home := t.TempDir()
		code, _, problem := runs(t, "dev", home, nil, "--data-dir", filepath.Join(home, "data"), "--set", "sandbox.backend="+name)
		require.NotEqual(t, 0, code)
		require.Contains(t, problem, name)
	}
}

// What keeps cmd/dev from starting is said in one sentence, with exit code 1 or 2.
func TestCannotStart(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	_, taken, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	home := t.TempDir()
	file := filepath.Join(home, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(home, "odd.yaml"), []byte("no_such_key: 1\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(home, "broken.yaml"), []byte("a: [\n"), 0o600))
	data := filepath.Join(home, "data")
	for name, c := range map[string]struct {
		args []string
		env  []string
		code int
		says string
	}{
		"taken port":         {args: []string{"--data-dir", data, "--web-listen", "127.0.0.1:" + taken}, code: 1, says: "port " + taken},
		"unwritable":         {args: []string{"--data-dir", "/proc/countersign"}, code: 1, says: "/proc/countersign"},
		"a file":             {args: []string{"--data-dir", file}, code: 1, says: file},
		"no workspace":       {args: []string{"--data-dir", data + "2", "--workspace", filepath.Join(home, "none")}, code: 1, says: "none"},
		"every interface":    {args: []string{"--data-dir", data + "3", "--web-listen", "0.0.0.0:0"}, code: 1, says: "loopback"},
		"unknown flag":       {args: []string{"--no-such-flag"}, code: 2, says: "no-such-flag"},
		"unknown part":       {args: []string{"--without", "server"}, code: 2, says: "server"},
		"unknown key":        {args: []string{"--config", filepath.Join(home, "odd.yaml")}, code: 1, says: "no_such_key"},
		"broken file":        {args: []string{"--config", filepath.Join(home, "broken.yaml")}, code: 1, says: "broken.yaml"},
		"no such file":       {args: []string{"--config", filepath.Join(home, "none.yaml")}, code: 1, says: "none.yaml"},
		"unknown variable":   {env: []string{"COUNTERSIGN_NO_SUCH_KEY=1"}, args: []string{"--data-dir", data + "4"}, code: 1, says: "COUNTERSIGN_NO_SUCH_KEY"},
		"value that is none": {args: []string{"--data-dir", data + "5", "--set", "approvals.ttl=soon"}, code: 1, says: "approvals.ttl"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, problem := runs(t, "dev", home, c.env, c.args...)
			require.Equal(t, c.code, code, problem)
			require.NotContains(t, problem, "panic")
			var words []string
			for _, l := range lines(problem) {
				if !strings.HasPrefix(l, "{") { // what is no log
					words = append(words, l)
				}
			}
			require.LessOrEqual(t, len(words), 3, problem)
			require.Contains(t, strings.Join(words, "\n"), c.says)
		})
	}
}

// A second cmd/dev or worker on the same data directory is refused.
func TestOneAtATime(t *testing.T) {
	t.Parallel()
	d := sharedDev(t)
	code, _, problem := runs(t, "dev", d.home, nil, "--data-dir", d.dir, "--web-listen", "127.0.0.1:0")
	require.Equal(t, 1, code)
	require.Contains(t, problem, fmt.Sprint(d.PID))
	code, _, problem = runs(t, "worker", d.home, nil, "--data-dir", d.dir)
	require.Equal(t, 1, code)
	require.Contains(t, problem, d.dir)
}

// A sandbox that cannot start ends the turn with a sentence; the next message
// tries again.
func TestSandboxThatCannotStart(t *testing.T) {
	t.Parallel()
	d := startDev(t)
	ada := d.as("ada")
	aside := d.workspace + "-aside"
	require.NoError(t, os.Rename(d.workspace, aside))
	id := ada.opens(t, "`ls`")
	th := ada.seesIn(t, 2*within, id, "the turn ends", over(1))
	require.Contains(t, th.turn(1).Text, "Could not go on")
	t.Log(th.turn(1).Text)
	require.NoError(t, os.Rename(aside, d.workspace))
	ada.says(t, id, "`cat README.md`")
	th = ada.sees(t, id, "the session goes on", answered(2))
	require.Contains(t, th.answer(2).Text, "A project.")
}
