package workerapp

import (
	"context"
	"time"

	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/telemetry"
)

const (
	// endedEvery is how often sessions are looked for that were ended from outside.
	endedEvery = 20 * time.Second
	// endedBack is how far back a look after the first one goes: longer than visibility
	// is late. What is missed all the same, as where this machine's clock is wrong, is
	// found when blobs are collected.
	endedBack = time.Hour
)

// noteEnded makes it known, until ctx ends, when a session's workflow was terminated or
// failed: its manager would count it as live for ever, and its sandbox would stay.
func (a *App) noteEnded(ctx context.Context) {
	e := enders{
		sessions: control.New(a.Client, &control.Registry{Store: a.store}),
		doubt: func(workflowID string) {
			a.words(a.here.Name()).doubt(workflowID)
			if a.engine != nil {
				a.words(a.engine.Name()).doubt(workflowID)
			}
		},
	}
	tick := time.NewTicker(endedEvery)
	defer tick.Stop()
	for {
		told, err := e.look(ctx)
		for _, id := range told {
			a.Log.Info("A session was ended from outside; it counts as destroyed", telemetry.KeyWorkflowID, id)
		}
		if err != nil && ctx.Err() == nil {
			a.Log.Debug("Sessions that were ended from outside were not looked for", telemetry.KeyError, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// enders finds sessions that were ended from outside.
type enders struct {
	sessions interface {
		CutShort(ctx context.Context, since time.Time) ([]control.Run, error)
		TellEnded(ctx context.Context, workflowID string) (bool, error)
	}
	// doubt has a session's sandboxes looked at.
	doubt func(workflowID string)
	// known are runs that need nothing any more; whole: a look has gone all the way back.
	known map[control.Run]bool
	whole bool
}

// look looks once, and returns the sessions of which managers were told.
func (e *enders) look(ctx context.Context) (told []string, err error) {
	var since time.Time
	if e.whole {
		since = time.Now().Add(-endedBack)
	}
	runs, err := e.sessions.CutShort(ctx, since)
	if err != nil {
		return nil, err
	}
	known := map[control.Run]bool{}
	for _, r := range runs {
		if known[r] = e.known[r]; known[r] {
			continue
		}
		e.doubt(r.WorkflowID)
		tells, failed := e.sessions.TellEnded(ctx, r.WorkflowID)
		if tells {
			told = append(told, r.WorkflowID)
		}
		if known[r] = failed == nil; failed != nil {
			err = failed
		}
	}
	e.known, e.whole = known, e.whole || err == nil
	return told, err
}
