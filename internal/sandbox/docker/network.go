package docker

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/egress"
)

const (
	// insideForwarder is the place in a prepared image of the bundle whose program is
	// the forwarder.
	insideForwarder = "/countersign-forwarder"
	// forwarderUser is who it runs as: neither the command's user, who could end or
	// trace it, nor root.
	forwarderUser = "65534:65534"
	// forwarderWait is how long it may take to listen, on a machine under load.
	forwarderWait = 20 * time.Second
)

// network is a session's way to the hosts that its manifest names. The container
// has no network: the forwarder in it carries connections over the standard
// input and output of an engine exec to the proxy in this process.
type network struct {
	dialing sync.Mutex // held while a forwarder is started

	mu    sync.Mutex
	proxy *egress.Proxy
	lost  chan struct{} // closed when the forwarder is gone; nil before there was one
	close func()
}

// allow replaces the hosts; none is no network.
func (n *network) allow(hosts []string, log *slog.Logger) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(hosts) == 0 {
		n.proxy = nil
		return nil
	}
	if n.proxy != nil {
		return n.proxy.Allow(hosts)
	}
	proxy, err := egress.New(hosts, log)
	if err != nil {
		return sandbox.Refuse(err.Error())
	}
	n.proxy = proxy
	return nil
}

// way is the proxy; nil where there is no network.
func (n *network) way() *egress.Proxy {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.proxy
}

func (n *network) on() bool { return n.way() != nil }

// Refused says which hosts commands were refused.
func (s *session) Refused(since time.Time) []string { return s.network.way().Refused(since) }

func (n *network) hangUp() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.close != nil {
		n.close()
	}
}

// standing tells whether the forwarder stands, and returns the proxy.
func (n *network) standing() (*egress.Proxy, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lost == nil {
		return n.proxy, false
	}
	select {
	case <-n.lost:
		return n.proxy, false
	default:
		return n.proxy, true
	}
}

// canHold refuses hosts where commands cannot be held to them.
func (b *Backend) canHold(hosts []string) error {
	if len(hosts) == 0 {
		return nil
	}
	if _, err := b.helper(); err != nil {
		return sandbox.Refuse("The workspace's manifest names the hosts that commands may reach, and nothing can carry them there: " + err.Error() + ".")
	}
	return nil
}

// connectNetwork makes sure that the forwarder stands, where there is a network.
func (s *session) connectNetwork(ctx context.Context) error {
	if !s.network.on() {
		return nil
	}
	s.network.dialing.Lock()
	defer s.network.dialing.Unlock()
	proxy, ok := s.network.standing()
	if ok || proxy == nil {
		return nil
	}
	const doing = "connecting the sandbox's network"
	used, err := s.ready(ctx, doing)
	if err != nil {
		return err
	}
	defer used()
	have, err := s.b.helper()
	if err != nil {
		return sandbox.Refuse("The sandbox's network cannot be connected: " + err.Error() + ".")
	}
	conn, exec, err := s.b.exec(ctx, s.id, container.ExecOptions{
		User: forwarderUser, AttachStdin: true, AttachStdout: true, AttachStderr: true, Env: []string{"GOMAXPROCS=1", "GOMEMLIMIT=64MiB"},
		Cmd: append(have.command(insideForwarder), egress.Verb, "stdio", "-"),
	})
	if err != nil {
		return s.unanswered(doing, err)
	}
	return s.serveForwarder(ctx, proxy, conn, exec)
}

// serveForwarder waits until the forwarder listens, and serves what it carries.
func (s *session) serveForwarder(ctx context.Context, proxy *egress.Proxy, conn types.HijackedResponse, exec string) error {
	ready := make(chan struct{})
	split := &splitFrames{r: conn.Reader, ready: ready}
	// Outlives this call: commands go on when it is over.
	sctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	lost := make(chan struct{})
	out, w := io.Pipe()
	go func() { w.CloseWithError(split.copy(w)) }()
	go func() {
		defer close(lost)
		defer conn.Close()
		proxy.ServePipes(sctx, out, conn.Conn)
	}()
	s.network.mu.Lock()
	s.network.lost, s.network.close = lost, func() { cancel(); conn.Close() }
	s.network.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-lost:
	case <-time.After(forwarderWait):
	case <-ctx.Done():
		cancel()
		return ctx.Err()
	}
	cancel()
	if e, err := s.b.api.ContainerExecInspect(ctx, exec); err == nil && !e.Running {
		return sandbox.Refuse(fmt.Sprintf("The sandbox's network cannot be connected: the forwarder ended with exit code %d%s.", e.ExitCode, split.problem()))
	}
	return sandbox.Unavailable("The sandbox's network cannot be connected: its forwarder does not start.",
		fmt.Errorf("connecting the sandbox's network: the forwarder does not answer"))
}
