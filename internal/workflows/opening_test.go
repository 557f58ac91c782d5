package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/countersign/countersign/internal/workflows"
)

// opener is a manager whose chat side and sessions are the test's.
func opener(open func() (workflows.Thread, error), shown func(workflows.NotStartedInput)) *testsuite.TestWorkflowEnvironment {
	var s testsuite.WorkflowTestSuite
	env := s.NewTestWorkflowEnvironment()
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: "session-manager/web/main", TaskQueue: workflows.TaskQueueReasoning})
	env.RegisterWorkflowWithOptions((&workflows.Agent{}).Workflow, workflow.RegisterOptions{Name: workflows.WorkflowTypeAgent})
	env.RegisterWorkflowWithOptions((&workflows.Manager{}).Workflow, workflow.RegisterOptions{Name: workflows.WorkflowTypeManager})
	name := func(n string) activity.RegisterOptions { return activity.RegisterOptions{Name: n} }
	env.RegisterActivityWithOptions(func(context.Context, workflows.OpenThreadInput) (workflows.Thread, error) { return open() }, name(workflows.ActivityOpenThread))
	env.RegisterActivityWithOptions(func(_ context.Context, in workflows.NotStartedInput) error {
		shown(in)
		return nil
	}, name(workflows.ActivityShowNotStarted))
	env.RegisterActivityWithOptions(func(context.Context, workflows.SaveRegistryInput) (workflows.SaveRegistryResult, error) {
		return workflows.SaveRegistryResult{}, nil
	}, name(workflows.ActivityLoadRegistry))
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(workflows.SignalShutdown, nil) }, time.Hour)
	return env
}

func asked(env *testsuite.TestWorkflowEnvironment, parent bool, res *workflows.SessionResult) {
	t := workflows.Thread{Platform: workflows.PlatformWeb, Team: workflows.WebTeam, Channel: "general"}
	by := workflows.Actor{ID: "ada"}
	cb := &testsuite.TestUpdateCallback{
		OnAccept: func() {}, OnReject: func(error) {},
		OnComplete: func(r any, err error) {
			if got, ok := r.(workflows.SessionResult); ok && err == nil {
				*res = got
			}
		},
	}
	env.RegisterDelayedCallback(func() {
		if parent {
			env.UpdateWorkflow(workflows.UpdateForkSession, "f1", cb, workflows.ForkSession{ID: "f1", Source: "agent/web/main/100", Thread: t, By: by, OfClosed: true})
			return
		}
		env.UpdateWorkflow(workflows.UpdateCreateSession, "c1", cb, workflows.SessionRequest{
			ID: "c1", Thread: t, By: by, Task: workflows.Message{ID: "c1", Author: by, Text: workflows.TextRef{Text: "fix the test"}},
		})
	}, time.Minute)
}

// A thread whose session could not be started says so; else its root would say for
// ever that it is opening.
func TestAThreadSaysThatItsSessionDidNotStart(t *testing.T) {
	t.Parallel()
	var shown []workflows.NotStartedInput
	thread := workflows.Thread{Platform: workflows.PlatformWeb, Team: workflows.WebTeam, Channel: "general", ID: "200"}
	env := opener(func() (workflows.Thread, error) { return thread, nil }, func(in workflows.NotStartedInput) { shown = append(shown, in) })
	env.OnWorkflow(workflows.WorkflowTypeAgent, mock.Anything, mock.Anything).Return(testsuite.ErrMockStartChildWorkflowFailed)
	var res workflows.SessionResult
	asked(env, false, &res)
	env.ExecuteWorkflow(workflows.WorkflowTypeManager, workflows.ManagerInput{})
	require.Equal(t, workflows.OutcomeRefused, res.Outcome.Outcome)
	require.Contains(t, res.Text, "The session was not started.")
	require.Len(t, shown, 1)
	require.Equal(t, thread, shown[0].Thread)
	require.Equal(t, "fix the test", shown[0].Title)
	require.Contains(t, shown[0].Text, "could not be started. Nothing has run.")
}

// What the chat service says of a thread that cannot be opened is what who asked for
// a fork is told.
func TestAForkThatCouldNotBeOpened(t *testing.T) {
	t.Parallel()
	env := opener(func() (workflows.Thread, error) {
		return workflows.Thread{}, temporal.NewNonRetryableApplicationError("This channel is read-only.", workflows.ErrTypeThreadGone, nil)
	}, func(workflows.NotStartedInput) { t.Error("there is no thread to say it in") })
	env.RegisterActivityWithOptions(func(context.Context, workflows.QuerySessionInput) (workflows.Boundary, error) {
		return workflows.Boundary{WorkflowID: "agent/web/main/100", Title: "a test"}, nil
	}, activity.RegisterOptions{Name: workflows.ActivityQuerySession})
	var res workflows.SessionResult
	asked(env, true, &res)
	state := &workflows.ManagerState{Rows: []workflows.SessionRow{{WorkflowID: "agent/web/main/100", Liveness: workflows.LivenessActive}}}
	env.ExecuteWorkflow(workflows.WorkflowTypeManager, workflows.ManagerInput{State: state})
	require.Equal(t, "The fork was not made. This channel is read-only.", res.Text)
}

