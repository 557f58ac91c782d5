package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Options are what a run is made of.
type Options struct {
	// Seed gives the script and the order of the faults; not when things happen.
	Seed uint64
	// For is how long parts are killed.
	For time.Duration
	// People is how many use the installation at once.
	People int
	// Dir is a new directory for all that the run writes.
	Dir      string
	Programs Programs
	// Faults are the kinds of faults to make; none means all.
	Faults []string
	// Docker also starts a Docker engine of the run's own, where that can be done.
	Docker bool
	// Port is where the web chat listens: the same after each restart.
	Port int
	// Say tells people how it goes; nil tells nobody.
	Say func(format string, args ...any)
}

// Report is what a run came to.
type Report struct {
	OK   bool   `json:"ok"`
	Seed uint64 `json:"seed"`
	// Seconds is how long faults were made.
	Seconds float64        `json:"seconds"`
	Broken  []Violation    `json:"broken"`
	Counts  map[string]int `json:"counts"`
	// Kills are counted by part, Faults by kind.
	Kills  map[string]int `json:"kills"`
	Faults map[string]int `json:"faults"`
	// Without says what was left out, and why.
	Without []string `json:"without,omitempty"`
	// SettledMS is how long after the last fault, in milliseconds, every rule held.
	SettledMS int64  `json:"settled_ms"`
	Dir       string `json:"dir"`
	MS        int64  `json:"ms"`
}

const (
	// settleWithin is how long after the last fault everything must be as it should
	// be.
	settleWithin = 30 * time.Second
	// tidyWithin bounds how long people take to leave: a wait for what they stopped or
	// destroyed last, and for what still moves on a busy machine.
	tidyWithin = 4 * patience
	lookEvery  = time.Second
)

// Run makes an installation, lets people use it while its parts are killed, and
// checks what is left. The error is of the run itself; broken rules are in the
// report. The directory holds logs, recordings and, when a rule was broken, all
// data.
func Run(ctx context.Context, o Options) (*Report, error) {
	began := time.Now()
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	s, err := newSite(ctx, o.Dir, o.Programs, o.Port, o.Docker)
	if s != nil {
		defer s.stop()
	}
	if err != nil {
		return nil, err
	}
	rec, err := newRecorder(o.Dir, s.data, s.engine)
	if err != nil {
		return nil, err
	}
	r := &Report{Seed: o.Seed, Seconds: o.For.Seconds(), Counts: map[string]int{}, Kills: map[string]int{}, Faults: map[string]int{}, Dir: o.Dir, Broken: []Violation{}}
	if s.noEngine != "" {
		r.Without = append(r.Without, "a Docker engine and moves to it: "+s.noEngine)
		o.Say("chaos: without a Docker engine and moves to it: %s", s.noEngine)
	}
	if s.noClocks != "" {
		r.Without = append(r.Without, "clocks that are set: "+s.noClocks)
		o.Say("chaos: without clocks that are set: %s", s.noClocks)
	}
	err = r.run(ctx, o, s, rec)
	err = errors.Join(err, rec.close())
	r.MS = time.Since(began).Milliseconds()
	return r, err
}

func (r *Report) run(ctx context.Context, o Options, s *site, rec *recorder) error {
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	go rec.follow(watching, s.web)
	go rec.watch(watching)

	day, over := context.WithTimeout(ctx, o.For)
	defer over()
	failed := make(chan error, 1)
	f := &faults{dice: rand.New(rand.NewPCG(o.Seed, 0)), site: s, rec: rec, say: o.Say, kinds: o.Faults, busy: map[string]bool{}}
	if len(f.kinds) == 0 {
		f.kinds = Faults()
	}
	go func() { failed <- f.run(day) }()
	sc := &script{seed: o.Seed, web: s.web, rec: rec, docker: s.engine != nil, hitting: f.hitting}
	leave, left := context.WithTimeout(ctx, o.For+tidyWithin)
	defer left()
	sc.run(leave, day, o.People)
	if err := <-failed; err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, p := range s.parts() {
		r.Kills[p.name] = p.kills
	}
	for _, f := range rec.faults {
		r.Faults[f.Kind]++
	}
	o.Say("the people have left; looking")
	return r.settle(ctx, o, s, rec)
}

// settle looks until every rule holds, or for as long as that may take.
func (r *Report) settle(ctx context.Context, o Options, s *site, rec *recorder) error {
	if err := s.awaitAll(ctx); err != nil { // the last one hit may still be starting
		return err
	}
	g, err := newGatherer(ctx, s, rec)
	if err != nil {
		return err
	}
	defer func() { _ = g.close() }() // nothing was written
	last := rec.lastFault()
	end := last.Add(settleWithin)
	for first := true; ; first = false {
		e, err := g.gather(ctx)
		if err != nil {
			return err
		}
		r.Broken = check(e)
		r.count(e)
		// People may have left late: the first look always counts as one in time.
		if len(r.Broken) == 0 || (!first && time.Now().After(end)) {
			r.OK, r.SettledMS = len(r.Broken) == 0, time.Since(last).Milliseconds()
			if r.Broken == nil {
				r.Broken = []Violation{}
			}
			return keep(o.Dir, e)
		}
		if err := pause(ctx, lookEvery); err != nil {
			return err
		}
	}
}

func (r *recorder) lastFault() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.faults) == 0 {
		return time.Now()
	}
	last := r.faults[0].Back
	for _, f := range r.faults {
		if f.Back.After(last) {
			last = f.Back
		}
	}
	return last
}

// count says how much the run has tried.
func (r *Report) count(e *evidence) {
	c := map[string]int{"threads": len(e.Sessions), "messages": len(e.Said), "clicks": len(e.Clicks), "moves": len(e.Moves)}
	for _, s := range e.Sessions {
		c["turns"] += s.State.Turns
		c["forks"] += len(s.Thread.Parent) / max(1, len(s.Thread.Parent))
		if s.destroyed() {
			c["destroyed"]++
		}
		for _, m := range s.Thread.of("turn") {
			for _, call := range m.ToolCalls {
				c["calls"]++
				c["calls_"+call.State]++
			}
		}
		c["approvals"] += len(s.Thread.of("approval"))
	}
	for _, w := range e.Journals {
		c["journal_lines"] += len(w.Lines)
	}
	r.Counts = c
}

// keep writes the evidence down.
func keep(dir string, e *evidence) error {
	data, err := json.MarshalIndent(e, "", " ")
	if err != nil {
		return fmt.Errorf("encoding the evidence: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "evidence.json"), data, 0o600); err != nil {
		return fmt.Errorf("writing the evidence: %w", err)
	}
	return nil
}

func itoa(n int) string { return strconv.Itoa(n) }
