package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/openai/openai-go/v3/responses"

	"github.com/countersign/countersign/internal/agent/tooloutput"
	"github.com/countersign/countersign/internal/agent/transcript"
	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/policy"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// maxCalls is how many tool calls of one response are handed on; the rest is
	// answered at once as not run. It bounds what history holds of one step.
	maxCalls = 64

	// maxInlineArgs is how many bytes of arguments one step may hold inline, of
	// all its calls together.
	maxInlineArgs = 64 << 10 // 64 KiB
)

var (
	// goodCallID is what a call_id must look like to be kept: the API takes 64
	// characters, and it becomes part of keys and addresses.
	goodCallID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	// goodToolName is what the API takes back as a tool's name.
	goodToolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
)

// reader turns a response into records, calls and text. It never fails because
// of what the model wrote.
type reader struct {
	acts  *Activities
	texts texts
	mask  *mask.Masker
	in    workflows.ModelInput
	model string
	at    time.Time
	used  map[string]bool // call IDs that are taken
	// stored: the response was to be kept by the server. It is no use there when
	// a call of it was renamed, as its output would name another.
	stored, renamed bool

	records    []transcript.Record
	calls      []workflows.ToolCall
	answer     workflows.TextRef
	incomplete string

	responseID string
	talk       []string
	inline     int
	foreign    []string // types of items that mean nothing here
	surplus    []transcript.Record
}

