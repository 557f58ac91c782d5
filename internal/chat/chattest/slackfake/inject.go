package slackfake

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Say writes a person's message, as Slack encodes it ("<@U…>", "&amp;"), in a
// channel, or in the thread of threadTS. Each event that it makes is delivered:
// message, and app_mention where the bot is mentioned.
func (s *Server) Say(user, channel, threadTS, text string) (ts string, deliveries []*Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.channels[channel]
	m := &Message{Channel: channel, TS: s.nextTS(), User: user, Text: text}
	if threadTS != "" {
		if root := s.find(channel, threadTS); root != nil {
			root.ThreadTS = root.TS
		}
		m.ThreadTS = threadTS
	}
	s.messages[channel] = append(s.messages[channel], m)
	return m.TS, s.emitMessage(c, m)
}

// Attach writes a person's message with files.
func (s *Server) Attach(user, channel, threadTS, text string, files ...File) (ts string, deliveries []*Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &Message{Channel: channel, TS: s.nextTS(), User: user, Text: text, ThreadTS: threadTS}
	for _, f := range files {
		f.ID = s.nextID("F")
		s.files[f.ID] = &f
		m.Files = append(m.Files, f)
	}
	if root := s.find(channel, threadTS); root != nil {
		root.ThreadTS = root.TS
	}
	s.messages[channel] = append(s.messages[channel], m)
	return m.TS, s.emitMessage(s.channels[channel], m)
}

// DeleteFile deletes a file by its name, as its owner would.
func (s *Server) DeleteFile(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, f := range s.files {
		if f.Name == name {
			delete(s.files, id)
		}
	}
}

// Quiet writes a person's message of which no event tells: one that was missed.
func (s *Server) Quiet(user, channel, threadTS, text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &Message{Channel: channel, TS: s.nextTS(), User: user, Text: text, ThreadTS: threadTS}
	if root := s.find(channel, threadTS); root != nil {
		root.ThreadTS = root.TS
	}
	s.messages[channel] = append(s.messages[channel], m)
	return m.TS
}

// SayAs writes a message of another bot.
func (s *Server) SayAs(botUser, botID, channel, threadTS, text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &Message{Channel: channel, TS: s.nextTS(), User: botUser, BotID: botID, Text: text, ThreadTS: threadTS}
	s.messages[channel] = append(s.messages[channel], m)
	s.emitMessage(s.channels[channel], m)
	return m.TS
}

// emitMessage delivers what a new message makes: to a bot that is a member.
func (s *Server) emitMessage(c *Channel, m *Message) []*Delivery {
	if c == nil || !c.has(BotUser) {
		return nil
	}
	e := s.messageEvent(c, m)
	out := []*Delivery{s.event(e)}
	if s.mentions(m.Text) && !c.IM && m.BotID == "" {
		out = append(out, s.event(s.mentionEvent(c, m)))
	}
	return out
}

func (s *Server) mentions(text string) bool { return strings.Contains(text, "<@"+BotUser+">") }

func channelType(c *Channel) string {
	switch c.kind() {
	case "im":
		return "im"
	case "mpim":
		return "mpim"
	case "groups":
		return "group"
	}
	return "channel"
}

func (s *Server) messageEvent(c *Channel, m *Message) object {
	e := m.object(false)
	e["channel"], e["channel_type"], e["event_ts"] = c.ID, channelType(c), m.TS
	if u := s.users[m.User]; u != nil && u.Team != Team {
		e["user_team"], e["source_team"] = u.Team, u.Team
	}
	if root := s.find(c.ID, m.ThreadTS); root != nil && root != m {
		e["parent_user_id"] = root.User
	}
	return e
}

func (s *Server) mentionEvent(c *Channel, m *Message) object {
	e := s.messageEvent(c, m)
	e["type"] = "app_mention"
	delete(e, "channel_type")
	delete(e, "subtype")
	return e
}

