package control

import (
	"context"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
)

// Pace is how fast a chat queue hands out its tasks: the engine's pacing, for
// all bots together. Zero leaves a rate as it is.
type Pace struct {
	// Queue is tasks per second in all, PerKey for each fairness key.
	Queue, PerKey float32
}

// SetPace configures an activity queue's rates. A server that cannot is an
// error that says so; posting then relies on the chat service's own answers.
func (c *Client) SetPace(ctx context.Context, namespace, queue string, p Pace) error {
	req := &workflowservice.UpdateTaskQueueConfigRequest{
		Namespace: namespace, Identity: "countersign", TaskQueue: queue, TaskQueueType: enumspb.TASK_QUEUE_TYPE_ACTIVITY,
	}
	if p.Queue > 0 {
		req.UpdateQueueRateLimit = rate(p.Queue)
	}
	if p.PerKey > 0 {
		req.UpdateFairnessKeyRateLimitDefault = rate(p.PerKey)
	}
	if _, err := c.temporal.WorkflowService().UpdateTaskQueueConfig(ctx, req); err != nil {
		return fmt.Errorf("setting the rate of queue %s: %w", queue, err)
	}
	return nil
}

func rate(perSecond float32) *workflowservice.UpdateTaskQueueConfigRequest_RateLimitUpdate {
	return &workflowservice.UpdateTaskQueueConfigRequest_RateLimitUpdate{
		RateLimit: &taskqueuepb.RateLimit{RequestsPerSecond: perSecond},
		Reason:    "what the chat service allows",
	}
}
