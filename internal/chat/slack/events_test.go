package slack

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
	"github.com/countersign/countersign/internal/workflows"
)

func TestMentionStartsASession(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	ts, ds := w.fake.Say(ada, general, "", bot+" fix `a &amp;&amp; b` in <http://example.com|example.com>")
	require.Len(t, ds, 2, "one mention makes two events")
	settled(w, ds...)
	r := one[workflows.SessionRequest](w, "RequestSession")
	require.Equal(t, ts, r.ID)
	require.Equal(t, w.app.thread(general, ts), r.Thread)
	require.Equal(t, "fix `a && b` in example.com", r.Task.Text.Text)
	require.Equal(t, workflows.Actor{ID: ada, Name: "ada"}, r.By)
	require.Equal(t, "agent/slack/"+slackfake.Team+"/"+general+"/"+ts, r.Thread.WorkflowID())
}

func TestOneTurnHoweverOftenItIsTold(t *testing.T) {
	t.Parallel()
	w := start(t, setup{fake: slackfake.Options{AckWithin: 300 * time.Millisecond}})
	w.fake.Duplicate(true)
	w.fake.DropAcks(3)
	_, ds := w.fake.Say(ada, general, "", bot+" do it")
	settled(w, ds...)
	require.Len(t, w.sessions.Asked("RequestSession"), 1)
}

func TestCommandsAreAnsweredOnce(t *testing.T) {
	t.Parallel()
	w := start(t, setup{fake: slackfake.Options{AckWithin: 300 * time.Millisecond}})
	w.fake.DropAcks(2)
	ts, ds := w.fake.Say(ada, general, "", bot+" help")
	settled(w, ds...)
	w.until("the answer", func() bool { return len(w.fake.Thread(general, ts)) > 1 })
	w.until("the answer", func() bool { return len(w.fake.Thread(general, ts)) > 1 })
	require.Len(t, w.fake.Thread(general, ts), 2, "the command and one answer")
}

// TestTwoBotsAnswerOnce: each bot gets one of the two events that a mention makes.
func TestTwoBotsAnswerOnce(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	second, err := Connect(t.Context(), w.app.cfg, w.app.dep)
	require.NoError(t, err)
	ts := w.fake.Quiet(ada, general, "", bot+" help")
	m := message{User: ada, TS: ts, Text: bot + " help"}
	require.NoError(t, w.app.take(t.Context(), inbound{message: m, channel: general, mention: true}))
	require.NoError(t, second.take(t.Context(), inbound{message: m, channel: general}))
	w.app.wg.Wait()
	second.wg.Wait()
	require.Len(t, w.fake.Thread(general, ts), 2, "the command and one answer")
}

func TestThreadMessages(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	ts, ds := w.fake.Say(grace, general, thread.ID, "and the tests too")
	settled(w, ds...)
	m := one[workflows.Message](w, "SendMessage")
	require.Equal(t, ts, m.ID)
	require.Equal(t, "and the tests too", m.Text.Text)
	require.Equal(t, grace, m.Author.ID)
}

func TestMentionsOnly(t *testing.T) {
	t.Parallel()
	w := start(t, setup{config: func(c *Config) { c.MentionsOnly = true }})
	thread := w.session()
	_, ds := w.fake.Say(ada, general, thread.ID, "talk among people")
	settled(w, ds...)
	_, ds = w.fake.Say(ada, general, thread.ID, bot+" this is for you")
	settled(w, ds...)
	require.Equal(t, "this is for you", one[workflows.Message](w, "SendMessage").Text.Text)
}

func TestForeignThreadsAreLeftAlone(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	ts, ds := w.fake.Say(ada, general, "", "lunch?")
	settled(w, ds...)
	for range 3 {
		_, ds = w.fake.Say(grace, general, ts, "yes")
		settled(w, ds...)
	}
	require.Empty(t, w.sessions.Asked("RequestSession"))
	require.Len(t, w.fake.Thread(general, ts), 4, "nobody is answered")
	require.Len(t, w.fake.Calls("conversations.replies"), 1, "who began a thread is looked up once")
}

func TestMentionInAForeignThreadStartsThere(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	root, ds := w.fake.Say(ada, general, "", "the build is red")
	settled(w, ds...)
	ts, ds := w.fake.Say(grace, general, root, bot+" find out why")
	settled(w, ds...)
	r := one[workflows.SessionRequest](w, "RequestSession")
	require.False(t, r.Join)
	require.Equal(t, ts, r.ID)
	require.Equal(t, w.app.thread(general, root), r.Thread)
	require.Equal(t, "find out why", r.Title)
}

