package offline

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
)

const typeInvalid = "invalid_request_error"

// apiError is the API's error object.
type apiError struct {
	status  int
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func (e *apiError) Error() string { return e.Message }

func invalid(param, code, message string) *apiError {
	e := &apiError{status: http.StatusBadRequest, Message: message, Type: typeInvalid}
	if param != "" {
		e.Param = &param
	}
	if code != "" {
		e.Code = &code
	}
	return e
}

func writeError(w http.ResponseWriter, e *apiError) {
	writeJSON(w, e.status, map[string]any{"error": e})
}

// request is what is read of a request.
type request struct {
	Model          string            `json:"model"`
	Input          json.RawMessage   `json:"input"`
	Store          *bool             `json:"store"`
	Stream         bool              `json:"stream"`
	Background     bool              `json:"background"`
	Previous       string            `json:"previous_response_id"`
	PromptCacheKey string            `json:"prompt_cache_key"`
	Tools          []json.RawMessage `json:"tools"`

	items []item
}

// item is one input item.
type item struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments *string         `json:"arguments"`
	Output    json.RawMessage `json:"output"`
	Encrypted string          `json:"encrypted_content"`

	text string // of a message or an output
}

// Fields of the API's request, and of the input items that a replay holds.
var (
	requestFields = []string{
		"background", "context_management", "conversation", "include", "input", "instructions", "max_output_tokens",
		"max_tool_calls", "metadata", "model", "parallel_tool_calls", "previous_response_id", "prompt",
		"prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning", "safety_identifier",
		"service_tier", "store", "stream", "stream_options", "temperature", "text", "tool_choice", "tools",
		"top_logprobs", "top_p", "truncation", "user",
	}
	itemFields = map[string][]string{
		"message":              {"type", "role", "content", "id", "status", "phase"},
		"reasoning":            {"type", "id", "summary", "content", "encrypted_content"},
		"function_call":        {"type", "id", "call_id", "name", "arguments", "status"},
		"function_call_output": {"type", "id", "call_id", "output", "status"},
	}
	roles   = []string{"user", "assistant", "system", "developer"}
	nameFit = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
)

// maxCallID is the longest call_id that the API takes.
const maxCallID = 64

// readRequest reads and checks a request; its errors are [apiError]s.
func readRequest(data []byte) (*request, error) {
	fields := map[string]json.RawMessage{}
	req := &request{}
	if json.Unmarshal(data, &fields) != nil || json.Unmarshal(data, req) != nil {
		return nil, invalid("", "", "We could not parse the JSON body of your request.")
	}
	if name, ok := unknown(fields, requestFields); ok {
		return nil, invalid(name, "unknown_parameter", "Unknown parameter: '"+name+"'.")
	}
	switch {
	case req.Model == "":
		return nil, invalid("model", "missing_required_parameter", "Missing required parameter: 'model'.")
	case req.Stream:
		return nil, invalid("stream", "unsupported_value", "The offline model does not stream.")
	case req.Background:
		return nil, invalid("background", "unsupported_value", "The offline model has no background mode.")
	case req.Previous != "":
		return nil, invalid("previous_response_id", "previous_response_not_found",
			"Previous response with id '"+req.Previous+"' not found.")
	}
	if err := checkTools(req.Tools); err != nil {
		return nil, err
	}
	return req, req.readInput()
}

func unknown(fields map[string]json.RawMessage, known []string) (string, bool) {
	for name := range fields {
		if !slices.Contains(known, name) {
			return name, true
		}
	}
	return "", false
}

func (r *request) readInput() error {
	var raw []json.RawMessage
	if text := ""; json.Unmarshal(r.Input, &text) == nil && text != "" {
		r.items = []item{{Type: "message", Role: "user", text: text}}
		return nil
	}
	if json.Unmarshal(r.Input, &raw) != nil || len(raw) == 0 {
		return invalid("input", "missing_required_parameter", "Missing required parameter: 'input'.")
	}
	for i, one := range raw {
		it, err := readItem(fmt.Sprintf("input[%d]", i), one)
		if err != nil {
			return err
		}
		if it.Type == "reasoning" && it.Encrypted == "" && r.Store != nil && !*r.Store {
			return invalid("input", "", "Item not found. Items are not persisted when `store` is set to false. "+
				"Try again with `store` set to true, or remove this item from your input.")
		}
		r.items = append(r.items, it)
	}
	return checkPairs(r.items)
}

