package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/countersign/countersign/cmd/internal/botapp"
	"github.com/countersign/countersign/cmd/internal/process"
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
	checks := []slack.Check{}
	if cfg.Slack.BotToken.IsSet() {
		checks = slack.Doctor(ctx, botapp.SlackConfig(cfg), nil)
	}
	if len(cfg.Approvals.All()) == 0 {
		checks = append(checks, slack.Check{
			Name: "approvers", State: slack.CheckWarning, Text: "Nobody may approve, so every risky call is refused.",
			Fix: "Set approvals.approvers to IDs or groups.",
		})
	}
	if !cfg.Slack.BotToken.IsSet() && len(cfg.Web.Tokens) == 0 {
		checks = append(checks, slack.Check{
			Name: "chat services", State: slack.CheckFailed, Text: "No chat service is set up.",
			Fix: "Set slack.bot_token and slack.app_token, or web.tokens for the browser chat.",
		})
	}
	return c.report(e, checks)
}

func (c *doctorCmd) report(e *process.Env, checks []slack.Check) error {
	failed := false
	for _, x := range checks {
		failed = failed || x.State == slack.CheckFailed
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
