package slack

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

func secret(s string) telemetry.Secret { return telemetry.NewSecret(s) }

func oncall(w *world) {
	w.fake.AddGroup(slackfake.Group{ID: "S0ONCALL01", Handle: "platform-oncall", Users: []string{grace}})
	w.fake.AddGroup(slackfake.Group{ID: "S0OLD00001", Handle: "former", Users: []string{grace}, Disabled: true})
}

func TestApprove(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: oncall})
	thread := w.session()
	ts := w.approval(thread, nil)
	before := time.Now()
	w.fake.Duplicate(true)
	a, err := w.fake.Press(grace, general, ts, workflows.ButtonApprove)
	require.NoError(t, err)
	require.True(t, a.Acked)
	d := one[workflows.Decision](w, "Decide")
	require.Equal(t, workflows.VerdictApprove, d.Verdict)
	require.Equal(t, thread.ID+".a1", d.ApprovalID)
	require.Equal(t, thread.WorkflowID(), w.sessions.Asked("Decide")[0].ID)
	require.ElementsMatch(t, []string{"S0ONCALL01", "platform-oncall", "@platform-oncall"}, d.By.Groups, "evidence of the enabled groups only")
	require.Equal(t, grace, d.By.ID)
	require.NotEmpty(t, d.Interaction)
	require.WithinDuration(t, before, d.ClickedAt, time.Minute)
	w.app.wg.Wait()
	require.Empty(t, w.fake.Ephemerals(grace), "what was recorded shows on the card")
}

// TestAClickIsAsOldAsItIs: Slack says when it was, by its clock. Where this machine's is
// another, a click would be too old, or of the future, as soon as it is made.
func TestAClickIsAsOldAsItIs(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		w := start(t, setup{fake: slackfake.Options{Ahead: ahead}})
		ts := w.approval(w.session(), nil)
		_, err := w.fake.Press(grace, general, ts, workflows.ButtonApprove)
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), one[workflows.Decision](w, "Decide").ClickedAt, 30*time.Second)
	}
}

func TestAgain(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: oncall})
	ts := w.approval(w.session(), nil)
	for range 2 {
		_, err := w.fake.Press(grace, general, ts, workflows.ButtonApprove)
		require.NoError(t, err)
	}
	w.until("both clicks are told", func() bool { return len(w.sessions.Asked("Decide")) == 2 })
	first, ok := w.sessions.Asked("Decide")[0].Arg.(workflows.Decision)
	require.True(t, ok)
	second, ok := w.sessions.Asked("Decide")[1].Arg.(workflows.Decision)
	require.True(t, ok)
	require.NotEqual(t, first.Interaction, second.Interaction, "two clicks are two interactions")
}

func TestClickThatDoesNotCount(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: oncall})
	ts := w.approval(w.session(), nil)
	w.sessions.Answer = workflows.Outcome{Outcome: workflows.OutcomeNotYours, Text: "This needs @platform-oncall."}
	_, err := w.fake.Press(ada, general, ts, workflows.ButtonApprove)
	require.NoError(t, err)
	require.Equal(t, "This needs @platform-oncall.", w.toldOnly(ada))
	require.Empty(t, one[workflows.Decision](w, "Decide").By.Groups)
}

func TestUnconfirmedClick(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: oncall})
	ts := w.approval(w.session(), nil)
	w.setDown(workflows.ErrUnconfirmed)
	_, err := w.fake.Press(grace, general, ts, workflows.ButtonApprove)
	require.NoError(t, err)
	require.Contains(t, w.toldOnly(grace), "Not confirmed")
}

func TestGroupsThatCannotBeLookedUpDoNotCount(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: oncall})
	thread := w.session()
	ts := w.approval(thread, func(v *workflows.MessageView) { v.Approval.Approvers = []string{"S0ONCALL01"} })
	w.fake.Fail("usergroups.list", slackfake.Failure{Code: "internal_error", Times: 9})
	w.sessions.Answer = workflows.Outcome{Outcome: workflows.OutcomeNotYours, Text: "This needs @platform-oncall."}
	_, err := w.fake.Press(grace, general, ts, workflows.ButtonApprove)
	require.NoError(t, err)
	require.Contains(t, w.toldOnly(grace), "Slack did not say which groups you are in")
	require.Empty(t, one[workflows.Decision](w, "Decide").By.Groups)
}

