package workerapp

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/docker"
	"github.com/countersign/countersign/internal/sandbox/local"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// reapEvery is how often the engine is looked through for sandboxes that no
	// session has any more.
	reapEvery = time.Hour
	// reapWithin bounds one such look.
	reapWithin = 10 * time.Minute
	// newBoxEvery is how often sessions are asked about this host's sandboxes that
	// are not known to be theirs; allBoxesEvery how often about all, as after a start.
	newBoxEvery   = 5 * time.Second
	allBoxesEvery = time.Hour
	// askAgain is how many that are known to be theirs are asked about each time, in
	// turn: a session may have left one while the engine or the network was away, and
	// its word to remove it did not arrive.
	askAgain = 2
	// askPause keeps the questions of a worker with thousands of sandboxes apart.
	askPause = 20 * time.Millisecond
)

// reap removes orphaned Docker sandboxes until ctx ends.
func (a *App) reap(ctx context.Context, engine *docker.Backend) {
	sessions := control.New(a.Client, nil)
	tick := time.NewTicker(reapEvery)
	defer tick.Stop()
	for {
		a.reapOnce(ctx, engine, sessions)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (a *App) reapOnce(ctx context.Context, engine *docker.Backend, sessions *control.Client) {
	ctx, cancel := context.WithTimeout(ctx, reapWithin)
	defer cancel()
	done, err := engine.Reap(ctx, func(ctx context.Context, session string, generation int) (bool, error) {
		return kept(ctx, sessions, session, generation)
	})
	switch {
	case ctx.Err() != nil:
	case err != nil:
		a.Log.Warn("Orphaned sandboxes were not looked for", telemetry.KeyBackend, docker.Name, telemetry.KeyError, err)
	case done != docker.Reaped{}:
		a.Log.Info("Orphaned sandboxes removed", telemetry.KeyBackend, docker.Name,
			"sandboxes", done.Sandboxes, "volumes", done.Volumes, "images", done.Images)
	}
}

// restEvery is how often the engine is looked through for containers that nothing
// needs, and stopWithin bounds one such look.
const (
	restEvery  = 10 * time.Second
	stopWithin = 10 * time.Minute
)

// rest stops containers that have run for nothing for so long, until ctx ends.
func (a *App) rest(ctx context.Context, engine *docker.Backend, idle time.Duration) {
	tick := time.NewTicker(min(restEvery, idle))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		look, cancel := context.WithTimeout(ctx, stopWithin)
		stopped, err := engine.StopIdle(look, idle)
		cancel()
		switch {
		case ctx.Err() != nil:
		case err != nil:
			a.Log.Warn("Idle sandboxes were not stopped", telemetry.KeyBackend, docker.Name, telemetry.KeyError, err)
		case stopped > 0:
			a.Log.Info("Idle sandboxes stopped", telemetry.KeyBackend, docker.Name, "sandboxes", stopped)
		}
	}
}

// kept reports whether a session has the generation, or one is being made for it.
// An unanswered question is an error: nothing is removed on a guess.
func kept(ctx context.Context, sessions *control.Client, session string, generation int) (bool, error) {
	st, err := sessions.TurnState(ctx, session)
	switch {
	case errors.Is(err, workflows.ErrNoSession):
		return false, nil
	case err != nil:
		return false, err
	case st.Header.Liveness == workflows.LivenessDestroyed || st.Sandbox == nil:
		return false, nil
	}
	return st.Sandbox.Backend == docker.Name && generation >= st.Sandbox.Generation, nil
}

// fence removes sandboxes of this host that their sessions have left: destroyed
// while it was away, restored on another host, or made by a try whose retry went
// to another host. So an old generation does nothing any more once its host is
// back. It runs until ctx ends.
func (a *App) fence(ctx context.Context, y yard) {
	f := fencer{log: a.Log, host: a.host, yard: y, sessions: control.New(a.Client, nil)}
	tick := time.NewTicker(newBoxEvery)
	defer tick.Stop()
	for {
		if err := f.round(ctx); err != nil && ctx.Err() == nil {
			a.Log.Warn("Sandboxes without a session were not looked for", telemetry.KeyBackend, y.Name(), telemetry.KeyError, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// box is a sandbox of this host.
type box struct {
	ID         string
	Generation int
}

// yard is where a backend keeps this host's sandboxes.
type yard interface {
	Name() string
	Open(ctx context.Context, spec sandbox.Spec) (sandbox.Session, error)
	// boxes lists them.
	boxes(ctx context.Context) ([]box, error)
}

type localYard struct{ *local.Backend }

func (y localYard) boxes(context.Context) ([]box, error) {
	there, err := y.Boxes()
	var all []box
	for _, b := range there {
		all = append(all, box{b.ID, b.Generation})
	}
	return all, err
}

// dockerYard is the engine's. What was left half made goes as well.
type dockerYard struct{ *docker.Backend }

func (y dockerYard) boxes(ctx context.Context) ([]box, error) {
	if err := y.Sweep(ctx); err != nil {
		return nil, err
	}
	there, err := y.Boxes(ctx)
	var all []box
	for _, b := range there {
		all = append(all, box(b))
	}
	return all, err
}

// turnStates is what a fencer asks sessions.
type turnStates interface {
	TurnState(ctx context.Context, workflowID string) (workflows.TurnState, error)
}

type fencer struct {
	log interface {
		Info(msg string, args ...any)
	}
	host     string
	yard     yard
	sessions turnStates
	// settled are known to be their sessions' own, since all were asked; turns are
	// those, in the order in which they are asked about again.
	settled map[box]bool
	turns   []box
	asked   time.Time
}

// round looks once, at all of them when it is time to. After a look that failed it
// is: what its session could not remove meanwhile, and has left, is found as soon as
// the backend answers again.
func (f *fencer) round(ctx context.Context) error {
	if time.Since(f.asked) > allBoxesEvery {
		f.asked, f.settled, f.turns = time.Now(), map[box]bool{}, nil
	}
	err := f.look(ctx)
	if err != nil {
		f.asked = time.Time{}
	}
	return err
}

func (f *fencer) settle(b box) {
	f.settled[b] = true
	f.turns = append(f.turns, b)
}

// again lets the next look ask about some that are settled.
func (f *fencer) again() {
	n := min(askAgain, len(f.turns))
	for _, b := range f.turns[:n] {
		delete(f.settled, b)
	}
	f.turns = slices.Delete(f.turns, 0, n)
}

func (f *fencer) look(ctx context.Context) error {
	f.again()
	boxes, err := f.yard.boxes(ctx)
	if err != nil {
		return err
	}
	for _, b := range boxes {
		if f.settled[b] {
			continue
		}
		if _, err := workflows.ParseWorkflowID(b.ID); err != nil {
			continue // not a session's
		}
		st, err := f.sessions.TurnState(ctx, b.ID)
		if err != nil {
			// Also where there is no session: the worker may have been pointed at
			// another server. Nothing is removed on a guess.
			if errors.Is(err, workflows.ErrNoSession) {
				f.settle(b)
			}
			continue
		}
		switch f.standing(b, st) {
		case mine:
			f.settle(b)
		case left:
			if err := f.remove(ctx, b); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(askPause):
		}
	}
	return nil
}

// standing is what a sandbox is to its session.
type standing int

const (
	undecided standing = iota // it may become the session's
	mine
	left
)

func (f *fencer) standing(b box, st workflows.TurnState) standing {
	sb := st.Sandbox
	switch {
	case st.Header.Liveness == workflows.LivenessDestroyed:
		return left
	case sb == nil || b.Generation > sb.Generation:
		return undecided
	case b.Generation == sb.Generation && sb.Backend == f.yard.Name() && sb.Host == f.host:
		return mine
	}
	return left
}

func (f *fencer) remove(ctx context.Context, b box) error {
	s, err := f.yard.Open(ctx, sandbox.Spec{ID: b.ID, Generation: b.Generation, Existing: true})
	if errors.Is(err, sandbox.ErrGone) {
		return nil
	}
	if err == nil {
		err = s.Destroy(ctx)
	}
	if err == nil {
		f.log.Info("Removed a sandbox that its session has left", telemetry.KeyWorkflowID, b.ID, "generation", b.Generation)
	}
	return err
}
