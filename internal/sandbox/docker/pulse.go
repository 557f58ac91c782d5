package docker

import (
	"context"
	"errors"
	"sync"
	"time"
)

var (
	// errSilent says that the engine was asked whether it lives, and did not answer.
	errSilent = errors.New("the engine gives no sign of life")
	// errStuck says that the engine lives and that one call to it takes longer than such
	// a call can.
	errStuck = errors.New("the engine does not come to an end with it")
)

const (
	// askAfter is how long a call may take before the engine is asked whether it
	// lives, and how long after each answer it is asked again.
	askAfter = 2 * time.Second
	// askWithin is how long it may take to answer; it is asked mostAsks times, since
	// to a worker that was itself halted the first one's time seems over.
	askWithin = 5 * time.Second
	mostAsks  = 2
)

// pulse ends calls to an engine that has stopped answering, as one does that is
// halted, or waits for its disk: connecting to it succeeds, and then nothing comes.
// What takes long for a reason is not cut off by it.
//
// Once the engine is silent, calls fail at once until it has answered: whoever tries
// again does not wait for each attempt's end.
type pulse struct {
	// ping returns when the engine has answered. That it cannot be reached is an
	// answer: calls fail by that themselves.
	ping func(context.Context) error
	done <-chan struct{} // closed when nobody is to ask any more

	mu     sync.Mutex
	calls  map[*waiting]struct{}
	asking bool
	silent bool
}

// waiting is a call under way.
type waiting struct {
	since  time.Time
	cancel context.CancelCauseFunc
}

func newPulse(done <-chan struct{}, ping func(context.Context) error) *pulse {
	return &pulse{ping: ping, done: done, calls: map[*waiting]struct{}{}}
}

// watch returns a context that ends, with errSilent as its cause, when the engine
// gives no sign of life, and with errStuck after limit; 0 is none. The function ends
// the watch.
func (p *pulse) watch(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &waiting{since: time.Now(), cancel: cancel}
	p.mu.Lock()
	if p.silent {
		cancel(errSilent)
	}
	p.calls[w] = struct{}{}
	p.mu.Unlock()
	ask := time.AfterFunc(askAfter, p.ask)
	over := func() bool { return true }
	if limit > 0 {
		over = time.AfterFunc(limit, func() { cancel(errStuck) }).Stop
	}
	return ctx, func() {
		ask.Stop()
		over()
		p.mu.Lock()
		delete(p.calls, w)
		p.mu.Unlock()
		cancel(nil)
	}
}

// why is the watch's own word for an error with which a call ended for its sake.
func why(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && (errors.Is(cause, errSilent) || errors.Is(cause, errStuck)) {
		return cause
	}
	return err
}

// ask asks the engine for as long as a call takes long, or it is silent.
func (p *pulse) ask() {
	p.mu.Lock()
	busy := p.asking
	p.asking = true
	p.mu.Unlock()
	for again := !busy; again; {
		again = p.heard(p.lives())
		if again {
			select {
			case <-p.done:
				return
			case <-time.After(askAfter):
			}
		}
	}
}

func (p *pulse) lives() bool {
	for range mostAsks {
		ctx, cancel := context.WithTimeout(context.Background(), askWithin)
		_ = p.ping(ctx) // how it answers is for the calls to see
		lives := ctx.Err() == nil
		cancel()
		if lives {
			return true
		}
	}
	return false
}

// heard takes in whether the engine has answered, and tells whether it is to be asked
// again.
func (p *pulse) heard(lives bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = !lives
	p.asking = p.silent
	for w := range p.calls {
		if p.silent {
			w.cancel(errSilent)
		}
		p.asking = p.asking || time.Since(w.since) >= askAfter
	}
	return p.asking
}