// TestApproversThatAreGone: where a group was deleted or emptied while its request
// waits, who clicks is told that nobody can approve it.
func TestApproversThatAreGone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*world){
		"disabled": func(w *world) {
			w.fake.AddGroup(slackfake.Group{ID: "S0ONCALL01", Handle: "platform-oncall", Users: []string{grace}, Disabled: true})
		},
		"empty": func(w *world) { w.fake.AddGroup(slackfake.Group{ID: "S0ONCALL01", Handle: "platform-oncall"}) },
		"there": func(w *world) { oncall(w) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{})
			w.sessions.Answer = workflows.Outcome{Outcome: workflows.OutcomeNotYours, Text: "This needs @platform-oncall."}
			change(w)
			_, err := w.fake.Press(ada, general, w.approval(w.session(), nil), workflows.ButtonApprove)
			require.NoError(t, err)
			told := w.toldOnly(ada)
			require.Contains(t, told, "This needs @platform-oncall.")
			require.Equal(t, name != "there", strings.Contains(told, "nobody is in a group"))
		})
	}
}

func TestWhoCannotBeLookedUpDoesNotDecide(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: oncall})
	ts := w.approval(w.session(), nil)
	w.fake.Fail("users.info", slackfake.Failure{Status: 500, Times: 9})
	_, err := w.fake.Press(grace, general, ts, workflows.ButtonApprove)
	require.NoError(t, err)
	require.Contains(t, w.toldOnly(grace), "did not count")
	require.Empty(t, w.sessions.Asked("Decide"))
}

func TestOutsidersDecisionsAreMarked(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: func(w *world) {
		w.fake.AddUser(slackfake.User{ID: "U0PARTNER1", Name: "partner", Team: "T0PARTNER1"})
		w.fake.AddGroup(slackfake.Group{ID: "S0ONCALL01", Handle: "platform-oncall", Users: []string{"U0PARTNER1"}})
	}})
	ts := w.approval(w.session(), nil)
	_, err := w.fake.Press("U0PARTNER1", general, ts, workflows.ButtonApprove)
	require.NoError(t, err)
	require.True(t, one[workflows.Decision](w, "Decide").By.External)
}

func TestDenyWithAReason(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: oncall})
	thread := w.session()
	ts := w.approval(thread, nil)
	_, err := w.fake.Press(grace, general, ts, workflows.ButtonDeny)
	require.NoError(t, err)
	w.until("the dialog opens", func() bool { return len(w.fake.Views(grace)) == 1 })
	require.Empty(t, w.sessions.Asked("Decide"), "opening the dialog decides nothing")
	a, err := w.fake.Submit(w.fake.Views(grace)[0].ID, map[string]string{"reason": "not during the freeze"})
	require.NoError(t, err)
	require.True(t, a.Acked)
	require.Less(t, a.Took, ackWithin)
	d := one[workflows.Decision](w, "Decide")
	require.Equal(t, workflows.VerdictDeny, d.Verdict)
	require.Equal(t, "not during the freeze", d.Reason)
	require.Empty(t, d.Digest)
	v, _ := w.fake.View(w.fake.Views(grace)[0].ID)
	require.True(t, v.Closed)
}

func TestAskForChanges(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: oncall})
	ts := w.approval(w.session(), nil)
	_, err := w.fake.Press(grace, general, ts, workflows.ButtonDeny)
	require.NoError(t, err)
	w.until("the dialog opens", func() bool { return len(w.fake.Views(grace)) == 1 })
	id := w.fake.Views(grace)[0].ID
	_, err = w.fake.Submit(id, map[string]string{"verdict": "changes"})
	require.NoError(t, err)
	v, _ := w.fake.View(id)
	require.Contains(t, blockText(v.Blocks), "It is not said what should be different")
	require.Empty(t, w.sessions.Asked("Decide"))

	_, err = w.fake.Press(grace, general, ts, workflows.ButtonDeny)
	require.NoError(t, err)
	w.until("the dialog opens", func() bool { return len(w.fake.Views(grace)) == 2 })
	_, err = w.fake.Submit(w.fake.Views(grace)[1].ID, map[string]string{"verdict": "changes", "reason": "use the staging bucket"})
	require.NoError(t, err)
	d := one[workflows.Decision](w, "Decide")
	require.Equal(t, []string{workflows.VerdictChanges, "use the staging bucket"}, []string{d.Verdict, d.Reason})
}

