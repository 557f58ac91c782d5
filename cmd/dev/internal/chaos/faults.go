package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// What is done to parts and to the links between them.
const (
	// FaultKill is kill -9, and a start a while later.
	FaultKill = "kill"
	// FaultFreeze stops a process as a debugger or a paused virtual machine does,
	// for longer than a heartbeat may be late: others take over what it does, and
	// then it goes on as if nothing had been.
	FaultFreeze = "freeze"
	// FaultCut resets the connections of a link, all or some, and refuses new ones
	// for a while.
	FaultCut = "cut"
	// FaultStall lets a link carry nothing for a while, in either direction, without
	// closing it; what was on its way is lost with its connections afterwards.
	FaultStall = "stall"
	// FaultClock sets the wall clock of a worker or bot by minutes to hours, for a
	// while or for good.
	FaultClock = "clock"
	// FaultStore lets the blob store take nothing and give nothing for a while, as one
	// that cannot be reached or is full.
	FaultStore = "store"
)

// Faults are all of them.
func Faults() []string {
	return []string{FaultKill, FaultFreeze, FaultCut, FaultStall, FaultClock, FaultStore}
}

const (
	// lateBy is more than the 5 s within which a worker has to say that a command
	// still runs.
	lateBy = 5500 * time.Millisecond
	// upToMore is by how much it may be more.
	upToMore = 3500 * time.Millisecond
	// soon is within which what is killed or cut is up again.
	soon = 2 * time.Second
)

// faults hits parts and links at random until its context ends. Then all are up
// and connected again.
type faults struct {
	dice *rand.Rand
	site *site
	rec  *recorder
	// kinds are those to make.
	kinds []string
	// say tells people what was done.
	say func(format string, args ...any)

	mu      sync.Mutex
	busy    map[string]bool // by target
	err     error
	running sync.WaitGroup
}

// blow is one fault of one target, and how often it is chosen; the server takes
// everybody with it, so it is chosen less.
type blow struct {
	target, kind string
	weight       int
	// hit makes the fault that a roll of the dice stands for: what it is, as people
	// are told, and what does it and undoes it in time, or when its context ends.
	hit func(share float64) (what string, do func(context.Context) error)
}

// lasting is a fault that is undone after a while: at least so long, and at most so
// much longer.
func lasting(least, more time.Duration, hit func(context.Context, time.Duration) error) func(float64) (string, func(context.Context) error) {
	return func(share float64) (string, func(context.Context) error) {
		d := least + time.Duration(share*float64(more))
		return fmt.Sprintf("for %v", d.Round(10*time.Millisecond)), func(ctx context.Context) error { return hit(ctx, d) }
	}
}

// setting sets a part's clock.
func setting(p *part) func(float64) (string, func(context.Context) error) {
	return func(share float64) (string, func(context.Context) error) {
		w := wrongClock(share)
		return w.String(), func(ctx context.Context) error { return p.jump(ctx, w) }
	}
}

// killing ends a part and starts it again. An engine that was killed while it made
// containers may answer nobody for half a minute after its start: it is not back before
// it does.
func (f *faults) killing(p *part) func(context.Context, time.Duration) error {
	e := f.site.engine
	if e == nil || p != e.part {
		return p.bounce
	}
	return func(ctx context.Context, d time.Duration) error {
		if err := p.bounce(ctx, d); err != nil {
			return err
		}
		return e.await(context.WithoutCancel(ctx))
	}
}

// blows are all that can be done to this site.
func (f *faults) blows() []blow {
	var all []blow
	often := map[*part]int{f.site.server: 4}
	for _, p := range f.site.parts() {
		n := often[p]
		if n == 0 {
			n = 12
		}
		all = append(all, blow{p.name, FaultKill, n, lasting(0, soon, f.killing(p))}, blow{p.name, FaultFreeze, n / 4, lasting(lateBy, upToMore, p.freeze)})
	}
	for _, l := range f.site.links {
		all = append(all, blow{l.name, FaultCut, 4, lasting(0, soon, l.cut)}, blow{l.name, FaultStall, 2, lasting(lateBy, upToMore, l.stall)})
	}
	all = append(all, blow{"the blob store", FaultStore, 4, lasting(0, upToMore, f.site.storeAway)})
	for _, p := range f.site.clocked() {
		if p.clocked { // also while the part itself is hit
			all = append(all, blow{p.name + "'s clock", FaultClock, 5, setting(p)})
		}
	}
	return slices.DeleteFunc(all, func(b blow) bool { return !slices.Contains(f.kinds, b.kind) })
}

// hitting reports whether a fault lasts.
func (f *faults) hitting() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, busy := range f.busy {
		if busy {
			return true
		}
	}
	return false
}

// run makes one fault after the other, each a random while after the one before.
// A target that is still hit by the last one is left alone.
func (f *faults) run(ctx context.Context) error {
	all, total := f.blows(), 0
	for _, b := range all {
		total += b.weight
	}
	for pause(ctx, 300*time.Millisecond+time.Duration(f.dice.Int64N(int64(2500*time.Millisecond)))) == nil && f.failed() == nil {
		roll, share := f.dice.IntN(total), f.dice.Float64()
		for _, b := range all {
			if roll -= b.weight; roll < 0 {
				f.start(ctx, b, share)
				break
			}
		}
	}
	f.running.Wait()
	return f.failed()
}

// start makes a fault beside those that last.
func (f *faults) start(ctx context.Context, b blow, share float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy[b.target] {
		return
	}
	f.busy[b.target] = true
	what, do := b.hit(share)
	f.say("%s %s %s", b.kind, b.target, what)
	f.running.Go(func() {
		at := time.Now()
		err := do(ctx)
		f.rec.sawFault(fault{Kind: b.kind, Part: b.target, What: what, At: at, Back: time.Now()})
		f.mu.Lock()
		defer f.mu.Unlock()
		f.busy[b.target] = false
		if err != nil && f.err == nil {
			f.err = fmt.Errorf("%s of %s: %w", b.kind, b.target, err)
		}
	})
}

func (f *faults) failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
