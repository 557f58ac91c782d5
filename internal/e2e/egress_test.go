package e2e_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// hosts are two servers of the test's, of which a workspace's manifest names one.
type hosts struct {
	named, other string // host:port
	reached      atomic.Int64
}

// newHosts starts the servers and writes the manifest.
func newHosts(t testing.TB, d *dev) *hosts {
	t.Helper()
	h := &hosts{}
	serve := func(f http.HandlerFunc) string {
		s := httptest.NewServer(f)
		t.Cleanup(s.Close)
		u, err := url.Parse(s.URL)
		require.NoError(t, err)
		return u.Host
	}
	h.named = serve(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello from "+r.URL.Path) })
	h.other = serve(func(http.ResponseWriter, *http.Request) { h.reached.Add(1) })
	text := fmt.Sprintf("workspaces:\n  net: {network: [%q]}\n", h.named)
	require.NoError(t, os.WriteFile(filepath.Join(d.home, "countersign.yaml"), []byte(text), 0o600))
	return h
}

// check runs commands in a new session: through the proxy to the named host and to
// the other, and past the proxy.
func (h *hosts) check(t testing.TB, ada *client, get func(host, path string) string, past string) {
	t.Helper()
	id := ada.opens(t, "run --workspace net ``"+get(h.named, "/listed")+"``")
	c := ada.approves(t, id, 1)
	ran(t, c)
	require.Contains(t, ada.output(t, c.ID, "stdout", 0), "hello from /listed")
	require.Empty(t, c.Note)

	c = ada.does(t, id, 2, get(h.other, "/other"))
	require.Equal(t, "completed", c.State)
	require.Contains(t, ada.output(t, c.ID, "stdout", 0)+ada.output(t, c.ID, "stderr", 0), "403 Forbidden")
	const said = "A connection was refused: the workspace's manifest does not name "
	require.Equal(t, said+h.other+".", c.Note, "on the card")
	require.Contains(t, ada.thread(t, id).answer(2).Text, said+h.other, "to the model")

	c = ada.does(t, id, 3, past)
	require.Equal(t, "completed", c.State)
	require.NotEqual(t, 0, *c.ExitCode, "past the proxy")
	require.Zero(t, h.reached.Load())

	id = ada.opens(t, "``"+get(h.named, "/listed")+"``")
	c = ada.approves(t, id, 1)
	require.NotEqual(t, 0, *c.ExitCode, "a workspace whose manifest names no hosts")
	require.NotContains(t, ada.output(t, c.ID, "stdout", 0), "hello")
}

// The hosts that a workspace's manifest names are reached by commands of local
// sandboxes, and no others.
func TestEgressLocal(t *testing.T) {
	t.Parallel()
	if !bubblewrapWorks() {
		t.Skip("bubblewrap does not work here")
	}
	d := newDev(t)
	h := newHosts(t, d)
	d.up(t)
	get := func(host, path string) string {
		return `exec 3<>/dev/tcp/127.0.0.1/3128 && printf 'GET http://` + host + path + ` HTTP/1.1\r\nHost: x\r\n\r\n' >&3 && cat <&3`
	}
	h.check(t, d.as("ada"), get, "exec 3<>/dev/tcp/"+strings.Replace(h.named, ":", "/", 1))
}

// The same in Docker sandboxes: the worker's program goes into the container to carry
// connections out, with what it is linked against.
func TestEgressDocker(t *testing.T) {
	t.Parallel()
	d, _ := dockerDev(t)
	h := newHosts(t, d)
	d.up(t)
	get := func(host, path string) string { return "wget -q -O - http://" + host + path }
	h.check(t, d.as("ada"), get, "unset http_proxy; wget -q -T 5 -O - http://"+h.named+"/past")
}