// TestReplyBeforeTheSession: the thread's task may still be on its way to
// Temporal, through another bot; what is written after it must not be lost.
func TestReplyBeforeTheSession(t *testing.T) {
	t.Parallel()
	w := start(t, setup{fake: slackfake.Options{AckWithin: 200 * time.Millisecond}})
	root := w.fake.Quiet(ada, general, "", bot+" do it")
	_, ds := w.fake.Say(ada, general, root, "and quickly")
	w.until("it was tried", func() bool { return len(w.sessions.Asked("TurnState")) > 0 })
	require.Empty(t, w.sessions.Asked("SendMessage"))
	w.sessionIn(general, root)
	settled(w, ds...)
	require.Equal(t, "and quickly", one[workflows.Message](w, "SendMessage").Text.Text)
}

func TestThanksAfterACommand(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	root := w.fake.Quiet(ada, general, "", bot+" help")
	_, ds := w.fake.Say(ada, general, root, "thanks")
	settled(w, ds...)
	require.Len(t, w.fake.Thread(general, root), 2, "nobody is answered")
}

func TestDestroyedSession(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	root := w.fake.Quiet(ada, general, "", bot+" do it")
	thread := w.app.thread(general, root)
	w.sessions.set(thread, workflows.TurnState{Header: workflows.HeaderView{Liveness: workflows.LivenessDestroyed}})
	_, ds := w.fake.Say(ada, general, root, "one more thing")
	settled(w, ds...)
	w.until("they are told", func() bool { return len(w.fake.Thread(general, root)) == 3 })
	require.Contains(t, w.fake.Thread(general, root)[2].Text, "new --from "+general+"/"+root)
}

func TestEdits(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	ts, ds := w.fake.Say(ada, general, thread.ID, "use the stagign bucket https://example.com")
	settled(w, ds...)
	w.fake.Duplicate(true)
	settled(w, w.fake.Unfurl(general, ts))
	settled(w, w.fake.Edit(general, ts, "use the staging bucket")...)
	settled(w, w.fake.Unfurl(general, ts))
	calls := w.sessions.Asked("SendMessage")
	require.Len(t, calls, 2)
	fix, ok := calls[1].Arg.(workflows.Message)
	require.True(t, ok)
	require.Equal(t, ts, fix.ID)
	require.NotEmpty(t, fix.EditedAt)
	require.Equal(t, "use the staging bucket", fix.Text.Text)
}

func TestEditOfTheTask(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	settled(w, w.fake.Edit(general, thread.ID, bot+" do something else")...)
	m := one[workflows.Message](w, "SendMessage")
	require.Equal(t, thread.ID, m.ID)
	require.NotEmpty(t, m.EditedAt)
	require.Equal(t, "do something else", m.Text.Text)
	require.Empty(t, w.sessions.Asked("RequestSession"))
}

// TestDeletions: a session that works, or is about to, is told that a message was
// deleted, once: a reply, a mention, and the task itself, whose place a tombstone takes.
func TestDeletions(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	texts := func() (all []string) {
		for _, c := range w.sessions.Asked("SendMessage") {
			all = append(all, c.Arg.(workflows.Message).Text.Text)
		}
		return all
	}
	gone := func(what string) string {
		return "(This message was deleted by its writer or a moderator; it counts no more: “" + what + "”)"
	}
	reply, ds := w.fake.Say(ada, general, thread.ID, "try `rm -rf build`")
	settled(w, ds...)
	settled(w, w.fake.Edit(general, reply, "try `rm -rf out`")...)
	mention, ds := w.fake.Say(ada, general, thread.ID, bot+" and the docs")
	settled(w, ds...)
	stop, ds := w.fake.Say(ada, general, thread.ID, bot+" stop")
	settled(w, ds...)
	require.Len(t, texts(), 3)

	w.sessions.set(thread, workflows.TurnState{Turn: &workflows.TurnView{Number: 1, State: workflows.TurnWorking}})
	w.fake.Duplicate(true)
	settled(w, w.fake.Remove(general, reply), w.fake.Remove(general, mention), w.fake.Remove(general, stop), w.fake.Remove(general, thread.ID))
	require.ElementsMatch(t, []string{gone("try 'rm -rf out'"), gone("and the docs"), gone("do something")}, texts()[3:])
	for _, c := range w.sessions.Asked("SendMessage")[3:] {
		m := c.Arg.(workflows.Message)
		require.Equal(t, workflows.DeletedAt, m.EditedAt)
		require.Equal(t, ada, m.Author.ID)
		require.Equal(t, thread.WorkflowID(), c.ID)
		edited := w.sessions.Asked("SendMessage")[1].Arg.(workflows.Message)
		require.Positive(t, workflows.CompareIDs(edited.ID+"@"+m.EditedAt, edited.ID+"@"+edited.EditedAt), "a deletion comes after all edits")
		require.Contains(t, []string{reply, mention, thread.ID}, m.ID)
	}
	require.Empty(t, w.sessions.Asked("RequestSession"))
}

