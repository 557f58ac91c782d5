package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/workflows"
)

// rowsOf makes n rows as a manager has them; every second session has ended.
func rowsOf(from, n int) []workflows.SessionRow {
	rows := make([]workflows.SessionRow, n)
	for i := range rows {
		th := workflows.Thread{Platform: workflows.PlatformWeb, Team: workflows.WebTeam, Channel: "general", ID: fmt.Sprint(1796018462000000 + from + i)}
		rows[i] = workflows.SessionRow{
			Row: from + i, WorkflowID: th.WorkflowID(), Thread: th, Title: fmt.Sprint("session ", from+i), Backend: "local",
			Liveness: workflows.LivenessPaused, By: person("ada"), StartedAt: time.Unix(1796018462, 0).UTC(), Turn: 3, Snapshot: fmt.Sprint("snap-of-", from+i),
		}
		if (from+i)%2 == 0 {
			rows[i].Liveness, rows[i].EndedAt = workflows.LivenessDestroyed, time.Now().UTC().Truncate(time.Second)
		}
	}
	return rows
}

func (w *world) page(l workflows.ListSessions) (page workflows.SessionList) {
	w.t.Helper()
	w.eventually("a page of the list", func() bool {
		var err error
		page, err = w.control.List(w.t.Context(), w.thread.ManagerID(), l)
		require.True(w.t, err == nil || errors.Is(err, workflows.ErrUnconfirmed), err)
		return err == nil
	})
	return page
}

// all pages through the manager's list.
func (w *world) all() []workflows.SessionRow {
	w.t.Helper()
	var rows []workflows.SessionRow
	for l := (workflows.ListSessions{Limit: 200}); ; {
		page := w.page(l)
		require.LessOrEqual(w.t, len(page.Sessions), 200)
		rows = append(rows, page.Sessions...)
		if page.Next == "" {
			return rows
		}
		l.Before = page.Next
	}
}

// opens asks for a session in another thread and waits until it has started.
func (w *world) opens(thread string) (string, time.Duration) {
	w.t.Helper()
	th := w.thread
	th.ID = thread
	began := time.Now()
	var res workflows.SessionResult
	w.eventually("it opens", func() (ok bool) {
		var err error
		res, err = w.control.CreateSession(w.t.Context(), workflows.SessionRequest{ID: thread, Thread: th, Task: said(thread, "ada", "ls"), By: person("ada")})
		require.True(w.t, err == nil || errors.Is(err, workflows.ErrUnconfirmed), err)
		return err == nil
	})
	require.Equal(w.t, workflows.OutcomeRecorded, res.Outcome.Outcome, res.Text)
	return res.WorkflowID, time.Since(began)
}

func (w *world) stopManager() {
	w.t.Helper()
	require.NoError(w.t, w.env.Client.SignalWorkflow(w.t.Context(), w.thread.ManagerID(), "", workflows.SignalShutdown, nil))
	require.NoError(w.t, w.env.Client.GetWorkflow(w.t.Context(), w.thread.ManagerID(), "").Get(w.t.Context(), nil))
}