// reviewed opens the review of a request and returns its modal.
func (w *world) reviewed(ts string) slackfake.View {
	w.t.Helper()
	n := len(w.fake.Views(grace))
	_, err := w.fake.Press(grace, general, ts, workflows.ButtonReview)
	require.NoError(w.t, err)
	w.until("the review is filled", func() bool { v := w.fake.Views(grace); return len(v) == n+1 && v[n].Submit != "" })
	return w.fake.Views(grace)[n]
}

func TestEditAndApprove(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: oncall})
	ts := w.approval(w.session(), nil)
	v := w.reviewed(ts)
	require.NotContains(t, string(v.Blocks), "break-glass")
	_, err := w.fake.Submit(v.ID, map[string]string{"command": "rm -r build"})
	require.NoError(t, err)
	d := one[workflows.Decision](w, "Decide")
	require.Equal(t, []string{workflows.VerdictApprove, "rm -r build", "sha256:1"}, []string{d.Verdict, d.Edit, d.Digest})
}

func TestApproveWithANote(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: oncall})
	ts := w.approval(w.session(), nil)
	_, err := w.fake.Submit(w.reviewed(ts).ID, map[string]string{"note": "agreed in the stand-up"})
	require.NoError(t, err)
	d := one[workflows.Decision](w, "Decide")
	require.Equal(t, []string{workflows.VerdictApprove, "agreed in the stand-up"}, []string{d.Verdict, d.Reason})
	require.False(t, d.BreakGlass)
}

func TestUnchangedIsNoEdit(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: oncall})
	ts := w.approval(w.session(), nil)
	_, err := w.fake.Submit(w.reviewed(ts).ID, nil)
	require.NoError(t, err)
	require.Empty(t, one[workflows.Decision](w, "Decide").Edit)
}

func TestWhatNoInputHoldsCannotBeEdited(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: oncall})
	for _, command := range []string{strings.Repeat("x", 3001), "echo \u202ex", " leading space"} {
		ts := w.approval(w.session(), func(v *workflows.MessageView) { v.Approval.Command.Text = command })
		require.NotContains(t, string(w.reviewed(ts).Blocks), `"block_id":"command"`)
	}
}

func TestBreakGlass(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: oncall})
	ts := w.approval(w.session(), func(v *workflows.MessageView) { v.Approval.BreakGlass = []string{"platform-oncall"} })
	_, err := w.fake.Submit(w.reviewed(ts).ID, map[string]string{"break_glass": "production is down"})
	require.NoError(t, err)
	d := one[workflows.Decision](w, "Decide")
	require.True(t, d.BreakGlass)
	require.Equal(t, "production is down", d.Reason)
}

func TestGrant(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: oncall})
	ts := w.approval(w.session(), func(v *workflows.MessageView) {
		v.Buttons = append(v.Buttons, workflows.Button{ID: workflows.ButtonGrant, Label: "Allow this for 1 h"})
	})
	_, err := w.fake.Press(grace, general, ts, workflows.ButtonGrant)
	require.NoError(t, err)
	require.Equal(t, workflows.GrantTime, one[workflows.Decision](w, "Decide").GrantFor)
}

func TestGrantsAreRevokedOneByOne(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	until := time.Now().Add(time.Hour)
	w.sessions.set(thread, workflows.TurnState{Grants: []workflows.Grant{
		{ID: "g1", Command: "make", Until: until}, {ID: "g2", Command: "git push", Until: until}, {ID: "g3", Command: "ls", Until: until},
	}})
	_, ds := w.fake.Say(ada, general, thread.ID, bot+" grants")
	settled(w, ds...)
	w.until("the list", func() bool { return len(w.fake.Thread(general, thread.ID)) == 3 })
	list := w.fake.Thread(general, thread.ID)[2]
	require.Equal(t, []string{"Revoke g1", "Revoke g2", "Revoke g3"}, labels(list.Blocks))
	for i, left := range [][]string{{"Revoke g1", "Revoke g3"}, {"Revoke g1"}} {
		_, err := w.fake.Press(ada, general, list.TS, chat.ButtonRevoke+[]string{"g2", "g3"}[i])
		require.NoError(t, err)
		w.until("one button less", func() bool {
			m, _ := w.fake.Message(general, list.TS)
			return len(labels(m.Blocks)) == len(left)
		})
		m, _ := w.fake.Message(general, list.TS)
		require.Equal(t, left, labels(m.Blocks))
	}
	m, _ := w.fake.Message(general, list.TS)
	require.Contains(t, blockText(m.Blocks), "g2 revoked by @ada")
	require.Contains(t, blockText(m.Blocks), "g3 revoked by @ada")
	require.Len(t, w.sessions.Asked("RevokeGrant"), 2)
}