// Edit changes a person's message. An edit that mentions the bot anew makes an
// app_mention too.
func (s *Server) Edit(channel, ts, text string) []*Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.find(channel, ts)
	before := m.object(false)
	had := s.mentions(m.Text)
	m.Text, m.EditedTS = text, s.nextTS()
	c := s.channels[channel]
	out := []*Delivery{s.event(changedEvent(c, m, before, m.EditedTS))}
	if s.mentions(text) && !had && !c.IM {
		out = append(out, s.event(s.mentionEvent(c, m)))
	}
	return out
}

func changedEvent(c *Channel, m *Message, before object, at string) object {
	return object{
		"type": "message", "subtype": "message_changed", "hidden": true, "channel": c.ID, "channel_type": channelType(c),
		"ts": at, "event_ts": at, "message": m.object(false), "previous_message": before,
	}
}

// Unfurl adds a preview to a message: a message_changed that nobody edited.
func (s *Server) Unfurl(channel, ts string) *Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.find(channel, ts)
	before := m.object(false)
	m.Attachments = json.RawMessage(`[{"title":"Example","from_url":"https://example.com/"}]`)
	return s.event(changedEvent(s.channels[channel], m, before, s.nextTS()))
}

// Remove deletes a message, as its author or an admin would. The event is nil where
// the bot hears of none.
func (s *Server) Remove(channel, ts string) *Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.find(channel, ts); m != nil {
		return s.remove(m)
	}
	return nil
}

// remove takes a message away and tells of it: of one with replies as a change, because
// a tombstone stands in its place.
func (s *Server) remove(m *Message) *Delivery {
	replied := m.ThreadTS == m.TS && s.replies(m) > 0
	m.Deleted = true
	c := s.channels[m.Channel]
	if c == nil || !c.has(BotUser) {
		return nil
	}
	at := s.nextTS()
	if replied {
		e := changedEvent(c, m, m.object(false), at)
		e["message"] = object{
			"type": "message", "subtype": "tombstone", "user": "USLACKBOT", "hidden": true, "text": "This message was deleted.",
			"ts": m.TS, "thread_ts": m.TS,
		}
		return s.event(e)
	}
	return s.event(object{
		"type": "message", "subtype": "message_deleted", "hidden": true, "channel": c.ID, "channel_type": channelType(c),
		"ts": at, "event_ts": at, "deleted_ts": m.TS, "previous_message": m.object(false),
	})
}

// replies counts the replies to a message that are there.
func (s *Server) replies(root *Message) int {
	n := 0
	for _, m := range s.messages[root.Channel] {
		if m != root && !m.Deleted && m.ThreadTS == root.TS {
			n++
		}
	}
	return n
}

// Raw delivers an event as it is.
func (s *Server) Raw(inner map[string]any) *Delivery { return s.event(object(inner)) }

// Answer is how the app answered a command or an interaction.
type Answer struct {
	// Acked within the time that Slack gives; else people see that the app did not
	// respond.
	Acked   bool
	Payload json.RawMessage
	// Took is how long the acknowledgement took.
	Took time.Duration
}

func (s *Server) ask(kind string, payload object) Answer {
	began := time.Now()
	p, ok := s.envelope(kind, payload, s.envelopeID(), 0)
	return Answer{Acked: ok, Payload: p, Took: time.Since(began)}
}

func (s *Server) newResponseURL(user, channel, ts, threadTS string) string {
	id := s.nextID("R")
	s.responses[id] = &responseURL{user: user, channel: channel, ts: ts, threadTS: threadTS, at: time.Now()}
	return s.srv.URL + "/respond/" + id
}

// Command gives a slash command. It cannot be given in a thread.
func (s *Server) Command(user, channel, text string) Answer {
	s.mu.Lock()
	payload := object{
		"token": "legacy", "team_id": Team, "team_domain": "fake", "channel_id": channel, "channel_name": "x", "user_id": user, "user_name": "x",
		"command": "/agent", "text": text, "api_app_id": AppID, "is_enterprise_install": fmt.Sprint(s.opt.OrgWide),
		"response_url": s.newResponseURL(user, channel, "", ""), "trigger_id": s.newTrigger(user),
	}
	s.mu.Unlock()
	return s.ask("slash_commands", payload)
}

