// Package offline is a model without a network: it speaks the Responses API,
// runs the commands that people put in backticks and reports what they gave. It
// makes the whole product work, and testable, without a key.
//
// It keeps no state: what it does next follows from the input items alone. It
// refuses what the API refuses, such as a tool call whose output is missing. It
// stores nothing, so every previous_response_id is unknown to it.
package offline

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/countersign/countersign/internal/agent/wire"
	"github.com/countersign/countersign/internal/policy"
)

// Name is the name of the offline model.
const Name = "offline"

// maxRequestBytes is the longest request that is read.
const maxRequestBytes = 256 << 20 // 256 MiB

// Tour is what a message without backticks runs: a look around, the README's
// head, and something harmless that the default policy asks about.
func Tour() []string {
	return []string{
		"ls -la",
		"head -n 20 README.md 2>/dev/null || echo 'There is no README.md here.'",
		policy.TourCommand,
	}
}

// Model is the offline model: an [http.Handler] that serves POST …/responses.
// It is safe for concurrent use.
type Model struct {
	// EndMarks are texts of user messages that end a turn without an answer:
	// what stands before one is not carried on.
	EndMarks []string
}

// Transport returns an [http.RoundTripper] that calls m in-process, whatever
// the address.
func (m *Model) Transport() http.RoundTripper { return transport{handler: m} }

type transport struct{ handler http.Handler }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	defer r.Body.Close()
	w := &memoryWriter{header: http.Header{}, status: http.StatusOK}
	t.handler.ServeHTTP(w, r)
	return &http.Response{
		Status:        http.StatusText(w.status),
		StatusCode:    w.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        w.header,
		Body:          io.NopCloser(bytes.NewReader(w.body.Bytes())),
		ContentLength: int64(w.body.Len()),
		Request:       r,
	}, nil
}

type memoryWriter struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *memoryWriter) Header() http.Header         { return w.header }
func (w *memoryWriter) WriteHeader(status int)      { w.status = status }
func (w *memoryWriter) Write(p []byte) (int, error) { return w.body.Write(p) }

// ServeHTTP answers one request.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/responses") || r.Method != http.MethodPost {
		wire.WriteError(w, &wire.Error{
			Status: http.StatusNotFound, Message: "Invalid URL (" + r.Method + " " + r.URL.Path + ")", Type: wire.TypeInvalid,
		})
		return
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, maxRequestBytes+1))
	if err != nil || len(data) > maxRequestBytes {
		wire.WriteError(w, wire.Invalid("", "request_too_large", "The request body could not be read or is too large."))
		return
	}
	req, err := wire.Read(data, nil)
	if err != nil {
		var refused *wire.Error
		if !errors.As(err, &refused) {
			refused = wire.Invalid("", "", err.Error())
		}
		wire.WriteError(w, refused)
		return
	}
	if req.Background {
		wire.WriteError(w, wire.Invalid("background", "unsupported_value", "The offline model has no background mode."))
		return
	}
	response := m.respond(req, data)
	if !req.Stream {
		wire.WriteJSON(w, http.StatusOK, response)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range wire.Events(response) {
		_, _ = w.Write(e) // the reader is gone
	}
}

// respond makes the response object. Its IDs follow from the request, so that a
// request sent again gets the same ones.
func (m *Model) respond(req *wire.Request, raw []byte) map[string]any {
	h := sha256.Sum256(raw)
	id := hex.EncodeToString(h[:16])
	t := m.turn(req.Items)
	var output []any
	if next := t.next(); len(next) > 0 {
		for i, st := range next {
			name, arguments := st.call(t.session())
			output = append(output, map[string]any{
				"id": "fc_" + id + "_" + strconv.Itoa(i), "type": "function_call", "status": "completed",
				"call_id": callID(req.PromptCacheKey, id, i), "name": name, "arguments": arguments,
			})
		}
	} else {
		output = append(output, map[string]any{
			"id": "msg_" + id, "type": "message", "role": "assistant", "status": "completed",
			"content": []any{map[string]any{
				"type": "output_text", "text": t.answer(), "annotations": []any{}, "logprobs": []any{},
			}},
		})
	}
	return map[string]any{
		"id": "resp_" + id, "object": "response", "created_at": 0, "status": "completed", "model": Name,
		"error": nil, "incomplete_details": nil, "instructions": nil, "metadata": map[string]any{},
		"output": output, "parallel_tool_calls": true, "temperature": 1, "top_p": 1,
		"tool_choice": "auto", "tools": []any{}, "store": false,
		"usage": map[string]any{
			"input_tokens": 0, "input_tokens_details": map[string]any{"cached_tokens": 0},
			"output_tokens": 0, "output_tokens_details": map[string]any{"reasoning_tokens": 0}, "total_tokens": 0,
		},
	}
}

// callID makes IDs that differ between sessions too.
func callID(session, id string, i int) string {
	h := sha256.Sum256([]byte(session + "\x00" + id + "\x00" + strconv.Itoa(i)))
	return "call_" + hex.EncodeToString(h[:12])
}

// patchMark begins a command that is a patch.
const patchMark = "*** Begin Patch"

// toolOf names the tool that a command in backticks is for: a patch is applied,
// `list_files [path]` lists, `view_image path` looks, all else is the shell's.
func toolOf(command string) string {
	word, _, _ := strings.Cut(command, " ")
	switch {
	case strings.HasPrefix(command, patchMark):
		return "apply_patch"
	case word == "list_files", word == "view_image" && word != command:
		return word
	}
	return "shell"
}
