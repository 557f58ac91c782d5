package e2e_test

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A fork does not wait for what the source is doing, and does not disturb it.
func TestForkDuringACommand(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	id := ada.opens(t, "`echo from the source > f`")
	ada.sees(t, id, "the first turn is over", answered(1))
	ada.says(t, id, "`"+untilGo+"; echo late > f`")
	ada.sees(t, id, "the source is busy", running(2))

	began := time.Now()
	opened := ada.says(t, id, `/agent fork "a copy"`).Opened
	require.NotEmpty(t, opened)
	ada.says(t, opened, "`cat f`")
	th := ada.sees(t, opened, "the fork answers", answered(1))
	took := time.Since(began)
	t.Logf("the fork answered after %v", took)
	require.Less(t, took, stretched(5*time.Second))
	require.Contains(t, th.answer(1).Text, "from the source")
	th = ada.thread(t, opened)
	require.Equal(t, "a copy", th.Title)
	require.Equal(t, id, th.Parent)
	require.True(t, running(2)(ada.thread(t, id)), "the source goes on")
	source := ada.thread(t, id)
	require.True(t, source.said("end of turn 1"), "the person is told which boundary")

	source.letGo(t)
	th = ada.sees(t, id, "the source ends", answered(2))
	ran(t, th.calls(2)[0])
	require.Equal(t, "late\n", th.inWorkspace(t, "f"))
	require.Equal(t, "from the source\n", ada.thread(t, opened).inWorkspace(t, "f"))
}

// Pause gives the sandbox back; the next message goes on with the same files.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	id := ada.opens(t, "`echo kept > f`")
	ada.sees(t, id, "the answer", answered(1))
	ada.says(t, id, "/agent pause")
	ada.sees(t, id, "it is paused", func(th thread) bool { return th.Liveness == "paused" && th.said("Paused by @ada") })
	ada.says(t, id, "`cat f`")
	th := ada.sees(t, id, "it goes on", answered(2))
	require.Contains(t, th.answer(2).Text, "kept")
	ada.sees(t, id, "it is active", func(th thread) bool { return th.Liveness == "active" })
}

// Destroy asks, then ends the session with a receipt; its files start a new one.
func TestDestroyWithReceipt(t *testing.T) {
	t.Parallel()
	d := sharedDev(t)
	ada := d.as("ada")
	id := ada.opens(t, "`echo precious > f`, then `rm -rf build`")
	approveOne(t, ada, id)
	ada.sees(t, id, "the turn is over", answered(1))
	path := ada.thread(t, id).workspace(t)

	ask := func() message {
		before := len(ada.thread(t, id).all("notice"))
		ada.says(t, id, "/agent destroy")
		th := ada.sees(t, id, "the question", func(th thread) bool {
			n := th.all("notice")
			return len(n) > before && n[len(n)-1].has("destroy")
		})
		n := th.all("notice")
		return n[len(n)-1]
	}
	q := ask()
	require.Contains(t, q.Text, "sandbox")
	require.Equal(t, "recorded", ada.click(t, q, "keep", nil).Outcome)
	require.NotEqual(t, "destroyed", ada.thread(t, id).Liveness)
	q = ask()
	require.Equal(t, "recorded", ada.click(t, q, "destroy", nil).Outcome)
	th := ada.sees(t, id, "it is destroyed", func(th thread) bool { return th.Liveness == "destroyed" && th.said("Destroyed by @ada") })
	for _, part := range []string{"1 turn", "2 commands", "1 approval", "new --from"} {
		require.True(t, th.said(part), part)
	}
	require.NoDirExists(t, path, "the sandbox is gone")
	once(t, th)

	// A message is refused, or, while the session closes, answered in the thread.
	hello := map[string]string{"text": "hello?", "client_id": rand.Text()}
	if status, data, err := ada.request(http.MethodPost, "/threads/"+id+"/messages", hello); err == nil && status == http.StatusAccepted {
		ada.sees(t, id, "it is said that it was not taken", func(th thread) bool { return th.said("not taken any more") })
	} else {
		require.Equal(t, http.StatusConflict, status, "%s", data)
	}
	r := await(t, within, "the session has closed", func() (refused, bool) {
		var r refused
		status, data, err := ada.request(http.MethodPost, "/threads/"+id+"/messages", map[string]string{"text": "hello?"})
		return r, err == nil && status == http.StatusConflict && json.Unmarshal(data, &r) == nil
	})
	require.Contains(t, r.Error.Hint, "new --from")
	require.Equal(t, "already_decided", ada.click(t, q, "destroy", nil).Outcome)
	require.Equal(t, "expired", ada.click(t, th.all("approval")[0], "approve", nil).Outcome, "after destroy every request is expired")

	reply := ada.write(t, "/channels/general/messages", "/agent new --from "+id)
	opened := reply.Opened
	require.NotEmpty(t, opened, "%+v", reply)
	ada.says(t, opened, "`cat f`")
	th = ada.sees(t, opened, "its files are there", answered(1))
	require.Contains(t, th.answer(1).Text, "precious")
	require.Equal(t, id, ada.thread(t, opened).Parent)
}

