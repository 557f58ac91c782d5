package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/countersign/countersign/cmd/internal/botapp"
	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/discord"
	"github.com/countersign/countersign/internal/chat/slack"
	"github.com/countersign/countersign/internal/config"
)

// doctorCmd is `doctor`.
type doctorCmd struct {
	process.Flags
	JSON bool `help:"Print one JSON array." name:"json"`
}

// Run looks at the chat services whose tokens are set; it exits with 1 when a
// check fails. It posts nothing.
func (c *doctorCmd) Run(ctx context.Context, e *process.Env) error {
	cfg, fromDev, err := c.Load(e, nil)
	if err != nil {
		return err
	}
	checks := []chat.Check{}
	if cfg.Slack.BotToken.IsSet() {
		checks = append(checks, of("slack", slack.Doctor(ctx, botapp.SlackConfig(cfg), nil))...)
	}
	if cfg.Discord.Token.IsSet() {
		checks = append(checks, of("discord", discord.Doctor(ctx, botapp.DiscordConfig(cfg), nil))...)
	}
	if len(cfg.Approvals.All()) == 0 {
		checks = append(checks, chat.Check{
			Name: "approvers", State: chat.CheckWarning, Text: "Nobody may approve, so every risky call is refused.",
			Fix: "Set approvals.approvers to IDs or groups.",
		})
	}
	checks = append(checks, webChecks(cfg, fromDev)...)
	if !cfg.Slack.BotToken.IsSet() && !cfg.Discord.Token.IsSet() && len(cfg.Web.Tokens) == 0 && !fromDev {
		checks = append(checks, chat.Check{
			Name: "chat services", State: chat.CheckFailed, Text: "No chat service is set up.",
			Fix: "Set slack.bot_token and slack.app_token, discord.token, or web.tokens for the browser chat.",
		})
	}
	reported := make([]process.Check, len(checks))
	for i, x := range checks {
		reported[i] = process.Check(x)
	}
	return e.Report(reported, c.JSON)
}

// of names the chat service in its checks: both have a bot token.
func of(platform string, checks []chat.Check) []chat.Check {
	for i := range checks {
		checks[i].Name = platform + " " + checks[i].Name
	}
	return checks
}

// webChecks says whom the web chat is for, and where it is served.
func webChecks(cfg *config.Config, fromDev bool) []chat.Check {
	who := "everybody who has the token of the cmd/dev on this data directory"
	if !fromDev {
		names := slices.Sorted(maps.Keys(cfg.Web.People()))
		if len(names) == 0 {
			return nil
		}
		who = strings.Join(names, ", ")
	}
	at := "at " + cfg.Web.Listen
	if strings.HasSuffix(at, ":0") {
		at = "on a free port"
	}
	return []chat.Check{{Name: "web chat", State: chat.CheckOK, Text: "Served " + at + ", for " + who + "."}}
}
