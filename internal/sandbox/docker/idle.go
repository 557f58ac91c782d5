package docker

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/countersign/countersign/internal/sandbox"
)

// usage knows whether a container is needed, so that one that is not can be stopped.
// What needs it starts it.
type usage struct {
	mu       sync.Mutex
	now      int // how many need it at this moment
	ever     int // how many have
	last     time.Time
	stopping chan struct{} // closed when it has been stopped; nil while it is not
}

// use keeps the container up until the returned function is called. It waits for one
// that is being stopped.
func (u *usage) use(ctx context.Context) (func(), error) {
	for {
		u.mu.Lock()
		stopping := u.stopping
		if stopping == nil {
			u.now++
			u.ever++
			u.mu.Unlock()
			return u.used, nil
		}
		u.mu.Unlock()
		select {
		case <-stopping:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (u *usage) used() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.now--
	u.last = time.Now()
}

// rest is that nothing needs a container.
type rest struct {
	ever  int // how many have until then
	since time.Time
}

// rests tells since when nothing has needed it.
func (u *usage) rests() (rest, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.last.IsZero() {
		u.last = time.Now() // since it is known
	}
	return rest{u.ever, u.last}, u.now == 0
}

// looked takes in that the one use since r began was a look whether the container is
// needed.
func (u *usage) looked(r rest) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ever == r.ever+1 {
		u.ever, u.last = r.ever, r.since
	}
}

// stop keeps everybody out until the returned function is called, if r goes on.
func (u *usage) stop(r rest) (func(), bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.now > 0 || u.ever != r.ever || u.stopping != nil {
		return nil, false
	}
	u.stopping = make(chan struct{})
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		close(u.stopping)
		u.stopping = nil
	}, true
}

// inMemoryFor is how many times longer a container runs for nothing that has files in
// memory, which its stop removes.
const inMemoryFor = 10

// StopIdle stops the containers of this installation's sandboxes that nothing has
// needed for so long, and in which no command runs; those with files in memory, which
// are lost by it, after ten times as long. It returns how many. A sandbox that this
// process has not opened counts from when it is first seen. The next that needs one
// starts it.
func (b *Backend) StopIdle(ctx context.Context, after time.Duration) (int, error) {
	list, err := b.own(ctx)
	if err != nil {
		return 0, err
	}
	stopped := 0
	for _, c := range list {
		spec, ok := boxOf(c)
		if !ok || c.State != container.StateRunning {
			continue
		}
		done, err := b.stopIdle(ctx, sandbox.Spec{ID: spec.ID, Generation: spec.Generation, Existing: true}, after)
		switch {
		case errors.Is(err, sandbox.ErrGone):
		case err != nil:
			return stopped, err
		case done:
			stopped++
		}
	}
	return stopped, nil
}

// known is the sandbox that spec names, as whoever works in it has it.
func (b *Backend) known(ctx context.Context, spec sandbox.Spec) (*session, error) {
	name := b.nameOf(spec.ID, spec.Generation)
	done, err := b.claim(ctx, name)
	if err != nil {
		return nil, err
	}
	defer done()
	s, ok := b.opened(name)
	if ok {
		return s, nil
	}
	if s, err = b.open(ctx, name, spec); err != nil {
		return nil, err
	}
	b.keep(s)
	return s, nil
}

// opened is the session of a sandbox that was opened here before, if it was.
func (b *Backend) opened(name string) (*session, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.sessions[name]
	return s, ok
}

func (b *Backend) keep(s *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sessions[s.name] = s
}

func (b *Backend) stopIdle(ctx context.Context, spec sandbox.Spec, after time.Duration) (bool, error) {
	s, err := b.known(ctx, spec)
	if err != nil {
		return false, err
	}
	r, ok := s.usage.rests()
	if !ok || time.Since(r.since) < after {
		return false, nil
	}
	needed, err := s.ask(ctx, "looking whether the sandbox is needed", "needed")
	s.usage.looked(r)
	switch {
	case err != nil, strings.Contains(string(needed), "commands"):
		return false, err
	case strings.Contains(string(needed), "files") && time.Since(r.since) < inMemoryFor*after:
		return false, nil
	}
	end, ok := s.usage.stop(r)
	if !ok {
		return false, nil
	}
	defer end()
	s.hangUp()
	return true, s.halt(ctx)
}
