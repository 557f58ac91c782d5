package discordfake

import (
	"encoding/json"
	"slices"
	"time"
)

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000-07:00") }

// userObject is a user (User, User Structure); one who is unknown has only an ID.
func (s *Server) userObject(id string) object {
	u := s.users[id]
	if u == nil {
		return object{"id": id, "username": "deleted_user", "discriminator": "0", "global_name": nil, "avatar": nil, "flags": 0, "primary_guild": nil}
	}
	o := object{
		"id": u.ID, "username": u.Name, "discriminator": "0", "global_name": nil, "avatar": nil, "public_flags": 0, "flags": 0, "primary_guild": nil,
	}
	if u.Bot {
		o["bot"] = true
	}
	return o
}

// memberObject is a member with the user (Guild, Guild Member Structure).
func (s *Server) memberObject(g *guild, m *Member) object {
	o := partialMember(m)
	o["user"] = s.userObject(m.User)
	return o
}

func partialMember(m *Member) object {
	o := object{
		"nick": nil, "avatar": nil, "roles": nonNil(m.Roles), "joined_at": stamp(m.joined), "premium_since": nil,
		"deaf": false, "mute": false, "flags": 0, "pending": false, "banner": nil, "communication_disabled_until": nil,
	}
	if m.Nick != "" {
		o["nick"] = m.Nick
	}
	o["pending"] = m.Pending
	if m.Guest {
		o["flags"] = 1 << 4
	}
	return o
}

func nonNil(list []string) []string { return append([]string{}, list...) }

func roleObject(r *Role) object {
	o := object{
		"id": r.ID, "name": r.Name, "icon": nil, "unicode_emoji": nil, "color": 0, "colors": object{"primary_color": 0, "secondary_color": nil, "tertiary_color": nil}, "hoist": false,
		"position": 0, "permissions": r.Permissions.String(), "managed": r.Managed, "mentionable": r.Mentionable, "flags": 0,
	}
	if r.Managed {
		o["tags"] = object{"bot_id": BotUser}
	}
	return o
}

// channelObject is a channel or thread (Channel, Channel Structure).
func (s *Server) channelObject(c *Channel) object {
	if c.Type == Direct {
		return object{"id": c.ID, "type": c.Type, "flags": 0, "last_message_id": nil, "recipients": s.userObjects([]string{c.Owner})}
	}
	o := object{"id": c.ID, "type": c.Type, "guild_id": c.Guild, "name": c.Name, "flags": 0, "rate_limit_per_user": 0, "last_message_id": nil}
	if list := s.messages[c.ID]; len(list) > 0 {
		o["last_message_id"] = list[len(list)-1].ID
	}
	if !c.thread() {
		overwrites := []object{}
		for _, ow := range c.Overwrites {
			kind := 0
			if ow.Member {
				kind = 1
			}
			overwrites = append(overwrites, object{"id": ow.ID, "type": kind, "allow": ow.Allow.String(), "deny": ow.Deny.String()})
		}
		o["permission_overwrites"], o["position"], o["parent_id"], o["topic"], o["nsfw"] = overwrites, 0, nil, nil, false
		return o
	}
	archivedAt := c.archivedAt
	if archivedAt.IsZero() {
		archivedAt = c.created
	}
	n := len(s.messages[c.ID])
	o["parent_id"], o["owner_id"], o["message_count"], o["total_message_sent"], o["member_count"] = c.Parent, c.Owner, n, n, len(c.ThreadMembers)
	o["thread_metadata"] = object{
		"archived": c.Archived, "locked": c.Locked, "auto_archive_duration": c.autoArchive(), "archive_timestamp": stamp(archivedAt), "create_timestamp": stamp(c.created),
	}
	if slices.Contains(c.ThreadMembers, BotUser) {
		o["member"] = object{"id": c.ID, "user_id": BotUser, "join_timestamp": stamp(c.created), "flags": 0}
	}
	return o
}

// guildObject is a guild as REST gives it (Guild, Guild Structure).
func (s *Server) guildObject(g *guild) object {
	roles := []object{}
	for _, r := range g.roles {
		roles = append(roles, roleObject(r))
	}
	o := object{
		"id": g.id, "name": g.name, "icon": nil, "owner_id": g.owner, "roles": roles, "emojis": []any{}, "stickers": []any{}, "features": []string{},
		"verification_level": 0, "default_message_notifications": 0, "explicit_content_filter": 0, "mfa_level": 0, "premium_tier": 0,
		"preferred_locale": "en-US", "system_channel_id": nil, "system_channel_flags": 0, "afk_timeout": 300, "nsfw_level": 0, "nsfw": false,
		"region": "us-central", "widget_enabled": false, "max_presences": 0, "max_members": 500000, "max_stage_video_channel_users": 50,
		"max_video_channel_users": 25, "premium_subscription_count": 0, "premium_progress_bar_enabled": false,
	}
	for _, none := range []string{
		"description", "home_header", "splash", "discovery_splash", "banner", "application_id", "afk_channel_id", "widget_channel_id", "vanity_url_code",
		"rules_channel_id", "safety_alerts_channel_id", "public_updates_channel_id", "incidents_data",
	} {
		o[none] = nil
	}
	return o
}

