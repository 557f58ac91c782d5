package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/slack-go/slack"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// routers makes the three ways to the sessions. They differ only in what becomes
// of a message whose thread has no session.
func (a *App) routers() {
	style := chat.PlainStyle(time.UTC)
	clock, exact := style.Clock, style.Exact
	style.Clock = func(t time.Time) string { return clock(t) + " UTC" }
	style.Exact = func(t time.Time) string { return exact(t) + " UTC" }
	a.plain = &chat.Router{
		Sessions: a.seeing(a.dep.Sessions), Blobs: a.dep.Blobs, Backends: a.dep.Backends, Workspaces: a.dep.Workspaces,
		Style: style, Link: a.link, Allow: a.allow, Mask: a.dep.Mask, Outputs: a.dep.Outputs,
	}
	mention, reply := *a.plain, *a.plain
	mention.Sessions = starter{a.plain.Sessions, a}
	reply.Sessions = replier{a.plain.Sessions, a}
	a.mention, a.reply = &mention, &reply
}

// starter starts a session where a message that addresses us stands in a thread
// that has none.
type starter struct {
	chat.Sessions
	app *App
}

// SendMessage gives a message to the session of a thread, or asks for one. Where
// one was destroyed there is none, and that is said.
func (s starter) SendMessage(ctx context.Context, workflowID string, m workflows.Message) error {
	err := s.Sessions.SendMessage(ctx, workflowID, m)
	if !errors.Is(err, workflows.ErrNoSession) {
		return err
	}
	t, perr := workflows.ParseWorkflowID(workflowID)
	if perr != nil {
		return err
	}
	gone, derr := destroyed(ctx, s.Sessions, workflowID)
	if derr != nil || gone {
		return errors.Join(derr, err)
	}
	if refused := s.app.allow(ctx, m.Author, chat.VerbRun, s.app.thread(t.Channel, "")); refused != nil {
		return refused
	}
	m.Earlier = s.app.earlier(ctx, t, m.ID)
	return s.RequestSession(ctx, workflows.SessionRequest{
		ID: m.ID, Thread: t, Title: chat.TitleOf(m.Text.Text), Task: m, By: m.Author,
	})
}

// destroyed reports whether a thread had a session that was destroyed.
func destroyed(ctx context.Context, s chat.Sessions, workflowID string) (bool, error) {
	st, err := s.TurnState(ctx, workflowID)
	if errors.Is(err, workflows.ErrNoSession) {
		return false, nil
	}
	return err == nil && st.Header.Liveness == workflows.LivenessDestroyed, err
}

// codeIgnored: a message in a thread that has nothing to do with us.
const codeIgnored = "not_for_us"

// settleTime is how long after a thread's first message its session may still be
// on its way to Temporal, through another bot.
const settleTime = time.Minute

// replier ignores messages in threads that are no session's and that neither we
// began nor somebody who gave us a task.
type replier struct {
	chat.Sessions
	app *App
}

// SendMessage gives a message to the session of a thread.
func (s replier) SendMessage(ctx context.Context, workflowID string, m workflows.Message) error {
	err := s.Sessions.SendMessage(ctx, workflowID, m)
	if !errors.Is(err, workflows.ErrNoSession) {
		return err
	}
	t, perr := workflows.ParseWorkflowID(workflowID)
	if perr != nil {
		return err
	}
	ignored := &chat.Error{Kind: chat.KindNotFound, Code: codeIgnored, Message: "No session runs in this thread."}
	ours, rerr := s.app.concernsUs(ctx, t)
	if rerr != nil {
		return errors.Join(workflows.ErrUnconfirmed, rerr)
	}
	if !ours {
		return ignored
	}
	gone, derr := destroyed(ctx, s.Sessions, workflowID)
	switch {
	case derr != nil:
		return derr
	case gone:
		return err
	case s.app.api.gate.clock.Now().Sub(timeOf(t.ID)) < settleTime:
		return fmt.Errorf("%w: the thread's session may be about to start", workflows.ErrUnconfirmed)
	}
	return ignored
}

