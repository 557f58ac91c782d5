package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
)

// fetch is a command that asks the proxy for something, with bash alone: an image
// need not have curl.
func fetch(request string) string {
	return `exec 3<>/dev/tcp/127.0.0.1/3128 && printf '` + request + `\r\nHost: x\r\n\r\n' >&3 && cat <&3`
}

// A manifest's hosts are reached, and nothing else.
func testNetwork(t *testing.T, b *rig) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "hello from "+r.URL.Path+strings.Repeat(".", 200<<10))
	}))
	defer s.Close()
	u, err := url.Parse(s.URL)
	require.NoError(t, err)
	other, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer other.Close()

	spec := sandbox.Spec{ID: "agent/web/main/" + newID(), Generation: 1, Network: []string{u.Host}}
	box, err := b.backend.Open(t.Context(), spec)
	var refused *sandbox.RefusedError
	if errors.As(err, &refused) {
		require.Contains(t, refused.Text, "names the hosts that commands may reach")
		t.Skip(refused.Text)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, box.Destroy(context.WithoutCancel(t.Context()))) })
	require.True(t, box.Info().Network)
	require.True(t, box.Info().Isolated)
	if box.Info().Shell != "bash" {
		t.Skip("the sandbox has no bash to connect with")
	}
	require.Equal(t, "http://127.0.0.1:3128\n", run(t, box, "echo $https_proxy").Stdout)

	for range 2 { // each command has a way of its own
		r := run(t, box, fetch("GET http://"+u.Host+"/listed HTTP/1.1"))
		require.Contains(t, r.Stdout, "200 OK", r.Stderr)
		require.Contains(t, r.Stdout, "hello from /listed")
		require.Greater(t, len(r.Stdout), 200<<10)
	}
	r := run(t, box, `exec 3<>/dev/tcp/127.0.0.1/3128 && printf 'CONNECT `+u.Host+` HTTP/1.1\r\n\r\n' >&3 && read -r line <&3 && read -r _ <&3 && echo "$line" &&
printf 'GET /inside HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' >&3 && cat <&3`)
	require.Contains(t, r.Stdout, "200 Connection established")
	require.Contains(t, r.Stdout, "hello from /inside")

	began := time.Now()
	for _, target := range []string{other.Addr().String(), "169.254.169.254:80", "example.com:443", "[::ffff:a9fe:a9fe]:80", "localhost:" + u.Port()} {
		r := run(t, box, fetch("CONNECT "+target+" HTTP/1.1"))
		require.Contains(t, r.Stdout, "403 Forbidden", target)
		require.Contains(t, r.Stdout, "the workspace", target)
	}
	// The answer's text is lost on most programs.
	refusals, ok := box.(interface {
		Refused(since time.Time) []string
	})
	require.True(t, ok)
	require.Contains(t, refusals.Refused(began), "the workspace's manifest does not name example.com:443")
	require.Len(t, refusals.Refused(began), 5)
	require.Empty(t, refusals.Refused(time.Now()))
	for what, command := range map[string]string{
		"the host itself":      "exec 3<>/dev/tcp/" + strings.Replace(u.Host, ":", "/", 1),
		"the worker's machine": "exec 3<>/dev/tcp/" + strings.Replace(other.Addr().String(), ":", "/", 1),
		"the metadata address": "timeout 3 bash -c 'exec 3<>/dev/tcp/169.254.169.254/80'",
		"a name server":        "timeout 3 bash -c 'exec 3<>/dev/tcp/1.1.1.1/53'",
		"a network interface":  "grep -v -e lo: -e '|' /proc/net/dev",
	} {
		require.NotEqual(t, 0, run(t, box, command).ExitCode, what)
	}
	// A command that ends the forwarder has no network, and gains none.
	require.NotContains(t, run(t, box, "kill -9 -1; "+fetch("GET http://"+u.Host+"/ HTTP/1.1")).Stdout, "hello from /x")
	require.Contains(t, run(t, box, fetch("GET http://"+u.Host+"/again HTTP/1.1")).Stdout, "hello from /again")

	// The next worker, and another manifest.
	require.NoError(t, box.Release(t.Context()))
	spec.Existing, spec.Network = true, nil
	box, err = b.backend.Open(t.Context(), spec)
	require.NoError(t, err)
	require.False(t, box.Info().Network)
	require.NotEqual(t, 0, run(t, box, fetch("GET http://"+u.Host+"/ HTTP/1.1")).ExitCode)
}

func testNoNetwork(t *testing.T, b *rig) {
	s := b.open(t)
	if !s.Info().Isolated {
		t.Skip("not isolated: " + s.Info().WhyNot)
	}
	require.False(t, s.Info().Network)
	require.Equal(t, "-\n", run(t, s, "echo ${https_proxy:--}").Stdout)
	require.NotEqual(t, 0, run(t, s, "exec 3<>/dev/tcp/127.0.0.1/3128").ExitCode)
}
