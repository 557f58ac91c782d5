// Package docker runs sandboxes as containers of a Docker Engine.
//
// A sandbox is one container with three volumes of its own: the workspace, the
// home directory and the execs' records. The container has no network, a
// read-only root, no capabilities that a command could use, and limits for
// memory, CPU, processes and disk. Commands run as an unprivileged user under
// package harness's script, which runs as the container's root and keeps their
// records out of their reach. The engine's socket is only ever held by this
// process.
//
// Everything there is to know of a sandbox is in the engine: workers that share
// one share its sandboxes, and a worker that dies takes nothing with it.
package docker

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/harness"
)

// Name is this backend's word.
const Name = "docker"

// Defaults of [Config].
const (
	DefaultMemory = 2 << 30 // 2 GiB
	DefaultCPUs   = 2
	DefaultPIDs   = 512
	DefaultDisk   = 10 << 30 // 10 GiB
	DefaultTemp   = 1 << 30  // 1 GiB
)

// Config is what [New] needs.
type Config struct {
	// Host is the engine's address, such as unix:///var/run/docker.sock; empty is
	// that of the environment (DOCKER_HOST and its companions), or the default.
	Host string
	// Owner names this installation among those that share the engine: sandboxes
	// of other owners are never looked at. Any text.
	Owner string
	// Image is what sandboxes are made from. It needs sh, the usual small
	// programs (coreutils or busybox, grep, find) and one of setpriv, su-exec,
	// gosu and su. It is pulled when the engine does not have it.
	Image string
	// Images are further ones that sandboxes name: what was prepared for them is
	// kept.
	Images []string
	// Memory, Disk and Temp are limits in bytes, PIDs one of processes, CPUs one
	// of processors; 0 is the default. /tmp counts as memory. A negative Disk is
	// no limit.
	Memory, Disk, Temp int64
	PIDs               int64
	CPUs               float64
	// Runtime is the engine's name for a container runtime, such as runsc; empty
	// is its default.
	Runtime string
	// Forwarder is a program for the engine's machine that is an
	// [egress.Forward] or a [terminal.Run] when it is asked to be, such as this one;
	// without it, workspaces with a network and commands on a terminal are refused.
	Forwarder string
	// PackSeed writes a seed that is no snapshot as [snapshot.Flat] does. Such a seed is refused without it.
	PackSeed func(ctx context.Context, seed sandbox.Seed, w io.Writer) error
	// Log gets what nobody asked for; nil discards it.
	Log *slog.Logger
}

// Backend keeps sandboxes in one engine.
type Backend struct {
	cfg    Config
	api    *engine
	script string // the harness with what a container adds
	hash   string // of script
	maker  string // this process
	now    func() time.Time

	forwarder bundled

	mu       sync.Mutex
	sessions map[string]*session // by container name
	opening  map[string]chan struct{}
	// halves of sandboxes that could not be removed when their making failed, by
	// name and set.
	halves map[[2]string]bool
	// halting are sandboxes, by container name, with a stop that the engine did not come
	// to an end with: it may carry it out yet.
	halting map[string]bool
}

var _ sandbox.Backend = (*Backend)(nil)

//go:embed container.sh
var containerScript string

// New prepares the backend. The engine is not asked for anything yet.
func New(cfg Config) (*Backend, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.setDefaults()
	opts := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if cfg.Host != "" {
		opts = append(opts, client.WithHost(cfg.Host))
	}
	api, err := client.NewClientWithOpts(opts...)
	if err != nil {
		return nil, fmt.Errorf("preparing the Docker client: %w", err)
	}
	script, err := compose(harness.Script(), containerScript)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(script))
	return &Backend{
		cfg: cfg, api: newEngine(api), script: script, hash: hex.EncodeToString(sum[:6]), maker: random(), now: time.Now,
		sessions: map[string]*session{}, opening: map[string]chan struct{}{}, halves: map[[2]string]bool{},
		halting: map[string]bool{},
	}, nil
}

func (c *Config) setDefaults() {
	for _, d := range []struct {
		limit    *int64
		standard int64
	}{{&c.Memory, DefaultMemory}, {&c.Disk, DefaultDisk}, {&c.Temp, DefaultTemp}, {&c.PIDs, DefaultPIDs}} {
		if *d.limit == 0 {
			*d.limit = d.standard
		}
	}
	if c.CPUs == 0 {
		c.CPUs = DefaultCPUs
	}
}

// verbs is where the common script stops defining and starts doing.
const verbs = "\nverb=$1 record=$2"

func compose(common, own string) (string, error) {
	head, tail, ok := strings.Cut(common, verbs)
	if !ok {
		return "", fmt.Errorf("the exec harness has no line %q", strings.TrimSpace(verbs))
	}
	return head + "\n" + own + verbs + tail, nil
}

// Name returns [Name].
func (b *Backend) Name() string { return Name }

// Isolated is true: a container is.
func (b *Backend) Isolated() (bool, string) { return true, "" }

