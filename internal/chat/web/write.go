package web

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// prefixes address the agent.
var prefixes = []string{"/agent", "@countersign"}

const (
	// forwardTimeout bounds one try to hand a message to Temporal.
	forwardTimeout = 10 * time.Second
	// postTimeout bounds a post, with the wait for a twin that is being handed
	// over; the page waits 20 s for its answer.
	postTimeout = 15 * time.Second
)

type postBody struct {
	Text     *string `json:"text"`
	ClientID string  `json:"client_id"`
	// Files are uploads that the message brings.
	Files []upload `json:"files"`
}

type posted struct {
	MessageID string `json:"message_id"`
	ThreadID  string `json:"thread_id"`
	// Text is for the author alone.
	Text string `json:"text,omitempty"`
	// Opened is the thread that a command opened.
	Opened string `json:"opened,omitempty"`
}

// maxClientID bounds client_id, in bytes.
const maxClientID = 200

func readPost(w http.ResponseWriter, r *http.Request) (postBody, error) {
	var b postBody
	if err := decode(w, r, &b); err != nil {
		return b, err
	}
	bad := func(status int, code, message, hint string) (postBody, error) {
		return b, refuse(&apiError{status, code, message, hint})
	}
	if len(b.Files) > 0 && b.Text == nil {
		b.Text = new(string)
	}
	switch {
	case b.Text == nil || strings.TrimSpace(*b.Text) == "" && len(b.Files) == 0:
		return bad(http.StatusBadRequest, "empty_text", "The message is empty.", "Write what the agent should do.")
	case len(*b.Text) > maxText:
		return bad(http.StatusRequestEntityTooLarge, "too_large", "The text is longer than 1 MiB.", "Put it into a file of the workspace, or send it in parts.")
	case strings.ContainsRune(*b.Text, 0):
		return bad(http.StatusBadRequest, "nul_in_text", "The text has a NUL character.", "Send it without.")
	case len(b.ClientID) > maxClientID || strings.ContainsRune(b.ClientID, 0):
		return bad(http.StatusBadRequest, "bad_client_id", "client_id is too long.", "Use up to 200 bytes, such as a UUID.")
	}
	if e := checkFiles(b.Files); e != nil {
		return b, refuse(e)
	}
	*b.Text = withNames(*b.Text, b.Files)
	return b, nil
}

func (s *Server) postInChannel(w http.ResponseWriter, r *http.Request, by workflows.Actor) error {
	channel, err := s.channel(r)
	if err != nil {
		return err
	}
	b, err := readPost(w, r)
	if err != nil {
		return err
	}
	if _, ok := chat.Addressed(*b.Text, prefixes...); !ok {
		return refuse(&apiError{http.StatusBadRequest, "not_addressed", "Plain text in a channel starts nothing.",
			"Begin with “/agent ” and the task, or write into a thread."})
	}
	return s.post(w, r, row{channel: channel, author: by.ID, text: *b.Text, clientID: b.ClientID, files: b.Files})
}

func (s *Server) postInThread(w http.ResponseWriter, r *http.Request, by workflows.Actor) error {
	t, err := s.thread(r)
	if err != nil {
		return err
	}
	b, err := readPost(w, r)
	if err != nil {
		return err
	}
	if !t.session {
		return refuse(&apiError{http.StatusConflict, "no_session", "This thread holds no session.", "Start one in the channel with “/agent ” and the task."})
	}
	return s.post(w, r, row{channel: t.channel, thread: t.id, author: by.ID, text: *b.Text, clientID: b.ClientID, files: b.Files})
}

// post stores a message, hands it over and answers. The same client_id, also at
// the same time, gives the same answer.
func (s *Server) post(w http.ResponseWriter, r *http.Request, m row) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), postTimeout)
	defer cancel()
	for range 3 {
		stored, err := s.store.begin(ctx, m)
		if err != nil {
			return err
		}
		done, err := s.handOver(ctx, stored.id)
		if errors.Is(err, errNotFound) {
			continue // a twin was refused and forgotten meanwhile
		}
		if err != nil {
			return err
		}
		answer(w, http.StatusAccepted, posted{MessageID: done.id, ThreadID: done.thread, Text: done.reply, Opened: done.opens})
		return nil
	}
	return errNotFound
}

// handOver brings a pending message to Temporal, waiting for whoever is at it
// already, and returns it as it then is.
func (s *Server) handOver(ctx context.Context, id string) (row, error) {
	unlock := s.locks.lock(id)
	defer unlock()
	m, err := s.store.message(ctx, id)
	if err != nil || !m.pending() {
		return m, err
	}
	return s.forward(ctx, m)
}

// forward hands a message over; its lock is held. What was refused is forgotten;
// what is not confirmed stays pending and is tried again.
func (s *Server) forward(ctx context.Context, m row) (row, error) {
	fctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	reply, err := s.route(fctx, m)
	if err == nil {
		s.retry.done(m.id)
		return s.store.accept(ctx, m, reply)
	}
	var e *chat.Error
	if errors.As(err, &e) && e.Kind == chat.KindUnconfirmed {
		s.retry.failed(m.id, time.Now())
		return m, err
	}
	s.retry.done(m.id)
	return m, errors.Join(err, s.store.abandon(ctx, m))
}

// route takes a message to where it belongs.
func (s *Server) route(ctx context.Context, m row) (chat.Reply, error) {
	t := thread{id: m.thread, channel: m.channel}.workflow()
	ev := chat.Event{
		ID: m.id, Thread: t, New: t, By: workflows.Actor{ID: m.author, Name: m.author}, At: m.at,
	}
	files, err := s.store.attached(ctx, m.id)
	if err != nil {
		return chat.Reply{}, err
	}
	ev.Text = withoutNames(m.text, files)
	chat.Attach(&ev, files)
	rest, addressed := chat.Addressed(ev.Text, prefixes...)
	if m.thread == m.id {
		ev.Thread.ID, ev.Text = "", rest
		return s.router.Command(ctx, ev)
	}
	ev.New.ID = s.store.newID()
	if addressed {
		ev.Text = rest
		return s.router.Command(ctx, ev)
	}
	return s.router.Message(ctx, ev)
}

// forwardPending hands over what a crash or a slow server left open, at the
// start and from time to time.
func (s *Server) forwardPending(ctx context.Context) {
	tick := time.NewTicker(firstRetry)
	defer tick.Stop()
	for {
		rows, err := s.store.pendingRows(ctx)
		if err != nil && ctx.Err() == nil {
			s.opt.Log.Error("Pending messages could not be read", telemetry.KeyError, err)
		}
		for _, m := range rows {
			if s.retry.isDue(m.id, time.Now()) {
				s.tryAgain(ctx, m.id)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// tryAgain hands one pending message over unless somebody is at it.
func (s *Server) tryAgain(ctx context.Context, id string) {
	unlock, ok := s.locks.tryLock(id)
	if !ok {
		return
	}
	defer unlock()
	m, err := s.store.message(ctx, id)
	if err != nil || !m.pending() {
		return
	}
	if _, err := s.forward(ctx, m); err != nil && ctx.Err() == nil {
		s.opt.Log.Warn("Pending message was not handed over", telemetry.KeyMessageID, id, telemetry.KeyError, err)
		return
	}
	s.opt.Log.Info("Pending message handed over", telemetry.KeyMessageID, id)
}
