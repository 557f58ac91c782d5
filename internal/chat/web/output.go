package web

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// outputChunk is how much of an output is read at once, in bytes.
const outputChunk = 1 << 20 // 1 MiB

// getOutput answers the raw bytes of a tool call's stream, from offset on, as
// far as they are known now: while the call runs, ask again from where they
// ended.
func (s *Server) getOutput(w http.ResponseWriter, r *http.Request, _ workflows.Actor) error {
	name := r.URL.Query().Get("stream")
	if name == "" {
		name = "stdout"
	}
	if name != "stdout" && name != "stderr" {
		return refuse(&apiError{http.StatusBadRequest, "bad_stream", "A command has no stream of that name.", "Use stdout or stderr."})
	}
	var offset int64
	if v := r.URL.Query().Get("offset"); v != "" {
		var err error
		if offset, err = strconv.ParseInt(v, 10, 64); err != nil || offset < 0 {
			return refuse(&apiError{http.StatusBadRequest, "bad_offset", "“offset” is not a number of bytes.", "Leave it out to read from the start."})
		}
	}
	t, exec, err := s.findCall(r, r.PathValue("call"))
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "sandbox")
	if exec == "" { // it has not started
		return nil
	}
	out, started := s.opt.Outputs(t.WorkflowID()), false
	for {
		data, err := out.ReadAt(r.Context(), exec, name, offset, outputChunk)
		if err != nil {
			if !started {
				return err
			}
			s.opt.Log.Warn("Output broke off", telemetry.KeyToolCallID, r.PathValue("call"), telemetry.KeyError, err)
			panic(http.ErrAbortHandler) // so that the reader does not take it for the end
		}
		if len(data) == 0 {
			return nil
		}
		started = true
		if _, err := w.Write(data); err != nil {
			return nil // the client is gone
		}
		offset += int64(len(data))
	}
}

// findCall returns a tool call's session and exec. A call's ID begins with its
// thread's.
func (s *Server) findCall(r *http.Request, id string) (workflows.Thread, string, error) {
	threadID, _, ok := strings.Cut(id, ".")
	if !ok || !isID(threadID) {
		return workflows.Thread{}, "", refuse(notFound("tool call"))
	}
	t, err := s.store.thread(r.Context(), threadID)
	if errors.Is(err, errNotFound) {
		return workflows.Thread{}, "", refuse(notFound("tool call"))
	}
	if err != nil {
		return workflows.Thread{}, "", err
	}
	exec, err := s.store.exec(r.Context(), id)
	if err == nil && exec != "" {
		return t.workflow(), exec, nil
	}
	known := err == nil
	if err != nil && !errors.Is(err, errNotFound) {
		return workflows.Thread{}, "", err
	}
	// The card may lag behind the session.
	info, err := s.opt.Sessions.ToolCall(r.Context(), t.workflow().WorkflowID(), id)
	switch {
	case err == nil:
		return t.workflow(), info.ExecID, nil
	case known:
		return t.workflow(), "", nil
	}
	return workflows.Thread{}, "", refuse(notFound("tool call"))
}
