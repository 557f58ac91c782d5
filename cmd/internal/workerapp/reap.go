package workerapp

import (
	"context"
	"errors"
	"time"

	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/sandbox/docker"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// reapEvery is how often the engine is looked through for sandboxes that no
	// session has any more.
	reapEvery = time.Hour
	// reapWithin bounds one such look.
	reapWithin = 10 * time.Minute
)

// reap removes orphaned Docker sandboxes until ctx ends.
func (a *App) reap(ctx context.Context, engine *docker.Backend) {
	k := keeping{sessions: control.New(a.Client, nil)}
	tick := time.NewTicker(reapEvery)
	defer tick.Stop()
	for {
		a.reapOnce(ctx, engine, &k)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (a *App) reapOnce(ctx context.Context, engine *docker.Backend, k *keeping) {
	ctx, cancel := context.WithTimeout(ctx, reapWithin)
	defer cancel()
	k.before, k.known = k.known, map[box]kept{}
	done, err := engine.Reap(ctx, k.kept)
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

// keeping answers whether sessions have their sandboxes. It asks one again only when
// something has happened in it since the look before.
type keeping struct {
	sessions      asked
	before, known map[box]kept
}

// kept is what was answered, and at which moment.
type kept struct {
	at string
	is bool
}

// kept reports whether a session has the generation, or one is being made for it.
// An unanswered question is an error: nothing is removed on a guess.
func (k *keeping) kept(ctx context.Context, session string, generation int) (bool, error) {
	b := box{session, generation}
	m, err := k.sessions.Moment(ctx, session)
	switch {
	case errors.Is(err, workflows.ErrNoSession):
		return false, nil
	case err != nil:
		return false, err
	case m.Closed:
		return false, nil
	case k.before[b].at == m.At:
		k.known[b] = k.before[b]
		return k.known[b].is, nil
	}
	st, err := k.sessions.TurnState(ctx, session)
	if err != nil {
		return false, err
	}
	is := st.Sandbox != nil && st.Header.Liveness != workflows.LivenessDestroyed &&
		st.Sandbox.Backend == docker.Name && generation >= st.Sandbox.Generation
	k.known[b] = kept{m.At, is}
	return is, nil
}
