package slackfake

import (
	"net/url"
	"slices"
	"unicode/utf8"
)

// AgentSession is what Slack shows of a thread beside its messages.
type AgentSession struct{ Status, Title string }

// agentsSetStatus sets a session's status, and its title when it begins.
func (s *Server) agentsSetStatus(a url.Values) (object, refusal) {
	if !slices.Contains(s.opt.Scopes, "assistant:write") { // the app is no agent
		return s.missing("assistant:write")
	}
	c, e := s.reading(a.Get("channel_id"), "history", true)
	if e.Code != "" {
		return nil, e
	}
	switch {
	case !slices.Contains([]string{"active", "processing", "suspended", "closed"}, a.Get("status")):
		return invalid("invalid_arguments", "status")
	case a.Get("thread_ts") == "" || s.find(c.ID, a.Get("thread_ts")) == nil:
		return refuse("thread_not_found")
	case utf8.RuneCountInString(a.Get("title")) > 200:
		return invalid("invalid_arguments", "title")
	}
	key := c.ID + "/" + a.Get("thread_ts")
	now, had := s.agents[key]
	if now.Status = a.Get("status"); !had {
		now.Title = a.Get("title")
	}
	s.agents[key] = now
	return object{"status": now.Status, "agent_status": now.Status, "title": now.Title}, refusal{}
}

// Agent is the agent session of a thread.
func (s *Server) Agent(channel, ts string) AgentSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.agents[channel+"/"+ts]
}

// StopAgent clicks Slack's own stop button, which is there while a session is
// processing.
func (s *Server) StopAgent(user, channel, ts string) *Delivery {
	s.mu.Lock()
	at := s.nextTS()
	s.mu.Unlock()
	return s.Raw(map[string]any{
		"type": "agent_session_stopped", "user": user, "channel": channel, "thread_ts": ts, "event_ts": at, "streaming_message_ts": []string{},
	})
}