// TestDeletionsThatTellNothing: a session at rest does not begin a turn about a message
// that was tidied away; nor does what was never for one, and ours are none.
func TestDeletionsThatTellNothing(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: func(w *world) { w.fake.AddUser(slackfake.User{ID: "U0GUEST001", Name: "guest", Restricted: true}) }})
	thread := w.session()
	answered, ds := w.fake.Say(ada, general, thread.ID, "the first")
	settled(w, ds...)
	settled(w, w.fake.Remove(general, answered))
	next, ds := w.fake.Say(ada, general, thread.ID, "the second")
	settled(w, ds...)
	guest := w.fake.Quiet("U0GUEST001", general, thread.ID, "rm it all")
	own, err := w.app.Poster().Post(t.Context(), answerOf(thread, "done"))
	require.NoError(t, err)
	talk := w.fake.Quiet(ada, general, "", "good morning")
	other := w.fake.Quiet(grace, general, talk, "good morning to you")
	w.sessions.set(thread, workflows.TurnState{Queued: 1})
	settled(w, w.fake.Remove(general, guest), w.fake.Remove(general, own), w.fake.Remove(general, other), w.fake.Remove(general, talk))
	require.Len(t, w.sessions.Asked("SendMessage"), 2)
	settled(w, w.fake.Remove(general, next))
	require.Contains(t, w.sessions.Asked("SendMessage")[2].Arg.(workflows.Message).Text.Text, "“the second”")
}

func TestEditThatAddsTheMention(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	ts, ds := w.fake.Say(ada, general, "", "fix the build")
	settled(w, ds...)
	settled(w, w.fake.Edit(general, ts, bot+" fix the build")...)
	r := one[workflows.SessionRequest](w, "RequestSession")
	require.Equal(t, ts, r.ID)
	require.False(t, r.Join)
}

func TestEditsCarryOutNoCommands(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	ts, ds := w.fake.Say(ada, general, thread.ID, bot+" look around")
	settled(w, ds...)
	settled(w, w.fake.Edit(general, ts, bot+" stop")...)
	require.Empty(t, w.sessions.Asked("CancelTurn"))
}

func TestBotsStartNothing(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: func(w *world) { w.fake.AddUser(slackfake.User{ID: "U0HIDDEN01", Name: "robot", Bot: true}) }})
	thread := w.session()
	w.fake.SayAs("U0OTHERBOT", "B0OTHERBOT", general, "", bot+" do it")
	w.fake.SayAs("U0OTHERBOT", "B0OTHERBOT", general, thread.ID, "do it")
	_, err := w.app.Poster().Post(t.Context(), answerOf(thread, bot+" do it again"))
	require.NoError(t, err)
	_, ds := w.fake.Say("U0HIDDEN01", general, thread.ID, "do it")
	settled(w, ds...)
	require.Empty(t, w.sessions.Asked("RequestSession"))
	require.Empty(t, w.sessions.Asked("SendMessage"))
}

func TestDirectMessages(t *testing.T) {
	t.Parallel()
	const dm = "D0ADABOT01"
	w := start(t, setup{before: func(w *world) {
		w.fake.AddChannel(slackfake.Channel{ID: dm, IM: true, Members: []string{ada, slackfake.BotUser}})
	}})
	ts, ds := w.fake.Say(ada, dm, "", "look around")
	settled(w, ds...)
	require.Equal(t, w.app.thread(dm, ts), one[workflows.SessionRequest](w, "RequestSession").Thread)
	thread := w.sessionIn(dm, ts)
	_, ds = w.fake.Say(ada, dm, ts, "and there")
	settled(w, ds...)
	require.Equal(t, "and there", one[workflows.Message](w, "SendMessage").Text.Text)
	_, ds = w.fake.Say(ada, dm, ts, "stop")
	settled(w, ds...)
	w.until("the turn is stopped", func() bool { return len(w.sessions.Asked("CancelTurn")) == 1 })
	require.Equal(t, thread.WorkflowID(), w.sessions.Asked("CancelTurn")[0].ID)
}

