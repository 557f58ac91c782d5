package workflows_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/countersign/countersign/internal/workflows"
)

// acrossRuns runs a scenario as one run, and again with a continue-as-new forced
// after every so many steps: what people see must not differ.
func acrossRuns(t *testing.T, scenario func(t *testing.T, w *world)) {
	across(t, []int{0, 1, 2, 3, 5, 7}, scenario)
}

// across is acrossRuns after numbers of steps that are given.
func across(t *testing.T, steps []int, scenario func(t *testing.T, w *world)) {
	acrossOf(t, steps, 0, scenario)
}

// acrossOf is across in worlds whose hosts are dead after so long.
func acrossOf(t *testing.T, steps []int, hostDeadAfter time.Duration, scenario func(t *testing.T, w *world)) {
	for _, n := range steps {
		t.Run(fmt.Sprintf("continue-as-new every %d", n), func(t *testing.T) {
			t.Parallel()
			w := newWorldOf(t, n, hostDeadAfter)
			scenario(t, w)
			w.checkAudit()
			if name, _, _ := strings.Cut(t.Name(), "/"); slices.Contains(recorded, name) && (n == 0 || n == 3) {
				w.keep(name)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			for id, k := range w.ran {
				require.Equal(t, 1, k, "exec %s", id)
			}
		})
	}
}

func TestTurn(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("ls\nwrite a\n& pwd")
		require.Equal(t, "call-0-0=ok ls; call-1-0=ok write a; call-1-1=ok  pwd", w.awaitAnswer(1))
		card := w.awaitTurn(1, workflows.TurnDone)
		require.Len(t, card.Calls, 3)
		require.Equal(t, 3, card.Commands)
		w.say("101", "bob", "date")
		require.Contains(t, w.awaitAnswer(2), "ok date")
		w.awaitTurn(2, workflows.TurnDone)
		v, ok := w.view("header")
		require.True(t, ok)
		require.Equal(t, "ls", v.Header.Title)
		require.Equal(t, 3+1, w.runs(".x1"))
		require.Equal(t, 1, w.snapshots, "only a turn that may have written is snapshotted")
		w.mu.Lock()
		defer w.mu.Unlock()
		require.True(t, strings.HasSuffix(w.order[0], "#header") && strings.HasSuffix(w.order[1], "#turn-1"), w.order)
	})
}

func TestApprove(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("risky rm -rf build")
		id := w.awaitApproval("approval-1")
		require.Zero(t, w.runs(""))
		require.Equal(t, workflows.OutcomeNotYours, w.click(id, "mallory", workflows.VerdictApprove).Outcome)
		out := w.click(id, "ada", workflows.VerdictApprove)
		require.Equal(t, workflows.OutcomeNotYours, out.Outcome)
		require.Equal(t, workflows.OutcomeRecorded, w.click(id, "grace", workflows.VerdictApprove).Outcome)
		require.Equal(t, "call-0-0=ok risky rm -rf build", w.awaitAnswer(1))
		require.Equal(t, 1, w.runs(""))
		late := w.click(id, "heidi", workflows.VerdictDeny)
		require.Equal(t, workflows.OutcomeAlreadyDecided, late.Outcome)
		require.Contains(t, late.Text, "@grace already approved this")
		w.eventually("the card shows the end", func() bool {
			v, _ := w.view("approval-1")
			return v.Approval.State == workflows.ApprovalApproved && v.Approval.CallState == workflows.CallCompleted && len(v.Buttons) == 0
		})
	})
}

func TestCriticalTakesTwo(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("critical push")
		id := w.awaitApproval("approval-1")
		out := w.click(id, "grace", workflows.VerdictApprove)
		require.Equal(t, workflows.Outcome{Outcome: workflows.OutcomeRecorded, Text: "Recorded: 1 of 2."}, out)
		w.eventually("1 of 2", func() bool { v, _ := w.view("approval-1"); return len(v.Approval.Votes) == 1 })
		require.Equal(t, workflows.OutcomeAlreadyDecided, w.click(id, "grace", workflows.VerdictApprove).Outcome)
		require.Zero(t, w.runs(""))
		require.Equal(t, workflows.OutcomeRecorded, w.click(id, "heidi", workflows.VerdictApprove).Outcome)
		w.awaitAnswer(1)
		require.Equal(t, 1, w.runs(""))
	})
}

