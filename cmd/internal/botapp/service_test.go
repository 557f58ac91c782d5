package botapp_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/cmd/internal/botapp"
	"github.com/countersign/countersign/internal/chat/chattest/discordfake"
	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
	"github.com/countersign/countersign/internal/chat/discord"
	"github.com/countersign/countersign/internal/chat/slack"
	"github.com/countersign/countersign/internal/config"
)

// TestAServiceThatIsLost: a chat service that refuses the bot's token, at its start or
// later, or does not answer, takes no other one with it. That it refuses is one ERROR
// line, which says what to do.
func TestAServiceThatIsLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after func(*paced)
		level, text   string
	}{
		"refused at start": {
			before: func(w *paced) { w.fake.Revoke("token_revoked") },
			level:  "ERROR", text: "Slack refuses this bot and is not served until that is mended",
		},
		"refused while it runs": {
			after: func(w *paced) {
				w.until("Slack is connected", func() bool { return w.fake.Connections() == 2 })
				w.fake.Revoke("token_revoked")
				w.fake.Say(ada, quietChannel(0), "", "<@"+slackfake.BotUser+"> echo hello")
			},
			level: "ERROR", text: "Slack refuses this bot and is not served until that is mended",
		},
		"does not answer": {
			before: func(w *paced) { w.fake.Fail("auth.test", slackfake.Failure{Status: 502, Times: 1 << 20}) },
			level:  "WARN", text: "Slack does not answer; it is tried again",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newPaced(t)
			var lines logged
			w.log = slog.New(slog.NewJSONHandler(&lines, nil))
			other := newDiscord(t)
			if c.before != nil {
				c.before(w)
			}
			w.bot(t, other.settings()...)
			if c.after != nil {
				c.after(w)
			}
			w.until("it is said", func() bool { return len(lines.with(c.level, c.text)) > 0 })
			other.session(w)
			if c.level == "ERROR" {
				line := lines.with(c.level, c.text)
				require.Len(t, line, 1)
				require.Contains(t, line[0], "slack.bot_token is not valid (token_revoked): copy the Bot User OAuth Token")
				require.Len(t, lines.with("ERROR", ""), 1)
				require.LessOrEqual(t, len(w.fake.Refused("token_revoked")), 20)
			}
			select {
			case err := <-w.app.Failed():
				t.Fatalf("the bot ended: %v", err)
			default:
			}
		})
	}
}

// TestNoServiceLeft: the bot ends when the last chat service refuses it, and says why
// of each.
func TestNoServiceLeft(t *testing.T) {
	t.Parallel()
	w := newPaced(t)
	w.fake.Revoke("account_inactive")
	other := newDiscord(t)
	w.bot(t, other.settings()...)
	w.until("Discord is served", func() bool { return len(other.Commands("")) > 0 && other.Gateway().Ready() })
	other.ResetToken()
	other.Gateway().Cut()
	select {
	case err := <-w.app.Failed():
		require.ErrorIs(t, err, slack.ErrRefused)
		require.ErrorIs(t, err, discord.ErrRefused)
		require.ErrorContains(t, err, "slack.bot_token is not valid (account_inactive)")
		require.ErrorContains(t, err, "discord.token is not valid")
	case <-time.After(3 * time.Minute):
		t.Fatal("the bot goes on")
	}
}

// onDiscord is a Discord to which the bot has a token, too.
type onDiscord struct{ *discordfake.Server }

func newDiscord(t *testing.T) onDiscord {
	t.Helper()
	s := discordfake.New(discordfake.Options{})
	t.Cleanup(s.Close)
	return onDiscord{s}
}

func (d onDiscord) settings() []string {
	return []string{"COUNTERSIGN_DISCORD_TOKEN=" + d.Token(), "COUNTERSIGN_DISCORD_API_URL=" + d.URL(), "COUNTERSIGN_DISCORD_GATEWAY_URL=" + d.GatewayURL()}
}

// session is one from the command to the answer.
func (d onDiscord) session(w *paced) {
	w.t.Helper()
	w.until("Discord is served", func() bool { return len(d.Commands("")) > 0 && d.Gateway().Ready() })
	_, err := d.Slash(discordfake.Ada, discordfake.General, "agent run", map[string]any{"task": "echo hello"})
	require.NoError(w.t, err)
	w.until("the answer", func() bool {
		for _, thread := range d.Threads(discordfake.General) {
			for _, m := range d.Messages(thread.ID) {
				if strings.Contains(m.Content, "Done.") {
					return true
				}
			}
		}
		return false
	})
}

// logged are the lines of a log.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// with are the lines of a level whose message holds text.
func (l *logged) with(level, text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for line := range strings.Lines(l.text.String()) {
		var entry struct{ Level, Msg string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Level == level && strings.Contains(entry.Msg, text) {
			found = append(found, line)
		}
	}
	return found
}

// TestBackfillIsTheSettings: the adapters have no default of their own.
func TestBackfillIsTheSettings(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{"": 6 * time.Hour, "0": 0, "-1s": -time.Second, "2h": 2 * time.Hour} {
		flags := map[string]string{"slack.backfill": value, "discord.backfill": value}
		if value == "" {
			flags = nil
		}
		c, err := config.Load(config.Sources{Embedded: true, Flags: flags})
		require.NoError(t, err)
		require.Equal(t, want, botapp.SlackConfig(c).Backfill)
		require.Equal(t, want, botapp.DiscordConfig(c).Backfill)
	}
}
