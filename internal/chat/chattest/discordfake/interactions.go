package discordfake

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Interaction types (Receiving and Responding, Interaction Type).
const (
	kindCommand      = 2
	kindComponent    = 3
	kindAutocomplete = 4
	kindModal        = 5
)

// Types of first answers (Receiving and Responding, Interaction Callback Type).
const (
	AnswerMessage         = 4
	AnswerDeferred        = 5
	AnswerDeferredUpdate  = 6
	AnswerUpdate          = 7
	AnswerChoices         = 8
	AnswerModal           = 9
	unanswered            = 0
	ephemeralAndTheOthers = FlagSuppressEmbeds | FlagEphemeral | FlagSuppressNotifications | FlagComponentsV2
)

// Interaction is something that a person did with the application.
type Interaction struct {
	// ID and Token are what the application got.
	ID, Token     string
	User, Channel string
	s             *Server
	kind          int
	at            time.Time
	source        *Message
	payload       object
	answer        int
	answeredAt    time.Time
	original      *Message
	followups     []*Message
	modal         *Modal
	choices       []Choice
	answered      chan struct{}
}

// Modal is a form as a person sees it.
type Modal struct {
	CustomID, Title string
	Inputs          []Input
	// Texts are its text components'.
	Texts []string
	by    *Interaction
}

// Input is a modal's input.
type Input struct {
	CustomID, Label, Value, Placeholder string
	// Type is the component's: 4 a text input, 3 a menu, and so on.
	Type     int
	Long     bool
	Required bool
	Least    int
	Most     int
	Options  []Choice
	row      string
}

// Choice is an autocompletion's or a menu's.
type Choice struct {
	Name  string
	Value any
}

// Answer is how the application answered first.
type Answer struct {
	// Kind is one of AnswerMessage and so on; 0 is none in time: the person saw
	// that the application did not respond.
	Kind    int
	Took    time.Duration
	Modal   *Modal
	Choices []Choice
}

