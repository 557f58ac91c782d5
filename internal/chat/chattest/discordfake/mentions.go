package discordfake

import (
	"regexp"
	"slices"
	"strings"
)

// mentions are those whom a message mentions and may notify.
type mentions struct {
	users, roles []string
	everyone     bool
}

// all are the mentioned IDs, and "everyone".
func (m mentions) all() []string {
	out := append(slices.Clone(m.users), m.roles...)
	if m.everyone {
		out = append(out, "everyone")
	}
	return out
}

var (
	userMention = regexp.MustCompile(`<@!?([0-9]+)>`)
	roleMention = regexp.MustCompile(`<@&([0-9]+)>`)
	everybody   = regexp.MustCompile(`@(everyone|here)`)
)

// checkAllowed finds what a list of IDs must not be together with (Message,
// Allowed Mentions Object).
func checkAllowed(body object, p *problems) {
	allowed, _ := body["allowed_mentions"].(map[string]any)
	for _, kind := range []string{"users", "roles"} {
		ids, _ := allowed[kind].([]any)
		if len(ids) > 0 && contains(allowed["parse"], kind) {
			p.add([]string{"allowed_mentions"}, "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE", "parse:%q and %s: [ids...] are mutually exclusive.", kind, kind)
		}
	}
}

func contains(items any, want string) bool {
	list, _ := items.([]any)
	return slices.Contains(list, any(want))
}

// parse finds whom a text mentions. Without allowed_mentions, or with a null in
// its place or in parse's, the defaults hold: everybody in a bot's messages, only
// users in an interaction's. The fake reads code blocks too.
func (s *Server) parse(m *Message, text string, body object, interaction bool) mentions {
	g := s.guilds[m.Guild]
	allowed, given := body["allowed_mentions"].(map[string]any)
	list, parse := allowed["parse"].([]any)
	if given && !parse && allowed["users"] == nil && allowed["roles"] == nil {
		if _, named := allowed["parse"]; named {
			s.complain(`allowed_mentions has "parse": null, which does not say that nobody is pinged`)
			given = false
		}
	}
	may := func(kind, id string) bool {
		if !given {
			return kind == "users" || !interaction
		}
		if slices.Contains(list, any(kind)) {
			return true
		}
		ids, _ := allowed[kind].([]any)
		return id != "" && slices.Contains(ids, any(id))
	}
	all := s.can(m.Author, s.channels[m.Channel]).has(MentionEveryone)
	var out mentions
	for _, id := range found(userMention, text) {
		if s.users[id] != nil && may("users", id) {
			out.users = append(out.users, id)
		}
	}
	for _, id := range found(roleMention, text) {
		if r := g.role(id); r != nil && may("roles", id) && (r.Mentionable || all) {
			out.roles = append(out.roles, id)
		}
	}
	out.everyone = everybody.MatchString(text) && may("everyone", "") && all
	return out
}

func found(form *regexp.Regexp, text string) []string {
	var out []string
	for _, match := range form.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(out, match[1]) {
			out = append(out, match[1])
		}
	}
	return out
}

// pingable is the text whose mentions count: content and text components, not
// embeds.
func pingable(content string, texts []string) string {
	return strings.Join(append([]string{content}, texts...), "\n")
}
