package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/workflows"
)

// endedBack is how far back a look at what was cut short goes after the first one:
// longer than visibility is late.
const endedBack = time.Hour

// cutShortEvery is how often [CutShort.Watch] looks.
const cutShortEvery = 20 * time.Second

// CutShort finds sessions that have not ended by themselves: somebody has terminated or
// cancelled their workflow in Temporal, or it failed. It is as late as visibility is.
type CutShort struct {
	Client *Client
	// done are runs that were dealt with; whole: a look has gone all the way back.
	done  map[run]bool
	whole bool
}

// run is one run of a session's workflow.
type run struct{ workflowID, runID string }

// Watch looks until ctx ends, and tells failed about a look that did not end well: what
// it has missed is in the next one.
func (s *CutShort) Watch(ctx context.Context, deal func(ctx context.Context, workflowID string) error, failed func(error)) {
	tick := time.NewTicker(cutShortEvery)
	defer tick.Stop()
	for {
		if err := s.Look(ctx, deal); err != nil && ctx.Err() == nil {
			failed(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Look calls deal with every such session, again in the next look where it fails. The
// first look that ends well is at all that Temporal has, the later ones at the last hour.
func (s *CutShort) Look(ctx context.Context, deal func(ctx context.Context, workflowID string) error) error {
	filter := "WorkflowType = '" + workflows.WorkflowTypeAgent + "' AND ExecutionStatus IN ('Terminated', 'Failed', 'TimedOut', 'Canceled')"
	if s.whole {
		filter += " AND CloseTime >= '" + time.Now().Add(-endedBack).UTC().Format(time.RFC3339) + "'"
	}
	var runs []run
	err := s.Client.each(ctx, filter, func(w *workflowpb.WorkflowExecutionInfo) {
		runs = append(runs, run{idOf(w), w.GetExecution().GetRunId()})
	})
	if err != nil {
		return err
	}
	done := map[run]bool{}
	var failed []error
	for _, r := range runs {
		if done[r] = s.done[r]; done[r] {
			continue
		}
		if err := s.look(ctx, r.workflowID, deal); err != nil {
			failed = append(failed, err)
			continue
		}
		done[r] = true
	}
	s.done, s.whole = done, s.whole || len(failed) == 0
	return errors.Join(failed...)
}

// look leaves out what was reset since: it runs again.
func (s *CutShort) look(ctx context.Context, workflowID string, deal func(ctx context.Context, workflowID string) error) error {
	m, err := s.Client.Moment(ctx, workflowID)
	switch {
	case errors.Is(err, workflows.ErrNoSession), err == nil && !m.Closed:
		return nil
	case err != nil:
		return err
	}
	return deal(ctx, workflowID)
}

// TellEnded makes sure that a session's manager knows that it has ended, where it has
// without having said so, as one does that somebody terminates: from then on it counts
// as destroyed, and what is kept of it is kept for [workflows.KeepFor]. It reports
// whether the manager had to be told.
func (c *Client) TellEnded(ctx context.Context, workflowID string) (bool, error) {
	m, err := c.Moment(ctx, workflowID)
	if err != nil && !errors.Is(err, workflows.ErrNoSession) || err == nil && !m.Closed {
		return false, err
	}
	thread, err := workflows.ParseWorkflowID(workflowID)
	if err != nil {
		return false, nil // not a session's
	}
	row, err := c.row(ctx, thread.ManagerID(), workflowID)
	if err != nil || row == nil || row.Liveness == workflows.LivenessDestroyed {
		return false, err
	}
	b, err := c.Boundary(ctx, workflowID)
	if lost(err, m, time.Now()) {
		b, err = workflows.Boundary{
			WorkflowID: workflowID, Turn: row.Turn, Snapshot: row.Snapshot, Transcript: row.Transcript,
			Title: row.Title, Backend: row.Backend, Workspace: row.Workspace, Model: row.Model,
		}, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking %s for its last boundary: %w", workflowID, err)
	}
	err = c.signal(ctx, thread.ManagerID(), workflows.SignalUpdateSnapshotID, workflows.UpdateSnapshotID{
		Boundary: b, Liveness: workflows.LivenessDestroyed, Destroyed: true,
	})
	if errors.Is(err, workflows.ErrNoSession) {
		return false, nil // the manager was shut down
	}
	return err == nil, err
}

// ShowEnded has the thread of a session that was ended from outside say so, once for
// each such end: its workflow, which brings the thread up to date, does not any more.
func (c *Client) ShowEnded(ctx context.Context, workflowID string) error {
	m, err := c.Moment(ctx, workflowID)
	if errors.Is(err, workflows.ErrNoSession) || err == nil && m.How == "" {
		return nil
	}
	if err != nil {
		return err
	}
	id := workflows.EndedID(workflowID, m.Run)
	if _, err := c.Moment(ctx, id); !errors.Is(err, workflows.ErrNoSession) {
		return err // it is seen to
	}
	in, err := c.standing(ctx, workflowID, m)
	if err != nil || len(in.Messages) == 0 {
		return err
	}
	_, err = c.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: id, TaskQueue: workflows.TaskQueueReasoning, WorkflowTaskTimeout: workflows.TaskTimeout,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
	}, workflows.WorkflowTypeEnded, in)
	return translate("starting "+id, err)
}

// standing asks a session which messages of its thread are wrong now. Where it can not
// say, the header is.
func (c *Client) standing(ctx context.Context, workflowID string, m Moment) (workflows.EndedInput, error) {
	in, err := query[workflows.EndedInput](ctx, c, workflowID, workflows.QueryStanding)
	if !lost(err, m, time.Now()) {
		return in, err
	}
	thread, err := workflows.ParseWorkflowID(workflowID)
	if err != nil {
		return in, nil // not a session's
	}
	row, err := c.row(ctx, thread.ManagerID(), workflowID)
	if row == nil || err != nil {
		return in, err
	}
	return workflows.EndedInput{Thread: row.Thread, Messages: []workflows.Standing{{Key: workflows.HeaderKey, First: row.StartedAt}}}, nil
}

// headerOf is a session's header as far as its manager knows it.
func (c *Client) headerOf(ctx context.Context, workflowID string) (v workflows.MessageView, err error) {
	thread, err := workflows.ParseWorkflowID(workflowID)
	if err != nil {
		return v, err
	}
	row, err := c.row(ctx, thread.ManagerID(), workflowID)
	if err != nil {
		return v, err
	}
	if row == nil {
		return v, fmt.Errorf("%s has no session %s: %w", thread.ManagerID(), workflowID, workflows.ErrNoSession)
	}
	return workflows.MessageView{Key: workflows.HeaderKey, Kind: workflows.KindHeader, Version: 1, Header: &workflows.HeaderView{
		Title: row.Title, Backend: row.Backend, Workspace: row.Workspace, Model: row.Model, By: row.By, Parent: row.Parent,
	}}, nil
}

func (m Moment) cutShort(workflowID string) workflows.CutShort {
	return workflows.CutShort{WorkflowID: workflowID, How: m.How, At: m.ClosedAt}
}

// Destroyed reports whether a session's manager knows it as one that is over, also when
// Temporal does not have it any more.
func (c *Client) Destroyed(ctx context.Context, workflowID string) (bool, error) {
	thread, err := workflows.ParseWorkflowID(workflowID)
	if err != nil {
		return false, nil // not a session's
	}
	row, err := c.row(ctx, thread.ManagerID(), workflowID)
	return row != nil && row.Liveness == workflows.LivenessDestroyed, err
}

// lost reports that what a session knew can not be learned from it any more: Temporal
// does not have it, its run was ended before any worker had seen it, its history does
// not fit the workers' code, or nobody has answered for as long as a destroyed session's
// files are kept.
func lost(err error, m Moment, now time.Time) bool {
	var failed *serviceerror.QueryFailed
	var unseen *serviceerror.WorkflowNotReady
	return errors.Is(err, workflows.ErrNoSession) || errors.As(err, &failed) || m.Closed && errors.As(err, &unseen) ||
		err != nil && m.Closed && now.After(m.ClosedAt.Add(workflows.KeepFor))
}

// row is what a manager knows of a session; nil where it, or the manager, is not known.
func (c *Client) row(ctx context.Context, managerID, workflowID string) (*workflows.SessionRow, error) {
	for attempt := 1; ; attempt++ {
		row, err := c.findRow(ctx, managerID, workflowID)
		// What a manager has just replaced may be gone: it names something newer now.
		if !errors.Is(err, blob.ErrNotFound) || attempt == listAttempts {
			return row, err
		}
	}
}

func (c *Client) findRow(ctx context.Context, managerID, workflowID string) (*workflows.SessionRow, error) {
	page := workflows.ListSessions{Limit: 200}
	for {
		list, err := query[workflows.SessionList](ctx, c, managerID, workflows.QueryListSessions, page)
		if errors.Is(err, workflows.ErrNoSession) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("asking %s: %w", managerID, err)
		}
		for i := range list.Sessions {
			if list.Sessions[i].WorkflowID == workflowID {
				return &list.Sessions[i], nil
			}
		}
		if page.Before = list.Next; page.Before == "" {
			return c.savedRow(ctx, list, workflowID)
		}
	}
}

// savedRow is one that a manager has in its registry.
func (c *Client) savedRow(ctx context.Context, list workflows.SessionList, workflowID string) (*workflows.SessionRow, error) {
	if list.Archive == "" || c.registry == nil {
		return nil, nil
	}
	res, err := c.registry.Find(ctx, workflows.FindSessionInput{Archive: list.Archive, WorkflowID: workflowID})
	if err != nil || !res.Found {
		return nil, err
	}
	for _, change := range list.Changes {
		if change.WorkflowID == workflowID {
			change.Apply(&res.Row)
		}
	}
	return &res.Row, nil
}
