package discord

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// interactionEvent takes an interaction from the gateway.
func (a *App) interactionEvent(ctx context.Context, data json.RawMessage) {
	var i interaction
	if err := json.Unmarshal(data, &i); err != nil || i.ID == "" {
		a.log.Warn("Interaction cannot be read", telemetry.KeyError, err)
		return
	}
	a.interact(ctx, i)
}

// interact takes what Discord sends once and never again.
func (a *App) interact(ctx context.Context, i interaction) {
	if !a.taken.first("interaction/"+i.ID, taken{}) {
		return
	}
	if i.Member != nil && i.Member.User != nil {
		a.people.note(i.Guild, *i.Member.User, i.Member)
	}
	if i.Channel.ID != "" {
		i.Channel.Guild = i.Guild
	} else {
		i.Channel = a.placeInTime(ctx, i.In)
	}
	c := &call{app: a, i: i}
	switch i.Type {
	case interactionCommand:
		c.slash(ctx)
	case interactionClick:
		c.pressed(ctx)
	case interactionComplete:
		c.complete(ctx)
	case interactionSubmit:
		c.submitted(ctx)
	}
}

// placeInTime is where an interaction that does not say it comes from; the zero
// channel when that is not known in time.
func (a *App) placeInTime(ctx context.Context, id string) channel {
	ctx, cancel := limit(ctx, lookWithin)
	defer cancel()
	place, err := a.place(ctx, id)
	if err != nil {
		a.log.Warn("An interaction's channel is not known", telemetry.KeyChannelID, id, telemetry.KeyError, err)
	}
	return place
}

// respond gives an interaction its first answer, over the REST API. It returns
// false where the person has seen it fail and will repeat it: then nothing may be
// done.
func (a *App) respond(ctx context.Context, i interaction, r response) bool {
	ctx, cancel := limit(ctx, answerWithin)
	defer cancel()
	err := persist(ctx, func() error {
		return a.api.call(ctx, http.MethodPost, "/interactions/"+i.ID+"/"+i.Token+"/callback", r, nil)
	})
	switch {
	case err == nil:
		return true
	case is(err, discordgo.ErrCodeInteractionHasAlreadyBeenAcknowledged):
		return true // by another bot, or by an attempt whose answer was lost: what it asks for is done once
	case is(err, discordgo.ErrCodeUnknownInteraction, discordgo.ErrCodeUnknownWebhook):
		a.log.Warn("Interaction came too late", "type", i.Type, "age", time.Since(i.at()).Round(time.Millisecond).String())
		return false
	}
	a.log.Warn("First answer to an interaction failed", telemetry.KeyError, err)
	return true // it may have arrived; the outcome is told either way
}

// call is an interaction that is being answered.
type call struct {
	app *App
	i   interaction
	// waits: a message of its own is shown as thinking until it is edited.
	waits bool
}

// thread is the one that the interaction belongs to: without an ID in a channel.
func (c *call) thread() workflows.Thread {
	if c.i.Channel.isThread() {
		return c.app.thread(c.i.Guild, c.i.Channel.Parent, c.i.In)
	}
	return c.app.thread(c.i.Guild, c.i.In, "")
}

// clicked is the thread of the message that was clicked: the header of a thread
// may stand in the channel, and its ID is the thread's.
func (c *call) clicked() workflows.Thread {
	t := c.thread()
	if t.ID == "" && c.i.Message != nil {
		t.ID = c.i.Message.ID
	}
	return t
}

// deferAlone defers an answer that only the person will see.
func (c *call) deferAlone(ctx context.Context) bool {
	c.waits = true
	return c.first(ctx, response{Type: respondDeferred, Data: map[string]int{"flags": flagEphemeral}})
}

// deferUpdate defers with nothing shown: the message that was clicked stays.
func (c *call) deferUpdate(ctx context.Context) bool {
	if c.i.Message == nil {
		return c.deferAlone(ctx)
	}
	return c.first(ctx, response{Type: respondUpdate})
}

// first gives the first answer.
func (c *call) first(ctx context.Context, r response) bool { return c.app.respond(ctx, c.i, r) }

// say answers at once, to the person alone.
func (c *call) say(ctx context.Context, text string) {
	c.first(ctx, response{Type: respondMessage, Data: outgoing{Content: cut(text, shownText), Mentions: noMentions(), Flags: flagEphemeral}})
}

// private is an answer for one person.
type private struct {
	text  string
	rows  []component
	files []file
	// drawn is a text that is in Discord's form already, and fits.
	drawn bool
}

