package botapp_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat/chattest/discordfake"
	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
	"github.com/countersign/countersign/internal/chat/slack"
	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/workflows"
)

// TestSlackComesBack: a Slack that was lost, in each way that there is, is served again
// without another start of the bot. What was written meanwhile is answered, and what a
// session had to say meanwhile is posted, each once; Discord was served all the time.
func TestSlackComesBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose, mend func(*paced)
		level      string
	}{
		"from an outage": {
			lose: func(w *paced) { w.fake.Outage(true) },
			mend: func(w *paced) { w.fake.Outage(false) },
		},
		"from a refusal": {
			lose: func(w *paced) { w.fake.Revoke("account_inactive"); w.fake.OpenHome(grace, "home") },
			mend: func(w *paced) { w.fake.Revoke("") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPaced(t)
			var lines logged
			w.log, w.refusedAgain = slog.New(slog.NewJSONHandler(&lines, nil)), 2*time.Second
			other := newDiscord(t)
			w.stop = w.bot(t, other.settings()...)
			w.until("Slack is connected", func() bool { return w.fake.Connections() == 2 })
			channel := quietChannel(0)
			w.command(channel, `run --title "Lost" echo 1`)
			thread := w.message(channel, "the answer", func(m slackfake.Message) bool { return keyOf(m) == "answer-1" }).ThreadTS
			id := workflows.Thread{Platform: workflows.PlatformSlack, Team: slackfake.Team, Channel: channel, ID: thread}.WorkflowID()
			w.still(id)

			c.lose(w)
			w.until("no connection is left", func() bool { return w.fake.Connections() == 0 })
			// One is known to the session already, as if another bot had been told of it.
			said := w.fake.Quiet(ada, channel, thread, "echo 2")
			sessions := control.New(w.env.Client, nil)
			require.NoError(t, sessions.SendMessage(t.Context(), id, workflows.Message{
				ID: said, Author: workflows.Actor{ID: ada, Name: "ada"}, Text: workflows.TextRef{Text: "echo 2"}, At: time.Now(),
			}))
			w.until("it is answered, and nobody can be told", func() bool {
				st, err := sessions.TurnState(t.Context(), id)
				return err == nil && st.Turns == 2 && st.Turn == nil
			})
			w.fake.Quiet(ada, channel, thread, "echo 3")
			w.fake.Quiet(ada, quietChannel(1), "", "<@"+slackfake.BotUser+"> echo 4")
			other.session(w)

			c.mend(w)
			w.until("Slack is connected again", func() bool { return w.fake.Connections() == 2 })
			w.message(channel, "the last answer", func(m slackfake.Message) bool { return keyOf(m) == "answer-3" })
			w.message(quietChannel(1), "the other thread's", func(m slackfake.Message) bool { return keyOf(m) == "answer-1" })
			w.still(id)
			want := map[string]int{"header": 1}
			for n := range 3 {
				want[fmt.Sprint("turn-", n+1)], want[fmt.Sprint("answer-", n+1)] = 1, 1
			}
			require.Equal(t, want, keys(w.fake.Thread(channel, thread)))
			require.Equal(t, map[string]int{"header": 1, "turn-1": 1, "answer-1": 1}, keys(w.fake.Messages(quietChannel(1))))
			w.until("it is said", func() bool { return len(lines.with("INFO", "Slack is back")) == 1 })
			require.Empty(t, w.fake.Complaints())
		})
	}
}

