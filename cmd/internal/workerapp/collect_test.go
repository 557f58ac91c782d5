package workerapp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc"

	"github.com/countersign/countersign/internal/agent/transcript"
	"github.com/countersign/countersign/internal/audit"
	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/blob/execlog"
	"github.com/countersign/countersign/internal/blob/owned"
	"github.com/countersign/countersign/internal/workflows"
)

// site is a Temporal with one manager, which lists sessions that all have ended or
// are at rest without needing anything.
type site struct {
	client.Client
	rows []workflows.SessionRow
}

// service is the site's namespace.
type service struct {
	workflowservice.WorkflowServiceClient
}

func (s *site) WorkflowService() workflowservice.WorkflowServiceClient { return service{} }

func (service) DescribeNamespace(context.Context, *workflowservice.DescribeNamespaceRequest, ...grpc.CallOption) (*workflowservice.DescribeNamespaceResponse, error) {
	return &workflowservice.DescribeNamespaceResponse{NamespaceInfo: &namespacepb.NamespaceInfo{Id: "ns"}}, nil
}

func (s *site) ListWorkflow(_ context.Context, r *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	res := &workflowservice.ListWorkflowExecutionsResponse{}
	if strings.Contains(r.GetQuery(), workflows.WorkflowTypeManager) {
		res.Executions = []*workflowpb.WorkflowExecutionInfo{{Execution: &commonpb.WorkflowExecution{WorkflowId: "session-manager/web/main"}}}
	}
	return res, nil
}

func (s *site) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return nil, serviceerror.NewNotFound("it is not kept any more")
}

// SignalWorkflow takes word of a session that has ended.
func (s *site) SignalWorkflow(_ context.Context, id, _, name string, arg any) error {
	u, ok := arg.(workflows.UpdateSnapshotID)
	if id != "session-manager/web/main" || name != workflows.SignalUpdateSnapshotID || !ok || !u.Destroyed {
		return serviceerror.NewInvalidArgument("not taken: " + name)
	}
	for i := range s.rows {
		if s.rows[i].WorkflowID == u.Boundary.WorkflowID {
			workflows.RowChange{WorkflowID: u.Boundary.WorkflowID, Boundary: &u.Boundary, Liveness: u.Liveness, EndedAt: time.Now()}.Apply(&s.rows[i])
			return nil
		}
	}
	return serviceerror.NewInvalidArgument("no such session")
}

func (s *site) QueryWorkflow(_ context.Context, id, _, _ string, _ ...any) (converter.EncodedValue, error) {
	if id != "session-manager/web/main" {
		return nil, serviceerror.NewNotFound("it is not kept any more")
	}
	p, err := converter.GetDefaultDataConverter().ToPayloads(workflows.SessionList{Sessions: s.rows})
	return client.NewValue(p), err
}

// All that destroyed sessions have left goes when it is not kept any longer, but for
// the record; what was made from one goes on with its conversation, and when that is
// over too, both go.
func TestCollectOfDestroyedSessions(t *testing.T) {
	t.Parallel()
	const source, fork, other, lately = "agent/web/main/1", "agent/web/main/2", "agent/web/main/3", "agent/web/main/4"
	store, err := blob.Open(t.Context(), "file://"+t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	conversations := transcript.NewStore(store, -1)
	said := func(id, ref string, n int) string {
		for i := range n {
			words, err := json.Marshal(fmt.Sprint(id, " says ", i))
			require.NoError(t, err)
			ref, err = conversations.Append(t.Context(), id, ref, []transcript.Record{{Item: words}})
			require.NoError(t, err)
		}
		return ref
	}
	count := func(prefix string) (n int) {
		for _, err := range store.List(t.Context(), prefix) {
			require.NoError(t, err)
			n++
		}
		return n
	}
	past := said(source, "", 5)
	own := said(fork, past, 2)
	said(other, "", 3)
	said(lately, "", 3)
	for _, id := range []string{source, fork, other, lately} {
		for _, kind := range []string{owned.Texts, owned.Outputs, owned.Details, owned.Bindings, owned.Images} {
			_, err := store.Put(t.Context(), owned.Prefix(kind, id), []byte("of "+id))
			require.NoError(t, err)
		}
		require.NoError(t, execlog.New(store, id).Append(t.Context(), "1.1", execlog.Stdout, 0, []byte("out")))
		require.NoError(t, store.Write(t.Context(), audit.Key(id, 1), []byte("{}")))
	}
	_, err = store.Put(t.Context(), "commands", []byte("a whole command"))
	require.NoError(t, err)

	now := time.Now()
	row := func(n int, id, parent string, ended time.Time) workflows.SessionRow {
		r := workflows.SessionRow{Row: n, WorkflowID: id, Parent: parent, Liveness: workflows.LivenessPaused, EndedAt: ended}
		if !ended.IsZero() {
			r.Liveness = workflows.LivenessDestroyed
		}
		return r
	}
	long := now.Add(-workflows.KeepFor - 2*time.Hour)
	s := &site{rows: []workflows.SessionRow{
		row(0, source, "", long), row(1, fork, source, time.Time{}), row(2, other, "", long), row(3, lately, "", now.Add(-workflows.KeepFor+time.Hour)),
	}}
	collect := func(grace time.Duration, dry bool) int {
		res, err := Collect(t.Context(), s, "default", store, grace, dry)
		require.NoError(t, err)
		return res.Blobs
	}
	require.Zero(t, collect(time.Hour, true), "all of it is young")
	require.Equal(t, workflows.LivenessPaused, s.rows[1].Liveness)
	require.Zero(t, collect(time.Hour, false), "all of it is young")
	require.Equal(t, workflows.LivenessDestroyed, s.rows[1].Liveness, "Temporal does not have it any more")
	// A store's times may be coarser than what is between two writes.
	time.Sleep(20 * time.Millisecond)
	would := collect(0, true)
	require.Equal(t, would, collect(0, false))
	require.Zero(t, collect(0, false))
	for _, kind := range []string{owned.Texts, owned.Outputs, owned.Details, owned.Bindings, owned.Execs} {
		for id, is := range map[string]bool{source: false, fork: true, other: false, lately: true} {
			require.Equal(t, is, count(owned.Prefix(kind, id)+"/") > 0, "%s of %s", kind, id)
		}
	}
	for _, kind := range []string{owned.Transcripts, owned.Images} {
		for id, is := range map[string]bool{source: true, fork: true, other: false, lately: true} {
			require.Equal(t, is, count(owned.Prefix(kind, id)+"/") > 0, "%s of %s", kind, id)
		}
	}
	require.Equal(t, 4, count("audit/"))
	require.Equal(t, 1, count("commands/"))
	words, err := transcript.NewStore(store, -1).Load(t.Context(), own)
	require.NoError(t, err)
	require.Len(t, words, 7)

	s.rows[1] = row(1, fork, source, long)
	require.Positive(t, collect(0, false))
	require.Zero(t, count(owned.Prefix(owned.Transcripts, source)+"/")+count(owned.Prefix(owned.Transcripts, fork)+"/"))
	require.Equal(t, 4, count("audit/"))
}