func TestDenyExpireForbid(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("risky a\nbrief b\nnever c")
		id := w.awaitApproval("approval-1")
		require.Equal(t, workflows.OutcomeRecorded, w.click(id, "grace", workflows.VerdictDeny).Outcome)
		answer := w.awaitAnswer(1)
		require.Contains(t, answer, "state: denied — by @grace: because")
		require.Contains(t, answer, "timed out: nobody decided, nobody denied it")
		require.Contains(t, answer, "state: denied — by policy: never")
		require.Zero(t, w.runs(""))
		card := w.awaitTurn(1, workflows.TurnDone)
		require.Equal(t, workflows.CallDenied, card.Calls[0].State)
		require.Equal(t, workflows.CallExpired, card.Calls[1].State)
		require.Equal(t, workflows.OutcomeExpired, w.click(strings.Replace(id, ".a1", ".a2", 1), "grace", workflows.VerdictApprove).Outcome)
	})
}

func TestParallelCallsEachByItsOwnVerdict(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("risky one\n&risky two\n&ls")
		first, second := w.awaitApproval("approval-1"), w.awaitApproval("approval-2")
		if v, _ := w.view("approval-1"); v.Approval.Command.Text == "risky two" {
			first, second = second, first // verdicts come in any order
		}
		w.eventually("ls ran", func() bool { return w.runs("") == 1 })
		require.Equal(t, workflows.OutcomeRecorded, w.click(second, "grace", workflows.VerdictApprove).Outcome)
		w.eventually("two ran", func() bool { return w.runs("") == 2 })
		require.Equal(t, workflows.OutcomeRecorded, w.click(first, "grace", workflows.VerdictDeny).Outcome)
		answer := w.awaitAnswer(1)
		require.Contains(t, answer, "call-0-0=state: denied")
		require.Contains(t, answer, "call-0-1=ok risky two")
	})
}

func TestChangedBeforeApproval(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("changes sh s.sh")
		id := w.awaitApproval("approval-1")
		w.mu.Lock()
		w.content = "two"
		w.mu.Unlock()
		out := w.click(id, "grace", workflows.VerdictApprove).Outcome
		require.Contains(t, []string{workflows.OutcomeChanged, workflows.OutcomeRecorded}, out, "recorded where the look at the file takes long")
		require.Zero(t, w.runs(""))
		second := w.awaitApproval("approval-2")
		w.eventually("the first card says so", func() bool {
			v, _ := w.view("approval-1")
			return v.Approval.State == workflows.ApprovalChanged
		})
		require.Equal(t, workflows.OutcomeRecorded, w.click(second, "grace", workflows.VerdictApprove).Outcome)
		require.Contains(t, w.awaitAnswer(1), "ok changes sh s.sh")
		require.Equal(t, 1, w.runs(""))
	})
}

func TestStop(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("block\n&risky x\nls")
		w.awaitApproval("approval-1")
		w.eventually("running", func() bool { return w.runs("") == 1 })
		out := answered(w, func() (workflows.Outcome, error) {
			return w.control.CancelTurn(t.Context(), w.id(), workflows.CancelTurn{By: person("bob")}, "stop-1")
		})
		require.Equal(t, workflows.OutcomeRecorded, out.Outcome)
		card := w.awaitTurn(1, workflows.TurnStopped)
		require.Equal(t, workflows.CallCancelled, card.Calls[0].State)
		require.Equal(t, workflows.CallCancelled, card.Calls[1].State)
		require.Equal(t, "bob", card.By.ID)
		require.Equal(t, 1, w.runs(""))
		// The transcript is whole: the next turn goes on.
		w.say("101", "ada", "# nothing more")
		w.eventually("a second turn", func() bool { _, ok := w.view("turn-2"); return ok })
	})
}

func TestMessagesDuringATurnAreTakenInOrder(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("block")
		w.eventually("running", func() bool { return w.runs("") == 1 })
		for i := range 5 {
			w.say(fmt.Sprint(101+i), "ada", fmt.Sprintf("echo %d", i))
			w.say(fmt.Sprint(101+i), "ada", fmt.Sprintf("echo %d", i))
		}
		w.let("block")
		require.Equal(t, "call-0-0=ok block; call-1-0=ok echo 0; call-2-0=ok echo 1; call-3-0=ok echo 2; call-4-0=ok echo 3; call-5-0=ok echo 4", w.awaitAnswer(1))
		w.awaitTurn(1, workflows.TurnDone)
		require.Equal(t, 6, w.runs(""))
	})
}

