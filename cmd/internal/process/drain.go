package process

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
)

// errTypeDraining is the application error of an activity that its process hands
// over because it stops: Temporal runs it again elsewhere.
const errTypeDraining = "Draining"

// Drain hands over what does not end by itself when a process stops: for quick
// activities go on, then their context ends, and those that fail for that reason
// are tried again at once by whoever serves the queue. Commands go on meanwhile:
// the end of an activity never ends one.
func Drain(quick time.Duration) interceptor.WorkerInterceptor { return &drain{quick: quick} }

// StopAll stops workers at once, so that all of them together take no longer than
// one may.
func StopAll(workers []worker.Worker) {
	var all sync.WaitGroup
	for _, w := range workers {
		all.Go(w.Stop)
	}
	all.Wait()
}

type drain struct {
	interceptor.WorkerInterceptorBase
	quick time.Duration
}

func (d *drain) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &drained{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, quick: d.quick}
}

type drained struct {
	interceptor.ActivityInboundInterceptorBase
	quick time.Duration
}

func (d *drained) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan struct{})
	go func() {
		select {
		case <-running.Done():
			return
		case <-activity.GetWorkerStopChannel(ctx):
		}
		select {
		case <-running.Done():
		case <-time.After(d.quick):
			close(over)
			cancel()
		}
	}()
	res, err := d.Next.ExecuteActivity(running, in)
	select {
	case <-over:
		if err != nil {
			return nil, temporal.NewApplicationErrorWithOptions("its process is stopping", errTypeDraining,
				temporal.ApplicationErrorOptions{Cause: err, Category: temporal.ApplicationErrorCategoryBenign})
		}
	default:
	}
	return res, err
}
