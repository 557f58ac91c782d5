package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The main job: look around, ask before the risky command, answer, go on.
func TestMainJob(t *testing.T) {
	t.Parallel()
	d := sharedDev(t)
	mainJob(t, d.as("ada"))
	require.Equal(t, "made\n", d.inProject(t, "build/out"), "the person's own directory is never written")
}

// mainJob runs the story of the product's first page and returns its thread.
func mainJob(t testing.TB, ada *client) thread {
	t.Helper()
	id := ada.opens(t, "look around with `ls -la`, then `rm -rf build`")
	th := ada.sees(t, id, "the risky command asks", waiting)
	require.Len(t, th.all("header"), 1)
	require.Equal(t, "look around with `ls -la`, then `rm -rf build`", th.Title)
	require.Equal(t, "agent/web/main/"+id, th.WorkflowID)
	require.Equal(t, "local", th.Backend)
	th = ada.sees(t, id, "the session and its turn wait", func(th thread) bool {
		calls := th.calls(1)
		return th.Liveness == "waiting" && len(calls) == 2 && calls[1].State == "awaiting_approval"
	})
	calls := th.calls(1)
	ran(t, calls[0])
	m := th.pending()[0]
	require.Equal(t, "rm -rf build", m.Approval.Command)
	require.Equal(t, "risky", m.Approval.Tier)
	require.NotEmpty(t, m.Approval.Reasons)
	require.NotEmpty(t, m.Approval.Digest)
	require.Contains(t, ada.output(t, calls[0].ID, "stdout", 0), "README.md")

	require.Equal(t, "recorded", ada.click(t, m, "approve", nil).Outcome)
	th = ada.sees(t, id, "the answer", answered(1))
	ran(t, th.calls(1)[1])
	require.Contains(t, th.turn(1).Text, "Done")
	require.Len(t, th.all("turn"), 1, "one edited message")
	require.Len(t, th.all("approval"), 1)
	ada.sees(t, id, "the approval's card has its outcome", decided("approved"))
	require.Equal(t, "already_decided", ada.click(t, m, "approve", nil).Outcome)

	ada.says(t, id, "what is left: `ls`")
	th = ada.sees(t, id, "the thread goes on", answered(2))
	require.Contains(t, th.answer(2).Text, "README.md")
	require.NotContains(t, th.answer(2).Text, "build")
	return ada.sees(t, id, "the session is at rest", func(th thread) bool { return over(2)(th) && th.Liveness == "active" })
}

// The story holds with continue-as-new forced after every step, and after every few:
// that it does wherever a run may end is tried in internal/workflows.
func TestForcedContinueAsNew(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--without", "worker")
	ada := d.as("ada")
	for _, n := range []int{1, 3} {
		w := d.worker(t, "--force-continue-as-new", fmt.Sprint(n))
		th := mainJob(t, ada)
		id := th.ID

		ada.says(t, id, "`sh s.sh`")
		th = ada.sees(t, id, "a request", waiting)
		require.Equal(t, "recorded", ada.click(t, th.pending()[0], "deny", map[string]any{"reason": "not today"}).Outcome)
		th = ada.sees(t, id, "the answer after the denial", answered(3))
		require.Contains(t, th.answer(3).Text, "not today")
		th = ada.sees(t, id, "its card is over", over(3))
		require.Equal(t, "denied", th.calls(3)[0].State)

		ada.says(t, id, "`"+untilGo+"; echo first >> order`")
		th = ada.sees(t, id, "the command runs", running(4))
		ada.says(t, id, "`echo second >> order`")
		ada.says(t, id, "`echo third >> order`")
		th.letGo(t)
		th = ada.sees(t, id, "the answer to all three", answered(4))
		require.Equal(t, "first\nsecond\nthird\n", th.inWorkspace(t, "order"), "with --force-continue-as-new %d", n)

		ada.says(t, id, "``until [ -e never ]; do echo on; sleep 1; done``")
		th = ada.sees(t, id, "the command runs", running(5))
		require.Equal(t, "recorded", ada.click(t, th.turn(5), "stop", nil).Outcome)
		th = ada.sees(t, id, "the turn is stopped", over(5))
		require.Equal(t, "cancelled", th.calls(5)[0].State)

		ada.says(t, id, "`cat order`")
		th = ada.sees(t, id, "the session is whole", answered(6))
		require.Contains(t, th.answer(6).Text, "third")
		once(t, th)
		for turn := 1; turn <= 6; turn++ {
			require.False(t, th.turn(turn).has("stop"), "no card is left behind: %+v", th.turn(turn))
			for _, c := range th.calls(turn) {
				require.Contains(t, []string{"completed", "denied", "cancelled"}, c.State, "%+v", c)
			}
		}
		require.Greater(t, d.runs(t, th.WorkflowID), 2, "it did continue as new")
		w.interrupt(t)
	}
}

// runs asks Temporal's Web UI how many runs a workflow has had.
func (d *dev) runs(t testing.TB, workflowID string) int {
	t.Helper()
	q := url.Values{"query": {fmt.Sprintf("WorkflowId = %q", workflowID)}}
	resp, err := http.Get(d.UIURL + "/api/v1/namespaces/" + d.Namespace + "/workflows?" + q.Encode())
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	var list struct {
		Executions []json.RawMessage `json:"executions"`
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&list))
	return len(list.Executions)
}

// once requires that no message of ours stands in the thread twice.
func once(t testing.TB, th thread) {
	t.Helper()
	seen := map[string]int{}
	for _, m := range th.Messages {
		if m.Key != "" {
			seen[m.Key]++
		}
	}
	for key, n := range seen {
		require.Equal(t, 1, n, "message %s stands there %d times", key, n)
	}
}

// No message is lost between two runs, however close to their border it comes.
func TestMessagesAtTheBorderOfRuns(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--without", "worker")
	d.worker(t, "--force-continue-as-new", "1")
	ada := d.as("ada")
	id := ada.opens(t, "`echo 1 >> log`")
	const messages = 10
	for n := 2; n <= messages; n++ {
		ada.says(t, id, fmt.Sprintf("`echo %d >> log`", n))
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
	}
	th := ada.thread(t, id)
	await(t, 2*within, "every message is taken", func() (string, bool) {
		log := th.inWorkspace(t, "log")
		return log, len(lines(log)) >= messages
	})
	require.Equal(t, seq(messages), th.inWorkspace(t, "log"), "once, and in order")
}
