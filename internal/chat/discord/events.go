package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// inbound is one message of a person, new or edited, with where it stands.
type inbound struct {
	message
	place channel
	// again: it may have been delivered, and answered, before.
	again bool
}

// key is the message's own identity; a redelivery has the same.
func (in inbound) key() string { return in.Channel + "/" + in.ID + "/" + in.Edited }

// taken is a message that was given to a session.
type taken struct {
	thread workflows.Thread
	by     workflows.Actor
	text   string
}

// errTransient: nothing was decided; the event is worth another try.
var errTransient = errors.New("not taken yet")

func (a *App) messageCreated(ctx context.Context, data json.RawMessage) {
	var m message
	if err := json.Unmarshal(data, &m); err != nil {
		a.log.Warn("Message cannot be read", telemetry.KeyError, err)
		return
	}
	m.Edited = "" // a message that was edited before it arrived is a new one
	a.arrived(ctx, inbound{message: m})
}

func (a *App) messageEdited(ctx context.Context, data json.RawMessage) {
	var m message
	if json.Unmarshal(data, &m) != nil || m.Edited == "" {
		return // a link's preview, or a thread that was opened: no edit of a person
	}
	a.arrived(ctx, inbound{message: normalised(m)})
}

// normalised writes an edit's time in one form: it is part of the identity.
func normalised(m message) message {
	if t, err := time.Parse(time.RFC3339, m.Edited); err == nil {
		m.Edited = t.UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	return m
}

// arrived takes a message of a person; others' start nothing.
func (a *App) arrived(ctx context.Context, in inbound) {
	if !in.byPerson() {
		return
	}
	a.people.note(in.Guild, in.Author, in.Member)
	if err := a.take(ctx, in); err != nil {
		a.log.Warn("Message was not taken; it is tried again", telemetry.KeyChannelID, in.Channel, telemetry.KeyMessageID, in.ID, telemetry.KeyError, err)
		a.tryAgain(ctx, in)
	}
}

// byPerson reports what people write: no bots', webhooks' or Discord's own
// messages.
func (m message) byPerson() bool {
	return m.ID != "" && m.Channel != "" && m.Author.ID != "" && !m.Author.Bot && !m.Author.System && m.Webhook == "" &&
		(m.Type == typeDefault || m.Type == typeReply)
}

// mentions reports whether a message mentions the bot, or the role that Discord
// made for it.
func (a *App) mentions(ctx context.Context, m message) bool {
	if strings.Contains(m.Content, "<@"+a.self.Bot+">") || strings.Contains(m.Content, "<@!"+a.self.Bot+">") {
		return true
	}
	if len(m.MentionRoles) == 0 {
		return false
	}
	all, err := a.people.guildRoles(ctx, m.Guild)
	return err == nil && slices.ContainsFunc(all, func(r role) bool {
		return r.Tags != nil && r.Tags.Bot == a.self.Bot && slices.Contains(m.MentionRoles, r.ID) && strings.Contains(m.Content, "<@&"+r.ID+">")
	})
}

// take brings a message to its session, once, however many events tell of it. An
// error means that it is to be tried again.
func (a *App) take(ctx context.Context, in inbound) error {
	if _, ok := a.taken.get(in.key(), rememberFor); ok {
		return nil
	}
	_, err, _ := a.flights.Do(in.key(), func() (any, error) {
		ctx, cancel := limit(within(asking(ctx, in.Guild, in.Author.ID), in.Channel), outcomeWithin)
		defer cancel()
		return nil, a.route(ctx, in)
	})
	return err
}

// route says what a message is, and has it done.
func (a *App) route(ctx context.Context, in inbound) error {
	if in.Guild == "" {
		return a.direct(ctx, in)
	}
	addressed := a.mentions(ctx, in.message)
	var err error
	if in.place, err = a.place(ctx, in.Channel); err != nil {
		return fmt.Errorf("%w: %w", errTransient, err)
	}
	threaded := in.place.isThread()
	switch {
	case in.place.ID == "":
		return nil
	case addressed && !threaded && in.Edited == "":
		return a.begin(ctx, in)
	case addressed && !threaded:
		return a.corrected(ctx, in)
	case addressed:
		return a.addressed(ctx, in)
	case threaded && !a.cfg.MentionsOnly && a.unreadable(in):
		return a.hint(ctx, in)
	case threaded && !a.cfg.MentionsOnly && !a.cfg.NoMessageContent:
		return a.replied(ctx, in)
	}
	return nil
}

// direct answers a direct message: sessions are threads, and those are only in
// servers.
func (a *App) direct(ctx context.Context, in inbound) error {
	if in.Edited != "" || !a.hinted.first("direct/"+in.Channel, true) {
		return nil
	}
	p := &poster{app: a}
	_, err := p.post(ctx, workflows.Thread{Channel: in.Channel}, in.Channel, "direct-"+in.ID, 0, outgoing{
		Content: "Countersign works in the channels of a server, where a session is a thread that your team sees. Mention it there, or use `/agent run`.",
	})
	if err != nil {
		a.log.Info("Direct message was not answered", telemetry.KeyError, err)
	}
	return nil
}

// unreadable reports a message whose text Discord keeps from us, because the
// intent for it is not there.
func (a *App) unreadable(in inbound) bool {
	return in.Content == "" && len(in.Attachments) == 0 && in.Edited == ""
}

// hint says, once in a session's thread, that only mentions are read.
func (a *App) hint(ctx context.Context, in inbound) error {
	if !a.hinted.first("hint/"+in.Channel, true) {
		return nil
	}
	t := a.threadOf(in)
	if _, err := a.dep.Sessions.TurnState(ctx, t.WorkflowID()); err != nil {
		return nil // no session's thread, or not known: there is nothing to explain
	}
	a.background(ctx, tellWithin, func(ctx context.Context) {
		a.say(ctx, t, "hint", timeOf(t.ID), true, chat.Reply{
			Text: "This server does not let me read messages that do not mention me. Begin them with " + a.me() + ", or use `/agent run`.",
		})
	})
	return nil
}

// me mentions the bot in a text; it pings nobody.
func (a *App) me() string { return "<@" + a.self.Bot + ">" }

// threadOf is the thread that a message stands in.
func (a *App) threadOf(in inbound) workflows.Thread {
	return a.thread(in.Guild, in.place.Parent, in.Channel)
}

// toEvent is the neutral form of a message.
func (a *App) toEvent(ctx context.Context, in inbound) (chat.Event, error) {
	m, ok, err := a.people.member(ctx, in.Guild, in.Author.ID)
	if err != nil {
		return chat.Event{}, fmt.Errorf("%w: %w", errTransient, err)
	}
	var who *member
	if ok {
		who = &m
	}
	ev := chat.Event{
		ID: in.ID, EditedAt: in.Edited, By: actorOf(in.Author, who), At: timeOf(in.ID),
		Thread: a.thread(in.Guild, in.Channel, ""), New: a.thread(in.Guild, in.Channel, in.ID),
		Text: a.read(in.message),
	}
	var files []workflows.Attachment
	for _, f := range in.Attachments {
		files = append(files, f.attachment())
	}
	chat.Attach(&ev, files)
	return ev, nil
}

// begin takes a mention outside threads: a command, or a task whose thread is
// opened from it.
func (a *App) begin(ctx context.Context, in inbound) error {
	ev, err := a.toEvent(ctx, in)
	if err != nil {
		return err
	}
	if !in.place.opens() {
		return a.answer(ctx, in, ev, chat.Reply{Text: "Threads cannot be opened from here. Use a text channel.", Private: true}, nil)
	}
	reply, err := a.plain.Command(ctx, ev)
	return a.answer(ctx, in, ev, reply, err)
}

// corrected takes an edit of a mention in a channel to the session that it
// started.
func (a *App) corrected(ctx context.Context, in inbound) error {
	ev, err := a.toEvent(ctx, in)
	if err != nil {
		return err
	}
	ev.Thread = ev.New
	return a.correct(ctx, in, ev, a.reply)
}

// correct takes an edit to a session. An edit corrects a task; it never carries
// out a command.
func (a *App) correct(ctx context.Context, in inbound, ev chat.Event, to *chat.Router) error {
	c, err := chat.Parse(ev.Text, chat.KnownBackends())
	if err != nil || c.Verb != chat.VerbRun || a.mayDrive(ev.By) != nil {
		return nil
	}
	ev.Text = c.Task
	reply, err := to.Message(ctx, ev)
	return a.answer(ctx, in, ev, reply, err)
}

// addressed takes a mention in a thread: a command, or a message to the thread's
// session, which starts where there is none.
func (a *App) addressed(ctx context.Context, in inbound) error {
	ev, err := a.toEvent(ctx, in)
	if err != nil {
		return err
	}
	ev.Thread, ev.New = a.threadOf(in), a.thread(in.Guild, in.place.Parent, "")
	if in.Edited != "" {
		return a.correct(ctx, in, ev, a.mention)
	}
	reply, err := a.mention.Command(ctx, ev)
	return a.answer(ctx, in, ev, reply, err)
}

// replied takes a plain message in a thread to the session there, if one is.
func (a *App) replied(ctx context.Context, in inbound) error {
	ev, err := a.toEvent(ctx, in)
	if err != nil {
		return err
	}
	if refused := a.mayDrive(ev.By); refused != nil {
		a.log.Info("Message ignored", telemetry.KeyActorID, ev.By.ID, "reason", refused.Code)
		return nil
	}
	if ev.Empty() {
		return nil
	}
	ev.Thread, ev.New = a.threadOf(in), a.thread(in.Guild, in.place.Parent, "")
	reply, err := a.reply.Message(ctx, ev)
	return a.answer(ctx, in, ev, reply, err)
}

// answer tells what came of a message, or returns the error that makes us try it
// again.
func (a *App) answer(ctx context.Context, in inbound, ev chat.Event, reply chat.Reply, err error) error {
	var refused *chat.Error
	switch {
	case errors.As(err, &refused):
		if refused.Kind == chat.KindUnavailable || refused.Kind == chat.KindUnconfirmed {
			return fmt.Errorf("%w: %w", errTransient, refused)
		}
		if refused.Code == codeIgnored {
			a.taken.put(in.key(), taken{})
			return nil
		}
		reply = chat.Reply{Text: refused.Text()}
	case err != nil:
		return fmt.Errorf("%w: %w", errTransient, err)
	}
	a.taken.put(in.key(), a.given(ev, reply, err))
	if reply.Text == "" {
		return nil
	}
	t := ev.Thread
	if t.ID == "" {
		t = a.thread(in.Guild, in.Channel, "")
	}
	a.background(ctx, tellWithin, func(ctx context.Context) {
		a.say(ctx, t, "reply-"+in.key(), timeOf(in.ID), in.again, reply)
	})
	return nil
}

// given is what is remembered of a message: whose session took it, if one did.
func (a *App) given(ev chat.Event, reply chat.Reply, err error) taken {
	if err != nil || reply.Text != "" {
		return taken{}
	}
	text, ok := chat.Given(ev)
	if !ok {
		return taken{}
	}
	t := ev.Thread
	if t.ID == "" {
		t = reply.Thread
	}
	return taken{thread: t, by: ev.By, text: text}
}

// say writes a reply into a thread or channel, once.
func (a *App) say(ctx context.Context, t workflows.Thread, key string, since time.Time, doubtful bool, reply chat.Reply) {
	p := &poster{app: a}
	if doubtful {
		if found, err := p.find(ctx, placeOf(t), key, since); err == nil && len(found) > 0 {
			return
		}
	}
	if _, err := p.postText(ctx, t, key, replyContent(key, reply)); err != nil {
		a.log.Error("Reply could not be posted", telemetry.KeyChannelID, t.Channel, telemetry.KeyThreadID, t.ID, telemetry.KeyError, err)
	}
}
