package slack

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
	"github.com/countersign/countersign/internal/workflows"
)

func TestSlashCommandAsksForASession(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	w.fake.Duplicate(true)
	a := w.fake.Command(ada, general, `run --backend docker --title "Flaky" -- fix it`)
	require.True(t, a.Acked)
	require.Less(t, a.Took, ackWithin)
	r := one[workflows.SessionRequest](w, "RequestSession")
	require.Equal(t, w.app.thread(general, ""), r.Thread, "the thread is opened by the session's manager")
	require.Equal(t, "docker", r.Backend)
	require.Equal(t, "Flaky", r.Title)
	require.Equal(t, "fix it", r.Task.Text.Text)
	require.NotEmpty(t, r.ID)
	require.Empty(t, w.fake.Messages(general))
}

func TestSlashCommandWhereTheBotIsNoMember(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]slackfake.Channel{
		"public":  {ID: "C0ELSE0001", Members: []string{ada}},
		"private": {ID: "C0PRIVATE1", Private: true, Members: []string{ada}},
		"direct":  {ID: "D0ADAGRACE", IM: true, Members: []string{ada, grace}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{before: func(w *world) { w.fake.AddChannel(c) }})
			require.True(t, w.fake.Command(ada, c.ID, "fix it").Acked)
			text := w.toldOnly(ada)
			if name == "direct" {
				require.Contains(t, text, "no part of this conversation")
			} else {
				require.Contains(t, text, "`/invite @countersign`")
			}
			require.Empty(t, w.sessions.Asked("RequestSession"))
			require.Empty(t, w.fake.Messages(c.ID))
		})
	}
}

func TestAskersAreToldThatTheThreadCouldNotBeOpened(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ code, want string }{
		"removed meanwhile":  {"not_in_channel", "`/invite @countersign`"},
		"hidden meanwhile":   {"channel_not_found", "`/invite @countersign`"},
		"archived meanwhile": {"is_archived", "Nothing was started. This channel is archived."},
		"may not post":       {"restricted_action", "who may post here is restricted"},
		"read-only":          {"restricted_action_read_only_channel", "read-only"},
		"replies only":       {"restricted_action_thread_only_channel", "Mention the bot in a thread"},
		"no threads":         {"restricted_action_non_threadable_channel", "has no threads"},
		"unknown":            {"something_new", "something_new"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{})
			require.True(t, w.fake.Command(ada, general, "fix it").Acked)
			r := one[workflows.SessionRequest](w, "RequestSession")
			require.Empty(t, w.fake.Ephemerals(ada))
			w.fake.Fail("chat.postMessage", slackfake.Failure{Code: c.code, Times: 1})
			_, err := w.app.Poster().OpenThread(t.Context(), workflows.OpenThreadInput{
				Thread: r.Thread, Key: rootKey + r.ID, Title: r.Title, By: r.By,
			})
			require.ErrorIs(t, err, chat.ErrThreadGone, "the session's manager gives up")
			require.Contains(t, w.toldOnly(ada), c.want)
			require.Empty(t, w.fake.Calls("chat.postEphemeral"), "the command's own response_url works where the bot may not write")
			require.Empty(t, w.fake.Messages(general))
		})
	}
}

func TestAnotherBotTellsThatTheThreadCouldNotBeOpened(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	in := workflows.OpenThreadInput{
		Thread: w.app.thread(general, ""), Key: rootKey + "1", Title: "fix it", By: workflows.Actor{ID: ada, Name: "ada"},
	}
	w.fake.Fail("chat.postMessage", slackfake.Failure{Code: "restricted_action", Times: 2})
	_, err := w.app.Poster().OpenThread(t.Context(), in)
	require.ErrorIs(t, err, chat.ErrThreadGone)
	require.Contains(t, w.toldOnly(ada), "who may post here is restricted")
	in.Parent = w.app.thread(general, "1.1").WorkflowID()
	_, err = w.app.Poster().OpenThread(t.Context(), in)
	require.ErrorIs(t, err, chat.ErrThreadGone)
	require.Len(t, w.fake.Ephemerals(ada), 1, "who asked for a copy is answered by the manager")
}