// A manager with 20,000 sessions in its registry, half of them live, does all that
// one with three does. What that takes is logged, and in docs/performance.md.
func TestManagerOfManySessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.ask("ls")
	w.awaitAnswer(1)
	var few, many time.Duration
	for i := range 4 {
		_, took := w.opens(fmt.Sprint(200 + i))
		few += took
	}
	w.stopManager()
	head, err := w.registry.Load(t.Context(), workflows.SaveRegistryInput{ManagerID: w.thread.ManagerID()})
	require.NoError(t, err)
	require.Equal(t, 5, head.Rows)
	const old, kept = 20_000, 299
	for head.Rows < old {
		head, err = w.registry.Save(t.Context(), workflows.SaveRegistryInput{
			ManagerID: w.thread.ManagerID(), Archive: head.Archive, Rows: rowsOf(head.Rows, min(workflows.RegistryPage, old-head.Rows)),
		})
		require.NoError(t, err)
	}
	_, err = w.env.Client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: w.thread.ManagerID(), TaskQueue: workflows.TaskQueueReasoning,
	}, workflows.WorkflowTypeManager, workflows.ManagerInput{State: &workflows.ManagerState{
		Rows: rowsOf(old, kept), Next: old + kept, Archive: head.Archive,
	}})
	require.NoError(t, err)
	for i := range 4 {
		_, took := w.opens(fmt.Sprint(300 + i))
		many += took
	}
	t.Logf("a session created in %v beside 5, in %v beside %d", few/4, many/4, old+kept)

	began := time.Now()
	rows := w.all()
	t.Logf("all of them listed in %v", time.Since(began))
	require.Len(t, rows, old+kept+4)
	for i, row := range rows {
		require.Equal(t, len(rows)-1-i, row.Row, "newest first")
	}
	require.Equal(t, w.id(), rows[len(rows)-1].WorkflowID)
	var state workflows.SessionList
	w.eventually("a page has gone to the registry", func() bool {
		state, err = w.control.List(t.Context(), w.thread.ManagerID(), workflows.ListSessions{})
		return err == nil && state.Archive != head.Archive
	})

	// The oldest session is live, and reached like any.
	row := func(id string) workflows.SessionRow {
		page := w.page(workflows.ListSessions{})
		for _, r := range page.Sessions {
			if r.WorkflowID == id {
				return r
			}
		}
		res, err := w.registry.Find(t.Context(), workflows.FindSessionInput{Archive: page.Archive, WorkflowID: id})
		if err != nil {
			return workflows.SessionRow{} // replaced this moment
		}
		for _, c := range page.Changes {
			if c.WorkflowID == id {
				c.Apply(&res.Row)
			}
		}
		return res.Row
	}
	fork := func(id, source, thread string, closed bool) workflows.SessionRow {
		th := w.thread
		th.ID = thread
		res := answered(w, func() (workflows.SessionResult, error) {
			return w.control.Fork(t.Context(), th.ManagerID(), workflows.ForkSession{ID: id, Source: source, Thread: th, By: person("grace"), OfClosed: closed})
		})
		require.Equal(t, workflows.OutcomeRecorded, res.Outcome.Outcome, res.Text)
		return row(res.WorkflowID)
	}
	var copied workflows.SessionRow
	for n := 1; n <= 2; n++ {
		began := time.Now()
		f := fork(fmt.Sprint("fork-", n), w.id(), fmt.Sprint(400+n), false)
		t.Logf("the oldest copied in %v", time.Since(began))
		require.Equal(t, w.id(), f.Parent)
		require.Equal(t, fmt.Sprintf("ls (fork #%d)", n), f.Title)
		copied = f
	}
	again := fork("fork-of-fork", copied.WorkflowID, "403", false)
	require.Equal(t, copied.WorkflowID, again.Parent)
	require.Equal(t, "ls (fork #3)", again.Title, "forks of forks are counted with their siblings")
	closed := rowsOf(5000, 1)[0]
	f := fork("anew", closed.WorkflowID, "410", true)
	require.Equal(t, closed.WorkflowID, f.Parent)
	require.Equal(t, closed.Snapshot, w.boundary(f.WorkflowID).Snapshot)

	w.eventually("it is renamed", func() bool {
		return w.control.SetTitle(t.Context(), w.id(), workflows.SetTitle{Title: "renamed", By: person("ada")}) == nil
	})
	w.eventually("the list has the new name", func() bool { return row(w.id()).Title == "renamed" })
	out := answered(w, func() (workflows.Outcome, error) {
		return w.control.SwitchBackend(t.Context(), w.thread.ManagerID(), workflows.SwitchSession{WorkflowID: w.id(), SwitchBackend: workflows.SwitchBackend{Backend: "docker", By: person("ada")}}, "switch-1")
	})
	require.Equal(t, workflows.OutcomeRecorded, out.Outcome, out.Text)

	// A request for its thread is a message to it.
	w.request(workflows.SessionRequest{ID: "500", Thread: w.thread, Task: said("500", "grace", "echo there"), By: person("grace")})
	w.awaitAnswer(2)
	d, err := w.env.Client.DescribeWorkflowExecution(t.Context(), w.thread.ManagerID(), "")
	require.NoError(t, err)
	info := d.GetWorkflowExecutionInfo()
	t.Logf("the manager's run has %d events of %d bytes, its input among them, after 7 sessions", info.GetHistoryLength(), info.GetHistorySizeBytes())
	before := len(w.all())
	destroy := func(who, update string) workflows.Outcome {
		var out workflows.Outcome
		w.eventually("the wish to destroy it is answered", func() bool {
			var err error
			out, err = w.control.Destroy(t.Context(), w.thread.ManagerID(), workflows.DestroySession{WorkflowID: w.id(), By: person(who), At: time.Now()}, update)
			return err == nil
		})
		return out
	}
	require.Equal(t, workflows.OutcomeRecorded, destroy("ada", "d1").Outcome)
	require.Equal(t, workflows.OutcomeAlreadyDecided, destroy("grace", "d2").Outcome)
	w.eventually("the list says that it is destroyed", func() bool {
		r := row(w.id())
		return r.Liveness == workflows.LivenessDestroyed && !r.EndedAt.IsZero() && r.Forks == 3 && r.DestroyedBy == "@ada"
	})
	require.Equal(t, before, len(w.all()), "no row came twice")
	require.Equal(t, workflows.OutcomeRefused, func() string {
		out := answered(w, func() (workflows.Outcome, error) {
			return w.control.Destroy(t.Context(), w.thread.ManagerID(), workflows.DestroySession{WorkflowID: "agent/web/main/7", By: person("ada")}, "d3")
		})
		return out.Outcome
	}())
	w.stopManager()
	require.Equal(t, before, len(w.all()), "a manager that is shut down has left all in the registry")
}

