package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/sync/errgroup"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/workflows"
)

// Needed is what somebody may still ask the blob store for.
type Needed struct {
	// Snapshots are references of those of live sessions, of sessions about to start,
	// and of destroyed ones for [workflows.KeepFor].
	Snapshots []string
	// Ended are sessions that run no more, while their managers may not know that; see
	// [Client.TellEnded].
	Ended   []string
	files   map[string]bool
	over    map[string]bool
	sources map[string]bool
	// unknown: there is a session of which nobody knows what it was made from.
	unknown bool
}

// Arriving tells of a file that came with a message, or of a message's long text, by
// its ID, whether no model was given that message yet.
func (n *Needed) Arriving(id string) bool { return n.files[id] }

// Over tells of a workflow ID whether it is that of a session whose own blobs nobody
// asks for any more: one that was destroyed [workflows.KeepFor] ago. Of what nobody
// knows it says false.
func (n *Needed) Over(workflowID string) bool { return n.over[workflowID] }

// Inherited tells of a workflow ID whether a session that is not over may have been
// made from that one, directly or not, so that its conversation begins there.
func (n *Needed) Inherited(workflowID string) bool { return n.unknown || n.sources[workflowID] }

// overAfter is how long after [workflows.KeepFor] a destroyed session is over: the
// manager that took its last copy may go by another clock.
const overAfter = time.Hour

// Needed asks every manager, and every live session that has done anything since it
// was asked last: that is remembered in the blob store. That one of them does not
// answer is an error, for nothing may be removed on a guess.
func (c *Client) Needed(ctx context.Context, now time.Time) (*Needed, error) {
	n := &needs{
		c: c, now: now, live: map[string]bool{}, ended: map[string]bool{}, parents: map[string]string{}, opening: map[string]bool{},
		snapshots: map[string]bool{}, files: map[string]bool{},
	}
	// Before the managers are asked: they know all that have started by then.
	running, err := c.workflowIDs(ctx, "WorkflowType = '"+workflows.WorkflowTypeAgent+"' AND ExecutionStatus = 'Running'")
	if err != nil {
		return nil, err
	}
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
		err := c.registry.each(ctx, func(_ context.Context, row workflows.SessionRow) error { n.row(row); return nil })
		if err != nil {
			return nil, err
		}
	}
	for _, id := range running {
		n.live[id] = true
	}
	if err := n.ask(ctx); err != nil {
		return nil, err
	}
	out := &Needed{files: n.files, over: map[string]bool{}}
	for id := range n.ended {
		out.over[id] = !n.live[id]
	}
	out.sources, out.unknown = n.inherited(out.over)
	for ref := range n.snapshots {
		out.Snapshots = append(out.Snapshots, ref)
	}
	slices.Sort(out.Snapshots)
	out.Ended = n.closed
	slices.Sort(out.Ended)
	return out, nil
}

// needs is what is known so far.
type needs struct {
	c   *Client
	now time.Time
	// live are sessions to ask, ended those that were destroyed long enough ago.
	live, ended map[string]bool
	// parents are what sessions were made from, of all that have a row, empty for
	// nothing; opening are sessions about to start.
	parents map[string]string
	opening map[string]bool
	// sources are those of sessions about to start.
	sources []string

	mu               sync.Mutex
	snapshots, files map[string]bool
	// closed are those of live that run no more.
	closed []string
}

func (n *needs) manager(ctx context.Context, id string) error {
	page := workflows.ListSessions{Limit: 200}
	for {
		list, err := query[workflows.SessionList](ctx, n.c, id, workflows.QueryListSessions, page)
		if errors.Is(err, workflows.ErrNoSession) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("asking %s: %w", id, err)
		}
		n.add(workflows.Needs{Snapshots: list.Needed, Files: list.Files})
		n.sources = append(n.sources, list.Sources...)
		for _, id := range list.Opening {
			n.opening[id] = true
		}
		for _, row := range list.Sessions {
			n.row(row)
		}
		if list.Next == "" {
			return nil
		}
		page.Before = list.Next
	}
}

