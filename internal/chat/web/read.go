package web

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/workflows"
)

type threadSummary struct {
	ID         string `json:"id"`
	WorkflowID string `json:"workflow_id"`
	ChannelID  string `json:"channel_id"`
	Title      string `json:"title"`
	Backend    string `json:"backend"`
	Liveness   string `json:"liveness"`
	// Parent is the thread that this one was copied from.
	Parent           string `json:"parent"`
	ParentWorkflowID string `json:"parent_workflow_id,omitempty"`
}

type threadWhole struct {
	threadSummary
	WorkspacePath string    `json:"workspace_path"`
	Messages      []message `json:"messages"`
}

func (s *Server) summary(t thread) threadSummary {
	out := threadSummary{
		ID: t.id, ChannelID: t.channel, Title: t.title, Backend: t.backend, Liveness: t.liveness, Parent: t.parent,
	}
	if t.session {
		out.WorkflowID = t.workflow().WorkflowID()
		if out.Backend == "" && len(s.opt.Backends) > 0 {
			out.Backend = s.opt.Backends[0].Name
		}
	} else {
		out.Liveness = ""
	}
	if t.parent != "" {
		out.ParentWorkflowID = thread{id: t.parent}.workflow().WorkflowID()
	}
	return out
}

func (s *Server) getChannels(w http.ResponseWriter, r *http.Request, _ workflows.Actor) error {
	channels, err := s.store.channels(r.Context())
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, channels)
	return nil
}

// channel returns the path's channel.
func (s *Server) channel(r *http.Request) (string, error) {
	id := r.PathValue("channel")
	ok, err := s.store.hasChannel(r.Context(), id)
	if err == nil && !ok {
		err = refuse(notFound("channel"))
	}
	return id, err
}

func (s *Server) getThreads(w http.ResponseWriter, r *http.Request, _ workflows.Actor) error {
	channel, err := s.channel(r)
	if err != nil {
		return err
	}
	threads, err := s.store.sessions(r.Context(), channel)
	if err != nil {
		return err
	}
	out := []threadSummary{}
	for _, t := range threads {
		out = append(out, s.summary(t))
	}
	answer(w, http.StatusOK, out)
	return nil
}

// getChannelMessages answers what was said in the channel itself: commands that
// opened no session, and their answers.
func (s *Server) getChannelMessages(w http.ResponseWriter, r *http.Request, _ workflows.Actor) error {
	channel, err := s.channel(r)
	if err != nil {
		return err
	}
	rows, err := s.store.inChannel(r.Context(), channel)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, messages(rows))
	return nil
}

func messages(rows []row) []message {
	out := []message{}
	for _, m := range rows {
		out = append(out, m.message())
	}
	return out
}

// thread returns the path's thread.
func (s *Server) thread(r *http.Request) (thread, error) {
	t, err := s.store.thread(r.Context(), r.PathValue("thread"))
	if errors.Is(err, errNotFound) {
		err = refuse(notFound("thread"))
	}
	return t, err
}

func (s *Server) getThread(w http.ResponseWriter, r *http.Request, _ workflows.Actor) error {
	t, err := s.thread(r)
	if err != nil {
		return err
	}
	rows, err := s.store.inThread(r.Context(), t.id)
	if err != nil {
		return err
	}
	out := threadWhole{threadSummary: s.summary(t), WorkspacePath: t.workspacePath, Messages: messages(rows)}
	if !t.session && len(rows) > 0 {
		out.Title = chat.TitleOf(rows[0].text)
	}
	answer(w, http.StatusOK, out)
	return nil
}

// grant is a standing permission as the API shows it.
type grant struct {
	ID      string    `json:"id"`
	Command string    `json:"command"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`
	Until   time.Time `json:"until"`
}

// getGrants answers the permissions that stand in a thread, oldest first. The
// command `grants revoke <id>` ends one.
func (s *Server) getGrants(w http.ResponseWriter, r *http.Request, _ workflows.Actor) error {
	t, err := s.thread(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), forwardTimeout)
	defer cancel()
	all, err := s.router.Grants(ctx, t.workflow())
	if err != nil {
		return err
	}
	out := []grant{}
	for _, g := range all {
		out = append(out, grant{g.ID, g.Command, g.By.ID, g.At, g.Until})
	}
	answer(w, http.StatusOK, out)
	return nil
}

// getMeta answers what the page needs to know before it shows anything.
func (s *Server) getMeta(w http.ResponseWriter, r *http.Request, by workflows.Actor) error {
	people, err := s.store.people(r.Context())
	if err != nil {
		return err
	}
	last, err := s.store.lastSeq(r.Context())
	if err != nil {
		return err
	}
	people = append(people, s.auth.names()...)
	slices.Sort(people)
	meta := map[string]any{
		"you": by.ID, "act_as": s.opt.ActAs, "people": slices.Compact(people), "backends": s.opt.Backends,
		"default_backend": "", "models": append([]string{}, s.opt.Models...), "last_event": last,
		"version": s.opt.Version, "offline": s.opt.Offline, "notices": append([]string{}, s.opt.Notices...),
		"commands": commands,
		"attach":   map[string]int{"file_bytes": workflows.MaxFileBytes, "files": workflows.MaxAttached, "bytes": workflows.MaxAttachedBytes},
	}
	if len(s.opt.Backends) > 0 {
		meta["default_backend"] = s.opt.Backends[0].Name
	}
	answer(w, http.StatusOK, meta)
	return nil
}
