package docker

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
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

// halt stops the container.
func (s *session) halt(ctx context.Context) error {
	s.b.mu.Lock()
	s.b.halting[s.name] = true
	s.b.mu.Unlock()
	seconds := 2
	err := s.b.api.ContainerStop(ctx, s.id, container.StopOptions{Timeout: &seconds})
	if err != nil && !errdefs.IsNotModified(err) && !errdefs.IsNotFound(err) {
		return s.gone("releasing the sandbox", err)
	}
	s.b.mu.Lock()
	delete(s.b.halting, s.name)
	s.b.mu.Unlock()
	return s.gone("releasing the sandbox", err)
}

// settle makes sure that no stop is under way any more with which the engine did not
// come to an end, as one that was halted goes on with it: it would end the next
// command. A container in which others run commands meanwhile is theirs.
func (s *session) settle(ctx context.Context, doing string) error {
	s.b.mu.Lock()
	doubtful := s.b.halting[s.name]
	s.b.mu.Unlock()
	if !doubtful {
		return nil
	}
	busy, err := s.busy(ctx, doing)
	if err != nil {
		return err
	}
	if !busy {
		return s.halt(ctx)
	}
	s.b.mu.Lock()
	delete(s.b.halting, s.name)
	s.b.mu.Unlock()
	return nil
}

// busy looks whether commands run, without starting the container for it.
func (s *session) busy(ctx context.Context, doing string) (bool, error) {
	a, err := s.b.dial(ctx, s.id)
	switch {
	case err == nil:
	case s.stopped(ctx):
		return false, nil
	case errdefs.IsConflict(err): // paused by somebody
		return true, nil
	default:
		return false, s.unanswered(doing, err)
	}
	defer a.close()
	data, _, err := s.b.answer(ctx, a, new(bytes.Buffer), request("needed"), answerLimit)
	if err != nil && !s.stopped(ctx) {
		return false, s.b.lost(doing, err)
	}
	return err == nil && strings.Contains(string(data), "commands"), nil
}
