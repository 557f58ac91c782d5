// Package wire is the server's side of the Responses API: what it refuses, in its
// own words, and how it streams. The offline model and the fakes of the tests
// speak through it, so that both are as strict as the API.
package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
)

// TypeInvalid is the type of errors that no retry mends.
const TypeInvalid = "invalid_request_error"

// Error is the API's error object, with the status it is sent with.
type Error struct {
	Status  int
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Invalid is an error with status 400; empty param and code are left out.
func Invalid(param, code, message string) *Error {
	e := &Error{Status: http.StatusBadRequest, Message: message, Type: TypeInvalid}
	if param != "" {
		e.Param = &param
	}
	if code != "" {
		e.Code = &code
	}
	return e
}

// WriteError answers a request with an error.
func WriteError(w http.ResponseWriter, e *Error) {
	WriteJSON(w, e.Status, map[string]any{"error": e})
}

// Request is what is read of a request.
type Request struct {
	Model          string            `json:"model"`
	Input          json.RawMessage   `json:"input"`
	Store          *bool             `json:"store"`
	Stream         bool              `json:"stream"`
	Background     bool              `json:"background"`
	Previous       string            `json:"previous_response_id"`
	PromptCacheKey string            `json:"prompt_cache_key"`
	Tools          []json.RawMessage `json:"tools"`

	// Items are those of the input, and Past those before them on the server.
	Items []Item `json:"-"`
	Past  []Item `json:"-"`
}

// Item is one input item.
type Item struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments *string         `json:"arguments"`
	Output    json.RawMessage `json:"output"`
	Encrypted string          `json:"encrypted_content"`

	// Text is that of a message or an output, and Images what it shows.
	Text   string  `json:"-"`
	Images []Image `json:"-"`
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
		"compaction":           {"type", "id", "encrypted_content", "created_by"},
	}
	roles   = []string{"user", "assistant", "system", "developer"}
	nameFit = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
)

// maxCallID is the longest call_id that the API takes.
const maxCallID = 64