func TestCommandsInAThread(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	for _, c := range []string{"stop", "pause", `title "a better one"`, "model gpt-9", "switch docker", "fork", "status"} {
		_, ds := w.fake.Say(ada, general, thread.ID, bot+" "+c)
		settled(w, ds...)
	}
	for _, m := range []string{"CancelTurn", "Pause", "SetTitle", "SetModel", "SwitchBackend", "Fork"} {
		require.Len(t, w.sessions.Asked(m), 1, m)
	}
	f, ok := w.sessions.Asked("Fork")[0].Arg.(workflows.ForkSession)
	require.True(t, ok)
	require.Equal(t, w.app.thread(general, ""), f.Thread, "a fork gets a thread of its own in the channel")
}

func TestOutsidersDoNotDrive(t *testing.T) {
	t.Parallel()
	people := map[string]slackfake.User{
		"a guest":        {ID: "U0GUEST001", Name: "guest", Restricted: true},
		"a single guest": {ID: "U0GUEST002", Name: "guest", UltraRestricted: true},
		"a partner":      {ID: "U0PARTNER1", Name: "partner", Team: "T0PARTNER1"},
		"a stranger":     {ID: "U0STRANGE1", Name: "stranger", Stranger: true},
	}
	for name, u := range people {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{before: func(w *world) {
				w.fake.AddUser(u)
				w.fake.AddChannel(slackfake.Channel{ID: general, Members: []string{slackfake.BotUser, ada, u.ID}})
			}})
			thread := w.session()
			_, ds := w.fake.Say(u.ID, general, thread.ID, "rm it all")
			settled(w, ds...)
			_, ds = w.fake.Say(u.ID, general, "", bot+" rm it all")
			settled(w, ds...)
			require.Contains(t, w.toldOnly(u.ID), "cannot use Countersign here")
			require.Empty(t, w.sessions.Asked("SendMessage"))
			require.Empty(t, w.sessions.Asked("RequestSession"))
		})
	}
}

func TestUnknownPeopleAreNotTakenForMembers(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	w.fake.Fail("users.info", slackfake.Failure{Status: 503, Times: 1})
	_, ds := w.fake.Say(ada, general, "", bot+" do it")
	settled(w, ds...)
	require.Len(t, w.sessions.Asked("RequestSession"), 1, "it is taken when Slack says who it was")
	acked := 0
	for _, d := range ds {
		_, n := d.Wait()
		acked += n
	}
	require.Greater(t, acked, 2, "an event whose author is not known is not acknowledged")
}

func TestWhoMayStartWhere(t *testing.T) {
	t.Parallel()
	w := start(t, setup{
		before: func(w *world) {
			w.fake.AddChannel(slackfake.Channel{ID: "C0RANDOM01", Members: []string{slackfake.BotUser, ada, grace}})
			w.fake.AddGroup(slackfake.Group{ID: "S0DEVS0001", Handle: "devs", Users: []string{ada}})
		},
		config: func(c *Config) { c.Channels, c.Starters = []string{general}, []string{"devs"} },
	})
	_, ds := w.fake.Say(ada, "C0RANDOM01", "", bot+" do it")
	settled(w, ds...)
	require.Contains(t, w.toldOnly(ada), "cannot be started in this channel")
	_, ds = w.fake.Say(grace, general, "", bot+" do it")
	settled(w, ds...)
	require.Contains(t, w.toldOnly(grace), "none of the groups")
	_, ds = w.fake.Say(ada, general, "", bot+" do it")
	settled(w, ds...)
	require.Len(t, w.sessions.Asked("RequestSession"), 1)
	root, ds := w.fake.Say(ada, "C0RANDOM01", "", "a thread")
	settled(w, ds...)
	_, ds = w.fake.Say(ada, "C0RANDOM01", root, bot+" do it here")
	settled(w, ds...)
	require.Len(t, w.sessions.Asked("RequestSession"), 1, "a thread is no way around it")
}

func TestNotAcknowledgedBeforeTemporalHasIt(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]error{"unreachable": workflows.ErrUnavailable, "slow": workflows.ErrUnconfirmed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{fake: slackfake.Options{AckWithin: 200 * time.Millisecond}})
			thread := w.session()
			w.setDown(down)
			_, ds := w.fake.Say(ada, general, thread.ID, "important")
			w.until("it was refused twice", func() bool { return w.refused() > 1 })
			w.setDown(nil)
			settled(w, ds...)
			_, attempts := ds[0].Wait()
			require.Greater(t, attempts, 1)
			w.until("it is taken", func() bool { return len(w.sessions.Asked("SendMessage")) == 1 })
		})
	}
}

