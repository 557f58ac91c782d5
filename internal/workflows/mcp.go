package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// gate names who looks at a call: the sandbox's worker, or for a tool of an MCP
// server any worker.
func (s *session) gate(c *Call) (queue string, sb SandboxRef, judge, binding string) {
	if c.MCP != nil {
		return TaskQueueReasoning, SandboxRef{}, ActivityJudgeMCP, ActivityBindingMCP
	}
	sb = *s.st.Sandbox
	return sb.Queue, sb, ActivityJudgeToolCall, ActivityCheckBinding
}

// needsSandbox reports whether an open call of the step needs the sandbox to be
// opened for it. What has begun in it is only attached to, however long that takes.
func (t *Turn) needsSandbox() bool {
	return slices.ContainsFunc(t.Calls, func(c *Call) bool { return !c.ended() && c.MCP == nil && !c.begun() })
}

// begun reports whether the call's exec was asked for, and may run.
func (c *Call) begun() bool { return c.Started && c.State == CallRunning }

// runMCP calls a tool of an MCP server, once: what is not known to have ended is
// asked about, never repeated. The run does not drain before it has ended.
func (s *session) runMCP(ctx workflow.Context, c *Call) {
	if c.Started {
		s.unknown(ctx, c, "The worker that called the tool is gone.")
		return
	}
	c.Started = true
	mctx, cancel := workflow.WithCancel(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           TaskQueueReasoning,
		StartToCloseTimeout: c.Judgement.Timeout + time.Minute,
		HeartbeatTimeout:    5 * time.Second,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
	}))
	defer cancel()
	f := workflow.ExecuteActivity(mctx, ActivityRunMCP, RunInput{
		WorkflowID: s.id, Call: c.ToolCall, ExecID: c.execID(), Digest: c.Judgement.Digest, Timeout: c.Judgement.Timeout, Inline: s.st.Turn.inline(),
	})
	_ = workflow.Await(ctx, func() bool { return f.IsReady() || s.st.Turn.Stop != nil })
	if !f.IsReady() {
		cancel()
		s.unknown(ctx, c, "The turn was stopped while the tool worked; it may have finished.")
		return
	}
	var res ToolResult
	if err := f.Get(ctx, &res); err != nil {
		s.unknown(ctx, c, sentenceOf(err))
		return
	}
	s.ran(ctx, c, res)
}
