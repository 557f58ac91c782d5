package agenttest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/countersign/countersign/internal/agent/wire"
)

// Answer is what the model says to a request, or what goes wrong.
type Answer struct {
	// Output are the items: [Says], [Thinks], [Calls], or anything that marshals.
	Output []any
	// Status is completed where it is empty; Reason is why it is incomplete, or
	// the code with which it failed.
	Status, Reason string
	// Refuse answers with an error instead.
	Refuse *Refusal
	// Pause is waited for before each event, and Wait before the answer begins.
	Pause, Wait time.Duration
	// CutAfter ends the connection after so many events; 0 never.
	CutAfter int
	// Plain answers as a whole, though a stream was asked for.
	Plain bool
	// Handler answers in place of the server, which has checked the request.
	Handler http.HandlerFunc
	// Input and Output tokens in place of the counted ones.
	InputTokens, OutputTokens int
}

// Refusal is an error answer.
type Refusal struct {
	Status      int
	Code, Param string
	// RetryAfter is a header in seconds; 0 sends none.
	RetryAfter int
}

// Refuses answers with an error.
func Refuses(status int, code string) Answer {
	return Answer{Refuse: &Refusal{Status: status, Code: code}}
}

// Gives answers with these items.
func Gives(items ...any) Answer { return Answer{Output: items} }

// Says is a message of the model.
func Says(text string) any {
	return map[string]any{
		"type": "message", "role": "assistant", "status": "completed",
		"content": []any{map[string]any{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}},
	}
}

// Thinks is reasoning with a summary; the server seals it.
func Thinks(summary string) any {
	return map[string]any{"type": "reasoning", "summary": []any{map[string]any{"type": "summary_text", "text": summary}}}
}

// Calls is a call of a tool, with arguments as an object.
func Calls(id, tool string, arguments any) any {
	data, err := json.Marshal(arguments)
	if err != nil {
		panic(err) // of a test's own making
	}
	return map[string]any{"type": "function_call", "status": "completed", "call_id": id, "name": tool, "arguments": string(data)}
}

// Shell is a call of the shell tool.
func Shell(id, command string) any {
	return Calls(id, "shell", map[string]any{"command": command, "cwd": nil, "timeout_seconds": nil})
}

func (s *Server) create(w http.ResponseWriter, r *http.Request, req Request) {
	read, err := s.check(req)
	if err != nil {
		s.refuse(w, req, err)
		return
	}
	s.note(req)
	s.asking.Lock()
	a := s.Answer(req)
	s.asking.Unlock()
	if !s.wait(r.Context(), a.Wait) {
		return
	}
	if a.Handler != nil {
		a.Handler(w, r)
		return
	}
	if f := a.Refuse; f != nil {
		if f.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		}
		wire.WriteError(w, &wire.Error{Status: f.Status, Message: "Not now.", Type: "error", Code: &f.Code, Param: &f.Param})
		return
	}
	response := s.respond(req, read, a)
	switch {
	case req.Background:
		s.background(w, r, response, a)
	case req.Stream && !a.Plain:
		s.stream(r.Context(), w, wire.Events(response), a)
	case a.CutAfter > 0:
		panic(http.ErrAbortHandler)
	default:
		wire.WriteJSON(w, http.StatusOK, response)
	}
}

// respond makes the response and keeps it where it is to be kept.
func (s *Server) respond(req Request, read *wire.Request, a Answer) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given++
	id := fmt.Sprintf("resp_%04d", s.given)
	response := map[string]any{
		"id": id, "object": "response", "created_at": 1, "status": "completed", "model": req.Model, "error": nil,
		"incomplete_details": nil, "instructions": req.Instructions, "store": req.Store == nil || *req.Store,
		"parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{}, "previous_response_id": nil,
	}
	switch a.Status {
	case "incomplete":
		response["status"], response["incomplete_details"] = a.Status, map[string]any{"reason": a.Reason}
	case "failed":
		response["status"], response["error"] = a.Status, map[string]any{"code": a.Reason, "message": "It failed."}
	}
	output, written := s.output(id, req, a)
	response["output"] = output
	in, out := s.tokens(req, read), written/4
	if a.InputTokens > 0 {
		in = a.InputTokens
	}
	if a.OutputTokens > 0 {
		out = a.OutputTokens
	}
	response["usage"] = map[string]any{
		"input_tokens": in, "input_tokens_details": map[string]any{"cached_tokens": min(s.cached(req), in)},
		"output_tokens": out, "output_tokens_details": map[string]any{"reasoning_tokens": 0}, "total_tokens": in + out,
	}
	if response["store"] == true && !s.NoStore && a.Status != "failed" {
		s.stored[id] = &kept{response: response, items: slices.Concat(read.Past, read.Items, itemsOf(output))}
	}
	return response
}

// output gives items their IDs, seals reasoning and notes what needs it.
func (s *Server) output(id string, req Request, a Answer) (items []any, bytes int) {
	reasoning := ""
	for i, one := range a.Output {
		it, ok := one.(map[string]any)
		if !ok {
			items = append(items, one)
			continue
		}
		it = maps.Clone(it)
		prefix := map[any]string{"message": "msg", "reasoning": "rs", "function_call": "fc"}[it["type"]]
		if it["id"] == nil && prefix != "" {
			it["id"] = fmt.Sprintf("%s_%s_%d", prefix, id, i)
		}
		own, _ := it["id"].(string)
		if it["type"] == "reasoning" {
			reasoning = own
			if slices.Contains(req.Include, "reasoning.encrypted_content") {
				it["encrypted_content"] = s.seal(own, req.Model)
			}
		} else if reasoning != "" {
			s.needs[own] = reasoning
		}
		items = append(items, it)
		data, err := json.Marshal(it)
		if err == nil {
			bytes += len(data)
		}
	}
	if items == nil {
		items = []any{}
	}
	return items, bytes
}

func (s *Server) seal(what, model string) string {
	s.given++
	text := fmt.Sprintf("gAAAA-%s-%d", what, s.given)
	s.sealed[text] = model
	return text
}

func itemsOf(output []any) []wire.Item {
	var items []wire.Item
	for _, one := range output {
		data, err := json.Marshal(one)
		it := wire.Item{}
		if err == nil && json.Unmarshal(data, &it) == nil {
			items = append(items, it)
		}
	}
	return items
}

func (s *Server) wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
	case <-s.ended:
	}
	return false
}

func (s *Server) stream(ctx context.Context, w http.ResponseWriter, events [][]byte, a Answer) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	flusher, _ := w.(http.Flusher)
	s.opened(1)
	defer s.opened(-1)
	for i, e := range events {
		if a.CutAfter > 0 && i == a.CutAfter {
			panic(http.ErrAbortHandler)
		}
		if !s.wait(ctx, a.Pause) {
			return
		}
		if _, err := w.Write(e); err != nil {
			return
		}
		flusher.Flush()
	}
}
