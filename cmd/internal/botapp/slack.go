package botapp

import (
	"context"
	"time"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/slack"
	"github.com/countersign/countersign/internal/config"
	"github.com/countersign/countersign/internal/control"
)

// SlackConfig is the adapter's configuration by the settings.
func SlackConfig(c *config.Config) slack.Config {
	return slack.Config{
		BotToken: c.Slack.BotToken, AppToken: c.Slack.AppToken, APIURL: c.Slack.APIURL,
		SigningSecret: c.Slack.SigningSecret, Mode: c.Slack.Mode, Listen: c.Slack.Listen,
		Channels: c.Slack.Channels, Starters: c.Slack.Starters, AllowGuests: c.Slack.AllowGuests,
		AllowExternal: c.Slack.AllowExternal, MentionsOnly: c.Slack.MentionsOnly, Backfill: c.Slack.Backfill,
		Approvers: c.Approvals.All(), Earlier: c.Slack.Earlier, Roots: c.Sandbox.Local.Roots,
	}
}

func (a *App) slackService(sessions *control.Client) service {
	deps := slack.Deps{
		Sessions: sessions, Views: sessions, Board: sessions, Blobs: a.store, Backends: a.backendNames(), Workspaces: a.Config.Workspaces.Names(),
		Allow: a.allow(sessions), Mask: a.Config.Mask(), Outputs: a.outputs, Log: a.Log,
	}
	connect := func(ctx context.Context, away time.Time, reach chat.Reach) (connection, error) {
		deps.Reach = reach
		set := SlackConfig(a.Config)
		set.Away = away
		app, err := slack.Connect(ctx, set, deps)
		if err != nil {
			return connection{}, err
		}
		post, edit := app.Queues()
		return connection{poster: app.Poster(), run: app.Run, queues: []pacedQueue{
			{post, control.Pace{PerKey: slack.PostsPerSecond}}, {edit, control.Pace{Queue: slack.EditsPerMinute / 60}},
		}}, nil
	}
	return service{name: "Slack", connect: connect, refused: slack.ErrRefused}
}
