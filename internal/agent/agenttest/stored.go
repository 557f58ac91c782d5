package agenttest

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/countersign/countersign/internal/agent/wire"
)

// compact answers with all messages of people and one sealed item, as the API
// does.
func (s *Server) compact(w http.ResponseWriter, req Request) {
	for _, field := range []string{"store", "stream", "tools", "include", "reasoning", "parallel_tool_calls", "tool_choice"} {
		fields := map[string]json.RawMessage{}
		if _ = json.Unmarshal(req.Body, &fields); fields[field] != nil {
			s.refuse(w, req, wire.Invalid(field, "unknown_parameter", "Unknown parameter: '"+field+"'."))
			return
		}
	}
	read, err := s.check(req)
	if err != nil {
		s.refuse(w, req, err)
		return
	}
	s.note(req)
	s.mu.Lock()
	defer s.mu.Unlock()
	var output []any
	for _, raw := range req.Input {
		it := wire.Item{}
		if json.Unmarshal(raw, &it) == nil && it.Type == "message" && it.Role == "user" {
			output = append(output, json.RawMessage(raw))
		}
	}
	sealed := s.seal("compaction", req.Model)
	output = append(output, map[string]any{"id": "cmp_" + sealed, "type": "compaction", "encrypted_content": sealed})
	in := s.tokens(req, read)
	wire.WriteJSON(w, http.StatusOK, map[string]any{
		"id": "resp_" + sealed, "object": "response.compaction", "created_at": 1, "output": output,
		"usage": map[string]any{
			"input_tokens": in, "input_tokens_details": map[string]any{"cached_tokens": 0},
			"output_tokens": 50, "output_tokens_details": map[string]any{"reasoning_tokens": 0}, "total_tokens": in + 50,
		},
	})
}

// background answers a stored response that goes on without its reader: it ends
// when its events have had their time, whether or not they are read.
func (s *Server) background(w http.ResponseWriter, r *http.Request, response map[string]any, a Answer) {
	events := wire.Events(response)
	id, _ := response["id"].(string)
	s.mu.Lock()
	k := s.stored[id]
	s.mu.Unlock()
	if k == nil {
		wire.WriteError(w, wire.Invalid("background", "unsupported_value", "Background mode is not available here."))
		return
	}
	gone := make(chan struct{})
	k.done, k.cancel = make(chan struct{}), sync.OnceFunc(func() { close(gone) })
	go func() {
		defer close(k.done)
		for range events {
			select {
			case <-gone:
				return
			default:
			}
			if !s.wait(context.WithoutCancel(r.Context()), a.Pause) {
				return
			}
		}
	}()
	s.stream(r.Context(), w, events, a)
}

// retrieve answers a stored response, streamed again from its beginning where
// that is asked for, once it has ended.
func (s *Server) retrieve(w http.ResponseWriter, r *http.Request, req Request, id string) {
	s.mu.Lock()
	k := s.stored[id]
	s.mu.Unlock()
	if k == nil {
		s.refuse(w, req, &wire.Error{Status: http.StatusNotFound, Message: "Response with id '" + id + "' not found.", Type: wire.TypeInvalid})
		return
	}
	s.note(req)
	if k.done != nil {
		select {
		case <-k.done:
		case <-r.Context().Done():
			return
		}
	}
	if r.URL.Query().Get("stream") == "true" {
		s.stream(r.Context(), w, wire.Events(k.response), Answer{})
		return
	}
	wire.WriteJSON(w, http.StatusOK, k.response)
}

func (s *Server) cancel(w http.ResponseWriter, req Request, id string) {
	s.mu.Lock()
	k := s.stored[id]
	s.mu.Unlock()
	if k == nil || k.cancel == nil {
		s.refuse(w, req, wire.Invalid("", "", "Cannot cancel a synchronous response."))
		return
	}
	s.note(req)
	k.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	k.response["status"] = "cancelled"
	wire.WriteJSON(w, http.StatusOK, k.response)
}
