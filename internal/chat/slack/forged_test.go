package slack

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
	"github.com/countersign/countersign/internal/workflows"
)

// walls is a world with a session in a private channel, which grace is not in, and
// one in a public channel. hidden is the private one.
func walls(t *testing.T) (w *world, hidden, open workflows.Thread) {
	t.Helper()
	w = start(t, setup{before: func(w *world) {
		w.fake.AddChannel(slackfake.Channel{ID: private, Private: true, Members: []string{slackfake.BotUser, ada}})
	}})
	hidden, open = w.stands(ada, private, "the merger", ""), w.stands(grace, general, "a task", "")
	return w, hidden, open
}

// untouched: nothing was asked of any session, nothing stands in the private thread
// that was not there, and grace has seen nothing of it.
func (w *world) untouched(hidden workflows.Thread, before int) {
	w.t.Helper()
	for _, method := range []string{"Decide", "CancelTurn", "Pause", "Destroy", "SwitchBackend", "Fork", "SetTitle", "SetModel", "RevokeGrant", "SendFiles", "SendMessage"} {
		require.Empty(w.t, w.sessions.Asked(method), method)
	}
	require.Len(w.t, w.fake.Thread(hidden.Channel, hidden.ID), before)
	for _, v := range w.fake.Views(grace) {
		for _, secret := range []string{"merger", "secret", "dir-1", "go test"} {
			require.NotContains(w.t, blockText(v.Blocks), secret)
		}
	}
	for _, m := range w.fake.Ephemerals(grace) {
		require.NotContains(w.t, m.Text, "merger")
	}
}

// TestForgedButtons: a button's value that names a session in a channel that the
// clicker is not in does nothing and shows nothing, whichever button it is.
func TestForgedButtons(t *testing.T) {
	t.Parallel()
	w, hidden, open := walls(t)
	w.outputs = chattest.Outputs{hidden.ID + ".2.1.x1/stdout": "secret output"}
	w.turn(hidden, 5)
	request := w.asks(hidden, "cat secret", []string{"*"})
	before := len(w.fake.Thread(hidden.Channel, hidden.ID))
	card := w.approval(open, nil)
	forged := refOf(hidden)
	forged.Approval, forged.Key, forged.Digest, forged.Turn, forged.First, forged.Last = request, "approval-"+hidden.ID, "sha256:1", 2, 1, 99
	for n, button := range []string{
		workflows.ButtonApprove, workflows.ButtonGrant, workflows.ButtonDeny, workflows.ButtonReview, workflows.ButtonDetails,
		workflows.ButtonStop, workflows.ButtonWithdraw, workflows.ButtonDestroy, workflows.ButtonKeep, chat.ButtonRevoke + "g1",
	} {
		payload, err := w.fake.Action(grace, general, card, workflows.ButtonApprove)
		require.NoError(t, err)
		data, err := json.Marshal(payload)
		require.NoError(t, err)
		var p map[string]any
		require.NoError(t, json.Unmarshal(data, &p))
		act, _ := p["actions"].([]any)[0].(map[string]any)
		act["action_id"], act["value"] = button, forged.encode()
		require.True(t, w.fake.Interact(p).Acked)
		w.until("grace is told, "+button, func() bool { return len(w.fake.Ephemerals(grace)) == n+1 })
		require.Contains(t, w.fake.Ephemerals(grace)[n].Text, "names no session that you can see", button)
	}
	w.untouched(hidden, before)

	// Who is in the channel is not hindered.
	_, err := w.fake.Press(ada, private, w.fake.Thread(private, hidden.ID)[1].TS, workflows.ButtonDetails)
	require.NoError(t, err)
	require.Contains(t, blockText(w.shows(ada, 1, 1).Blocks), "go test")
}