// tell gives the outcome to the person alone. Without a text a message that is
// waiting goes away. When the interaction's token is dead, the outcome is said
// where it happened.
func (c *call) tell(ctx context.Context, p private) {
	ctx, cancel := limit(ctx, tellWithin)
	defer cancel()
	hook := "/webhooks/" + c.app.self.App + "/" + c.i.Token
	if p.text == "" {
		if c.waits {
			if err := c.app.api.call(ctx, http.MethodDelete, hook+"/messages/@original", nil, nil); err != nil {
				c.app.log.Info("A waiting answer could not be taken away", telemetry.KeyError, err)
			}
		}
		return
	}
	parts := []string{p.text}
	if !p.drawn {
		parts = split(dialect(unmarked(p.text)))
	}
	if len(parts) > maxParts {
		parts = append(parts[:maxParts-1], "…")
	}
	for n, text := range parts {
		m := outgoing{Content: text, Mentions: noMentions(), Flags: flagEphemeral | flagNoPreviews}
		var files []file
		if n == len(parts)-1 {
			m.Components, files = p.rows, p.files
		}
		if err := c.send(ctx, hook, n, m, files); err != nil {
			c.aloud(ctx, n, parts[n:], p, err)
			return
		}
	}
}

// send tells a part of an outcome by the interaction's token.
func (c *call) send(ctx context.Context, hook string, n int, m outgoing, files []file) error {
	for i, f := range files {
		m.Attachments = append(m.Attachments, attachment{ID: strconv.Itoa(i), Name: f.name})
	}
	if n > 0 || !c.waits {
		// Done twice it would be told twice: only a refusal for its rate is repeated.
		for {
			err := c.app.api.upload(ctx, http.MethodPost, hook, m, files, nil)
			var limited *chat.RateLimitedError
			if !errors.As(err, &limited) || limited.RetryAfter > bucketWait || sleep(ctx, limited.RetryAfter) != nil {
				return err
			}
		}
	}
	e := edit{Content: m.Content, Mentions: m.Mentions, Components: m.Components, Attachments: m.Attachments}
	if e.Components == nil {
		e.Components = []component{}
	}
	return persist(ctx, func() error {
		return c.app.api.upload(ctx, http.MethodPatch, hook+"/messages/@original", e, files, nil)
	})
}

// aloud says an outcome where it happened, because the person cannot be told
// alone any more: the token lives 15 minutes. Buttons that are for one person
// stay away.
func (c *call) aloud(ctx context.Context, n int, parts []string, p private, why error) {
	c.app.log.Warn("An interaction could not be answered; its outcome is said in the channel", telemetry.KeyError, why)
	if len(p.files) > 0 {
		parts = []string{"This could not be shown to you alone. Open it again."}
	}
	ctx, cancel := limit(ctx, tellWithin) // what was left may be used up
	defer cancel()
	po := &poster{app: c.app}
	t := c.thread()
	for k, text := range parts {
		if k == 0 {
			text = "<@" + c.i.who() + "> " + text
		}
		key := "outcome-" + c.i.ID
		err := persist(ctx, func() error {
			_, err := po.post(ctx, t, placeOf(t), key, n+k, outgoing{Content: cut(text, shownText)})
			return err
		})
		if err != nil {
			c.app.log.Error("A person could not be answered", telemetry.KeyChannelID, t.Channel, telemetry.KeyActorID, c.i.who(), telemetry.KeyError, err)
			return
		}
	}
}

// actor is who acted, with the roles that Discord vouches for in the interaction.
// unsure is an error where not all of their names are known.
func (c *call) actor(ctx context.Context) (by workflows.Actor, unsure error) {
	if c.i.Member == nil || c.i.Member.User == nil {
		u := user{}
		if c.i.User != nil {
			u = *c.i.User
		}
		return actorOf(u, nil), nil
	}
	by = actorOf(*c.i.Member.User, c.i.Member)
	by.Groups, unsure = c.app.people.groups(ctx, c.i.Guild, *c.i.Member)
	if unsure != nil {
		c.app.log.Warn("Names of roles are not known; their IDs count", telemetry.KeyActorID, by.ID, telemetry.KeyError, unsure)
	}
	return by, unsure
}

// asked is a context that says who asks, and where.
func (c *call) asked(ctx context.Context) context.Context {
	return within(asking(ctx, c.i.Guild, c.i.who()), c.i.In)
}

// event is the neutral form of a command.
func (c *call) event(ctx context.Context, t workflows.Thread) chat.Event {
	by, _ := c.actor(ctx)
	by.Groups = nil // evidence is for decisions; commands look groups up as they need them
	return chat.Event{ID: c.i.ID, Thread: t, New: c.app.thread(t.Team, t.Channel, ""), By: by, At: c.app.api.clock.Here(c.i.at())}
}

// carryOut gives a command to a thread's session. What everybody may see goes
// into the thread; the text that is returned is for the asker alone.
func (c *call) carryOut(ctx context.Context, cmd chat.Command, t workflows.Thread, via *chat.Router) string {
	ctx, cancel := limit(ctx, outcomeWithin)
	defer cancel()
	reply, err := via.Do(c.asked(ctx), c.event(ctx, t), cmd)
	if err != nil {
		return words(err)
	}
	if t.ID == "" || reply.Private || reply.Text == "" {
		return reply.Text
	}
	p := &poster{app: c.app}
	key := "reply-" + c.i.ID
	if _, err := p.postText(ctx, t, key, replyContent(key, reply)); err != nil {
		c.app.log.Error("Reply could not be posted", telemetry.KeyChannelID, t.Channel, telemetry.KeyThreadID, t.ID, telemetry.KeyError, err)
		return reply.Text
	}
	return ""
}
