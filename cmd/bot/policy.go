package main

import (
	"errors"
	"fmt"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/internal/policy/policycmd"
)

// policyCmd is `policy`.
type policyCmd struct {
	Check checkCmd `cmd:"" help:"Say what tier a command has, and why. Nothing is run."`
}

// checkCmd is `policy check`.
type checkCmd struct{ policycmd.Check }

// Run judges; bad flags and a bad policy are exit code 2.
func (c *checkCmd) Run(e *process.Env) error {
	err := c.Check.Run(policycmd.Streams{In: e.Stdin, Out: e.Stdout, Err: e.Stderr})
	var usage *policycmd.UsageError
	if errors.As(err, &usage) {
		_, _ = fmt.Fprintf(e.Stderr, "bot: %v\n", err)
		return process.ExitError{Code: process.ExitUsage}
	}
	return err
}