// Close gives the connections to the engine back. Sandboxes stay as they are.
func (b *Backend) Close() error {
	b.mu.Lock()
	sessions := b.sessions
	b.sessions = map[string]*session{}
	b.mu.Unlock()
	for _, s := range sessions {
		s.hangUp()
	}
	return b.api.Close()
}

// Labels on everything that this package makes in an engine.
const (
	labelOwner      = "countersign.owner"
	labelSandbox    = "countersign.sandbox" // the container's name
	labelSession    = "countersign.session"
	labelGeneration = "countersign.generation"
	labelSet        = "countersign.set"  // what the volumes of one container share
	labelPart       = "countersign.part" // which of them it is, or partGone
	labelMade       = "countersign.made" // when, in Unix seconds
	labelImage      = "countersign.image"
	labelMaker      = "countersign.maker" // the process that made it
	labelAnew       = "countersign.anew"  // the process that made it on volumes that were there
)

// nameOf is a sandbox's container: readable, and distinct by its hash.
func (b *Backend) nameOf(id string, generation int) string {
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, id)
	sum := sha256.Sum256([]byte(b.cfg.Owner + "\x00" + id))
	return fmt.Sprintf("countersign-%s-%s-g%d", safe[:min(len(safe), 40)], hex.EncodeToString(sum[:6]), generation)
}

func (b *Backend) labels(name string, spec sandbox.Spec) map[string]string {
	return map[string]string{
		labelOwner: b.cfg.Owner, labelSandbox: name, labelSession: spec.ID, labelGeneration: strconv.Itoa(spec.Generation),
	}
}

func random() string {
	var b [6]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Open makes or resumes a sandbox; see [sandbox.Backend]. A sandbox whose
// container is gone while its volumes are there gets a new container.
func (b *Backend) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Session, error) {
	if spec.ID == "" || spec.Generation < 0 {
		return nil, sandbox.Refuse("The sandbox has no name.")
	}
	if spec.Root != "" {
		return nil, sandbox.Refuse("A root can be named for local only; docker keeps files in volumes of the engine.")
	}
	if err := b.canHold(spec.Network); err != nil {
		return nil, err
	}
	name := b.nameOf(spec.ID, spec.Generation)
	done, err := b.claim(ctx, name)
	if err != nil {
		return nil, err
	}
	defer done()
	before, ok := b.opened(name)
	if ok && !before.down.Load() {
		if err = before.check(ctx); err == nil {
			return before, before.network.allow(spec.Network, b.cfg.Log)
		} else if !errors.Is(err, sandbox.ErrGone) {
			return nil, err
		}
	}
	s, err := b.open(ctx, name, spec)
	if err != nil {
		return nil, err
	}
	if ok {
		before.hangUp()
	}
	if err := s.network.allow(spec.Network, b.cfg.Log); err != nil {
		s.hangUp()
		return nil, err
	}
	b.keep(s)
	return s, nil
}

// claim lets one Open of a sandbox run at a time in this process.
func (b *Backend) claim(ctx context.Context, name string) (func(), error) {
	for {
		b.mu.Lock()
		busy, ok := b.opening[name]
		if !ok {
			mine := make(chan struct{})
			b.opening[name] = mine
			b.mu.Unlock()
			return func() {
				b.mu.Lock()
				delete(b.opening, name)
				b.mu.Unlock()
				close(mine)
			}, nil
		}
		b.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// busy reports whether somebody opens the sandbox at this moment.
func (b *Backend) busy(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.opening[name]
	return ok
}

func (b *Backend) open(ctx context.Context, name string, spec sandbox.Spec) (*session, error) {
	if err := b.checkGone(ctx, name); err != nil {
		if errors.Is(err, sandbox.ErrGone) { // its removal may have been cut short
			err = cmp.Or(b.remove(ctx, name, name), err)
		}
		return nil, err
	}
	c, err := b.api.ContainerInspect(ctx, name)
	switch {
	case err == nil:
		return b.resume(ctx, name, c.ID, spec)
	case !errdefs.IsNotFound(err):
		return nil, b.fail("looking for the sandbox", err)
	}
	s, err := b.adopt(ctx, name, spec)
	if s != nil || err != nil {
		return s, err
	}
	if spec.Existing {
		return nil, fmt.Errorf("%w: the Docker engine has no container %s", sandbox.ErrGone, name)
	}
	return b.create(ctx, name, spec)
}

// resume starts a container that has its name and lets frozen execs go on: a
// worker that died between freezing and thawing left them so.
func (b *Backend) resume(ctx context.Context, name, id string, spec sandbox.Spec) (*session, error) {
	s := b.newSession(name, id, spec)
	s.proven.Store(true) // it has its name since it answered
	err := s.greet(ctx, true)
	if err == nil {
		err = s.thawAll(ctx)
	}
	if err == nil {
		return s, nil
	}
	s.hangUp()
	if errors.Is(err, errNoStart) {
		return b.renew(ctx, s, err)
	}
	return nil, err
}
