package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/countersign/countersign/internal/workflows"
)

const (
	// eventsBatch bounds what one look at the store returns.
	eventsBatch = 100
	// keepAlive is how often a silent stream says that it lives.
	keepAlive = 15 * time.Second
	// pollEvery finds changes that another process has made.
	pollEvery = time.Second
	// writeTimeout bounds one write to a slow reader, who then resumes.
	writeTimeout = 30 * time.Second
)

// getEvents streams messages as they change. An event's ID is the number of the
// change and its data the whole message, so that only the newest state of each
// message is kept: a reader that resumes sees the last state, not every one.
func (s *Server) getEvents(w http.ResponseWriter, r *http.Request, _ workflows.Actor) error {
	after, err := eventsAfter(r)
	if err != nil {
		return err
	}
	last, err := s.store.lastSeq(r.Context())
	if err != nil {
		return err
	}
	if after > last {
		return refuse(&apiError{http.StatusGone, "unknown_event", "No event has had that number here.", "Read the thread again and follow from GET /api/v1/meta's last_event."})
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	st := stream{w: w, c: http.NewResponseController(w)}
	_ = st.c.SetReadDeadline(time.Time{}) // the request's own bound does not hold for a stream
	if st.send(": follow\n\n") != nil {
		return nil
	}
	s.follow(r, &st, after)
	return nil
}

func eventsAfter(r *http.Request) (int64, error) {
	v := r.URL.Query().Get("after")
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		v = id
	}
	if v == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		return 0, refuse(&apiError{http.StatusBadRequest, "bad_after", "“after” is not an event's number.", "Leave it out to start from the beginning."})
	}
	return n, nil
}

// follow writes events until the reader or the server ends.
func (s *Server) follow(r *http.Request, st *stream, after int64) {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		changed := s.store.wait()
		rows, err := s.store.since(r.Context(), after, eventsBatch)
		if err != nil {
			if r.Context().Err() == nil {
				s.opt.Log.Error("Events could not be read", "error", err)
			}
			return
		}
		for _, m := range rows {
			if st.event(m) != nil {
				return
			}
			after = m.seq
		}
		if len(rows) == eventsBatch {
			continue
		}
		select {
		case <-r.Context().Done():
			return
		case <-s.ended:
			return
		case <-changed:
		case <-poll.C:
			if st.alive() != nil {
				return
			}
		}
	}
}

// stream writes to one reader.
type stream struct {
	w    http.ResponseWriter
	c    *http.ResponseController
	last time.Time
}

func (st *stream) event(m row) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m.message()); err != nil {
		return err
	}
	return st.send(fmt.Sprintf("id: %d\ndata: %s\n\n", m.seq, bytes.TrimRight(b.Bytes(), "\n")))
}

func (st *stream) alive() error {
	if time.Since(st.last) < keepAlive {
		return nil
	}
	return st.send(": alive\n\n")
}

func (st *stream) send(text string) error {
	st.last = time.Now()
	if err := st.c.SetWriteDeadline(st.last.Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := st.w.Write([]byte(text)); err != nil {
		return err
	}
	return st.c.Flush()
}
