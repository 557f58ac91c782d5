package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Verb is the first argument of a program that is to be a forwarder.
const Verb = "egress-forward"

// Forwarding tells whether the arguments of this process, its name included, ask
// it to be a forwarder; [Forward] is then all that it does.
func Forwarding(args []string) bool { return len(args) >= 3 && args[1] == Verb }

// Forward is the sandbox's side, and returns the process's exit code. Arguments
// after [Verb] are one of
//
//	unix SOCKET    listen, go on in the background, and be done at once
//	serve SOCKET   the same, on descriptor 3, until the sandbox ends
//	stdio -        listen, and carry all over standard input and output
func Forward(args []string) int {
	err := forward(args[2], args[len(args)-1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "countersign: the network's forwarder:", err)
		return 1
	}
	return 0
}

func forward(mode, socket string) error {
	// Ctrl-C is meant for the command beside it.
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	if mode == "serve" {
		l, err := net.FileListener(os.NewFile(3, "listener"))
		if err != nil {
			return err
		}
		return carry(l, func() (io.ReadWriteCloser, error) { return net.DialTimeout("unix", socket, dialTimeout) })
	}
	l, err := net.Listen("tcp", Address)
	if err != nil {
		return err
	}
	switch mode {
	case "unix":
		return background(l.(*net.TCPListener), socket)
	case "stdio":
		return overStdio(l)
	}
	return fmt.Errorf("there is no way %q", mode)
}

// background starts this program again with the listener: from then on the
// command can connect.
func background(l *net.TCPListener, socket string) error {
	f, err := l.File()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, Verb, "serve", socket)
	cmd.ExtraFiles = []*os.File{f}
	cmd.Env = []string{"GOMAXPROCS=1", "GOMEMLIMIT=64MiB"}
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// carry carries each connection over one of its own.
func carry(l net.Listener, dial func() (io.ReadWriteCloser, error)) error {
	for {
		in, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			out, err := dial()
			if err != nil {
				answer(in, http.StatusBadGateway, "the worker does not answer; the network is there again with it")
				_ = in.Close()
				return
			}
			splice(in, out)
		}()
	}
}

// splice carries bytes both ways until both have ended.
func splice(a, b io.ReadWriteCloser) {
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(b, a); closeWrite(b) })
	wg.Go(func() { _, _ = io.Copy(a, b); closeWrite(a) })
	wg.Wait()
	_, _ = a.Close(), b.Close()
}

func closeWrite(c io.Closer) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	_ = c.Close()
}

// overStdio carries connections as streams of HTTP/2 over one pair of pipes.
func overStdio(l net.Listener) error {
	pipe := &pipeConn{r: os.Stdin, w: os.Stdout}
	var once sync.Once
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	t := &http.Transport{
		Protocols: protocols, DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			var c net.Conn
			once.Do(func() { c = pipe })
			if c == nil {
				os.Exit(0) // the worker hung up; another starts another forwarder
			}
			return c, nil
		},
	}
	fmt.Fprintln(os.Stderr, "ready")
	return carry(l, func() (io.ReadWriteCloser, error) {
		r, w := io.Pipe()
		req, err := http.NewRequest(http.MethodPost, "http://egress/", r)
		if err != nil {
			return nil, err
		}
		resp, err := t.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		return &stream{Reader: resp.Body, w: w, close: func() { _ = resp.Body.Close(); _ = w.Close() }}, nil
	})
}

// stream is one stream of HTTP/2.
type stream struct {
	io.Reader
	w     *io.PipeWriter
	close func()
}

func (s *stream) Write(p []byte) (int, error) { return s.w.Write(p) }
func (s *stream) CloseWrite() error           { return s.w.Close() }
func (s *stream) Close() error                { s.close(); return nil }

// pipeConn is a connection over a pair of pipes.
type pipeConn struct {
	r io.ReadCloser
	w io.WriteCloser
}

func (c *pipeConn) Read(p []byte) (int, error)  { return c.r.Read(p) }
func (c *pipeConn) Write(p []byte) (int, error) { return c.w.Write(p) }
func (c *pipeConn) Close() error                { return errors.Join(c.r.Close(), c.w.Close()) }

func (c *pipeConn) LocalAddr() net.Addr              { return pipeAddr{} }
func (c *pipeConn) RemoteAddr() net.Addr             { return pipeAddr{} }
func (c *pipeConn) SetDeadline(time.Time) error      { return nil }
func (c *pipeConn) SetReadDeadline(time.Time) error  { return nil }
func (c *pipeConn) SetWriteDeadline(time.Time) error { return nil }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
