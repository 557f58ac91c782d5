package slack

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
	"github.com/countersign/countersign/internal/workflows"
)

// TestHalfOpenConnections: both connections die without a word, and a message is
// written meanwhile. The adapter notices, connects again and reads what it missed.
func TestHalfOpenConnections(t *testing.T) {
	t.Parallel()
	w := start(t, setup{
		fake:   slackfake.Options{AckWithin: 50 * time.Millisecond, RetryAfter: []time.Duration{}},
		config: func(c *Config) { c.Silence, c.Backfill = 400*time.Millisecond, time.Hour },
	})
	thread := w.session()
	w.fake.Freeze()
	_, ds := w.fake.Say(ada, general, thread.ID, "are you there?")
	acked, _ := ds[0].Wait()
	require.False(t, acked)
	w.until("new connections", func() bool { return w.fake.Opened() >= 4 })
	require.Equal(t, "are you there?", one[workflows.Message](w, "SendMessage").Text.Text)
}

// TestALongGap: the connections are gone for longer than the back-fill reads further
// back than their end, while Slack refuses new ones, and a message is written at the
// gap's beginning.
func TestALongGap(t *testing.T) {
	t.Parallel()
	w := start(t, setup{config: func(c *Config) { c.Silence = 400 * time.Millisecond }})
	thread := w.session()
	w.fake.Fail("apps.connections.open", slackfake.Failure{Status: 502, Times: 1 << 30})
	w.fake.Freeze()
	said := time.Now()
	w.fake.Quiet(ada, general, thread.ID, "are you there?")
	require.Eventually(t, func() bool { return time.Since(said) > overlap+2*time.Second }, time.Minute, 50*time.Millisecond)
	require.Empty(t, w.sessions.Asked("SendMessage"))
	w.fake.Recover("apps.connections.open")
	require.Eventually(t, func() bool { return len(w.sessions.Asked("SendMessage")) > 0 }, 2*time.Minute, 20*time.Millisecond)
	require.Equal(t, "are you there?", one[workflows.Message](w, "SendMessage").Text.Text)
}

// TestBackfillByTheClockOfSlack: messages carry Slack's time, and this machine's may
// be an hour off.
func TestBackfillByTheClockOfSlack(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{still: true, fake: slackfake.Options{Ahead: ahead}, config: func(c *Config) { c.Backfill = 10 * time.Minute }})
			thread := w.session()
			w.fake.Quiet(ada, general, thread.ID, "missed")
			w.run()
			require.Equal(t, "missed", one[workflows.Message](w, "SendMessage").Text.Text)
		})
	}
}

// TestRefreshLosesNothing: Slack asks both connections to reconnect while people
// write.
func TestRefreshLosesNothing(t *testing.T) {
	t.Parallel()
	w := start(t, setup{fake: slackfake.Options{AckWithin: 300 * time.Millisecond}})
	thread := w.session()
	var all []*slackfake.Delivery
	for i := range 20 {
		if i == 5 {
			w.fake.Refresh()
		}
		_, ds := w.fake.Say(ada, general, thread.ID, "message")
		all = append(all, ds...)
	}
	for _, d := range all {
		d.Wait()
	}
	w.until("all are taken", func() bool { return len(w.sessions.Asked("SendMessage")) == 20 })
	w.until("both are back", func() bool { return w.fake.Connections() == 2 && w.fake.Opened() >= 4 })
}

func TestBackfillAfterAStart(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true, config: func(c *Config) { c.Backfill = time.Hour }})
	thread := w.session()
	w.fake.Quiet(ada, general, thread.ID, "missed in the thread")
	w.fake.Quiet(ada, general, thread.ID, bot+" stop")
	w.fake.SayAs("U0OTHERBOT", "B0OTHERBOT", general, thread.ID, "a bot")
	asked := w.fake.Quiet(grace, general, "", bot+" missed in the channel")
	w.fake.Quiet(grace, general, "", "not for us")
	w.run()
	w.until("the mention is found", func() bool { return len(w.sessions.Asked("RequestSession")) > 0 })
	w.filled()
	var texts []string
	for _, c := range w.sessions.Asked("SendMessage") {
		m, ok := c.Arg.(workflows.Message)
		require.True(t, ok)
		texts = append(texts, m.Text.Text)
	}
	require.Equal(t, []string{"missed in the thread"}, texts)
	require.Empty(t, w.sessions.Asked("CancelTurn"), "commands are not carried out late")
	var ids []string
	for _, c := range w.sessions.Asked("RequestSession") {
		r, ok := c.Arg.(workflows.SessionRequest)
		require.True(t, ok)
		ids = append(ids, r.ID)
	}
	require.Contains(t, ids, asked)
	require.Len(t, ids, 2, "the live session's own root is asked for again, under the same identity")
}

