package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/slack-go/slack"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// outer is an Events API envelope's payload.
type outer struct {
	Type  string          `json:"type"`
	Event json.RawMessage `json:"event"`
}

// event is what we read of an app_mention or message event.
type event struct {
	message
	Channel     string   `json:"channel"`
	ChannelType string   `json:"channel_type"`
	Message     *message `json:"message"`          // of message_changed
	Previous    *message `json:"previous_message"` // of message_changed and message_deleted
}

// inbound is one message of a person, new or edited.
type inbound struct {
	message
	channel string
	// edited is the edit's own time, or [workflows.DeletedAt]; empty for the original.
	edited string
	// mention is true for app_mention, and so false for the message event that
	// the same message makes.
	mention bool
	// unaddressed: an edit took out the mention that it had.
	unaddressed bool
	// again: it may have been delivered, and answered, before.
	again bool
	// attempt counts Slack's repetitions.
	attempt int
}

// key is the message's own identity; a redelivery has the same.
func (in inbound) key() string { return in.channel + "/" + in.TS + "/" + in.edited }

// deleted: the message is there no more.
func (in inbound) deleted() bool { return in.edited == workflows.DeletedAt }

// errTransient: nothing was decided; the event is worth another try.
var errTransient = errors.New("not taken yet")

// eventsAPI takes an event and acknowledges it once it need not come again.
func (a *App) eventsAPI(ctx context.Context, env envelope, ack ack) {
	if a.beside(ctx, env, ack) {
		return
	}
	in, ok := a.inbound(env)
	if !ok {
		ack(nil)
		return
	}
	err := a.take(ctx, in)
	if err == nil {
		ack(nil)
		return
	}
	a.log.Warn("Event was not taken; it is tried again", telemetry.KeyChannelID, in.channel, telemetry.KeyMessageID, in.TS, telemetry.KeyError, err, "attempt", in.attempt)
	if in.attempt >= maxRetries {
		ack(nil)
	}
	a.tryAgain(ctx, in)
}

// besideEvent is what we read of an event that is no message.
type besideEvent struct {
	Type     string `json:"type"`
	User     string `json:"user"`
	Tab      string `json:"tab"`
	Channel  string `json:"channel"`
	ThreadTS string `json:"thread_ts"`
	TS       string `json:"event_ts"`
	Subtype  string `json:"subtype"`
	// Previous is the message that was deleted.
	Previous *message `json:"previous_message"`
}

// beside takes events that are no messages, and reports whether this is one.
func (a *App) beside(ctx context.Context, env envelope, ack ack) bool {
	var o outer
	var e besideEvent
	if json.Unmarshal(env.Payload, &o) != nil || json.Unmarshal(o.Event, &e) != nil {
		return false
	}
	switch e.Type {
	case "app_home_opened":
		ack(nil)
		a.homeOpened(ctx, e.User, e.Tab)
		return true
	case "agent_session_stopped":
		a.stoppedBySlack(ctx, e, ack)
		return true
	case "message":
		if e.Subtype != "message_deleted" || e.Previous == nil || !a.isOurs(*e.Previous) {
			return false
		}
		ack(nil)
		a.deleted(ctx, e)
		return true
	}
	return false
}

// deleted looks whether what was deleted of ours is a card that waits for a decision:
// what its buttons carry names the session.
func (a *App) deleted(ctx context.Context, e besideEvent) {
	for _, b := range e.Previous.Blocks {
		var buttons []struct {
			Value string `json:"value"`
		}
		if b.Type != string(slack.MBTAction) || json.Unmarshal(b.Elements, &buttons) != nil || len(buttons) == 0 {
			continue
		}
		r, ok := decodeRef(buttons[0].Value)
		if t := a.refThread(r); ok && r.Approval != "" && t.Channel == e.Channel {
			a.background(ctx, shareWithin, func(ctx context.Context) { a.restore(ctx, t) })
			return
		}
	}
}

