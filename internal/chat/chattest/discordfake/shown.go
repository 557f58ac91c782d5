package discordfake

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Button is a button as people see it.
type Button struct {
	CustomID, Label, URL string
	Style                int
	Disabled             bool
}

// Menu is a select menu as people see it.
type Menu struct {
	CustomID, Placeholder string
	Type, Least, Most     int
	Disabled              bool
	Options               []Choice
}

func (m Message) components() any {
	var items any
	d := json.NewDecoder(strings.NewReader(string(m.Components)))
	d.UseNumber()
	_ = d.Decode(&items) // none, or what the fake encoded
	return items
}

// Buttons are the message's buttons in order.
func (m Message) Buttons() []Button {
	var out []Button
	walk(m.components(), nil, func(c map[string]any, _ []string) {
		if kindOf(c) == "2" {
			var b struct {
				CustomID string `json:"custom_id"`
				Label    string `json:"label"`
				URL      string `json:"url"`
				Style    int    `json:"style"`
				Disabled bool   `json:"disabled"`
			}
			again(c, &b)
			out = append(out, Button(b))
		}
	})
	return out
}

// Menus are the message's select menus in order.
func (m Message) Menus() []Menu {
	var out []Menu
	walk(m.components(), nil, func(c map[string]any, _ []string) {
		var s struct {
			Type     int    `json:"type"`
			CustomID string `json:"custom_id"`
			Holder   string `json:"placeholder"`
			Least    *int   `json:"min_values"`
			Most     *int   `json:"max_values"`
			Disabled bool   `json:"disabled"`
			Options  []struct {
				Label string `json:"label"`
				Value string `json:"value"`
			} `json:"options"`
		}
		again(c, &s)
		if s.Type != 3 && (s.Type < 5 || s.Type > 8) {
			return
		}
		menu := Menu{CustomID: s.CustomID, Placeholder: s.Holder, Type: s.Type, Least: 1, Most: 1, Disabled: s.Disabled}
		if s.Least != nil {
			menu.Least = *s.Least
		}
		if s.Most != nil {
			menu.Most = *s.Most
		}
		for _, o := range s.Options {
			menu.Options = append(menu.Options, Choice{Name: o.Label, Value: o.Value})
		}
		out = append(out, menu)
	})
	return out
}

// again decodes what was decoded into something typed; what does not fit stays
// empty.
func again(from, to any) {
	raw, err := json.Marshal(from)
	if err == nil {
		_ = json.Unmarshal(raw, to) // see above
	}
}

// Text is all text that the message shows: its content, its embeds' and its text
// components', a line each. Files are left out.
func (m Message) Text() string {
	var lines []string
	add := func(parts ...string) {
		for _, p := range parts {
			if p != "" {
				lines = append(lines, p)
			}
		}
	}
	add(m.Content)
	var embeds []struct {
		Title, Description string
		Author, Footer     struct{ Name, Text string }
		Fields             []struct{ Name, Value string }
	}
	_ = json.Unmarshal(m.Embeds, &embeds) // none, or what the fake encoded
	for _, e := range embeds {
		add(e.Author.Name, e.Title, e.Description)
		for _, f := range e.Fields {
			add(f.Name, f.Value)
		}
		add(e.Footer.Text)
	}
	add(texts(m.components())...)
	return strings.Join(lines, "\n")
}

// Button is a button by its custom ID or its label.
func (m Message) Button(name string) (Button, bool) {
	for _, b := range m.Buttons() {
		if b.CustomID == name || b.Label == name {
			return b, true
		}
	}
	return Button{}, false
}

// Input is an input by its custom ID or its label.
func (m *Modal) Input(name string) (Input, error) {
	for _, in := range m.Inputs {
		if in.CustomID == name || in.Label == name {
			return in, nil
		}
	}
	return Input{}, fmt.Errorf("modal %q has no input %q", m.Title, name)
}
