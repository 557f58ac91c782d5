package discordfake

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Message types (Message, Message Types).
const (
	defaultType  = 0
	createdType  = 18
	replyType    = 19
	commandType  = 20
	starterType  = 21
	menuUsedType = 23
)

// nonceKnown is how long a nonce is enforced: "the past few minutes" (Message,
// Create Message).
const nonceKnown = 3 * time.Minute

// old is the age from which edits are counted (error 30046).
const old = time.Hour

// Message is a message as it stands.
type Message struct {
	ID, Channel, Guild, Author string
	Type, Flags                int
	Content                    string
	Embeds, Components         json.RawMessage
	Files                      []File
	At, EditedAt               time.Time
	// Pings are the users and roles, and "everyone", that its creation or an edit
	// may have notified.
	Pings []string
	// Nonce is what it was created with: a string or number.
	Nonce any
	// Reference is the message that it replies to.
	Reference string
	// Webhook is the webhook, or for answers to interactions the application.
	Webhook string
	// Ephemeral messages are shown only to For, and are in no channel's list.
	Ephemeral bool
	For       string
	// Edits is how often it was edited.
	Edits       int
	mentions    mentions
	interaction *Interaction
}

// Loading reports whether the message is still "thinking".
func (m *Message) Loading() bool { return m.Flags&FlagLoading != 0 }

// File is an attachment.
type File struct {
	ID, Name, Type, Description string
	Content                     []byte
}

type nonce struct {
	value, author, channel, message string
	at                              time.Time
}

// reach is the channel of a request, if the bot may see it.
func (s *Server) reach(id string, need Permissions) (*Channel, *refusal) {
	c := s.channels[id]
	if c == nil {
		return nil, unknownChannel()
	}
	p := s.can(BotUser, c)
	if !p.has(ViewChannel) {
		return nil, missingAccess()
	}
	if !p.has(need) {
		return nil, missingRights()
	}
	return c, nil
}

func (s *Server) find(channel, id string) *Message {
	for _, m := range s.messages[channel] {
		if m.ID == id {
			return m
		}
	}
	return nil
}

// sendRight is what writing in a channel needs (Threads, Permissions).
func sendRight(c *Channel) Permissions {
	if c.thread() {
		return SendMessagesInThreads
	}
	return SendMessages
}

func (s *Server) createMessage(q *request) (any, *refusal) {
	c, no := s.reach(q.path("channel"), 0)
	if no != nil {
		return nil, no
	}
	body := q.fields()
	if no := s.maySend(c, body, len(q.files)); no != nil {
		return nil, no
	}
	m := &Message{Channel: c.ID, Guild: c.Guild, Author: BotUser, Nonce: body["nonce"]}
	if ref, ok := body["message_reference"].(map[string]any); ok {
		if no := s.refer(m, c, ref); no != nil {
			return nil, no
		}
	}
	if no := s.fill(m, body, q.files, FlagSuppressEmbeds|FlagSuppressNotifications|FlagComponentsV2, false); no != nil {
		return nil, no
	}
	if body["enforce_nonce"] == true && m.Nonce != nil {
		if twin := s.twin(m); twin != nil {
			return s.withNonce(twin), nil
		}
	}
	s.unarchive(c)
	s.append(m)
	c.join(BotUser)
	return s.withNonce(m), nil
}

func (s *Server) withNonce(m *Message) object {
	o := s.messageObject(m, true)
	if m.Nonce != nil {
		o["nonce"] = m.Nonce
	}
	return o
}

// maySend checks rights and the thread's state.
func (s *Server) maySend(c *Channel, body object, files int) *refusal {
	p := s.can(BotUser, c)
	embeds, _ := body["embeds"].([]any)
	switch {
	case c.Type == GuildForum:
		return refuse(400, 50008, "Cannot send messages in a non-text channel")
	case !p.has(sendRight(c)), files > 0 && !p.has(AttachFiles), len(embeds) > 0 && !p.has(EmbedLinks), body["tts"] == true && !p.has(SendTTSMessages):
		return missingRights()
	case c.Locked && !p.has(ManageThreads):
		return locked()
	}
	return nil
}

