package workflows

import (
	"go.temporal.io/sdk/workflow"
)

// A run stays with the worker version that began it (it is pinned). At rest, which
// a session is between turns, it goes on in a new run on the version that is
// current then: what a new version does differently never meets a history that an
// old one has begun.

// toCurrentVersion lets the next run begin on the version that is current.
var toCurrentVersion = workflow.ContinueAsNewErrorOptions{
	InitialVersioningBehavior: workflow.ContinueAsNewVersioningBehaviorAutoUpgrade,
}

// outdated reports that the session is at rest on a version that is not the current
// one. The server says so to each run once: a run that went on in the middle of a
// turn has it in its state.
func (s *session) outdated(ctx workflow.Context) bool {
	return s.st.Turn == nil && s.st.Destroy == nil &&
		(s.st.Outdated || workflow.GetInfo(ctx).GetTargetWorkerDeploymentVersionChanged())
}

// outdated reports that another version than the manager's is current.
func (s *manager) outdated(ctx workflow.Context) bool {
	return workflow.GetInfo(ctx).GetTargetWorkerDeploymentVersionChanged()
}

// wake takes a signal that has woken the workflow, which was all it was for.
func wake(ctx workflow.Context) func(workflow.ReceiveChannel, bool) {
	return func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil) }
}

// drainWakes takes those that came last.
func drainWakes(ctx workflow.Context) {
	for workflow.GetSignalChannel(ctx, SignalCheckVersion).ReceiveAsync(nil) {
	}
}