// Destroying a session ends what runs in it.
func TestDestroyEndsTheCommand(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	long := nap(5000)
	id := ada.opens(t, "`"+long+"`")
	ada.sees(t, id, "the command runs", func(th thread) bool { return running(1)(th) && asleep(t, long) })
	ada.says(t, id, "/agent done")
	th := ada.sees(t, id, "the question", func(th thread) bool {
		n := th.all("notice")
		return len(n) > 0 && n[len(n)-1].has("destroy")
	})
	q := th.all("notice")[0]
	require.Contains(t, q.Text, "running")
	require.Equal(t, "recorded", ada.click(t, q, "destroy", nil).Outcome)
	ada.sees(t, id, "it is destroyed", func(th thread) bool { return th.Liveness == "destroyed" })
	gone(t, long)
}

// What people ask about sessions, and change of them, in thread and channel.
func TestCommands(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	id := ada.opens(t, `run --title "first name" -- list the files with `+"`ls`")
	ada.sees(t, id, "the answer", answered(1))
	require.Equal(t, "first name", ada.thread(t, id).Title)
	// told gives a command in the thread and returns what is answered there, or to
	// the asker alone.
	told := func(command string) string {
		t.Helper()
		p := ada.says(t, id, "@countersign "+command)
		if p.Text != "" {
			return p.Text
		}
		th := ada.sees(t, id, "the answer to "+command, func(th thread) bool { return th.byKey("reply-"+p.MessageID).ID != "" })
		return th.byKey("reply-" + p.MessageID).Text
	}
	ada.says(t, id, `/agent title "second name"`)
	ada.sees(t, id, "the new title", func(th thread) bool { return th.Title == "second name" })

	status := told("status")
	for _, part := range []string{"second name", "local", "1 turn"} {
		require.Contains(t, status, part)
	}
	history := told("history")
	require.Contains(t, history, "list the files")
	require.Contains(t, history, "ls")
	require.Contains(t, told("help"), "fork")
	require.NotEmpty(t, told("grants"))
	require.NotEmpty(t, told("switch"))
	require.Contains(t, told("switch local"), "local already")
	r := ada.refusal(t, http.StatusBadRequest, http.MethodPost, "/threads/"+id+"/messages", map[string]string{"text": "/agent switch modal"})
	require.Contains(t, r.Error.Message, "modal")
	ada.refusal(t, http.StatusBadRequest, http.MethodPost, "/threads/"+id+"/messages", map[string]string{"text": "/agent switch nowhere"})
	require.Contains(t, told("model gpt-x"), "gpt-x")
	require.Contains(t, told("status"), "gpt-x")
	require.Contains(t, told("model offline"), "offline")
	require.Contains(t, told("stop"), "No turn is running")

	fork := ada.says(t, id, "/agent fork").Opened
	ada.sees(t, fork, "the fork", func(th thread) bool { return strings.Contains(th.Title, "fork #1") && th.Parent == id })
	await(t, within, "the list tells of both", func() (string, bool) {
		list := told("list")
		return list, contains(list, "second name") && contains(list, "fork #1")
	})
	p := ada.write(t, "/channels/general/messages", "/agent list")
	th := ada.sees(t, p.ThreadID, "the list in the channel", func(th thread) bool { return len(th.all("notice")) > 0 })
	require.Contains(t, th.all("notice")[0].Text, "second name")
	ada.refusal(t, http.StatusConflict, http.MethodPost, "/threads/"+p.ThreadID+"/messages", map[string]string{"text": "no session here"})

	p = ada.write(t, "/channels/general/messages", "/agent status")
	th = ada.sees(t, p.ThreadID, "the picker", func(th thread) bool { return len(th.all("notice")) > 0 })
	require.Contains(t, th.all("notice")[0].Text, "second name")
	var threads []thread
	ada.get(t, "/channels/general/threads", &threads)
	for i := 1; i < len(threads); i++ {
		require.Greater(t, threads[i-1].ID, threads[i].ID, "newest first")
	}
}

// `list the files` is a task, and `run -- list` too.
func TestTextThatIsNoCommand(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	for _, task := range []string{"list the files: `echo task`", "run -- list `echo task`", "stop it: `echo task`", "fork `echo task`"} {
		id := ada.opens(t, task)
		th := ada.sees(t, id, "an answer to "+task, answered(1))
		require.Contains(t, th.answer(1).Text, "task")
	}
}