// TestDiscordComesBack is the same for Discord, of which Slack is independent.
func TestDiscordComesBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ lose, mend func(onDiscord) }{
		"from an outage": {
			lose: func(d onDiscord) { d.Outage(true) },
			mend: func(d onDiscord) { d.Outage(false) },
		},
		"from a refusal": {
			lose: func(d onDiscord) { d.ResetToken(); d.Gateway().Cut(); d.Gateway().Forget() },
			mend: func(d onDiscord) { d.SetToken("fake-token") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPaced(t)
			w.refusedAgain = 2 * time.Second
			other := newDiscord(t)
			w.stop = w.bot(t, append(other.settings(), "COUNTERSIGN_DISCORD_CHANNELS="+discordfake.General)...)
			other.session(w)
			thread := other.Threads(discordfake.General)[0].ID

			c.lose(other)
			w.until("no connection is left", func() bool { return other.Gateway().Connections() == 0 })
			other.Quiet(discordfake.Ada, thread, "echo 2")
			task := other.Quiet(discordfake.Ada, discordfake.General, "<@"+discordfake.BotUser+"> echo 3")
			w.command(quietChannel(0), "run echo 4")
			w.message(quietChannel(0), "Slack is served", func(m slackfake.Message) bool { return keyOf(m) == "answer-1" })
			require.Equal(t, 1, other.answers(thread))

			c.mend(other)
			w.until("Discord is connected again", other.Gateway().Ready)
			w.until("the thread's answer", func() bool { return other.answers(thread) == 2 })
			w.until("the new thread's", func() bool { return other.answers(task) == 1 })
			for _, c := range other.Threads(discordfake.General) {
				w.still(workflows.Thread{Platform: workflows.PlatformDiscord, Team: discordfake.Guild, Channel: discordfake.General, ID: c.ID}.WorkflowID())
			}
			require.Equal(t, 2, other.answers(thread))
			require.Equal(t, 1, other.answers(task))
			require.Len(t, other.Threads(discordfake.General), 2)
			require.LessOrEqual(t, other.Gateway().Identifies(), 20)
		})
	}
}

// answers counts the answers in a thread.
func (d onDiscord) answers(thread string) int {
	n := 0
	for _, m := range d.Messages(thread) {
		if m.Author == discordfake.BotUser && strings.Contains(m.Content, "Done.") {
			n++
		}
	}
	return n
}

// TestAnOutageAtTheStart: the only chat service is away when the bot starts. The bot
// waits for it, for as long as it asks to, and takes then what was written meanwhile,
// though nothing is read back after a start.
func TestAnOutageAtTheStart(t *testing.T) {
	t.Parallel()
	w := newPaced(t)
	var lines logged
	w.log = slog.New(slog.NewJSONHandler(&lines, nil))
	w.fake.Outage(true)
	w.stop = w.bot(t, "COUNTERSIGN_SLACK_BACKFILL=0")
	w.until("it is said", func() bool { return len(lines.with("WARN", "Slack does not answer; it is tried again")) == 1 })
	w.fake.Quiet(ada, quietChannel(0), "", "<@"+slackfake.BotUser+"> echo 1")
	w.fake.Fail("auth.test", slackfake.Failure{RetryAfter: 5})
	w.fake.Outage(false)
	w.message(quietChannel(0), "the answer", func(m slackfake.Message) bool { return keyOf(m) == "answer-1" })
	select {
	case err := <-w.app.Failed():
		t.Fatalf("the bot ended: %v", err)
	default:
	}
	calls := w.fake.Calls("auth.test")
	require.GreaterOrEqual(t, len(calls), 2)
	require.Equal(t, "429", calls[0].Error)
	require.GreaterOrEqual(t, calls[1].At.Sub(calls[0].At), 5*time.Second)
	require.Len(t, lines.with("INFO", "Slack is back"), 1)
	require.Empty(t, w.fake.Complaints())
}

// TestTheOnlyOneRefuses: who has set a wrong token is told at once, by the bot's end.
func TestTheOnlyOneRefuses(t *testing.T) {
	t.Parallel()
	w := newPaced(t)
	var lines logged
	w.log = slog.New(slog.NewJSONHandler(&lines, nil))
	w.fake.Revoke("invalid_auth")
	w.stop = w.bot(t)
	select {
	case err := <-w.app.Failed():
		require.ErrorIs(t, err, slack.ErrRefused)
		require.ErrorContains(t, err, "slack.bot_token is not valid (invalid_auth): copy the Bot User OAuth Token")
	case <-time.After(time.Minute):
		t.Fatal("the bot goes on")
	}
	require.Empty(t, lines.with("ERROR", ""), "its end says it")
}
