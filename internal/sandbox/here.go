package sandbox

import (
	"context"
	"errors"

	"github.com/countersign/countersign/internal/workflows"
)

// Here is the gate as a workflows.GateHere, for the worker that runs the
// workflows: it looks at sandboxes of its own host and leaves every other, and
// what takes long or fails, to [Activities]. Looking changes nothing, so a
// workflow task that is done again may ask again.
type Here struct{ a *Activities }

// NewHere returns the gate that a judges by.
func NewHere(a *Activities) *Here { return &Here{a} }

// errLong ends a judgement that would have to run a command.
var errLong = errors.New("the sandbox has to be looked at for long")

// JudgeHere is [Activities.JudgeToolCall]; nil where that has to be asked.
func (h *Here) JudgeHere(ctx context.Context, in workflows.JudgeInput) (*workflows.Judgement, error) {
	if !h.ours(in.Sandbox) {
		return nil, nil
	}
	j, err := h.a.judge(ctx, in, func(_ context.Context, _ Session, ref workflows.SandboxRef, c act) ([]string, error) {
		if p := planOf(ref, c); !p.Empty() {
			return nil, errLong
		}
		return nil, nil
	})
	if err != nil {
		return nil, nil
	}
	return &j, nil
}

// CheckHere is [Activities.CheckBinding]; nil where that has to be asked.
func (h *Here) CheckHere(ctx context.Context, in workflows.BindingInput) (*workflows.BindingResult, error) {
	if !h.ours(in.Sandbox) {
		return nil, nil
	}
	res, err := h.a.checkBinding(ctx, in)
	if err != nil {
		return nil, nil
	}
	return &res, nil
}

// ours tells whether a sandbox's files are a directory of this host.
func (h *Here) ours(ref workflows.SandboxRef) bool {
	o, err := h.a.offer(ref.Backend)
	return err == nil && ref.Host != "" && o.Host == ref.Host && ref.WorkspacePath != ""
}