func TestQueuedMessageAndWithdraw(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("risky x")
		id := w.awaitApproval("approval-1")
		w.say("101", "ada", "ls")
		w.eventually("shown as queued", func() bool {
			v, _ := w.view("approval-1")
			return v.Approval.Queued == 1 && v.Buttons[len(v.Buttons)-1].ID == workflows.ButtonWithdraw
		})
		require.Equal(t, workflows.OutcomeNotYours, w.click(id, "grace", workflows.VerdictWithdraw).Outcome)
		require.Equal(t, workflows.OutcomeRecorded, w.click(id, "ada", workflows.VerdictWithdraw).Outcome)
		answer := w.awaitAnswer(1)
		require.Contains(t, answer, "withdrawn by @ada; it did not run")
		require.Contains(t, answer, "ok ls")
	})
}

func TestUnknownOutcomeAsks(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("write vanish\nls")
		id := w.awaitApproval("approval-1")
		v, _ := w.view("approval-1")
		require.Equal(t, workflows.ButtonRunAgain, v.Buttons[1].ID)
		require.Equal(t, 1, w.runs(""))
		require.Equal(t, workflows.OutcomeRecorded, w.click(id, "ada", workflows.VerdictApprove).Outcome)
		require.Contains(t, w.awaitAnswer(1), "ok write vanish")
		require.Equal(t, 2, w.runs(".x1"), "vanish and ls")
		require.Equal(t, 1, w.runs(".x2"), "run again")
	})
}

// What took two people takes two people again.
func TestUnknownOutcomeOfACriticalCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.ask("critical vanish")
	first := w.awaitApproval("approval-1")
	for _, who := range []string{"grace", "heidi"} {
		require.Equal(t, workflows.OutcomeRecorded, w.click(first, who, workflows.VerdictApprove).Outcome)
	}
	again := w.awaitApproval("approval-2")
	v, _ := w.view("approval-2")
	require.True(t, v.Approval.UnknownRun)
	require.Equal(t, 2, v.Approval.Required)
	require.Equal(t, "Recorded: 1 of 2.", w.click(again, "grace", workflows.VerdictApprove).Text)
	require.Equal(t, "Your vote is recorded: 1 of 2.", w.click(again, "grace", workflows.VerdictApprove).Text, "the same person")
	require.Zero(t, w.runs(".x2"))
	require.Equal(t, workflows.OutcomeRecorded, w.click(again, "heidi", workflows.VerdictApprove).Outcome)
	require.Contains(t, w.awaitAnswer(1), "ok critical vanish")
	require.Equal(t, 1, w.runs(".x2"))
	w.checkAudit()
}

func TestModelRefusalEndsTheTurnNotTheSession(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.modelErr = temporal.NewNonRetryableApplicationError("The model's server refused the key.", workflows.ErrTypeAuth, nil)
		w.ask("ls")
		card := w.awaitTurn(1, workflows.TurnFailed)
		require.Equal(t, "The model's server refused the key.", card.Error)
		require.Contains(t, card.Hint, "OPENAI_API_KEY")
		w.say("101", "ada", "pwd")
		require.Equal(t, "call-0-0=ok ls; call-1-0=ok pwd", w.awaitAnswer(2))
	})
}