// restore posts a thread's cards again that wait for a decision and are gone.
func (a *App) restore(ctx context.Context, t workflows.Thread) {
	a.restores.Do(t.Channel+"/"+t.ID, func() {
		r := chat.Restore{Poster: &poster{app: a}, Sessions: a.dep.Sessions, Views: a.dep.Views, Mask: a.dep.Mask, Log: a.log}
		n, err := r.Cards(ctx, t)
		if n > 0 {
			a.log.Info("Cards that were deleted were posted again", telemetry.KeyChannelID, t.Channel, telemetry.KeyThreadID, t.ID, "cards", n)
		}
		if err != nil {
			a.log.Warn("A deleted card was not posted again", telemetry.KeyChannelID, t.Channel, telemetry.KeyThreadID, t.ID, telemetry.KeyError, err)
		}
	})
}

// inbound decodes an event; false for what is nothing that a person wrote.
func (a *App) inbound(env envelope) (inbound, bool) {
	var o outer
	var e event
	if json.Unmarshal(env.Payload, &o) != nil || json.Unmarshal(o.Event, &e) != nil {
		a.log.Warn("Event cannot be read", "envelope", env.ID)
		return inbound{}, false
	}
	if o.Type == "app_rate_limited" || e.Channel == "" || (e.Type != "message" && e.Type != "app_mention") {
		return inbound{}, false
	}
	in := inbound{message: e.message, channel: e.Channel, mention: e.Type == "app_mention", again: env.Attempt > 0, attempt: env.Attempt}
	if e.gone() {
		if e.Previous == nil {
			return in, false
		}
		in.message, in.edited = *e.Previous, workflows.DeletedAt
		return in, a.byPerson(in.message)
	}
	if e.Subtype == "message_changed" {
		if e.Message == nil || !changed(e.Message, e.Previous) {
			return in, false
		}
		in.message = *e.Message
		in.unaddressed = e.Previous != nil && a.mentions(e.Previous.Text)
	}
	if in.Edited != nil {
		in.edited = in.Edited.TS
	}
	return in, a.byPerson(in.message)
}

// gone reports that a message was deleted. A thread's first one is changed, into what
// stands in its place while there are replies.
func (e event) gone() bool {
	return e.Subtype == "message_deleted" || e.Subtype == "message_changed" && e.Message != nil && e.Message.Subtype == "tombstone"
}

// changed reports whether a person changed a message's text: a link that was
// unfurled, or a reply that was counted, changes none.
func changed(now, before *message) bool {
	return now.Edited != nil && now.Edited.TS != "" && (now.Edited.User == "" || now.Edited.User == now.User) &&
		(before == nil || before.Text != now.Text)
}

// byPerson reports what people write; our own and other bots' messages, and what
// Slack writes itself, start nothing.
func (a *App) byPerson(m message) bool {
	if m.User == "" || m.TS == "" || m.BotID != "" || a.isOurs(m) || m.User == "USLACKBOT" {
		return false
	}
	switch m.Subtype {
	case "", "file_share", "thread_broadcast", "me_message":
		return true
	}
	return false
}

// take brings a message to its session, once, however many events tell of it. An
// error means that it should come again.
func (a *App) take(ctx context.Context, in inbound) error {
	way := a.way(in)
	if way == nil {
		return nil
	}
	if a.twin(in) {
		// The same mention comes as app_mention too, here or to another bot, and is
		// carried out from there.
		time.Sleep(twinWait)
	}
	if _, ok := a.taken.get(in.key(), rememberFor); ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, ackWithin)
	defer cancel()
	ch := a.flights.DoChan(in.key(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeWithin)
		defer cancel()
		err := way(ctx, in)
		if err == nil {
			a.taken.put(in.key(), true)
		}
		return nil, err
	})
	select {
	case r := <-ch:
		return r.Err
	case <-ctx.Done():
		return fmt.Errorf("%w: no answer within %s", errTransient, ackWithin)
	}
}

// twin reports the message event of a mention that makes an app_mention too.
func (a *App) twin(in inbound) bool {
	return !in.mention && !in.again && !in.deleted() && !isDirect(in.channel) && a.mentions(in.Text)
}

