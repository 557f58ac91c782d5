package discordfake

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// fill sets what a message shows, or says why it may not. An edit leaves what is
// not named.
func (s *Server) fill(m *Message, body object, files map[string]upload, settable int, interaction bool) *refusal {
	editing := m.ID != ""
	next := *m
	var p problems
	checkEmbeds(body["embeds"], &p)
	checkAllowed(body, &p)
	s.setFlags(&next, body, settable)
	v2 := next.Flags&FlagComponentsV2 != 0
	checkComponents(body["components"], v2, &p)
	if text, ok := body["content"].(string); ok || named(body, "content") {
		next.Content = s.clean(text)
	}
	if named(body, "embeds") {
		rich(body["embeds"])
		next.Embeds = encode(body["embeds"])
	}
	if named(body, "components") {
		number(body["components"])
		next.Components = encode(body["components"])
	}
	next.Files = s.attach(m.Files, body, files, &p)
	checkMedia(body["components"], next.Files, &p)
	if v2 {
		checkV2(&next, body, &p)
	}
	if no := s.verdict(&p); no != nil {
		return no
	}
	if next.empty(body) {
		return refuse(400, 50006, "Cannot send an empty message")
	}
	if !editing || named(body, "content") || v2 && named(body, "components") {
		var items any
		_ = json.Unmarshal(next.Components, &items) // encoded above
		next.mentions = s.parse(&next, pingable(next.Content, texts(items)), body, interaction)
		for _, id := range next.mentions.all() {
			if !slices.Contains(next.Pings, id) {
				next.Pings = append(slices.Clone(next.Pings), id)
			}
		}
	}
	*m = next
	return nil
}

func named(body object, field string) bool {
	_, ok := body[field]
	return ok
}

func encode(v any) json.RawMessage {
	list, _ := v.([]any)
	if len(list) == 0 {
		return nil
	}
	data, err := json.Marshal(list)
	if err != nil {
		panic(fmt.Sprintf("discordfake: what was decoded does not encode: %v", err))
	}
	return data
}

func (s *Server) setFlags(m *Message, body object, settable int) {
	number, ok := body["flags"].(json.Number)
	if !ok {
		return
	}
	want, _ := strconv.Atoi(string(number)) // the shape checked it
	kept := m.Flags &^ settable
	if m.Flags&FlagComponentsV2 != 0 {
		kept |= FlagComponentsV2 // it cannot be removed
	}
	if extra := want &^ settable &^ m.Flags; extra != 0 {
		s.complain("flags %d cannot be set here and are ignored", extra)
	}
	m.Flags = kept | want&settable
}

// checkV2 wants nothing but components (Message, Create Message).
func checkV2(m *Message, body object, p *problems) {
	for _, field := range []string{"content", "embeds", "sticker_ids", "poll"} {
		switch v := body[field].(type) {
		case nil:
			if field == "content" && m.Content == "" || field == "embeds" && m.Embeds == nil || field == "sticker_ids" || field == "poll" {
				continue
			}
		case []any:
			if len(v) == 0 {
				continue
			}
		case string:
			if v == "" {
				continue
			}
		}
		p.add([]string{field}, "MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2", "The 'content', 'embeds', 'stickers', and 'poll' fields cannot be used when using MessageFlags.IS_COMPONENTS_V2.")
	}
}

func (m *Message) empty(body object) bool {
	return m.Content == "" && len(m.Embeds) == 0 && len(m.Components) == 0 && len(m.Files) == 0 && body["poll"] == nil
}

// clean is a text as Discord keeps it: without blanks around it, control
// characters, and characters that turn the direction of writing. Discord says that
// it drops some, and does not publish which ([Options.Drops] adds others).
func (s *Server) clean(text string) string {
	text = strings.Map(func(r rune) rune {
		turns := r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
		if unicode.IsControl(r) && r != '\n' && r != '\t' || turns || s.opt.Drops != nil && s.opt.Drops(r) {
			return -1
		}
		return r
	}, text)
	return strings.TrimSpace(text)
}

// rich makes embeds of the only type that a bot's have (Message, Create Message).
func rich(items any) {
	list, _ := items.([]any)
	for _, item := range list {
		if e, ok := item.(map[string]any); ok {
			e["type"] = "rich"
		}
	}
}
