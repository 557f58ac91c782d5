package control

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/testsuite"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/countersign/countersign/internal/workflows"
)

// polled is a queue that was last asked for tasks at a moment.
type polled time.Time

func (p polled) DescribeTaskQueue(context.Context, *workflowservice.DescribeTaskQueueRequest, ...grpc.CallOption) (*workflowservice.DescribeTaskQueueResponse, error) {
	return &workflowservice.DescribeTaskQueueResponse{Pollers: []*taskqueuepb.PollerInfo{{LastAccessTime: timestamppb.New(time.Time(p))}}}, nil
}

// A host is dead by the server's clock alone: that of the worker which looks may be
// an hour off, either way. One that has asked for tasks since the session began to
// wonder is there, though it has not asked again since this look began.
func TestCheckHost(t *testing.T) {
	t.Parallel()
	const deadAfter = 2 * time.Minute
	for _, off := range []time.Duration{0, time.Hour, -time.Hour} {
		server := time.Now().Add(off)
		for what, host := range map[string]struct {
			seen, since time.Time
			dead        bool
		}{
			"back since":                       {server.Add(-10 * time.Second), server.Add(-15 * time.Second), false},
			"not seen for as long as it takes": {server.Add(-deadAfter), server, true},
		} {
			t.Run(what+", the server "+off.String()+" ahead", func(t *testing.T) {
				t.Parallel()
				h := &Hosts{Queues: polled(host.seen), Rules: func(string, string) workflows.ApprovalRule { return workflows.ApprovalRule{Required: 1} }}
				env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
				look := func(ctx context.Context) (workflows.CheckHostResult, error) {
					return h.watch(ctx, workflows.CheckHostInput{Queue: "q", DeadAfter: deadAfter, Since: host.since}, serverClock(server))
				}
				env.RegisterActivity(look)
				v, err := env.ExecuteActivity(look)
				require.NoError(t, err)
				var res workflows.CheckHostResult
				require.NoError(t, v.Get(&res))
				require.Equal(t, host.dead, res.Dead)
				require.WithinDuration(t, host.seen, res.Seen, time.Microsecond)
			})
		}
	}
}

// A host that is in doubt, seen a moment ago and not since, is watched: nobody
// decides at once, whatever this machine's clock says.
func TestCheckHostWatches(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{0, time.Hour, -time.Hour} {
		t.Run("the server "+off.String()+" ahead", func(t *testing.T) {
			t.Parallel()
			server := time.Now().Add(off)
			h := &Hosts{Queues: polled(server.Add(-time.Second)), Rules: func(string, string) workflows.ApprovalRule { return workflows.ApprovalRule{} }}
			env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
			look := func(ctx context.Context) (bool, error) {
				ctx, cancel := context.WithCancel(ctx)
				cancel() // after the first look
				_, err := h.watch(ctx, workflows.CheckHostInput{Queue: "q", DeadAfter: 2 * time.Minute, Since: server}, serverClock(server))
				return errors.Is(err, context.Canceled), nil
			}
			env.RegisterActivity(look)
			v, err := env.ExecuteActivity(look)
			require.NoError(t, err)
			var watches bool
			require.NoError(t, v.Get(&watches))
			require.True(t, watches)
		})
	}
}
