package discord

import "strings"

// entityPattern is what Discord writes between angle brackets in a message's
// text: mentions, channels, commands, emoji (Reference, Message Formatting).
const entityPattern = `<(@!?|@&|#|a?:\w+:|/[^:<>]+:)(\d+)>`

// read turns Discord's text into what was typed: names in the place of IDs,
// mentions of the bot left out.
func (a *App) read(m message) string {
	return strings.TrimSpace(a.entity.ReplaceAllStringFunc(m.Content, func(s string) string {
		part := a.entity.FindStringSubmatch(s)
		return a.entityName(m, part[1], part[2])
	}))
}

// entityName is the plain form of one entity.
func (a *App) entityName(m message, kind, id string) string {
	switch {
	case kind == "@" || kind == "@!":
		if id == a.self.Bot {
			return ""
		}
		for _, u := range m.Mentions {
			if u.ID == id {
				return "@" + u.Name
			}
		}
		return "@" + id
	case kind == "@&":
		all, _ := a.people.roles.get(m.Guild, rememberFor) // for the name only
		for _, r := range all {
			switch {
			case r.ID == id && r.Tags != nil && r.Tags.Bot == a.self.Bot:
				return ""
			case r.ID == id:
				return "@" + r.Name
			}
		}
		return "@" + id
	case kind == "#":
		if c, ok := a.places.get(id, placesFor); ok && c.Name != "" {
			return "#" + c.Name
		}
		return "#" + id
	}
	return strings.TrimSuffix(strings.TrimPrefix(kind, "a:"), "/") // an emoji's or command's name
}
