package botapp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/slack"
	"github.com/countersign/countersign/internal/config"
	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/telemetry"
)

// connectRetry is the pause between two attempts to reach a chat service at start.
const connectRetry = 5 * time.Second

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

func (a *App) startSlack(ctx, run context.Context, sessions *control.Client) error {
	var names []string
	for _, b := range backends(a.Config) {
		names = append(names, b.Name)
	}
	app, err := a.connectSlack(ctx, slack.Deps{
		Sessions: sessions, Views: sessions, Board: sessions, Blobs: a.store, Backends: names, Workspaces: a.Config.Workspaces.Names(),
		Allow: a.allow(sessions), Mask: a.Config.Mask(), Outputs: a.outputs, Log: a.Log,
	})
	if err != nil {
		return err
	}
	post, edit := app.Queues()
	a.pace(ctx, sessions, post, control.Pace{PerKey: slack.PostsPerSecond})
	a.pace(ctx, sessions, edit, control.Pace{Queue: slack.EditsPerMinute / 60})
	delivery := &chat.Delivery{Poster: app.Poster(), Views: sessions, Blobs: a.store, Mask: a.Config.Mask(), Log: a.Log}
	for _, queue := range []string{post, edit} {
		if err := a.serve(queue, 1, delivery); err != nil {
			return err
		}
	}
	a.run.Go(func() {
		if err := app.Run(run); err != nil {
			a.fail(fmt.Errorf("slack: %w", err))
		}
	})
	return nil
}

// connectSlack tries until Slack answers, or refuses.
func (a *App) connectSlack(ctx context.Context, deps slack.Deps) (*slack.App, error) {
	for {
		app, err := slack.Connect(ctx, SlackConfig(a.Config), deps)
		if err == nil || errors.Is(err, slack.ErrRefused) {
			return app, err
		}
		a.Log.Warn("Slack does not answer yet", telemetry.KeyError, err)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(connectRetry):
		}
	}
}

// pace sets a queue's rate. Without it the chat service's own answers pace the
// bot, which is slower and less fair.
func (a *App) pace(ctx context.Context, sessions *control.Client, queue string, p control.Pace) {
	if err := sessions.SetPace(ctx, a.Config.Temporal.Namespace, queue, p); err != nil {
		a.Log.Warn("The server cannot pace a chat queue", telemetry.KeyTaskQueue, queue, telemetry.KeyError, err)
	}
}
