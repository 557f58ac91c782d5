package discordfake

import "slices"

// byToken is the interaction of a webhook's token. A token that is not answered
// yet is no webhook; one older than 15 minutes is invalid (Receiving and
// Responding, Followup Messages).
func (s *Server) byToken(q *request) (*Interaction, *refusal) {
	if q.path("app") != AppID {
		return nil, refuse(404, 10015, "Unknown Webhook")
	}
	for _, i := range s.order {
		if i.Token != q.path("token") {
			continue
		}
		if s.now().Sub(i.at) > tokenLives {
			return nil, refuse(401, 50027, "Invalid Webhook Token")
		}
		if i.answer == unanswered {
			break
		}
		return i, nil
	}
	return nil, refuse(404, 10015, "Unknown Webhook")
}

// answerOf is the message that a path names.
func (s *Server) answerOf(q *request) (*Interaction, *Message, *refusal) {
	i, no := s.byToken(q)
	if no != nil {
		return nil, nil, no
	}
	id := q.path("message")
	if i.original != nil && (id == "@original" || id == i.original.ID) && !s.gone(i.original) {
		return i, i.original, nil
	}
	for _, m := range i.followups {
		if m.ID == id {
			return i, m, nil
		}
	}
	return nil, nil, unknownMessage()
}

// gone reports whether a message was deleted.
func (s *Server) gone(m *Message) bool { return !m.Ephemeral && s.find(m.Channel, m.ID) == nil }

func (s *Server) followup(q *request) (any, *refusal) {
	i, no := s.byToken(q)
	if no != nil {
		return nil, no
	}
	c := s.channels[i.Channel]
	switch {
	case c == nil:
		return nil, unknownChannel()
	case c.Archived:
		return nil, &refusal{Status: 403, Code: 50083, Message: "Thread is archived"}
	}
	body := q.fields()
	for _, field := range []string{"username", "avatar_url", "thread_name", "applied_tags"} {
		if body[field] != nil {
			s.complain("a follow-up does not support %s", field)
		}
	}
	if i.answer == AnswerDeferred && i.original.Loading() {
		s.complain("a follow-up to a deferred answer edits that answer")
		return s.editWith(i, i.original, body, q.files)
	}
	m := s.answerMessage(i, body)
	if i.original != nil {
		m.Reference, m.Type = i.original.ID, replyType
	}
	if no := s.fill(m, body, q.files, ephemeralAndTheOthers, true); no != nil {
		return nil, no
	}
	i.followups = append(i.followups, m)
	s.publish(m)
	return s.messageObject(m, true), nil
}

func (s *Server) getAnswer(q *request) (any, *refusal) {
	_, m, no := s.answerOf(q)
	if no != nil {
		return nil, no
	}
	return s.messageObject(m, true), nil
}

func (s *Server) editAnswer(q *request) (any, *refusal) {
	i, m, no := s.answerOf(q)
	if no != nil {
		return nil, no
	}
	return s.editWith(i, m, q.fields(), q.files)
}

func (s *Server) editWith(i *Interaction, m *Message, body object, files map[string]upload) (any, *refusal) {
	c := s.channels[i.Channel]
	switch {
	case c == nil:
		return nil, unknownChannel()
	case c.Archived && !m.Ephemeral:
		return nil, archived()
	}
	if no := s.revise(m, body, files, true); no != nil {
		return nil, no
	}
	m.Flags &^= FlagLoading
	return s.messageObject(m, true), nil
}

func (s *Server) deleteAnswer(q *request) (any, *refusal) {
	i, m, no := s.answerOf(q)
	if no != nil {
		return nil, no
	}
	if m == i.original {
		i.original = nil
	}
	i.followups = slices.DeleteFunc(i.followups, func(o *Message) bool { return o == m })
	if !m.Ephemeral {
		s.remove(m)
	}
	return nil, nil
}
