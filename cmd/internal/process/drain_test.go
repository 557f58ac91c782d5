package process_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/countersign/countersign/cmd/internal/process"
)

// What is quick ends; what is not is handed over, with an error that is retried;
// what failed by itself fails as it did.
func TestDrain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes   time.Duration
		fails   error
		stopped bool
		want    string // type of the error, empty for none
	}{
		"not stopping":         {takes: 2500 * time.Millisecond},
		"quick":                {takes: 10 * time.Millisecond, stopped: true},
		"long":                 {takes: time.Minute, stopped: true, want: "Draining"},
		"failing by itself":    {takes: 10 * time.Millisecond, fails: temporal.NewApplicationError("no", "Own"), want: "Own"},
		"failing, and stopped": {takes: 10 * time.Millisecond, fails: temporal.NewApplicationError("no", "Own"), stopped: true, want: "Own"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
			stop := make(chan struct{})
			if c.stopped {
				close(stop)
			}
			env.SetWorkerStopChannel(stop)
			env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{process.Drain(2 * time.Second)}})
			work := func(ctx context.Context) (string, error) {
				select {
				case <-ctx.Done():
					return "", ctx.Err()
				case <-time.After(c.takes):
					return "done", c.fails
				}
			}
			env.RegisterActivityWithOptions(work, activity.RegisterOptions{Name: "work"})
			began := time.Now()
			v, err := env.ExecuteActivity("work")
			require.Less(t, time.Since(began), 50*time.Second)
			if c.want == "" {
				require.NoError(t, err)
				var got string
				require.NoError(t, v.Get(&got))
				require.Equal(t, "done", got)
				return
			}
			var app *temporal.ApplicationError
			require.True(t, errors.As(err, &app), "%v", err)
			require.Equal(t, c.want, app.Type())
			require.False(t, app.NonRetryable())
		})
	}
}
