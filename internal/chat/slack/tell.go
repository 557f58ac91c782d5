package slack

import (
	"context"
	"errors"
	"strings"

	"github.com/slack-go/slack"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// replyContent renders a reply: its text, and the buttons of a question.
func (a *App) replyContent(key string, t workflows.Thread, reply chat.Reply) content {
	c := markdownContent(key, reply.Text)
	if len(reply.Buttons) == 0 {
		return c
	}
	r := refOf(t)
	r.Question = reply.Question
	last := &c.parts[len(c.parts)-1]
	last.blocks = withIDs(key, append(last.blocks, actions(reply.Buttons, r)))
	return c
}

// whisper tells one person something, through the response_url where there is
// one, else as an ephemeral message in the thread.
func (a *App) whisper(ctx context.Context, t workflows.Thread, user, responseURL, markdown string) {
	if strings.TrimSpace(markdown) == "" {
		return
	}
	if t.Channel == "" && responseURL == "" {
		a.log.Info("A person could not be answered: no channel is known", telemetry.KeyActorID, user)
		return
	}
	parts := markdownContent("private", markdown).parts
	r := parts[0]
	options := []slack.MsgOption{
		slack.MsgOptionText(r.text, false), slack.MsgOptionParse(false), slack.MsgOptionBlocks(r.blocks...),
	}
	if t.ID != "" {
		options = append(options, slack.MsgOptionTS(t.ID))
	}
	if responseURL != "" {
		_, _, _, err := a.api.SendMessageContext(ctx, t.Channel, append(options, slack.MsgOptionResponseURL(responseURL, slack.ResponseTypeEphemeral))...)
		if err == nil {
			return
		}
		a.log.Warn("Slack took no answer at the response_url", telemetry.KeyError, detail(err))
	}
	if _, err := a.api.PostEphemeralContext(ctx, t.Channel, user, options...); err != nil {
		a.log.Error("A person could not be answered", telemetry.KeyChannelID, t.Channel, telemetry.KeyActorID, user, telemetry.KeyError, detail(err))
	}
}

// words is an error as a sentence for a person.
func words(err error) string {
	var e *chat.Error
	if errors.As(err, &e) {
		return e.Text()
	}
	return "Not confirmed: the server did not answer in time. It may have been recorded; trying again is harmless."
}
