// Command dev runs all of Countersign in one process, on a Temporal server of
// its own: the default on a laptop.
package main

import (
	"os"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/internal/sandbox/egress"
	"github.com/countersign/countersign/internal/sandbox/terminal"
)

const description = `Countersign on one machine: Temporal, worker, bot and web chat in one process.

All state is in the data directory; stop it however you like, threads go on at the next start.

The flags of the default command: dev run --help.`

type cli struct {
	Run   runCmd   `cmd:"" default:"withargs" help:"Run until stopped (the default)."`
	Bench benchCmd `cmd:"" help:"Measure, as ratios to a yardstick of the same run."`
	Smoke smokeCmd `cmd:"" help:"Start everything, run the main job once, stop, and say whether it worked."`
	Eval  evalCmd  `cmd:"" help:"Give a real model a handful of small tasks, and check what it did."`
	Chaos chaosCmd `cmd:"" help:"Kill parts at random while people use it, and check that nothing was lost and nothing happened twice."`

	Defective defectiveCmd `cmd:"" hidden:"" help:"A part with a planted defect, for chaos."`
}

func main() {
	if egress.Forwarding(os.Args) { // started inside a sandbox
		os.Exit(egress.Forward(os.Args))
	}
	if terminal.Asked(os.Args) { // likewise
		os.Exit(terminal.Run(os.Args))
	}
	os.Exit(process.Main("dev", description, &cli{}, process.OSEnv()))
}
