package workflows_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/workflows"
)

// awaitCall waits until the first call on a turn's card has a state.
func (w *world) awaitCall(turn, state string) workflows.MessageView {
	w.t.Helper()
	var v workflows.MessageView
	w.eventually("the first call of "+turn+" is "+state, func() bool {
		var ok bool
		v, ok = w.view(turn)
		return ok && len(v.Turn.Calls) > 0 && v.Turn.Calls[0].State == state
	})
	return v
}

// A command outlives its yield time and its turn, is talked to, and shows on its
// turn's card until it ends.
func TestBackground(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("bg block serve\ntell 1.1 hello\nls")
		require.Equal(t, "call-0-0=1.1@0; call-1-0=1.1@1 told hello; call-2-0=ok ls", w.awaitAnswer(1))
		card := w.awaitTurn(1, workflows.TurnDone)
		require.Equal(t, workflows.CallRunning, card.Calls[0].State)
		require.Equal(t, "in the background, session 1.1", card.Calls[0].Note)
		require.Equal(t, "to 1.1: hello", card.Calls[1].Command)
		require.Equal(t, 2, card.Commands, "talk is no command")
		w.eventually("its stop stays", func() bool {
			v, _ := w.view("turn-1")
			return len(v.Running) == 1 && len(v.Buttons) > 0 && v.Buttons[0].ID == workflows.ButtonStop
		})
		w.say("101", "ada", "tell 1.1 again\n&tell 1.1 and on\n&tell 1.9 nobody")
		require.Contains(t, w.awaitAnswer(2), "1.1@2 told again; call-3-1=1.1@3 told and on; call-3-2=state: failed — There is no session 1.9 here. In the background: 1.1.")
		w.let("block serve")
		v := w.awaitCall("turn-1", workflows.CallCompleted)
		require.Equal(t, 0, *v.Turn.Calls[0].ExitCode)
		require.NotContains(t, v.Buttons, workflows.Button{ID: workflows.ButtonStop, Label: "Stop"})
		require.Empty(t, v.Running)
		w.say("102", "ada", "tell 1.1")
		require.Contains(t, w.awaitAnswer(3), "1.1@4 told", "what it printed last can still be read")
		require.Equal(t, []string{"hello", "again", "and on", ""}, w.told)
	})
}

// ends are the ends of commands that the model was told of unasked, as they stand in
// the newest transcript, each before the message that follows it.
func (w *world) ends() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	t := w.transcripts[fmt.Sprintf("t%d", len(w.transcripts))]
	for i, e := range t {
		if e.Kind != "ended" {
			continue
		}
		next := slices.IndexFunc(t[i:], func(e entry) bool { return e.Kind == "message" })
		before := "nothing"
		if next >= 0 {
			before = t[i+next].ID
		}
		out = append(out, e.ID+" "+strings.TrimSpace(e.Text)+" before "+before)
	}
	return out
}

// The model is told of an end at its next step, once, and not where it knows; no turn
// begins because of it.
func TestBackgroundEndIsTold(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("bg block a\nbg block b\nbg block c\ntell 1.3 your last")
		w.awaitAnswer(1)
		w.awaitTurn(1, workflows.TurnDone)
		require.Empty(t, w.ends())
		w.let("block a")
		w.let("block c")
		w.eventually("two have ended", func() bool {
			v, _ := w.view("turn-1")
			return v.Turn.Calls[0].State == workflows.CallCompleted && v.Turn.Calls[2].State == workflows.CallCompleted
		})
		require.Empty(t, w.ends(), "nobody asked")
		w.say("101", "ada", "ls")
		w.awaitAnswer(2)
		require.Equal(t, []string{"1.1 completed before 101"}, w.ends(), "1.3 is known to have ended")
		w.awaitTurn(2, workflows.TurnDone)
		answered(w, func() (workflows.Outcome, error) {
			return w.control.Pause(t.Context(), w.id(), workflows.Pause{By: person("ada")}, "pause-1")
		})
		w.eventually("the last one has ended", func() bool {
			v, _ := w.view("turn-1")
			return v.Turn.Calls[1].State == workflows.CallCancelled
		})
		w.say("102", "ada", "ls")
		w.awaitAnswer(3)
		require.Equal(t, []string{"1.1 completed before 101", "1.2 cancelled ended: paused by @ada before 102"}, w.ends())
	})
}

// Text is sent when it was approved, once.
func TestBackgroundAsks(t *testing.T) {
	t.Parallel()
	across(t, []int{0, 1, 3}, func(t *testing.T, w *world) {
		w.ask("bg risky block psql\ntell 1.1 risky drop\ntell 1.1 risky again")
		require.Equal(t, workflows.OutcomeRecorded, w.click(w.awaitApproval("approval-1"), "grace", workflows.VerdictApprove).Outcome)
		id := w.awaitApproval("approval-2")
		v, _ := w.view("approval-2")
		require.Equal(t, "risky drop", v.Approval.Command.Text)
		require.Equal(t, "risky block psql", v.Approval.To)
		require.Empty(t, w.told)
		require.Equal(t, workflows.OutcomeRecorded, w.click(id, "grace", workflows.VerdictApprove).Outcome)
		require.Equal(t, workflows.OutcomeRecorded, w.click(w.awaitApproval("approval-3"), "grace", workflows.VerdictDeny).Outcome)
		require.Contains(t, w.awaitAnswer(1), "1.1@1 told risky drop; call-2-0=state: denied")
		require.Equal(t, []string{"risky drop"}, w.told)
		w.eventually("its request says that it runs", func() bool {
			v, _ := w.view("approval-1")
			return v.Approval.CallState == workflows.CallRunning
		})
		w.let("risky block psql")
		w.eventually("its request says how it ended", func() bool {
			v, _ := w.view("approval-1")
			return v.Approval.CallState == workflows.CallCompleted
		})
	})
}