func TestSlowOutcomeFillsTheDialogLater(t *testing.T) {
	t.Parallel()
	w := start(t, setup{fake: slackfake.Options{AckWithin: 3 * time.Second}, before: oncall})
	ts := w.approval(w.session(), nil)
	_, err := w.fake.Press(grace, general, ts, workflows.ButtonDeny)
	require.NoError(t, err)
	w.until("the dialog opens", func() bool { return len(w.fake.Views(grace)) == 1 })
	release := w.sessions.hold()
	w.sessions.Answer = workflows.Outcome{Outcome: workflows.OutcomeExpired, Text: "This expired at 16:05 UTC."}
	a, err := w.fake.Submit(w.fake.Views(grace)[0].ID, nil)
	require.NoError(t, err)
	require.True(t, a.Acked)
	v, _ := w.fake.View(w.fake.Views(grace)[0].ID)
	require.Contains(t, blockText(v.Blocks), "Recording")
	release()
	w.until("the outcome is shown", func() bool {
		v, _ := w.fake.View(v.ID)
		return strings.Contains(blockText(v.Blocks), "This expired")
	})
}

func TestReviewShowsEverythingAndBindsTheDigest(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: oncall})
	detail, err := w.blobs.Put(t.Context(), "detail", []byte(`{"env":["PATH=/x"],"files":[{"path":"s.sh","text":"echo hello\nrm -rf /tmp/x"}],"notes":["one note"]}`))
	require.NoError(t, err)
	long := strings.Repeat("echo a && ", 290) + "true"
	whole, err := w.blobs.Put(t.Context(), "command", []byte(long))
	require.NoError(t, err)
	ts := w.approval(w.session(), func(v *workflows.MessageView) {
		v.Approval.Detail, v.Approval.Displayable = detail, false
		v.Approval.Command = workflows.TextRef{Text: long[:1000], Ref: whole, Bytes: len(long)}
		v.Buttons = v.Buttons[1:]
	})
	_, err = w.fake.Press(grace, general, ts, workflows.ButtonReview)
	require.NoError(t, err)
	w.until("the review is filled", func() bool { return len(w.fake.Views(grace)) == 1 && w.fake.Views(grace)[0].Submit != "" })
	v := w.fake.Views(grace)[0]
	text := blockText(v.Blocks)
	require.Contains(t, strings.ReplaceAll(text, "\n", ""), long)
	for _, s := range []string{"PATH=/x", "Runs s.sh:", "rm -rf /tmp/x", "one note", "it deletes", "sha256:1", "What these files load in turn is not covered"} {
		require.Contains(t, text, s)
	}
	_, err = w.fake.Submit(v.ID, nil)
	require.NoError(t, err)
	d := one[workflows.Decision](w, "Decide")
	require.Equal(t, workflows.VerdictApprove, d.Verdict)
	require.Equal(t, "sha256:1", d.Digest)
}

