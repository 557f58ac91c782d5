package discord

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bwmarrin/discordgo"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/workflows"
)

// slash carries out `/agent …`.
func (c *call) slash(ctx context.Context) {
	if c.i.Guild == "" {
		c.say(ctx, "Countersign works in the channels of a server. Nothing was done.")
		return
	}
	if c.i.Data.Type == int(discordgo.MessageApplicationCommand) {
		c.onMessage(ctx)
		return
	}
	cmd, session := commandOf(c.i.Data.Options)
	t := c.thread()
	elsewhere := session != ""
	if elsewhere {
		found, ok := chat.FindSession(session, t)
		if !ok || !isID(found.ID) {
			c.say(ctx, "“"+escape(session)+"” names no session here. See `/agent list`.")
			return
		}
		t = c.app.thread(t.Team, t.Channel, found.ID)
	}
	if cmd.Verb == chat.VerbSwitch && cmd.Backend == "" && t.ID != "" && !elsewhere {
		c.ask(ctx, cmd.Verb, t)
		return
	}
	if !c.deferAlone(ctx) {
		return
	}
	if elsewhere {
		var seen bool
		if t, seen = c.named(ctx, t); !seen {
			c.tell(ctx, private{text: unseen().Text()})
			return
		}
	}
	if cmd.Verb == chat.VerbRun {
		c.tell(ctx, private{text: c.run(ctx, cmd, t)})
		return
	}
	via := c.app.plain
	if opens(cmd.Verb) {
		if text := c.cannotOpen(); text != "" {
			c.tell(ctx, private{text: text})
			return
		}
	}
	c.tell(ctx, private{text: c.carryOut(ctx, cmd, t, via)})
}

// named is the session's thread that a command names, if the person sees it.
func (c *call) named(ctx context.Context, t workflows.Thread) (workflows.Thread, bool) {
	octx, cancel := limit(ctx, outcomeWithin)
	defer cancel()
	if !c.app.seesThread(within(octx, c.i.In), asker{c.i.Guild, c.i.who()}, t.ID) {
		return t, false
	}
	return c.app.parented(ctx, t), true
}

// parented fills in the channel that a thread stands in.
func (a *App) parented(ctx context.Context, t workflows.Thread) workflows.Thread {
	ctx, cancel := limit(ctx, outcomeWithin)
	defer cancel()
	if place, err := a.place(ctx, t.ID); err == nil && place.Parent != "" {
		t.Channel = place.Parent
	}
	return t
}

// run takes a task: in a channel a session is asked for, in a thread it is a
// message to the thread's session. What was asked is shown to everybody.
func (c *call) run(ctx context.Context, cmd chat.Command, t workflows.Thread) string {
	if t.ID == "" {
		if text := c.cannotOpen(); text != "" {
			return text
		}
	}
	if t.ID == "" {
		c.app.asked.put(c.i.ID, c.i.Token) // whoever opens the thread may have to say why not
	}
	ev := c.event(ctx, t)
	ev.Text = cmd.Task
	if text := c.bring(ctx, &ev); text != "" {
		return text
	}
	octx, cancel := limit(ctx, outcomeWithin)
	defer cancel()
	reply, err := c.app.mention.Do(c.asked(octx), ev, cmd)
	switch {
	case err != nil:
		return words(err)
	case t.ID == "":
		return cmp.Or(reply.Text, "Accepted. The thread opens in this channel.")
	}
	by, _ := c.actor(octx)
	task := escape(by.Label()) + " asks:\n> " + strings.ReplaceAll(unmarked(chat.ShownLines(cmd.Task)), "\n", "\n> ")
	if files := labels(ev.Attachments); files != "" {
		task = cut(task, shownText-size(files)-20) + "\nAttached: " + files
	}
	shown := content{parts: []string{cut(c.app.dep.Mask.Text(task), shownText)}}
	if _, err := (&poster{app: c.app}).postText(octx, t, "asked-"+c.i.ID, shown); err != nil {
		return "Accepted."
	}
	return reply.Text
}

func opens(v chat.Verb) bool { return v == chat.VerbRun || v == chat.VerbNew || v == chat.VerbFork }

// needed are the permissions that a session's thread needs in its channel.
func needed() map[int64]string {
	return map[int64]string{
		discordgo.PermissionViewChannel:           "View Channel",
		discordgo.PermissionSendMessages:          "Send Messages",
		discordgo.PermissionCreatePublicThreads:   "Create Public Threads",
		discordgo.PermissionSendMessagesInThreads: "Send Messages in Threads",
		discordgo.PermissionReadMessageHistory:    "Read Message History",
		discordgo.PermissionAttachFiles:           "Attach Files",
	}
}

