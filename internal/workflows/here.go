package workflows

import (
	"context"

	"go.temporal.io/sdk/workflow"
)

// GateHere answers for the gate within a workflow task, about sandboxes of the
// worker's own host. Nil is no answer: the sandbox is another's, or a look takes
// long or fails, and the activity of the sandbox's queue is asked. Both methods
// change nothing, so that a task which is done again may ask again.
type GateHere interface {
	JudgeHere(ctx context.Context, in JudgeInput) (*Judgement, error)
	CheckHere(ctx context.Context, in BindingInput) (*BindingResult, error)
}

// nobodyHere leaves everything to the sandboxes' queues.
type nobodyHere struct{}

func (nobodyHere) JudgeHere(context.Context, JudgeInput) (*Judgement, error) { return nil, nil }

func (nobodyHere) CheckHere(context.Context, BindingInput) (*BindingResult, error) { return nil, nil }

// askHere asks a [GateHere] where the sandbox's files may be this worker's own. The
// answer is in history together with what the task decides by it, and costs no
// task of its own. It is nil where somebody else has to be asked.
func askHere[In, Out any](ctx workflow.Context, sb SandboxRef, ask func(context.Context, In) (*Out, error), in In) *Out {
	if sb.Host == "" || sb.WorkspacePath == "" {
		return nil
	}
	var out *Out
	if err := workflow.ExecuteLocalActivity(hereOptions(ctx), ask, in).Get(ctx, &out); err != nil {
		return nil
	}
	return out
}
