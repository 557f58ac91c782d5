package workflows_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/countersign/countersign/internal/audit"
	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/workflows"
)

// The card that gave a permission says when that has ended, however it did.
func TestCardsSayThatAGrantHasEnded(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("grantable a\ngrantable b")
		for _, key := range []string{"approval-1", "approval-2"} {
			out := w.decide(workflows.Decision{ApprovalID: w.awaitApproval(key), Verdict: workflows.VerdictApprove, By: person("grace"), GrantFor: time.Hour})
			require.Equal(t, workflows.OutcomeRecorded, out.Outcome)
		}
		w.awaitTurn(1, workflows.TurnDone)
		revoke := func(who, id string) workflows.Outcome {
			out := answered(w, func() (workflows.Outcome, error) {
				return w.control.RevokeGrant(t.Context(), w.id(), workflows.RevokeGrant{GrantID: id, By: person(who)}, who+id)
			})
			return out
		}
		require.Equal(t, workflows.OutcomeRecorded, revoke("grace", "g1").Outcome)
		late := revoke("heidi", "g1")
		require.Equal(t, workflows.OutcomeAlreadyDecided, late.Outcome)
		require.Contains(t, late.Text, "g1 was ended by @grace at ")
		require.Equal(t, workflows.OutcomeRefused, revoke("heidi", "g9").Outcome)
		w.eventually("the card says who revoked it", func() bool {
			v, _ := w.view("approval-1")
			return v.Approval.GrantEnd != nil && v.Approval.GrantEnd.By.ID == "grace"
		})
		v, _ := w.view("approval-2")
		require.Nil(t, v.Approval.GrantEnd)
		out := w.move("switch-1", "ada", "docker", "")
		require.Equal(t, workflows.OutcomeRecorded, out.Outcome, out.Text)
		w.eventually("the card says that the move ended it", func() bool {
			v, _ := w.view("approval-2")
			return v.Approval.GrantEnd != nil && v.Approval.GrantEnd.Why == "the move to docker"
		})
	})
}

// Stopped while its sandbox opens, a turn is stopped: it has not failed, and what
// was being made is not lost sight of. That is so before the model's first call
// and before a later turn's first tool call.
func TestStopWhileTheSandboxOpens(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		stopsWhileItOpens := func(turn int, begin func()) workflows.TurnView {
			gate := make(chan struct{})
			w.mu.Lock()
			w.opening, w.inOpen = gate, false
			w.mu.Unlock()
			begin()
			w.eventually("the sandbox opens", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.inOpen })
			require.Equal(t, workflows.OutcomeRecorded, w.stop("stop-"+strconv.Itoa(turn), workflows.CancelTurn{By: person("bob")}).Outcome)
			card := w.awaitTurn(turn, workflows.TurnStopped)
			require.Equal(t, "bob", card.By.ID)
			require.Empty(t, card.Error)
			close(gate)
			return card
		}
		card := stopsWhileItOpens(1, func() { w.ask("ls") })
		require.Empty(t, card.Calls, "the model was not asked yet")
		card = stopsWhileItOpens(2, func() { w.say("101", "ada", "pwd") })
		require.Equal(t, workflows.CallCancelled, card.Calls[0].State)
		require.Zero(t, w.runs(""))
		w.say("102", "ada", "pwd")
		require.Contains(t, w.awaitAnswer(3), "ok pwd")
		require.Equal(t, 1, w.runs(".3.1.x1"))
		require.Zero(t, w.runs(".2.1.x1"))
	})
}

// A sandbox that cannot be opened before the model's first call keeps nobody from
// an answer that needs none; a call that needs it fails with the reason.
func TestTheModelIsAskedWithoutASandbox(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.openErr = temporal.NewNonRetryableApplicationError("Docker is not reachable on the worker.", "x", nil)
	w.ask("# a question")
	require.Equal(t, "The model ended its turn without an answer.", w.awaitAnswer(1))
	w.say("101", "ada", "ls")
	card := w.awaitTurn(2, workflows.TurnFailed)
	require.Equal(t, "Docker is not reachable on the worker.", card.Error)
	require.Equal(t, workflows.CallFailed, card.Calls[0].State)
}

