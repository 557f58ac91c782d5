package slack

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
	"github.com/countersign/countersign/internal/workflows"
)

// fromMenu gives a command from the header's menu and returns its modal, filled.
func (w *world) fromMenu(t workflows.Thread, user, verb string) slackfake.View {
	w.t.Helper()
	v := workflows.MessageView{Key: "header", Kind: workflows.KindHeader, Version: 1, Header: &workflows.HeaderView{
		Title: "do something", Backend: "local", Liveness: workflows.LivenessActive, By: workflows.Actor{ID: ada, Name: "ada"},
	}}
	ts, err := w.app.Poster().Post(w.t.Context(), chat.Content{WorkflowID: t.WorkflowID(), Thread: t, View: v})
	require.NoError(w.t, err)
	before := len(w.fake.Views(user))
	_, err = w.fake.Choose(user, general, ts, actionMenu, verb)
	require.NoError(w.t, err)
	w.until("the modal is filled", func() bool {
		views := w.fake.Views(user)
		return len(views) == before+1 && views[before].Updates > 0
	})
	return w.fake.Views(user)[before]
}

// TestEndsAreAskedInAModal: what would be lost is said to who asks, alone; nothing
// happens before they confirm.
func TestEndsAreAskedInAModal(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	v := w.fromMenu(thread, ada, "destroy")
	require.Contains(t, blockText(v.Blocks), "Nothing is running. Kept for some days")
	require.Equal(t, "Destroy", v.Submit)
	require.Empty(t, w.sessions.Asked("Destroy"))
	posts := len(w.fake.Thread(thread.Channel, thread.ID))
	_, err := w.fake.Submit(v.ID, nil)
	require.NoError(t, err)
	d := one[workflows.DestroySession](w, "Destroy")
	require.Equal(t, thread.WorkflowID(), d.WorkflowID)
	require.Equal(t, ada, d.By.ID)
	require.Len(t, w.fake.Thread(thread.Channel, thread.ID), posts, "the session's receipt is what the thread gets")

	v = w.fromMenu(thread, ada, "done")
	_, err = w.fake.Submit(v.ID, map[string]string{inputVerdict: workflows.ButtonKeep})
	require.NoError(t, err)
	require.Equal(t, ada, one[workflows.Pause](w, "Pause").By.ID)
}

// TestGrantsInAModal: the list of permissions, each with a button that ends it.
func TestGrantsInAModal(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	require.Contains(t, blockText(w.fromMenu(thread, ada, "grants").Blocks), "no standing permissions")
	st := w.sessions.state[thread.WorkflowID()]
	for _, id := range []string{"g1", "g2"} {
		st.Grants = append(st.Grants, workflows.Grant{ID: id, Command: "rm -rf " + id, By: workflows.Actor{ID: grace, Name: "grace"}, Until: time.Now().Add(time.Hour)})
	}
	w.sessions.set(thread, st)
	v := w.fromMenu(thread, ada, "grants")
	require.Contains(t, blockText(v.Blocks), "rm -rf g2")
	st.Grants = st.Grants[1:]
	w.sessions.set(thread, st)
	_, err := w.fake.PressIn(v.ID, chat.ButtonRevoke+"g1")
	require.NoError(t, err)
	r := one[workflows.RevokeGrant](w, "RevokeGrant")
	require.Equal(t, []string{"g1", ada}, []string{r.GrantID, r.By.ID})
	w.until("the list is newer", func() bool {
		now, _ := w.fake.View(v.ID)
		text := blockText(now.Blocks)
		return now.Updates > v.Updates && !strings.Contains(text, "rm -rf g1") && strings.Contains(text, "rm -rf g2") && strings.Contains(text, "g1 revoked by @ada")
	})
}

// TestALongAnswerToASubmission: what is longer than Slack takes as an answer to a
// submission fills the dialog afterwards.
func TestALongAnswerToASubmission(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	st := w.sessions.state[thread.WorkflowID()]
	for i := range 50 {
		st.Grants = append(st.Grants, workflows.Grant{ID: fmt.Sprint("g", i), Command: "rm -rf " + strings.Repeat("<&>", 90), By: workflows.Actor{ID: grace, Name: "grace"}, Until: time.Now().Add(time.Hour)})
	}
	w.sessions.set(thread, st)
	require.True(t, w.fake.Shortcut(ada, general, w.fake.Quiet(grace, general, thread.ID, "hm"), "session").Acked)
	w.until("the menu is filled", func() bool { return len(w.fake.Views(ada)) == 1 && w.fake.Views(ada)[0].Submit != "" })
	a, err := w.fake.Submit(w.fake.Views(ada)[0].ID, map[string]string{"verb": "grants"})
	require.NoError(t, err)
	require.True(t, a.Acked)
	w.until("the dialog shows all of it", func() bool {
		v, _ := w.fake.View(w.fake.Views(ada)[0].ID)
		return strings.Contains(blockText(v.Blocks), "g49")
	})
}
