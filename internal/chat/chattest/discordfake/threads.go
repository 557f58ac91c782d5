package discordfake

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

func (s *Server) getChannel(q *request) (any, *refusal) {
	c, no := s.reach(q.path("channel"), 0)
	if no != nil {
		return nil, no
	}
	return s.channelObject(c), nil
}

// patchChannel changes a thread (Channel, Modify Channel): unarchiving one that
// is not locked needs the right to send, all else MANAGE_THREADS, save for a
// thread of one's own, and the thread must be active or become it.
func (s *Server) patchChannel(q *request) (any, *refusal) {
	c, no := s.reach(q.path("channel"), 0)
	if no != nil {
		return nil, no
	}
	if !c.thread() {
		return nil, missingRights() // the fake's bots manage no channels
	}
	body, p := q.fields(), s.can(BotUser, c)
	opens := body["archived"] == false
	only := opens && len(body) == 1
	moderator := p.has(ManageThreads)
	switch {
	case c.Locked && !moderator:
		return nil, locked()
	case c.Archived && !opens:
		return nil, archived()
	case only && !p.has(SendMessagesInThreads) && !moderator:
		return nil, missingRights()
	case !only && !moderator && (c.Owner != BotUser || named(body, "locked")):
		return nil, missingRights()
	}
	if name, ok := body["name"].(string); ok {
		c.Name = name
	}
	if v, ok := body["archived"].(bool); ok && v != c.Archived {
		c.Archived, c.archivedAt = v, s.now()
	}
	if v, ok := body["locked"].(bool); ok {
		c.Locked = v
	}
	if n, ok := body["auto_archive_duration"].(json.Number); ok {
		c.AutoArchive, _ = strconv.Atoi(string(n)) // the shape checked it
	}
	s.threadUpdated(c)
	return s.channelObject(c), nil
}

func (s *Server) deleteChannel(q *request) (any, *refusal) {
	c, no := s.reach(q.path("channel"), 0)
	if no != nil {
		return nil, no
	}
	if p := s.can(BotUser, c); c.thread() && !p.has(ManageThreads) || !c.thread() && !p.has(ManageChannels) {
		return nil, missingRights()
	}
	o := s.channelObject(c)
	s.dropChannel(c)
	return o, nil
}

// threadFromMessage opens a thread whose ID is the message's (Channel, Start
// Thread from Message).
func (s *Server) threadFromMessage(q *request) (any, *refusal) {
	c, no := s.reach(q.path("channel"), CreatePublicThreads|ReadMessageHistory)
	if no != nil {
		return nil, no
	}
	m := s.find(c.ID, q.path("message"))
	switch {
	case c.thread() || c.Type != GuildText && c.Type != Announcement:
		return nil, refuse(400, 50024, "Cannot execute action on this channel type")
	case m == nil:
		return nil, unknownMessage()
	case s.channels[m.ID] != nil:
		return nil, refuse(400, 160004, "A thread has already been created for this message")
	case s.full(c.Guild):
		return nil, refuse(400, 160006, "Maximum number of active threads reached")
	case m.Type != defaultType && m.Type != replyType && m.Type != commandType && m.Type != menuUsedType:
		return nil, refuse(403, 50021, "Cannot execute action on a system message")
	}
	return s.channelObject(s.open(c, m, BotUser, q.fields())), nil
}

// full reports whether a guild has as many active threads as it may.
func (s *Server) full(guild string) bool {
	n := 0
	for _, c := range s.channels {
		if c.thread() && c.Guild == guild && !c.Archived {
			n++
		}
	}
	return n >= s.opt.MaxThreads
}

// open makes the thread of a message, which begins with a message that stands for
// it.
func (s *Server) open(c *Channel, m *Message, owner string, body object) *Channel {
	t := s.newThread(m.ID, c, PublicThread, owner, body)
	m.Flags |= FlagHasThread
	s.messages[t.ID] = []*Message{{
		ID: s.snowflake(), Channel: t.ID, Guild: c.Guild, Author: m.Author, Type: starterType, Reference: m.ID, At: s.now(),
	}}
	s.announce(t)
	s.told("MESSAGE_UPDATE", m)
	return t
}

func (s *Server) newThread(id string, c *Channel, kind int, owner string, body object) *Channel {
	t := &Channel{
		ID: id, Guild: c.Guild, Name: fmt.Sprint(body["name"]), Type: kind, Parent: c.ID, Owner: owner, ThreadMembers: []string{owner}, created: s.now(),
	}
	if n, ok := body["auto_archive_duration"].(json.Number); ok {
		t.AutoArchive, _ = strconv.Atoi(string(n)) // the shape checked it
	}
	s.channels[id] = t
	return t
}

