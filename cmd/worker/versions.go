package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/internal/config"
	"github.com/countersign/countersign/internal/control"
)

// versionsCmd is `versions`: which code of workers runs sessions.
type versionsCmd struct {
	List listVersionsCmd `cmd:"" default:"withargs" help:"List the versions that workers were seen with, and how many sessions stay with each (the default)."`
	Use  useVersionCmd   `cmd:"" help:"Make a version the current one: sessions at rest move to it now, others at their turn's end."`
}

type listVersionsCmd struct {
	process.Flags
	JSON bool `help:"Print one JSON object a version." name:"json"`
}

// Run lists the versions.
func (c *listVersionsCmd) Run(ctx context.Context, e *process.Env) error {
	return c.Once(ctx, e, func(ctx context.Context, cfg *config.Config, t client.Client) error {
		all, err := control.Versions{Client: t, Namespace: cfg.Temporal.Namespace}.List(ctx)
		if err != nil {
			return err
		}
		if len(all) == 0 && !c.JSON {
			_, err := fmt.Fprintln(e.Stdout, "No worker with a build ID (worker.build_id) was seen.")
			return err
		}
		for _, v := range all {
			if err := c.print(e, v); err != nil {
				return fmt.Errorf("writing: %w", err)
			}
		}
		return nil
	})
}

func (c *listVersionsCmd) print(e *process.Env, v control.Version) error {
	if c.JSON {
		return json.NewEncoder(e.Stdout).Encode(v)
	}
	mark := ""
	if v.Current {
		mark = "  current"
	}
	_, err := fmt.Fprintf(e.Stdout, "%-30s %5d sessions and managers  since %s%s\n", v.BuildID, v.Pinned, v.Since.Format(time.DateTime), mark)
	return err
}

type useVersionCmd struct {
	process.Flags
	BuildID string        `arg:"" name:"build-id" help:"The version, which a worker must have been seen with."`
	Wait    time.Duration `help:"How long to wait for sessions to move. Those in a turn move at its end, whoever waits." default:"30s"`
}

// wakeEvery is how often what has not moved is woken again.
const wakeEvery = 2 * time.Second

// Run makes a version current and wakes what is pinned to others.
func (c *useVersionCmd) Run(ctx context.Context, e *process.Env) error {
	return c.Once(ctx, e, func(ctx context.Context, cfg *config.Config, t client.Client) error {
		v := control.Versions{Client: t, Namespace: cfg.Temporal.Namespace}
		if err := v.Use(ctx, c.BuildID); err != nil {
			return err
		}
		// What has just moved may not be listed where it is: none means none twice.
		for end, none := time.Now().Add(c.Wait), 0; ; {
			left, err := v.Wake(ctx, c.BuildID)
			if err != nil {
				return err
			}
			if none++; left > 0 {
				none = 0
			}
			if none == 2 || left == 0 && c.Wait == 0 {
				_, err = fmt.Fprintln(e.Stdout, "Current; nothing is left on another version.")
				return err
			}
			if time.Now().After(end) {
				_, err = fmt.Fprintf(e.Stdout, "Current; %d sessions and managers are still on another version. Leave its workers running until `worker versions` shows none.\n", left)
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(wakeEvery):
			}
		}
	})
}
