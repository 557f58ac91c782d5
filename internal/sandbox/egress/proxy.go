// Package egress lets the commands of a sandbox without a network reach a few
// hosts: those that the workspace's manifest names.
//
// The sandbox keeps having no network. A forwarder inside it ([Forward]) listens
// on its loopback and carries bytes, over a socket that the backend gives it, to
// a [Proxy] in the worker, which alone resolves names and connects. What is not
// asked of the proxy leads nowhere, so that there is nothing to get around: no
// route, no resolver, no address of the worker's machine.
//
// The proxy goes by the host that it is asked for. What is said inside TLS it
// does not see: who may reach one host of a large network of caches may reach
// others that it serves.
package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/countersign/countersign/internal/manifest"
)

// Address is where the forwarder listens inside a sandbox.
const Address = "127.0.0.1:3128"

// Environ are the variables by which programs find the proxy.
func Environ() map[string]string {
	const at, here = "http://" + Address, "localhost,127.0.0.1,::1"
	return map[string]string{
		"http_proxy": at, "https_proxy": at, "HTTP_PROXY": at, "HTTPS_PROXY": at, "no_proxy": here, "NO_PROXY": here,
	}
}

const (
	dialTimeout = 15 * time.Second
	headTimeout = 30 * time.Second // for a request's head
	maxHead     = 64 << 10         // bytes of a request's head
)

// Proxy connects to the hosts of one sandbox. It is safe for concurrent use.
type Proxy struct {
	// Lookup resolves a name; nil asks the worker's resolver.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	// Log gets what was refused; nil discards it.
	Log *slog.Logger

	mu       sync.Mutex
	hosts    []manifest.Host
	refusals []refusal // the last ones
}

// refusal is one connection that was refused.
type refusal struct {
	at  time.Time
	why refused
}

// maxRefusals is how many refusals are remembered.
const maxRefusals = 100

// Refused says why connections were refused since a moment, each reason once. Most
// programs show of an answer no more than its number. Nil has refused nothing.
func (p *Proxy) Refused(since time.Time) []string {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for _, r := range p.refusals {
		if !r.at.Before(since) && !slices.Contains(all, string(r.why)) {
			all = append(all, string(r.why))
		}
	}
	return all
}

func (p *Proxy) remember(why refused) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusals = append(p.refusals, refusal{time.Now(), why})
	p.refusals = p.refusals[max(0, len(p.refusals)-maxRefusals):]
}

// New returns a proxy for these entries of a manifest.
func New(network []string, log *slog.Logger) (*Proxy, error) {
	p := &Proxy{Log: log}
	return p, p.Allow(network)
}

