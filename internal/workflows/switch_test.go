package workflows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/workflows"
)

// onDocker starts a session that is on docker, where local does not isolate.
func onDocker(t *testing.T, w *world) {
	w.mu.Lock()
	w.bare = "local"
	w.mu.Unlock()
	w.request(workflows.SessionRequest{ID: "100", Thread: w.thread, Task: said("100", "ada", "write a"), By: person("ada"), Backend: "docker"})
	w.awaitTurn(1, workflows.TurnDone)
}

// A move to less isolation waits for an approval by the rules of any other, while
// the session goes on; then it is carried out at the turn's boundary.
func TestSwitchToLessIsolation(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		onDocker(t, w)
		require.Regexp(t, "waits for an approval|Asked for; the thread shows", w.move("s1", "ada", "local", "").Text) // as soon as it is judged
		id := w.awaitApproval("approval-1")
		v, _ := w.view("approval-1")
		require.Equal(t, "risky", v.Approval.Tier)
		require.Equal(t, "Move this session from docker to local", v.Approval.Command.Text)
		require.Equal(t, []string{"On local commands are not isolated."}, v.Approval.Reasons)
		require.Equal(t, workflows.OutcomeRecorded, w.move("s1", "ada", "local", "").Outcome, "the same request again")
		require.Contains(t, w.move("s2", "grace", "local", "").Text, "has been asked for by @ada")
		require.Equal(t, workflows.OutcomeNotYours, w.click(id, "ada", workflows.VerdictApprove).Outcome)
		require.Equal(t, workflows.OutcomeNotYours, w.click(id, "mallory", workflows.VerdictDeny).Outcome)
		w.say("101", "ada", "block")
		w.eventually("the session goes on meanwhile", func() bool { return w.runs("") == 2 })
		require.Equal(t, workflows.OutcomeRecorded, w.click(id, "grace", workflows.VerdictApprove).Outcome)
		require.Equal(t, "docker", w.state(w.id()).Header.Backend, "not before the turn's end")
		w.let("block")
		w.eventually("moved", func() bool { v, _ := w.view("header"); return v.Header.Backend == "local" && !v.Header.Isolated })
		require.Equal(t, workflows.OutcomeAlreadyDecided, w.click(id, "grace", workflows.VerdictDeny).Outcome)
		w.eventually("the card says who", func() bool {
			v, _ := w.view("approval-1")
			return v.Approval.State == workflows.ApprovalApproved && len(v.Buttons) == 0
		})
		require.Equal(t, workflows.OutcomeRecorded, w.move("s3", "ada", "docker", "").Outcome, "more isolation needs nobody")
		w.eventually("back", func() bool { v, _ := w.view("header"); return v.Header.Backend == "docker" })
	})
}

// Denied, withdrawn, undecided or without anybody who may approve, the session
// stays where it is, and says so.
func TestSwitchToLessIsolationThatIsNotApproved(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		onDocker(t, w)
		stays := func(text string) {
			w.noticed("The session stays on docker, with all its files: " + text)
			require.Equal(t, "docker", w.state(w.id()).Header.Backend)
		}
		w.move("s1", "ada", "local", "")
		require.Equal(t, workflows.OutcomeRecorded, w.click(w.awaitApproval("approval-1"), "grace", workflows.VerdictDeny).Outcome)
		stays("@grace has denied the move to local: because")

		w.move("s2", "ada", "local", "")
		require.Equal(t, workflows.OutcomeRecorded, w.click(w.awaitApproval("approval-2"), "ada", workflows.VerdictWithdraw).Outcome)
		stays("@ada has withdrawn the move to local.")

		w.mu.Lock()
		w.moveTTL = time.Second
		w.mu.Unlock()
		w.move("s3", "ada", "local", "")
		late := w.awaitRequest("approval-3")
		stays("nobody has decided about the move to local in time.")
		require.Equal(t, workflows.OutcomeExpired, w.click(late, "grace", workflows.VerdictApprove).Outcome)

		w.mu.Lock()
		w.moveTTL, w.movers = time.Hour, nil
		w.mu.Unlock()
		require.Equal(t, workflows.OutcomeRefused, w.move("s4", "ada", "local", "").Outcome)
		stays("commands are not isolated on local, so the move needs an approval, and nobody may give one")

		w.mu.Lock()
		w.movers = []string{"grace"}
		w.mu.Unlock()
		w.move("s5", "ada", "local", "")
		id := w.awaitApproval("approval-4")
		w.mu.Lock()
		w.cannot = "The worker offers local no longer."
		w.mu.Unlock()
		w.click(id, "grace", workflows.VerdictApprove)
		stays("what was agreed to has changed")

		w.mu.Lock()
		w.cannot = ""
		w.mu.Unlock()
		w.move("s6", "ada", "local", "")
		w.awaitApproval("approval-5")
		w.eventually("the wish to destroy it is answered", func() bool {
			_, err := w.control.Destroy(t.Context(), w.thread.ManagerID(), workflows.DestroySession{WorkflowID: w.id(), By: person("ada"), At: time.Now()}, "d1")
			return err == nil
		})
		w.noticed("Destroyed by @ada")
		w.eventually("the request is closed", func() bool {
			v, _ := w.view("approval-5")
			return v.Approval.State == workflows.ApprovalWithdrawn
		})
	})
}

// A root is one that the settings list, or below one; it is passed on to where
// the sandbox is opened.
func TestSwitchToARoot(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("write a")
		w.awaitTurn(1, workflows.TurnDone)
		for _, root := range []string{"/srv", "/srv/agents-2", "/srv/agents/../x", "agents", "~"} {
			out := w.move("no"+root, "ada", "local", root)
			require.Equal(t, workflows.OutcomeRefused, out.Outcome)
			require.Equal(t, "That root is not offered. A root is one of these or below one: /srv/agents. The session stays where it is.", out.Text)
		}
		require.Contains(t, w.move("s1", "ada", "docker", "/srv/agents").Text, "for local only")
		require.Equal(t, workflows.OutcomeRecorded, w.move("s2", "ada", "local", "/srv/agents/api").Outcome)
		w.noticed("Moved to local by @ada")
		w.mu.Lock()
		require.Contains(t, w.opened, `local g2 from "snap-1" below /srv/agents/api`)
		w.mu.Unlock()
		require.Contains(t, w.move("s3", "ada", "local", "/srv/agents/api").Text, "is on local already")
	})
}

// What the last turn changed and nobody could save does not get lost in a move
// that was asked for while the turn ran.
func TestSwitchWhenTheTurnIsNotSaved(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("write a\nwrite block")
		w.eventually("running", func() bool { return w.runs("") == 2 })
		w.move("s1", "ada", "docker", "")
		w.mu.Lock()
		w.failing = true
		w.mu.Unlock()
		w.let("write block")
		w.noticed("The session stays on local: its files could not be saved, so they cannot be moved.")
		require.Equal(t, "local", w.state(w.id()).Header.Backend)
	})
}