// way says what a message is; nil for one that has nothing to do with us.
func (a *App) way(in inbound) func(context.Context, inbound) error {
	threaded := in.ThreadTS != "" && in.ThreadTS != in.TS
	addressed := in.mention || a.mentions(in.Text) || isDirect(in.channel)
	switch {
	case in.deleted() && (addressed || threaded && !a.cfg.MentionsOnly):
		return a.takenBack
	case in.deleted():
		return nil
	case addressed && !threaded && in.edited == "":
		return a.begin
	case addressed:
		return a.addressed
	case threaded && !a.cfg.MentionsOnly, in.unaddressed:
		return a.replied
	}
	return nil
}

// toEvent is the neutral form of a message in its thread.
func (a *App) toEvent(ctx context.Context, in inbound) (chat.Event, error) {
	by, err := a.people.actor(ctx, in.User)
	if err != nil {
		return chat.Event{}, fmt.Errorf("%w: %w", errTransient, err)
	}
	thread := in.ThreadTS
	if thread == "" {
		thread = in.TS
	}
	ev := chat.Event{
		ID: in.TS, EditedAt: in.edited, By: by, At: timeOf(in.TS),
		Thread: a.thread(in.channel, thread), New: a.thread(in.channel, ""),
		Text: a.reader.read(ctx, in.Text),
	}
	var files []workflows.Attachment
	for _, f := range in.Files {
		files = append(files, workflows.Attachment{ID: f.ID, Name: f.Name, Bytes: f.Size})
	}
	chat.Attach(&ev, files)
	return ev, nil
}

// begin takes a message outside threads that addresses us: a command, or a task
// whose thread it becomes the root of.
func (a *App) begin(ctx context.Context, in inbound) error {
	ev, err := a.toEvent(ctx, in)
	if err != nil || ev.By.Bot {
		return err
	}
	ev.New, ev.Thread = ev.Thread, a.thread(in.channel, "")
	reply, err := a.plain.Command(asking(ctx, ev.By.ID, in.channel), ev)
	return a.answer(ctx, in, ev, reply, err)
}

// addressed takes a message in a thread that addresses us, or an edit of one
// that does: a command, or a message to the thread's session, which starts where
// there is none.
func (a *App) addressed(ctx context.Context, in inbound) error {
	ev, err := a.toEvent(ctx, in)
	if err != nil || ev.By.Bot {
		return err
	}
	if in.edited != "" {
		// An edit corrects a task; it never carries out a command.
		c, perr := chat.Parse(ev.Text, a.dep.Backends)
		if perr != nil || c.Verb != chat.VerbRun {
			return nil
		}
		ev.Text = c.Task
		if err := a.mayDrive(ev.By); err != nil {
			return nil
		}
		reply, err := a.mention.Message(ctx, ev)
		return a.answer(ctx, in, ev, reply, err)
	}
	reply, err := a.mention.Command(asking(ctx, ev.By.ID, in.channel), ev)
	return a.answer(ctx, in, ev, reply, err)
}

// replied takes a plain message in a thread to the session there, if one is.
func (a *App) replied(ctx context.Context, in inbound) error {
	ev, err := a.toEvent(ctx, in)
	if err != nil || ev.By.Bot {
		return err
	}
	if refused := a.mayDrive(ev.By); refused != nil {
		a.log.Info("Message ignored", telemetry.KeyActorID, ev.By.ID, "reason", refused.Code)
		return nil
	}
	if ev.Empty() {
		return nil
	}
	reply, err := a.reply.Message(ctx, ev)
	return a.answer(ctx, in, ev, reply, err)
}

// takenBack tells the session that was given a message that it was deleted.
func (a *App) takenBack(ctx context.Context, in inbound) error {
	ev, err := a.toEvent(ctx, in)
	if err != nil || ev.By.Bot || ev.Empty() {
		return err
	}
	var ok bool
	if ev.Text, ok = chat.Given(ev); !ok {
		return nil
	}
	err = a.reply.TakenBack(ctx, ev)
	var refused *chat.Error
	if errors.As(err, &refused) && (refused.Kind == chat.KindUnavailable || refused.Kind == chat.KindUnconfirmed) {
		return fmt.Errorf("%w: %w", errTransient, refused)
	}
	if err != nil && (refused == nil || refused.Code != codeIgnored) {
		a.log.Info("A deleted message's session was not told", telemetry.KeyMessageID, in.TS, telemetry.KeyError, err)
	}
	return nil
}

