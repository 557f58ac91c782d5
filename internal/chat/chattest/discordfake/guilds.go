package discordfake

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Application flags (Application, Application Flags): the intents that small
// applications switch on for themselves.
const flagMessageContentLimited = 1 << 19

// inviteGuild is the guild of a request, if the bot is in it.
func (s *Server) inviteGuild(q *request) (*guild, *refusal) {
	g := s.guilds[q.path("guild")]
	if g == nil {
		return nil, refuse(404, 10004, "Unknown Guild")
	}
	if g.members[BotUser] == nil {
		return nil, missingAccess()
	}
	return g, nil
}

func (s *Server) getGateway(*request) (any, *refusal) {
	return object{"url": "ws" + strings.TrimPrefix(s.srv.URL, "http") + "/gateway"}, nil
}

func (s *Server) getGatewayBot(*request) (any, *refusal) {
	return object{
		"url": "ws" + strings.TrimPrefix(s.srv.URL, "http") + "/gateway", "shards": 1,
		"session_start_limit": object{"total": identifyLimit, "remaining": max(0, identifyLimit-s.gateway.identified()), "reset_after": 86400000, "max_concurrency": 1},
	}, nil
}

func (s *Server) getMe(*request) (any, *refusal) { return s.userObject(BotUser), nil }

func (s *Server) getUser(q *request) (any, *refusal) {
	if s.users[q.path("user")] == nil {
		return nil, refuse(404, 10013, "Unknown User")
	}
	return s.userObject(q.path("user")), nil
}

// getApplication gives what the Developer Portal was set to.
func (s *Server) getApplication(*request) (any, *refusal) {
	flags := flagMessageContentLimited
	if s.opt.NoMessageContent {
		flags = 0
	}
	return object{
		"id": AppID, "name": BotName, "icon": nil, "description": "", "bot_public": s.opt.PublicBot, "bot_require_code_grant": false,
		"verify_key": s.PublicKey(), "flags": flags, "team": nil, "bot": s.userObject(BotUser), "interactions_endpoint_url": nil,
		"owner": s.userObject(Ada), "summary": "",
	}, nil
}

func (s *Server) getMyGuilds(*request) (any, *refusal) {
	out := []object{}
	for _, id := range slices.SortedFunc(maps.Keys(s.guilds), compareIDs) {
		if g := s.guilds[id]; g.members[BotUser] != nil {
			out = append(out, object{
				"id": g.id, "name": g.name, "icon": nil, "owner": false, "permissions": s.canInGuild(BotUser, g).String(), "features": []string{},
			})
		}
	}
	return out, nil
}

func (s *Server) getGuild(q *request) (any, *refusal) {
	g, no := s.inviteGuild(q)
	if no != nil {
		return nil, no
	}
	return s.guildObject(g), nil
}

func (s *Server) getChannels(q *request) (any, *refusal) {
	g, no := s.inviteGuild(q)
	if no != nil {
		return nil, no
	}
	out := []object{}
	for _, c := range s.inGuild(g.id) {
		if !c.thread() && s.can(BotUser, c).has(ViewChannel) {
			out = append(out, s.channelObject(c))
		}
	}
	return out, nil
}

func (s *Server) getRoles(q *request) (any, *refusal) {
	g, no := s.inviteGuild(q)
	if no != nil {
		return nil, no
	}
	return s.guildObject(g)["roles"], nil
}

func (s *Server) getMember(q *request) (any, *refusal) {
	g, no := s.inviteGuild(q)
	if no != nil {
		return nil, no
	}
	id := q.path("user")
	if id == "" {
		id = BotUser // users/@me/guilds/{guild}/member
	}
	m := g.members[id]
	switch {
	case s.users[id] == nil:
		return nil, refuse(404, 10013, "Unknown User")
	case m == nil:
		return nil, refuse(404, 10007, "Unknown Member")
	}
	return s.memberObject(g, m), nil
}

// listMembers needs the server members intent (Guild, List Guild Members), which
// the fake's application has not.
func (s *Server) listMembers(q *request) (any, *refusal) {
	if _, no := s.inviteGuild(q); no != nil {
		return nil, no
	}
	return nil, missingAccess()
}

func (s *Server) activeThreads(q *request) (any, *refusal) {
	g, no := s.inviteGuild(q)
	if no != nil {
		return nil, no
	}
	return s.threadList(s.inGuild(g.id), func(c *Channel) bool { return !c.Archived }), nil
}

func (s *Server) threadList(all []*Channel, keep func(*Channel) bool) object {
	threads, members := []object{}, []object{}
	for _, c := range slices.Backward(all) {
		if !c.thread() || !keep(c) || !s.can(BotUser, c).has(ViewChannel) {
			continue
		}
		o := s.channelObject(c)
		threads = append(threads, o)
		if m, ok := o["member"].(object); ok {
			members = append(members, m)
		}
	}
	return object{"threads": threads, "members": members, "has_more": false}
}

func directBody() *schema { return record(map[string]*schema{"recipient_id": snowflake().must()}) }

func (s *Server) openDirect(q *request) (any, *refusal) {
	id := fmt.Sprint(q.fields()["recipient_id"])
	if s.users[id] == nil || s.users[id].Bot {
		return nil, refuse(400, 50033, "Invalid Recipient(s)")
	}
	return s.channelObject(s.direct(id)), nil
}
