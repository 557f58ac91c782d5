package agent

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/countersign/countersign/internal/agent/tooloutput"
	"github.com/countersign/countersign/internal/agent/transcript"
)

// Types of input items that are sent.
const (
	itemMessage   = "message"
	itemReasoning = "reasoning"
	itemCall      = "function_call"
	itemOutput    = "function_call_output"
	itemCompacted = "compaction"
)

// peeked are the fields of an item that replaying looks at.
type peeked struct {
	Type   string `json:"type"`
	Role   string `json:"role"`
	CallID string `json:"call_id"`
}

func messageItem(text string) json.RawMessage {
	if text == "" {
		text = "(empty message)" // the API refuses empty ones
	}
	return item(struct {
		Type    string `json:"type"`
		Role    string `json:"role"`
		Content []any  `json:"content"`
	}{itemMessage, "user", []any{struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"input_text", text}}})
}

func outputItem(callID, text string) json.RawMessage {
	if text == "" {
		text = "(no output)"
	}
	return item(struct {
		Type   string `json:"type"`
		CallID string `json:"call_id"`
		Output string `json:"output"`
	}{itemOutput, callID, text})
}

// item encodes v without HTML escapes; v is always of this package's own making
// and marshals.
func item(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("agent: an item does not marshal: " + err.Error())
	}
	return bytes.TrimSpace(b.Bytes())
}

// replay returns the input items that model gets of the records. What the API
// would refuse for ever is mended on the way, so that no accident can wedge a
// session: a call without output gets one, an output without call, a second
// output and reasoning that nothing follows are left out. Reasoning of another
// model, which this one cannot read, is left out as well, and so is all of it
// without withReasoning; the items that came with it then go without their IDs.
// What stands before the record from is known to the server and left out.
func replay(records []transcript.Record, model string, withReasoning bool, from int) []json.RawMessage {
	answered := map[string]bool{}
	seen := make([]peeked, len(records))
	for i, r := range records {
		seen[i] = peek(r)
		if !r.Unsent && seen[i].Type == itemOutput {
			answered[seen[i].CallID] = true
		}
	}
	var kept []json.RawMessage
	var types []peeked
	add := func(raw json.RawMessage, it peeked) {
		kept = append(kept, raw)
		types = append(types, it)
	}
	called, done := map[string]bool{}, map[string]bool{}
	for i, r := range records {
		it := seen[i]
		foreign := r.Model != "" && (r.Model != model || !withReasoning)
		switch {
		case r.Unsent, it.Type == itemReasoning && foreign:
			continue
		case it.Type == itemOutput && (!called[it.CallID] || done[it.CallID]):
			continue
		}
		raw := r.Item
		if foreign {
			raw = without(raw, "id")
		}
		if i >= from {
			add(raw, it)
		}
		done[it.CallID] = done[it.CallID] || it.Type == itemOutput
		if it.Type != itemCall {
			continue
		}
		called[it.CallID] = true
		if !answered[it.CallID] {
			text := tooloutput.Format(tooloutput.Output{State: "unknown", Note: "no outcome of this call was recorded"})
			add(outputItem(it.CallID, text), peeked{Type: itemOutput, CallID: it.CallID})
			done[it.CallID] = true
		}
	}
	return dropLoneReasoning(kept, types)
}

// dropLoneReasoning leaves out reasoning that is not followed by what it led to.
func dropLoneReasoning(items []json.RawMessage, types []peeked) []json.RawMessage {
	followed := false
	var kept []json.RawMessage // in reverse
	for i, t := range slices.Backward(types) {
		if t.Type == itemReasoning && !followed {
			continue
		}
		if t.Type != itemReasoning {
			followed = t.Type == itemCall || (t.Type == itemMessage && t.Role == "assistant")
		}
		kept = append(kept, items[i])
	}
	slices.Reverse(kept)
	return kept
}

func peek(r transcript.Record) peeked {
	it := peeked{}
	_ = json.Unmarshal(r.Item, &it) // a record that is no object is sent as it is
	return it
}

// without returns a JSON object without one field, the others in their order.
func without(raw json.RawMessage, field string) json.RawMessage {
	o, err := readObject(raw)
	if err != nil {
		return raw
	}
	o.drop(field)
	return o.encode()
}
