// Command worker is the agent side of Countersign: it runs the workflows, calls
// the model and runs commands in sandboxes. It connects to any Temporal server.
package main

import (
	"context"
	"os"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/cmd/internal/workerapp"
	"github.com/countersign/countersign/internal/sandbox/egress"
	"github.com/countersign/countersign/internal/sandbox/terminal"
)

const description = `The agent side of Countersign: workflows, model and sandboxes.

It connects to Temporal as TEMPORAL_ADDRESS and its kin say. On the data directory of a running cmd/dev it takes that
one's settings.

The flags of the default command: worker run --help.`

type cli struct {
	Run      runCmd      `cmd:"" default:"withargs" help:"Serve (the default)."`
	GC       gcCmd       `cmd:"" name:"gc" help:"Remove what no session needs any more of stored snapshots and uploads, and what destroyed sessions have left but for the record, as a running worker does from time to time."`
	Snapshot snapshotCmd `cmd:"" help:"Look at stored snapshots."`
	Versions versionsCmd `cmd:"" help:"Say which versions of workers there are, and which one is current."`
	Doctor   doctorCmd   `cmd:"" help:"Try out how commands are confined on this machine, and say what limits hold."`
	Spend    spendCmd    `cmd:"" help:"Say what a day's turns have cost, by who began them."`
}

type runCmd struct {
	process.Flags
	Model              string `help:"Model of new sessions; 'offline' needs no key (openai.model)." placeholder:"NAME"`
	ForceContinueAsNew int    `help:"For tests: continue sessions as new after every N steps." placeholder:"N"`
}

func main() {
	if egress.Forwarding(os.Args) { // started inside a sandbox
		os.Exit(egress.Forward(os.Args))
	}
	if terminal.Asked(os.Args) { // likewise
		os.Exit(terminal.Run(os.Args))
	}
	os.Exit(process.Main("worker", description, &cli{}, process.OSEnv()))
}

// Run serves until ctx ends.
func (c *runCmd) Run(ctx context.Context, e *process.Env) error {
	return c.Connected(ctx, e, map[string]string{"openai.model": c.Model}, func(ctx context.Context, p process.Connected) (process.Service, error) {
		return workerapp.Start(ctx, workerapp.Options{
			Config: p.Config, Client: p.Client, Dir: p.Dir, Log: p.Log, ForceContinueAsNew: c.ForceContinueAsNew,
		})
	})
}