func (w *world) boundary(id string) workflows.Boundary {
	w.t.Helper()
	return answered(w, func() (workflows.Boundary, error) { return w.control.Boundary(w.t.Context(), id) })
}

// Whatever a manager has at a run's end, all of it live and as long as it may be,
// the next run's input stays well below 2 MiB.
func TestManagerInputStaysSmall(t *testing.T) {
	t.Parallel()
	store, err := blob.Open(t.Context(), "mem://")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	const id = "session-manager/slack/T0123456789"
	long := func(n int) string { return strings.Repeat("<", n) } // six bytes each in JSON
	th := workflows.Thread{Platform: workflows.PlatformSlack, Team: "T0123456789", Channel: "C0123456789"}
	st := &workflows.ManagerState{}
	const rows = 1_000 // more than a run adds
	for i := range rows {
		th.ID = fmt.Sprintf("%d.%06d", 1796018462, i)
		st.Rows = append(st.Rows, workflows.SessionRow{
			Row: i, WorkflowID: th.WorkflowID(), Thread: th, Title: long(80), Backend: "docker", Workspace: long(64), Liveness: workflows.LivenessWaiting,
			By: workflows.Actor{ID: "U0123456789", Name: long(64)}, Snapshot: strings.Repeat("s", 90), Transcript: strings.Repeat("t", 120), Model: strings.Repeat("m", 100),
			DestroyedBy: long(64),
		})
		st.Asked = append(st.Asked, workflows.Asked{ID: th.ID, Result: workflows.SessionResult{Outcome: workflows.Outcome{Text: long(256)}, WorkflowID: th.WorkflowID(), Thread: th}})
	}
	st.Next, st.Asked = len(st.Rows), st.Asked[:300]
	env := (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment()
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: id, TaskQueue: workflows.TaskQueueReasoning})
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	m := &workflows.Manager{Settings: workflows.Settings{ForceContinueAsNew: 1}}
	env.RegisterWorkflowWithOptions(m.Workflow, workflow.RegisterOptions{Name: workflows.WorkflowTypeManager})
	registry := &control.Registry{Store: store}
	saved := 0
	env.RegisterActivityWithOptions(func(ctx context.Context, in workflows.SaveRegistryInput) (workflows.SaveRegistryResult, error) {
		data, err := converter.GetDefaultDataConverter().ToPayloads(in)
		require.NoError(t, err)
		require.Less(t, data.Payloads[0].Size(), 512<<10)
		saved += len(in.Rows)
		return registry.Save(ctx, in)
	}, activity.RegisterOptions{Name: workflows.ActivitySaveRegistry})
	env.RegisterDelayedCallback(func() {
		env.SignalWorkflow(workflows.SignalRenameSession, workflows.RenameSession{WorkflowID: st.Rows[0].WorkflowID, Title: long(80)})
	}, time.Second)
	env.ExecuteWorkflow(workflows.WorkflowTypeManager, workflows.ManagerInput{State: st})
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, env.GetWorkflowError(), &next)
	size := next.Input.Size()
	t.Logf("the next run's input has %d bytes; %d rows went to the registry", size, saved)
	require.Less(t, size, 1<<20)
	require.Greater(t, saved, rows-300)
}
