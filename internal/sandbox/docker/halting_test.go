package docker_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/sandboxtest"
)

// slowStop stands before an engine and keeps the first stop of a container back, as
// one does that is halted in the middle of it: whoever has asked may go away, and it is
// carried out all the same, before the next one.
type slowStop struct {
	http.Handler

	held     chan struct{} // closed when there is one
	release  func()        // lets it go on
	released chan struct{}
	done     chan struct{} // closed when it was carried out
	mu       sync.Mutex
	stops    int
}

// newSlowStop returns one before the engine at host, and its own address.
func newSlowStop(t *testing.T, host string) (*slowStop, string) {
	t.Helper()
	s := &slowStop{Handler: toEngine(t, host), held: make(chan struct{}), released: make(chan struct{}), done: make(chan struct{})}
	s.release = sync.OnceFunc(func() { close(s.released) })
	address := serveEngine(t, http.HandlerFunc(s.serve))
	t.Cleanup(s.release)
	return s, address
}

// toEngine passes requests on to the engine at host.
func toEngine(t *testing.T, host string) http.Handler {
	t.Helper()
	u, err := client.ParseHostURL(newClient(t, host).DaemonHost())
	require.NoError(t, err)
	p := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "engine"})
	p.FlushInterval = -1
	p.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, u.Scheme, u.Host)
	}}
	return p
}

// serveEngine returns the address of an engine that h stands for.
func serveEngine(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return "tcp://" + server.Listener.Addr().String()
}

func (s *slowStop) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/stop") {
		s.ServeHTTP(w, r)
		return
	}
	s.mu.Lock()
	s.stops++
	first := s.stops == 1
	s.mu.Unlock()
	if !first {
		s.release()
		<-s.done
		s.ServeHTTP(w, r)
		return
	}
	defer close(s.done)
	close(s.held)
	<-s.released
	s.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
}

// A stop for which the engine was not waited for, since it had halted, ends no command
// that begins when it answers again.
func TestStopThatComesLate(t *testing.T) {
	t.Parallel()
	needImage(t, imageBash)
	late, host := newSlowStop(t, engine.host)
	r := rigOn(t, host)
	s := r.open(t, sandbox.Spec{ID: newID()})
	run(t, s, "echo kept > file")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-late.held
		cancel()
	}()
	_, err := r.StopIdle(ctx, 0)
	require.Error(t, err)

	id := sandboxtest.Start(t, s, "cat file; until [ -e go ]; do sleep 0.1; done")
	late.release()
	<-late.done
	require.NoError(t, s.WriteFile(t.Context(), "go", nil))
	res := await(t, s, id)
	require.Equal(t, sandbox.StateExited, res.State)
	require.Equal(t, "kept\n", res.Stdout)
	require.Zero(t, res.ExitCode)
}
