package control

import (
	"context"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/grpc"

	"github.com/countersign/countersign/internal/workflows"
)

const (
	// lookEvery is how often a host's queue is looked at while its death is in doubt,
	// backEvery while it is dead.
	lookEvery = time.Second
	backEvery = 5 * time.Second
)

// Queues tells who serves a task queue; a client's workflow service does.
type Queues interface {
	DescribeTaskQueue(context.Context, *workflowservice.DescribeTaskQueueRequest, ...grpc.CallOption) (*workflowservice.DescribeTaskQueueResponse, error)
}

// Hosts are the activities that tell a dead host from a busy one, by who serves
// its task queue.
type Hosts struct {
	Queues    Queues
	Namespace string
	// Rules says what an approval of a tier takes in a channel.
	Rules func(tier, channel string) workflows.ApprovalRule
}

// CheckHost watches a host's queue until it is served, which a host does that is
// only busy, or has not been for as long as makes a host dead.
func (h *Hosts) CheckHost(ctx context.Context, in workflows.CheckHostInput) (workflows.CheckHostResult, error) {
	return h.watch(ctx, in, serverClock(activity.GetInfo(ctx).StartedTime))
}

// serverClock goes on from a moment that the server has named: when a queue was
// asked for tasks is by the server's clock, and this machine's may be another.
func serverClock(now time.Time) func() time.Time {
	began := time.Now()
	return func() time.Time { return now.Add(time.Since(began)) }
}

func (h *Hosts) watch(ctx context.Context, in workflows.CheckHostInput, now func() time.Time) (workflows.CheckHostResult, error) {
	began := now()
	for {
		activity.RecordHeartbeat(ctx)
		seen, err := h.seen(ctx, in.Queue)
		if err != nil {
			return workflows.CheckHostResult{}, err
		}
		// A server that has just started knows of nobody.
		last := seen
		if last.IsZero() {
			last = began
		}
		switch {
		case seen.After(in.Since):
			return workflows.CheckHostResult{Seen: seen}, nil
		case now().Sub(last) >= in.DeadAfter:
			return workflows.CheckHostResult{Dead: true, Seen: seen, Rule: h.Rules("risky", in.Channel)}, nil
		}
		select {
		case <-ctx.Done():
			return workflows.CheckHostResult{}, ctx.Err()
		case <-time.After(lookEvery):
		}
	}
}

// AwaitHost ends when a host's queue is served again. Until then it fails
// retryably, which adds nothing to history.
func (h *Hosts) AwaitHost(ctx context.Context, in workflows.AwaitHostInput) error {
	seen, err := h.seen(ctx, in.Queue)
	if err != nil {
		return err
	}
	if seen.After(in.Since) {
		return nil
	}
	return temporal.NewApplicationErrorWithOptions("the host is not back", workflows.ErrTypeRefresh, temporal.ApplicationErrorOptions{
		NextRetryDelay: backEvery, Category: temporal.ApplicationErrorCategoryBenign,
	})
}

// seen is when a queue of activities was last asked for tasks; zero where the
// server knows of nobody.
func (h *Hosts) seen(ctx context.Context, queue string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	res, err := h.Queues.DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace: h.Namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: queue}, TaskQueueType: enumspb.TASK_QUEUE_TYPE_ACTIVITY,
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("looking at queue %s: %w", queue, err)
	}
	var last time.Time
	for _, p := range res.GetPollers() {
		if at := p.GetLastAccessTime().AsTime(); at.After(last) {
			last = at
		}
	}
	return last, nil
}
