package discord

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"
	"go.temporal.io/sdk/activity"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// OpenThread posts the root of a thread of ours and opens the thread from it; a
// thread whose root is a person's message is opened from that. The thread's ID is
// its root's, so doing it again finds it done.
func (p *poster) OpenThread(ctx context.Context, in workflows.OpenThreadInput) (workflows.Thread, error) {
	t := in.Thread
	ours := t.ID == ""
	if ours {
		id, err := p.rootOf(ctx, in)
		if err != nil {
			return t, p.notOpened(ctx, in, err)
		}
		t.ID = id
	} else if place, err := p.app.lookUpPlace(ctx, t.ID); err != nil || place.ID != "" {
		if place.Parent != "" {
			t.Channel = place.Parent
		}
		return t, mapped(err)
	}
	err := p.openFrom(ctx, t, in)
	if err == nil {
		return t, nil
	}
	if refused := noThread(err); refused != nil && ours {
		p.sayOnRoot(ctx, t, in, refused)
	}
	return t, p.notOpened(ctx, in, err)
}

// noThread says why Discord opens no thread in a channel for as long as nobody
// changes something; nil where another try may do it.
func noThread(err error) *chat.Error {
	e := &chat.Error{Kind: chat.KindConflict, Code: "no_thread", Hint: "Use another channel."}
	switch {
	case is(err, discordgo.ErrCodeMissingAccess, discordgo.ErrCodeMissingPermissions):
		e.Message, e.Hint = "Countersign may not write or open threads in this channel.", "Whoever manages the server can let it, see `cmd/bot doctor`; or use another channel."
	case is(err, discordgo.ErrCodeUnknownChannel, discordgo.ErrCodeUnknownGuild):
		e.Message = "The channel is gone."
	case is(err, discordgo.ErrCodeUnknownMessage):
		e.Message, e.Hint = "The message to open the thread from was deleted.", "Ask again."
	case is(err, discordgo.ErrCodeMaximumNumberOfActiveThreadsReached, discordgo.ErrCodeMaximumNumberOfActiveAnnouncementThreadsReached):
		e.Message, e.Hint = "This server has as many active threads as Discord allows.", "Archive some, and ask again."
	case code(err) != 0 && status(err) >= 400 && status(err) < 500 && status(err) != http.StatusUnauthorized && status(err) != http.StatusTooManyRequests:
		e.Message = "Discord does not open a thread in this channel (code " + strconv.Itoa(code(err)) + ")."
	default:
		return nil
	}
	return e
}

// notOpened tells who asked that no thread could be opened, and makes the error of
// what is final.
func (p *poster) notOpened(ctx context.Context, in workflows.OpenThreadInput, err error) error {
	refused := noThread(err)
	if refused == nil {
		return mapped(err)
	}
	p.tellAsker(ctx, in, refused)
	return fmt.Errorf("%w: %w: %w", chat.ErrThreadGone, refused, err)
}

// tellAsker tells who asked, alone, why no session starts: as the answer to the
// command, or else in a direct message. Who asked for a copy has it as the answer to
// that.
func (p *poster) tellAsker(ctx context.Context, in workflows.OpenThreadInput, why *chat.Error) {
	if in.Parent != "" || !isID(in.By.ID) {
		return
	}
	ctx, cancel := limit(context.WithoutCancel(ctx), tellWithin)
	defer cancel()
	m := outgoing{
		Content:  cut("Nothing was started. "+escape(why.Text())+"\n> "+escape(cut(chat.Shown(in.Title), lineShown)), shownText),
		Mentions: noMentions(), Flags: flagEphemeral | flagNoPreviews,
	}
	if token, ok := p.app.asked.get(strings.TrimPrefix(in.Key, rootKey), tokenLives); ok {
		err := persist(ctx, func() error {
			return p.app.api.call(ctx, http.MethodPost, "/webhooks/"+p.app.self.App+"/"+token, m, nil)
		})
		if err == nil {
			return
		}
		p.app.log.Info("Who asked takes no answer any more; it is sent as a direct message", telemetry.KeyActorID, in.By.ID, telemetry.KeyError, err)
	}
	m.Flags = flagNoPreviews
	var direct channel
	err := persist(ctx, func() error {
		return p.app.api.call(ctx, http.MethodPost, "/users/@me/channels", map[string]string{"recipient_id": in.By.ID}, &direct)
	})
	if err == nil {
		m.Nonce, m.Enforce = nonce(in.Thread, "not-opened-"+in.Key, 0, false), true
		err = persist(ctx, func() error {
			return p.app.api.call(ctx, http.MethodPost, "/channels/"+direct.ID+"/messages", m, nil)
		})
	}
	if err != nil {
		p.app.log.Error("A person could not be answered", telemetry.KeyChannelID, in.Thread.Channel, telemetry.KeyActorID, in.By.ID, telemetry.KeyError, err)
	}
}

