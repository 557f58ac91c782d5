package main

import (
	"context"
	"encoding/json"
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

// finding is what --json prints of each thing that was looked at.
type finding struct {
	Name string `json:"name"`
	// State is ok, warning (it holds in part, or not) or failed (no command runs).
	State string `json:"state"`
	Text  string `json:"text"`
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
	var found []finding
	for _, f := range b.Facts() {
		state := "ok"
		if !f.OK {
			state = "warning"
		}
		found = append(found, finding{f.Name, state, f.Text})
	}
	refused := b.Refuses() != ""
	if refused {
		found[0].State = "failed"
	}
	if c.JSON {
		err = json.NewEncoder(e.Stdout).Encode(found)
	} else {
		for _, f := range found {
			_, werr := fmt.Fprintf(e.Stdout, "%-8s %s: %s\n", f.State, f.Name, f.Text)
			err = errors.Join(err, werr)
		}
	}
	if err == nil && refused {
		return process.ExitError{Code: process.ExitFailed}
	}
	return err
}