// Allow replaces what may be reached; connections that stand stay.
func (p *Proxy) Allow(network []string) error {
	var hosts []manifest.Host
	for _, text := range network {
		h, err := manifest.ParseHost(text)
		if err != nil {
			return fmt.Errorf("the manifest's network: %w", err)
		}
		hosts = append(hosts, h)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hosts = hosts
	return nil
}

// refused says why something may not be reached, in words for who runs a command.
type refused string

func (r refused) Error() string { return string(r) }

// dial connects to host:port if it is listed and leads where it may.
func (p *Proxy) dial(ctx context.Context, address string) (net.Conn, error) {
	name, portText, err := net.SplitHostPort(address)
	port, perr := strconv.Atoi(portText)
	if err != nil || perr != nil || port < 1 || port > 65535 {
		return nil, refused(fmt.Sprintf("%q is not host:port", address))
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	entry, ok := p.find(name, port)
	if !ok {
		return nil, refused("the workspace's manifest does not name " + net.JoinHostPort(name, portText))
	}
	addrs, err := p.resolve(ctx, entry, name)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: dialTimeout}
	for _, a := range addrs {
		var c net.Conn
		// The address that was looked at, not the name, which may lead elsewhere by now.
		if c, err = d.DialContext(ctx, "tcp", netip.AddrPortFrom(a, uint16(port)).String()); err == nil {
			return c, nil
		}
	}
	return nil, fmt.Errorf("connecting to %s: %w", net.JoinHostPort(name, portText), err)
}

func (p *Proxy) find(name string, port int) (manifest.Host, bool) {
	if a, err := netip.ParseAddr(name); err == nil {
		name = a.Unmap().String()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.hosts {
		if h.Allows(name, port) {
			return h, true
		}
	}
	return manifest.Host{}, false
}

// resolve returns the addresses of a listed name that it may have. One that the
// manifest gives as an address is taken as it is.
func (p *Proxy) resolve(ctx context.Context, entry manifest.Host, name string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(name); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	lookup := p.Lookup
	if lookup == nil {
		lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name+".")
		}
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	all, err := lookup(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("looking up %s: %w", name, err)
	}
	var good []netip.Addr
	for _, a := range all {
		if a = a.Unmap(); reachable(a, entry.Below) {
			good = append(good, a)
		}
	}
	if len(good) == 0 {
		return nil, refused(name + " leads to an address that sandboxes do not reach")
	}
	return good, nil
}

// mapped are networks of IPv6 that lead to addresses of IPv4, which are not
// looked at inside them.
var mapped = []netip.Prefix{
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("2001::/32"), netip.MustParsePrefix("0.0.0.0/8"),
}

// reachable tells whether a name may lead to an address: never to the worker's
// own machine, to its neighbours by link or to a cloud's credentials; to a
// private network only where the manifest gives the whole name.
func reachable(a netip.Addr, below bool) bool {
	if !a.IsValid() || a.Zone() != "" || a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() || a.IsMulticast() || manifest.Metadata(a) {
		return false
	}
	for _, n := range mapped {
		if n.Contains(a) {
			return false
		}
	}
	return !below || !a.IsPrivate()
}

// Serve answers what the forwarder carries on one connection, and closes it.
func (p *Proxy) Serve(ctx context.Context, conn io.ReadWriteCloser) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	late := time.AfterFunc(headTimeout, func() { _ = conn.Close() })
	head := &io.LimitedReader{R: conn, N: maxHead}
	r := bufio.NewReader(head)
	req, err := http.ReadRequest(r)
	late.Stop()
	if err != nil {
		answer(conn, http.StatusBadRequest, "that is no request for a proxy")
		return
	}
	head.N = 1 << 62 // the rest is content
	if req.Method == http.MethodConnect {
		p.tunnel(ctx, conn, r, req)
		return
	}
	p.forward(ctx, conn, req)
}

// tunnel answers CONNECT.
func (p *Proxy) tunnel(ctx context.Context, conn io.ReadWriteCloser, r io.Reader, req *http.Request) {
	to, err := p.dial(ctx, req.Host)
	if err != nil {
		p.refuse(ctx, conn, req.Host, err)
		return
	}
	defer to.Close()
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(to, r)
		if half, ok := to.(*net.TCPConn); ok {
			_ = half.CloseWrite()
		}
	})
	_, _ = io.Copy(conn, to)
	_ = conn.Close() // ends the other direction
	wg.Wait()
}

// forward answers one request for an http URL.
func (p *Proxy) forward(ctx context.Context, conn io.ReadWriteCloser, req *http.Request) {
	if req.URL.Scheme != "http" || req.URL.Host == "" {
		answer(conn, http.StatusBadRequest, "only http URLs and CONNECT are served")
		return
	}
	address := req.URL.Host
	if req.URL.Port() == "" {
		address = net.JoinHostPort(req.URL.Hostname(), "80")
	}
	to, err := p.dial(ctx, address)
	if err != nil {
		p.refuse(ctx, conn, address, err)
		return
	}
	defer to.Close()
	stop := context.AfterFunc(ctx, func() { _ = to.Close() })
	defer stop()
	for _, h := range []string{"Proxy-Connection", "Proxy-Authorization", "Connection", "Keep-Alive", "Te", "Trailer", "Upgrade"} {
		req.Header.Del(h)
	}
	// What was looked at is what is asked for.
	req.Host, req.Close = req.URL.Host, true
	if _, ok := req.Header["User-Agent"]; !ok {
		req.Header.Set("User-Agent", "") // or Go would name itself
	}
	if req.Write(to) != nil {
		answer(conn, http.StatusBadGateway, "the host broke off")
		return
	}
	_, _ = io.Copy(conn, to)
}

func (p *Proxy) refuse(ctx context.Context, conn io.Writer, address string, err error) {
	var no refused
	if errors.As(err, &no) {
		if p.Log != nil {
			p.Log.InfoContext(ctx, "A sandbox was refused a host", "address", address, "reason", string(no))
		}
		p.remember(no)
		answer(conn, http.StatusForbidden, string(no))
		return
	}
	answer(conn, http.StatusBadGateway, err.Error())
}

func answer(w io.Writer, code int, why string) {
	body := "countersign: " + why + ".\n"
	fmt.Fprintf(w, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		code, http.StatusText(code), len(body), body)
}
