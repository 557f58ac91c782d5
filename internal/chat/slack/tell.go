package slack

import (
	"context"
	"errors"
	"slices"
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
// one, else as an ephemeral message in the thread, else as a direct message. A long
// text comes in several messages.
func (a *App) whisper(ctx context.Context, t workflows.Thread, user, responseURL, markdown string) {
	if strings.TrimSpace(markdown) == "" {
		return
	}
	for i, r := range privateParts(markdown) {
		way, err := a.whisperPart(ctx, t, user, responseURL, r)
		if err != nil {
			a.log.Error("A person could not be answered", telemetry.KeyChannelID, t.Channel, telemetry.KeyActorID, user, "part", i, telemetry.KeyError, detail(err))
			return
		}
		responseURL = way // what did not work for one part does not for the next
	}
}

// maxWhispers is how many messages a private answer may take: a response_url takes
// five.
const maxWhispers = 4

// privateParts renders what one person is told. What is too long is cut: for one
// person there are no files.
func privateParts(markdown string) []rendered {
	parts := chat.SplitMarkdown(harmless(strings.TrimSpace(chat.Prose(markdown))), markdownPart, markdownPieces)
	if len(parts) > maxWhispers {
		parts = parts[:maxWhispers]
		parts[maxWhispers-1] += "\n\n*The rest is left out.*"
	}
	var out []rendered
	for _, p := range parts {
		out = append(out, rendered{text: plainFallback(p), blocks: withIDs("private", []slack.Block{slack.NewMarkdownBlock("", p)})})
	}
	return out
}

// whisperPart tells one message's worth, and returns the response_url if it worked.
func (a *App) whisperPart(ctx context.Context, t workflows.Thread, user, responseURL string, r rendered) (string, error) {
	options := []slack.MsgOption{
		slack.MsgOptionText(r.text, false), slack.MsgOptionParse(false), slack.MsgOptionBlocks(r.blocks...),
	}
	inThread := options
	if t.ID != "" {
		inThread = append(slices.Clone(options), slack.MsgOptionTS(t.ID))
	}
	if responseURL != "" {
		_, _, _, err := a.api.SendMessageContext(ctx, t.Channel, append(slices.Clone(inThread), slack.MsgOptionResponseURL(responseURL, slack.ResponseTypeEphemeral))...)
		if err == nil {
			return responseURL, nil
		}
		a.log.Warn("Slack took no answer at the response_url", telemetry.KeyError, detail(err))
	}
	var err error
	if t.Channel != "" {
		_, err = a.api.PostEphemeralContext(ctx, t.Channel, user, inThread...)
		if err == nil || slices.Contains(passing(), code(err)) {
			return "", err
		}
	}
	a.log.Info("Slack shows a person nothing in the channel; it is sent as a direct message", telemetry.KeyChannelID, t.Channel, telemetry.KeyError, err)
	_, _, err = a.api.PostMessageContext(ctx, user, append(options, slack.MsgOptionDisableLinkUnfurl(), slack.MsgOptionDisableMediaUnfurl())...)
	return "", err
}

// words is an error as a sentence for a person.
func words(err error) string {
	var e *chat.Error
	if errors.As(err, &e) {
		return e.Text()
	}
	return "Not confirmed: the server did not answer in time. It may have been recorded; trying again is harmless."
}