// TestBackfillOfDirectMessages: a task that was written to the bot while nobody
// listened, alone or among several people, starts its session; a command does not.
func TestBackfillOfDirectMessages(t *testing.T) {
	t.Parallel()
	const direct, group = "D0ADA00001", "G0GROUP001"
	w := start(t, setup{still: true, config: func(c *Config) { c.Backfill = time.Hour }, before: func(w *world) {
		w.fake.AddChannel(slackfake.Channel{ID: direct, IM: true, Members: []string{ada, slackfake.BotUser}})
		w.fake.AddChannel(slackfake.Channel{ID: group, MPIM: true, Members: []string{ada, grace, slackfake.BotUser}})
	}})
	task := w.fake.Quiet(ada, direct, "", "fix the test")
	w.fake.Quiet(ada, direct, "", "help")
	w.fake.SayAs(slackfake.BotUser, slackfake.BotID, direct, "", "the bot's own")
	w.fake.Quiet(grace, group, "", "lunch?")
	mention := w.fake.Quiet(grace, group, "", bot+" fix it too")
	w.run()
	w.until("both are found", func() bool { return len(w.sessions.Asked("RequestSession")) == 2 })
	w.filled()
	var ids []string
	for _, c := range w.sessions.Asked("RequestSession") {
		ids = append(ids, c.Arg.(workflows.SessionRequest).ID)
	}
	require.ElementsMatch(t, []string{task, mention}, ids)
	require.Len(t, w.fake.Thread(direct, task), 1)
}

// TestBackfillWithoutTheScopeForDirectMessages: an app that was installed before the
// manifest had it goes without, and reads all else.
func TestBackfillWithoutTheScopeForDirectMessages(t *testing.T) {
	t.Parallel()
	scopes := slices.DeleteFunc(slackfake.AllScopes(), func(s string) bool { return s == "im:read" })
	w := start(t, setup{still: true, fake: slackfake.Options{Scopes: scopes}, config: func(c *Config) { c.Backfill = time.Hour }})
	asked := w.fake.Quiet(ada, general, "", bot+" missed")
	w.run()
	require.Equal(t, asked, one[workflows.SessionRequest](w, "RequestSession").ID)
	w.filled() // what fails is read again until it does not
	require.NotEmpty(t, w.fake.Refused("missing_scope"))
}

func TestBackfillWaitsForTheRateLimit(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true, config: func(c *Config) { c.Backfill = time.Hour }})
	thread := w.session()
	w.fake.Quiet(ada, general, thread.ID, "missed")
	w.fake.Fail("conversations.replies", slackfake.Failure{RetryAfter: 1})
	w.run()
	require.Equal(t, "missed", one[workflows.Message](w, "SendMessage").Text.Text)
}

// TestBackfillIsPaced: between two of its calls there is the time that leaves others
// their part of Slack's limits.
func TestBackfillIsPaced(t *testing.T) {
	t.Parallel()
	const pace = 40 * time.Millisecond
	w := start(t, setup{still: true, config: func(c *Config) { c.Backfill, c.Pace = time.Hour, pace }})
	for range 4 {
		w.fake.Quiet(ada, general, w.session().ID, "missed")
	}
	w.run()
	w.until("all are found", func() bool { return len(w.sessions.Asked("SendMessage")) == 4 })
	w.filled()
	var last time.Time
	n := 0
	for _, c := range w.fake.Calls("") {
		if c.Method != "conversations.replies" && c.Method != "conversations.history" && c.Method != "users.conversations" {
			continue
		}
		require.GreaterOrEqual(t, c.At.Sub(last), pace-5*time.Millisecond, c.Method)
		last = c.At
		n++
	}
	require.GreaterOrEqual(t, n, 6, "four threads, the list of channels, a channel")
}

// TestBackfillOfABusyChannel: it is read in pages, each paced and each tried again by
// itself where Slack asks to wait.
func TestBackfillOfABusyChannel(t *testing.T) {
	t.Parallel()
	const pace = 30 * time.Millisecond
	w := start(t, setup{still: true, config: func(c *Config) { c.Backfill, c.Pace = time.Hour, pace }})
	first := w.fake.Quiet(ada, general, "", bot+" the oldest")
	for range 450 {
		w.fake.Quiet(grace, general, "", "not for us")
	}
	last := w.fake.Quiet(ada, general, "", bot+" the newest")
	w.fake.Fail("conversations.history", slackfake.Failure{RetryAfter: 1})
	w.run()
	w.until("both are found", func() bool { return len(w.sessions.Asked("RequestSession")) == 2 })
	w.filled()
	var ids []string
	for _, c := range w.sessions.Asked("RequestSession") {
		ids = append(ids, c.Arg.(workflows.SessionRequest).ID)
	}
	require.Equal(t, []string{first, last}, ids, "oldest first")
	var calls []slackfake.Call
	for _, c := range w.fake.Calls("conversations.history") {
		if len(calls) == 0 || c.Args.Get("oldest") == calls[0].Args.Get("oldest") { // a connection may have been lost and another back-fill come
			calls = append(calls, c)
		}
	}
	require.Len(t, calls, 4, "three pages, one of them twice")
	for i := 2; i < len(calls); i++ {
		require.GreaterOrEqual(t, calls[i].At.Sub(calls[i-1].At), pace-5*time.Millisecond)
	}
}

