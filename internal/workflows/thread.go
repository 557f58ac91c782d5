package workflows

import (
	"fmt"
	"strings"
)

// Platforms.
const (
	PlatformSlack   = "slack"
	PlatformDiscord = "discord"
	PlatformWeb     = "web"
)

// WebTeam is the only team of the built-in browser chat.
const WebTeam = "main"

// Thread names the chat thread that is a session's face. Its identity is the
// session's workflow ID.
type Thread struct {
	Platform string `json:"platform"`
	// Team is the installation's Slack team, the Discord guild, or "main".
	Team string `json:"team"`
	// Channel is the channel that holds the thread.
	Channel string `json:"channel"`
	// ID is Slack's thread_ts, Discord's thread ID or the browser chat's thread ID.
	ID string `json:"id"`
	// App is the application whose bots write to a Discord thread: its rate budget
	// is the application's, so it names the queue. It is no part of the identity,
	// and empty elsewhere.
	App string `json:"app,omitempty"`
}

// WorkflowID returns the ID of the thread's AgentWorkflow.
func (t Thread) WorkflowID() string {
	if t.Platform == PlatformSlack {
		return "agent/slack/" + t.Team + "/" + t.Channel + "/" + t.ID
	}
	return "agent/" + t.Platform + "/" + t.Team + "/" + t.ID
}

// ManagerID returns the ID of the SessionManagerWorkflow that starts and lists
// the sessions of the thread's team, guild or site.
func (t Thread) ManagerID() string {
	return "session-manager/" + t.Platform + "/" + t.Team
}

// PostQueue and EditQueue return the task queues that bots serve for the
// thread's platform: one for each rate budget.
func (t Thread) PostQueue() string {
	switch t.Platform {
	case PlatformSlack:
		return "chat/slack/" + t.Team + "/post"
	case PlatformWeb:
		return "chat/web"
	}
	return "chat/" + t.Platform + "/" + t.App
}

// EditQueue is the queue of edits; see [Thread.PostQueue].
func (t Thread) EditQueue() string {
	if t.Platform == PlatformSlack {
		return "chat/slack/" + t.Team + "/edit"
	}
	return t.PostQueue()
}

// postKey is the fairness key of a thread's posts: what shares a part of the
// rate budget.
func (t Thread) postKey() string {
	if t.Platform == PlatformDiscord && t.ID != "" {
		return t.WorkflowID() // a Discord thread is a channel of its own
	}
	return t.Channel
}

// same reports whether two threads are one: their identities count, not what is
// known beside them.
func (t Thread) same(o Thread) bool {
	return t.ID != "" && o.ID != "" && t.WorkflowID() == o.WorkflowID()
}

// ParseWorkflowID is the inverse of [Thread.WorkflowID]. The channel and the
// application of a Discord or browser thread are no part of its ID and stay
// empty. It returns an error for an ID of another form.
func ParseWorkflowID(id string) (Thread, error) {
	p := strings.Split(id, "/")
	switch {
	case len(p) == 5 && p[0] == "agent" && p[1] == PlatformSlack:
		t := Thread{Platform: p[1], Team: p[2], Channel: p[3], ID: p[4]}
		return t, t.complete(id)
	case len(p) == 4 && p[0] == "agent" && (p[1] == PlatformDiscord || p[1] == PlatformWeb):
		t := Thread{Platform: p[1], Team: p[2], ID: p[3]}
		return t, t.complete(id)
	}
	return Thread{}, fmt.Errorf("workflow ID %q names no session", id)
}

func (t Thread) complete(id string) error {
	if t.Team == "" || t.ID == "" || (t.Platform == PlatformSlack && t.Channel == "") {
		return fmt.Errorf("workflow ID %q names no session", id)
	}
	return nil
}
