package control

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/countersign/countersign/internal/workflows"
)

// How long an activity may take is counted from when its task is here, whatever this
// machine's clock says: the task names no moment any more.
func TestActivitiesAreBoundedByTheServersClock(t *testing.T) {
	t.Parallel()
	began := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) // years behind this machine's clock
	task := func(waited, attempt, whole time.Duration) *workflowservice.PollActivityTaskQueueResponse {
		r := &workflowservice.PollActivityTaskQueueResponse{
			ScheduledTime: timestamppb.New(began), StartedTime: timestamppb.New(began.Add(waited)),
			StartToCloseTimeout: durationpb.New(attempt),
		}
		if whole > 0 {
			r.ScheduleToCloseTimeout = durationpb.New(whole)
		}
		return r
	}
	for what, c := range map[string]struct {
		waited, attempt, whole, want time.Duration
	}{
		"the attempt's own bound":           {time.Minute, 10 * time.Minute, 15 * time.Minute, 10 * time.Minute},
		"what is left":                      {10 * time.Minute, 10 * time.Minute, 15 * time.Minute, 5 * time.Minute},
		"nothing is left":                   {20 * time.Minute, 10 * time.Minute, 15 * time.Minute, time.Nanosecond},
		"no bound but the attempt's":        {time.Hour, 10 * time.Minute, 0, 10 * time.Minute},
		"no bound but that of all attempts": {time.Minute, 0, 15 * time.Minute, 14 * time.Minute},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for _, reply := range []any{
				task(c.waited, c.attempt, c.whole),
				&workflowservice.RespondWorkflowTaskCompletedResponse{ActivityTasks: []*workflowservice.PollActivityTaskQueueResponse{task(c.waited, c.attempt, c.whole)}},
			} {
				err := onServerTime(t.Context(), "", nil, reply, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil })
				require.NoError(t, err)
				got, ok := reply.(*workflowservice.PollActivityTaskQueueResponse)
				if !ok {
					got = reply.(*workflowservice.RespondWorkflowTaskCompletedResponse).ActivityTasks[0]
				}
				require.Equal(t, c.want, got.GetStartToCloseTimeout().AsDuration())
				require.Zero(t, got.GetScheduleToCloseTimeout().AsDuration())
			}
		})
	}
}

// judge is a server with a clock of its own, whose sessions refuse clicks that are too
// old or too new by it.
type judge struct {
	client.Client
	ahead time.Duration // of this machine
	told  []time.Time   // when clicks were made, as far as it was told
	ids   map[string]bool
}

func (j *judge) now() time.Time { return time.Now().Add(j.ahead) }

func (j *judge) UpdateWorkflow(_ context.Context, o client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	at := o.Args[0].(workflows.Decision).ClickedAt
	j.told = append(j.told, at)
	j.ids[o.UpdateID] = true
	if j.now().Sub(at).Abs() > workflows.MaxDecisionAge {
		return verdict{out: workflows.OutcomeUnconfirmed}, nil
	}
	return verdict{out: workflows.OutcomeRecorded}, nil
}

func (j *judge) WorkflowService() workflowservice.WorkflowServiceClient { return history{now: j.now} }

// history tells when the last thing happened: now.
type history struct {
	workflowservice.WorkflowServiceClient
	now func() time.Time
}

func (h history) GetWorkflowExecutionHistoryReverse(context.Context, *workflowservice.GetWorkflowExecutionHistoryReverseRequest, ...grpc.CallOption) (*workflowservice.GetWorkflowExecutionHistoryReverseResponse, error) {
	return &workflowservice.GetWorkflowExecutionHistoryReverseResponse{
		History: &historypb.History{Events: []*historypb.HistoryEvent{{EventTime: timestamppb.New(h.now())}}},
	}, nil
}

type verdict struct {
	client.WorkflowUpdateHandle
	out string
}

func (v verdict) Get(_ context.Context, to any) error {
	to.(*workflows.Outcome).Outcome = v.out
	return nil
}

// A click counts on a machine whose clock is wrong, and an old one counts nowhere.
func TestClicksByAClockThatIsWrong(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, 20 * time.Second} {
		for _, ago := range []time.Duration{0, workflows.MaxDecisionAge + time.Minute} {
			t.Run(ahead.String()+", clicked "+ago.String()+" ago", func(t *testing.T) {
				t.Parallel()
				j := &judge{ahead: ahead, ids: map[string]bool{}}
				c := New(j, nil)
				c.Namespace = "default"
				out, err := c.Decide(t.Context(), "agent/web/main/7", workflows.Decision{ApprovalID: "7.a1", Interaction: "i", ClickedAt: time.Now().Add(-ago)})
				require.NoError(t, err)
				switch {
				case ago > 0:
					require.Equal(t, workflows.OutcomeUnconfirmed, out.Outcome)
					require.Len(t, j.told, 1)
				case ahead == 0:
					require.Equal(t, workflows.OutcomeRecorded, out.Outcome)
					require.Len(t, j.told, 1)
				default:
					require.Equal(t, workflows.OutcomeRecorded, out.Outcome)
					require.Len(t, j.ids, 2, "an update's answer is kept under its ID")
					require.False(t, j.told[1].After(j.now()), "never from the future")
				}
			})
		}
	}
}
