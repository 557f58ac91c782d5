package discord

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest/discordfake"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	rootRoute   = "POST /channels/{channel}/messages"
	threadRoute = "POST /channels/{channel}/messages/{message}/threads"
)

// Who asked by a command has why no session starts as a further answer to it.
func TestAskersAreToldThatTheThreadCouldNotBeOpened(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		route   string
		failure discordfake.Failure
		want    string
	}{
		"may not write":    {rootRoute, discordfake.Failure{Status: 403, Code: 50013}, "may not write or open threads"},
		"channel is gone":  {rootRoute, discordfake.Failure{Status: 404, Code: 10003}, "The channel is gone"},
		"too many threads": {threadRoute, discordfake.Failure{Status: 400, Code: 160006}, "as many active threads"},
		"something new":    {threadRoute, discordfake.Failure{Status: 400, Code: 160999}, "160999"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{})
			i := w.use(ada, general, "agent run", map[string]any{"task": "fix the test"})
			require.Contains(t, w.said(i), "Accepted")
			r := one[workflows.SessionRequest](w, "RequestSession")
			w.fake.Fail(c.route, c.failure)
			_, err := w.app.Poster().OpenThread(t.Context(), workflows.OpenThreadInput{Thread: r.Thread, Key: rootKey + r.ID, Title: r.Title, By: r.By})
			require.ErrorIs(t, err, chat.ErrThreadGone, "the session's manager gives up")
			var said *chat.Error
			require.ErrorAs(t, err, &said)
			require.Contains(t, said.Text(), c.want)
			w.until("the answer", func() bool { return len(i.Followups()) == 1 })
			told := i.Followups()[0]
			require.True(t, told.Ephemeral)
			require.Contains(t, told.Content, c.want)
			require.Contains(t, told.Content, "> fix the test", "which one")
			for _, m := range w.fake.Messages(general) {
				require.Contains(t, m.Content, "not started. ", "the root says so too")
				require.NotContains(t, m.Content, "opening")
			}
		})
	}
}

// Where the command's bot is another one, or a message asked, it is a direct message.
func TestAskersAreToldInADirectMessage(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	id := w.fake.Say(ada, general, bot+" fix the test")
	r := one[workflows.SessionRequest](w, "RequestSession")
	w.fake.Fail(threadRoute, discordfake.Failure{Status: 403, Code: 50013})
	in := workflows.OpenThreadInput{Thread: r.Thread, Key: rootKey + r.ID, Title: r.Title, By: r.By}
	_, err := w.app.Poster().OpenThread(t.Context(), in)
	require.ErrorIs(t, err, chat.ErrThreadGone)
	require.Contains(t, w.last(w.fake.Direct(ada)).Content, "may not write or open threads")
	require.Len(t, w.fake.Messages(general), 1, "and nothing in the channel")
	require.Equal(t, id, w.fake.Messages(general)[0].ID)

	in.Parent = w.app.thread(guild, general, "1234567890123456789").WorkflowID()
	w.fake.Fail(threadRoute, discordfake.Failure{Status: 403, Code: 50013})
	_, err = w.app.Poster().OpenThread(t.Context(), in)
	require.ErrorIs(t, err, chat.ErrThreadGone)
	require.Len(t, w.fake.Messages(w.fake.Direct(ada)), 1, "who asked for a copy is answered by the manager")
}

func TestABusyDiscordIsNoReasonToGiveAThreadUp(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	w.fake.Fail(rootRoute, discordfake.Failure{Status: 502})
	_, err := w.app.Poster().OpenThread(t.Context(), workflows.OpenThreadInput{
		Thread: w.app.thread(guild, general, ""), Key: rootKey + "1", Title: "fix it", By: workflows.Actor{ID: ada, Name: "ada"},
	})
	require.Error(t, err)
	require.NotErrorIs(t, err, chat.ErrThreadGone)
}

// A root whose session did not start says so, and has no menu.
func TestRootOfASessionThatDidNotStart(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	th, err := w.app.Poster().OpenThread(t.Context(), workflows.OpenThreadInput{
		Thread: w.app.thread(guild, general, ""), Key: rootKey + "1", Title: "fix it", By: workflows.Actor{ID: ada, Name: "ada"},
	})
	require.NoError(t, err)
	d := &chat.Delivery{Poster: w.app.Poster()}
	require.NoError(t, d.ShowNotStarted(t.Context(), workflows.NotStartedInput{
		Thread: th, Title: "fix it", By: workflows.Actor{ID: ada, Name: "ada"}, Text: "This session could not be started.",
	}))
	root := w.fake.Messages(general)[0]
	require.Contains(t, root.Content, "■ not started")
	require.Contains(t, root.Content, "This session could not be started.")
	require.NotContains(t, root.Content, "opening")
	require.Empty(t, root.Menus())
}