// row takes what a manager knows of a session. What it knows of a live one's files
// may be old, and counts if Temporal has that session no more.
func (n *needs) row(row workflows.SessionRow) {
	n.parents[row.WorkflowID] = row.Parent
	switch {
	case row.Liveness != workflows.LivenessDestroyed:
		n.live[row.WorkflowID] = true
	case !row.EndedAt.IsZero() && !n.now.Before(row.EndedAt.Add(workflows.KeepFor+overAfter)):
		n.ended[row.WorkflowID] = true
		return
	}
	n.add(workflows.Needs{Snapshots: []string{row.Snapshot}})
}

// inherited are the sessions from which those that are not over were made, directly or
// not. unknown: one runs of which no manager knows, so nobody can tell.
func (n *needs) inherited(over map[string]bool) (sources map[string]bool, unknown bool) {
	sources = map[string]bool{}
	mark := func(id string) {
		for ; id != "" && !sources[id]; id = n.parents[id] {
			sources[id] = true
		}
	}
	for id, parent := range n.parents {
		if !over[id] {
			mark(parent)
		}
	}
	for _, id := range n.sources {
		mark(id)
	}
	for id := range n.live {
		if _, known := n.parents[id]; !known && !n.opening[id] {
			unknown = true
		}
	}
	return sources, unknown
}

func (n *needs) end(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = append(n.closed, id)
}

func (n *needs) add(more workflows.Needs) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, ref := range more.Snapshots {
		if ref != "" {
			n.snapshots[ref] = true
		}
	}
	for _, id := range more.Files {
		n.files[id] = true
	}
}

const (
	// askedAtOnce is how many sessions are asked at once. A worker reads each from its
	// history, and has its own work besides.
	askedAtOnce = 8
	// askAttempts and askWithin bound the wait for one session's answer.
	askAttempts = 3
	askWithin   = 10 * time.Second
	// maxUnanswered is how many sessions may give no answer until the others are not
	// asked either.
	maxUnanswered = 5
)

// ask asks the live sessions. What those answer that do is remembered also where
// others do not.
func (n *needs) ask(ctx context.Context) error {
	var parts [shards][]string
	for id := range n.live {
		k := shardOf(id)
		parts[k] = append(parts[k], id)
	}
	var unanswered []error
	for k, ids := range parts {
		errs, err := n.askPart(ctx, k, ids)
		if err != nil {
			return err
		}
		if unanswered = append(unanswered, errs...); len(unanswered) > maxUnanswered {
			break
		}
	}
	return errors.Join(unanswered...)
}

