package workflows_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/workflows"
)

// A turn that has used up its budget waits, before the next model call, until an
// approver raises it; it goes on where it is, or ends and says so.
func TestBudget(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.mu.Lock()
		w.budget = 200
		w.mu.Unlock()
		w.ask("a\nb\nc\nd")
		id := w.awaitApproval("approval-1")
		require.Equal(t, 2, w.runs(""))
		v, _ := w.view("approval-1")
		require.Equal(t, workflows.TierBudget, v.Approval.Tier)
		require.Contains(t, v.Approval.Command.Text, "Raise the budget of this turn")
		require.Equal(t, []string{workflows.ButtonApprove, workflows.ButtonDeny}, []string{v.Buttons[0].ID, v.Buttons[1].ID})
		require.Equal(t, workflows.LivenessWaiting, w.state(w.id()).Header.Liveness)
		require.Equal(t, workflows.OutcomeNotYours, w.click(id, "mallory", workflows.VerdictApprove).Outcome)
		require.Equal(t, workflows.OutcomeRecorded, w.click(id, "grace", workflows.VerdictApprove).Outcome)
		second := w.awaitApproval("approval-2")
		require.Equal(t, 4, w.runs(""))
		require.Equal(t, workflows.OutcomeRecorded, w.click(second, "grace", workflows.VerdictApprove).Outcome)
		require.Contains(t, w.awaitAnswer(1), "ok d")
		w.eventually("the card says who raised it", func() bool {
			v, _ := w.view("approval-1")
			return v.Approval.State == workflows.ApprovalApproved && v.Approval.DecidedBy != nil && len(v.Buttons) == 0
		})
		require.Equal(t, workflows.OutcomeAlreadyDecided, w.click(id, "grace", workflows.VerdictApprove).Outcome)

		w.say("m2", "ada", "e\nf\ng")
		third := w.awaitApproval("approval-3")
		require.Equal(t, workflows.OutcomeRecorded, w.click(third, "grace", workflows.VerdictDeny).Outcome)
		card := w.awaitTurn(2, workflows.TurnFailed)
		require.Contains(t, card.Error, "The budget of this turn is used up: $0.00 of $0.00. @grace has declined to raise it.")
		require.Equal(t, 6, w.runs(""))

		w.say("m3", "ada", "h\ni\nj")
		w.awaitApproval("approval-4")
		out := answered(w, func() (workflows.Outcome, error) {
			return w.control.CancelTurn(t.Context(), w.id(), workflows.CancelTurn{By: person("ada")}, "stop")
		})
		require.Equal(t, workflows.OutcomeRecorded, out.Outcome)
		w.awaitTurn(3, workflows.TurnStopped)
	})
}

// An answer that is given while one run ends and the next has not yet come back to
// its request counts, and is not asked for again.
func TestBudgetAnsweredBetweenRuns(t *testing.T) {
	t.Parallel()
	for verdict, want := range map[string]struct{ who, state, says string }{
		workflows.VerdictDeny:     {"grace", workflows.TurnFailed, "@grace has declined to raise it."},
		workflows.VerdictWithdraw: {"ada", workflows.TurnFailed, "@ada has withdrawn the request to raise it."},
		workflows.VerdictApprove:  {"grace", workflows.TurnDone, ""},
	} {
		t.Run(verdict, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			answered := make(chan struct{})
			overs := 0
			w.atOver = func() {
				if overs++; overs > 1 { // a run that asks the model first
					<-answered
				}
			}
			w.mu.Lock()
			w.budget = 100
			w.mu.Unlock()
			w.ask("a")
			id := w.awaitApproval("approval-1")
			require.Equal(t, workflows.OutcomeRecorded, w.click(id, want.who, verdict).Outcome)
			close(answered)
			require.Contains(t, w.awaitTurn(1, want.state).Error, want.says)
			_, again := w.view("approval-2")
			require.False(t, again, "it is asked once")
			w.checkAudit()
		})
	}
}