func TestReviewThatNoDialogHolds(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: oncall})
	long := strings.Repeat("echo something long\n", 160) // more than an input holds
	whole, err := w.blobs.Put(t.Context(), "command", []byte(long))
	require.NoError(t, err)
	thread := w.session()
	ts := w.approval(thread, func(v *workflows.MessageView) {
		v.Approval.Command = workflows.TextRef{Text: long[:1000], Ref: whole, Bytes: len(long)}
		v.Approval.Evidence = []string{"312 files, 48 MB"}
	})
	for i := range 2 {
		_, err = w.fake.Press(grace, general, ts, workflows.ButtonReview)
		require.NoError(t, err)
		w.until("it is filled", func() bool { v := w.fake.Views(grace); return len(v) == i+1 && v[i].Submit != "" })
	}
	require.Equal(t, 1, len(w.fake.Files()), "one file, however often it is asked for") //nolint:testifylint // the contents are no help
	require.True(t, strings.Contains(string(w.fake.Files()[0].Content), long))          //nolint:testifylint // likewise
	text := blockText(w.fake.Views(grace)[0].Blocks)
	for _, want := range []string{w.fake.Files()[0].Name, "echo something long", "it deletes", "312 files, 48 MB"} {
		require.Contains(t, text, want)
	}
}

// A directory that the label of a box cannot hold is in the file, whole.
func TestReviewOfALongDirectory(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: oncall})
	dir := strings.Repeat("/a directory", 300) + "/end"
	ts := w.approval(w.session(), func(v *workflows.MessageView) { v.Approval.Cwd = dir })
	_, err := w.fake.Press(grace, general, ts, workflows.ButtonReview)
	require.NoError(t, err)
	w.until("it is filled", func() bool { v := w.fake.Views(grace); return len(v) == 1 && v[0].Submit != "" })
	require.Len(t, w.fake.Files(), 1)
	require.Contains(t, string(w.fake.Files()[0].Content), "Directory: "+dir+"\n")
}

func TestReviewOfWhatIsDecided(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: oncall})
	ts := w.approval(w.session(), nil)
	v := w.sessions.Views["approval-1"]
	decided := *v.Approval
	decided.State = workflows.ApprovalDenied
	v.Approval = &decided
	w.sessions.SetView(v)
	_, err := w.fake.Press(grace, general, ts, workflows.ButtonReview)
	require.NoError(t, err)
	w.until("the review is filled", func() bool { return len(w.fake.Views(grace)) == 1 && w.fake.Views(grace)[0].Updates == 1 })
	require.Empty(t, w.fake.Views(grace)[0].Submit)
}

func TestTriggerThatExpired(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: oncall})
	ts := w.approval(w.session(), nil)
	w.fake.Fail("views.open", slackfake.Failure{Code: "expired_trigger_id"})
	_, err := w.fake.Press(grace, general, ts, workflows.ButtonDeny)
	require.NoError(t, err)
	require.Contains(t, w.toldOnly(grace), "click again")
	require.Empty(t, w.sessions.Asked("Decide"))
}

func TestStop(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	v := workflows.MessageView{
		Key: "turn-3", Kind: workflows.KindTurn, Version: 1, Buttons: []workflows.Button{{ID: workflows.ButtonStop, Label: "Stop"}},
		Turn: &workflows.TurnView{Number: 3, State: workflows.TurnWorking, StartedAt: time.Now()},
	}
	ts, err := w.app.Poster().Post(t.Context(), chat.Content{WorkflowID: thread.WorkflowID(), Thread: thread, View: v})
	require.NoError(t, err)
	_, err = w.fake.Press(ada, general, ts, workflows.ButtonStop)
	require.NoError(t, err)
	c := one[workflows.CancelTurn](w, "CancelTurn")
	require.Equal(t, 3, c.Turn)
	require.Equal(t, ada, c.By.ID)
}

func TestQuestionIsSettled(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	ts, ds := w.fake.Say(ada, general, thread.ID, bot+" done")
	settled(w, ds...)
	w.until("the question", func() bool { return len(w.fake.Thread(general, thread.ID)) == 3 })
	q := w.fake.Thread(general, thread.ID)[2]
	require.Greater(t, q.TS, ts)
	require.Equal(t, []string{"Keep", "Destroy"}, labels(q.Blocks))
	_, err := w.fake.Press(grace, general, q.TS, workflows.ButtonKeep)
	require.NoError(t, err)
	w.until("the question is settled", func() bool { m, _ := w.fake.Message(general, q.TS); return len(labels(m.Blocks)) == 0 })
	m, _ := w.fake.Message(general, q.TS)
	require.Contains(t, blockText(m.Blocks), "Kept by @grace at ")
	require.Contains(t, blockText(m.Blocks), "do something")
	require.Len(t, w.sessions.Asked("Pause"), 1)
}

