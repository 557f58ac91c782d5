package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/cmd/internal/workerapp"
	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/config"
	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/sandbox/snapshot"
	"github.com/countersign/countersign/internal/workflows"
)

// gcCmd is `gc`.
type gcCmd struct {
	process.Flags
	DryRun bool          `help:"Only say what would be removed." name:"dry-run"`
	Grace  time.Duration `help:"Leave what was written within this time." default:"24h"`
	JSON   bool          `help:"Print one JSON object." name:"json"`
}

// collected is what --json prints.
type collected struct {
	DryRun bool  `json:"dry_run"`
	Blobs  int   `json:"blobs"`
	Bytes  int64 `json:"bytes"`
	Kept   int   `json:"kept"`
}

// Run collects once.
func (c *gcCmd) Run(ctx context.Context, e *process.Env) error {
	return c.Once(ctx, e, func(ctx context.Context, cfg *config.Config, t client.Client) (err error) {
		store, err := blob.Open(ctx, cfg.Blob.URL)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		done, err := workerapp.Collect(ctx, t, cfg.Temporal.Namespace, store, c.Grace, c.DryRun)
		if err != nil {
			return err
		}
		if c.JSON {
			return json.NewEncoder(e.Stdout).Encode(collected{c.DryRun, done.Blobs, done.Bytes, done.Kept})
		}
		what := "Removed"
		if c.DryRun {
			what = "Would remove"
		}
		_, err = fmt.Fprintf(e.Stdout, "%s %d blobs of %d bytes; %d stay.\n", what, done.Blobs, done.Bytes, done.Kept)
		return err
	})
}

// snapshotCmd is `snapshot`.
type snapshotCmd struct {
	Export exportCmd `cmd:"" help:"Write a session's newest snapshot as an OCI image layout, which tools for container images read."`
}

// exportCmd is `snapshot export`.
type exportCmd struct {
	process.Flags
	Session string `arg:"" help:"Workflow ID of the session, such as agent/slack/T1/C1/1700000000.000100; of the browser chat the thread's ID is enough. Or a snapshot's own reference, sha256:…" placeholder:"WORKFLOW-ID"`
	Dir     string `arg:"" help:"Directory to write to." placeholder:"DIR"`
}

// Run exports once.
func (c *exportCmd) Run(ctx context.Context, e *process.Env) error {
	return c.Once(ctx, e, func(ctx context.Context, cfg *config.Config, t client.Client) (err error) {
		store, err := blob.Open(ctx, cfg.Blob.URL)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		ref, err := c.reference(ctx, t)
		if err != nil {
			return err
		}
		if err := (&snapshot.Store{Blobs: store}).Export(ctx, ref, c.Dir); err != nil {
			return err
		}
		_, err = fmt.Fprintf(e.Stdout, "%s\n", ref)
		return err
	})
}

func (c *exportCmd) reference(ctx context.Context, t client.Client) (string, error) {
	if snapshot.IsRef(c.Session) {
		return c.Session, nil
	}
	id := c.Session
	if !strings.Contains(id, "/") {
		id = workflows.Thread{Platform: workflows.PlatformWeb, Team: workflows.WebTeam, ID: id}.WorkflowID()
	}
	b, err := control.New(t, nil).Boundary(ctx, id)
	if err == nil && b.Snapshot == "" {
		err = fmt.Errorf("%s has no snapshot yet", id)
	}
	return b.Snapshot, err
}
