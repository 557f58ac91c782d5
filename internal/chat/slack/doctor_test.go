package slack

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	type want map[string]string
	healthy := Config{BotToken: secret("xoxb-fake"), AppToken: secret("xapp-fake"), Approvers: []string{"platform-oncall", ada}}
	for name, c := range map[string]struct {
		fake   slackfake.Options
		change func(*Config, *slackfake.Server)
		want   want
		text   string
	}{
		"healthy":  {want: want{"bot token": chat.CheckOK, "app token": chat.CheckOK, "team": chat.CheckOK, "scopes": chat.CheckOK, "clock": chat.CheckOK, "approvers": chat.CheckOK, "connection": chat.CheckOK}},
		"clock":    {fake: slackfake.Options{Ahead: 10*time.Minute + 3*time.Second}, want: want{"clock": chat.CheckWarning}, text: "This machine's clock is 10 m "},
		"revoked":  {change: func(_ *Config, s *slackfake.Server) { s.Revoke("account_inactive") }, want: want{"team": chat.CheckFailed}, text: "not valid (account_inactive)"},
		"no token": {change: func(c *Config, _ *slackfake.Server) { c.BotToken = secret("") }, want: want{"bot token": chat.CheckFailed, "app token": chat.CheckOK}, text: "xoxb-"},
		"swapped":  {change: func(c *Config, _ *slackfake.Server) { c.BotToken, c.AppToken = c.AppToken, c.BotToken }, want: want{"bot token": chat.CheckFailed, "app token": chat.CheckFailed, "team": chat.CheckFailed, "connection": chat.CheckFailed}, text: "swapped"},
		"invalid":  {change: func(c *Config, _ *slackfake.Server) { c.BotToken = secret("xoxb-old") }, want: want{"team": chat.CheckFailed}, text: "OAuth & Permissions"},
		"scopes":   {fake: slackfake.Options{Scopes: []string{"chat:write", "usergroups:read"}}, want: want{"scopes": chat.CheckFailed}, text: "app_mentions:read"},
		"no group": {change: func(c *Config, _ *slackfake.Server) { c.Approvers = []string{"nobody-knows"} }, want: want{"approvers": chat.CheckFailed}, text: "nobody-knows"},
		"empty group": {change: func(c *Config, s *slackfake.Server) {
			s.AddGroup(slackfake.Group{ID: "S0EMPTY001", Handle: "empty"})
			c.Approvers = []string{"empty"}
		}, want: want{"approvers": chat.CheckWarning}},
		"no approvers": {change: func(c *Config, _ *slackfake.Server) { c.Approvers = nil }, want: want{"approvers": chat.CheckWarning}, text: "risky commands are refused"},
		"groups down": {change: func(_ *Config, s *slackfake.Server) {
			s.Fail("usergroups.list", slackfake.Failure{Code: "paid_teams_only"})
		}, want: want{"approvers": chat.CheckFailed}, text: "paid plan"},
		"org-wide": {fake: slackfake.Options{OrgWide: true}, want: want{"team": chat.CheckFailed}, text: "whole organisation"},
		"no connection": {change: func(_ *Config, s *slackfake.Server) {
			s.Fail("apps.connections.open", slackfake.Failure{Code: "missing_scope"})
		}, want: want{"connection": chat.CheckFailed}, text: "connections:write"},
		"unreachable": {change: func(c *Config, _ *slackfake.Server) { c.APIURL = "http://127.0.0.1:1/api/" }, want: want{"team": chat.CheckFailed, "connection": chat.CheckFailed}, text: "reachable from here"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := slackfake.New(c.fake)
			defer f.Close()
			f.AddGroup(slackfake.Group{ID: "S0ONCALL01", Handle: "platform-oncall", Users: []string{grace}})
			cfg := healthy
			cfg.APIURL = f.URL()
			if c.change != nil {
				c.change(&cfg, f)
			}
			got, all := want{}, ""
			for _, ch := range Doctor(t.Context(), cfg, nil) {
				got[ch.Name] = ch.State
				all += ch.Text + " " + ch.Fix + "\n"
				if ch.State == chat.CheckFailed {
					require.NotEmpty(t, ch.Fix, "what failed says what to do: %s", ch.Text)
				}
			}
			for check, state := range c.want {
				require.Equal(t, state, got[check], "%s\n%s", check, all)
			}
			if c.want["connection"] == chat.CheckOK {
				require.Len(t, got, len(c.want))
			}
			require.Contains(t, all, c.text)
			require.NotContains(t, all, "xoxb-fake")
			require.Empty(t, f.Messages(general), "doctor posts nothing")
		})
	}
}
