package slack

import (
	"context"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/slack-go/slack/slackutilsx"
)

// entity is what Slack writes between angle brackets in a message's text:
// mentions, channels, links.
const entityPattern = `<([@#!]?)([^<>|\s][^<>|]*)(?:\|([^<>]*))?>`

// reader decodes the text of messages.
type reader struct {
	entity *regexp.Regexp
	bot    string
	// name gives a user's name, empty where it is not known.
	name func(ctx context.Context, user string) string
}

func (a *App) newReader() reader {
	return reader{entity: regexp.MustCompile(entityPattern), bot: a.self.User, name: func(ctx context.Context, user string) string {
		if who, err := a.people.actor(ctx, user); err == nil {
			return who.Name
		}
		return ""
	}}
}

// mentions reports whether text mentions the bot.
func (a *App) mentions(text string) bool {
	return strings.Contains(text, "<@"+a.self.User+">") || strings.Contains(text, "<@"+a.self.User+"|")
}

// read turns Slack's text into what was typed: entities resolved, escapes
// undone, mentions of the bot left out.
func (r reader) read(ctx context.Context, text string) string {
	var b strings.Builder
	last := 0
	for _, m := range r.entity.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(unescape(text[last:m[0]]))
		last = m[1]
		label := ""
		if m[6] >= 0 {
			label = text[m[6]:m[7]]
		}
		b.WriteString(r.resolve(ctx, text[m[2]:m[3]], text[m[4]:m[5]], label, text[m[0]:m[1]]))
	}
	b.WriteString(unescape(text[last:]))
	return strings.TrimSpace(b.String())
}

// resolve is the plain form of one entity; whole is how it stands in the text.
func (r reader) resolve(ctx context.Context, kind, target, label, whole string) string {
	switch {
	case kind == "@" && target == r.bot:
		return ""
	case kind == "@" && label != "":
		return "@" + unescape(label)
	case kind == "@":
		if n := r.name(ctx, target); n != "" {
			return "@" + n
		}
		return "@" + target
	case kind == "#" && label != "":
		return "#" + unescape(label)
	case kind == "#":
		return "#" + target
	case kind == "!":
		return special(target, label)
	case strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") || strings.HasPrefix(target, "tel:"):
		return linked(unescape(target), unescape(label))
	}
	return unescape(whole)
}

// special is <!here>, <!subteam^S1|@team>, <!date^1^{time}|12:00>.
func special(target, label string) string {
	if label != "" {
		return unescape(label)
	}
	name, rest, _ := strings.Cut(target, "^")
	if name == "subteam" {
		return "@" + rest
	}
	return "@" + name
}

// linked is what a person typed where Slack made a link of it: the label, when
// it is the address as typed; else the address, after its label.
func linked(target, label string) string {
	_, bare, ok := strings.Cut(target, "://")
	if !ok {
		_, bare, _ = strings.Cut(target, ":")
	}
	switch {
	case label == "":
		return target
	case label == target, strings.TrimSuffix(bare, "/") == strings.TrimSuffix(label, "/"):
		return label
	}
	return label + " (" + target + ")"
}

// unescape undoes the only three escapes that Slack makes.
func unescape(s string) string {
	if !strings.Contains(s, "&") {
		return s
	}
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(s)
}

// escape makes text literal in `text` fields and mrkdwn, as far as links and
// mentions go.
func escape(s string) string { return slackutilsx.EscapeMessage(s) }

// cut shortens s to at most n characters, the last of which is then an ellipsis.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

func length(s string) int { return utf8.RuneCountInString(s) }