// guildCreate is the guild with its channels and active threads (Gateway Events,
// Guild Create).
func (s *Server) guildCreate(g *guild) object {
	o := s.guildObject(g)
	channels, threads := []object{}, []object{}
	for _, c := range s.inGuild(g.id) {
		switch {
		case !s.can(BotUser, c).has(ViewChannel):
		case !c.thread():
			channels = append(channels, s.channelObject(c))
		case !c.Archived:
			threads = append(threads, s.channelObject(c))
		}
	}
	members := []object{}
	if m := g.members[BotUser]; m != nil {
		members = append(members, s.memberObject(g, m))
		o["joined_at"] = stamp(m.joined)
	}
	o["channels"], o["threads"], o["members"], o["member_count"] = channels, threads, members, len(g.members)
	o["large"], o["unavailable"], o["voice_states"], o["presences"] = false, false, []any{}, []any{}
	o["stage_instances"], o["guild_scheduled_events"], o["soundboard_sounds"] = []any{}, []any{}, []any{}
	return o
}

func (s *Server) inGuild(id string) []*Channel {
	var out []*Channel
	for _, c := range s.channels {
		if c.Guild == id {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *Channel) int { return compareIDs(a.ID, b.ID) })
	return out
}

// messageObject is a message (Message, Message Structure) as the bot may see it:
// without content where it may not read it.
func (s *Server) messageObject(m *Message, content bool) object {
	o := object{
		"id": m.ID, "channel_id": m.Channel, "author": s.authorObject(m), "content": m.Content, "timestamp": stamp(m.At), "edited_timestamp": nil,
		"tts": false, "mention_everyone": m.mentions.everyone, "mentions": s.userObjects(m.mentions.users), "mention_roles": nonNil(m.mentions.roles),
		"attachments": s.attachmentObjects(m), "embeds": rawList(m.Embeds), "components": rawList(m.Components), "pinned": false, "type": m.Type, "flags": m.Flags,
	}
	if !content {
		o["content"], o["attachments"], o["embeds"], o["components"] = "", []any{}, []any{}, []any{}
	}
	if !m.EditedAt.IsZero() {
		o["edited_timestamp"] = stamp(m.EditedAt)
	}
	if m.Webhook != "" {
		o["webhook_id"] = m.Webhook
	}
	if m.Author == BotUser {
		o["application_id"] = AppID
	}
	if t := s.channels[m.ID]; t != nil && t.thread() {
		o["thread"] = s.channelObject(t)
	}
	if m.Reference != "" {
		ref := object{"message_id": m.Reference, "channel_id": m.Channel, "guild_id": m.Guild, "type": 0}
		if m.Type == starterType {
			ref["channel_id"] = s.channels[m.Channel].Parent
		}
		o["message_reference"] = ref
	}
	if m.interaction != nil {
		o["interaction_metadata"] = object{
			"id": m.interaction.ID, "type": m.interaction.kind, "user": s.userObject(m.interaction.User),
			"authorizing_integration_owners": object{"0": m.Guild},
		}
	}
	return o
}

// eventMessage is a message as the gateway sends it: with guild and member.
func (s *Server) eventMessage(m *Message, content bool) object {
	o := s.messageObject(m, content)
	if m.Guild != "" {
		o["guild_id"] = m.Guild
	}
	if who := s.guilds[m.Guild].member(m.Author); who != nil {
		o["member"] = partialMember(who)
	}
	if m.Nonce != nil {
		o["nonce"] = m.Nonce
	}
	return o
}

func (s *Server) authorObject(m *Message) object {
	if m.Webhook != "" && m.interaction == nil {
		return object{"id": m.Webhook, "username": "hook", "discriminator": "0000", "global_name": nil, "avatar": nil, "bot": true}
	}
	return s.userObject(m.Author)
}

func (s *Server) userObjects(ids []string) []object {
	out := []object{}
	for _, id := range ids {
		out = append(out, s.userObject(id))
	}
	return out
}

func rawList(raw json.RawMessage) any {
	if len(raw) == 0 {
		return []any{}
	}
	return raw
}

func (s *Server) attachmentObjects(m *Message) []object {
	out := []object{}
	for _, f := range m.Files {
		url := s.srv.URL + "/attachments/" + f.ID + "/" + f.Name
		o := object{"id": f.ID, "filename": f.Name, "size": len(f.Content), "url": url, "proxy_url": url, "content_type": f.Type, "flags": 0}
		if f.Description != "" {
			o["description"] = f.Description
		}
		if m.Ephemeral {
			o["ephemeral"] = true
		}
		out = append(out, o)
	}
	return out
}

// readable reports whether the bot may read a message's content (Gateway, Message
// Content Intent): its own, one that mentions it, a direct one, or any with the
// intent.
func readable(m *Message, intent bool) bool {
	return intent || m.Guild == "" || m.Author == BotUser || slices.Contains(m.mentions.users, BotUser)
}
