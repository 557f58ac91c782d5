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

// kept reports whether a session has the generation, or one is being made for it.
// An unanswered
// question is an error: nothing is removed on a guess.
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
