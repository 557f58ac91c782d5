package workflows_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/workflows"
)

// What was read of a thread's earlier talk is said in the thread, reaches the model
// with the message, and makes nobody a requester.
func TestEarlierTalkIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	m := said("100", "ada", "risky one")
	m.Earlier = &workflows.Earlier{Text: workflows.TextRef{Text: "> [grace]: hm"}, Messages: 12}
	w.request(workflows.SessionRequest{ID: "100", Thread: w.thread, Task: m, By: person("ada")})
	w.eventually("it is said", func() bool {
		v, ok := w.view("notice-1")
		return ok && strings.HasPrefix(v.Text.Text, "The 12 messages before the mention in this thread were read")
	})
	id := w.awaitApproval("approval-1")
	v, _ := w.view("approval-1")
	require.Equal(t, []workflows.Actor{person("ada")}, v.Approval.RequestedBy)
	require.Equal(t, "approval-1", workflows.ApprovalKey(id))
	require.Equal(t, workflows.OutcomeRecorded, w.click(id, "grace", workflows.VerdictDeny).Outcome)
}
