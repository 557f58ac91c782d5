package e2e_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Stop while a request waits: the call is cancelled, the request withdrawn, and a
// late click does not run it.
func TestStopWhileARequestWaits(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	id := ada.opens(t, "`rm -rf build`, then `echo never`")
	th := ada.sees(t, id, "a request", waiting)
	m := th.pending()[0]
	require.Equal(t, "recorded", ada.click(t, th.turn(1), "stop", nil).Outcome)
	th = ada.sees(t, id, "the turn is stopped", over(1))
	require.Equal(t, "cancelled", th.calls(1)[0].State)
	require.Len(t, th.calls(1), 1)
	ada.sees(t, id, "the request is withdrawn", decided("withdrawn"))
	require.Equal(t, "already_decided", ada.click(t, m, "approve", nil).Outcome)
	ada.says(t, id, "`cat build/out`")
	th = ada.sees(t, id, "the session goes on", answered(2))
	require.Contains(t, th.answer(2).Text, "made")
}

// Pause during a turn takes effect at its end.
func TestPauseDuringATurn(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	id := ada.opens(t, "`"+untilGo+"; echo end`")
	th := ada.sees(t, id, "the command runs", running(1))
	require.Contains(t, ada.says(t, id, "/agent pause").Text, "when this turn has ended")
	th.letGo(t)
	th = ada.sees(t, id, "it has answered and is paused", func(th thread) bool { return answered(1)(th) && th.Liveness == "paused" })
	require.Contains(t, th.answer(1).Text, "end")
	p := ada.says(t, id, "/agent pause")
	require.Contains(t, p.Text, "Paused already")
	fork := ada.says(t, id, "/agent fork").Opened
	require.NotEmpty(t, fork, "a paused session is forked like any other")
	ada.says(t, fork, "`cat README.md`")
	ada.sees(t, fork, "the fork answers", answered(1))
}

// Destroy while a request waits: the receipt counts it, and a click is too late.
func TestDestroyWhileARequestWaits(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	id := ada.opens(t, "`rm -rf build`")
	m := ada.sees(t, id, "a request", waiting).pending()[0]
	ada.says(t, id, "/agent destroy")
	th := ada.sees(t, id, "the question", func(th thread) bool { return len(th.all("notice")) > 0 })
	q := th.all("notice")[0]
	require.Contains(t, q.Text, "1 request that waits")
	require.Equal(t, "recorded", ada.click(t, q, "destroy", nil).Outcome)
	th = ada.sees(t, id, "it is destroyed", func(th thread) bool { return th.Liveness == "destroyed" && th.said("Destroyed by @ada") })
	require.Equal(t, "expired", await(t, within, "the click is too late", func() (string, bool) {
		out := ada.click(t, m, "approve", nil).Outcome
		return out, out == "expired"
	}))
	once(t, th)

	// Commands in a destroyed thread get a sentence each, and start nothing.
	for _, command := range []string{"status", "history", "stop", "pause", "destroy", "done", "fork", `title "x"`, "model offline", "grants", "help", "list", "switch", "switch local"} {
		status, data, err := ada.request(http.MethodPost, "/threads/"+id+"/messages", map[string]string{"text": "/agent " + command})
		require.NoError(t, err)
		require.Contains(t, []int{http.StatusAccepted, http.StatusConflict}, status, "%s: %s", command, data)
		if status == http.StatusConflict {
			require.Contains(t, string(data), "destroyed", command)
		}
	}
	th = ada.sees(t, id, "the thread stays as it is", func(th thread) bool { return th.Liveness == "destroyed" })
	require.Len(t, th.all("turn"), 1)
}

// A new session from a live one's files, and a fork of a fork.
func TestNewFromALiveSession(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	id := ada.opens(t, "`echo one > f`")
	ada.sees(t, id, "the answer", answered(1))
	opened := ada.write(t, "/channels/general/messages", "/agent new --from "+id).Opened
	require.NotEmpty(t, opened)
	ada.says(t, opened, "`echo two >> f`")
	ada.sees(t, opened, "the answer", answered(1))
	fork := ada.says(t, opened, "/agent fork").Opened
	ada.says(t, fork, "`cat f`")
	th := ada.sees(t, fork, "the fork of the copy", answered(1))
	require.Contains(t, th.answer(1).Text, "one\ntwo\n")
	require.Equal(t, "one\n", ada.thread(t, id).inWorkspace(t, "f"))
	first := ada.says(t, id, "/agent fork")
	require.NotEmpty(t, first.Opened)
	r := ada.refusal(t, http.StatusBadRequest, http.MethodPost, "/threads/"+id+"/messages", map[string]string{"text": "/agent fork --backend modal"})
	require.Contains(t, r.Error.Message, "modal")
	none := ada.write(t, "/channels/general/messages", "/agent new --from 1234567890123456")
	require.Empty(t, none.Opened)
	th = ada.sees(t, none.ThreadID, "it says that there is none", func(th thread) bool { return len(th.all("notice")) > 0 })
	require.Contains(t, th.all("notice")[0].Text, "No session")
}

// A command that takes too long is ended, with what it started; what a command
// leaves in the background ends with it; a long output is kept whole.
func TestLimits(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--set", "sandbox.timeout.shell=6s")
	ada := d.as("ada")
	long, left := nap(5000), nap(5000)
	id := ada.opens(t, "`echo begun; "+long+"`")
	th := ada.sees(t, id, "the answer", answered(1))
	c := th.calls(1)[0]
	require.Contains(t, c.Note, "timed out")
	require.Contains(t, th.answer(1).Text, "timed out")
	require.Equal(t, "begun\n", ada.output(t, c.ID, "stdout", 0))
	gone(t, long)

	c = ada.does(t, id, 2, left+" & echo left")
	ran(t, c)
	require.Equal(t, "left\n", ada.output(t, c.ID, "stdout", 0))
	gone(t, left)
	c = ada.does(t, id, 3, "yes | head -c 20000000")
	ran(t, c)
	require.Equal(t, "y\ny\n", ada.output(t, c.ID, "stdout", 20000000-4), "the whole log is kept")
	c = ada.does(t, id, 4, "echo on")
	ran(t, c)
}
