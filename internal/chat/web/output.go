package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// outputChunk is how much of an output is answered at once, in bytes.
	outputChunk = 1 << 20 // 1 MiB
	// outputAround is how far on both sides of it a secret is looked for.
	outputAround = 64 << 10
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
	o := output{from: s.opt.Outputs(t.WorkflowID()), mask: s.opt.Mask, exec: exec, stream: name, ended: func() bool { return s.callEnded(r, t) }}
	started := false
	for {
		data, err := o.read(r.Context(), offset)
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

// output is one stream of an exec as people see it.
type output struct {
	from         OutputReader
	mask         *mask.Masker
	exec, stream string
	// ended reports whether nothing more will come.
	ended func() bool
}

// read returns what there is from offset on, at most outputChunk bytes.
func (o output) read(ctx context.Context, offset int64) ([]byte, error) {
	const size = outputChunk + 2*outputAround
	start := max(0, offset-outputAround)
	skip := int(offset - start)
	data, err := o.from.ReadAt(ctx, o.exec, o.stream, start, size)
	if err != nil || len(data) <= skip {
		return nil, err
	}
	end := min(len(data), skip+outputChunk)
	if open := o.mask.Open(data); open > 0 && len(data) < size && len(data)-open < end {
		if !o.ended() {
			return o.mask.Cover(data)[skip:max(len(data)-open, skip)], nil
		}
		// It may have ended only since the bytes were read.
		if data, err = o.from.ReadAt(ctx, o.exec, o.stream, start, size); err != nil {
			return nil, err
		}
		end = min(len(data), skip+outputChunk)
	}
	return o.mask.Cover(data)[skip:max(end, skip)], nil
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