// outputItemFields are the fields of an output item that are looked at.
type outputItemFields struct {
	Type      string          `json:"type"`
	Status    string          `json:"status"`
	Content   json.RawMessage `json:"content"`
	Encrypted string          `json:"encrypted_content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

func (r *reader) response(ctx context.Context, res *responses.Response) error {
	body := struct {
		Output []json.RawMessage `json:"output"`
		Store  *bool             `json:"store"`
	}{}
	_ = json.Unmarshal([]byte(res.RawJSON()), &body) // no list: no output
	r.responseID = res.ID
	for _, raw := range body.Output {
		if err := r.item(ctx, raw); err != nil {
			return err
		}
	}
	r.stored = r.stored && !r.renamed && res.ID != "" && res.Status == responses.ResponseStatusCompleted && (body.Store == nil || *body.Store)
	for i := range r.records {
		r.records[i].Stored = r.stored
	}
	if n := len(r.records); n > 0 {
		r.records[n-1].Tokens = max(0, res.Usage.InputTokens) + max(0, res.Usage.OutputTokens)
	}
	r.records = append(r.records, r.surplus...)
	r.stripIDs()
	r.incomplete = incomplete(res)
	return r.finish(ctx)
}

func (r *reader) item(ctx context.Context, raw json.RawMessage) error {
	o, err := readObject(raw)
	it := outputItemFields{}
	if err != nil || json.Unmarshal(raw, &it) != nil {
		r.foreign = append(r.foreign, "unreadable")
		return nil
	}
	o.dropNulls()
	switch it.Type {
	case itemMessage:
		r.message(o, it)
	case itemReasoning:
		o.drop("status") // the API refuses it when it comes back
		r.keep(o.encode(), it.Encrypted == "")
	case itemCall:
		return r.call(ctx, o, it)
	default:
		r.foreign = append(r.foreign, it.Type)
		r.keep(o.encode(), true)
	}
	return nil
}

func (r *reader) keep(raw json.RawMessage, unsent bool) {
	r.records = append(r.records, transcript.Record{
		Item: raw, At: r.at, Turn: r.in.Turn, Model: r.model, Response: r.responseID, Unsent: unsent,
	})
}

func (r *reader) message(o *orderedObject, it outputItemFields) {
	text := clean(messageText(it.Content))
	o.set("role", json.RawMessage(`"assistant"`))
	blank := strings.TrimSpace(text) == ""
	r.keep(o.encode(), blank)
	if !blank {
		r.talk = append(r.talk, text)
	}
}

// messageText joins the text and refusal parts of a message's content.
func messageText(content json.RawMessage) string {
	text := ""
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct {
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	}
	_ = json.Unmarshal(content, &parts) // of another form: no text
	for _, p := range parts {
		text += p.Text + p.Refusal
	}
	return text
}

func (r *reader) call(ctx context.Context, o *orderedObject, it outputItemFields) error {
	id := r.callID(it.CallID)
	arguments := ""
	if json.Unmarshal(it.Arguments, &arguments) != nil {
		arguments = string(it.Arguments) // some servers send the object itself
	}
	tool, shown, bad, isMCP := r.acts.mcpCall(ctx, it.Name, arguments)
	if !isMCP {
		shown, bad = checkCall(it.Name, arguments)
	}
	if it.Status == "incomplete" {
		bad = "The call was cut short before its arguments were whole."
	}
	o.set("call_id", item(id))
	o.set("arguments", item(sendable(arguments)))
	if !goodToolName.MatchString(it.Name) {
		o.set("name", item("invalid_tool_name"))
	}
	o.drop("status")
	r.keep(o.encode(), false)
	if len(r.calls) == maxCalls {
		r.refuseSurplus(id)
		return nil
	}
	call := workflows.ToolCall{CallID: id, Tool: cut(clean(it.Name), 64), MCP: tool, Bad: bad}
	if isMCP {
		call.Tool = cut(tool.Name(), 100)
	}
	call.Shown = cut(policy.Shown(r.mask.Text(shown)), workflows.MaxShownCommand)
	if bad != "" {
		call.Shown = cut(policy.Shown(r.mask.Text(it.Name+" "+arguments)), workflows.MaxShownCommand/4)
		r.calls = append(r.calls, call)
		return nil
	}
	limit := workflows.MaxInlineText
	if r.inline+len(arguments) > maxInlineArgs {
		limit = 0
	}
	var err error
	if call.Args, err = r.texts.save(ctx, r.in.WorkflowID, arguments, limit); err != nil {
		return err
	}
	r.inline += len(call.Args.Text)
	if !isMCP {
		call.Yield, call.Session = yieldOf(it.Name, arguments)
	}
	r.calls = append(r.calls, call)
	return nil
}

// callID returns the model's ID if it can stand, else one of our own.
func (r *reader) callID(id string) string {
	for n := 0; !goodCallID.MatchString(id) || r.used[id]; n++ {
		h := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d\x00%s\x00%d", r.in.WorkflowID, r.in.Turn, len(r.used), id, n))
		id = "call_" + hex.EncodeToString(h[:12])
		r.renamed = true
	}
	r.used[id] = true
	return id
}

// sendable returns arguments as the API takes them back: a JSON object.
func sendable(arguments string) string {
	if strings.HasPrefix(strings.TrimSpace(arguments), "{") && json.Valid([]byte(arguments)) {
		return clean(arguments)
	}
	return string(item(object{"unreadable": cut(clean(arguments), previewBytes)}))
}

// refuseSurplus answers a call beyond what one step takes.
func (r *reader) refuseSurplus(id string) {
	text := tooloutput.Format(tooloutput.Output{
		State: "denied", Note: fmt.Sprintf("not run: one response may hold at most %d calls", maxCalls),
	})
	r.surplus = append(r.surplus, transcript.Record{Item: outputItem(id, text), At: r.at, Turn: r.in.Turn})
}

// stripIDs takes the IDs off a response whose reasoning cannot be sent back: an
// item that names reasoning which is not there is refused.
func (r *reader) stripIDs() {
	lost := false
	for _, rec := range r.records {
		lost = lost || (rec.Unsent && peek(rec).Type == itemReasoning)
	}
	if !lost {
		return
	}
	for i, rec := range r.records {
		if !rec.Unsent {
			r.records[i].Item = without(rec.Item, "id")
		}
	}
}

// incomplete says why a response was cut short.
func incomplete(res *responses.Response) string {
	if res.Status != responses.ResponseStatusIncomplete {
		return ""
	}
	switch reason := res.IncompleteDetails.Reason; reason {
	case "max_output_tokens", "max_tokens":
		return "The answer was cut short: the model reached its output limit."
	case "content_filter":
		return "The answer was cut short by the model's content filter."
	default:
		return "The answer was cut short by the model's server."
	}
}

// finish makes the text. A response that is whole and holds nothing of use gets
// a sentence instead.
func (r *reader) finish(ctx context.Context) error {
	text := strings.TrimSpace(strings.Join(r.talk, "\n\n"))
	switch {
	case text != "", len(r.calls) > 0, r.incomplete != "":
	case len(r.foreign) > 0:
		text = "The model answered with something that this session has no use for (" + kinds(r.foreign) +
			"). Ask again, or take another model: `model <name>`."
	default:
		text = "The model answered with nothing. Ask again, or take another model: `model <name>`."
	}
	if text == "" {
		return nil
	}
	var err error
	r.answer, err = r.texts.save(ctx, r.in.WorkflowID, text, workflows.MaxInlineText)
	return err
}

// kinds lists the different types, without what might not be words.
func kinds(types []string) string {
	var names []string
	for _, t := range types {
		if t = word(t); t == "" {
			t = "untyped"
		}
		if !slices.Contains(names, t) {
			names = append(names, t)
		}
	}
	if len(names) > 3 {
		names = append(names[:3], "…")
	}
	return strings.Join(names, ", ")
}