// A fork that is asked for before a run drains and opened while it does is opened in
// that run: its end waits for the answer.
func TestAForkWhileTheManagersRunEnds(t *testing.T) {
	t.Parallel()
	thread := workflows.Thread{Platform: workflows.PlatformWeb, Team: workflows.WebTeam, Channel: "general", ID: "200"}
	env := opener(func() (workflows.Thread, error) { return thread, nil }, func(workflows.NotStartedInput) { t.Error("it can be started") })
	env.RegisterWorkflowWithOptions((&workflows.Manager{Settings: workflows.Settings{ForceContinueAsNew: 1}}).Workflow, workflow.RegisterOptions{Name: "ManagerOfOneStep"})
	env.OnWorkflow(workflows.WorkflowTypeAgent, mock.Anything, mock.Anything).Return(nil)
	const source = "agent/web/main/100"
	env.RegisterActivityWithOptions(func(context.Context, workflows.QuerySessionInput) (workflows.Boundary, error) {
		// A step, after which the run ends as soon as it can.
		env.SignalWorkflow(workflows.SignalRenameSession, workflows.RenameSession{WorkflowID: source, Title: "another"})
		return workflows.Boundary{WorkflowID: source, Title: "a test"}, nil
	}, activity.RegisterOptions{Name: workflows.ActivityQuerySession})
	var res workflows.SessionResult
	asked(env, true, &res)
	state := &workflows.ManagerState{Rows: []workflows.SessionRow{{WorkflowID: source, Liveness: workflows.LivenessActive}}, Next: 1}
	env.ExecuteWorkflow("ManagerOfOneStep", workflows.ManagerInput{State: state})
	require.Equal(t, workflows.OutcomeRecorded, res.Outcome.Outcome, res.Text)
	require.Equal(t, thread.WorkflowID(), res.WorkflowID)
	require.True(t, workflow.IsContinueAsNewError(env.GetWorkflowError()), env.GetWorkflowError())
}

// A destroyed session's files are not gone on from when they are not kept any more:
// from then on they may be removed at any time.
func TestACopyOfFilesThatWereKept(t *testing.T) {
	t.Parallel()
	thread := workflows.Thread{Platform: workflows.PlatformWeb, Team: workflows.WebTeam, Channel: "general", ID: "200"}
	for kept, says := range map[time.Duration]string{workflows.KeepFor: "", time.Minute: "its files were kept until"} {
		env := opener(func() (workflows.Thread, error) { return thread, nil }, func(workflows.NotStartedInput) { t.Error("it can be started") })
		env.OnWorkflow(workflows.WorkflowTypeAgent, mock.Anything, mock.Anything).Return(nil)
		var res workflows.SessionResult
		asked(env, true, &res)
		state := &workflows.ManagerState{Rows: []workflows.SessionRow{{
			WorkflowID: "agent/web/main/100", Liveness: workflows.LivenessDestroyed, EndedAt: env.Now().Add(kept - workflows.KeepFor),
		}}}
		env.ExecuteWorkflow(workflows.WorkflowTypeManager, workflows.ManagerInput{State: state})
		if says != "" {
			require.Equal(t, workflows.OutcomeRefused, res.Outcome.Outcome)
			require.Contains(t, res.Text, says)
			continue
		}
		require.Equal(t, workflows.OutcomeRecorded, res.Outcome.Outcome, res.Text)
	}
}

// While a copy is about to start, its manager says what it is made from.
func TestSourcesOfSessionsThatStart(t *testing.T) {
	t.Parallel()
	const source = "agent/web/main/100"
	var list workflows.SessionList
	var env *testsuite.TestWorkflowEnvironment
	look := func() {
		v, err := env.QueryWorkflow(workflows.QueryListSessions, workflows.ListSessions{})
		require.NoError(t, err)
		list = workflows.SessionList{}
		require.NoError(t, v.Get(&list))
	}
	env = opener(func() (workflows.Thread, error) {
		look()
		return workflows.Thread{}, temporal.NewNonRetryableApplicationError("This channel is read-only.", workflows.ErrTypeThreadGone, nil)
	}, func(workflows.NotStartedInput) {})
	var res workflows.SessionResult
	asked(env, true, &res)
	state := &workflows.ManagerState{Rows: []workflows.SessionRow{{WorkflowID: source, Liveness: workflows.LivenessDestroyed, EndedAt: env.Now()}}}
	env.ExecuteWorkflow(workflows.WorkflowTypeManager, workflows.ManagerInput{State: state})
	require.Equal(t, []string{source}, list.Sources)
	look()
	require.Empty(t, list.Sources)
}

