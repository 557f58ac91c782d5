package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/countersign/countersign/cmd/internal/botapp"
	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/discord"
	"github.com/countersign/countersign/internal/chat/slack"
)

// doctorCmd is `doctor`.
type doctorCmd struct {
	process.Flags
	JSON bool `help:"Print one JSON array." name:"json"`
}

// Run looks at the chat services whose tokens are set; it exits with 1 when a
// check fails. It posts nothing.
func (c *doctorCmd) Run(ctx context.Context, e *process.Env) error {
	cfg, _, err := c.Load(e, nil)
	if err != nil {
		return err
	}
	checks := []chat.Check{}
	if cfg.Slack.BotToken.IsSet() {
		checks = append(checks, slack.Doctor(ctx, botapp.SlackConfig(cfg), nil)...)
	}
	if cfg.Discord.Token.IsSet() {
		checks = append(checks, discord.Doctor(ctx, botapp.DiscordConfig(cfg), nil)...)
	}
	if len(cfg.Approvals.All()) == 0 {
		checks = append(checks, chat.Check{
			Name: "approvers", State: chat.CheckWarning, Text: "Nobody may approve, so every risky call is refused.",
			Fix: "Set approvals.approvers to IDs or groups.",
		})
	}
	if !cfg.Slack.BotToken.IsSet() && !cfg.Discord.Token.IsSet() && len(cfg.Web.Tokens) == 0 {
		checks = append(checks, chat.Check{
			Name: "chat services", State: chat.CheckFailed, Text: "No chat service is set up.",
			Fix: "Set slack.bot_token and slack.app_token, discord.token, or web.tokens for the browser chat.",
		})
	}
	return c.report(e, checks)
}

func (c *doctorCmd) report(e *process.Env, checks []chat.Check) error {
	failed := false
	for _, x := range checks {
		failed = failed || x.State == chat.CheckFailed
		if c.JSON {
			continue
		}
		_, _ = fmt.Fprintf(e.Stdout, "%-8s %s: %s\n", x.State, x.Name, x.Text)
		if x.Fix != "" {
			_, _ = fmt.Fprintf(e.Stdout, "         %s\n", x.Fix)
		}
	}
	if c.JSON {
		if err := json.NewEncoder(e.Stdout).Encode(checks); err != nil {
			return fmt.Errorf("writing the checks: %w", err)
		}
	}
	if failed {
		return process.ExitError{Code: process.ExitFailed}
	}
	return nil
}
