package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
)

// TestAwaitForLeavesNoTimer: one that stays behind wakes a session that is at rest.
func TestAwaitForLeavesNoTimer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after              time.Duration // when it is done; negative is never
		done               bool
		started, cancelled int
	}{
		"done at once": {after: 0, done: true},
		"done sooner":  {after: time.Minute, done: true, started: 1, cancelled: 1},
		"too late":     {after: 2 * time.Hour, started: 1},
		"never":        {after: -1, started: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			started, cancelled := 0, 0
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestWorkflowEnvironment()
			env.SetOnTimerScheduledListener(func(_ string, d time.Duration) {
				if d == time.Hour {
					started++
				}
			})
			env.SetOnTimerCanceledListener(func(string) { cancelled++ })
			env.RegisterWorkflow(waits)
			env.ExecuteWorkflow(waits, c.after)
			require.True(t, env.IsWorkflowCompleted())
			var done bool
			require.NoError(t, env.GetWorkflowResult(&done))
			require.Equal(t, c.done, done)
			require.Equal(t, c.started, started)
			require.Equal(t, c.cancelled, cancelled)
		})
	}
}

// waits waits for an hour for what is done after a while.
func waits(ctx workflow.Context, after time.Duration) (bool, error) {
	done := after == 0
	if after > 0 {
		workflow.Go(ctx, func(ctx workflow.Context) {
			_ = workflow.Sleep(ctx, after)
			done = true
		})
	}
	ok, err := awaitFor(ctx, time.Hour, func() bool { return done })
	if err != nil {
		return false, err
	}
	return ok, workflow.Sleep(ctx, 3*time.Hour)
}
