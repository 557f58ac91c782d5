package workflows_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/countersign/countersign/internal/audit"
	"github.com/countersign/countersign/internal/workflows"
)

func hostQueue(host string) string { return workflows.TaskQueueSandbox + "/" + host }

// elsewhere is where sandboxes are opened from now on.
func (w *world) elsewhere(host string) {
	w.mu.Lock()
	w.host = host
	w.mu.Unlock()
	w.up(host)
}

// up lets a host serve its sandboxes, down kills it.
func (w *world) up(host string) {
	k := w.serve(hostQueue(host), w.sandboxes)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts[host] = k
}

func (w *world) down(host string) {
	w.mu.Lock()
	k := w.hosts[host]
	delete(w.hosts, host)
	w.mu.Unlock()
	k.Stop()
}

func (w *world) isDown(queue string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	host, ok := strings.CutPrefix(queue, workflows.TaskQueueSandbox+"/")
	return ok && w.hosts[host] == nil
}

func (w *world) checkHost(ctx context.Context, in workflows.CheckHostInput) (workflows.CheckHostResult, error) {
	w.mu.Lock()
	w.looks++
	looking := w.looking
	w.mu.Unlock()
	if looking != nil {
		select {
		case <-looking:
		case <-ctx.Done():
			return workflows.CheckHostResult{}, ctx.Err()
		}
	}
	return workflows.CheckHostResult{
		Dead: w.isDown(in.Queue), Seen: time.Now().Add(-in.DeadAfter), Rule: workflows.ApprovalRule{Approvers: []string{"grace"}, TTL: time.Hour},
	}, nil
}

func (w *world) awaitHost(_ context.Context, in workflows.AwaitHostInput) error {
	if w.isDown(in.Queue) {
		return temporal.NewApplicationErrorWithOptions("not back", workflows.ErrTypeRefresh, temporal.ApplicationErrorOptions{NextRetryDelay: 200 * time.Millisecond})
	}
	return nil
}

// awaitRest waits until a turn has ended and its files are saved.
func (w *world) awaitRest(turn int) {
	w.awaitTurn(turn, workflows.TurnDone)
	w.eventually("it is at rest", func() bool { return w.state(w.id()).Turn == nil })
}

// ranOn are the commands that ran on a host in a generation of the sandbox.
func (w *world) ranOn(host string, generation int) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.on[fmt.Sprintf("%s g%d", hostQueue(host), generation)]
}

// notices are the texts of all of them.
func (w *world) notices() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, key := range w.order {
		if strings.Contains(key, "#notice-") {
			all = append(all, w.posts[key].Text.Text)
		}
	}
	return strings.Join(all, "\n")
}

// A session whose host is dead is destroyed without it, at once, whatever it was
// doing; a host that was only busy removes the sandbox as soon as it can.
func TestDestroyWithoutTheHost(t *testing.T) {
	t.Parallel()
	for what, task := range map[string]string{"at rest": "", "at a command": "block b", "with a command in the background": "bg block b"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 0)
			looked := onSilentHost(w, task)
			out := answered(w, func() (workflows.Outcome, error) {
				return w.control.Destroy(t.Context(), w.thread.ManagerID(), workflows.DestroySession{WorkflowID: w.id(), By: person("ada")}, "destroy-1")
			})
			require.Equal(t, workflows.OutcomeRecorded, out.Outcome)
			w.eventually("the receipt", func() bool { return strings.Contains(w.notices(), "Destroyed by @ada at ") })
			said := w.notices()
			require.Contains(t, said, "The host of this session's sandbox does not answer. The sandbox, and what may still run in it, goes when that host is back. "+
				"Kept are the files as saved at the end of turn 1,")
			require.Contains(t, said, "What may have changed since then is lost.")
			require.Contains(t, said, "Its sandbox is not removed yet: the host does that when it is back. Files kept until ")
			require.NotContains(t, said, "Ended in the background")
			if strings.HasPrefix(task, "bg") {
				w.eventually("its command is not forgotten", func() bool {
					return strings.Contains(w.notices(), "What became of `block b`, which ran in the background, is not known: its host does not answer. It is not run again.")
				})
			}
			w.eventually("the header says so", func() bool { v, _ := w.view("header"); return v.Header.Liveness == workflows.LivenessDestroyed })

			w.up("h1")
			looked()
			require.NoError(t, w.env.Client.GetWorkflow(t.Context(), w.id(), "").Get(t.Context(), nil))
			require.Equal(t, 1, w.destroyed)
			w.checkAudit()
		})
	}
}

// quickly is when hosts are dead where tests wait for it.
const quickly = 6 * time.Second

