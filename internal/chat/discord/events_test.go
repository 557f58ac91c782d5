package discord

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat/chattest/discordfake"
	"github.com/countersign/countersign/internal/workflows"
)

func TestMentionStartsASession(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	id := w.fake.Say(ada, general, bot+" fix the test of <@"+grace+"> in <#"+general+">")
	r := one[workflows.SessionRequest](w, "RequestSession")
	require.Equal(t, w.app.thread(guild, general, id), r.Thread)
	require.Equal(t, "chat/discord/"+discordfake.AppID, r.Thread.PostQueue())
	require.Equal(t, "fix the test of @grace in #general", r.Task.Text.Text)
	require.Equal(t, workflows.Actor{ID: ada, Name: "ada"}, r.By)
	require.Equal(t, id, r.ID)
	require.WithinDuration(t, w.fake.Now(), r.Task.At, 20e9)
	for range 2 { // a thread is opened once, whoever asks for it
		got, err := w.app.Poster().OpenThread(t.Context(), workflows.OpenThreadInput{Thread: r.Thread, Key: "root-1", Title: r.Title, By: r.By})
		require.NoError(t, err)
		require.Equal(t, r.Thread, got)
	}
	require.Len(t, w.fake.Threads(general), 1)
	require.Equal(t, id, w.fake.Threads(general)[0].ID)
	require.Empty(t, w.fake.Messages(id), "the message that asked is the root: nothing is posted")
}

func TestMessagesInASessionsThread(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.session()
	w.sessions.set(s, workflows.TurnState{Turn: &workflows.TurnView{Number: 1, State: workflows.TurnWorking}})
	id := w.fake.Say(ada, s.ID, "also the docs")
	m := one[workflows.Message](w, "SendMessage")
	require.Equal(t, id, m.ID)
	require.Equal(t, "also the docs", m.Text.Text)

	w.fake.Unfurl(s.ID, id)
	w.fake.Edit(s.ID, id, "also the README")
	w.until("the edit", func() bool { return len(w.sessions.Asked("SendMessage")) == 2 })
	edited := w.sessions.Asked("SendMessage")[1].Arg.(workflows.Message)
	require.Equal(t, id, edited.ID)
	require.NotEmpty(t, edited.EditedAt)
	require.Equal(t, "also the README", edited.Text.Text)

	w.fake.Remove(s.ID, id)
	w.until("the deletion", func() bool { return len(w.sessions.Asked("SendMessage")) == 3 })
	gone := w.sessions.Asked("SendMessage")[2].Arg.(workflows.Message)
	require.Equal(t, workflows.DeletedAt, gone.EditedAt)
	require.Contains(t, gone.Text.Text, "deleted")
	require.Contains(t, gone.Text.Text, "also the docs")
	require.Positive(t, workflows.CompareIDs(id+"@"+gone.EditedAt, id+"@"+edited.EditedAt), "a deletion comes after all edits")
}

func TestWhatStartsNothing(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	w.fake.Say(ada, general, "good morning")
	w.fake.SayHook("1000000000000000077", general, bot+" do it")
	w.fake.AddUser(discordfake.User{ID: "1000000000000000078", Name: "other", Bot: true})
	w.fake.AddMember(guild, "1000000000000000078")
	w.fake.Say("1000000000000000078", general, bot+" do it")
	root := w.fake.Say(ada, general, "a thread of our own")
	thread := w.fake.OpenThread(ada, general, root, "talk")
	w.fake.Say(grace, thread, "what do you think?")
	last := w.fake.Say(ada, general, bot+" help")
	w.until("help is answered", func() bool { return strings.Contains(w.last(general).Content, "Commands") })
	require.Contains(t, w.last(general).Content, "`status`")
	require.Empty(t, w.sessions.Asked("RequestSession"))
	require.Empty(t, w.last(general).Pings)
	_ = last
}

