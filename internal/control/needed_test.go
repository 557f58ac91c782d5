package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	querypb "go.temporal.io/api/query/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/countersign/countersign/internal/blob/owned"
	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/workflows"
)

// told is a session as Temporal tells of it.
type told struct {
	run    string
	events int64
	needs  workflows.Needs
	// silent does not answer in time; broken cannot, nor can one that no worker has seen.
	silent, broken, unseen bool
	status                 enumspb.WorkflowExecutionStatus
	closed                 time.Time
	boundary               workflows.Boundary
	standing               workflows.EndedInput
}

// telling is a Temporal that knows sessions and one manager, and nothing else.
type telling struct {
	client.Client
	list workflows.SessionList

	mu       sync.Mutex
	sessions map[string]*told
	asked    []string
	signals  []workflows.UpdateSnapshotID
	// seen are the ends that were seen to.
	seen map[string]workflows.EndedInput
}

func (f *telling) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, name any, args ...any) (client.WorkflowRun, error) {
	if name != workflows.WorkflowTypeEnded || o.WorkflowIDReusePolicy != enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE {
		return nil, serviceerror.NewInvalidArgument("not started")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[o.ID] = args[0].(workflows.EndedInput)
	return nil, nil
}

// QueryWorkflowWithOptions is asked about sessions that were cut short.
func (f *telling) QueryWorkflowWithOptions(ctx context.Context, r *client.QueryWorkflowWithOptionsRequest) (*client.QueryWorkflowWithOptionsResponse, error) {
	d, err := f.DescribeWorkflowExecution(ctx, r.WorkflowID, "")
	if err != nil {
		return nil, err
	}
	return &client.QueryWorkflowWithOptionsResponse{QueryRejected: &querypb.QueryRejected{Status: d.WorkflowExecutionInfo.Status}}, nil
}

func (f *telling) SignalWorkflow(_ context.Context, id, _, name string, arg any) error {
	if id != managerID || name != workflows.SignalUpdateSnapshotID {
		return serviceerror.NewInvalidArgument("not taken: " + name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.signals = append(f.signals, arg.(workflows.UpdateSnapshotID))
	return nil
}

func (f *telling) ListWorkflow(_ context.Context, r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	ids := []string{managerID}
	if r.GetQuery() != "WorkflowType = 'SessionManagerWorkflow'" {
		ids = slices.Collect(maps.Keys(f.sessions))
	}
	res := &workflowservice.ListWorkflowExecutionsResponse{}
	for _, id := range ids {
		res.Executions = append(res.Executions, &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: id}})
	}
	return res, nil
}

func (f *telling) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sessions[id]
	if _, ok := f.seen[id]; ok {
		s = &told{run: "r1", status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}
	}
	if s == nil {
		return nil, serviceerror.NewNotFound("no such workflow")
	}
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: s.run}, HistoryLength: s.events,
		Status: s.status, CloseTime: timestamppb.New(s.closed),
	}}, nil
}

func (f *telling) QueryWorkflow(_ context.Context, id, _, name string, _ ...any) (converter.EncodedValue, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var answer any = f.list
	if name != workflows.QueryListSessions {
		f.asked = append(f.asked, id)
		s := f.sessions[id]
		switch {
		case s == nil:
			return nil, serviceerror.NewNotFound("no such workflow")
		case s.unseen:
			return nil, serviceerror.NewWorkflowNotReady("closed before a worker has seen it")
		case s.broken || !slices.Contains([]string{workflows.QueryNeeds, workflows.QuerySnapshot, workflows.QueryStanding}, name):
			return nil, serviceerror.NewQueryFailed("not answered: " + name)
		case s.silent:
			return nil, serviceerror.NewDeadlineExceeded("nobody answers")
		}
		answer = map[string]any{workflows.QueryNeeds: s.needs, workflows.QuerySnapshot: s.boundary, workflows.QueryStanding: s.standing}[name]
	}
	p, err := converter.GetDefaultDataConverter().ToPayloads(answer)
	return client.NewValue(p), err
}

// questions are the sessions that were asked since the last look.
func (f *telling) questions() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := f.asked
	f.asked = nil
	slices.Sort(asked)
	return asked
}