// Messages that wait go first: a pause that they would undo at once is none.
func TestPauseWaitsForQueuedMessages(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("block")
		w.eventually("running", func() bool { return w.runs("") == 1 })
		w.say("101", "ada", "ls")
		w.eventually("it waits", func() bool { return w.state(w.id()).Queued == 1 })
		out := answered(w, func() (workflows.Outcome, error) {
			return w.control.Pause(t.Context(), w.id(), workflows.Pause{By: person("ada")}, "pause-1")
		})
		require.Equal(t, "It pauses when the messages that wait have been answered.", out.Text)
		answered(w, func() (workflows.Outcome, error) {
			return w.control.CancelTurn(t.Context(), w.id(), workflows.CancelTurn{By: person("bob")}, "stop-1")
		})
		require.Contains(t, w.awaitAnswer(2), "ok ls")
		w.eventually("paused", func() bool { v, _ := w.view("header"); return v.Header.Liveness == workflows.LivenessPaused })
		w.mu.Lock()
		defer w.mu.Unlock()
		answered := -1
		for i, key := range w.order {
			if strings.HasSuffix(key, "#answer-2") {
				answered = i
			}
			if strings.Contains(w.posts[key].Text.Text, "Paused by") {
				require.Positive(t, answered, "it says so when it is true")
			}
		}
	})
}

// Who destroys second is told who did it first.
func TestTwoDestroy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.ask("ls")
	w.awaitTurn(1, workflows.TurnDone)
	destroy := func(who string) workflows.Outcome {
		out := answered(w, func() (workflows.Outcome, error) {
			return w.control.Destroy(t.Context(), w.thread.ManagerID(), workflows.DestroySession{WorkflowID: w.id(), By: person(who)}, "destroy-"+who)
		})
		return out
	}
	require.Equal(t, workflows.OutcomeRecorded, destroy("ada").Outcome)
	require.Equal(t, workflows.Outcome{Outcome: workflows.OutcomeAlreadyDecided, Text: "@ada has destroyed this session already."}, destroy("grace"))
	require.NoError(t, w.env.Client.GetWorkflow(t.Context(), w.id(), "").Get(t.Context(), nil))
	require.Equal(t, workflows.OutcomeAlreadyDecided, destroy("linus").Outcome)
	require.Equal(t, 1, w.destroyed)
}

// A card that shows a command in part has no button to approve it.
func TestWhatIsShownInPartIsApprovedFromReviewOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.ask("long x")
	id := w.awaitApproval("approval-1")
	v, _ := w.view("approval-1")
	require.Equal(t, workflows.ButtonReview, v.Buttons[0].ID)
	require.Equal(t, workflows.OutcomeNotYours, w.click(id, "grace", workflows.VerdictApprove).Outcome)
	out := w.decide(workflows.Decision{ApprovalID: id, Verdict: workflows.VerdictApprove, By: person("grace"), Digest: v.Approval.Digest})
	require.Equal(t, workflows.OutcomeRecorded, out.Outcome)
	w.awaitAnswer(1)
}

// What people cannot read as it is they cannot change: an edit would alter bytes
// that nobody touched.
func TestWhatIsShownEscapedIsNotEdited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.ask("escaped x")
	id := w.awaitApproval("approval-1")
	v, _ := w.view("approval-1")
	require.False(t, v.Approval.Editable)
	out := w.decide(workflows.Decision{ApprovalID: id, Verdict: workflows.VerdictApprove, By: person("grace"), Edit: "ls"})
	require.Equal(t, workflows.OutcomeNotYours, out.Outcome)
	require.Contains(t, out.Text, "shown escaped or masked")
	require.Zero(t, w.runs(""))
}

// What a person types with a decision is on record without secrets, whichever
// client sent it.
func TestReasonsAreMaskedOnRecord(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		token := "ghp_" + strings.Repeat("a1B2c3D4e5", 4)[:36]
		w.ask("risky x")
		id := w.awaitApproval("approval-1")
		w.decide(workflows.Decision{ApprovalID: id, Verdict: workflows.VerdictDeny, By: person("grace"), Reason: "use " + token + " instead"})
		require.Contains(t, w.awaitAnswer(1), "use ghp_"+mask.Mark+" instead")
		w.awaitTurn(1, workflows.TurnDone)
		w.checkAudit()
		w.mu.Lock()
		defer w.mu.Unlock()
		seen := false
		for _, e := range w.audit[w.id()] {
			require.NotContains(t, e.Text, token)
			seen = seen || e.Kind == audit.KindVote && strings.Contains(e.Text, mask.Mark)
		}
		require.True(t, seen)
	})
}