// Who does not want a session to go on elsewhere ends the turn, no more: the next
// message asks again. Once it has gone on elsewhere, the old sandbox runs nothing.
func TestHostLost(t *testing.T) {
	t.Parallel()
	acrossOf(t, []int{0, 1, 3}, quickly, func(t *testing.T, w *world) {
		onDeadHost(w, "")
		w.elsewhere("h2")
		w.say("101", "ada", "write b")
		id := w.awaitApproval("approval-1")
		v, _ := w.view("approval-1")
		require.Equal(t, workflows.TierHost, v.Approval.Tier)
		require.Contains(t, v.Approval.Command.Text, "Go on on another host, from the files as saved at the end of turn 1")
		require.Equal(t, workflows.OutcomeNotYours, w.click(id, "mallory", workflows.VerdictApprove).Outcome)
		require.Equal(t, workflows.OutcomeRecorded, w.click(id, "grace", workflows.VerdictDeny).Outcome)
		card := w.awaitTurn(2, workflows.TurnFailed)
		require.Equal(t, "The host of this session's sandbox is not there.", card.Error)
		require.Equal(t, "Send a message to ask again; when the host is back, the session goes on there.", card.Hint)
		require.Equal(t, workflows.CallFailed, card.Calls[0].State)

		// Messages come while it asks again, and each may begin a new run.
		w.say("102", "ada", "write c")
		id = w.awaitApproval("approval-2")
		for i := range 3 {
			w.say(fmt.Sprint(103+i), "ada", fmt.Sprint("write more ", i))
		}
		w.eventually("they are on the card", func() bool { v, _ := w.view("approval-2"); return v.Approval.Queued == 3 })
		require.Equal(t, workflows.OutcomeRecorded, w.click(id, "grace", workflows.VerdictApprove).Outcome)
		w.awaitTurn(3, workflows.TurnDone)
		want := []string{"write c", "write more 0", "write more 1", "write more 2"}
		require.Equal(t, want, w.ranOn("h2", 2))
		w.eventually("it says so", func() bool {
			return strings.Contains(w.notices(), "The session goes on on another host, from its files as saved at the end of turn 1")
		})
		_, third := w.view("approval-3")
		require.False(t, third, "it is asked once")

		w.up("h1")
		w.say("110", "ada", "write d")
		w.awaitTurn(4, workflows.TurnDone)
		require.Equal(t, append(want, "write d"), w.ranOn("h2", 2))
		require.Equal(t, []string{"write a"}, w.ranOn("h1", 1))
		w.mu.Lock()
		defer w.mu.Unlock()
		require.Contains(t, w.opened, `local g2 from "snap-1"`)
	})
}

// While a turn waits for its host, what it has begun is on record.
func TestTheRecordOfATurnThatWaitsForItsHost(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, 0, quickly)
	w.looking = make(chan struct{})
	onDeadHost(w, "block b")
	w.eventually("the look at its host", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.looks > 0
	})
	w.eventually("the command is on record", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		begun := 0
		for _, e := range w.audit[w.id()] {
			if e.Kind == audit.KindExecStarted {
				begun++
			}
		}
		return begun == 2
	})
	require.Equal(t, workflows.TurnWorking, w.state(w.id()).Turn.State)
	w.up("h1")
	close(w.looking)
	w.let("block b")
	w.awaitTurn(2, workflows.TurnDone)
	w.checkAudit()
}

// What ran in the background on a host that is dead may have finished: its end is
// said to be unknown, and it runs nowhere else.
func TestHostLostUnderBackground(t *testing.T) {
	t.Parallel()
	acrossOf(t, []int{0, 1, 3}, quickly, func(t *testing.T, w *world) {
		onDeadHost(w, "bg block serve")
		w.elsewhere("h2")
		w.say("102", "ada", "write b")
		require.Equal(t, workflows.OutcomeRecorded, w.click(w.awaitApproval("approval-1"), "grace", workflows.VerdictApprove).Outcome)
		w.noticed("What became of `block serve`, which ran in the background, is not known: its host is gone. It is not run again.")
		w.awaitTurn(3, workflows.TurnDone)
		v := w.awaitCall("turn-2", workflows.CallUnknown)
		require.Empty(t, v.Running)
		w.let("block serve")
		w.up("h1")
		w.say("103", "ada", "write c")
		w.awaitTurn(4, workflows.TurnDone)
		require.Equal(t, []string{"write b", "write c"}, w.ranOn("h2", 2))
		require.Equal(t, []string{"write a", "block serve"}, w.ranOn("h1", 1))
	})
}

// A host that comes back while people are asked has the session's files: it goes
// on there, and the request is withdrawn.
func TestHostComesBack(t *testing.T) {
	t.Parallel()
	acrossOf(t, []int{0, 1, 3}, quickly, func(t *testing.T, w *world) {
		onDeadHost(w, "")
		w.say("101", "ada", "write b")
		id := w.awaitApproval("approval-1")
		w.say("102", "ada", "write c")
		w.up("h1")
		w.awaitTurn(2, workflows.TurnDone)
		w.eventually("the request is withdrawn", func() bool {
			v, _ := w.view("approval-1")
			return v.Approval.State == workflows.ApprovalWithdrawn && len(v.Buttons) == 0
		})
		require.Equal(t, workflows.OutcomeAlreadyDecided, w.click(id, "grace", workflows.VerdictApprove).Outcome)
		require.Equal(t, []string{"write a", "write b", "write c"}, w.ranOn("h1", 1))
		w.eventually("it says so, once", func() bool {
			return strings.Count(w.notices(), "The host of this session's sandbox is back; the session goes on there, with all its files.") == 1
		})
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, o := range w.opened {
			require.Contains(t, o, " g1 ")
		}
	})
}
