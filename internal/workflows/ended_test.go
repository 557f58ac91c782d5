package workflows_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/workflows"
)

// A session that is terminated while a request waits and a command goes on in the
// background is brought to an end in its thread, once: nothing in it waits or runs.
func TestEnded(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 3} {
		t.Run(fmt.Sprintf("continue-as-new every %d", n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, n)
			w.ask("bg block x\nrisky y")
			w.awaitApproval("approval-1")
			w.eventually("the thread shows both", func() bool {
				h, _ := w.view(workflows.HeaderKey)
				c, _ := w.view("turn-1")
				return h.Header.Liveness == workflows.LivenessWaiting && len(c.Turn.Calls) == 2 &&
					c.Turn.Calls[0].State == workflows.CallRunning && c.Turn.Calls[1].State == workflows.CallAwaiting
			})
			require.NoError(t, w.control.ShowEnded(t.Context(), w.id()), "one that runs is left alone")
			require.NoError(t, w.env.Client.TerminateWorkflow(t.Context(), w.id(), "", "by hand"))
			d, err := w.env.Client.DescribeWorkflowExecution(t.Context(), w.id(), "")
			require.NoError(t, err)
			w.eventually("it is seen to", func() bool { return w.control.ShowEnded(t.Context(), w.id()) == nil })
			id := workflows.EndedID(w.id(), d.WorkflowExecutionInfo.Execution.RunId)
			require.NoError(t, w.env.Client.GetWorkflow(t.Context(), id, "").Get(t.Context(), nil))
			first, err := w.env.Client.DescribeWorkflowExecution(t.Context(), id, "")
			require.NoError(t, err)

			h, _ := w.view(workflows.HeaderKey)
			require.Equal(t, workflows.LivenessDestroyed, h.Header.Liveness)
			require.Equal(t, d.WorkflowExecutionInfo.CloseTime.AsTime(), h.Header.DestroyedAt)
			require.Contains(t, h.Header.Notice, "was terminated in Temporal")
			require.Empty(t, h.Buttons)
			c, _ := w.view("turn-1")
			require.Equal(t, workflows.TurnFailed, c.Turn.State)
			require.Equal(t, workflows.CallUnknown, c.Turn.Calls[0].State)
			require.Equal(t, workflows.CallCancelled, c.Turn.Calls[1].State)
			require.False(t, c.Live())
			require.Equal(t, []workflows.Button{{ID: workflows.ButtonDetails, Label: "Details"}}, c.Buttons)
			a, _ := w.view("approval-1")
			require.Equal(t, workflows.ApprovalExpired, a.Approval.State)
			require.True(t, a.Approval.CutShort)
			require.Empty(t, a.Buttons)

			require.NoError(t, w.control.ShowEnded(t.Context(), w.id()))
			again, err := w.env.Client.DescribeWorkflowExecution(t.Context(), id, "")
			require.NoError(t, err)
			require.Equal(t, first.WorkflowExecutionInfo.Execution.RunId, again.WorkflowExecutionInfo.Execution.RunId)
			w.keep("TestEnded")
		})
	}
}