func TestMentionInAThread(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	root := w.fake.Say(ada, general, "a thread of our own")
	thread := w.fake.OpenThread(ada, general, root, "talk")
	id := w.fake.Say(grace, thread, bot+" summarise this")
	r := one[workflows.SessionRequest](w, "RequestSession")
	require.Equal(t, w.app.thread(guild, general, thread), r.Thread)
	require.Equal(t, id, r.Task.ID)

	s := w.session()
	w.fake.Say(ada, s.ID, bot+" status")
	w.until("status is answered", func() bool { return strings.Contains(w.last(s.ID).Content, "do something") })
	require.Empty(t, w.sessions.Asked("SendMessage"))
}

func TestCommandInADestroyedSessionsThread(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.session()
	w.mu.Lock()
	w.live = map[string]bool{}
	w.mu.Unlock()
	w.sessions.set(s, workflows.TurnState{Header: workflows.HeaderView{Liveness: workflows.LivenessDestroyed}})
	w.fake.Say(ada, s.ID, bot+" go on")
	require.Contains(t, w.last(s.ID).Content, "`/agent new --from "+s.ID+"`")
}

func TestTemporalAway(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.session()
	w.setDown(workflows.ErrUnavailable)
	w.fake.Say(ada, s.ID, "hello?")
	w.until("it was tried", func() bool { return w.refused() > 0 })
	w.setDown(nil)
	require.Equal(t, "hello?", one[workflows.Message](w, "SendMessage").Text.Text)
}

func TestWithoutMessageContent(t *testing.T) {
	t.Parallel()
	w := start(t, setup{fake: discordfake.Options{NoMessageContent: true}, config: func(c *Config) { c.NoMessageContent = true }})
	s := w.session()
	w.fake.Say(ada, s.ID, "also the docs")
	require.Contains(t, w.last(s.ID).Content, "does not let me read")
	w.fake.Say(ada, s.ID, "and the README")
	w.fake.Say(ada, s.ID, bot+" and the changelog")
	require.Equal(t, "and the changelog", one[workflows.Message](w, "SendMessage").Text.Text)
}

func TestWhoMayStartWhere(t *testing.T) {
	t.Parallel()
	w := start(t, setup{config: func(c *Config) {
		c.Channels, c.Starters = []string{general}, []string{"platform-oncall"}
	}})
	other := "1000000000000000012"
	w.fake.AddChannel(discordfake.Channel{ID: other, Name: "other"})
	w.fake.AddMember(guild, grace, oncall)
	w.fake.Say(grace, other, bot+" do it")
	require.Contains(t, w.last(other).Content, "cannot be started in this channel")
	w.fake.Say(ada, general, bot+" do it")
	require.Contains(t, w.last(general).Content, "none of the roles")
	w.fake.Say(grace, general, bot+" do it")
	require.Equal(t, grace, one[workflows.SessionRequest](w, "RequestSession").By.ID)
}

func TestOnlyServedServers(t *testing.T) {
	t.Parallel()
	w := start(t, setup{config: func(c *Config) { c.Guilds = []string{"1000000000000000098"} }, before: func(w *world) {
		w.fake.AddGuild("1000000000000000098", "Served")
		w.fake.AddMember("1000000000000000098", discordfake.BotUser)
	}})
	w.fake.Say(ada, general, bot+" do it")
	require.Contains(t, w.last(general).Content, "does not work in this server")
	require.Empty(t, w.sessions.Asked("RequestSession"))
}

func TestAnUnknownComponentHidesNothing(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.session()
	w.fake.Gateway().Dispatch("MESSAGE_CREATE", map[string]any{
		"id": "1234567890123456789", "channel_id": s.ID, "guild_id": guild, "type": 0, "content": "with a new component",
		"author": map[string]any{"id": ada, "username": "ada"}, "member": map[string]any{"roles": []string{}},
		"components": []any{map[string]any{"type": 99, "whatever": true}},
	})
	require.Equal(t, "with a new component", one[workflows.Message](w, "SendMessage").Text.Text)
}