func webID(n int) string { return fmt.Sprint("agent/web/main/", n) }

func someSessions(n int) map[string]*told {
	all := map[string]*told{}
	for i := range n {
		all[webID(i)] = &told{run: "r1", events: 7, needs: workflows.Needs{
			Snapshots: []string{fmt.Sprint("snap-", i), fmt.Sprint("before-", i)}, Files: []string{fmt.Sprint("uploads/", i)},
		}}
	}
	return all
}

// Each live session is asked once, and then only when something has happened in it.
func TestNeededAsksWhoHasChanged(t *testing.T) {
	t.Parallel()
	r := &control.Registry{Store: openStore(t)}
	f := &telling{sessions: someSessions(40)}
	c := control.New(f, r)
	needed := func() *control.Needed {
		n, err := c.Needed(t.Context(), time.Now())
		require.NoError(t, err)
		return n
	}
	first := needed()
	require.Len(t, f.questions(), 40)
	require.Len(t, first.Snapshots, 80)
	require.True(t, first.Arriving("uploads/39"))
	require.False(t, first.Arriving("uploads/40"))

	again := needed()
	require.Empty(t, f.questions(), "nothing has happened in any")
	require.Equal(t, first, again)

	f.sessions[webID(3)] = &told{run: "r1", events: 8, needs: workflows.Needs{Snapshots: []string{"snap-new", "snap-3"}}}
	f.sessions[webID(4)] = &told{run: "r2", events: 7, needs: workflows.Needs{Snapshots: []string{"snap-4"}}}
	delete(f.sessions, webID(5))
	third := needed()
	require.Equal(t, []string{webID(3), webID(4)}, f.questions())
	require.Contains(t, third.Snapshots, "snap-new")
	require.Contains(t, third.Snapshots, "snap-3")
	require.NotContains(t, third.Snapshots, "before-3")
	require.NotContains(t, third.Snapshots, "before-4")
	require.NotContains(t, third.Snapshots, "snap-5")

	// What is remembered is damaged, or from elsewhere.
	for o, err := range r.Store.List(t.Context(), "needs/") {
		require.NoError(t, err)
		require.NoError(t, r.Store.Write(t.Context(), o.Key, []byte("{")))
	}
	require.Equal(t, third, needed())
	require.Len(t, f.questions(), 39)
}

// Nothing is known while one session does not answer; the others are not asked again.
func TestNeededWaitsForEverybody(t *testing.T) {
	t.Parallel()
	f := &telling{sessions: someSessions(40)}
	c := control.New(f, &control.Registry{Store: openStore(t)})
	f.sessions[webID(7)].silent = true
	_, err := c.Needed(t.Context(), time.Now())
	require.ErrorIs(t, err, workflows.ErrUnconfirmed)
	require.ErrorContains(t, err, webID(7))
	require.Subset(t, f.questions(), slices.Collect(maps.Keys(f.sessions)))
	f.sessions[webID(7)].silent = false
	n, err := c.Needed(t.Context(), time.Now())
	require.NoError(t, err)
	require.Equal(t, []string{webID(7)}, f.questions())
	require.Len(t, n.Snapshots, 80)
}