// A run that should end waits for a while until nothing is in hand, and hears
// everybody meanwhile; then it leaves to the next run what a chat service that is away
// keeps from ending. Who waits is told to ask again, and gets the same session.
func TestAManagersRunEndsSoon(t *testing.T) {
	t.Parallel()
	const source = "agent/web/main/100"
	thread := workflows.Thread{Platform: workflows.PlatformWeb, Team: workflows.WebTeam, Channel: "general", ID: "200"}
	ask := workflows.SessionRequest{
		ID: "c1", Thread: workflows.Thread{Platform: workflows.PlatformWeb, Team: workflows.WebTeam, Channel: "general"}, By: workflows.Actor{ID: "ada"},
		Task: workflows.Message{ID: "c1", Author: workflows.Actor{ID: "ada"}, Text: workflows.TextRef{Text: "fix the test"}},
	}
	state := &workflows.ManagerState{Rows: []workflows.SessionRow{{WorkflowID: source, Liveness: workflows.LivenessActive}}, Next: 1}
	run := func(away bool, state *workflows.ManagerState, during func(env *testsuite.TestWorkflowEnvironment)) (next *workflows.ManagerState, took time.Duration, refused error) {
		env := opener(func() (workflows.Thread, error) { return thread, nil }, func(workflows.NotStartedInput) { t.Error("it can be started") })
		env.RegisterWorkflowWithOptions((&workflows.Manager{Settings: workflows.Settings{ForceContinueAsNew: 1}}).Workflow, workflow.RegisterOptions{Name: "ManagerOfOneStep"})
		env.OnWorkflow(workflows.WorkflowTypeAgent, mock.Anything, mock.Anything).Return(nil)
		if away {
			env.OnActivity(workflows.ActivityOpenThread, mock.Anything, mock.Anything).After(time.Hour).Return(thread, nil)
		}
		env.RegisterDelayedCallback(func() {
			env.UpdateWorkflow(workflows.UpdateCreateSession, "create/c1", &testsuite.TestUpdateCallback{
				OnAccept: func() {}, OnReject: func(err error) { refused = err },
				OnComplete: func(_ any, err error) { refused = err },
			}, ask)
		}, time.Second)
		began := env.Now()
		if during != nil {
			during(env)
		}
		env.ExecuteWorkflow("ManagerOfOneStep", workflows.ManagerInput{State: state})
		var can *workflow.ContinueAsNewError
		require.ErrorAs(t, env.GetWorkflowError(), &can)
		var in workflows.ManagerInput
		require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(can.Input, &in))
		return in.State, env.Now().Sub(began), refused
	}
	heard := 0
	next, took, refused := run(true, state, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() {
			env.SignalWorkflow(workflows.SignalRenameSession, workflows.RenameSession{WorkflowID: source, Title: "another"})
		}, 2*time.Second)
		// Somebody whose wish is answered at once.
		env.RegisterDelayedCallback(func() {
			env.UpdateWorkflow(workflows.UpdateForkSession, "fork/f1", &testsuite.TestUpdateCallback{
				OnAccept: func() { heard++ }, OnReject: func(err error) { t.Error(err) }, OnComplete: func(any, error) { heard++ },
			}, workflows.ForkSession{ID: "f1", Source: source, Backend: "none"})
		}, 10*time.Second)
	})
	require.Equal(t, 2, heard)
	require.ErrorContains(t, refused, "draining", "the client asks the next run")
	require.Less(t, took, 30*time.Second)
	require.Len(t, next.Opening, 1)
	require.Equal(t, "another", next.Rows[0].Title)

	next, _, _ = run(false, next, nil)
	require.Empty(t, next.Opening)
	require.Len(t, next.Asked, 1)
	require.Equal(t, "c1", next.Asked[0].ID)
	require.Equal(t, thread.WorkflowID(), next.Asked[0].Result.WorkflowID)
	require.Len(t, next.Rows, 2)
}

// A session that answers nothing does not keep its manager, nor who asked.
func TestAMoveOfASessionThatIsStuck(t *testing.T) {
	t.Parallel()
	env := opener(func() (workflows.Thread, error) { return workflows.Thread{}, nil }, func(workflows.NotStartedInput) {})
	tried := 0
	env.RegisterActivityWithOptions(func(context.Context, workflows.UpdateSessionInput) (workflows.Outcome, error) {
		tried++
		return workflows.Outcome{}, workflows.ErrUnconfirmed
	}, activity.RegisterOptions{Name: workflows.ActivityUpdateSession})
	var out workflows.Outcome
	var asked, answered time.Time
	env.RegisterDelayedCallback(func() {
		asked = env.Now()
		env.UpdateWorkflow(workflows.UpdateSwitchSession, "s1", &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { t.Error(err) },
			OnComplete: func(r any, err error) { out, _ = r.(workflows.Outcome); answered = env.Now() },
		}, workflows.SwitchSession{WorkflowID: "agent/web/main/100"})
	}, time.Minute)
	env.ExecuteWorkflow(workflows.WorkflowTypeManager, workflows.ManagerInput{State: &workflows.ManagerState{Next: 1}})
	require.Equal(t, workflows.OutcomeRefused, out.Outcome)
	require.Contains(t, out.Text, "did not answer in time")
	require.Greater(t, tried, 1)
	require.LessOrEqual(t, answered.Sub(asked), time.Minute)
}
