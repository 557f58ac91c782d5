package e2e_test

import (
	"crypto/rand"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Worker and bot as processes of their own do the main job, and go on when the
// server was killed and comes back.
func TestEachProcessAlone(t *testing.T) {
	t.Parallel()
	d := newDev(t, "--without", "worker,bot")
	d.listen = "127.0.0.1:" + freePort(t)
	d.up(t)
	w, b := d.worker(t), d.bot(t)
	ada := d.as("ada")
	th := mainJob(t, ada)

	d.kill()
	body := map[string]string{"text": "`echo back >> log`", "client_id": rand.Text()}
	began := time.Now()
	r := ada.refusal(t, http.StatusServiceUnavailable, http.MethodPost, "/threads/"+th.ID+"/messages", body)
	require.Less(t, time.Since(began), stretched(15*time.Second))
	require.NotEmpty(t, r.Error.Hint)
	th = ada.thread(t, th.ID) // what was said stays readable
	require.NotEmpty(t, th.answer(2).ID)
	d.up(t)
	await(t, within, "the message is taken", func() (int, bool) {
		status, _, err := ada.request(http.MethodPost, "/threads/"+th.ID+"/messages", body)
		return status, err == nil && status == http.StatusAccepted
	})
	th = ada.sees(t, th.ID, "the session goes on", answered(3))
	require.Equal(t, "back\n", th.inWorkspace(t, "log"), "once")
	require.True(t, w.running())
	require.True(t, b.running())
	w.interrupt(t)
	b.interrupt(t)
	d.interrupt(t)
	require.NoFileExists(t, filepath.Join(d.dir, "dev.json"))
}

// While no worker runs, messages are taken and clicks are answered; nothing that
// was not confirmed counts later.
func TestNoWorkerForAWhile(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--without", "worker")
	ada := d.as("ada")
	w := d.worker(t)
	id := ada.opens(t, "`sh s.sh`")
	m := ada.sees(t, id, "a request", waiting).pending()[0]
	w.kill()

	began := time.Now()
	require.Equal(t, "unconfirmed", ada.clickOnce(t, m, "approve", "once", nil).Outcome)
	require.Less(t, time.Since(began), stretched(4*time.Second), "a click is answered in time")
	ada.says(t, id, "then `echo later`")
	fresh := ada.opens(t, "`echo fresh`")
	ada.refusal(t, http.StatusServiceUnavailable, http.MethodPost, "/threads/"+id+"/messages", map[string]string{"text": "/agent status"})

	// A click whose answer never came must not count minutes later.
	time.Sleep(time.Until(began.Add(decisionAge + time.Second)))
	w = d.worker(t)
	th := ada.sees(t, fresh, "the new session", answered(1))
	require.Contains(t, th.answer(1).Text, "fresh")
	th = ada.sees(t, id, "the message is queued", func(th thread) bool { return waiting(th) && th.pending()[0].has("withdraw") })
	require.Empty(t, th.inWorkspace(t, "ran"), "what was not confirmed did not count")
	require.Equal(t, "recorded", ada.click(t, m, "approve", nil).Outcome)
	th = ada.sees(t, id, "the answer", answered(1))
	require.Equal(t, "one\n", th.inWorkspace(t, "ran"))
	require.Contains(t, th.answer(1).Text, "later")
	w.interrupt(t)
}

// decisionAge is how old a click may be when it reaches its session.
const decisionAge = 15 * time.Second

// A click that comes right after a worker was killed and replaced is answered in
// time: the session does not wait for the dead one.
func TestClickAfterTheWorkerDied(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--without", "worker")
	ada := d.as("ada")
	w := d.worker(t)
	id := ada.opens(t, "`sh s.sh`")
	th := ada.sees(t, id, "the session waits", func(th thread) bool {
		return waiting(th) && th.Liveness == "waiting" && th.call(1, 0).State == "awaiting_approval"
	})
	m := th.pending()[0]
	time.Sleep(time.Second) // it is at rest
	w.kill()
	w = d.worker(t)
	await(t, within, "the worker is up", func() (string, bool) { s := w.printed(); return s, contains(s, "Worker is up") })
	began := time.Now()
	out := ada.clickOnce(t, m, "approve", "once", nil).Outcome
	if out == "unconfirmed" { // then people click again, and that is the same click
		ada.clickAs(t, m, "approve", "once")
	}
	ada.sees(t, id, "the click has counted", decided("approved"))
	t.Logf("%s, and on the card after %v", out, time.Since(began))
	require.Less(t, time.Since(began), stretched(4*time.Second))
	th = ada.sees(t, id, "the answer", answered(1))
	require.Equal(t, "one\n", th.inWorkspace(t, "ran"))
}

// A command whose processes are killed from outside has an unknown outcome: a
// person is asked, and it is not run again by itself.
func TestKilledFromOutside(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	long := nap(5000)
	id := ada.opens(t, "`echo started >> log; "+long+"`")
	th := ada.sees(t, id, "the command runs", running(1))
	await(t, within, "it has begun", func() (string, bool) {
		s := th.inWorkspace(t, "log")
		return s, s != ""
	})
	killAll(t, filepath.Dir(th.workspace(t))) // what watches over it, first
	killAll(t, long)
	th = ada.sees(t, id, "a person is asked", waiting)
	m := th.pending()[0]
	require.False(t, m.has("approve"))
	require.True(t, m.has("leave"), "%+v", m.Buttons)
	require.Equal(t, "started\n", th.inWorkspace(t, "log"))
	require.Equal(t, "recorded", ada.click(t, m, "leave", nil).Outcome)
	th = ada.sees(t, id, "the turn ends", answered(1))
	require.Equal(t, "unknown", th.calls(1)[0].State)
	require.Equal(t, "started\n", th.inWorkspace(t, "log"), "it was not run again")
}

// killAll kills every process whose command line holds text, as one that cleans
// up a machine does.
func killAll(t testing.TB, text string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil || !strings.Contains(strings.ReplaceAll(string(data), "\x00", " "), text) {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(f, "/")[2])
		require.NoError(t, err)
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
}

// Of several people who decide at once one counts, and all are told the truth.
func TestDecidedAtOnce(t *testing.T) {
	t.Parallel()
	d := sharedDev(t)
	for range 3 {
		id := d.as("ada").opens(t, "`echo ran >> log; rm -rf build`")
		m := d.as("ada").sees(t, id, "a request", waiting).pending()[0]
		outcomes, buttons := map[string]int{}, []string{"approve", "deny", "approve", "deny"}
		var clicks []func() clicked
		for i, name := range []string{"ada", "grace", "linus", "ken"} {
			clicks = append(clicks, func() clicked { return d.as(name).click(t, m, buttons[i], nil) })
		}
		for i, outcome := range together(clicks...) {
			outcomes[outcome+" "+buttons[i]]++
		}
		th := d.as("ada").sees(t, id, "the turn ends", answered(1))
		approved, denied := outcomes["recorded approve"], outcomes["recorded deny"]
		require.Equal(t, 1, approved+denied, "%v", outcomes)
		require.Equal(t, 3, outcomes["already_decided approve"]+outcomes["already_decided deny"], "%v", outcomes)
		require.Equal(t, strings.Repeat("ran\n", approved), th.inWorkspace(t, "log"))
	}
}

// Many sessions side by side keep apart.
func TestManySessions(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	ids := make([]string, 8)
	for i := range ids {
		ids[i] = ada.opens(t, "`echo "+strconv.Itoa(i)+" > mine; sleep 1; cat mine`")
	}
	for i, id := range ids {
		th := ada.sees(t, id, "an answer", answered(1))
		require.Equal(t, strconv.Itoa(i)+"\n", ada.output(t, th.calls(1)[0].ID, "stdout", 0))
	}
}
