package local

import (
	"maps"
	"path/filepath"
	"sync"
	"time"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/egress"
)

// Where a command finds the way to the hosts of its manifest, and a terminal.
const (
	insideDir       = "/run/countersign"
	insideForwarder = insideDir + "/forwarder"
	insideEgress    = insideDir + "/egress"
	insideTerminal  = insideDir + "/terminal"
)

// network is a session's way to the hosts that its manifest names.
type network struct {
	mu    sync.Mutex
	proxy *egress.Proxy
	close func()
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

func (n *network) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.close != nil {
		n.close()
	}
	n.proxy, n.close = nil, nil
}

// canHold refuses hosts where commands cannot be held to them.
func (b *Backend) canHold(hosts []string) error {
	switch {
	case len(hosts) == 0:
		return nil
	case b.mode.bwrap == "":
		return sandbox.Refuse("The workspace's manifest names the hosts that commands may reach, and on this worker nothing holds commands to them: " +
			b.mode.whyNot + " Take the docker backend, or install bubblewrap.")
	case b.cfg.Forwarder == "":
		return sandbox.Refuse("The workspace's manifest names the hosts that commands may reach, and this worker has no program to carry them there.")
	}
	return nil
}

// serveNetwork makes the hosts reachable, and no others. It may be called again
// with others.
func (s *session) serveNetwork(hosts []string) error {
	if len(hosts) == 0 {
		s.network.stop()
		return nil
	}
	s.network.mu.Lock()
	defer s.network.mu.Unlock()
	if s.network.proxy != nil {
		return s.network.proxy.Allow(hosts)
	}
	proxy, err := egress.New(hosts, s.b.cfg.Log)
	if err != nil {
		return sandbox.Refuse(err.Error())
	}
	stop, err := proxy.Listen(filepath.Join(s.dir, "egress"))
	if err != nil {
		return s.storeError("serving the network", err)
	}
	s.network.proxy, s.network.close = proxy, stop
	return nil
}

// networkEnv adds the proxy to a command's environment.
func (s *session) networkEnv(own map[string]string) map[string]string {
	if !s.network.on() {
		return own
	}
	env := egress.Environ()
	maps.Copy(env, own)
	return env
}

func (s *session) networkBinds() []string {
	if !s.network.on() {
		return nil
	}
	return []string{
		"--dir", insideDir, "--ro-bind", s.b.cfg.Forwarder, insideForwarder, "--ro-bind", filepath.Join(s.dir, "egress"), insideEgress,
	}
}

// networkBegin starts the forwarder, then what follows in its place.
func (s *session) networkBegin() []string {
	if !s.network.on() {
		return nil
	}
	return []string{"/bin/sh", "-c", `"$0" ` + egress.Verb + ` unix "$1" </dev/null >/dev/null; shift; exec "$@"`, insideForwarder, insideEgress + "/s"}
}
