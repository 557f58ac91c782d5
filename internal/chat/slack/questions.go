package slack

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// viewGrants is the callback ID of the list of standing permissions.
const viewGrants = "grants"

// asks reports the commands whose reply is a question with buttons. From the menu
// and the shortcut it is asked in a modal, where only the asker sees it; after a
// mention in the thread.
func asks(verb chat.Verb) bool {
	return verb == chat.VerbDone || verb == chat.VerbDestroy || verb == chat.VerbGrants
}

// question is a question's modal: for an end what would be lost, for grants what
// stands. note is said first, where there is something to say.
func (a *App) question(ctx context.Context, user string, t workflows.Thread, verb chat.Verb, id string, at time.Time, note string) slack.ModalViewRequest {
	by, err := a.people.actor(ctx, user)
	if err != nil {
		a.log.Warn("Command refused", telemetry.KeyError, err)
		return textView(title(verb), "Slack did not say who you are. Nothing was done; try again in a moment.")
	}
	reply, err := a.plain.Do(ctx, chat.Event{ID: id, Thread: t, New: a.thread(t.Channel, ""), By: by, At: at}, chat.Command{Verb: verb})
	if err != nil {
		return textView(title(verb), words(err))
	}
	text := strings.TrimSpace(note + "\n\n" + reply.Text)
	if reply.Question == "" || len(reply.Buttons) == 0 {
		return textView(title(verb), text)
	}
	r := refOf(t)
	r.Question, r.Command = reply.Question, encodeCommand(chat.Command{Verb: verb})
	blocks := markdownBlocksOf(text)
	switch verb {
	case chat.VerbGrants:
		var buttons []slack.BlockElement
		for _, b := range reply.Buttons {
			buttons = append(buttons, slack.NewButtonBlockElement(b.ID, "", plain(b.Label, maxButton)))
		}
		return modal(viewGrants, title(verb), r.encode(), append(blocks, slack.NewActionBlock("", buttons...))...)
	case chat.VerbDone:
		var values, labels []string
		for _, b := range reply.Buttons {
			values, labels = append(values, b.ID), append(labels, b.Label)
		}
		blocks = append(blocks, selectInput(inputVerdict, "What becomes of it", false, values, labels))
		return withSubmit(modal(viewForm, title(verb), r.encode(), blocks...), "Go on")
	}
	return withSubmit(modal(viewForm, title(verb), r.encode(), blocks...), title(verb))
}

// ends answers the question of an end. What became of the session its thread
// shows: the receipt, or that it is paused.
func (a *App) ends(ctx context.Context, i interaction, r ref, id string, at time.Time) *slack.ModalViewRequest {
	button := workflows.ButtonDestroy
	if r.Question == chat.QuestionDone {
		button = i.View.value(inputVerdict)
	}
	reply, err := a.decide(ctx, i.User.ID, r, chat.Click{Interaction: id, Button: button, At: at})
	c, _ := decodeCommand(r.Command) // its form was made with one
	if err != nil {
		return said(title(c.Verb), words(err))
	}
	return said(title(c.Verb), reply.Text)
}

// revoked ends a permission from the list and shows what is left of it.
func (a *App) revoked(ctx context.Context, i interaction, r ref) {
	act := i.Actions[0]
	id := strings.Join([]string{i.View.ID, act.ID, cmp.Or(act.TS, i.TriggerID)}, "/")
	at := time.Now()
	if t := a.api.gate.clock.Here(timeOf(act.TS)); !t.IsZero() {
		at = t
	}
	ctx, cancel := context.WithTimeout(ctx, outcomeWithin)
	defer cancel()
	reply, err := a.decide(ctx, i.User.ID, r, chat.Click{Interaction: id, Button: act.ID, At: at})
	note := cmp.Or(reply.Answered, reply.Text)
	if err != nil {
		note = words(err)
	}
	a.updateView(ctx, i.View.ID, a.question(ctx, i.User.ID, a.refThread(r), chat.VerbGrants, id+"/list", at, note))
}
