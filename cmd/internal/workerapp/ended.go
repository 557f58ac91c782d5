package workerapp

import (
	"context"
	"errors"

	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/telemetry"
)

// noteEnded makes it known, until ctx ends, when a session's workflow was terminated or
// failed: its manager would count it as live for ever, its sandbox would stay, and its
// thread would show what it was at, with buttons that nobody answers. What
// is missed, as where this machine's clock is wrong, is found when blobs are collected.
func (a *App) noteEnded(ctx context.Context) {
	sessions := control.New(a.Client, &control.Registry{Store: a.store})
	found := control.CutShort{Client: sessions}
	found.Watch(ctx, func(ctx context.Context, workflowID string) error {
		a.doubt(workflowID)
		told, err := sessions.TellEnded(ctx, workflowID)
		if told {
			a.Log.Info("A session was ended from outside; it counts as destroyed", telemetry.KeyWorkflowID, workflowID)
		}
		return errors.Join(err, sessions.ShowEnded(ctx, workflowID))
	}, func(err error) {
		a.Log.Debug("Sessions that were ended from outside were not all found", telemetry.KeyError, err)
	})
}

// doubt has a session's sandboxes here looked at.
func (a *App) doubt(workflowID string) {
	a.words(a.here.Name()).doubt(workflowID)
	if a.engine != nil {
		a.words(a.engine.Name()).doubt(workflowID)
	}
}