// concernsUs reports whether a thread may have a session: its root is ours, or a
// task for us.
func (a *App) concernsUs(ctx context.Context, t workflows.Thread) (bool, error) {
	key := t.Channel + "/" + t.ID
	if ours, ok := a.roots.get(key, rememberFor); ok {
		return ours, nil
	}
	root, err := a.api.root(ctx, t)
	if code(err) == "thread_not_found" || code(err) == "channel_not_found" {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	ours := a.isOurs(root)
	if !ours && (a.mentions(root.Text) || isDirect(t.Channel)) {
		c, err := chat.Parse(a.reader.read(ctx, root.Text), chat.KnownBackends())
		ours = err == nil && c.Verb == chat.VerbRun
	}
	a.roots.put(key, ours)
	return ours, nil
}

func isDirect(channel string) bool { return channel != "" && channel[0] == 'D' }

// isOurs reports a message that this installation's bot wrote.
func (a *App) isOurs(m message) bool {
	return m.User == a.self.User || (m.BotID != "" && m.BotID == a.self.Bot)
}

// allow is [chat.Router.Allow]: who may drive sessions, and who may start them
// where.
func (a *App) allow(ctx context.Context, by workflows.Actor, verb chat.Verb, t workflows.Thread) *chat.Error {
	if err := a.mayDrive(by); err != nil {
		return err
	}
	starts := verb == chat.VerbNew || verb == chat.VerbFork || (verb == chat.VerbRun && t.ID == "")
	if starts {
		if err := a.mayStart(ctx, by, t); err != nil {
			return err
		}
	}
	if a.dep.Allow == nil {
		return nil
	}
	if len(by.Groups) == 0 {
		groups, err := a.people.memberships(ctx, by.ID)
		if err != nil {
			a.log.Info("Groups of a person are not known; none count", telemetry.KeyActorID, by.ID, telemetry.KeyError, err)
		}
		by.Groups = groups
	}
	return a.dep.Allow(ctx, by, verb, t)
}

func forbidden(code, message, hint string) *chat.Error {
	return &chat.Error{Kind: chat.KindForbidden, Code: code, Message: message, Hint: hint}
}

func (a *App) mayDrive(by workflows.Actor) *chat.Error {
	switch {
	case by.Bot:
		return forbidden("bots_refused", "Bots cannot use Countersign.", "Ask from a person's account.")
	case by.External && !a.cfg.AllowExternal:
		return forbidden("external_refused", "People from other organisations cannot use Countersign here.", "Ask somebody of this workspace.")
	case by.Guest && !a.cfg.AllowGuests:
		return forbidden("guests_refused", "Guests cannot use Countersign here.", "Ask a full member of this workspace.")
	}
	return nil
}

func (a *App) mayStart(ctx context.Context, by workflows.Actor, t workflows.Thread) *chat.Error {
	if len(a.cfg.Channels) > 0 && !isDirect(t.Channel) && !slices.Contains(a.cfg.Channels, t.Channel) {
		return forbidden("channel_refused", "Sessions cannot be started in this channel.", "Use one of the channels that are set up for it, or a direct message.")
	}
	if len(a.cfg.Starters) == 0 || slices.Contains(a.cfg.Starters, "*") || slices.Contains(a.cfg.Starters, by.ID) {
		return nil
	}
	groups, err := a.people.memberships(ctx, by.ID)
	if err != nil {
		return &chat.Error{
			Kind: chat.KindUnavailable, Code: "groups_unavailable", Message: "Slack did not say which groups you are in, and starting a session depends on it.",
			Hint: "Try again in a moment.", Err: err,
		}
	}
	if slices.ContainsFunc(a.cfg.Starters, func(s string) bool { return slices.Contains(groups, s) }) {
		return nil
	}
	return forbidden("start_refused", "You are in none of the groups that may start sessions here.", "Ask somebody who is; you may write in their session's thread.")
}

// message is what we read of a message: without its blocks' content, so that no
// block can keep us from reading the rest.
type message struct {
	Type      string `json:"type"`
	Subtype   string `json:"subtype"`
	User      string `json:"user"`
	BotID     string `json:"bot_id"`
	Text      string `json:"text"`
	TS        string `json:"ts"`
	ThreadTS  string `json:"thread_ts"`
	LastReply string `json:"latest_reply"`
	Edited    *struct {
		User string `json:"user"`
		TS   string `json:"ts"`
	} `json:"edited"`
	Blocks []struct {
		Type     string          `json:"type"`
		BlockID  string          `json:"block_id"`
		Text     json.RawMessage `json:"text"`
		Elements json.RawMessage `json:"elements"`
	} `json:"blocks"`
	Files    []file `json:"files"`
	Metadata struct {
		Type    string          `json:"event_type"`
		Payload json.RawMessage `json:"event_payload"`
	} `json:"metadata"`
}

type file struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Title string `json:"title"`
	Size  int64  `json:"size"`
}

type page struct {
	Messages []message `json:"messages"`
	HasMore  bool      `json:"has_more"`
	Meta     struct {
		Next string `json:"next_cursor"`
	} `json:"response_metadata"`
}

// root reads a thread's first message.
func (a *api) root(ctx context.Context, t workflows.Thread) (message, error) {
	var p page
	_, err := a.call(ctx, "conversations.replies", url.Values{
		"channel": {t.Channel}, "ts": {t.ID}, "limit": {"1"}, "include_all_metadata": {"true"},
	}, &p)
	if err != nil {
		return message{}, detail(err)
	}
	if len(p.Messages) == 0 {
		return message{}, slack.SlackErrorResponse{Err: "thread_not_found"}
	}
	return p.Messages[0], nil
}

// read reads a method's pages of messages, oldest or newest first as the method
// gives them, until each says false.
func (a *api) read(ctx context.Context, method string, form url.Values, each func(message) bool) error {
	return a.readBy(ctx, method, form, each, func(call func() error) error { return call() })
}

// readBy is like read, and makes each page's call by way of by.
func (a *api) readBy(ctx context.Context, method string, form url.Values, each func(message) bool, by func(call func() error) error) error {
	form.Set("limit", "200")
	form.Set("include_all_metadata", "true")
	for {
		var p page
		err := by(func() error {
			p = page{}
			_, err := a.call(ctx, method, form, &p)
			return detail(err)
		})
		if err != nil {
			return err
		}
		for _, m := range p.Messages {
			if !each(m) {
				return nil
			}
		}
		if p.Meta.Next == "" {
			return nil
		}
		form.Set("cursor", p.Meta.Next)
	}
}

// stamp is a time as Slack's timestamps are written.
func stamp(t time.Time) string {
	return fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000)
}