// missing are the names of needed permissions that a set lacks, sorted.
func missing(have int64) []string {
	if have&discordgo.PermissionAdministrator != 0 {
		return nil
	}
	var names []string
	for bit, name := range needed() {
		if have&bit == 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// cannotOpen is what somebody is told who asks for a session where none can be
// opened; empty where one can.
func (c *call) cannotOpen() string {
	where := c.i.Channel
	if !where.isThread() && !where.opens() {
		return "Threads cannot be opened from here, so nothing was started. Use a text channel."
	}
	have, err := strconv.ParseInt(c.i.Permissions, 10, 64)
	if err != nil {
		return "" // opening will show
	}
	if lacks := missing(have); len(lacks) > 0 {
		return "Countersign lacks permissions in this channel, so nothing was started: " + strings.Join(lacks, ", ") + ". Whoever manages the server can give them."
	}
	return ""
}

// commandOf reads a command from typed options: the first is the subcommand.
// session is the one that it is for, where one was named.
func commandOf(options []option) (c chat.Command, session string) {
	if len(options) == 0 {
		return chat.Command{Verb: chat.VerbHelp}, ""
	}
	sub := options[0]
	c.Verb = chat.Verb(sub.Name)
	for _, o := range sub.Options {
		v := strings.TrimSpace(fmt.Sprint(o.Value))
		switch o.Name {
		case optionTask:
			c.Task = v
		case optionBackend:
			c.Backend = strings.ToLower(v)
		case optionWorkspace:
			c.Workspace = v
		case optionModel:
			c.Model = v
		case optionTitle:
			c.Title = v
		case optionRoot:
			c.Root = v
		case optionFrom:
			c.From = v
		case optionPath:
			c.Path = v
		case optionRevoke:
			c.Verb, c.Grant = chat.VerbRevoke, v
		case optionSession:
			session = v
		}
	}
	return c, session
}

// complete answers while somebody types: with backends and sessions.
func (c *call) complete(ctx context.Context) {
	var typed option
	for _, sub := range c.i.Data.Options {
		for _, o := range sub.Options {
			if o.Focused {
				typed = o
			}
		}
	}
	prefix := strings.ToLower(strings.TrimSpace(fmt.Sprint(typed.Value)))
	choices := []namedValue{}
	switch typed.Name {
	case optionBackend:
		for _, b := range c.app.dep.Backends {
			if strings.HasPrefix(b, prefix) {
				choices = append(choices, namedValue{b, b})
			}
		}
	case optionWorkspace:
		for _, name := range c.app.dep.Workspaces {
			if strings.Contains(strings.ToLower(name), prefix) && length(name) <= maxChoice {
				choices = append(choices, namedValue{name, name})
			}
		}
	case optionRoot:
		for _, r := range c.app.cfg.Roots {
			if strings.Contains(strings.ToLower(r), prefix) && length(r) <= maxChoice {
				choices = append(choices, namedValue{r, r})
			}
		}
	case optionSession, optionFrom:
		choices = c.sessions(ctx, prefix, typed.Name == optionFrom)
	case optionRevoke:
		choices = c.grants(ctx, prefix)
	}
	c.first(ctx, response{Type: respondChoices, Data: map[string]any{"choices": choices[:min(len(choices), maxChoices)]}})
}

type namedValue struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// sessions are those whose title or ID fits what was typed, newest first.
func (c *call) sessions(ctx context.Context, typed string, ended bool) []namedValue {
	ctx, cancel := limit(c.asked(ctx), lookWithin)
	defer cancel()
	out := []namedValue{}
	// As many pages as there is time for: the one that is looked for may be old.
	for page := (workflows.ListSessions{Limit: 200}); len(out) < maxChoices; {
		list, err := c.app.plain.Sessions.List(ctx, c.thread().ManagerID(), page)
		if err != nil {
			break
		}
		for _, row := range list.Sessions {
			if row.Liveness == workflows.LivenessDestroyed && !ended || !strings.Contains(strings.ToLower(row.Title)+" "+row.Thread.ID, typed) {
				continue
			}
			out = append(out, c.choice(row))
		}
		if list.Next == "" || list.Next == page.Before {
			break
		}
		page.Before = list.Next
	}
	return out
}

// choice is a session as it is offered while somebody types.
func (c *call) choice(row workflows.SessionRow) namedValue {
	name := chat.Shown(c.app.dep.Mask.Text(row.Title)) + " · " + row.Backend
	if row.Liveness == workflows.LivenessDestroyed {
		name += " · destroyed"
	}
	return namedValue{cut(name, maxChoice), chat.SessionName(row.Thread)}
}

// grants are the standing permissions of the thread's session.
func (c *call) grants(ctx context.Context, typed string) []namedValue {
	ctx, cancel := limit(ctx, lookWithin)
	defer cancel()
	out := []namedValue{}
	all, err := c.app.plain.Grants(ctx, c.thread())
	if err != nil {
		return out
	}
	for _, g := range all {
		if strings.Contains(strings.ToLower(g.ID+" "+g.Command), typed) {
			out = append(out, namedValue{cut(g.ID+" · "+chat.Shown(c.app.dep.Mask.Text(g.Command)), maxChoice), g.ID})
		}
	}
	return out
}

// onMessage is the command on a message: the menu of the session in whose thread
// it stands.
func (c *call) onMessage(ctx context.Context) {
	t := c.thread()
	if t.ID == "" {
		t.ID = c.i.Data.Target
	}
	lctx, cancel := limit(ctx, lookWithin)
	defer cancel()
	_, err := c.app.dep.Sessions.TurnState(lctx, t.WorkflowID())
	switch {
	case errors.Is(err, workflows.ErrNoSession):
		c.say(ctx, "No session runs in this thread. Mention the bot here to start one.")
	case err != nil:
		c.say(ctx, words(chatError(err)))
	default:
		c.first(ctx, response{Type: respondMessage, Data: outgoing{
			Content: "What should the session do?", Mentions: noMentions(), Flags: flagEphemeral, Components: []component{menuRow(t)},
		}})
	}
}