func TestHeaderMenu(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	v := workflows.MessageView{Key: "header", Kind: workflows.KindHeader, Version: 1, Header: &workflows.HeaderView{
		Title: "do something", Backend: "local", Liveness: workflows.LivenessActive, By: workflows.Actor{ID: ada, Name: "ada"},
	}}
	ts, err := w.app.Poster().Post(t.Context(), chat.Content{WorkflowID: thread.WorkflowID(), Thread: thread, View: v})
	require.NoError(t, err)
	_, err = w.fake.Choose(ada, general, ts, actionMenu, "pause")
	require.NoError(t, err)
	require.Equal(t, ada, one[workflows.Pause](w, "Pause").By.ID)
	require.Equal(t, "Recorded.", w.toldOnly(ada))

	_, err = w.fake.Choose(ada, general, ts, actionMenu, "title")
	require.NoError(t, err)
	w.until("the form is filled", func() bool { return len(w.fake.Views(ada)) == 1 && w.fake.Views(ada)[0].Submit == "Rename" })
	_, err = w.fake.Submit(w.fake.Views(ada)[0].ID, map[string]string{"title": "a better one"})
	require.NoError(t, err)
	require.Equal(t, "a better one", one[workflows.SetTitle](w, "SetTitle").Title)

	_, err = w.fake.Choose(ada, general, ts, actionMenu, "fork")
	require.NoError(t, err)
	w.until("the form is filled", func() bool { return len(w.fake.Views(ada)) == 2 && w.fake.Views(ada)[1].Submit == "Fork" })
	_, err = w.fake.Submit(w.fake.Views(ada)[1].ID, map[string]string{"title": "second try", "backend": "docker"})
	require.NoError(t, err)
	f := one[workflows.ForkSession](w, "Fork")
	require.Equal(t, []string{"second try", "docker"}, []string{f.Title, f.Backend})

	_, err = w.fake.Choose(ada, general, ts, actionMenu, "status")
	require.NoError(t, err)
	w.until("the status is in the thread", func() bool {
		all := w.fake.Thread(general, thread.ID)
		return strings.Contains(all[len(all)-1].Text, "No turn is running")
	})
}

func TestMessageShortcut(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	reply := w.fake.Quiet(grace, general, thread.ID, "hm")
	require.True(t, w.fake.Shortcut(ada, general, reply, "session").Acked)
	w.until("the picker is filled", func() bool { return len(w.fake.Views(ada)) == 1 && w.fake.Views(ada)[0].Submit != "" })
	_, err := w.fake.Submit(w.fake.Views(ada)[0].ID, map[string]string{"verb": "stop"})
	require.NoError(t, err)
	w.until("the turn is stopped", func() bool { return len(w.sessions.Asked("CancelTurn")) == 1 })
	require.Equal(t, thread.WorkflowID(), w.sessions.Asked("CancelTurn")[0].ID)

	lone := w.fake.Quiet(grace, general, "", "lunch?")
	w.fake.Shortcut(grace, general, lone, "session")
	w.until("it says so", func() bool { return len(w.fake.Views(grace)) == 1 && w.fake.Views(grace)[0].Updates == 1 })
	require.Contains(t, blockText(w.fake.Views(grace)[0].Blocks), "No session runs in this thread")
}

func TestGuestsStopNothing(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: func(w *world) {
		w.fake.AddUser(slackfake.User{ID: "U0GUEST001", Name: "guest", Restricted: true})
		w.fake.AddChannel(slackfake.Channel{ID: general, Name: "general", Members: []string{slackfake.BotUser, ada, grace, "U0GUEST001"}})
	}})
	thread := w.session()
	w.fake.Shortcut("U0GUEST001", general, thread.ID, "session")
	w.until("the picker is filled", func() bool { return len(w.fake.Views("U0GUEST001")) == 1 && w.fake.Views("U0GUEST001")[0].Submit != "" })
	_, err := w.fake.Submit(w.fake.Views("U0GUEST001")[0].ID, map[string]string{"verb": "stop"})
	require.NoError(t, err)
	require.Empty(t, w.sessions.Asked("CancelTurn"))
	require.Contains(t, blockText(w.fake.Views("U0GUEST001")[0].Blocks), "Guests cannot use")
}
