package control

import (
	"context"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
)

// Moment is how far a session has come, as Temporal tells it without asking the
// session, which a worker would have to read from its history.
type Moment struct {
	// At names the run and the length of its history, from which all that a session
	// knows follows: while it is the same, what the session has said afterwards holds.
	At string
	// Closed: the session runs no more. It was destroyed, or somebody or something has
	// ended its workflow, at ClosedAt by the server's clock.
	Closed   bool
	ClosedAt time.Time
	// Run is the ID of the newest run.
	Run string
	// How it was cut short, such as "was terminated"; empty where it runs, or has ended
	// by itself.
	How string
}

// Moment answers how far a session has come; of one that Temporal does not know, or
// not any more, [workflows.ErrNoSession].
func (c *Client) Moment(ctx context.Context, workflowID string) (Moment, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	d, err := c.temporal.DescribeWorkflowExecution(ctx, workflowID, "")
	if err != nil {
		return Moment{}, translate("describing the session", err)
	}
	info := d.GetWorkflowExecutionInfo()
	return Moment{
		At:     fmt.Sprintf("%s/%d", info.GetExecution().GetRunId(), info.GetHistoryLength()),
		Closed: closed(info.GetStatus()), ClosedAt: info.GetCloseTime().AsTime(),
		Run: info.GetExecution().GetRunId(), How: cutShort[info.GetStatus()],
	}, nil
}

// cutShort says how a workflow has ended that did not end by itself.
var cutShort = map[enumspb.WorkflowExecutionStatus]string{
	enumspb.WORKFLOW_EXECUTION_STATUS_FAILED:     "failed",
	enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED:   "was cancelled",
	enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED: "was terminated",
	enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT:  "timed out",
}

func closed(status enumspb.WorkflowExecutionStatus) bool {
	return status == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED || cutShort[status] != ""
}