// element finds a button or menu of a message by its action ID.
func element(blocks json.RawMessage, action string) (node, string, bool) {
	return elementWith(blocks, action, "")
}

// elementWith finds the first of that action ID whose value contains part.
func elementWith(blocks json.RawMessage, action, part string) (node, string, bool) {
	var list []node
	if json.Unmarshal(blocks, &list) != nil {
		return nil, "", false
	}
	for _, b := range list {
		var elements []node
		_ = json.Unmarshal(b["elements"], &elements) // absent or of another form has none
		var accessory node
		if json.Unmarshal(b["accessory"], &accessory) == nil {
			elements = append(elements, accessory)
		}
		for _, e := range elements {
			if e.text("action_id") == action && strings.Contains(e.text("value"), part) {
				return e, b.text("block_id"), true
			}
		}
	}
	return nil, "", false
}

// HasAction reports whether a message has a button or menu of that action ID.
func (m Message) HasAction(action string) bool {
	_, _, ok := element(m.Blocks, action)
	return ok
}

// Press clicks a button of a message. A button that is not there cannot be
// clicked: that is an error.
func (s *Server) Press(user, channel, ts, action string) (Answer, error) {
	return s.act(user, channel, ts, action, func(e node, a object) { a["type"], a["value"] = "button", e.text("value") })
}

// Choose selects an option of a message's menu by its value.
func (s *Server) Choose(user, channel, ts, action, value string) (Answer, error) {
	return s.act(user, channel, ts, action, func(_ node, a object) {
		a["type"] = "static_select"
		a["selected_option"] = object{"value": value, "text": object{"type": "plain_text", "text": value}}
	})
}

func (s *Server) act(user, channel, ts, action string, fill func(node, object)) (Answer, error) {
	payload, err := s.Action(user, channel, ts, action)
	if err != nil {
		return Answer{}, err
	}
	s.mu.Lock()
	e, _, _ := element(s.find(channel, ts).Blocks, action)
	s.mu.Unlock()
	fill(e, payload["actions"].([]object)[0])
	return s.ask("interactive", payload), nil
}

// PressIn clicks a button of a modal. A button that is not there cannot be clicked:
// that is an error.
func (s *Server) PressIn(viewID, action string) (Answer, error) {
	s.mu.Lock()
	v := s.views[viewID]
	if v == nil || v.Closed {
		s.mu.Unlock()
		return Answer{}, fmt.Errorf("no modal %s", viewID)
	}
	e, block, ok := element(v.Blocks, action)
	if !ok {
		s.mu.Unlock()
		return Answer{}, fmt.Errorf("modal %s has no action %q: %s", viewID, action, v.Blocks)
	}
	id := s.newTrigger(v.User)
	s.triggers[id].view = viewID
	payload := object{
		"type": "block_actions", "user": s.person(v.User), "team": object{"id": Team}, "api_app_id": AppID,
		"container": object{"type": "view", "view_id": viewID}, "view": v.object(), "trigger_id": id, "is_enterprise_install": s.opt.OrgWide,
		"actions": []object{{"action_id": action, "block_id": block, "action_ts": s.nextTS(), "type": "button", "value": e.text("value")}},
	}
	s.mu.Unlock()
	return s.ask("interactive", payload), nil
}

// Action is the payload of a click, for tests that send it twice or late.
func (s *Server) Action(user, channel, ts, action string) (map[string]any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.find(channel, ts)
	if m == nil || m.Deleted {
		return nil, fmt.Errorf("no message %s", ts)
	}
	e, block, ok := element(m.Blocks, action)
	if !ok {
		return nil, fmt.Errorf("message %s has no action %q: %s", ts, action, m.Blocks)
	}
	container := object{"type": "message", "message_ts": ts, "channel_id": channel, "is_ephemeral": false}
	if m.ThreadTS != "" {
		container["thread_ts"] = m.ThreadTS
	}
	return object{
		"type": "block_actions", "user": s.person(user), "team": object{"id": Team}, "api_app_id": AppID, "container": container,
		"channel": object{"id": channel}, "message": m.object(true), "trigger_id": s.newTrigger(user),
		"response_url": s.newResponseURL(user, channel, ts, m.ThreadTS), "is_enterprise_install": s.opt.OrgWide,
		"actions": []object{{"action_id": action, "block_id": block, "action_ts": s.nextTS(), "type": "button", "value": e.text("value")}},
	}, nil
}

