package web

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// getOutput answers the bytes of a tool call's stream, from offset on, as far as
// they are known now: while the call runs, ask again from where they ended. Each
// byte of a secret is an asterisk, so that offsets stay true; while the call
// runs a last word that is not over is kept back, as it may become one.
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
	o := chat.Output{From: s.opt.Outputs(t.WorkflowID()), Mask: s.opt.Mask, Exec: exec, Stream: name, Ended: func() bool { return s.callEnded(r, t) }}
	started := false
	for {
		data, err := o.Read(r.Context(), offset)
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

// callEnded reports whether a call has ended, as the session knows. One that it
// does not have any more has.
func (s *Server) callEnded(r *http.Request, t workflows.Thread) bool {
	info, err := s.opt.Sessions.ToolCall(r.Context(), t.WorkflowID(), r.PathValue("call"))
	switch {
	case err == nil:
		return info.Ended
	case errors.Is(err, workflows.ErrUnavailable), errors.Is(err, workflows.ErrUnconfirmed), r.Context().Err() != nil:
		return false
	}
	return true
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