// askPart asks those sessions that fall into one part of what is remembered, and
// remembers their answers.
func (n *needs) askPart(ctx context.Context, k int, ids []string) (unanswered []error, err error) {
	before, err := n.remembered(ctx, k)
	if err != nil {
		return nil, err
	}
	after, changed := map[string]answer{}, len(before) != len(ids)
	var mu sync.Mutex
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(askedAtOnce)
	for _, id := range ids {
		g.Go(func() error {
			a, err := n.session(gctx, id, before[id])
			if errors.Is(err, workflows.ErrNoSession) {
				n.end(id)
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, workflows.ErrUnconfirmed) && gctx.Err() == nil && len(unanswered) < maxUnanswered:
				unanswered = append(unanswered, fmt.Errorf("asking %s: %w", id, err))
				return nil
			case err != nil:
				return fmt.Errorf("asking %s: %w", id, err)
			}
			changed = changed || a.At != before[id].At
			after[id] = a
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if changed {
		err = n.remember(ctx, k, after)
	}
	return unanswered, err
}

// session is what a session needs: what it said last, unless something has happened
// in it since.
func (n *needs) session(ctx context.Context, id string, last answer) (answer, error) {
	m, err := n.c.Moment(ctx, id)
	if err != nil {
		return answer{}, err
	}
	if m.Closed {
		n.end(id)
	}
	if last.At != m.At {
		said := last.Needs
		// The answer may be newer than the moment; then it is asked for again next time.
		last = answer{At: m.At}
		for attempt := 1; ; attempt++ {
			last.Needs, err = queryWithin[workflows.Needs](ctx, n.c, askWithin, id, workflows.QueryNeeds)
			if !errors.Is(err, workflows.ErrUnconfirmed) || attempt == askAttempts || ctx.Err() != nil {
				break
			}
		}
		if err != nil && m.Closed && lost(err, m, n.now) {
			last.Needs, err = said, nil
		}
		if err == nil {
			err = n.open(ctx, &last.Needs)
		}
		if err != nil {
			return answer{}, err
		}
	}
	n.add(last.Needs)
	return last, nil
}

// open puts the files of stashed messages beside the others.
func (n *needs) open(ctx context.Context, needs *workflows.Needs) error {
	if n.c.registry == nil && len(needs.Stashed) > 0 {
		return errors.New("there is no blob store to read waiting messages from")
	}
	for _, ref := range needs.Stashed {
		data, err := n.c.registry.Store.Get(ctx, ref)
		if errors.Is(err, blob.ErrNotFound) {
			continue // taken meanwhile, or lost: the session says so
		}
		if err != nil {
			return fmt.Errorf("reading waiting messages: %w", err)
		}
		var messages []workflows.Message
		if err := json.Unmarshal(data, &messages); err != nil {
			return fmt.Errorf("decoding waiting messages: %w", err)
		}
		needs.Files = append(needs.Files, workflows.FilesOf(messages...)...)
	}
	needs.Stashed = nil
	return nil
}

// answer is what a session has said that it needs.
type answer struct {
	// At is the moment before which it said so: the run and the length of its history,
	// from which all that a session knows follows.
	At    string          `json:"at"`
	Needs workflows.Needs `json:"needs"`
}

// answersKey names a part of what is remembered, by what the answers say: older ones
// without long texts stood at needs/<part>.
func answersKey(k int) string { return fmt.Sprintf("needs/2-%02d", k) }

// remembered are the last answers of a part of the sessions. What cannot be decoded
// is as if nobody had been asked.
func (n *needs) remembered(ctx context.Context, k int) (map[string]answer, error) {
	if n.c.registry == nil {
		return nil, nil
	}
	data, err := n.c.registry.Store.Get(ctx, answersKey(k))
	if err != nil && !errors.Is(err, blob.ErrNotFound) {
		return nil, fmt.Errorf("reading what sessions need: %w", err)
	}
	var answers map[string]answer
	if json.Unmarshal(data, &answers) != nil {
		return nil, nil
	}
	return answers, nil
}

func (n *needs) remember(ctx context.Context, k int, answers map[string]answer) error {
	if n.c.registry == nil {
		return nil
	}
	data, err := json.Marshal(answers)
	if err != nil {
		return fmt.Errorf("encoding what sessions need: %w", err)
	}
	if err := n.c.registry.Store.Write(ctx, answersKey(k), data); err != nil {
		return fmt.Errorf("keeping what sessions need: %w", err)
	}
	return nil
}

// workflowIDs lists the workflows that visibility knows for a filter, each once.
func (c *Client) workflowIDs(ctx context.Context, filter string) ([]string, error) {
	seen := map[string]bool{}
	var ids []string
	err := c.each(ctx, filter, func(w *workflowpb.WorkflowExecutionInfo) {
		if id := idOf(w); !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	})
	return ids, err
}

// each calls do with every run that visibility knows for a filter.
func (c *Client) each(ctx context.Context, filter string, do func(*workflowpb.WorkflowExecutionInfo)) error {
	var token []byte
	for {
		res, err := c.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: filter, NextPageToken: token})
		if err != nil {
			return translate("listing workflows", err)
		}
		for _, w := range res.GetExecutions() {
			do(w)
		}
		if token = res.GetNextPageToken(); len(token) == 0 {
			return nil
		}
	}
}

func idOf(w *workflowpb.WorkflowExecutionInfo) string { return w.GetExecution().GetWorkflowId() }
