package workflows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/countersign/countersign/internal/workflows"
)

// The sandbox.

func (w *world) openSandbox(ctx context.Context, in workflows.OpenInput) (workflows.SandboxRef, error) {
	w.mu.Lock()
	wait := w.opening
	w.inOpen = true
	w.mu.Unlock()
	for done := wait == nil; !done; {
		activity.RecordHeartbeat(ctx)
		select {
		case <-wait:
			done = true
		case <-ctx.Done():
			return workflows.SandboxRef{}, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away != nil && in.Current != nil {
		return workflows.SandboxRef{}, w.away
	}
	if w.openErr != nil && in.Current == nil {
		return workflows.SandboxRef{}, w.openErr
	}
	from := fmt.Sprintf("%s g%d from %q", in.Backend, in.Generation, in.Snapshot)
	if in.Root != "" {
		from += " below " + in.Root
	}
	w.opened = append(w.opened, from)
	ref := workflows.SandboxRef{
		Backend: in.Backend, ID: "sb", Generation: in.Generation, Queue: workflows.TaskQueueSandbox,
		Root: "/workspace", Shell: "bash", Isolated: in.Backend != w.bare,
	}
	if in.Current != nil {
		ref.Host, ref.Queue = in.Current.Host, in.Current.Queue
	} else if w.host != "" {
		ref.Host, ref.Queue = w.host, hostQueue(w.host)
	}
	if w.near && ref.Host == "" {
		ref.Host, ref.WorkspacePath = "here", "/srv/workspace"
	}
	return ref, nil
}

func (w *world) judgeSwitch(_ context.Context, in workflows.SwitchInput) (workflows.SwitchVerdict, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cannot != "" {
		return workflows.SwitchVerdict{}, temporal.NewNonRetryableApplicationError(w.cannot, "SandboxRefused", nil)
	}
	if in.Backend != w.bare || in.Current != nil && !in.Current.Isolated {
		return workflows.SwitchVerdict{}, nil
	}
	return workflows.SwitchVerdict{
		Less: true, Reasons: []string{"On " + in.Backend + " commands are not isolated."},
		Rule: workflows.ApprovalRule{Required: 1, Approvers: w.movers, TTL: w.moveTTL},
	}, nil
}

func command(c workflows.ToolCall) string {
	var a struct {
		Command string `json:"command"`
		Chars   string `json:"chars"`
	}
	_ = json.Unmarshal([]byte(c.Args.Text), &a)
	return a.Command + a.Chars
}

func (w *world) judge(_ context.Context, in workflows.JudgeInput) (workflows.Judgement, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away != nil {
		return workflows.Judgement{}, w.away
	}
	cmd := command(in.Call)
	var edited *workflows.TextRef
	if in.Edit != "" {
		cmd = in.Edit
		args, _ := json.Marshal(workflows.ShellArgs{Command: cmd})
		edited = &workflows.TextRef{Text: string(args)}
	}
	j := workflows.Judgement{
		Edited: edited, PolicyVersion: w.policy,
		Tier: "safe", Digest: w.digest(cmd), Command: workflows.TextRef{Text: cmd}, Displayable: true,
		Cwd: "/workspace", Timeout: time.Minute, Editable: true,
		Rule: workflows.ApprovalRule{Required: 1, Approvers: []string{"grace", "heidi", "oncall"}, TTL: time.Hour},
	}
	if in.Running != nil {
		j.To = in.Running.Call.Shown
	}
	switch verb, _, _ := strings.Cut(cmd, " "); verb {
	case "write":
		j.Tier = "write"
	case "risky", "changes":
		j.Tier = "risky"
	case "brief":
		j.Tier, j.Rule.TTL = "risky", time.Second
	case "critical":
		j.Tier, j.Rule.Required = "critical", 2
	case "grantable":
		j.Tier, j.Shape = "risky", cmd
	case "nobody":
		j.Tier, j.Rule.Approvers = "risky", nil
	case "glass":
		j.Tier, j.Rule.Required, j.Rule.BreakGlass = "critical", 2, []string{"ada"}
	case "widen":
		j.Tier, j.Rule.Approvers, j.Rule.WidenAfter, j.Rule.WidenTo = "risky", []string{"grace"}, time.Hour, []string{"heidi"}
		if cmd == "widen soon" {
			j.Rule.WidenAfter = time.Second
		}
	case "escaped":
		j.Tier, j.Editable = "risky", false
	case "long":
		j.Tier, j.Command = "risky", workflows.TextRef{Text: cmd[:4], Ref: "commands/x", Bytes: len(cmd)}
	case "opaque":
		j.Tier, j.Displayable = "risky", false
	case "never":
		j.Tier, j.Reasons = "forbidden", []string{"never"}
	}
	return j, nil
}

// hereOf answers in the workflow's own task, but for what would take long.
type hereOf struct{ *world }

func (w hereOf) JudgeHere(ctx context.Context, in workflows.JudgeInput) (*workflows.Judgement, error) {
	if strings.HasPrefix(command(in.Call), "critical") {
		return nil, nil
	}
	j, err := w.judge(ctx, in)
	return &j, err
}

func (w *world) digest(cmd string) string {
	if strings.HasPrefix(cmd, "changes") {
		return cmd + "@" + w.content
	}
	return cmd
}

func (w *world) checkBinding(_ context.Context, in workflows.BindingInput) (workflows.BindingResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return workflows.BindingResult{Changed: w.digest(command(in.Call)) != in.Digest, What: "s.sh has changed", Rule: w.rule}, nil
}

func (w hereOf) CheckHere(ctx context.Context, in workflows.BindingInput) (*workflows.BindingResult, error) {
	res, err := w.checkBinding(ctx, in)
	return &res, err
}

func (w *world) runTool(ctx context.Context, in workflows.RunInput) (workflows.ToolResult, error) {
	if in.Running != nil {
		return w.talk(in)
	}
	cmd := command(in.Call)
	w.mu.Lock()
	if w.away != nil {
		defer w.mu.Unlock()
		return workflows.ToolResult{}, w.away
	}
	if w.ran[in.ExecID] == 0 {
		if w.digest(cmd) != in.Digest {
			w.mu.Unlock()
			return workflows.ToolResult{State: workflows.ResultChanged, Error: "s.sh has changed"}, nil
		}
		w.ran[in.ExecID]++
		on := fmt.Sprintf("%s g%d", activity.GetInfo(ctx).TaskQueue, in.Sandbox.Generation)
		w.on[on] = append(w.on[on], cmd)
	}
	if w.release[cmd] == nil {
		w.release[cmd] = make(chan struct{})
	}
	hold := w.release[cmd]
	w.mu.Unlock()
	started := time.Now()
	for strings.Contains(cmd, "block") {
		if w.isDown(activity.GetInfo(ctx).TaskQueue) {
			return workflows.ToolResult{}, activity.ErrResultPending // it died at it
		}
		activity.RecordHeartbeat(ctx, workflows.ExecProgress{ExecID: in.ExecID, Tail: "…"})
		select {
		case <-ctx.Done():
			return workflows.ToolResult{}, ctx.Err()
		case <-hold:
			cmd = ""
		case <-time.After(50 * time.Millisecond):
			w.mu.Lock()
			stopped, away := w.stops[in.ExecID], w.away
			w.mu.Unlock()
			if away != nil {
				return workflows.ToolResult{}, away
			}
			if stopped {
				return workflows.ToolResult{State: workflows.CallCancelled, Output: workflows.TextRef{Text: "stopped"}, StartedAt: started, EndedAt: time.Now()}, nil
			}
		}
	}
	if strings.Contains(command(in.Call), "vanish") && strings.HasSuffix(in.ExecID, ".x1") {
		return workflows.ToolResult{State: workflows.CallUnknown, Error: "The worker died while this ran; it may have finished."}, nil
	}
	zero := 0
	return workflows.ToolResult{
		State: workflows.CallCompleted, ExitCode: &zero, Output: outputOf(in),
		StartedAt: started, EndedAt: time.Now(),
	}, nil
}

// talk reads on from a command in the background, one byte a time, and sends text
// once.
func (w *world) talk(in workflows.RunInput) (workflows.ToolResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away != nil {
		return workflows.ToolResult{}, w.away
	}
	switch n := w.ran[in.Running.ExecID]; {
	case n == 0: // on a slow machine its start is still on its way
		return workflows.ToolResult{}, fmt.Errorf("%s has not started yet", in.Running.ExecID)
	case n != 1:
		w.t.Errorf("talk to %s, which was started %d times", in.Running.ExecID, n)
	}
	text := fmt.Sprintf("%s@%d", in.Running.Session, in.Running.Stdout)
	if in.Call.Tool == workflows.ToolWriteStdin {
		if w.ran[in.ExecID] == 0 {
			if w.digest(command(in.Call)) != in.Digest {
				return workflows.ToolResult{State: workflows.ResultChanged, Error: "s.sh has changed"}, nil
			}
			w.ran[in.ExecID]++
			w.told = append(w.told, command(in.Call))
		}
		if command(in.Call) == "risky lost" {
			return workflows.ToolResult{State: workflows.CallUnknown, Error: "The command may have got a part of it."}, nil
		}
		text += " told " + command(in.Call)
		if in.Running.Asked {
			text += ", which may not read it itself"
		}
	}
	return workflows.ToolResult{
		State: workflows.CallCompleted, Output: workflows.TextRef{Text: text}, StdoutBytes: in.Running.Stdout + 1,
		Over: in.Call.Tool == workflows.ToolWriteStdin && command(in.Call) == "your last",
	}, nil
}

// outputOf is short, but for what shouts: as long as it may be.
func outputOf(in workflows.RunInput) workflows.TextRef {
	if !strings.HasPrefix(command(in.Call), "shout") {
		return workflows.TextRef{Text: "ok " + command(in.Call)}
	}
	return workflows.TextRef{Text: strings.Repeat("<", workflows.InlineLimit(in.Inline)/6)} // six bytes each in JSON
}

func (w *world) signalExec(_ context.Context, in workflows.SignalExecInput) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stops[in.ExecID] = true
	return nil
}

func (w *world) takeSnapshot(_ context.Context, in workflows.SnapshotInput) (workflows.SnapshotResult, error) {
	if w.atSnapshot != nil {
		w.atSnapshot(in.Turn)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failing {
		return workflows.SnapshotResult{}, temporal.NewNonRetryableApplicationError("The worker's disk is full.", "x", nil)
	}
	w.snapshots++
	return workflows.SnapshotResult{Snapshot: fmt.Sprintf("snap-%d", in.Turn)}, nil
}

func (w *world) destroySandbox(context.Context, workflows.ReleaseInput) (workflows.Inventory, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.destroyed++
	return workflows.Inventory{Files: 3, Unpushed: []string{"2 on fix/flaky"}}, nil
}