func (s *Server) refer(m *Message, c *Channel, ref map[string]any) *refusal {
	m.Reference, m.Type = fmt.Sprint(ref["message_id"]), replyType
	if !s.can(BotUser, c).has(ReadMessageHistory) {
		return refuse(403, 160002, "Cannot reply without permission to read message history")
	}
	if s.find(c.ID, m.Reference) != nil {
		return nil
	}
	if ref["fail_if_not_exists"] == false {
		m.Reference, m.Type = "", defaultType
		return nil
	}
	return &refusal{Status: 400, Code: 50035, Message: "Invalid Form Body", Errors: tree(problem{
		[]string{"message_reference"}, "REPLIES_UNKNOWN_MESSAGE", "Unknown message"})}
}

// twin is the message that the same author made with the same nonce, in whichever
// channel: the documentation names only the author.
func (s *Server) twin(m *Message) *Message {
	now, value := s.now(), fmt.Sprint(m.Nonce)
	s.nonces = slices.DeleteFunc(s.nonces, func(n nonce) bool { return now.Sub(n.at) > nonceKnown })
	for _, n := range s.nonces {
		if n.value == value && n.author == m.Author {
			if twin := s.find(n.channel, n.message); twin != nil {
				return twin
			}
		}
	}
	return nil
}

// append puts a new message into its channel and tells of it.
func (s *Server) append(m *Message) {
	m.ID, m.At = s.snowflake(), s.now()
	s.messages[m.Channel] = append(s.messages[m.Channel], m)
	if m.Nonce != nil {
		s.nonces = append(s.nonces, nonce{fmt.Sprint(m.Nonce), m.Author, m.Channel, m.ID, m.At})
	}
	s.told("MESSAGE_CREATE", m)
}

// told dispatches a message's event.
func (s *Server) told(name string, m *Message) {
	s.dispatch(dispatch{name: name, intent: messageIntent(m), channel: m.Channel, render: func(intents int) object {
		return s.eventMessage(m, readable(m, intents&intentMessageContent != 0))
	}})
}

func messageIntent(m *Message) int {
	if m.Guild == "" {
		return intentDirectMessages
	}
	return intentGuildMessages
}

// unarchive opens a thread again, as a new message in it does.
func (s *Server) unarchive(c *Channel) {
	if c.thread() && c.Archived {
		c.Archived, c.archivedAt = false, s.now()
		s.threadUpdated(c)
	}
}

func (s *Server) editMessage(q *request) (any, *refusal) {
	c, no := s.reach(q.path("channel"), 0)
	if no != nil {
		return nil, no
	}
	m := s.find(c.ID, q.path("message"))
	body := q.fields()
	switch {
	case m == nil:
		return nil, unknownMessage()
	case c.Archived:
		return nil, archived()
	case c.Locked && !s.can(BotUser, c).has(ManageThreads):
		return nil, locked()
	case m.Type == starterType || m.Type == createdType:
		return nil, refuse(403, 50021, "Cannot execute action on a system message")
	case m.Author != BotUser:
		return nil, refuse(403, 50005, "Cannot edit a message authored by another user")
	case s.worn(m):
		no := limited(time.Minute, "shared")
		no.Code, no.Message = 30046, "Maximum number of edits to messages older than 1 hour reached. Try again later"
		return nil, no
	}
	if no := s.revise(m, body, q.files, false); no != nil {
		return nil, no
	}
	return s.messageObject(m, true), nil
}

// worn counts an edit of an old message, and reports whether it is one too many.
func (s *Server) worn(m *Message) bool {
	now := s.now()
	if now.Sub(m.At) < old {
		return false
	}
	times := slices.DeleteFunc(s.oldEdits[m.Channel], func(t time.Time) bool { return now.Sub(t) >= time.Hour })
	if len(times) >= s.opt.OldEdits {
		s.oldEdits[m.Channel] = times
		return true
	}
	s.oldEdits[m.Channel] = append(times, now)
	return false
}

// revise edits a message and tells of it.
func (s *Server) revise(m *Message, body object, files map[string]upload, interaction bool) *refusal {
	if no := s.fill(m, body, files, FlagSuppressEmbeds|FlagComponentsV2, interaction); no != nil {
		return no
	}
	m.EditedAt = s.now()
	m.Edits++
	if !m.Ephemeral {
		s.told("MESSAGE_UPDATE", m)
	}
	return nil
}

