package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/cmd/internal/workerapp"
	"github.com/countersign/countersign/internal/sandbox/local"
)

// doctorCmd is `doctor`.
type doctorCmd struct {
	process.Flags
	JSON bool `help:"Print one JSON array." name:"json"`
}

// Run tries out how commands are confined on this machine, in a directory of its own;
// it exits with 1 where none would run. It needs no Temporal server.
func (c *doctorCmd) Run(ctx context.Context, e *process.Env) (err error) {
	cfg, _, err := c.Load(e, nil)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	dir, err := os.MkdirTemp("", "countersign-doctor")
	if err != nil {
		return fmt.Errorf("making a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b, err := local.New(ctx, workerapp.LocalConfig(cfg, dir, self, slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	var checks []process.Check
	for _, f := range b.Facts() {
		state := process.CheckOK
		if !f.OK {
			state = process.CheckWarning
		}
		checks = append(checks, process.Check{Name: f.Name, State: state, Text: f.Text})
	}
	if b.Refuses() != "" {
		checks[0].State = process.CheckFailed
	}
	return e.Report(checks, c.JSON)
}
