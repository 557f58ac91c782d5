package control

import (
	"context"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
)

// OnServerTime is for a connection to Temporal: it keeps this machine's wall clock out
// of how long activities may take.
//
// The server ends an activity when its schedule-to-close time is over, by its own
// clock. The SDK works that moment out once more, for the deadline of the activity's
// context, and this machine holds its clock against it: where that is ahead by as
// much, each attempt is over before it begins. So a task says here, instead of when it
// has to be closed, how long it may still take.
func OnServerTime() grpc.DialOption { return grpc.WithChainUnaryInterceptor(onServerTime) }

func onServerTime(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if err := next(ctx, method, req, reply, cc, opts...); err != nil {
		return err
	}
	switch r := reply.(type) {
	case *workflowservice.PollActivityTaskQueueResponse:
		countDown(r)
	case *workflowservice.RespondWorkflowTaskCompletedResponse: // those that are handed out at once
		for _, t := range r.GetActivityTasks() {
			countDown(t)
		}
	}
	return nil
}

// countDown turns a task's schedule-to-close time into a bound of its attempt.
func countDown(t *workflowservice.PollActivityTaskQueueResponse) {
	whole := t.GetScheduleToCloseTimeout().AsDuration()
	if whole <= 0 || t.GetScheduledTime() == nil || t.GetStartedTime() == nil {
		return
	}
	left := max(whole-t.GetStartedTime().AsTime().Sub(t.GetScheduledTime().AsTime()), time.Nanosecond)
	if attempt := t.GetStartToCloseTimeout().AsDuration(); attempt <= 0 || left < attempt {
		t.StartToCloseTimeout = durationpb.New(left)
	}
	t.ScheduleToCloseTimeout = nil
}

// serverTime is the server's clock, or a moment behind it: when the last thing
// happened in a workflow that has just taken an update.
func (c *Client) serverTime(ctx context.Context, workflowID string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	res, err := c.temporal.WorkflowService().GetWorkflowExecutionHistoryReverse(ctx, &workflowservice.GetWorkflowExecutionHistoryReverseRequest{
		Namespace: c.Namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: workflowID}, MaximumPageSize: 1,
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("asking for the server's time: %w", err)
	}
	events := res.GetHistory().GetEvents()
	if len(events) == 0 {
		return time.Time{}, fmt.Errorf("asking for the server's time: nothing has happened in %s", workflowID)
	}
	return events[0].GetEventTime().AsTime(), nil
}

// age is how long ago a moment of this process was: since then its wall clock may have
// been set, and the machine may have slept, for which its other clock stands still.
func age(t time.Time) time.Duration {
	return max(time.Since(t), time.Now().Round(0).Sub(t.Round(0)))
}