func TestPauseAndDestroy(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("write a")
		w.awaitTurn(1, workflows.TurnDone)
		out := answered(w, func() (workflows.Outcome, error) {
			return w.control.Pause(t.Context(), w.id(), workflows.Pause{By: person("ada")}, "pause-1")
		})
		require.Equal(t, workflows.OutcomeRecorded, out.Outcome)
		w.eventually("paused", func() bool { v, _ := w.view("header"); return v.Header.Liveness == workflows.LivenessPaused })
		w.say("101", "ada", "block\nls")
		w.eventually("running", func() bool { return w.runs("") == 2 })
		w.eventually("destroy is recorded", func() bool {
			out, err := w.control.Destroy(t.Context(), w.thread.ManagerID(), workflows.DestroySession{WorkflowID: w.id(), By: person("ada")}, "destroy-1")
			return err == nil && out.Outcome == workflows.OutcomeRecorded
		})
		require.NoError(t, w.env.Client.GetWorkflow(t.Context(), w.id(), "").Get(t.Context(), nil))
		v, _ := w.view("header")
		require.Equal(t, workflows.LivenessDestroyed, v.Header.Liveness)
		notice, ok := w.view("notice-2")
		require.True(t, ok)
		require.Contains(t, notice.Text.Text, "Destroyed by @ada at ")
		require.Contains(t, notice.Text.Text, "Unpushed commits: 2 on fix/flaky.")
		require.Equal(t, 1, w.destroyed)
		require.ErrorIs(t, w.control.SendMessage(t.Context(), w.id(), said("102", "ada", "ls")), workflows.ErrNoSession)
		list := answered(w, func() (workflows.SessionList, error) {
			return w.control.List(t.Context(), w.thread.ManagerID(), workflows.ListSessions{})
		})
		require.Len(t, list.Sessions, 1)
		require.Equal(t, workflows.LivenessDestroyed, list.Sessions[0].Liveness)
	})
}

func TestSwitch(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("write a")
		w.awaitTurn(1, workflows.TurnDone)
		move := func(id, backend string) workflows.Outcome { return w.move(id, "ada", backend, "") }
		require.Contains(t, move("s1", "e2b").Text, "e2b is not available here. There is: local, docker.")
		require.Equal(t, workflows.OutcomeRefused, move("s2", "local").Outcome)
		w.mu.Lock()
		w.openErr = temporal.NewNonRetryableApplicationError("Docker is not reachable on the worker.", "x", nil)
		w.mu.Unlock()
		require.Equal(t, workflows.OutcomeRecorded, move("s3", "docker").Outcome)
		w.eventually("said that it stays", func() bool {
			v, ok := w.view("notice-1")
			return ok && strings.Contains(v.Text.Text, "stays on local, with all its files: Docker is not reachable")
		})
		w.mu.Lock()
		w.openErr = nil
		w.mu.Unlock()
		w.say("101", "ada", "block")
		w.eventually("running", func() bool { return w.runs("") == 2 })
		out := move("s4", "docker")
		require.Equal(t, workflows.OutcomeRecorded, out.Outcome)
		// The second where it takes longer to judge than a person waits.
		require.Regexp(t, "when this turn has ended|the thread shows what comes of it", out.Text)
		w.let("block")
		w.eventually("moved", func() bool { v, _ := w.view("header"); return v.Header.Backend == "docker" })
		require.Equal(t, workflows.OutcomeRecorded, move("s4", "docker").Outcome, "the same request again, in another run")
		w.say("102", "ada", "ls")
		require.Contains(t, w.awaitAnswer(3), "ok ls")
		w.mu.Lock()
		defer w.mu.Unlock()
		require.Contains(t, w.opened, `docker g3 from "snap-1"`, "the number of the move that failed is not used again")
		require.NotContains(t, w.opened, `local g2 from "snap-1"`)
		require.Equal(t, 1, w.destroyed, "the old sandbox")
	})
}

func TestForkWhileTheSourceRuns(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("write a")
		w.awaitTurn(1, workflows.TurnDone)
		w.say("101", "ada", "block")
		w.eventually("running", func() bool { return w.runs("") == 2 })
		fork := w.thread
		fork.ID = ""
		res := answered(w, func() (workflows.SessionResult, error) {
			return w.control.Fork(t.Context(), w.thread.ManagerID(), workflows.ForkSession{
				ID: "f1", Source: w.id(), Thread: fork, By: person("bob"), Task: said("200", "bob", "# hello"),
			})
		})
		require.Equal(t, workflows.OutcomeRecorded, res.Outcome.Outcome, res.Text)
		require.Equal(t, 1, res.Turn)
		state := w.state(res.WorkflowID)
		require.Equal(t, "write a (fork #1)", state.Header.Title)
		require.Equal(t, w.id(), state.Header.Parent)
		w.let("block")
		require.Contains(t, w.awaitAnswer(2), "ok block")
		w.eventually("the fork answers from the source's conversation", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.posts[res.WorkflowID+"#answer-1"].Text.Text == "call-0-0=ok write a"
		})
	})
}
