package botapp

import (
	"context"
	"time"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/discord"
	"github.com/countersign/countersign/internal/config"
	"github.com/countersign/countersign/internal/control"
)

// DiscordConfig is the adapter's configuration by the settings.
func DiscordConfig(c *config.Config) discord.Config {
	return discord.Config{
		Token: c.Discord.Token, ApplicationID: c.Discord.ApplicationID, PublicKey: c.Discord.PublicKey, Listen: c.Discord.Listen,
		APIURL: c.Discord.APIURL, GatewayURL: c.Discord.GatewayURL, NoMessageContent: !c.Discord.MessageContent,
		MentionsOnly: c.Discord.MentionsOnly, Guilds: c.Discord.Guilds, Channels: c.Discord.Channels, Starters: c.Discord.Starters,
		AllowGuests: c.Discord.AllowGuests, Backfill: c.Discord.Backfill, Approvers: c.Approvals.All(), Roots: c.Sandbox.Local.Roots,
	}
}

func (a *App) discordService(sessions *control.Client) service {
	deps := discord.Deps{
		Sessions: sessions, Views: sessions, Blobs: a.store, Backends: a.backendNames(), Workspaces: a.Config.Workspaces.Names(),
		Allow: a.allow(sessions), Mask: a.Config.Mask(), Outputs: a.outputs, Log: a.Log,
	}
	connect := func(ctx context.Context, away time.Time, reach chat.Reach) (connection, error) {
		deps.Reach = reach
		set := DiscordConfig(a.Config)
		set.Away = away
		app, err := discord.Connect(ctx, set, deps)
		if err != nil {
			return connection{}, err
		}
		pace := control.Pace{Queue: discord.CallsPerSecond, PerKey: discord.CallsPerSession}
		return connection{poster: app.Poster(), run: app.Run, queues: []pacedQueue{{app.Queue(), pace}}}, nil
	}
	return service{name: "Discord", connect: connect, refused: discord.ErrRefused}
}