// TestWatchdogsTime: with what is set by default a connection whose other end has
// gone is opened again within 75 s: the silence, and the second before the next try.
func TestWatchdogsTime(t *testing.T) {
	t.Parallel()
	silence := Config{}.withDefaults().Silence
	require.LessOrEqual(t, silence+silence/2+time.Second+20*time.Second, 75*time.Second)
	require.GreaterOrEqual(t, silence, 20*time.Second, "Slack's own pings come in time")
}

func TestRevokedAppToken(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	w.fake.Fail("apps.connections.open", slackfake.Failure{Code: "token_revoked", Times: 5})
	err := w.app.Run(t.Context())
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "slack.app_token")
}

// TestRevokedBotToken: a token that is revoked while the bot runs ends it with a
// sentence, after few calls.
func TestRevokedBotToken(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"token_revoked", "account_inactive", "invalid_auth"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{still: true})
			ended := make(chan error, 1)
			go func() { ended <- w.app.Run(t.Context()) }()
			w.until("two connections", func() bool { return w.fake.Connections() == 2 })
			w.fake.Revoke(code)
			w.fake.Say(ada, general, "", bot+" do it")
			select {
			case err := <-ended:
				require.ErrorIs(t, err, ErrRefused)
				require.ErrorContains(t, err, "slack.bot_token is not valid ("+code+")")
			case <-time.After(20 * time.Second):
				t.Fatal("the bot goes on")
			}
			require.LessOrEqual(t, len(w.fake.Refused(code)), 20)
		})
	}
}

// TestATokenThatIsStillValid: one answer that looks as if it were not ends nothing.
func TestATokenThatIsStillValid(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	w.fake.Fail("users.info", slackfake.Failure{Code: "not_authed"})
	_, err := w.app.people.actor(t.Context(), ada)
	require.Error(t, err)
	w.until("Slack is asked", func() bool { return len(w.fake.Calls("auth.test")) == 2 })
	_, ds := w.fake.Say(ada, general, "", bot+" do it")
	settled(w, ds...)
	require.Len(t, w.sessions.Asked("RequestSession"), 1)
}

func TestConnectRefusals(t *testing.T) {
	t.Parallel()
	f := slackfake.New(slackfake.Options{})
	t.Cleanup(f.Close)
	for name, c := range map[string]struct {
		cfg   Config
		wants string
	}{
		"wrong token": {Config{BotToken: secret("xoxb-other"), APIURL: f.URL()}, "slack.bot_token is not valid"},
		"wrong url":   {Config{BotToken: secret("xoxb-fake"), APIURL: "https://slack.com/"}, "/api/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Connect(t.Context(), c.cfg, Deps{})
			require.ErrorIs(t, err, ErrRefused)
			require.ErrorContains(t, err, c.wants)
		})
	}
	_, err := Connect(t.Context(), Config{BotToken: secret("xoxb-fake"), APIURL: "http://127.0.0.1:1/api/"}, Deps{})
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrRefused, "an unreachable server may come back")
}

func TestABackfillThatFailsIsDoneAgain(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true, config: func(c *Config) { c.Backfill = time.Hour }})
	thread := w.session()
	w.fake.Quiet(ada, general, thread.ID, "missed")
	w.fake.Fail("conversations.replies", slackfake.Failure{Status: 502, Times: 2})
	w.run()
	w.until("the message is found", func() bool { return len(w.sessions.Asked("SendMessage")) > 0 })
	w.filled()
	require.Len(t, w.sessions.Asked("SendMessage"), 1)
}

// TestTooManyConnections: Slack ends the connections of an app that has ten already at
// once. The adapter opens others ever more slowly, and is heard when there is room.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	var others []*App
	for range 5 {
		app, err := Connect(t.Context(), w.app.cfg, w.app.dep)
		require.NoError(t, err)
		others = append(others, app)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, app := range others {
		wg.Go(func() { _ = app.Run(ctx) }) // it ends with its context
	}
	w.until("ten connections", func() bool { return w.fake.Opened() == 10 })
	began := time.Now()
	done := make(chan error, 1)
	run, stop := context.WithCancel(t.Context())
	go func() { done <- w.app.Run(run) }()
	require.Eventually(t, func() bool { return time.Since(began) > 4*time.Second }, time.Minute, 50*time.Millisecond)
	require.LessOrEqual(t, w.fake.Opened(), 10+2*int(time.Since(began)/time.Second+2))
	cancel()
	wg.Wait()
	w.until("its own connections", func() bool { return w.fake.Connections() == 2 })
	stop()
	require.NoError(t, <-done)
}