// Somebody whom Slack shows nothing in the channel has it as a direct message.
func TestWhoCannotBeReachedInTheChannelIsWrittenTo(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	w.fake.Fail("chat.postMessage", slackfake.Failure{Code: "restricted_action_read_only_channel", Times: 1})
	w.fake.Fail("chat.postEphemeral", slackfake.Failure{Code: "user_not_in_channel", Times: 1})
	_, err := w.app.Poster().OpenThread(t.Context(), workflows.OpenThreadInput{
		Thread: w.app.thread(general, ""), Key: rootKey + "1", Title: "fix it", By: workflows.Actor{ID: ada, Name: "ada"},
	})
	require.ErrorIs(t, err, chat.ErrThreadGone)
	var said *chat.Error
	require.ErrorAs(t, err, &said)
	require.Contains(t, said.Text(), "read-only")
	require.Empty(t, w.fake.Ephemerals(ada))
	direct := w.fake.Messages("D" + ada[1:])
	require.Len(t, direct, 1)
	require.Contains(t, blockText(direct[0].Blocks), "This channel is read-only.")
}

// A private answer that no message holds comes in several.
func TestALongPrivateAnswer(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	w.app.whisper(t.Context(), w.app.thread(general, ""), ada, "", strings.Repeat("a line of text\n\n", 2000)+"the end")
	all := w.fake.Ephemerals(ada)
	require.Len(t, all, 3)
	require.Contains(t, blockText(all[2].Blocks), "the end")
	w.app.whisper(t.Context(), w.app.thread(general, ""), ada, "", strings.Repeat("a line of text\n\n", 9000)+"the end")
	all = w.fake.Ephemerals(ada)
	require.Len(t, all, 3+maxWhispers)
	require.Contains(t, blockText(all[6].Blocks), "The rest is left out.")
}

// A root whose session did not start says so, and has no menu.
func TestRootOfASessionThatDidNotStart(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	th, err := w.app.Poster().OpenThread(t.Context(), workflows.OpenThreadInput{
		Thread: w.app.thread(general, ""), Key: rootKey + "1", Title: "fix it", By: workflows.Actor{ID: ada, Name: "ada"},
	})
	require.NoError(t, err)
	d := &chat.Delivery{Poster: w.app.Poster()}
	require.NoError(t, d.ShowNotStarted(t.Context(), workflows.NotStartedInput{
		Thread: th, Title: "fix it", By: workflows.Actor{ID: ada, Name: "ada"}, Text: "This session could not be started.",
	}))
	root := w.fake.Messages(general)[0]
	text := blockText(root.Blocks)
	require.Contains(t, text, "■ not started")
	require.Contains(t, text, "This session could not be started.")
	require.NotContains(t, text, "opening")
	require.False(t, root.HasAction(actionMenu))
}

func TestABusySlackIsNoReasonToGiveAThreadUp(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	w.fake.Fail("chat.postMessage", slackfake.Failure{Code: "internal_error", Times: 1})
	_, err := w.app.Poster().OpenThread(t.Context(), workflows.OpenThreadInput{
		Thread: w.app.thread(general, ""), Key: rootKey + "1", Title: "fix it", By: workflows.Actor{ID: ada, Name: "ada"},
	})
	require.Error(t, err)
	require.NotErrorIs(t, err, chat.ErrThreadGone)
	require.Empty(t, w.fake.Ephemerals(ada))
}

func TestSlashAnswersAreTheAskersAlone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"help": "Commands, after", "list": "There are no sessions yet", "": "nothing to do", "switch nowhere": "There is no backend",
		"run --bad x": "There is no flag", "run --backend modal x": "not available here",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{})
			require.True(t, w.fake.Command(ada, general, text).Acked)
			require.Contains(t, w.toldOnly(ada), want)
			require.Empty(t, w.fake.Messages(general))
		})
	}
}