func (s *Server) getMessage(q *request) (any, *refusal) {
	c, no := s.reach(q.path("channel"), ReadMessageHistory)
	if no != nil {
		return nil, no
	}
	m := s.find(c.ID, q.path("message"))
	if m == nil {
		return nil, unknownMessage()
	}
	return s.messageObject(m, readable(m, !s.opt.NoMessageContent)), nil
}

// listMessages gives the newest first (Message, Get Channel Messages).
func (s *Server) listMessages(q *request) (any, *refusal) {
	c, no := s.reach(q.path("channel"), 0)
	if no != nil {
		return nil, no
	}
	limit, no := queryLimit(q, 50, 1, 100)
	if no != nil {
		return nil, no
	}
	out := []object{}
	if !s.can(BotUser, c).has(ReadMessageHistory) {
		return out, nil
	}
	for _, m := range s.page(c.ID, q, limit) {
		out = append(out, s.messageObject(m, readable(m, !s.opt.NoMessageContent)))
	}
	return out, nil
}

func (s *Server) page(channel string, q *request, limit int) []*Message {
	all := s.messages[channel]
	before, after, around := q.query.Get("before"), q.query.Get("after"), q.query.Get("around")
	var named []string
	for name := range q.query {
		if name == "before" || name == "after" || name == "around" {
			named = append(named, name)
		}
	}
	if len(named) > 1 {
		s.complain("%v are mutually exclusive", named)
	}
	var list []*Message
	switch {
	case after != "":
		for _, m := range all {
			if compareIDs(m.ID, after) > 0 && len(list) < limit {
				list = append(list, m)
			}
		}
	case around != "":
		at := slices.IndexFunc(all, func(m *Message) bool { return compareIDs(m.ID, around) >= 0 })
		from := max(0, at-limit/2)
		list = slices.Clone(all[from:min(len(all), from+limit)])
	default:
		for _, m := range all {
			if before == "" || compareIDs(m.ID, before) < 0 {
				list = append(list, m)
			}
		}
		list = list[max(0, len(list)-limit):]
	}
	slices.Reverse(list)
	return list
}

func queryLimit(q *request, standard, least, most int) (int, *refusal) {
	text := q.query.Get("limit")
	if text == "" {
		return standard, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, &refusal{Status: 400, Code: 50035, Message: "Invalid Form Body", Errors: tree(problem{
			[]string{"limit"}, "NUMBER_TYPE_MAX", fmt.Sprintf("int value should be between %d and %d.", least, most)})}
	}
	return n, nil
}

func (s *Server) deleteMessage(q *request) (any, *refusal) {
	c, no := s.reach(q.path("channel"), 0)
	if no != nil {
		return nil, no
	}
	m := s.find(c.ID, q.path("message"))
	switch p := s.can(BotUser, c); {
	case m == nil:
		return nil, unknownMessage()
	case c.Archived && c.Locked:
		return nil, archived()
	case m.Author != BotUser && !p.has(ManageMessages):
		return nil, missingRights()
	}
	s.remove(m)
	return nil, nil
}

// remove takes a message out of its channel and tells of it. A thread that was
// started from it stays.
func (s *Server) remove(m *Message) {
	s.messages[m.Channel] = slices.DeleteFunc(s.messages[m.Channel], func(o *Message) bool { return o == m })
	e := object{"id": m.ID, "channel_id": m.Channel}
	if m.Guild != "" {
		e["guild_id"] = m.Guild
	}
	s.dispatch(dispatch{name: "MESSAGE_DELETE", intent: messageIntent(m), channel: m.Channel, data: e})
}

func (s *Server) bulkDelete(q *request) (any, *refusal) {
	c, no := s.reach(q.path("channel"), ManageMessages)
	if no != nil {
		return nil, no
	}
	ids, _ := q.fields()["messages"].([]any)
	var names []string
	for _, id := range ids {
		names = append(names, fmt.Sprint(id))
	}
	s.purge(c, names)
	return nil, nil
}

// purge deletes messages at once.
func (s *Server) purge(c *Channel, ids []string) {
	s.messages[c.ID] = slices.DeleteFunc(s.messages[c.ID], func(m *Message) bool { return slices.Contains(ids, m.ID) })
	s.dispatch(dispatch{name: "MESSAGE_DELETE_BULK", intent: intentGuildMessages, channel: c.ID, data: object{
		"ids": ids, "channel_id": c.ID, "guild_id": c.Guild,
	}})
}