// What a manager knows counts: sessions about to start, files kept of destroyed ones,
// and which are over.
func TestNeededOfManagers(t *testing.T) {
	t.Parallel()
	r := &control.Registry{Store: openStore(t)}
	now := time.Unix(1796018462, 0).UTC()
	row := func(n int, liveness string, ended time.Time) workflows.SessionRow {
		return workflows.SessionRow{Row: n, WorkflowID: webID(n), Liveness: liveness, EndedAt: ended, Snapshot: fmt.Sprint("row-", n)}
	}
	long, lately := now.Add(-workflows.KeepFor-time.Hour), now.Add(-workflows.KeepFor)
	save(t, r, "", []workflows.SessionRow{
		row(0, workflows.LivenessDestroyed, long), row(1, workflows.LivenessDestroyed, lately),
		row(2, workflows.LivenessPaused, time.Time{}), row(3, workflows.LivenessDestroyed, long), row(4, workflows.LivenessDestroyed, time.Time{}),
	})
	messages, err := json.Marshal([]workflows.Message{{
		ID: "m", Attachments: []workflows.Attachment{{ID: "uploads/waiting"}}, Text: workflows.TextRef{Ref: "messages/waiting"},
		Earlier: &workflows.Earlier{Text: workflows.TextRef{Ref: "messages/earlier"}},
	}})
	require.NoError(t, err)
	stashed, err := r.Store.Put(t.Context(), owned.Prefix(owned.Waiting, webID(3)), messages)
	require.NoError(t, err)
	f := &telling{
		list: workflows.SessionList{Needed: []string{"opening"}, Files: []string{"uploads/opening"}},
		// The third is said to have ended, and runs: it is so for a moment.
		sessions: map[string]*told{webID(3): {run: "r", events: 1, needs: workflows.Needs{Snapshots: []string{"asked"}, Stashed: []string{stashed, "waiting/gone"}}}},
	}
	n, err := control.New(f, r).Needed(t.Context(), now)
	require.NoError(t, err)
	require.Equal(t, []string{"asked", "opening", "row-1", "row-2", "row-4"}, n.Snapshots)
	require.True(t, n.Arriving("uploads/opening"))
	for _, id := range []string{"uploads/waiting", "messages/waiting", "messages/earlier"} {
		require.True(t, n.Arriving(id), id)
	}
	for id, over := range map[string]bool{webID(0): true, webID(1): false, webID(2): false, webID(3): false, webID(4): false, webID(99): false} {
		require.Equal(t, over, n.Over(id), id)
	}
}

// What sessions were made from stays for as long as they do, however far back, and for
// those that are about to start; what is not known counts as made from anything.
func TestNeededOfForks(t *testing.T) {
	t.Parallel()
	r := &control.Registry{Store: openStore(t)}
	now := time.Unix(1796018462, 0).UTC()
	long, lately := now.Add(-workflows.KeepFor-time.Hour), now.Add(-workflows.KeepFor)
	row := func(n int, parent string, ended time.Time) workflows.SessionRow {
		liveness := workflows.LivenessActive
		if !ended.IsZero() {
			liveness = workflows.LivenessDestroyed
		}
		return workflows.SessionRow{Row: n, WorkflowID: webID(n), Parent: parent, Liveness: liveness, EndedAt: ended}
	}
	save(t, r, "", []workflows.SessionRow{
		row(0, "", long), row(1, webID(0), long), row(2, webID(1), time.Time{}), // a fork's fork lives
		row(3, "", long), row(4, webID(3), lately), // one's copy may still be gone on from
		row(5, "", long), row(6, webID(5), long), // all are over
		row(7, "", long), row(8, webID(7), long), // one's copy is about to start
	})
	f := &telling{sessions: map[string]*told{webID(2): {run: "r", events: 1}}, list: workflows.SessionList{
		Sources: []string{webID(8)}, Opening: []string{webID(20)},
	}}
	needed := func() *control.Needed {
		n, err := control.New(f, r).Needed(t.Context(), now)
		require.NoError(t, err)
		return n
	}
	n := needed()
	for id, is := range map[int]bool{0: true, 1: true, 2: false, 3: true, 4: false, 5: false, 6: false, 7: true, 8: true} {
		require.Equal(t, is, n.Inherited(webID(id)), id)
	}
	f.sessions[webID(20)] = &told{run: "r", events: 1}
	require.False(t, needed().Inherited(webID(5)), "it has started since its manager was asked")
	f.sessions[webID(21)] = &told{run: "r", events: 1}
	require.True(t, needed().Inherited(webID(5)), "nobody knows what that one was made from")
	require.True(t, needed().Over(webID(5)))
}

func TestNeededOfManySessions(t *testing.T) {
	t.Parallel()
	const all = 20_000
	f := &telling{sessions: someSessions(all)}
	c := control.New(f, &control.Registry{Store: openStore(t)})
	for _, want := range []int{all, 0} {
		began := time.Now()
		n, err := c.Needed(t.Context(), time.Now())
		require.NoError(t, err)
		require.Len(t, n.Snapshots, 2*all)
		require.Len(t, f.questions(), want)
		t.Logf("%d of %d sessions asked, beside Temporal's part: %v", want, all, time.Since(began))
	}
}
