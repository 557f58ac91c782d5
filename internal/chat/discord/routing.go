package discord

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// routers makes the three ways to the sessions. They differ only in what becomes
// of a message whose thread has no session.
func (a *App) routers() {
	a.plain = &chat.Router{
		Sessions: a.seeing(a.dep.Sessions), Blobs: a.dep.Blobs, Backends: a.dep.Backends, Workspaces: a.dep.Workspaces,
		Style: markdownStyle(), Link: a.link, Allow: a.allow, Mask: a.dep.Mask, Outputs: a.dep.Outputs,
	}
	mention, reply := *a.plain, *a.plain
	mention.Sessions = starter{a.plain.Sessions, a}
	reply.Sessions = replier{a.plain.Sessions, a}
	a.mention, a.reply = &mention, &reply
}

// markdownStyle writes times in the reader's zone, which Discord's markup does.
func markdownStyle() chat.Style {
	s := chat.PlainStyle(time.UTC)
	s.Clock = func(t time.Time) string { return fmt.Sprintf("<t:%d:t>", t.Unix()) }
	s.Exact = func(t time.Time) string { return fmt.Sprintf("<t:%d:T>", t.Unix()) }
	s.Approver = func(id string) string {
		if id == "*" {
			return "everybody"
		}
		if isID(id) {
			return "<@&" + id + ">"
		}
		return "@" + chat.Shown(id)
	}
	return s
}

// starter starts a session where a message that addresses us stands in a thread
// that has none.
type starter struct {
	chat.Sessions
	app *App
}

// SendMessage gives a message to the session of a thread, or asks for one there.
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
	place, perr := s.app.place(ctx, t.ID)
	if perr != nil {
		return errors.Join(workflows.ErrUnavailable, perr)
	}
	t = s.app.thread(t.Team, place.Parent, t.ID)
	if refused := s.app.allow(ctx, m.Author, chat.VerbRun, s.app.thread(t.Team, t.Channel, "")); refused != nil {
		return refused
	}
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

// settleTime is how long after a thread's beginning its session may still be on
// its way to Temporal, through another bot.
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
	case s.app.api.clock.Now().Sub(timeOf(t.ID)) < settleTime:
		return fmt.Errorf("%w: the thread's session may be about to start", workflows.ErrUnconfirmed)
	}
	return ignored
}

// concernsUs reports whether a thread may have a session: the message that it was
// opened from is ours, or a task for us.
func (a *App) concernsUs(ctx context.Context, t workflows.Thread) (bool, error) {
	if ours, ok := a.roots.get(t.ID, rememberFor); ok {
		return ours, nil
	}
	place, err := a.place(ctx, t.ID)
	if err != nil || place.ID == "" {
		return false, err
	}
	root, ok, err := a.root(ctx, a.thread(t.Team, place.Parent, t.ID))
	if err != nil {
		return false, err
	}
	ours := ok && root.Author.ID == a.self.Bot
	if ok && !ours && a.mentions(ctx, root) {
		c, err := chat.Parse(a.read(root), chat.KnownBackends())
		ours = err == nil && c.Verb == chat.VerbRun
	}
	a.roots.put(t.ID, ours)
	return ours, nil
}

// root reads the message that a thread was opened from; false where there is
// none.
func (a *App) root(ctx context.Context, t workflows.Thread) (message, bool, error) {
	var m message
	if t.Channel == "" {
		place, err := a.place(ctx, t.ID)
		if err != nil || place.Parent == "" {
			return m, false, err
		}
		t.Channel = place.Parent
	}
	err := a.api.call(ctx, http.MethodGet, "/channels/"+t.Channel+"/messages/"+t.ID, nil, &m)
	if is(err, discordgo.ErrCodeUnknownMessage, discordgo.ErrCodeUnknownChannel) {
		return m, false, nil
	}
	m.Guild = t.Team
	return m, err == nil, err
}

// allow is [chat.Router.Allow]: who may drive sessions, and who may start them
// where.
func (a *App) allow(ctx context.Context, by workflows.Actor, verb chat.Verb, t workflows.Thread) *chat.Error {
	if err := a.mayDrive(by); err != nil {
		return err
	}
	if len(a.cfg.Guilds) > 0 && !slices.Contains(a.cfg.Guilds, t.Team) {
		return forbidden("server_refused", "Countersign does not work in this server.", "Ask whoever set it up.")
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
		groups, err := a.memberships(ctx, t.Team, by.ID)
		if err != nil {
			a.log.Info("Roles of a person are not all known; what is not does not count", telemetry.KeyActorID, by.ID, telemetry.KeyError, err)
		}
		by.Groups = groups
	}
	return a.dep.Allow(ctx, by, verb, t)
}

// memberships are the roles that somebody has in a guild.
func (a *App) memberships(ctx context.Context, guild, id string) ([]string, error) {
	m, ok, err := a.people.member(ctx, guild, id)
	if err != nil || !ok {
		return nil, err
	}
	return a.people.groups(ctx, guild, m)
}

func forbidden(code, message, hint string) *chat.Error {
	return &chat.Error{Kind: chat.KindForbidden, Code: code, Message: message, Hint: hint}
}

func (a *App) mayDrive(by workflows.Actor) *chat.Error {
	switch {
	case by.Bot:
		return forbidden("bots_refused", "Bots cannot use Countersign.", "Ask from a person's account.")
	case by.External:
		return forbidden("external_refused", "Only members of this server can use Countersign here.", "Ask somebody of this server.")
	case by.Guest && !a.cfg.AllowGuests:
		return forbidden("guests_refused", "Guests cannot use Countersign here.", "Ask a full member of this server.")
	}
	return nil
}

func (a *App) mayStart(ctx context.Context, by workflows.Actor, t workflows.Thread) *chat.Error {
	if len(a.cfg.Channels) > 0 && !slices.Contains(a.cfg.Channels, t.Channel) {
		return forbidden("channel_refused", "Sessions cannot be started in this channel.", "Use one of the channels that are set up for it.")
	}
	if len(a.cfg.Starters) == 0 || slices.Contains(a.cfg.Starters, "*") || slices.Contains(a.cfg.Starters, by.ID) {
		return nil
	}
	groups, err := a.memberships(ctx, t.Team, by.ID)
	if slices.ContainsFunc(a.cfg.Starters, func(s string) bool { return slices.Contains(groups, s) }) {
		return nil
	}
	if err != nil {
		return &chat.Error{
			Kind: chat.KindUnavailable, Code: "groups_unavailable", Message: "Discord did not say which roles you have, and starting a session depends on it.",
			Hint: "Try again in a moment.", Err: err,
		}
	}
	return forbidden("start_refused", "You have none of the roles that may start sessions here.", "Ask somebody who has; you may write in their session's thread.")
}