// TestOwnTriesGoOn: Slack gives an event up after three repetitions; we do not.
func TestOwnTriesGoOn(t *testing.T) {
	t.Parallel()
	w := start(t, setup{fake: slackfake.Options{AckWithin: 50 * time.Millisecond}})
	thread := w.session()
	w.setDown(workflows.ErrUnavailable)
	_, ds := w.fake.Say(ada, general, thread.ID, "important")
	acked, attempts := ds[0].Wait()
	require.True(t, acked, "the last repetition is acknowledged, because nothing follows it")
	require.Equal(t, 4, attempts)
	w.setDown(nil)
	require.Equal(t, "important", one[workflows.Message](w, "SendMessage").Text.Text)
}

func TestDisorder(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	w.fake.Hold()
	var all []*slackfake.Delivery
	for i := range 5 {
		_, ds := w.fake.Say(ada, general, thread.ID, fmt.Sprint("message ", i))
		all = append(all, ds...)
	}
	w.fake.Release()
	settled(w, all...)
	seen := map[string]bool{}
	for _, c := range w.sessions.Asked("SendMessage") {
		m, ok := c.Arg.(workflows.Message)
		require.True(t, ok)
		seen[m.Text.Text+m.ID] = true
	}
	require.Len(t, seen, 5, "each once, under its own identity, by which the session orders them")
}

// TestUndecodableBlocks: what slack-go cannot decode is still a message.
func TestUndecodableBlocks(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	d := w.fake.Raw(map[string]any{
		"type": "message", "channel": general, "channel_type": "channel", "user": ada, "ts": "1760000001.000100", "thread_ts": thread.ID,
		"text": "with a strange block", "blocks": []map[string]any{{"type": "section", "text": 5, "accessory": "none"}},
	})
	settled(w, d)
	require.Equal(t, "with a strange block", one[workflows.Message](w, "SendMessage").Text.Text)
}

func TestEventsOfNoInterestAreAcknowledged(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	for _, e := range []map[string]any{
		{"type": "message", "subtype": "channel_join", "channel": general, "user": ada, "ts": "1.1"},
		{"type": "message", "subtype": "message_deleted", "channel": general, "deleted_ts": "1.1", "ts": "1.2"},
		{"type": "app_home_opened", "user": ada, "channel": "D1", "tab": "messages"},
		{"type": "something_new"},
	} {
		settled(w, w.fake.Raw(e))
	}
	require.Empty(t, w.sessions.Asked(""))
}

func TestAttachedFilesAreNotPassedOverInSilence(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	thread := w.session()
	d := w.fake.Raw(map[string]any{
		"type": "message", "subtype": "file_share", "channel": general, "user": ada, "ts": "1760000001.000100", "thread_ts": thread.ID,
		"text": "see this", "files": []map[string]any{{"id": "F1", "name": "log.txt", "size": 1400000}},
	})
	settled(w, d)
	require.Equal(t, []workflows.Attachment{{ID: "F1", Name: "log.txt", Bytes: 1400000}}, one[workflows.Message](w, "SendMessage").Attachments)
}

func TestReading(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	for in, want := range map[string]string{
		bot + " hi":                                "hi",
		"hey " + bot + " do":                       "hey  do",
		"a &lt;b&gt; &amp;amp; c":                  "a <b> &amp; c",
		"<@" + ada + "> and <@U0NOBODY01>":         "@ada and @U0NOBODY01",
		"<#C0GENERAL1|general> <!here>":            "#general @here",
		"<!subteam^S0ONCALL01|@oncall>":            "@oncall",
		"<https://a.example/x|the docs>":           "the docs (https://a.example/x)",
		"<https://a.example/?a=1&amp;b=2>":         "https://a.example/?a=1&b=2",
		"<mailto:ada@example.com|ada@example.com>": "ada@example.com",
		"`cat <in.txt> out`":                       "`cat <in.txt> out`",
		"```\nif a &lt; b\n```":                    "```\nif a < b\n```",
	} {
		require.Equal(t, want, w.app.reader.read(t.Context(), in), in)
	}
}

func TestSendsWhatNoSessionAsksTwice(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	_, ds := w.fake.Say(ada, general, "", bot+" run --no-such-flag x")
	settled(w, ds...)
	w.until("they are told", func() bool { return len(w.fake.Messages(general)) == 2 })
	require.Contains(t, w.fake.Messages(general)[1].Text, "There is no flag")
	require.Empty(t, w.sessions.Asked("RequestSession"))
}
