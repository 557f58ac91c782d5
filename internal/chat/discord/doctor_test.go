package discord

import (
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest/discordfake"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fake   discordfake.Options
		change func(*Config, *discordfake.Server)
		want   map[string]string
		text   string
	}{
		"healthy": {want: map[string]string{
			"bot token": chat.CheckOK, "application": chat.CheckOK, "clock": chat.CheckOK, "intents": chat.CheckOK, "gateway": chat.CheckOK,
			"server Fake": chat.CheckOK, "server Fake approvers": chat.CheckOK, "invite link": chat.CheckOK,
		}, text: "https://discord.com/oauth2/authorize?client_id=" + discordfake.AppID},
		"no token":          {change: func(c *Config, _ *discordfake.Server) { c.Token = secret("") }, want: map[string]string{"bot token": chat.CheckFailed}, text: "not set"},
		"wrong token":       {change: func(c *Config, _ *discordfake.Server) { c.Token = secret("old") }, want: map[string]string{"bot token": chat.CheckFailed}, text: "page “Bot”"},
		"wrong application": {change: func(c *Config, _ *discordfake.Server) { c.ApplicationID = "1000000000000000099" }, want: map[string]string{"application": chat.CheckFailed}, text: discordfake.AppID},
		"no intent":         {fake: discordfake.Options{NoMessageContent: true}, want: map[string]string{"intents": chat.CheckFailed}, text: "Message Content Intent"},
		"without the intent": {fake: discordfake.Options{NoMessageContent: true}, change: func(c *Config, _ *discordfake.Server) { c.NoMessageContent = true },
			want: map[string]string{"intents": chat.CheckOK}, text: "only mentions and commands"},
		"no role": {change: func(c *Config, _ *discordfake.Server) { c.Approvers = []string{"nobody-knows"} }, want: map[string]string{"server Fake approvers": chat.CheckFailed}, text: "nobody-knows"},
		"two roles": {change: func(_ *Config, f *discordfake.Server) {
			f.AddRole(guild, discordfake.Role{ID: "1000000000000000042", Name: "platform-oncall"})
		}, want: map[string]string{"server Fake approvers": chat.CheckFailed}, text: "only one role has"},
		"silent role": {change: func(_ *Config, f *discordfake.Server) {
			f.AddRole(guild, discordfake.Role{ID: oncall, Name: "platform-oncall"})
			f.AddRole(guild, discordfake.Role{ID: guild, Name: "@everyone", Permissions: discordfake.Everyone &^ discordfake.MentionEveryone})
		}, want: map[string]string{"server Fake approvers": chat.CheckWarning}, text: "cannot notify platform-oncall"},
		"no permission": {fake: discordfake.Options{Permissions: discordfake.ViewChannel}, change: func(_ *Config, f *discordfake.Server) {
			f.AddRole(guild, discordfake.Role{ID: guild, Name: "@everyone", Permissions: discordfake.ViewChannel})
		}, want: map[string]string{"server Fake": chat.CheckFailed}, text: "Create Public Threads"},
		"not invited":           {change: func(_ *Config, f *discordfake.Server) { f.RemoveMember(guild, discordfake.BotUser) }, want: map[string]string{"servers": chat.CheckFailed}, text: "in no server"},
		"anybody may invite it": {fake: discordfake.Options{PublicBot: true}, want: map[string]string{"served servers": chat.CheckWarning}, text: "Public Bot"},
		"one server is served":  {change: func(c *Config, _ *discordfake.Server) { c.Guilds = []string{guild} }, want: map[string]string{"served servers": chat.CheckOK}, text: guild},
		"another server": {change: func(c *Config, _ *discordfake.Server) { c.Guilds = []string{"1000000000000000098"} },
			want: map[string]string{"servers": chat.CheckFailed}, text: "1000000000000000098"},
		"no approvers": {change: func(c *Config, _ *discordfake.Server) { c.Approvers = nil }, want: map[string]string{"server Fake approvers": chat.CheckWarning}, text: "risky commands are refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := discordfake.New(c.fake)
			t.Cleanup(f.Close)
			f.AddRole(guild, discordfake.Role{ID: oncall, Name: "platform-oncall", Mentionable: true})
			cfg := Config{Token: secret(f.Token()), APIURL: f.URL(), GatewayURL: f.GatewayURL(), Approvers: []string{"platform-oncall", ada}}
			if c.change != nil {
				c.change(&cfg, f)
			}
			got, all := map[string]string{}, ""
			for _, x := range Doctor(t.Context(), cfg, nil) {
				got[x.Name] = x.State
				all += x.Text + " " + x.Fix + "\n"
				if x.State != chat.CheckOK && x.Name != "gateway" {
					require.NotEmpty(t, x.Text)
				}
			}
			for check, state := range c.want {
				require.Equal(t, state, got[check], "%s\n%s", check, all)
			}
			require.Contains(t, all, c.text)
			require.NotContains(t, all, f.Token(), "no secret is printed")
		})
	}
}

func TestInviteAsksForWhatIsNeeded(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(Invite("1000000000000000001"))
	require.NoError(t, err)
	bits, err := strconv.ParseInt(u.Query().Get("permissions"), 10, 64)
	require.NoError(t, err)
	require.Empty(t, missing(bits))
	require.ElementsMatch(t, []string{"bot", "applications.commands"}, strings.Fields(u.Query().Get("scope")))
}
