package discord

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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
			return t, err
		}
		t.ID = id
	} else if place, err := p.app.lookUpPlace(ctx, t.ID); err != nil || place.ID != "" {
		if place.Parent != "" {
			t.Channel = place.Parent
		}
		return t, mapped(err)
	}
	err := p.openFrom(ctx, t, in)
	if err != nil && ours && errors.Is(err, chat.ErrThreadGone) {
		p.couldNotOpen(ctx, t, in, err)
	}
	return t, err
}

// rootOf posts the root under its key, unless it is there, and returns its ID.
func (p *poster) rootOf(ctx context.Context, in workflows.OpenThreadInput) (string, error) {
	t := in.Thread
	retry, since := attempt(ctx)
	if retry {
		found, err := p.find(ctx, t.Channel, in.Key, since)
		if err != nil {
			return "", mapped(err)
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
	switch {
	case is(err, discordgo.ErrCodeThreadAlreadyCreatedForThisMessage):
	case is(err, discordgo.ErrCodeUnknownMessage):
		return fmt.Errorf("%w: the message to open it from was deleted", chat.ErrThreadGone)
	case is(err, discordgo.ErrCodeMaximumNumberOfActiveThreadsReached, discordgo.ErrCodeMaximumNumberOfActiveAnnouncementThreadsReached):
		return fmt.Errorf("%w: this server has as many active threads as Discord allows; archive some", chat.ErrThreadGone)
	case is(err, discordgo.ErrCodeMissingAccess, discordgo.ErrCodeMissingPermissions):
		return fmt.Errorf("%w: the bot may not open threads in this channel", chat.ErrThreadGone)
	case err != nil:
		return mapped(err)
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

// couldNotOpen says on a root why no thread was opened from it.
func (p *poster) couldNotOpen(ctx context.Context, t workflows.Thread, in workflows.OpenThreadInput, err error) {
	reason := "the thread could not be opened"
	if after, ok := strings.CutPrefix(err.Error(), chat.ErrThreadGone.Error()+": "); ok {
		reason = after
	}
	text := rootText(in, "not opened: "+escape(reason)) + markOf(in.Key, 0, 1).String()
	if err := p.app.api.call(ctx, http.MethodPatch, "/channels/"+t.Channel+"/messages/"+t.ID,
		edit{Content: text, Mentions: noMentions(), Components: []component{}, Flags: flagNoPreviews}, nil); err != nil {
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
