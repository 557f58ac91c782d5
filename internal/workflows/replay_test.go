package workflows_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/countersign/countersign/internal/workflows"
)

var record = flag.Bool("record", false, "write the histories of the scenarios to testdata/histories")

// recorded are the scenarios whose histories are kept: a change of the workflow
// code must still replay each of them.
var recorded = []string{
	"TestApprove", "TestDenyExpireForbid", "TestStop", "TestPauseAndDestroy", "TestForkWhileTheSourceRuns",
	"TestChangedBeforeApproval", "TestSwitch", "TestSwitchToLessIsolation", "TestUnknownOutcomeAsks", "TestTurn", "TestBackground",
	"TestHostLost", "TestEnded",
}

const histories = "testdata/histories"

// keep writes the histories of all workflows of a world, when asked to.
func (w *world) keep(name string) {
	if !*record {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	list, err := w.env.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{})
	require.NoError(w.t, err)
	require.NotEmpty(w.t, list.Executions)
	require.NoError(w.t, os.MkdirAll(histories, 0o755))
	for _, e := range list.Executions {
		h := history(ctx, w.t, w.env.Client, e.Execution.WorkflowId, e.Execution.RunId)
		data, err := protojson.Marshal(h)
		require.NoError(w.t, err)
		file := name + "-" + e.Type.Name + "-" + e.Execution.RunId[len(e.Execution.RunId)-6:] + ".json.gz"
		f, err := os.Create(filepath.Join(histories, file))
		require.NoError(w.t, err)
		z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
		require.NoError(w.t, err)
		_, err = z.Write(data)
		require.NoError(w.t, err)
		require.NoError(w.t, z.Close())
		require.NoError(w.t, f.Close())
	}
}

func history(ctx context.Context, t *testing.T, c client.Client, id, run string) *historypb.History {
	h := &historypb.History{}
	for it := c.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		e, err := it.Next()
		require.NoError(t, err)
		h.Events = append(h.Events, e)
	}
	return h
}

// TestReplay replays every recorded history, under the settings it was recorded
// with and under others: a run keeps those it began with.
func TestReplay(t *testing.T) {
	if *record {
		t.Skip("the histories are being recorded")
	}
	t.Parallel()
	files, err := filepath.Glob(histories + "/*.json.gz")
	require.NoError(t, err)
	for _, name := range recorded {
		require.True(t, hasPrefix(files, name+"-"), "no history of %s: go test ./internal/workflows -args -record", name)
	}
	for _, forced := range []int{0, 4} {
		set := workflows.Settings{Model: "other", Backend: "local", Backends: []string{"local"}, ForceContinueAsNew: forced}
		r := worker.NewWorkflowReplayer()
		r.RegisterWorkflowWithOptions((&workflows.Agent{Settings: set}).Workflow, workflow.RegisterOptions{Name: workflows.WorkflowTypeAgent})
		r.RegisterWorkflowWithOptions((&workflows.Manager{Settings: set}).Workflow, workflow.RegisterOptions{Name: workflows.WorkflowTypeManager})
		r.RegisterWorkflowWithOptions(workflows.Ended, workflow.RegisterOptions{Name: workflows.WorkflowTypeEnded})
		for _, file := range files {
			require.NoError(t, r.ReplayWorkflowHistory(nil, load(t, file)), file)
		}
	}
}

func hasPrefix(files []string, name string) bool {
	for _, f := range files {
		if strings.HasPrefix(filepath.Base(f), name) {
			return true
		}
	}
	return false
}

func load(t *testing.T, file string) *historypb.History {
	f, err := os.Open(file)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	data, err := io.ReadAll(z)
	require.NoError(t, err)
	require.True(t, json.Valid(data))
	h := &historypb.History{}
	require.NoError(t, protojson.Unmarshal(data, h))
	return h
}
