package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/sdk/client"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/internal/audit"
	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/config"
	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/workflows"
)

// auditCmd is `audit`.
type auditCmd struct {
	Verify verifyCmd `cmd:"" help:"Read a session's audit record and say whether it is whole."`
}

// verifyCmd is `audit verify`.
type verifyCmd struct {
	process.Flags
	JSON    bool   `help:"Print one JSON object." name:"json"`
	Session string `arg:"" help:"Workflow ID of the session, such as agent/slack/T1/C1/1700000000.000100; of the browser chat the thread's ID is enough." placeholder:"WORKFLOW-ID"`
}

// Run verifies one record: exit code 0 when it is whole, 1 when it is not, with
// what is wrong.
func (c *verifyCmd) Run(ctx context.Context, e *process.Env) error {
	if !strings.Contains(c.Session, "/") {
		c.Session = workflows.Thread{Platform: workflows.PlatformWeb, Team: workflows.WebTeam, ID: c.Session}.WorkflowID()
	}
	if _, err := workflows.ParseWorkflowID(c.Session); err != nil {
		return err
	}
	var report audit.Report
	err := c.Once(ctx, e, func(ctx context.Context, cfg *config.Config, t client.Client) error {
		store, err := blob.Open(ctx, cfg.Blob.URL)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		head, err := control.New(t, nil).AuditHead(ctx, c.Session)
		if err != nil {
			return err
		}
		if head.Unwritten > 0 {
			return fmt.Errorf("%d entries of the session are not written yet; try again in a moment", head.Unwritten)
		}
		report = audit.Verify(ctx, store, c.Session, head.Chain)
		return nil
	})
	if err != nil {
		return err
	}
	if err := c.print(e, report); err != nil {
		return err
	}
	if !report.OK() {
		return process.ExitError{Code: process.ExitFailed}
	}
	return nil
}

func (c *verifyCmd) print(e *process.Env, r audit.Report) error {
	if c.JSON {
		return json.NewEncoder(e.Stdout).Encode(r)
	}
	for _, p := range r.Problems {
		if _, err := fmt.Fprintf(e.Stdout, "entry %d: %s\n", p.Seq, p.What); err != nil {
			return err
		}
	}
	word := "whole"
	if !r.OK() {
		word = "NOT whole"
	}
	_, err := fmt.Fprintf(e.Stdout, "The record of %s is %s: %d of %d entries are as they were written.\n", r.WorkflowID, word, r.Entries, r.Head.Seq)
	return err
}
