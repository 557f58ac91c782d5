package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
)

// Listen serves the proxy on a socket called "s" in a directory, until the
// returned function is called. The socket of a worker that died is replaced.
func (p *Proxy) Listen(dir string) (stop func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the egress directory: %w", err)
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the egress directory: %w", err)
	}
	defer d.Close()
	// A socket's path holds 107 bytes; this way the directory's is not among them.
	path := fmt.Sprintf("/proc/self/fd/%d/s", d.Fd())
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("replacing the egress socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listening on the egress socket: %w", err)
	}
	l.SetUnlinkOnClose(false)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.Serve(ctx, c)
		}
	}()
	return func() { cancel(); _ = l.Close() }, nil
}

// ServePipes serves what a forwarder in the mode stdio carries over its standard
// input and output, until either ends.
func (p *Proxy) ServePipes(ctx context.Context, r io.ReadCloser, w io.WriteCloser) {
	conn := &pipeConn{r: r, w: w}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	ended := make(chan struct{})
	var once sync.Once
	s := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		p.Serve(r.Context(), &served{Reader: r.Body, w: w, body: r.Body})
	}), ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			once.Do(func() { close(ended) })
		}
	}}
	l := &oneListener{conn: conn, done: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	go func() { _ = s.Serve(l) }()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	_ = s.Close()
	_ = conn.Close()
}

// served is a stream's end in the worker.
type served struct {
	io.Reader
	w    http.ResponseWriter
	body io.Closer
}

func (s *served) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err == nil {
		err = http.NewResponseController(s.w).Flush()
	}
	return n, err
}

func (s *served) Close() error { return s.body.Close() }

// oneListener gives one connection, then waits for its end.
type oneListener struct {
	mu   sync.Mutex
	conn net.Conn
	done chan struct{}
	once sync.Once
}

func (l *oneListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	c := l.conn
	l.conn = nil
	l.mu.Unlock()
	if c != nil {
		return c, nil
	}
	<-l.done
	return nil, net.ErrClosed
}

func (l *oneListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *oneListener) Addr() net.Addr { return pipeAddr{} }
