package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"go.temporal.io/sdk/activity"

	"github.com/countersign/countersign/internal/agent/mcptools"
	"github.com/countersign/countersign/internal/agent/offline"
	"github.com/countersign/countersign/internal/agent/tooloutput"
	"github.com/countersign/countersign/internal/policy"
	"github.com/countersign/countersign/internal/workflows"
)

// ToolGate judges calls of tools that run outside the sandbox.
type ToolGate interface {
	JudgeTool(name, text string) policy.Verdict
	Version() string
}

// maxToolReason bounds a reason in history, in bytes.
const maxToolReason = 400

// allTools are the sandbox's and those of MCP servers.
func (a *Activities) allTools(ctx context.Context, model string) []responses.ToolUnionParam {
	all := tools()
	if model == offline.Name {
		return all
	}
	for _, t := range a.mcp.Tools(ctx) {
		all = append(all, responses.ToolUnionParam{OfFunction: &responses.FunctionToolParam{
			Name: t.Function, Parameters: t.Schema, Strict: param.NewOpt(false),
			Description: param.NewOpt("A tool of the server " + t.Server + ", outside the sandbox. " + t.Description),
		}})
	}
	return all
}

// mcpCall reads a call of an MCP server's tool: which it is, how it is shown, and
// what is wrong with it. ok is false where it is none.
func (a *Activities) mcpCall(ctx context.Context, function, arguments string) (tool *workflows.MCPTool, shown, bad string, ok bool) {
	t, ok := a.mcp.Find(ctx, function)
	if !ok {
		return nil, "", "", false
	}
	tool = &workflows.MCPTool{Server: t.Server, Tool: t.Name}
	fields := map[string]json.RawMessage{}
	if json.Unmarshal([]byte(arguments), &fields) != nil {
		return tool, "", "The call's arguments are no JSON object.", true
	}
	return tool, t.Server + "/" + t.Name + " " + strings.TrimSpace(arguments), "", true
}

// toolAct is an MCP call, read and ready to be judged or run.
type toolAct struct {
	tool      mcptools.Tool
	arguments json.RawMessage
	shown     string
	digest    string
}

func (a *Activities) toolAct(ctx context.Context, c workflows.ToolCall) (toolAct, string, error) {
	text, err := a.texts.load(ctx, c.Args)
	if err != nil {
		return toolAct{}, "", err
	}
	t, ok := a.mcp.Lookup(ctx, c.MCP.Server, c.MCP.Tool)
	if !ok {
		return toolAct{}, fmt.Sprintf("The server %s does not offer the tool %s now.", c.MCP.Server, c.MCP.Tool), nil
	}
	h := sha256.New()
	fmt.Fprintf(h, "%d %s%d %s%d %s", len(c.MCP.Name()), c.MCP.Name(), len(t.Digest), t.Digest, len(text), text)
	return toolAct{
		tool: t, arguments: json.RawMessage(text), digest: hex.EncodeToString(h.Sum(nil)),
		shown: t.Server + "/" + t.Name + " " + strings.TrimSpace(text),
	}, "", nil
}

// JudgeMCPCall asks the gate about a call of an MCP server's tool. What the server
// says of its tool, such as that it only reads, does not count.
func (a *Activities) JudgeMCPCall(ctx context.Context, in workflows.JudgeInput) (workflows.Judgement, error) {
	act, bad, err := a.toolAct(ctx, in.Call)
	if err != nil {
		return workflows.Judgement{}, err
	}
	j := workflows.Judgement{Tier: policy.Forbidden.String(), Bad: bad, PolicyVersion: a.gate.Version()}
	if bad != "" {
		return j, nil
	}
	v := a.gate.JudgeTool(in.Call.MCP.Name(), act.shown)
	j.Tier, j.Displayable, j.Digest, j.Timeout = v.Tier.String(), v.Displayable, act.digest, act.tool.Timeout
	for _, r := range v.Reasons {
		j.Reasons = append(j.Reasons, cut(a.mask.Text(r.Text), maxToolReason))
	}
	shown := a.mask.Text(v.Display)
	if j.Command, err = a.texts.put(ctx, commandsPrefix, shown, workflows.InlineLimit(in.Inline)); err != nil {
		return j, err
	}
	whole, err := a.texts.put(ctx, commandsPrefix, shown, workflows.MaxShownCommand)
	if err != nil {
		return j, err
	}
	j.Stored = whole.Ref
	if (v.Tier == policy.Risky || v.Tier == policy.Critical) && a.rules != nil {
		j.Rule = a.rules(j.Tier, in.Channel)
	}
	return j, nil
}