// TestForgedModals: what a modal carries counts only for sessions that the person
// sees, whatever the modal is for.
func TestForgedModals(t *testing.T) {
	t.Parallel()
	w, hidden, open := walls(t)
	w.outputs = chattest.Outputs{hidden.ID + ".2.1.x1/stdout": "secret output"}
	w.turn(hidden, 5)
	request := w.asks(hidden, "cat secret", []string{"*"})
	before := len(w.fake.Thread(hidden.Channel, hidden.ID))
	to := refOf(hidden)
	to.Approval, to.Key, to.Digest, to.Turn, to.First, to.Last = request, "approval-"+hidden.ID, "sha256:1", 2, 1, 99

	// Buttons in a modal: pages, outputs, files, permissions.
	turn := w.turn(open, 5)
	for n, button := range []string{"output:1", actionFile} {
		_, err := w.fake.Press(grace, general, turn, workflows.ButtonDetails)
		require.NoError(t, err)
		n++
		v := w.shows(grace, n, 1)
		w.fake.Rewrite(v.ID, to.encode())
		_, err = w.fake.PressIn(v.ID, button)
		require.NoError(t, err)
		w.until("it is refused", func() bool {
			v, _ := w.fake.View(v.ID)
			return strings.Contains(blockText(v.Blocks), "names no session")
		})
	}

	// Submissions: the approval's forms, the menu, the forms of commands.
	card := w.approval(open, func(v *workflows.MessageView) { v.Approval.Approvers = []string{grace} })
	_, err := w.fake.Press(grace, general, card, workflows.ButtonReview)
	require.NoError(t, err)
	const n = 3 // the third dialog
	v := w.shows(grace, n, 1)
	w.fake.Rewrite(v.ID, to.encode())
	_, err = w.fake.Submit(v.ID, nil)
	require.NoError(t, err)
	_, err = w.fake.Press(grace, general, card, workflows.ButtonDeny)
	require.NoError(t, err)
	w.fake.Rewrite(w.shows(grace, n+1, 0).ID, to.encode())
	_, err = w.fake.Submit(w.fake.Views(grace)[n].ID, map[string]string{"reason": "no"})
	require.NoError(t, err)
	for i, verb := range []string{"stop", "status", "history", "destroy", "fork", "files"} {
		reply := w.fake.Quiet(grace, general, open.ID, "hm")
		require.True(t, w.fake.Shortcut(grace, general, reply, "session").Acked)
		at := n + 1 + i
		w.until("the menu is filled", func() bool { return len(w.fake.Views(grace)) == at+1 && w.fake.Views(grace)[at].Submit != "" })
		w.fake.Rewrite(w.fake.Views(grace)[at].ID, to.encode())
		_, err = w.fake.Submit(w.fake.Views(grace)[at].ID, map[string]string{"verb": verb})
		require.NoError(t, err)
		require.Contains(t, blockText(w.fake.Views(grace)[at].Blocks), "names no session", verb)
	}
	w.untouched(hidden, before)
}

// TestForgedPicker: the picker offers what the asker sees, and takes nothing else.
func TestForgedPicker(t *testing.T) {
	t.Parallel()
	w, hidden, open := walls(t)
	direct := w.stands(ada, "D0ADA00001", "her own notes", "")
	before := len(w.fake.Thread(hidden.Channel, hidden.ID))
	require.True(t, w.fake.Command(grace, general, "stop").Acked)
	w.until("the picker is filled", func() bool { return len(w.fake.Views(grace)) == 1 && w.fake.Views(grace)[0].Submit != "" })
	v := w.fake.Views(grace)[0]
	require.Contains(t, string(v.Blocks), "a task")
	require.NotContains(t, string(v.Blocks), "merger")
	require.NotContains(t, string(v.Blocks), "notes")
	for i, other := range []workflows.Thread{hidden, direct} {
		w.fake.Command(grace, general, "stop")
		n := i + 2
		w.until("the picker is filled", func() bool { return len(w.fake.Views(grace)) == n && w.fake.Views(grace)[n-1].Submit != "" })
		_, err := w.fake.Submit(w.fake.Views(grace)[n-1].ID, map[string]string{"session": other.Channel + "/" + other.ID})
		require.NoError(t, err)
	}
	w.untouched(hidden, before)
	_, err := w.fake.Submit(v.ID, map[string]string{"session": open.Channel + "/" + open.ID})
	require.NoError(t, err)
	w.until("her own is stopped", func() bool { return len(w.sessions.Asked("CancelTurn")) == 1 })
	require.Equal(t, open.WorkflowID(), w.sessions.Asked("CancelTurn")[0].ID)
}

// TestForgedHome: so it is with the buttons of an App Home.
func TestForgedHome(t *testing.T) {
	t.Parallel()
	w, hidden, open := walls(t)
	request := w.asks(hidden, "cat secret", []string{"*"})
	own := w.asks(open, "rm -rf build", []string{ada, grace})
	before := len(w.fake.Thread(hidden.Channel, hidden.ID))
	w.stands(ada, general, "a task of ada's", "")
	w.homeOf(grace)
	w.fake.RewriteHome(grace, jsonText(open.Channel+"/"+open.ID), jsonText(hidden.Channel+"/"+hidden.ID))
	w.fake.RewriteHome(grace, jsonText(own), jsonText(request))
	n := 0
	for _, button := range []string{workflows.ButtonReview, workflows.ButtonDeny, "stop"} {
		if _, err := w.fake.PressHome(grace, button, hidden.ID); err != nil {
			continue // it offers no such button here
		}
		n++
		w.until("she is told", func() bool { return len(w.fake.Views(grace)) == n })
		require.Contains(t, blockText(w.fake.Views(grace)[n-1].Blocks), "names no session", button)
	}
	require.Positive(t, n)
	w.untouched(hidden, before)
}

