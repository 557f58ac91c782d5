package workflows

import (
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"
)

// LateStop is a stop that has not reached its command's host, which did not answer.
// It waits there for as long as the command may run.
type LateStop struct {
	Sandbox SandboxRef `json:"sandbox"`
	ExecID  string     `json:"exec_id"`
	Until   time.Time  `json:"until"`
}

// hostSilentText is what people are told of a host that takes no task up.
const hostSilentText = "The host of this session's sandbox does not answer."

// endedLateText says what becomes of commands in the background that could not be
// ended.
func (s *session) endedLateText() string {
	var names []string
	for _, b := range s.running(0) {
		names = append(names, shownCommand(b))
	}
	if len(names) == 0 {
		return ""
	}
	return " Ended when the host is back: " + strings.Join(names, ", ") + "."
}

// stopLate leaves word for a host that does not answer.
func (s *session) stopLate(ctx workflow.Context, sb SandboxRef, execID string, timeout time.Duration) {
	if s.st.Destroy != nil {
		return // the command goes with its sandbox
	}
	l := &LateStop{Sandbox: sb, ExecID: execID, Until: workflow.Now(ctx).Add(timeout + s.hostDeadAfter())}
	s.st.LateStops = append(s.st.LateStops, l)
	s.followStop(ctx, l)
}

// stopAllLate takes up, in a new run, what the one before it has left.
func (s *session) stopAllLate(ctx workflow.Context) {
	for _, l := range s.st.LateStops {
		s.followStop(ctx, l)
	}
}

func (s *session) followStop(ctx workflow.Context, l *LateStop) {
	s.following++
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { s.following-- }()
		sctx, cancel := workflow.WithCancel(lateOptions(ctx, l.Sandbox.Queue, max(time.Second, l.Until.Sub(workflow.Now(ctx)))))
		defer cancel()
		f := workflow.ExecuteActivity(sctx, ActivitySignalExec, SignalExecInput{WorkflowID: s.id, Sandbox: l.Sandbox, ExecID: l.ExecID, Why: "stop"})
		left := func() bool { return s.st.Sandbox == nil || s.st.Sandbox.Generation != l.Sandbox.Generation }
		_ = workflow.Await(ctx, func() bool { return f.IsReady() || s.draining || s.st.Destroy != nil || left() })
		if !f.IsReady() && s.draining {
			return // the next run's
		}
		s.st.LateStops = slices.DeleteFunc(s.st.LateStops, func(o *LateStop) bool { return o == l })
	})
}