func TestSlashCommandWhenTemporalIsAway(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	w.setDown(workflows.ErrUnavailable)
	require.True(t, w.fake.Command(ada, general, "fix it").Acked)
	require.Contains(t, w.toldOnly(ada), "Nothing was recorded")
}

func TestCommandOutsideAThreadOpensAPicker(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	require.True(t, w.fake.Command(ada, general, "stop").Acked)
	w.until("the picker is filled", func() bool { return len(w.fake.Views(ada)) == 1 && w.fake.Views(ada)[0].Submit != "" })
	v := w.fake.Views(ada)[0]
	require.Contains(t, blockText(v.Blocks)+string(v.Blocks), "do something · local")
	a, err := w.fake.Submit(v.ID, map[string]string{"session": thread.Channel + "/" + thread.ID})
	require.NoError(t, err)
	require.True(t, a.Acked)
	w.until("the turn is stopped", func() bool { return len(w.sessions.Asked("CancelTurn")) == 1 })
	require.Equal(t, thread.WorkflowID(), w.sessions.Asked("CancelTurn")[0].ID)
}

func TestPickerGoesOnToTheForm(t *testing.T) {
	t.Parallel()
	w := start(t, setup{config: func(c *Config) { c.Roots = []string{"/srv/repo"} }})
	thread := w.session()
	w.fake.Command(ada, general, "switch")
	w.until("the picker is filled", func() bool { return len(w.fake.Views(ada)) == 1 && w.fake.Views(ada)[0].Submit != "" })
	id := w.fake.Views(ada)[0].ID
	_, err := w.fake.Submit(id, map[string]string{"session": thread.Channel + "/" + thread.ID})
	require.NoError(t, err)
	w.until("the form is there", func() bool { v, _ := w.fake.View(id); return v.CallbackID == viewForm })
	v, _ := w.fake.View(id)
	require.Contains(t, string(v.Blocks), "docker")
	require.NotContains(t, string(v.Blocks), `"value":"local"`, "the backend that it is on is no choice")
	require.Contains(t, string(v.Blocks), "/srv/repo")
	_, err = w.fake.Submit(id, map[string]string{"backend": "docker"})
	require.NoError(t, err)
	s := one[workflows.SwitchSession](w, "SwitchBackend")
	require.Equal(t, "docker", s.Backend)
	require.Equal(t, thread.WorkflowID(), s.WorkflowID)
}

// TestPickerFindsOldSessions: those that live are offered, however many that do not
// are newer.
func TestPickerFindsOldSessions(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	for i := range 450 {
		at := w.app.thread(general, fmt.Sprintf("1700000%03d.000100", i))
		w.sessions.set(at, workflows.TurnState{Header: workflows.HeaderView{Title: "gone", Backend: "local", Liveness: workflows.LivenessDestroyed}})
	}
	at := w.app.thread(general, "1600000000.000100")
	w.sessions.set(at, workflows.TurnState{Header: workflows.HeaderView{Title: "the old one", Backend: "local", Liveness: workflows.LivenessPaused}})
	require.True(t, w.fake.Command(ada, general, "status").Acked)
	w.until("the picker is filled", func() bool { return len(w.fake.Views(ada)) == 1 && w.fake.Views(ada)[0].Submit != "" })
	require.Contains(t, string(w.fake.Views(ada)[0].Blocks), "the old one")
}

func TestPickerWithoutSessions(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	w.fake.Command(ada, general, "history")
	w.until("it says so", func() bool { return len(w.fake.Views(ada)) == 1 && w.fake.Views(ada)[0].Updates == 1 })
	require.Contains(t, blockText(w.fake.Views(ada)[0].Blocks), "No session is live")
}

func TestOrgWideInstallationIsRefused(t *testing.T) {
	t.Parallel()
	f := slackfake.New(slackfake.Options{OrgWide: true})
	defer f.Close()
	_, err := Connect(t.Context(), Config{BotToken: secret("xoxb-fake"), AppToken: secret("xapp-fake"), APIURL: f.URL()}, Deps{})
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "Install it to the workspace itself")
}
