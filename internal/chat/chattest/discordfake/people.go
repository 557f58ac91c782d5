package discordfake

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Say writes a person's message in a channel or thread, with mentions as Discord
// encodes them ("<@…>"), and tells of it. An archived thread becomes active. In a
// locked thread, where only moderators write, it panics.
func (s *Server) Say(user, channel, text string, files ...File) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.say(user, channel, text, "", files).ID
}

// Reply writes a person's reply to a message, which mentions its author.
func (s *Server) Reply(user, channel, to, text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.say(user, channel, text, to, nil).ID
}

// SayUnknown writes another application's message with a component of a type that
// nobody knows yet.
func (s *Server) SayUnknown(user, channel, text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.written(user, channel, text, nil)
	m.Components = json.RawMessage(`[{"type":99,"id":1,"custom_id":"new"}]`)
	s.append(m)
	return m.ID
}

// Quiet writes a person's message of which no event tells: one that was missed.
func (s *Server) Quiet(user, channel, text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.written(user, channel, text, nil)
	m.ID, m.At = s.snowflake(), s.now()
	s.messages[channel] = append(s.messages[channel], m)
	return m.ID
}

// SayHook writes a webhook's message.
func (s *Server) SayHook(hook, channel, text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.written(hook, channel, text, nil)
	m.Webhook = hook
	s.append(m)
	return m.ID
}

func (s *Server) say(user, channel, text, to string, files []File) *Message {
	c := s.channels[channel]
	if c == nil || c.Locked && !s.can(user, c).has(ManageThreads) {
		panic(fmt.Sprintf("discordfake: %s cannot write in %s", user, channel))
	}
	m := s.written(user, channel, text, files)
	if to != "" {
		m.Reference, m.Type = to, replyType
		if root := s.find(channel, to); root != nil && !slices.Contains(m.mentions.users, root.Author) {
			m.mentions.users = append(m.mentions.users, root.Author)
		}
	}
	s.unarchive(c)
	c.join(user)
	s.append(m)
	return m
}

func (s *Server) written(user, channel, text string, files []File) *Message {
	m := &Message{Channel: channel, Guild: s.channels[channel].Guild, Author: user, Content: text}
	for _, f := range files {
		f.ID, f.Name = s.snowflake(), fileName(f.Name)
		s.files[f.ID] = f
		m.Files = append(m.Files, f)
	}
	m.mentions = s.parse(m, text, object{}, false)
	m.Pings = m.mentions.all()
	return m
}

// Edit changes a person's message.
func (s *Server) Edit(channel, id, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.find(channel, id)
	m.Content, m.EditedAt = text, s.now()
	m.Edits++
	m.mentions = s.parse(m, text, object{}, false)
	s.told("MESSAGE_UPDATE", m)
}

// Unfurl adds a link's preview to a message: a MESSAGE_UPDATE of something that
// nobody edited, so without an edited_timestamp.
func (s *Server) Unfurl(channel, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.find(channel, id)
	m.Embeds = encode([]any{map[string]any{"type": "link", "url": "https://example.com/", "title": "Example"}})
	s.told("MESSAGE_UPDATE", m)
}

// Remove deletes a message, as its author or a moderator would.
func (s *Server) Remove(channel, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.find(channel, id); m != nil {
		s.remove(m)
	}
}

// RemoveQuietly deletes a message without an event: one that was missed.
func (s *Server) RemoveQuietly(channel, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages[channel] = slices.DeleteFunc(s.messages[channel], func(m *Message) bool { return m.ID == id })
}

// Purge deletes messages at once, as a moderator's tool does.
func (s *Server) Purge(channel string, ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.purge(s.channels[channel], ids)
}

// OpenThread opens a person's thread of a message.
func (s *Server) OpenThread(user, channel, message, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open(s.channels[channel], s.find(channel, message), user, object{"name": name}).ID
}

// Messages are a channel's or thread's messages in order, without those that
// Discord wrote.
func (s *Server) Messages(channel string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Message
	for _, m := range s.messages[channel] {
		if m.Type != starterType && m.Type != createdType {
			out = append(out, *m)
		}
	}
	return out
}

// Message is one message.
func (s *Server) Message(channel, id string) (Message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.find(channel, id); m != nil {
		return *m, true
	}
	return Message{}, false
}

// Ephemerals are what only this person was shown, in the order of the
// interactions, as it stands; dismissed ones are left out.
func (s *Server) Ephemerals(user string) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return values(s.privately(user))
}

func (s *Server) privately(user string) []*Message {
	var out []*Message
	for _, i := range s.order {
		for _, m := range append([]*Message{i.original}, i.followups...) {
			if m != nil && m.Ephemeral && m.For == user && !slices.Contains(out, m) {
				out = append(out, m)
			}
		}
	}
	return out
}

// seen is a message that a person sees in a channel.
func (s *Server) seen(user, channel, id string) *Message {
	if m := s.find(channel, id); m != nil {
		return m
	}
	for _, m := range s.privately(user) {
		if m.ID == id && m.Channel == channel {
			return m
		}
	}
	return nil
}
