package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/internal/agent"
	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/workflows"
)

// spendCmd is `spend`: what a day's turns have cost, by who began them.
type spendCmd struct {
	process.Flags
	Day  string `help:"The day in UTC, such as 2026-11-30; today by default." placeholder:"DATE"`
	JSON bool   `help:"Print one JSON object a session instead of a line a person." name:"json"`
}

// Run reads the blob store; it needs no Temporal server.
func (c *spendCmd) Run(ctx context.Context, e *process.Env) error {
	day := time.Now().UTC()
	if c.Day != "" {
		var err error
		if day, err = time.Parse(time.DateOnly, c.Day); err != nil {
			return fmt.Errorf("--day: %q is not a date such as 2026-11-30", c.Day)
		}
	}
	cfg, _, err := c.Load(e, nil)
	if err != nil {
		return err
	}
	store, err := blob.Open(ctx, cfg.Blob.URL)
	if err != nil {
		return err
	}
	spent, err := agent.SpentOn(ctx, store, day.Format(time.DateOnly))
	if err := errors.Join(err, store.Close()); err != nil {
		return err
	}
	if c.JSON {
		for _, s := range spent {
			if err := json.NewEncoder(e.Stdout).Encode(s); err != nil {
				return fmt.Errorf("writing: %w", err)
			}
		}
		return nil
	}
	return c.print(e, day, spent)
}

func (c *spendCmd) print(e *process.Env, day time.Time, spent []agent.Spend) error {
	type total struct {
		who      string
		sessions int
		usage    workflows.Usage
	}
	var totals []total
	for _, s := range spent {
		i := slices.IndexFunc(totals, func(t total) bool { return t.who == s.Person })
		if i < 0 {
			totals = append(totals, total{who: s.Person})
			i = len(totals) - 1
		}
		totals[i].sessions++
		totals[i].usage = totals[i].usage.Add(s.Usage)
	}
	slices.SortFunc(totals, func(a, b total) int {
		return cmp.Or(cmp.Compare(b.usage.Micros, a.usage.Micros), cmp.Compare(a.who, b.who))
	})
	if len(totals) == 0 {
		_, err := fmt.Fprintf(e.Stdout, "Nothing was spent on %s.\n", day.Format(time.DateOnly))
		return err
	}
	for _, t := range totals {
		u := t.usage
		if _, err := fmt.Fprintf(e.Stdout, "%-24s %3d sessions  %5d calls  %9d tokens (%d cached)  $%.2f\n",
			t.who, t.sessions, u.Calls, u.Input+u.Output, u.Cached, float64(u.Micros)/1e6); err != nil {
			return err
		}
	}
	return nil
}
