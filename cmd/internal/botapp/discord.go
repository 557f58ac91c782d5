package botapp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/discord"
	"github.com/countersign/countersign/internal/config"
	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/telemetry"
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

func (a *App) startDiscord(ctx, run context.Context, sessions *control.Client) error {
	var names []string
	for _, b := range backends(a.Config) {
		names = append(names, b.Name)
	}
	app, err := a.connectDiscord(ctx, discord.Deps{
		Sessions: sessions, Views: sessions, Blobs: a.store, Backends: names, Workspaces: a.Config.Workspaces.Names(), Allow: a.allow(sessions), Mask: a.Config.Mask(), Outputs: a.outputs, Log: a.Log,
	})
	if err != nil {
		return err
	}
	a.pace(ctx, sessions, app.Queue(), control.Pace{Queue: discord.CallsPerSecond, PerKey: discord.CallsPerSession})
	delivery := &chat.Delivery{Poster: app.Poster(), Views: sessions, Blobs: a.store, Mask: a.Config.Mask(), Log: a.Log}
	if err := a.serve(app.Queue(), 1, delivery); err != nil {
		return err
	}
	a.run.Go(func() {
		if err := app.Run(run); err != nil {
			a.fail(fmt.Errorf("discord: %w", err))
		}
	})
	return nil
}

// connectDiscord tries until Discord answers, or refuses.
func (a *App) connectDiscord(ctx context.Context, deps discord.Deps) (*discord.App, error) {
	for {
		app, err := discord.Connect(ctx, DiscordConfig(a.Config), deps)
		if err == nil || errors.Is(err, discord.ErrRefused) {
			return app, err
		}
		a.Log.Warn("Discord does not answer yet", telemetry.KeyError, err)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(connectRetry):
		}
	}
}