// answer tells what came of a message, or returns the error that makes Slack
// send it again.
func (a *App) answer(ctx context.Context, in inbound, ev chat.Event, reply chat.Reply, err error) error {
	var refused *chat.Error
	switch {
	case errors.As(err, &refused):
		if refused.Kind == chat.KindUnavailable || refused.Kind == chat.KindUnconfirmed {
			return fmt.Errorf("%w: %w", errTransient, refused)
		}
		if refused.Code == codeIgnored {
			return nil
		}
		reply = chat.Reply{Text: refused.Text(), Private: refused.Kind == chat.KindForbidden}
	case err != nil:
		return fmt.Errorf("%w: %w", errTransient, err)
	}
	if reply.Text == "" {
		return nil
	}
	t := a.thread(in.channel, in.TS)
	if ev.Thread.ID != "" {
		t = ev.Thread
	}
	a.background(ctx, answerWithin, func(ctx context.Context) {
		a.say(ctx, t, in, ev, reply)
	})
	return nil
}

// say writes a reply into a thread, once. Where another bot may be writing the
// same one, because it got the other event of a mention, the first one stays.
func (a *App) say(ctx context.Context, t workflows.Thread, in inbound, ev chat.Event, reply chat.Reply) {
	if reply.Private {
		a.whisper(ctx, t, ev.By.ID, "", reply.Text)
		return
	}
	p := &poster{app: a}
	key := "reply-" + in.TS
	doubtful := in.again || a.twin(in)
	if a.twin(in) {
		select {
		case <-time.After(twinAnswer):
		case <-ctx.Done():
			return
		}
	}
	if doubtful {
		if found, err := p.Find(ctx, t, key, timeOf(in.TS)); err == nil && len(found) > 0 {
			return
		}
	}
	ts, err := p.postText(ctx, t, a.replyContent(key, t, reply), payload{Key: key})
	if err != nil {
		a.log.Error("Reply could not be posted", telemetry.KeyChannelID, t.Channel, telemetry.KeyThreadID, t.ID, telemetry.KeyError, err)
		return
	}
	if !doubtful {
		return
	}
	found, err := p.Find(ctx, t, key, timeOf(in.TS))
	if err == nil && len(found) > 0 && found[0].Ref != ts {
		_ = p.Delete(ctx, t, ts) // an extra copy at worst
	}
}

// maxWaiting bounds the events that wait for another try of our own.
const maxWaiting = 1000

// tryAgain keeps an event that Temporal did not take and tries it until it does,
// beside Slack's own repetitions, which end after some minutes. When it gives up
// the person is told.
func (a *App) tryAgain(ctx context.Context, in inbound) {
	if !a.waiting.first(in.key(), true) {
		return
	}
	select {
	case a.retries <- struct{}{}:
	default:
		a.log.Error("Too many events wait for another try", telemetry.KeyMessageID, in.TS)
		return
	}
	in.again = true
	ctx = context.WithoutCancel(ctx)
	a.wg.Go(func() {
		defer func() { <-a.retries }()
		delay, ends := time.Second, time.Now().Add(rememberFor)
		for time.Now().Before(ends) {
			select {
			case <-a.closing:
				return
			case <-time.After(delay):
			}
			if a.take(ctx, in) == nil {
				return
			}
			delay = min(2*delay, 30*time.Second)
		}
		a.log.Error("Event was given up", telemetry.KeyChannelID, in.channel, telemetry.KeyMessageID, in.TS)
		if in.deleted() {
			return // it cannot be sent again
		}
		ctx, cancel := context.WithTimeout(ctx, answerWithin)
		defer cancel()
		thread := in.ThreadTS
		if thread == "" {
			thread = in.TS
		}
		a.whisper(ctx, a.thread(in.channel, thread), in.User, "",
			"The server that keeps the sessions could not be reached; this message was not taken. Send it again in a moment.")
	})
}

// timeOf reads Slack's timestamp; the zero time for what is none.
func timeOf(ts string) time.Time {
	var sec, micro int64
	if n, err := fmt.Sscanf(ts, "%d.%d", &sec, &micro); err != nil || n != 2 {
		return time.Time{}
	}
	return time.Unix(sec, micro*1000)
}