// rootKey begins the key of a root; the request's ID follows.
const rootKey = "root-"

// rootOf posts the root under its key, unless it is there, and returns its ID.
func (p *poster) rootOf(ctx context.Context, in workflows.OpenThreadInput) (string, error) {
	t := in.Thread
	retry, since := attempt(ctx)
	if retry {
		found, err := p.find(ctx, t.Channel, in.Key, since)
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			return found[0].id, nil
		}
	}
	return p.post(ctx, t, t.Channel, in.Key, 0, outgoing{Content: rootText(in, "opening…")})
}

func rootText(in workflows.OpenThreadInput, state string) string {
	return "**" + escape(cut(chat.Shown(in.Title), lineShown)) + "**\nby " + escape(in.By.Label()) + " · " + state
}

// openFrom opens a thread from the message of its ID, and brings the person in.
func (p *poster) openFrom(ctx context.Context, t workflows.Thread, in workflows.OpenThreadInput) error {
	name := threadName(in.Title)
	err := p.app.api.call(ctx, http.MethodPost, "/channels/"+t.Channel+"/messages/"+t.ID+"/threads",
		map[string]any{"name": name, "auto_archive_duration": maxActive}, nil)
	if err != nil && !is(err, discordgo.ErrCodeThreadAlreadyCreatedForThisMessage) {
		return err
	}
	if isID(in.By.ID) && in.Thread.ID == "" {
		// Who asked by a command is no member of the thread yet.
		if err := p.app.api.call(ctx, http.MethodPut, "/channels/"+t.ID+"/thread-members/"+in.By.ID, nil, nil); err != nil {
			p.app.log.Info("The starter could not be added to the thread", telemetry.KeyThreadID, t.ID, telemetry.KeyError, err)
		}
	}
	return nil
}

// threadName is a thread's name by its session's title.
func threadName(title string) string {
	if name := cut(chat.Shown(title), maxThread); name != "" {
		return name
	}
	return "session"
}

// rename gives a thread of ours its session's title. Discord takes few names in a
// time: the header has the title either way.
func (p *poster) rename(ctx context.Context, t workflows.Thread, title string) {
	name := threadName(title)
	place, err := p.app.place(ctx, t.ID)
	if err != nil || place.Owner != p.app.self.Bot || place.Name == name || !p.app.named.first(t.ID+"/"+name, true) {
		return
	}
	if err := p.app.api.call(ctx, http.MethodPatch, "/channels/"+t.ID, map[string]any{"name": name}, nil); err != nil {
		p.app.log.Info("A thread keeps its name", telemetry.KeyThreadID, t.ID, telemetry.KeyError, err)
	}
}

// sayOnRoot says on a root why no thread was opened from it.
func (p *poster) sayOnRoot(ctx context.Context, t workflows.Thread, in workflows.OpenThreadInput, why *chat.Error) {
	text := cut(rootText(in, "not started. "+escape(why.Text())), shownText) + markOf(in.Key, 0, 1).String()
	err := persist(ctx, func() error {
		return p.app.api.call(ctx, http.MethodPatch, "/channels/"+t.Channel+"/messages/"+t.ID,
			edit{Content: text, Mentions: noMentions(), Components: []component{}, Flags: flagNoPreviews}, nil)
	})
	if err != nil {
		p.app.log.Warn("Root could not be edited", telemetry.KeyError, err)
	}
}

// attempt says whether this may not be the first try, and when that one began.
func attempt(ctx context.Context) (retry bool, since time.Time) {
	if !activity.IsActivity(ctx) {
		return true, time.Now().Add(-time.Hour)
	}
	info := activity.GetInfo(ctx)
	return info.Attempt > 1, info.ScheduledTime.Add(-time.Minute)
}

// tellLocked says in the channel, once, that a session cannot write to its
// thread.
func (p *poster) tellLocked(ctx context.Context, t workflows.Thread) {
	if t.Channel == "" || t.ID == "" {
		return
	}
	above, key := t, "locked-"+t.ID
	above.ID = ""
	if found, err := p.find(ctx, t.Channel, key, timeOf(t.ID)); err != nil || len(found) > 0 {
		return
	}
	text := "The thread <#" + t.ID + "> is locked, so its session cannot write there. What it does goes on; unlock the thread to see it, or stop it with `/agent stop`."
	if _, err := p.post(ctx, above, t.Channel, key, 0, outgoing{Content: text}); err != nil {
		p.app.log.Warn("A locked thread could not be told of", telemetry.KeyThreadID, t.ID, telemetry.KeyError, err)
	}
}