// Answer waits for the first answer, or until there can be none.
func (i *Interaction) Answer() Answer {
	for {
		i.s.mu.Lock()
		moved := i.s.moved
		left := i.s.opt.AnswerWithin - i.s.now().Sub(i.at)
		if i.answer != unanswered || left <= 0 {
			a := Answer{Kind: i.answer, Took: i.answeredAt.Sub(i.at), Modal: i.modal, Choices: slices.Clone(i.choices)}
			i.s.mu.Unlock()
			return a
		}
		i.s.mu.Unlock()
		timer := time.NewTimer(left)
		select {
		case <-i.answered:
		case <-moved:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Message is the answer as it stands: a message of its own, or, where the answer
// updates it, the message that was clicked on.
func (i *Interaction) Message() (Message, bool) {
	i.s.mu.Lock()
	defer i.s.mu.Unlock()
	if i.original == nil {
		return Message{}, false
	}
	return *i.original, true
}

// Followups are the further messages as they stand.
func (i *Interaction) Followups() []Message {
	i.s.mu.Lock()
	defer i.s.mu.Unlock()
	return values(i.followups)
}

func values(list []*Message) []Message {
	var out []Message
	for _, m := range list {
		out = append(out, *m)
	}
	return out
}

// interact makes an interaction and sends it.
func (s *Server) interact(kind int, user string, c *Channel, source *Message, data object) *Interaction {
	i := &Interaction{
		ID: s.snowflake(), User: user, Channel: c.ID, s: s, kind: kind, at: s.now(), source: source, answered: make(chan struct{}),
	}
	i.Token = fmt.Sprintf("aW50ZXJhY3Rpb24%sABCDEFGHIJKLMNOPQRSTUVWXYZ", i.ID)
	channel := s.channelObject(c)
	channel["permissions"] = s.can(user, c).String()
	i.payload = object{
		"id": i.ID, "application_id": AppID, "type": kind, "token": i.Token, "version": 1, "data": data, "channel_id": c.ID, "channel": channel,
		"app_permissions": s.can(BotUser, c).String(), "locale": "en-US", "entitlements": []any{}, "context": 1,
		"authorizing_integration_owners": object{"0": "0"}, "attachment_size_limit": maxFile,
	}
	if g := s.guilds[c.Guild]; g != nil {
		member := s.memberObject(g, g.members[user])
		member["permissions"] = s.can(user, c).String()
		i.payload["guild_id"], i.payload["member"], i.payload["context"], i.payload["guild_locale"] = g.id, member, 0, "en-US"
		i.payload["guild"] = object{"id": g.id, "features": []string{}, "locale": "en-US"}
		i.payload["authorizing_integration_owners"] = object{"0": g.id}
	} else {
		i.payload["user"] = s.userObject(user)
	}
	if source != nil {
		i.payload["message"] = s.messageObject(source, true)
	}
	s.interactions[i.ID] = i
	s.order = append(s.order, i)
	s.deliver(i)
	return i
}

// Redeliver sends an interaction's event again, as a fault would.
func (s *Server) Redeliver(i *Interaction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliver(i)
}

// Interactions are all so far.
func (s *Server) Interactions() []*Interaction {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.order)
}

// callback is the first answer to an interaction.
func (s *Server) callback(q *request) (any, *refusal) {
	i := s.interactions[q.path("interaction")]
	if i == nil || i.Token != q.path("token") {
		return nil, refuse(404, 10062, "Unknown interaction")
	}
	if no := s.respond(i, q); no != nil {
		return nil, no
	}
	if q.query.Get("with_response") != "true" {
		return nil, nil
	}
	return s.callbackResult(i, i.answer), nil
}

// respond takes a first answer.
func (s *Server) respond(i *Interaction, q *request) *refusal {
	switch {
	case i.answer != unanswered:
		return refuse(400, 40060, "Interaction has already been acknowledged.")
	case s.now().Sub(i.at) > s.opt.AnswerWithin:
		return refuse(404, 10062, "Unknown interaction")
	}
	number, _ := q.fields()["type"].(json.Number)
	kind, _ := strconv.Atoi(string(number)) // the shape checked it
	if !suits(kind, i) {
		return &refusal{Status: 400, Code: 50035, Message: "Invalid Form Body", Errors: tree(problem{
			[]string{"type"}, "INTERACTION_RESPONSE_TYPE_INVALID", fmt.Sprintf("An interaction of type %d cannot be answered with type %d", i.kind, kind)})}
	}
	data, _ := q.fields()["data"].(map[string]any)
	if no := s.firstAnswer(i, kind, data, q.files); no != nil {
		return no
	}
	i.answer, i.answeredAt = kind, s.now()
	close(i.answered)
	return nil
}

// suits reports whether an interaction may be answered in that way.
func suits(kind int, i *Interaction) bool {
	switch kind {
	case AnswerDeferredUpdate, AnswerUpdate:
		return i.kind == kindComponent || i.kind == kindModal && i.source != nil
	case AnswerChoices:
		return i.kind == kindAutocomplete
	case AnswerModal:
		return i.kind == kindCommand || i.kind == kindComponent
	}
	return i.kind != kindAutocomplete
}

func (s *Server) firstAnswer(i *Interaction, kind int, data object, files map[string]upload) *refusal {
	c := s.channels[i.Channel]
	if c == nil {
		return unknownChannel()
	}
	switch kind {
	case AnswerChoices:
		items, _ := data["choices"].([]any)
		for _, item := range items {
			o, _ := item.(map[string]any)
			i.choices = append(i.choices, Choice{Name: fmt.Sprint(o["name"]), Value: o["value"]})
		}
		return nil
	case AnswerModal:
		return s.showModal(i, data)
	}
	if c.Archived {
		return &refusal{Status: 403, Code: 50083, Message: "Thread is archived"}
	}
	switch kind {
	case AnswerDeferredUpdate:
		i.original = i.source
		return nil
	case AnswerUpdate:
		i.original = i.source
		return s.revise(i.source, data, files, true)
	}
	m := s.answerMessage(i, data)
	m.Reference, m.Type = "", commandType
	if i.source != nil {
		m.Reference, m.Type = i.source.ID, replyType
	}
	if kind == AnswerDeferred {
		if extra := m.Flags &^ FlagEphemeral; extra != 0 {
			s.complain("deferring takes only the flag EPHEMERAL")
		}
		if len(data) > 1 || len(data) == 1 && data["flags"] == nil {
			s.complain("deferring shows nothing of what it was given")
		}
		m.Flags = m.Flags&FlagEphemeral | FlagLoading
	} else if no := s.fill(m, data, files, ephemeralAndTheOthers, true); no != nil {
		return no
	}
	i.original = m
	s.publish(m)
	return nil
}

// answerMessage is a new message by an interaction, ephemeral if its flags say so.
func (s *Server) answerMessage(i *Interaction, data object) *Message {
	m := &Message{Channel: i.Channel, Guild: s.channels[i.Channel].Guild, Author: BotUser, Webhook: AppID, interaction: i}
	if n, ok := data["flags"].(json.Number); ok {
		flags, _ := strconv.Atoi(string(n)) // the shape checked it
		m.Flags = flags & ephemeralAndTheOthers
	}
	if m.Flags&FlagEphemeral != 0 {
		m.Ephemeral, m.For = true, i.User
	}
	return m
}

// publish puts an answer into its channel, or before its person.
func (s *Server) publish(m *Message) {
	if m.Ephemeral {
		m.ID, m.At = s.snowflake(), s.now()
		return
	}
	s.append(m)
}

func (s *Server) callbackResult(i *Interaction, kind int) object {
	about := object{"id": i.ID, "type": i.kind}
	out := object{"interaction": about}
	if i.original != nil {
		about["response_message_id"], about["response_message_loading"] = i.original.ID, i.original.Loading()
		about["response_message_ephemeral"] = i.original.Ephemeral
	}
	resource := object{"type": kind}
	if kind == AnswerMessage || kind == AnswerUpdate {
		resource["message"] = s.messageObject(i.original, true)
	}
	out["resource"] = resource
	return out
}

// showModal opens a form before the person.
func (s *Server) showModal(i *Interaction, data object) *refusal {
	m := &Modal{CustomID: fmt.Sprint(data["custom_id"]), Title: fmt.Sprint(data["title"]), by: i}
	var p problems
	seen := map[string]bool{}
	label := map[string]any{}
	walk(data["components"], []string{"data", "components"}, func(c map[string]any, path []string) {
		switch kindOf(c) {
		case "1":
			label = map[string]any{}
			return
		case "18":
			label = c
			return
		case "10":
			m.Texts = append(m.Texts, fmt.Sprint(c["content"]))
			return
		}
		in := input(c, label)
		if seen[in.CustomID] {
			p.add(append(slices.Clone(path), "custom_id"), "COMPONENT_CUSTOM_ID_DUPLICATED", "Component custom id cannot be duplicated")
		}
		if n := len([]rune(in.Value)); in.Type == 4 && in.Value != "" && (n < in.Least || n > in.Most) {
			p.add(append(slices.Clone(path), "value"), "BASE_TYPE_BAD_LENGTH", "Must be between %d and %d in length.", in.Least, in.Most)
		}
		seen[in.CustomID] = true
		m.Inputs = append(m.Inputs, in)
	})
	if no := s.verdict(&p); no != nil {
		return no
	}
	i.modal = m
	return nil
}

func input(c, label map[string]any) Input {
	text := func(v any) string {
		s, _ := v.(string)
		return s
	}
	count := func(v any, otherwise int) int {
		n, ok := v.(json.Number)
		if !ok {
			return otherwise
		}
		i, _ := strconv.Atoi(string(n)) // the shape checked it
		return i
	}
	in := Input{
		CustomID: text(c["custom_id"]), Label: text(c["label"]), Value: text(c["value"]), Placeholder: text(c["placeholder"]), Type: count(c["type"], 0),
		Long: count(c["style"], 1) == 2, Required: c["required"] != false, Least: count(c["min_length"], 0), Most: count(c["max_length"], 4000),
		row: kindOf(label),
	}
	if in.Label == "" {
		in.Label = text(label["label"])
	}
	options, _ := c["options"].([]any)
	for _, item := range options {
		o, _ := item.(map[string]any)
		in.Options = append(in.Options, Choice{Name: text(o["label"]), Value: o["value"]})
		if o["default"] == true {
			in.Value = text(o["value"])
		}
	}
	return in
}
