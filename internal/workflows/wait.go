package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"
)

// awaitFor waits until done, for at most d, and returns whether it is. It returns an
// error only where the context is cancelled. The SDK's own leaves its timer behind when
// it is done sooner: that fires into a session that is at rest, up to a day later, and
// costs a replay.
func awaitFor(ctx workflow.Context, d time.Duration, done func() bool) (bool, error) {
	if done() {
		return true, nil
	}
	tctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	timer := workflow.NewTimer(tctx, d)
	if err := workflow.Await(ctx, func() bool { return done() || timer.IsReady() }); err != nil {
		return false, err
	}
	return done(), nil
}