// Read reads and checks a request; its errors are [*Error]s. past gives the items
// of a stored response and those before it; nil knows none.
func Read(data []byte, past func(id string) ([]Item, bool)) (*Request, error) {
	fields := map[string]json.RawMessage{}
	req := &Request{}
	if json.Unmarshal(data, &fields) != nil || json.Unmarshal(data, req) != nil {
		return nil, Invalid("", "", "We could not parse the JSON body of your request.")
	}
	if name, ok := unknown(fields, requestFields); ok {
		return nil, Invalid(name, "unknown_parameter", "Unknown parameter: '"+name+"'.")
	}
	stored := req.Store == nil || *req.Store
	switch {
	case req.Model == "":
		return nil, Invalid("model", "missing_required_parameter", "Missing required parameter: 'model'.")
	case req.Background && !stored:
		return nil, Invalid("background", "invalid_value", "Background mode requires 'store' to be true.")
	}
	if req.Previous != "" {
		ok := false
		if past != nil {
			req.Past, ok = past(req.Previous)
		}
		if !ok {
			return nil, Invalid("previous_response_id", "previous_response_not_found",
				"Previous response with id '"+req.Previous+"' not found.")
		}
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

func (r *Request) readInput() error {
	var raw []json.RawMessage
	if text := ""; json.Unmarshal(r.Input, &text) == nil && text != "" {
		r.Items = []Item{{Type: "message", Role: "user", Text: text}}
		return nil
	}
	if json.Unmarshal(r.Input, &raw) != nil || len(raw) == 0 {
		return Invalid("input", "missing_required_parameter", "Missing required parameter: 'input'.")
	}
	for i, one := range raw {
		it, err := readItem(fmt.Sprintf("input[%d]", i), one)
		if err != nil {
			return err
		}
		if it.Type == "reasoning" && it.Encrypted == "" && r.Store != nil && !*r.Store {
			return Invalid("input", "", "Item not found. Items are not persisted when `store` is set to false. "+
				"Try again with `store` set to true, or remove this item from your input.")
		}
		r.Items = append(r.Items, it)
	}
	return checkPairs(slices.Concat(r.Past, r.Items))
}

func readItem(at string, raw json.RawMessage) (Item, error) {
	fields := map[string]json.RawMessage{}
	it := Item{}
	if json.Unmarshal(raw, &fields) != nil || json.Unmarshal(raw, &it) != nil {
		return it, Invalid(at, "invalid_type", "Invalid type for '"+at+"': expected an object.")
	}
	if it.Type == "" && it.Role != "" {
		it.Type = "message"
	}
	known, ok := itemFields[it.Type]
	if !ok {
		return it, Invalid(at, "invalid_value", "Invalid value: '"+it.Type+"'.")
	}
	if name, is := unknown(fields, known); is {
		return it, Invalid(at+"."+name, "unknown_parameter", "Unknown parameter: '"+at+"."+name+"'.")
	}
	switch it.Type {
	case "message":
		if !slices.Contains(roles, it.Role) {
			return it, Invalid(at+".role", "invalid_value", "Invalid value: '"+it.Role+"'.")
		}
		if err := it.readContent(at+".content", it.Content, it.Role != "assistant"); err != nil {
			return it, err
		}
	case "function_call":
		if !nameFit.MatchString(it.Name) {
			return it, Invalid(at+".name", "invalid_value", "Invalid '"+at+".name'.")
		}
		if it.Arguments == nil {
			return it, Invalid(at+".arguments", "missing_required_parameter", "Missing required parameter: '"+at+".arguments'.")
		}
	case "function_call_output":
		if err := it.readContent(at+".output", it.Output, true); err != nil {
			return it, err
		}
	}
	return it, checkCallID(at, it)
}

func checkCallID(at string, it Item) error {
	if it.Type != "function_call" && it.Type != "function_call_output" {
		return nil
	}
	switch n := len(it.CallID); {
	case n == 0:
		return Invalid(at+".call_id", "missing_required_parameter", "Missing required parameter: '"+at+".call_id'.")
	case n > maxCallID:
		return Invalid(at+".call_id", "string_above_max_length", fmt.Sprintf(
			"Invalid '%s.call_id': string too long. Expected a string with maximum length %d, but got a string with length %d instead.",
			at, maxCallID, n))
	}
	return nil
}

// checkPairs refuses calls without output, outputs without call, and reasoning
// that nothing follows.
func checkPairs(items []Item) error {
	called, answered := map[string]bool{}, map[string]bool{}
	for i, it := range items {
		switch it.Type {
		case "function_call":
			if called[it.CallID] {
				return Invalid("input", "", "Duplicate function call with call_id "+it.CallID+".")
			}
			called[it.CallID] = true
		case "function_call_output":
			if !called[it.CallID] {
				return Invalid("input", "", "No tool call found for function call output with call_id "+it.CallID+".")
			}
			if answered[it.CallID] {
				return Invalid("input", "", "Duplicate function call output with call_id "+it.CallID+".")
			}
			answered[it.CallID] = true
		case "reasoning":
			if i+1 == len(items) || items[i+1].Type == "function_call_output" || items[i+1].Role == "user" {
				return Invalid("input", "", "Item of type 'reasoning' was provided without its required following item.")
			}
		}
	}
	for _, it := range items {
		if it.Type == "function_call" && !answered[it.CallID] {
			return Invalid("input", "", "No tool output found for function call "+it.CallID+".")
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
			return Invalid(at+".type", "invalid_value", "Only function tools are taken here.")
		}
		if !nameFit.MatchString(tool.Name) {
			return Invalid(at+".name", "invalid_value", "Invalid '"+at+".name'.")
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
			return Invalid(at+".parameters", "invalid_function_parameters",
				"Invalid schema for function '"+tool.Name+"': 'required' must name every property and 'additionalProperties' must be false.")
		}
	}
	return nil
}

// WriteJSON answers a request with an object.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // the reader is gone
}
