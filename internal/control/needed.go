package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/countersign/countersign/internal/workflows"
)

// NeededSnapshots returns the references of all snapshots that somebody may still
// ask for: those of live sessions, of sessions about to start, and of destroyed
// ones for [workflows.KeepFor]. It asks every manager and every live session; that
// one of them does not answer is an error, for nothing may be removed on a guess.
func (c *Client) NeededSnapshots(ctx context.Context, now time.Time) ([]string, error) {
	n := &needed{c: c, now: now, asked: map[string]bool{}, refs: map[string]bool{}}
	managers, err := c.workflowIDs(ctx, "WorkflowType = '"+workflows.WorkflowTypeManager+"'")
	if err != nil {
		return nil, err
	}
	for _, id := range managers {
		if err := n.manager(ctx, id); err != nil {
			return nil, err
		}
	}
	if c.registry != nil {
		// Those of managers that were shut down, too.
		if err := c.registry.each(ctx, n.row); err != nil {
			return nil, err
		}
	}
	sessions, err := c.workflowIDs(ctx, "WorkflowType = '"+workflows.WorkflowTypeAgent+"' AND ExecutionStatus = 'Running'")
	if err != nil {
		return nil, err
	}
	for _, id := range sessions {
		if err := n.session(ctx, id, ""); err != nil {
			return nil, err
		}
	}
	refs := make([]string, 0, len(n.refs))
	for ref := range n.refs {
		refs = append(refs, ref)
	}
	slices.Sort(refs)
	return refs, nil
}

type needed struct {
	c     *Client
	now   time.Time
	asked map[string]bool // sessions
	refs  map[string]bool
}

func (n *needed) add(ref string) {
	if ref != "" {
		n.refs[ref] = true
	}
}

func (n *needed) manager(ctx context.Context, id string) error {
	page := workflows.ListSessions{Limit: 200}
	for {
		list, err := query[workflows.SessionList](ctx, n.c, id, workflows.QueryListSessions, page)
		if errors.Is(err, workflows.ErrNoSession) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("asking %s: %w", id, err)
		}
		for _, ref := range list.Needed {
			n.add(ref)
		}
		for _, row := range list.Sessions {
			if err := n.row(ctx, row); err != nil {
				return err
			}
		}
		if list.Next == "" {
			return nil
		}
		page.Before = list.Next
	}
}

func (n *needed) row(ctx context.Context, row workflows.SessionRow) error {
	if row.Liveness != workflows.LivenessDestroyed {
		return n.session(ctx, row.WorkflowID, row.Snapshot)
	}
	if row.EndedAt.IsZero() || n.now.Before(row.EndedAt.Add(workflows.KeepFor)) {
		n.add(row.Snapshot)
	}
	return nil
}

// session asks a live session. Of one that Temporal has no more, what its manager
// knows counts.
func (n *needed) session(ctx context.Context, id, known string) error {
	n.add(known)
	if n.asked[id] {
		return nil
	}
	n.asked[id] = true
	b, err := n.c.Boundary(ctx, id)
	if errors.Is(err, workflows.ErrNoSession) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("asking %s: %w", id, err)
	}
	n.add(b.Snapshot)
	n.add(b.Previous)
	return nil
}

// workflowIDs lists the workflows that visibility knows for a filter, each once.
func (c *Client) workflowIDs(ctx context.Context, filter string) ([]string, error) {
	seen := map[string]bool{}
	var ids []string
	var token []byte
	for {
		res, err := c.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: filter, NextPageToken: token})
		if err != nil {
			return nil, translate("listing workflows", err)
		}
		for _, w := range res.GetExecutions() {
			if id := idOf(w); !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
		if token = res.GetNextPageToken(); len(token) == 0 {
			return ids, nil
		}
	}
}

func idOf(w *workflowpb.WorkflowExecutionInfo) string { return w.GetExecution().GetWorkflowId() }
