package workerapp

import (
	"context"
	"time"

	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/telemetry"
)

// endedEvery is how often sessions are looked for that were ended from outside. What is
// missed, as where this machine's clock is wrong, is found when blobs are collected.
const endedEvery = 20 * time.Second

// noteEnded makes it known, until ctx ends, when a session's workflow was terminated or
// failed: its manager would count it as live for ever, and its sandbox would stay.
func (a *App) noteEnded(ctx context.Context) {
	sessions := control.New(a.Client, &control.Registry{Store: a.store})
	found := control.CutShort{Client: sessions}
	tick := time.NewTicker(endedEvery)
	defer tick.Stop()
	for {
		err := found.Look(ctx, func(ctx context.Context, workflowID string) error {
			a.doubt(workflowID)
			told, err := sessions.TellEnded(ctx, workflowID)
			if told {
				a.Log.Info("A session was ended from outside; it counts as destroyed", telemetry.KeyWorkflowID, workflowID)
			}
			return err
		})
		if err != nil && ctx.Err() == nil {
			a.Log.Debug("Sessions that were ended from outside were not all found", telemetry.KeyError, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// doubt has a session's sandboxes here looked at.
func (a *App) doubt(workflowID string) {
	a.words(a.here.Name()).doubt(workflowID)
	if a.engine != nil {
		a.words(a.engine.Name()).doubt(workflowID)
	}
}