// Whatever became of text that people had to allow: it may have been read, and what
// it started may read what comes next.
func TestBackgroundMayHaveRead(t *testing.T) {
	t.Parallel()
	for what, want := range map[string]string{"risky sent": "told risky sent; ", "risky lost": "state: unknown"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			across(t, []int{0}, func(t *testing.T, w *world) {
				w.ask("bg block sh\ntell 1.1 " + what + "\ntell 1.1 ls")
				require.Equal(t, workflows.OutcomeRecorded, w.click(w.awaitApproval("approval-1"), "grace", workflows.VerdictApprove).Outcome)
				if what == "risky lost" {
					require.Equal(t, workflows.OutcomeRecorded, w.click(w.awaitApproval("approval-2"), "grace", workflows.VerdictDeny).Outcome)
				}
				answer := w.awaitAnswer(1)
				require.Contains(t, answer, want)
				require.Contains(t, answer, "told ls, which may not read it itself")
				w.let("block sh")
			})
		})
	}
}

// A stop ends what runs in the background: with its turn, and after it.
func TestBackgroundStop(t *testing.T) {
	t.Parallel()
	across(t, []int{0, 1, 3}, func(t *testing.T, w *world) {
		w.ask("bg block a\ntell 1.1 risky x")
		w.awaitApproval("approval-1")
		require.Equal(t, workflows.OutcomeRecorded, w.stop("stop-1", workflows.CancelTurn{By: person("bob")}).Outcome)
		v := w.awaitCall("turn-1", workflows.CallCancelled)
		require.Equal(t, "in the background stopped by @bob", v.Turn.Calls[0].Note)
		w.awaitTurn(1, workflows.TurnStopped)
		require.Empty(t, w.told)

		w.say("101", "ada", "bg block b")
		w.awaitTurn(2, workflows.TurnDone)
		out := w.stop("stop-2", workflows.CancelTurn{By: person("bob"), Turn: 2})
		require.Equal(t, workflows.Outcome{Outcome: workflows.OutcomeRecorded, Text: "Ended what ran in the background."}, out)
		w.awaitCall("turn-2", workflows.CallCancelled)
		require.Equal(t, workflows.OutcomeRefused, w.stop("stop-3", workflows.CancelTurn{By: person("bob"), Turn: 2}).Outcome)
	})
}

// A boundary that gives the sandbox up ends what runs in it, and says so.
func TestBackgroundEndsAtBoundaries(t *testing.T) {
	t.Parallel()
	across(t, []int{0, 1, 3}, func(t *testing.T, w *world) {
		w.ask("bg write block a")
		w.awaitTurn(1, workflows.TurnDone)
		before := w.snapshots
		answered(w, func() (workflows.Outcome, error) {
			return w.control.Pause(t.Context(), w.id(), workflows.Pause{By: person("ada")}, "pause-1")
		})
		v := w.awaitCall("turn-1", workflows.CallCancelled)
		require.Equal(t, "in the background ended: paused by @ada", v.Turn.Calls[0].Note)
		w.eventually("a sentence", func() bool {
			v, ok := w.view("notice-1")
			return ok && v.Text.Text == "Paused by @ada. The next message resumes it. Ended in the background: `write block a`."
		})
		require.Greater(t, w.snapshots, before, "what it wrote is saved")

		w.say("101", "ada", "bg block b")
		w.awaitTurn(2, workflows.TurnDone)
		w.eventually("destroy is recorded", func() bool {
			out, err := w.control.Destroy(t.Context(), w.thread.ManagerID(), workflows.DestroySession{WorkflowID: w.id(), By: person("ada")}, "destroy-1")
			return err == nil && out.Outcome == workflows.OutcomeRecorded
		})
		require.NoError(t, w.env.Client.GetWorkflow(t.Context(), w.id(), "").Get(t.Context(), nil))
		notice, _ := w.view("notice-2")
		require.Contains(t, notice.Text.Text, "Ended in the background: `block b`.")
		w.awaitCall("turn-2", workflows.CallCancelled)
	})
}

// What a command in the background has written is saved with the next turn, also if
// that writes nothing, and once.
func TestBackgroundWritesAreSaved(t *testing.T) {
	t.Parallel()
	across(t, []int{0, 1, 3}, func(t *testing.T, w *world) {
		saved := func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.snapshots
		}
		w.ask("bg write block a")
		w.awaitRest(1)
		w.let("write block a")
		w.awaitCall("turn-1", workflows.CallCompleted)
		before := saved()
		for turn := 2; turn <= 3; turn++ {
			w.say(fmt.Sprint(100+turn), "ada", "ls")
			w.awaitRest(turn)
			require.Equal(t, before+1, saved(), turn)
		}
	})
}

// What became of a command is not known: it is said, and nothing runs again.
func TestBackgroundUnknown(t *testing.T) {
	t.Parallel()
	across(t, []int{0, 1, 3}, func(t *testing.T, w *world) {
		w.ask("bg block vanish")
		w.awaitTurn(1, workflows.TurnDone)
		w.let("block vanish")
		w.awaitCall("turn-1", workflows.CallUnknown)
		w.eventually("a sentence", func() bool {
			v, ok := w.view("notice-1")
			return ok && v.Text.Text == "What became of `block vanish`, which ran in the background, is not known: "+
				"The worker died while this ran; it may have finished. It is not run again."
		})
	})
}
