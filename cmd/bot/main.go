// Command bot is the chat side of Countersign: it receives events from chat
// services and brings threads up to date. It connects to any Temporal server.
package main

import (
	"context"
	"os"

	"github.com/countersign/countersign/cmd/internal/botapp"
	"github.com/countersign/countersign/cmd/internal/process"
)

const description = `The chat side of Countersign: chat services and the web chat.

It connects to Temporal as TEMPORAL_ADDRESS and its kin say. On the data directory of a running cmd/dev it takes that
one's settings and serves its web chat.

The flags of the default command: bot run --help.`

type cli struct {
	Run    runCmd    `cmd:"" default:"withargs" help:"Serve the chat services whose tokens are set (the default)."`
	Doctor doctorCmd `cmd:"" help:"Look at the set-up of the chat services, and say what to fix. Nothing is posted."`
	Policy policyCmd `cmd:"" help:"Look at what the gate makes of commands."`
	Audit  auditCmd  `cmd:"" help:"Look at the record of what was asked, decided and run."`
}

type runCmd struct {
	process.Flags
}

func main() {
	os.Exit(process.Main("bot", description, &cli{}, process.OSEnv()))
}

// Run serves until ctx ends.
func (c *runCmd) Run(ctx context.Context, e *process.Env) error {
	return c.Connected(ctx, e, nil, func(ctx context.Context, p process.Connected) (process.Service, error) {
		token := p.Config.Web.Token
		if p.FromDev {
			var err error
			if token, err = p.Dir.WebToken(token); err != nil {
				return nil, err
			}
		}
		return botapp.Start(ctx, botapp.Options{
			Config: p.Config, Client: p.Client, Dir: p.Dir, Log: p.Log, Dev: p.FromDev, WebToken: token,
		})
	})
}
