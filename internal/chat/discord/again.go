package discord

import (
	"context"
	"encoding/json"
	"time"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// messageDeleted tells the session of a message that its writer took back, where
// we know that it was given one.
func (a *App) messageDeleted(ctx context.Context, data json.RawMessage) {
	var m struct {
		ID      string `json:"id"`
		Channel string `json:"channel_id"`
	}
	if json.Unmarshal(data, &m) == nil {
		a.takenBack(ctx, m.Channel, m.ID)
		a.restore(ctx, m.Channel)
	}
}

func (a *App) messagesDeleted(ctx context.Context, data json.RawMessage) {
	var m struct {
		IDs     []string `json:"ids"`
		Channel string   `json:"channel_id"`
	}
	if json.Unmarshal(data, &m) != nil {
		return
	}
	for _, id := range m.IDs {
		a.takenBack(ctx, m.Channel, id)
	}
	a.restore(ctx, m.Channel)
}

// restore looks, after messages of a thread were deleted, whether a card that waits
// for a decision was among them: Discord does not say whose a deleted message was.
func (a *App) restore(ctx context.Context, thread string) {
	a.restores.Do(thread, func() {
		ctx, cancel := limit(ctx, tellWithin)
		defer cancel()
		if err := a.restoreCards(ctx, thread); err != nil {
			a.log.Warn("Whether a card was deleted is not known", telemetry.KeyThreadID, thread, telemetry.KeyError, err)
		}
	})
}

func (a *App) restoreCards(ctx context.Context, thread string) error {
	place, err := a.place(ctx, thread)
	if err != nil || !place.isThread() {
		return err
	}
	r := chat.Restore{Poster: &poster{app: a}, Sessions: a.dep.Sessions, Views: a.dep.Views, Mask: a.dep.Mask, Log: a.log}
	n, err := r.Cards(ctx, a.thread(place.Guild, place.Parent, thread))
	if n > 0 {
		a.log.Info("Cards that were deleted were posted again", telemetry.KeyThreadID, thread, "cards", n)
	}
	return err
}

// takenBack tells the session that was given a message that it was deleted.
func (a *App) takenBack(ctx context.Context, channel, id string) {
	was, ok := a.taken.get(channel+"/"+id+"/", deletedFor)
	if !ok || was.thread.ID == "" || !a.taken.first(channel+"/"+id+"/"+workflows.DeletedAt, taken{}) {
		return
	}
	ctx, cancel := limit(ctx, outcomeWithin)
	defer cancel()
	if err := a.reply.TakenBack(ctx, chat.Event{ID: id, Thread: was.thread, By: was.by, Text: was.text}); err != nil {
		a.log.Info("A deleted message's session was not told", telemetry.KeyMessageID, id, telemetry.KeyError, err)
	}
}

// maxWaiting bounds the messages that wait for another try.
const maxWaiting = 1000

// tryAgain keeps a message that Temporal did not take and tries it until it does:
// Discord repeats nothing. When it gives up the person is told.
func (a *App) tryAgain(ctx context.Context, in inbound) {
	if !a.waiting.first(in.key(), true) {
		return
	}
	select {
	case a.retries <- struct{}{}:
	default:
		a.log.Error("Too many messages wait for another try", telemetry.KeyMessageID, in.ID)
		return
	}
	in.again = true
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
		a.log.Error("Message was given up", telemetry.KeyChannelID, in.Channel, telemetry.KeyMessageID, in.ID)
		ctx, cancel := limit(ctx, tellWithin)
		defer cancel()
		t := a.thread(in.Guild, in.Channel, "")
		if in.place.isThread() {
			t = a.threadOf(in)
		}
		a.say(ctx, t, "sorry-"+in.key(), timeOf(in.ID), true, chat.Reply{
			Text: "The server that keeps the sessions could not be reached; this message was not taken. Send it again in a moment.",
		})
	})
}
