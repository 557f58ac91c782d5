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
)

// Faults are all of them.
func Faults() []string { return []string{FaultKill, FaultFreeze, FaultCut, FaultStall} }

const (
	// lateBy is more than the 5 s within which a worker has to say that a command
	// still runs.
	lateBy = 5500 * time.Millisecond
	// upToMore is by how much it may be more.
	upToMore = 3500 * time.Millisecond
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
	// hit does it and undoes it after so long, or when ctx ends.
	hit func(ctx context.Context, d time.Duration) error
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
		all = append(all, blow{p.name, FaultKill, n, p.bounce}, blow{p.name, FaultFreeze, n / 4, p.freeze})
	}
	for _, l := range f.site.links {
		all = append(all, blow{l.name, FaultCut, 4, l.cut}, blow{l.name, FaultStall, 2, l.stall})
	}
	return slices.DeleteFunc(all, func(b blow) bool { return !slices.Contains(f.kinds, b.kind) })
}

// run makes one fault after the other, each a random while after the one before.
// A target that is still hit by the last one is left alone.
func (f *faults) run(ctx context.Context) error {
	all, total := f.blows(), 0
	for _, b := range all {
		total += b.weight
	}
	f.busy = map[string]bool{}
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
	d := time.Duration(share * float64(2*time.Second))
	if b.kind == FaultFreeze || b.kind == FaultStall {
		d = lateBy + time.Duration(share*float64(upToMore))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy[b.target] {
		return
	}
	f.busy[b.target] = true
	f.say("%s %s for %v", b.kind, b.target, d.Round(10*time.Millisecond))
	f.running.Go(func() {
		at := time.Now()
		err := b.hit(ctx, d)
		f.rec.sawFault(fault{Kind: b.kind, Part: b.target, At: at, Back: time.Now()})
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
