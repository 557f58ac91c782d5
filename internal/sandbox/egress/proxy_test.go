package egress_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox/egress"
)

// through sends one request to a proxy and returns what comes back.
func through(t *testing.T, p *egress.Proxy, request string) (*http.Response, string) {
	t.Helper()
	here, there := net.Pipe()
	go p.Serve(t.Context(), there)
	defer here.Close()
	_, err := io.WriteString(here, request)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(here), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(body)
}

func server(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s %v", r.Host, r.URL, r.Header.Get("User-Agent"), r.Header["Proxy-Authorization"])
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	require.NoError(t, err)
	return u.Host
}

func TestListedHost(t *testing.T) {
	t.Parallel()
	host := server(t)
	p, err := egress.New([]string{host}, nil)
	require.NoError(t, err)
	resp, body := through(t, p, "GET http://"+host+"/x?y HTTP/1.1\r\nHost: evil.example\r\nProxy-Authorization: secret\r\n\r\n")
	require.Equal(t, 200, resp.StatusCode)
	require.Equal(t, host+" /x?y  []", body, "the host that was looked at is the one that is asked")

	here, there := net.Pipe()
	go p.Serve(t.Context(), there)
	defer here.Close()
	_, err = io.WriteString(here, "CONNECT "+host+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
	require.NoError(t, err)
	r := bufio.NewReader(here)
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 200 Connection established\r\n", line)
	_, err = r.ReadString('\n')
	require.NoError(t, err)
	_, err = io.WriteString(here, "GET /in HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	resp, err = http.ReadResponse(r, nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, 200, resp.StatusCode)
}

func TestOthersAreRefused(t *testing.T) {
	t.Parallel()
	host := server(t)
	_, port, err := net.SplitHostPort(host)
	require.NoError(t, err)
	p, err := egress.New([]string{"listed.example:" + port, "*.below.example:" + port, host}, nil)
	require.NoError(t, err)
	leads := map[string]string{
		"listed.example": "127.0.0.1", "a.below.example": "10.1.2.3", "b.below.example": "169.254.169.254",
	}
	p.Lookup = func(_ context.Context, name string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr(leads[name])}, nil
	}
	for _, target := range []string{
		"other.example:" + port, "127.0.0.1:1", "localhost:" + port, "127.1:" + port, "2130706433:" + port, "0x7f000001:" + port,
		"[::1]:" + port, "[::]:" + port, "169.254.169.254:80", "[::ffff:a9fe:a9fe]:80", "[fd00:ec2::254]:80", "10.0.0.1:" + port,
		"listed.example:1", "below.example:" + port, "evillisted.example:" + port, "listed.example.evil:" + port, host + "@other.example:" + port,
		"listed.example:" + port, "a.below.example:" + port, "b.below.example:" + port, // these by where they lead
		"listed.example.:" + port, "LISTED.example:" + port, "listed.example", ":" + port, "x",
	} {
		resp, body := through(t, p, "CONNECT "+target+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		require.Contains(t, []int{400, 403}, resp.StatusCode, target)
		require.True(t, strings.HasPrefix(body, "countersign: "), body)
		if !strings.Contains(target, "@") {
			resp, _ = through(t, p, "GET http://"+target+"/ HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
			require.Contains(t, []int{400, 403}, resp.StatusCode, target)
		}
	}
	for _, request := range []string{"GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n", "GET ftp://" + host + "/ HTTP/1.1\r\nHost: x\r\n\r\n", "nonsense\r\n\r\n"} {
		resp, _ := through(t, p, request)
		require.Equal(t, 400, resp.StatusCode, request)
	}
	require.NoError(t, p.Allow(nil))
	resp, _ := through(t, p, "CONNECT "+host+" HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Equal(t, 403, resp.StatusCode, "what is no longer listed is no longer reached")
	require.Error(t, p.Allow([]string{"169.254.169.254"}))
}

// A name is looked up once: one that leads elsewhere the second time gains nothing.
func TestLookedUpOnce(t *testing.T) {
	t.Parallel()
	p, err := egress.New([]string{"listed.example:1"}, nil)
	require.NoError(t, err)
	n := 0
	p.Lookup = func(context.Context, string) ([]netip.Addr, error) {
		n++
		return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("64:ff9b::a9fe:a9fe")}, nil
	}
	resp, body := through(t, p, "CONNECT listed.example:1 HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Equal(t, 403, resp.StatusCode)
	require.Contains(t, body, "leads to an address that sandboxes do not reach")
	require.Equal(t, 1, n)
}
