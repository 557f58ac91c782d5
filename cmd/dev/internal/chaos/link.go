package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// link is the way from some parts to the Temporal server: a proxy on loopback
// that can be cut and stalled.
type link struct {
	name   string
	listen net.Listener
	// to is where it leads at the moment; empty where nothing is.
	to func() string

	mu      sync.Mutex
	wires   map[*wire]bool
	down    bool
	stalled chan struct{} // open while nothing is carried; nil while all is
	serving sync.WaitGroup
}

// wire is one connection through a link: both its ends.
type wire struct{ near, far net.Conn }

// reset ends both as a broken line does, without a farewell.
func (w *wire) reset() {
	for _, c := range []net.Conn{w.near, w.far} {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // it may be closed already
		}
		_ = c.Close() // it may be closed already
	}
}

func newLink(name string, to func() string) (*link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for %s: %w", name, err)
	}
	k := &link{name: name, listen: l, to: to, wires: map[*wire]bool{}}
	k.serving.Go(k.serve)
	return k, nil
}

func (l *link) address() string { return l.listen.Addr().String() }

// close ends the link for good.
func (l *link) close() {
	_ = l.listen.Close()
	l.sever(1)
	l.open()
	l.serving.Wait()
}

func (l *link) serve() {
	for {
		near, err := l.listen.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // of one connection
		}
		l.serving.Go(func() { l.carry(near) })
	}
}

// carry takes bytes both ways until one end closes.
func (l *link) carry(near net.Conn) {
	l.mu.Lock()
	down := l.down
	l.mu.Unlock()
	far, err := net.Dial("tcp", l.to())
	if err != nil || down {
		(&wire{near, near}).reset()
		if err == nil {
			_ = far.Close() // it has carried nothing
		}
		return
	}
	w := &wire{near, far}
	l.mu.Lock()
	l.wires[w] = true
	l.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { l.copy(far, near) })
	both.Go(func() { l.copy(near, far) })
	both.Wait()
	l.mu.Lock()
	delete(l.wires, w)
	l.mu.Unlock()
}

// copy is one direction. When it ends, so does the other.
func (l *link) copy(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		l.wait()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	_ = to.Close()   // its other direction may have closed it
	_ = from.Close() // likewise
}

// wait returns when the link carries.
func (l *link) wait() {
	l.mu.Lock()
	stalled := l.stalled
	l.mu.Unlock()
	if stalled != nil {
		<-stalled
	}
}

// open lets the link carry again.
func (l *link) open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stalled != nil {
		close(l.stalled)
		l.stalled = nil
	}
	l.down = false
}

// sever resets a share of the connections.
func (l *link) sever(share float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.wires {
		if rand.Float64() < share {
			w.reset()
		}
	}
}

// cut resets all connections, or in one case of three some, and refuses new ones
// for d, or until ctx ends.
func (l *link) cut(ctx context.Context, d time.Duration) error {
	if d.Nanoseconds()%3 == 0 { // as the seed has it
		l.sever(0.5)
		return nil
	}
	l.mu.Lock()
	l.down = true
	l.mu.Unlock()
	l.sever(1)
	_ = pause(ctx, d) // it is whole afterwards, whatever else ends
	l.open()
	return nil
}

// stall carries nothing for d, or until ctx ends, and then resets what was
// stalled.
func (l *link) stall(ctx context.Context, d time.Duration) error {
	l.mu.Lock()
	l.stalled = make(chan struct{})
	l.mu.Unlock()
	_ = pause(ctx, d) // it is whole afterwards, whatever else ends
	l.sever(1)
	l.open()
	return nil
}
