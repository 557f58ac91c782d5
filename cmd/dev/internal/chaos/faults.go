package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// faults kills parts at random until its context ends. Then all are up again.
type faults struct {
	dice *rand.Rand
	site *site
	rec  *recorder
	// say tells people what was done.
	say func(format string, args ...any)
}

// target is a part and how often it is chosen; the server takes everybody with
// it, so it is chosen less.
type target struct {
	part   *part
	weight int
}

func (f *faults) targets() []target {
	all := []target{{f.site.bot, 3}, {f.site.server, 1}}
	for _, w := range f.site.workers {
		all = append(all, target{w, 3})
	}
	return all
}

// run kills one part after the other: each a random while after the one before,
// each down for a random while.
func (f *faults) run(ctx context.Context) error {
	all := f.targets()
	total := 0
	for _, t := range all {
		total += t.weight
	}
	for {
		if pause(ctx, 300*time.Millisecond+time.Duration(f.dice.Int64N(int64(2500*time.Millisecond)))) != nil {
			return nil
		}
		roll := f.dice.IntN(total)
		for _, t := range all {
			if roll -= t.weight; roll < 0 {
				if err := f.hit(ctx, t.part); err != nil {
					return err
				}
				break
			}
		}
	}
}

func (f *faults) hit(ctx context.Context, p *part) error {
	down := time.Duration(f.dice.Int64N(int64(2 * time.Second)))
	at := time.Now()
	p.kill()
	f.say("killed %s for %v", p.name, down.Round(10*time.Millisecond))
	_ = pause(ctx, down) // what is down comes up, whatever else ends
	if err := p.start(); err != nil {
		return fmt.Errorf("after a kill: %w", err)
	}
	f.rec.sawFault(fault{Part: p.name, At: at, Back: time.Now()})
	return nil
}
