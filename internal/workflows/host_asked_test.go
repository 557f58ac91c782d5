package workflows_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/workflows"
)

const silent = "The host of this session's sandbox does not answer."

// onDeadHost is a session at rest after a turn, whose host is then killed while it
// is at the second task, if there is one.
func onDeadHost(w *world, task string) {
	w.t.Helper()
	onHost(w, task)
	w.down("h1")
}

// onSilentHost is the same while no look whether the host is dead comes to an end,
// which takes minutes, until looked is called: what happens before has waited for
// none.
func onSilentHost(w *world, task string) (looked func()) {
	w.t.Helper()
	onHost(w, task)
	looking := make(chan struct{})
	w.mu.Lock()
	w.looking = looking
	w.mu.Unlock()
	w.down("h1")
	looked = sync.OnceFunc(func() { close(looking) })
	w.t.Cleanup(looked)
	return looked
}

func onHost(w *world, task string) {
	w.t.Helper()
	w.elsewhere("h1")
	w.ask("write a")
	w.awaitRest(1)
	if task != "" {
		w.say("101", "ada", task)
		w.eventually("it runs", func() bool { return len(w.ranOn("h1", 1)) == 2 })
	}
	if strings.HasPrefix(task, "bg") {
		w.awaitRest(2)
	}
}

func (w *world) pause(id string) {
	w.t.Helper()
	var out workflows.Outcome
	w.eventually("the pause is answered", func() bool {
		var err error
		out, err = w.control.Pause(w.t.Context(), w.id(), workflows.Pause{By: person("ada")}, id)
		return err == nil
	})
	require.Equal(w.t, workflows.Outcome{Outcome: workflows.OutcomeRecorded, Text: "Pausing. The next message resumes it."}, out)
}

// wasStopped waits until a command on a host was signalled.
func (w *world) wasStopped(call string) {
	w.t.Helper()
	w.eventually("the host has heard of the stop of "+call, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.stops[call+".x1"]
	})
}

// Who pauses a session whose host does not answer is told so at once; when the
// host is back the same words pause it.
func TestPauseWithoutTheHost(t *testing.T) {
	t.Parallel()
	for what, task := range map[string]string{"at rest": "", "with a command in the background": "bg block b"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			acrossOf(t, []int{0, 1}, quickly, func(t *testing.T, w *world) {
				looked := onSilentHost(w, task)
				w.pause("pause-1")
				w.noticed("Not paused: the host of this session's sandbox does not answer. What was saved is safe. Try `pause` again when the host is back")
				if task != "" {
					w.noticed("Ended when the host is back: `block b`.")
				}
				require.NotContains(t, w.notices(), "Paused by")
				require.Equal(t, workflows.LivenessActive, w.state(w.id()).Header.Liveness)
				w.up("h1")
				looked()
				if task != "" {
					w.wasStopped("100.2.1")
				}
				for n := 2; !strings.Contains(w.notices(), "Paused by @ada. The next message resumes it."); n++ {
					said := len(w.notices()) // a slow host takes it up too late, and it is asked again
					w.pause(fmt.Sprint("pause-", n))
					w.eventually("what comes of it", func() bool { return len(w.notices()) > said })
				}
				w.say("110", "ada", "write c")
				w.eventually("it resumes there", func() bool { on := w.ranOn("h1", 1); return on[len(on)-1] == "write c" })
			})
		})
	}
}

// A stop ends the turn at once though the host does not answer, says that the
// command may still run, and ends it when the host is back. What could not be saved
// meanwhile is saved with the next turn.
func TestStopWithoutTheHost(t *testing.T) {
	t.Parallel()
	acrossOf(t, []int{0, 1}, quickly, func(t *testing.T, w *world) {
		looked := onSilentHost(w, "write block")
		require.Equal(t, workflows.OutcomeRecorded, w.stop("stop-1", workflows.CancelTurn{By: person("ada")}).Outcome)
		card := w.awaitTurn(2, workflows.TurnStopped) // in a run that began while it ran, too
		require.Equal(t, workflows.CallUnknown, card.Calls[0].State)
		require.Equal(t, "The worker did not answer the stop. The command may still be running; it is ended when the worker is back.", card.Calls[0].Note)
		w.noticed("The files could not be saved at the end of this turn: " + silent + " They are there when the host is back; fork and switch wait")
		refused := w.move("move-1", "ada", "docker", "")
		require.Equal(t, "The files could not be saved at the last turn's end, so they cannot be moved: "+silent+
			" They can be once a save succeeds, by `pause` or at a turn's end.", refused.Text)

		w.up("h1")
		looked()
		w.wasStopped("100.2.1")
		w.say("110", "ada", "ls")
		w.awaitRest(3)
		require.Equal(t, workflows.OutcomeRecorded, w.move("move-2", "ada", "docker", "").Outcome)
		w.noticed("Moved to docker by @ada")
	})
}

// A session whose files are saved moves, and is copied, without its host; the old
// sandbox is left to it.
func TestSwitchAndForkWithoutTheHost(t *testing.T) {
	t.Parallel()
	acrossOf(t, []int{0, 1}, quickly, func(t *testing.T, w *world) {
		onSilentHost(w, "")
		w.mu.Lock()
		w.host = ""
		w.mu.Unlock()
		th := w.thread
		th.ID = "200"
		var res workflows.SessionResult
		w.eventually("the fork is answered", func() bool {
			var err error
			res, err = w.control.Fork(t.Context(), w.thread.ManagerID(), workflows.ForkSession{ID: "200", Source: w.id(), Thread: th, By: person("ada")})
			return err == nil
		})
		require.Equal(t, workflows.OutcomeRecorded, res.Outcome.Outcome, res.Text)
		require.Equal(t, workflows.OutcomeRecorded, w.move("move-1", "ada", "docker", "").Outcome)
		w.noticed("Moved to docker by @ada, with files, conversation and title.")
		w.say("110", "ada", "write b")
		w.awaitAnswer(2)
	})
}

// A move that first has to save what a command in the background has changed fails
// at once, and says why.
func TestSwitchThatNeedsTheHost(t *testing.T) {
	t.Parallel()
	acrossOf(t, []int{0, 1}, quickly, func(t *testing.T, w *world) {
		looked := onSilentHost(w, "bg write block")
		w.move("move-1", "ada", "docker", "")
		w.noticed("The session stays on local: its files could not be saved, so they cannot be moved. " + silent)
		w.up("h1")
		looked()
		w.let("write block")
	})
}
