package slack

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// command is a slash command's payload. is_enterprise_install comes as a
// string, a boolean, or not at all.
type command struct {
	Command     string `json:"command"`
	Text        string `json:"text"`
	Channel     string `json:"channel_id"`
	User        string `json:"user_id"`
	TriggerID   string `json:"trigger_id"`
	ResponseURL string `json:"response_url"`
	OrgWide     any    `json:"is_enterprise_install"`
}

func isTrue(v any) bool { return v == true || v == "true" }

// slash carries out `/agent …`. Slack repeats no command, so it is acknowledged
// at once and its outcome follows.
func (a *App) slash(ctx context.Context, data json.RawMessage, ack ack) {
	at := time.Now()
	ack(nil)
	var c command
	if json.Unmarshal(data, &c) != nil || c.TriggerID == "" || !a.taken.first("command/"+c.TriggerID, true) {
		return
	}
	ctx, cancel := context.WithTimeout(asking(ctx, c.User, c.Channel), outcomeWithin)
	defer cancel()
	here := a.thread(c.Channel, "")
	answer := func(text string) {
		actx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
		defer cancel()
		a.whisper(actx, here, c.User, c.ResponseURL, text)
	}
	if isTrue(c.OrgWide) {
		answer(chat.Sentence("Nothing was done: " + orgWide))
		return
	}
	parsed, err := chat.Parse(a.reader.read(ctx, c.Text), chat.KnownBackends())
	if err != nil {
		answer(words(err))
		return
	}
	if needsSession(parsed.Verb) {
		a.openPicker(ctx, c, parsed, answer)
		return
	}
	by, err := a.people.actor(ctx, c.User)
	if err != nil {
		a.log.Warn("Command refused", telemetry.KeyError, err)
		answer("Slack did not say who you are. Nothing was done; try again in a moment.")
		return
	}
	if opens(parsed.Verb) {
		if text := a.absent(ctx, c.Channel); text != "" {
			answer(text)
			return
		}
		a.answers.put(c.TriggerID, c.ResponseURL)
	}
	reply, err := a.plain.Do(ctx, chat.Event{ID: c.TriggerID, Thread: here, New: here, By: by, At: at}, parsed)
	if err != nil {
		answer(words(err))
		return
	}
	answer(reply.Text)
}

func opens(v chat.Verb) bool { return v == chat.VerbRun || v == chat.VerbNew }

// needsSession reports the commands that a picker asks a session for.
func needsSession(v chat.Verb) bool {
	return slices.Contains([]chat.Verb{
		chat.VerbSwitch, chat.VerbFork, chat.VerbTitle, chat.VerbModel, chat.VerbStop, chat.VerbPause,
		chat.VerbDone, chat.VerbDestroy, chat.VerbStatus, chat.VerbHistory, chat.VerbFiles,
		chat.VerbGrants, chat.VerbRevoke,
	}, v)
}

// absent is what somebody is told who asks for a session where the bot is no
// member; empty where it is one. Where Slack does not say, posting will show.
func (a *App) absent(ctx context.Context, channel string) string {
	if _, ok := a.members.get(channel, cacheFor); ok {
		return ""
	}
	if isDirect(channel) {
		// Direct messages between other people look like the bot's own.
		if a.ownDirect(ctx, channel) {
			return ""
		}
		return notHere
	}
	info, err := a.api.GetConversationInfoContext(ctx, &slack.GetConversationInfoInput{ChannelID: channel})
	switch {
	case code(err) == "channel_not_found":
		return a.inviteMe()
	case err != nil:
		a.log.Warn("Membership is not known", telemetry.KeyChannelID, channel, telemetry.KeyError, detail(err))
		return ""
	case info.IsArchived:
		return archived
	case !info.IsMember && !info.IsMpIM:
		return a.inviteMe()
	}
	a.members.put(channel, true)
	return ""
}

const archived = "This channel is archived; nothing was started."

const notHere = "Countersign is no part of this conversation, so it cannot open a thread here. Nothing was posted. Use a channel, or a direct message to the bot."

// ownDirect reports whether a direct message is between a person and the bot:
// only then may the bot read it.
func (a *App) ownDirect(ctx context.Context, channel string) bool {
	err := a.api.read(ctx, "conversations.history", url.Values{"channel": {channel}, "oldest": {stamp(time.Now())}}, func(message) bool { return false })
	if c := code(err); c == "channel_not_found" || c == "not_in_channel" {
		return false
	}
	if err == nil {
		a.members.put(channel, true)
	}
	return true
}

func (a *App) inviteMe() string {
	return "Countersign is not in this channel, so nothing was posted. Invite it with `/invite @" + a.self.UserName + "` and give the command again."
}

// Callback IDs of our modals.
const (
	viewPicker  = "pick"
	viewForm    = "form"
	viewMenu    = "menu"
	viewDeny    = "deny"
	viewReview  = "review"
	viewWaiting = "wait"
)

// openPicker asks which session a command is for: a modal, at once, because the
// trigger lives 3 seconds; the sessions are filled in when they are known.
func (a *App) openPicker(ctx context.Context, c command, parsed chat.Command, answer func(string)) {
	if length(encodeCommand(parsed)) > maxPrivate/2 {
		answer("That is longer than a command of this kind may be. Nothing was done.")
		return
	}
	id, err := a.openView(ctx, c.TriggerID, waitingView(title(parsed.Verb), "Looking for sessions…"))
	if err != nil {
		answer("The picker could not be opened. Give the command in the session's thread, after a mention of the bot.")
		return
	}
	rows, err := a.liveSessions(ctx, a.thread(c.Channel, ""))
	switch {
	case err != nil:
		a.updateView(ctx, id, textView(title(parsed.Verb), words(chatError(err))))
	case len(rows) == 0:
		a.updateView(ctx, id, textView(title(parsed.Verb), "No session is live. `/agent <task>` starts one."))
	default:
		a.updateView(ctx, id, pickerView(c, parsed, rows))
	}
}

// liveSessions are the sessions that a command can be given to, newest first.
func (a *App) liveSessions(ctx context.Context, here workflows.Thread) ([]workflows.SessionRow, error) {
	ctx, cancel := context.WithTimeout(ctx, outcomeWithin/2)
	defer cancel()
	var rows []workflows.SessionRow
	// As many pages as there is time for: the one that is looked for may be old.
	for page := (workflows.ListSessions{Limit: 200}); len(rows) < maxOptions; {
		list, err := a.plain.Sessions.List(ctx, here.ManagerID(), page)
		switch {
		case errors.Is(err, workflows.ErrNoSession), err != nil && len(rows) > 0:
			return rows, nil
		case err != nil:
			return nil, err
		}
		for _, r := range list.Sessions {
			if r.Liveness != workflows.LivenessDestroyed {
				rows = append(rows, r)
			}
		}
		if list.Next == "" || list.Next == page.Before {
			break
		}
		page.Before = list.Next
	}
	return rows[:min(len(rows), maxOptions)], nil
}

func chatError(err error) error {
	if errors.Is(err, workflows.ErrUnavailable) {
		return &chat.Error{
			Kind: chat.KindUnavailable, Code: "server_unavailable", Message: "The server that keeps the sessions cannot be reached.",
			Hint: "Nothing was recorded; try again in a moment.", Err: err,
		}
	}
	return err
}

// title is a modal's title for a command.
func title(v chat.Verb) string {
	if v == "" {
		return "Session"
	}
	return strings.ToUpper(string(v[:1])) + string(v[1:])
}