// TestSessionsBehindWallsAreNotThere: neither listed nor copied by who is not in
// their channel, nor by a name of another team.
func TestSessionsBehindWallsAreNotThere(t *testing.T) {
	t.Parallel()
	w, hidden, open := walls(t)
	require.True(t, w.fake.Command(grace, general, "list").Acked)
	list := w.toldOnly(grace)
	require.Contains(t, list, "a task")
	require.NotContains(t, list, "merger")
	require.NotContains(t, list, hidden.ID)
	for _, name := range []string{private + "/" + hidden.ID, hidden.WorkflowID(), "agent/slack/T0OTHER001/" + general + "/" + open.ID} {
		n := len(w.fake.Ephemerals(grace))
		w.fake.Command(grace, general, "new --from "+name)
		w.until("she is told", func() bool { return len(w.fake.Ephemerals(grace)) == n+1 })
		require.Contains(t, w.fake.Ephemerals(grace)[n].Text, "names no session", name)
	}
	require.Empty(t, w.sessions.Asked("Fork"))

	require.True(t, w.fake.Command(ada, private, "list").Acked)
	require.Contains(t, w.toldOnly(ada), "the merger")
	w.fake.Command(ada, general, "new --from "+private+"/"+hidden.ID)
	require.Equal(t, hidden.WorkflowID(), one[workflows.ForkSession](w, "Fork").Source)

	// What Slack does not say is not shown.
	w.app.shared = newMemory[string, map[string]bool]()
	w.fake.Fail("users.conversations", slackfake.Failure{Code: "internal_error", Times: 100})
	n := len(w.fake.Ephemerals(ada))
	w.fake.Command(ada, "C0GENERAL1", "list")
	w.until("she is told", func() bool { return len(w.fake.Ephemerals(ada)) > n })
	require.NotContains(t, w.fake.Ephemerals(ada)[n].Text, "merger")
}

// TestAClickBindsWhatItsCardShowed: the card of a command that somebody has changed
// meanwhile approves the old one or nothing; one that shows only a part approves
// nothing.
func TestAClickBindsWhatItsCardShowed(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.session()
	card := w.approval(s, nil)
	stale, err := w.fake.Action(grace, general, card, workflows.ButtonApprove)
	require.NoError(t, err)
	v := w.sessions.Views["approval-1"]
	changed := *v.Approval
	changed.Command.Text, changed.Digest, v.Version, v.Approval = "rm -rf /", "sha256:2", 2, &changed
	w.sessions.SetView(v)
	require.NoError(t, w.app.Poster().Edit(t.Context(), card, chat.Content{WorkflowID: s.WorkflowID(), Thread: s, View: v}))
	w.fake.Interact(stale)
	require.Equal(t, "sha256:1", one[workflows.Decision](w, "Decide").Digest, "the session answers that it has changed")

	m, _ := w.fake.Message(general, card)
	require.Contains(t, string(m.Blocks), `sha256:2`)
	long := workflows.TextRef{Text: "echo " + strings.Repeat("x", 4000)}
	part := w.approval(s, func(v *workflows.MessageView) {
		v.Key, v.Approval.Command = "approval-2", long
		v.Buttons = append(v.Buttons, workflows.Button{ID: workflows.ButtonGrant, Label: "Allow this for 1 h"})
	})
	m, _ = w.fake.Message(general, part)
	require.Equal(t, []string{"Review…", "Deny…"}, labels(m.Blocks))
	forged, err := w.fake.Action(grace, general, part, workflows.ButtonDeny)
	require.NoError(t, err)
	data, err := json.Marshal(forged)
	require.NoError(t, err)
	var p map[string]any
	require.NoError(t, json.Unmarshal(data, &p))
	p["actions"].([]any)[0].(map[string]any)["action_id"] = workflows.ButtonApprove
	w.fake.Interact(p)
	require.Contains(t, w.toldOnly(grace), "Open Review; approve from there.")
	require.Len(t, w.sessions.Asked("Decide"), 1)
}