// Interact sends the payload of an interaction.
func (s *Server) Interact(payload map[string]any) Answer {
	return s.ask("interactive", object(payload))
}

func (s *Server) person(user string) object {
	u := s.users[user]
	if u == nil {
		return object{"id": user}
	}
	return object{"id": user, "username": u.Name, "name": u.Name, "team_id": u.Team}
}

// Shortcut uses a message shortcut.
func (s *Server) Shortcut(user, channel, ts, callbackID string) Answer {
	s.mu.Lock()
	m := s.find(channel, ts)
	payload := object{
		"type": "message_action", "callback_id": callbackID, "user": s.person(user), "team": object{"id": Team}, "channel": object{"id": channel},
		"message_ts": ts, "message": m.object(true), "trigger_id": s.newTrigger(user), "response_url": s.newResponseURL(user, channel, ts, m.ThreadTS),
		"is_enterprise_install": s.opt.OrgWide,
	}
	s.mu.Unlock()
	return s.ask("interactive", payload)
}

// Submit submits a modal with what was typed or chosen in its inputs, by block
// ID. Slack does to the modal what the answer says. It is an error to submit a
// modal without a button, or to leave out an input that is not optional.
func (s *Server) Submit(viewID string, values map[string]string) (Answer, error) {
	s.mu.Lock()
	v := s.views[viewID]
	if v == nil || v.Closed || v.Submit == "" {
		s.mu.Unlock()
		return Answer{}, fmt.Errorf("modal %s cannot be submitted", viewID)
	}
	state := object{}
	var list []node
	_ = json.Unmarshal(v.Blocks, &list) // the fake checked them
	for _, b := range list {
		if b.text("type") != "input" {
			continue
		}
		var e node
		_ = json.Unmarshal(b["element"], &e)
		in := object{"type": e.text("type")}
		typed, given := values[b.text("block_id")]
		if !given { // what stood there from the beginning
			var chosen node
			_ = json.Unmarshal(e["initial_option"], &chosen)
			typed = e.text("initial_value") + chosen.text("value")
		}
		switch {
		case typed == "" && string(b["optional"]) != "true":
			s.mu.Unlock()
			return Answer{}, fmt.Errorf("input %s is empty", b.text("block_id"))
		case e.text("type") == "plain_text_input":
			in["value"] = typed
		case typed != "":
			in["selected_option"] = object{"value": typed, "text": object{"type": "plain_text", "text": typed}}
		}
		state[b.text("block_id")] = object{e.text("action_id"): in}
	}
	view := v.object()
	view["state"] = object{"values": state}
	payload := object{
		"type": "view_submission", "user": s.person(v.User), "team": object{"id": Team}, "api_app_id": AppID, "view": view,
		"trigger_id": s.newTrigger(v.User), "is_enterprise_install": s.opt.OrgWide,
	}
	before := v.Updates
	s.mu.Unlock()
	a := s.ask("interactive", payload)
	s.apply(v, a, before)
	return a, nil
}

// apply does to a modal what the answer to its submission says. What has updated it
// since it was submitted came after the answer, however late we are.
func (s *Server) apply(v *View, a Answer, before int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var r struct {
		Action string          `json:"response_action"`
		View   json.RawMessage `json:"view"`
	}
	if !a.Acked {
		return
	}
	_ = json.Unmarshal(a.Payload, &r) // an empty payload closes the modal
	if r.Action == "update" {
		if v.Updates != before {
			return
		}
		if e := s.replace(v, r.View); e.Code != "" {
			s.complain("a response_action was refused: %s %v", e.Code, e.more)
		}
		return
	}
	v.Closed = true
}
