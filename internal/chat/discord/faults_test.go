package discord

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest/discordfake"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	postRoute     = "POST /channels/{channel}/messages"
	callbackRoute = "POST /interactions/{interaction}/{token}/callback"
	originalRoute = "PATCH /webhooks/{app}/{token}/messages/{message}"
)

// shown says how an interaction ended for the person: what stands in the answer,
// or was said aloud where it happened.
func (w *world) shown(i *discordfake.Interaction, channel string) string {
	w.t.Helper()
	text := ""
	w.until("an outcome", func() bool {
		if m, ok := i.Message(); ok && !m.Loading() {
			text = m.Content
			return true
		}
		for _, m := range w.fake.Messages(channel) {
			mark, ok := readMark(m.Content)
			if ok && mark.key == markOf("outcome-"+i.ID, 0, 1).key && strings.HasPrefix(m.Content, "<@"+i.User+">") {
				text = m.Content
				return true
			}
		}
		return false
	})
	return text
}

func TestTheOutcomeFollowsWhateverHappensToTheAnswers(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*discordfake.Server){
		"the first answer is lost": func(f *discordfake.Server) { f.Fail(callbackRoute, discordfake.Failure{Cut: true, After: true}) },
		"the first answer is cut":  func(f *discordfake.Server) { f.Fail(callbackRoute, discordfake.Failure{Cut: true}) },
		"the first answer fails":   func(f *discordfake.Server) { f.Fail(callbackRoute, discordfake.Failure{Status: 502}) },
		"the first answer is limited": func(f *discordfake.Server) {
			f.Fail(callbackRoute, discordfake.Failure{RetryAfter: 200 * time.Millisecond, Scope: "shared"})
		},
		"the outcome fails": func(f *discordfake.Server) { f.Fail(originalRoute, discordfake.Failure{Status: 502}) },
		"the outcome is limited": func(f *discordfake.Server) {
			f.Fail(originalRoute, discordfake.Failure{RetryAfter: 200 * time.Millisecond, Scope: "user"})
		},
		"the outcome's answer is lost": func(f *discordfake.Server) { f.Fail(originalRoute, discordfake.Failure{Cut: true, After: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{})
			fault(w.fake)
			i, err := w.fake.Slash(ada, general, "agent run", map[string]any{"task": "fix the test"})
			require.NoError(t, err)
			require.Contains(t, w.shown(i, general), "Accepted")
			require.Len(t, w.sessions.Asked("RequestSession"), 1)
		})
	}
}

func TestAnAnswerLostForLong(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	s := w.session()
	c := note(s, "notice-1", "hello")
	w.fake.Fail(postRoute, discordfake.Failure{Cut: true, After: true})
	since := w.fake.Now().Add(-time.Second)
	_, err := w.app.Poster().Post(t.Context(), c)
	require.Error(t, err)
	w.fake.Advance(20 * time.Minute) // Discord has forgotten the nonce
	found, err := w.app.Poster().Find(t.Context(), s, "notice-1", since)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.Equal(t, w.fake.Messages(s.ID)[0].ID, found[0].Ref)
}

func TestEventsOutOfOrder(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.session()
	g := w.fake.Gateway()
	g.Hold()
	id := w.fake.Say(ada, s.ID, "first")
	w.fake.Edit(s.ID, id, "second")
	g.Release()
	w.until("both", func() bool { return len(w.sessions.Asked("SendMessage")) == 2 })
	edits := 0
	for _, c := range w.sessions.Asked("SendMessage") {
		m := c.Arg.(workflows.Message)
		require.Equal(t, id, m.ID)
		if m.EditedAt != "" {
			edits++
			require.Equal(t, "second", m.Text.Text)
		}
	}
	require.Equal(t, 1, edits)
}

func TestLinkPreviewsAreNoEdits(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.session()
	id := w.fake.Say(ada, s.ID, "look at https://example.com/")
	w.fake.Unfurl(s.ID, id)
	w.fake.Say(ada, s.ID, "then go on")
	w.until("both", func() bool { return len(w.texts()) >= 2 })
	require.Len(t, w.sessions.Asked("SendMessage"), 2)
}

// TestHistoryWithUnknownComponents: what discordgo cannot decode hides nothing
// from the back-fill.
func TestHistoryWithUnknownComponents(t *testing.T) {
	t.Parallel()
	const other = "1000000000000000061"
	w := start(t, setup{still: true, config: func(c *Config) { c.Backfill = time.Hour }, before: func(w *world) {
		w.fake.AddUser(discordfake.User{ID: other, Name: "other", Bot: true})
		w.fake.AddMember(guild, other)
	}})
	s := w.session()
	w.fake.Quiet(ada, s.ID, "before")
	w.fake.SayUnknown(other, s.ID, "news")
	w.fake.Quiet(ada, s.ID, "after")
	w.run()
	w.until("the missed messages", func() bool { return len(w.texts()) == 2 })
	require.ElementsMatch(t, []string{"before", "after"}, w.texts())
}

func TestThreadsThatAreGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		gone func(*world, workflows.Thread)
		want error
	}{
		"deleted":          {func(w *world, s workflows.Thread) { w.fake.RemoveChannel(s.ID) }, chat.ErrThreadGone},
		"locked":           {func(w *world, s workflows.Thread) { w.fake.SetThread(s.ID, false, true) }, chat.ErrThreadGone},
		"archived, locked": {func(w *world, s workflows.Thread) { w.fake.SetThread(s.ID, true, true) }, chat.ErrThreadGone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{still: true})
			s := w.session()
			ref, err := w.app.Poster().Post(t.Context(), note(s, "notice-1", "hello"))
			require.NoError(t, err)
			c.gone(w, s)
			_, err = w.app.Poster().Post(t.Context(), note(s, "notice-2", "more"))
			require.ErrorIs(t, err, c.want)
			again := note(s, "notice-1", "hello again")
			again.View.Version = 2
			require.ErrorIs(t, w.app.Poster().Edit(t.Context(), ref, again), c.want)
		})
	}
}

// TestKickedOut: refused calls are few, because Discord bans an address that makes
// too many.
func TestKickedOut(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	s := w.session()
	w.fake.RemoveMember(guild, discordfake.BotUser)
	before := w.fake.Invalid()
	_, err := w.app.Poster().Post(t.Context(), note(s, "notice-1", "hello"))
	require.Error(t, err)
	require.LessOrEqual(t, w.fake.Invalid()-before, 1)
	var limited *chat.RateLimitedError
	require.ErrorAs(t, err, &limited)
	require.GreaterOrEqual(t, limited.RetryAfter, 30*time.Second)
}

func TestPurgedMessagesAreTakenBack(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.session()
	w.sessions.set(s, workflows.TurnState{Turn: &workflows.TurnView{Number: 1, State: workflows.TurnWorking}})
	id := w.fake.Say(ada, s.ID, "try `rm -rf build`")
	w.until("the message", func() bool { return len(w.texts()) == 1 })
	w.fake.Purge(s.ID, id, "1000000000000000071")
	w.until("the deletion", func() bool { return len(w.texts()) == 2 })
	require.Equal(t, "(This message was deleted by its writer or a moderator; it counts no more: “try 'rm -rf build'”)", w.texts()[1])
}

// TestWhatWasAnsweredIsNotTakenBack: a session at rest does not begin a turn about a
// message that was tidied away; one for which the message still waits is told.
func TestWhatWasAnsweredIsNotTakenBack(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.session()
	id := w.fake.Say(ada, s.ID, "the first")
	w.until("the message", func() bool { return len(w.texts()) == 1 })
	w.fake.Remove(s.ID, id)
	next := w.fake.Say(ada, s.ID, "the second")
	w.until("the message", func() bool { return len(w.texts()) == 2 })
	w.sessions.set(s, workflows.TurnState{Queued: 1})
	w.fake.Remove(s.ID, next)
	w.until("the deletion", func() bool { return len(w.texts()) == 3 })
	require.Contains(t, w.texts()[2], "“the second”")
}

func TestABackfillThatFailsIsDoneAgain(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true, config: func(c *Config) { c.Backfill = time.Hour }})
	s, other := w.session(), w.session()
	w.fake.Quiet(ada, s.ID, "missed")
	w.fake.Quiet(ada, other.ID, "missed too")
	w.fake.Fail("GET /users/@me/guilds", discordfake.Failure{Status: 502})
	w.fake.Fail("GET /channels/{channel}/messages", discordfake.Failure{Cut: true, Times: 3})
	w.run()
	w.until("the missed messages", func() bool { return len(w.texts()) >= 2 })
	w.filled()
	require.ElementsMatch(t, []string{"missed", "missed too"}, w.texts())
}

func TestErrorsHoldNoToken(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	const token = "aW50ZXJhY3Rpb246"
	for _, f := range []discordfake.Failure{{Cut: true}, {Status: 502}, {Status: 404, Code: 10062}, {RetryAfter: time.Second, Scope: "shared"}} {
		w.fake.Fail(callbackRoute, f)
		err := w.app.api.call(t.Context(), "POST", "/interactions/1000000000000000091/"+token+"/callback", response{Type: respondDeferred}, nil)
		require.Error(t, err)
		require.NotContains(t, err.Error(), token)
	}
}

// TestNoTokenInErrors: an interaction's token answers in our name for 15 minutes.
func TestNoTokenInErrors(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	w.fake.Close()
	err := w.app.api.call(t.Context(), "POST", "/webhooks/1/aW50ZXJhY3Rpb24", map[string]string{"content": "x"}, nil)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "aW50ZXJhY3Rpb24")
}