// CheckMCPBinding tells whether what was approved is still what would be called.
func (a *Activities) CheckMCPBinding(ctx context.Context, in workflows.BindingInput) (workflows.BindingResult, error) {
	act, bad, err := a.toolAct(ctx, in.Call)
	if err != nil {
		return workflows.BindingResult{}, err
	}
	res := workflows.BindingResult{What: bad, Changed: bad != "" || act.digest != in.Digest}
	if res.Changed && bad == "" {
		res.What = "what the server says of the tool has changed"
	}
	if a.rules != nil {
		res.Rule = a.rules(in.Tier, in.Channel)
	}
	return res, nil
}

// RunMCPCall calls the tool once. The activity must not be retried.
func (a *Activities) RunMCPCall(ctx context.Context, in workflows.RunInput) (workflows.ToolResult, error) {
	started := time.Now().UTC()
	res, err := a.runMCP(ctx, in)
	res.StartedAt, res.EndedAt = started, started.Add(time.Since(started))
	return res, err
}

func (a *Activities) runMCP(ctx context.Context, in workflows.RunInput) (workflows.ToolResult, error) {
	act, bad, err := a.toolAct(ctx, in.Call)
	switch {
	case err != nil:
		return a.toolResult(ctx, in, workflows.CallFailed, "The call's arguments could not be read; it was not made.", "")
	case bad != "":
		return a.toolResult(ctx, in, workflows.CallFailed, bad, "")
	case act.digest != in.Digest:
		return a.toolResult(ctx, in, workflows.ResultChanged, "what the server says of the tool has changed", "")
	}
	if err := a.awaited(ctx); err != nil {
		return workflows.ToolResult{}, err
	}
	timed, cancel := context.WithTimeout(ctx, in.Timeout)
	defer cancel()
	defer a.alive(ctx)()
	got, err := a.mcp.Call(timed, act.tool, act.arguments)
	var refused *mcptools.Refused
	switch {
	case errors.Is(err, mcptools.ErrNotSent):
		return a.toolResult(ctx, in, workflows.CallFailed, "The server "+act.tool.Server+" cannot be reached; the tool was not called.", "")
	case errors.As(err, &refused):
		return a.toolResult(ctx, in, workflows.CallFailed, "The server refused the call: "+cut(clean(refused.Message), maxToolReason), "")
	case err != nil && timed.Err() != nil && ctx.Err() == nil:
		return a.toolResult(ctx, in, workflows.CallUnknown, fmt.Sprintf("The tool did not answer within %s; it may have done its work.", in.Timeout), "")
	case err != nil:
		return a.toolResult(ctx, in, workflows.CallUnknown, "The connection to the tool's server broke; it may have done its work.", "")
	case got.Failed:
		return a.toolResult(ctx, in, workflows.CallCompleted, "the tool says that it failed", got.Text)
	}
	return a.toolResult(ctx, in, workflows.CallCompleted, "", got.Text)
}

// toolResult is a call's outcome, with what the model reads of it, capped like any
// output.
func (a *Activities) toolResult(ctx context.Context, in workflows.RunInput, state, note, text string) (workflows.ToolResult, error) {
	res := workflows.ToolResult{State: state, Error: a.mask.Text(note)}
	out := tooloutput.Format(tooloutput.Output{State: state, Note: note, Stdout: text})
	var err error
	res.Output, err = a.texts.save(context.WithoutCancel(ctx), in.WorkflowID, out, workflows.InlineLimit(in.Inline))
	return res, err
}

// alive reports that an activity lives until it is told to stop.
func (a *Activities) alive(ctx context.Context) (stop func()) {
	done := make(chan struct{})
	go func() {
		t := time.NewTicker(heartbeatEvery)
		defer t.Stop()
		for {
			activity.RecordHeartbeat(ctx)
			select {
			case <-done:
				return
			case <-t.C:
			}
		}
	}()
	return func() { close(done) }
}