func (s *Server) announce(t *Channel) {
	o := s.channelObject(t)
	o["newly_created"] = true
	s.dispatch(dispatch{name: "THREAD_CREATE", intent: intentGuilds, channel: t.ID, data: o})
}

// threadAlone opens a thread without a message (Channel, Start Thread without
// Message): private unless a type says else. A public one leaves a system message
// in the channel.
func (s *Server) threadAlone(q *request) (any, *refusal) {
	c, no := s.reach(q.path("channel"), 0)
	if no != nil {
		return nil, no
	}
	body := q.fields()
	kind, need := PrivateThread, CreatePrivateThreads
	if number, ok := body["type"].(json.Number); ok && number != "12" {
		kind, need = PublicThread, CreatePublicThreads
	}
	switch {
	case c.Type != GuildText && c.Type != Announcement:
		return nil, refuse(400, 50024, "Cannot execute action on this channel type")
	case !s.can(BotUser, c).has(need):
		return nil, missingRights()
	case s.full(c.Guild):
		return nil, refuse(400, 160006, "Maximum number of active threads reached")
	}
	t := s.newThread(s.snowflake(), c, kind, BotUser, body)
	s.announce(t)
	if kind == PublicThread {
		s.append(&Message{Channel: c.ID, Guild: c.Guild, Author: BotUser, Type: createdType, Content: t.Name})
	}
	return s.channelObject(t), nil
}

func (s *Server) archivedThreads(q *request) (any, *refusal) {
	c, no := s.reach(q.path("channel"), ReadMessageHistory)
	if no != nil {
		return nil, no
	}
	return s.threadList(s.inGuild(c.Guild), func(t *Channel) bool { return t.Parent == c.ID && t.Archived && t.Type != PrivateThread }), nil
}

func (s *Server) typing(q *request) (any, *refusal) {
	c, no := s.reach(q.path("channel"), 0)
	if no == nil && !s.can(BotUser, c).has(sendRight(c)) {
		no = missingRights()
	}
	return nil, no
}

func (s *Server) joinThread(q *request) (any, *refusal)  { return s.addMemberTo(q, BotUser) }
func (s *Server) addToThread(q *request) (any, *refusal) { return s.addMemberTo(q, q.path("user")) }

func (s *Server) addMemberTo(q *request, user string) (any, *refusal) {
	c, no := s.reach(q.path("channel"), 0)
	if no != nil {
		return nil, no
	}
	switch {
	case !c.thread():
		return nil, refuse(400, 50024, "Cannot execute action on this channel type")
	case c.Archived:
		return nil, archived()
	case s.guilds[c.Guild].member(user) == nil:
		return nil, refuse(404, 10007, "Unknown Member")
	case user != BotUser && !s.can(BotUser, c).has(SendMessagesInThreads):
		return nil, missingRights()
	}
	c.join(user)
	return nil, nil
}

func (s *Server) leaveThread(q *request) (any, *refusal) {
	c, no := s.reach(q.path("channel"), 0)
	if no != nil {
		return nil, no
	}
	if c.Archived {
		return nil, archived()
	}
	c.ThreadMembers = slices.DeleteFunc(c.ThreadMembers, func(id string) bool { return id == BotUser })
	return nil, nil
}

func (s *Server) threadMembers(q *request) (any, *refusal) {
	c, no := s.reach(q.path("channel"), 0)
	if no != nil {
		return nil, no
	}
	out := []object{}
	for _, id := range c.ThreadMembers {
		out = append(out, object{"id": c.ID, "user_id": id, "join_timestamp": stamp(c.created), "flags": 0})
	}
	return out, nil
}

// archiveIdle archives the threads in which nothing was sent for as long as they
// say (Threads, Active & Archived Threads).
func (s *Server) archiveIdle() {
	for _, c := range s.channels {
		if !c.thread() || c.Archived {
			continue
		}
		last := c.created
		if c.archivedAt.After(last) {
			last = c.archivedAt
		}
		if list := s.messages[c.ID]; len(list) > 0 && list[len(list)-1].At.After(last) {
			last = list[len(list)-1].At
		}
		if s.now().Sub(last) >= time.Duration(c.autoArchive())*time.Minute {
			c.Archived, c.archivedAt = true, s.now()
			s.threadUpdated(c)
		}
	}
}
