package workflows_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/countersign/countersign/internal/workflows"
)

// What does not answer is waited for, and the thread says so, once; when it is
// back the turn goes on by itself, and nothing ran twice.
func TestBackendAway(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		if w.near {
			t.Skip("a verdict on the own host is not asked for")
		}
		w.goAway(true)
		w.ask("ls\n& pwd")
		w.noticed("Docker is not reachable on the worker. Start Docker. The session and its files are safe. It goes on by itself")
		require.Equal(t, 0, w.runs(""))
		w.goAway(false)
		require.Contains(t, w.awaitAnswer(1), "ok ls")
		w.noticed("The sandbox answers again; the turn goes on.")
		require.Len(t, strings.Split(w.notices(), "\n"), 2, "said once, though two calls wait")
	})
}

// goAway makes what runs commands unreachable, and reachable again.
func (w *world) goAway(away bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = nil
	if away {
		w.away = temporal.NewApplicationError("Docker is not reachable on the worker. Start Docker.", workflows.ErrTypeSandboxUnavailable)
	}
}

// What goes away under running commands, one of them in the background, is said,
// once, and waited for; the commands are attached to when it is back.
func TestBackendAwayUnderCommands(t *testing.T) {
	t.Parallel()
	across(t, []int{0, 1, 2}, func(t *testing.T, w *world) {
		w.ask("bg block serve\nblock build\nls")
		w.eventually("both run", func() bool { return w.runs("") == 2 })
		w.goAway(true)
		w.noticed("Docker is not reachable on the worker. Start Docker. The session and its files are safe. It goes on by itself")
		w.goAway(false)
		w.let("block build")
		answer := w.awaitAnswer(1)
		require.Contains(t, answer, "ok block build")
		require.Contains(t, answer, "ok ls")
		w.noticed("The sandbox answers again")
		require.Len(t, strings.Split(w.notices(), "\n"), 2, "said once, though two commands run")
		w.awaitTurn(1, workflows.TurnDone)

		// After the turn only the command in the background is there to tell of it.
		w.goAway(true)
		w.eventually("it is said again", func() bool { return strings.Count(w.notices(), "Docker is not reachable") == 2 })
		w.goAway(false)
		w.eventually("and again that it is back", func() bool { return strings.Count(w.notices(), "The sandbox answers again") == 2 })
		w.let("block serve")
		w.awaitCall("turn-1", workflows.CallCompleted)
	})
}

// A stop ends a turn whose command nobody can reach, and says that it may still run.
func TestStopWhileAway(t *testing.T) {
	t.Parallel()
	across(t, []int{0, 2}, func(t *testing.T, w *world) {
		w.ask("block build\nls")
		w.eventually("it runs", func() bool { return w.runs("") == 1 })
		w.goAway(true)
		w.noticed("It goes on by itself when that is over; Stop ends the turn.")
		answered(w, func() (workflows.Outcome, error) {
			return w.control.CancelTurn(t.Context(), w.id(), workflows.CancelTurn{By: person("bob")}, "stop-1")
		})
		card := w.awaitTurn(1, workflows.TurnStopped)
		require.Equal(t, workflows.CallUnknown, card.Calls[0].State)
		w.goAway(false)
		w.let("block build")
	})
}