func readItem(at string, raw json.RawMessage) (item, error) {
	fields := map[string]json.RawMessage{}
	it := item{}
	if json.Unmarshal(raw, &fields) != nil || json.Unmarshal(raw, &it) != nil {
		return it, invalid(at, "invalid_type", "Invalid type for '"+at+"': expected an object.")
	}
	if it.Type == "" && it.Role != "" {
		it.Type = "message"
	}
	known, ok := itemFields[it.Type]
	if !ok {
		return it, invalid(at, "invalid_value", "Invalid value: '"+it.Type+"'.")
	}
	if name, is := unknown(fields, known); is {
		return it, invalid(at+"."+name, "unknown_parameter", "Unknown parameter: '"+at+"."+name+"'.")
	}
	switch it.Type {
	case "message":
		if !slices.Contains(roles, it.Role) {
			return it, invalid(at+".role", "invalid_value", "Invalid value: '"+it.Role+"'.")
		}
		it.text, ok = contentText(it.Content)
		if !ok {
			return it, invalid(at+".content", "invalid_type", "Invalid type for '"+at+".content'.")
		}
	case "function_call":
		if !nameFit.MatchString(it.Name) {
			return it, invalid(at+".name", "invalid_value", "Invalid '"+at+".name'.")
		}
		if it.Arguments == nil {
			return it, invalid(at+".arguments", "missing_required_parameter", "Missing required parameter: '"+at+".arguments'.")
		}
	case "function_call_output":
		it.text, ok = contentText(it.Output)
		if !ok {
			return it, invalid(at+".output", "invalid_type", "Invalid type for '"+at+".output'.")
		}
	}
	return it, checkCallID(at, it)
}

func checkCallID(at string, it item) error {
	if it.Type != "function_call" && it.Type != "function_call_output" {
		return nil
	}
	switch n := len(it.CallID); {
	case n == 0:
		return invalid(at+".call_id", "missing_required_parameter", "Missing required parameter: '"+at+".call_id'.")
	case n > maxCallID:
		return invalid(at+".call_id", "string_above_max_length", fmt.Sprintf(
			"Invalid '%s.call_id': string too long. Expected a string with maximum length %d, but got a string with length %d instead.",
			at, maxCallID, n))
	}
	return nil
}

// contentText reads a string, or a list of text parts.
func contentText(raw json.RawMessage) (string, bool) {
	text := ""
	if json.Unmarshal(raw, &text) == nil {
		return text, raw != nil && string(raw) != "null"
	}
	var parts []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", false
	}
	for _, p := range parts {
		switch p.Type {
		case "input_text", "output_text":
			text += p.Text
		case "refusal":
			text += p.Refusal
		default:
			return "", false
		}
	}
	return text, true
}

// checkPairs refuses calls without output, outputs without call, and reasoning
// that nothing follows.
func checkPairs(items []item) error {
	called, answered := map[string]bool{}, map[string]bool{}
	for i, it := range items {
		switch it.Type {
		case "function_call":
			if called[it.CallID] {
				return invalid("input", "", "Duplicate function call with call_id "+it.CallID+".")
			}
			called[it.CallID] = true
		case "function_call_output":
			if !called[it.CallID] {
				return invalid("input", "", "No tool call found for function call output with call_id "+it.CallID+".")
			}
			if answered[it.CallID] {
				return invalid("input", "", "Duplicate function call output with call_id "+it.CallID+".")
			}
			answered[it.CallID] = true
		case "reasoning":
			if i+1 == len(items) || items[i+1].Type == "function_call_output" || items[i+1].Role == "user" {
				return invalid("input", "", "Item of type 'reasoning' was provided without its required following item.")
			}
		}
	}
	for _, it := range items {
		if it.Type == "function_call" && !answered[it.CallID] {
			return invalid("input", "", "No tool output found for function call "+it.CallID+".")
		}
	}
	return nil
}

// checkTools refuses tools that are no functions, and strict schemas that are
// not: every property required, no others allowed.
func checkTools(tools []json.RawMessage) error {
	for i, raw := range tools {
		at := fmt.Sprintf("tools[%d]", i)
		tool := struct {
			Type       string `json:"type"`
			Name       string `json:"name"`
			Strict     bool   `json:"strict"`
			Parameters struct {
				Properties map[string]json.RawMessage `json:"properties"`
				Required   []string                   `json:"required"`
				Additional *bool                      `json:"additionalProperties"`
			} `json:"parameters"`
		}{}
		if json.Unmarshal(raw, &tool) != nil || tool.Type != "function" {
			return invalid(at+".type", "invalid_value", "The offline model takes function tools only.")
		}
		if !nameFit.MatchString(tool.Name) {
			return invalid(at+".name", "invalid_value", "Invalid '"+at+".name'.")
		}
		if !tool.Strict {
			continue
		}
		p := tool.Parameters
		strict := p.Additional != nil && !*p.Additional && len(p.Required) == len(p.Properties)
		for name := range p.Properties {
			strict = strict && slices.Contains(p.Required, name)
		}
		if !strict {
			return invalid(at+".parameters", "invalid_function_parameters",
				"Invalid schema for function '"+tool.Name+"': 'required' must name every property and 'additionalProperties' must be false.")
		}
	}
	return nil
}
