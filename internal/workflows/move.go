package workflows

import (
	"go.temporal.io/sdk/workflow"
)

// move brings the session to another backend: the new sandbox is opened from the
// boundary's content, and only then the old one is given up. A move that fails
// leaves all as it was.
func (s *session) move(ctx workflow.Context) {
	to := *s.st.Switch
	s.st.Switch = nil
	if to.Backend == s.st.Backend && to.Root == s.st.Root {
		return // asked for twice
	}
	s.moving = &to
	defer func() { s.moving = nil }()
	old := s.st.Sandbox
	defer s.askHost()()
	if old != nil && (s.st.Boundary.Snapshot == "" || s.st.Boundary.Failed != "" || s.backgroundWrote()) {
		s.snapshot(ctx)
		if why := s.st.Boundary.Failed; why != "" {
			s.notice("The session stays on " + s.st.Backend + ": its files could not be saved, so they cannot be moved. " + why)
			return
		}
	}
	// The number is taken even if the move fails: what a failed one has left, on
	// whichever host, must not pass for the next one's.
	s.st.Gen++
	var res OpenResult
	err := workflow.ExecuteActivity(openOptions(ctx, TaskQueueSandbox, openAttempts), ActivityOpenSandbox, OpenInput{
		WorkflowID: s.id, Backend: to.Backend, Workspace: s.st.Workspace, Root: to.Root, Generation: s.st.Gen, Snapshot: s.st.Boundary.Snapshot,
	}).Get(ctx, &res)
	ref := res.SandboxRef
	switch {
	case err != nil:
		s.notice("The session stays on " + s.st.Backend + ", with all its files: " + stayingText(err))
		return
	case old != nil && old.Isolated && !ref.Isolated && !to.LessIsolated:
		s.discard(ctx, ref)
		s.notice("The session stays on " + s.st.Backend + ", with all its files: on " + to.Backend +
			" commands are not isolated, and nobody has agreed to that. Ask again.")
		return
	}
	ended := s.endAllBackground(ctx, "ended: moved to "+to.Backend)
	s.st.Sandbox, s.st.Gen, s.st.Backend, s.st.Root, s.opened = &ref, ref.Generation, ref.Backend, to.Root, false
	s.endGrants(ctx, func(Grant) bool { return true }, to.By, "the move to "+to.Backend)
	s.notice("Moved to " + to.Backend + " by " + to.By.Label() + ", with files, conversation and title. Permissions given before have ended." + ended)
	s.liveness(ctx)
	s.tellManager(ctx, SignalUpdateSnapshotID, UpdateSnapshotID{Boundary: s.boundary(), Liveness: s.now()})
	if old != nil {
		s.discard(ctx, *old)
	}
	s.step(ctx)
}

// discard removes a sandbox that the session no longer needs. One that cannot be
// reached is its host's to remove.
func (s *session) discard(ctx workflow.Context, ref SandboxRef) {
	err := workflow.ExecuteActivity(s.promptly(stopOptions(ctx, ref.Queue), ref.Queue), ActivityDestroySandbox, ReleaseInput{WorkflowID: s.id, Sandbox: ref}).Get(ctx, nil)
	if err != nil {
		workflow.GetLogger(ctx).Warn("Sandbox was not removed", "backend", ref.Backend, "generation", ref.Generation, "error", err)
	}
}
