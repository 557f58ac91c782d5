package discordfake

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Slash uses a slash command: its name with those of its subcommands, such as
// "agent run", and its options' values; that of an attachment option is a [File],
// which is uploaded. It is an error to use what is not
// registered, what an option does not take, or any command in an archived thread
// (Threads, Active & Archived Threads).
func (s *Server) Slash(user, channel, command string, options map[string]any) (*Interaction, error) {
	return s.slash(kindCommand, user, channel, command, options, "")
}

// Autocomplete types into an option of a slash command; the other options are as
// far as they are filled in.
func (s *Server) Autocomplete(user, channel, command, focused, typed string, others map[string]any) (*Interaction, error) {
	options := map[string]any{focused: typed}
	for k, v := range others {
		options[k] = v
	}
	return s.slash(kindAutocomplete, user, channel, command, options, focused)
}

func (s *Server) slash(kind int, user, channel, command string, options map[string]any, focused string) (*Interaction, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	words := strings.Fields(command)
	c, cmd, err := s.usable(user, channel, words[0], slashCommand)
	if err != nil {
		return nil, err
	}
	data := object{"id": cmd.ID, "name": cmd.Name, "type": cmd.Type}
	if cmd.Guild != "" {
		data["guild_id"] = cmd.Guild
	}
	at, declared := data, cmd.Body["options"]
	for _, word := range words[1:] {
		o := option(declared, word)
		if k := kindOf(o); k != "1" && k != "2" {
			return nil, fmt.Errorf("%q has no subcommand %q", command, word)
		}
		n, _ := strconv.Atoi(kindOf(o)) // "1" or "2"
		inner := object{"name": word, "type": n}
		at["options"] = []object{inner}
		at, declared = inner, o["options"]
	}
	list, err := s.values(c, declared, options, focused, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", command, err)
	}
	at["options"] = list
	return s.interact(kind, user, c, nil, data), nil
}

// usable is a command that a person may use in a channel.
func (s *Server) usable(user, channel, name string, kind int) (*Channel, *Command, error) {
	c := s.channels[channel]
	if c == nil || c.Guild != "" && s.guilds[c.Guild].member(user) == nil {
		return nil, nil, fmt.Errorf("%s is not in %s", user, channel)
	}
	if c.Archived {
		return nil, nil, fmt.Errorf("no commands can be used in an archived thread")
	}
	cmd := s.registered(c.Guild, name, kind)
	if cmd == nil {
		cmd = s.registered("", name, kind)
	}
	if cmd == nil || c.Type == Direct && !cmd.inDirect() {
		return nil, nil, fmt.Errorf("no command %q is registered", name)
	}
	can := s.can(user, c)
	if !can.has(ViewChannel | UseApplicationCommands) {
		return nil, nil, fmt.Errorf("%s may not use commands in %s", user, channel)
	}
	if need := cmd.Body["default_member_permissions"]; need != nil {
		n, err := strconv.ParseInt(fmt.Sprint(need), 10, 64)
		if err == nil && (n == 0 && !can.has(Administrator) || !can.has(Permissions(n))) {
			return nil, nil, fmt.Errorf("%s does not see %q", user, name)
		}
	}
	return c, cmd, nil
}

// inDirect reports whether a command can be used in direct channels (Application
// Commands, Interaction Contexts): by default, all can.
func (c *Command) inDirect() bool {
	contexts, listed := c.Body["contexts"].([]any)
	if !listed {
		return c.Body["dm_permission"] != false
	}
	return slices.ContainsFunc(contexts, func(v any) bool { return fmt.Sprint(v) == "1" })
}

func option(declared any, name string) map[string]any {
	list, _ := declared.([]any)
	for _, item := range list {
		if o, ok := item.(map[string]any); ok && o["name"] == name {
			return o
		}
	}
	return nil
}

// values are the options' values in the order of their declaration.
func (s *Server) values(c *Channel, declared any, given map[string]any, focused string, data object) ([]object, error) {
	out := []object{}
	left := len(given)
	list, _ := declared.([]any)
	for _, item := range list {
		o, _ := item.(map[string]any)
		name := fmt.Sprint(o["name"])
		v, ok := given[name]
		if !ok {
			if o["required"] == true && focused == "" {
				return nil, fmt.Errorf("option %q is required", name)
			}
			continue
		}
		left--
		kind, _ := strconv.Atoi(kindOf(o)) // registered
		if kind == 1 || kind == 2 {
			return nil, fmt.Errorf("%q is a subcommand", name)
		}
		if kind == 11 {
			id, err := s.uploaded(v, data)
			if err != nil {
				return nil, fmt.Errorf("option %q: %w", name, err)
			}
			v = id
		}
		value := object{"name": name, "type": kind, "value": v}
		if name == focused {
			if o["autocomplete"] != true {
				return nil, fmt.Errorf("option %q has no autocompletion", name)
			}
			value["focused"] = true
		} else if err := s.fits(c, o, kind, v, data); err != nil {
			return nil, fmt.Errorf("option %q: %w", name, err)
		}
		out = append(out, value)
	}
	if left > 0 {
		return nil, fmt.Errorf("of %v, %d are no options", given, left)
	}
	return out, nil
}

// fits checks a value as Discord's client does.
func (s *Server) fits(c *Channel, o map[string]any, kind int, v any, data object) error {
	text, isText := v.(string)
	switch kind {
	case 3:
		if !isText {
			return fmt.Errorf("%v is no string", v)
		}
		n := int64(utf8.RuneCountInString(text))
		if least, ok := o["min_length"].(json.Number); ok {
			if l, err := least.Int64(); err == nil && n < l {
				return fmt.Errorf("shorter than %d", l)
			}
		}
		if most, ok := o["max_length"].(json.Number); ok {
			if l, err := most.Int64(); err == nil && n > l {
				return fmt.Errorf("longer than %d", l)
			}
		}
	case 4:
		if _, ok := v.(int); !ok {
			return fmt.Errorf("%v is no integer", v)
		}
	case 5:
		if _, ok := v.(bool); !ok {
			return fmt.Errorf("%v is no boolean", v)
		}
	case 6, 7, 8:
		if err := s.resolve(c, kind, text, data); err != nil {
			return err
		}
	}
	choices, _ := o["choices"].([]any)
	if len(choices) == 0 {
		return nil
	}
	for _, item := range choices {
		choice, _ := item.(map[string]any)
		if fmt.Sprint(choice["value"]) == fmt.Sprint(v) {
			return nil
		}
	}
	return fmt.Errorf("%v is no choice", v)
}

// uploaded keeps the file of an attachment option as Discord does: of no message,
// below an address of its own, named by its ID in the option's value (Application
// Commands, Option Type; Message, Attachment).
func (s *Server) uploaded(v any, data object) (id string, err error) {
	f, ok := v.(File)
	switch {
	case !ok:
		return "", fmt.Errorf("%v is no file", v)
	case len(f.Content) > maxFile:
		return "", fmt.Errorf("the client uploads no file of %d bytes", len(f.Content))
	}
	f.ID, f.Name = s.snowflake(), fileName(f.Name)
	if f.Type == "" {
		f.Type = "application/octet-stream"
	}
	s.files[f.ID] = f
	url := s.srv.URL + "/ephemeral-attachments/" + AppID + "/" + f.ID + "/" + f.Name
	resolved(data, "attachments", f.ID, object{
		"id": f.ID, "filename": f.Name, "size": len(f.Content), "url": url, "proxy_url": url, "content_type": f.Type, "flags": 0, "ephemeral": true,
	})
	return f.ID, nil
}

// resolved adds what an ID stands for (Resolved Data Structure).
func resolved(data object, kind, id string, v any) {
	all, ok := data["resolved"].(object)
	if !ok {
		all = object{}
		data["resolved"] = all
	}
	m, ok := all[kind].(object)
	if !ok {
		m = object{}
		all[kind] = m
	}
	m[id] = v
}

// resolve looks up what an ID stands for.
func (s *Server) resolve(c *Channel, kind int, id string, data object) error {
	put := func(name string, v any) { resolved(data, name, id, v) }
	g := s.guilds[c.Guild]
	switch kind {
	case 6:
		if s.users[id] == nil {
			return fmt.Errorf("no user %q", id)
		}
		put("users", s.userObject(id))
		if m := g.member(id); m != nil {
			put("members", partialMember(m))
		}
	case 7:
		if s.channels[id] == nil {
			return fmt.Errorf("no channel %q", id)
		}
		put("channels", s.channelObject(s.channels[id]))
	case 8:
		if g.role(id) == nil {
			return fmt.Errorf("no role %q", id)
		}
		put("roles", roleObject(g.role(id)))
	}
	return nil
}

// OnMessage uses a message's context-menu command.
func (s *Server) OnMessage(user, channel, message, command string) (*Interaction, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, cmd, err := s.usable(user, channel, command, messageCommand)
	if err != nil {
		return nil, err
	}
	m := s.find(channel, message)
	if m == nil {
		return nil, fmt.Errorf("no message %s", message)
	}
	return s.interact(kindCommand, user, c, nil, object{
		"id": cmd.ID, "name": cmd.Name, "type": cmd.Type, "target_id": m.ID, "resolved": object{"messages": object{m.ID: s.messageObject(m, true)}},
	}), nil
}

// Click presses a button of a message, by its custom ID or label. A button that
// is not there, is disabled, or is shown to somebody else cannot be pressed: that
// is an error.
func (s *Server) Click(user, channel, message, name string) (*Interaction, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.seen(user, channel, message)
	if m == nil {
		return nil, fmt.Errorf("%s sees no message %s", user, message)
	}
	b, ok := m.Button(name)
	if !ok || b.Disabled || b.CustomID == "" {
		return nil, fmt.Errorf("message %s has no button %q to press: %+v", message, name, m.Buttons())
	}
	return s.clicked(user, m, object{"custom_id": b.CustomID, "component_type": 2})
}

// ClickStale sends the click on a button that a message had, whether or not it is
// still there: people may click while an edit is under way.
func (s *Server) ClickStale(user, channel, message, customID string) (*Interaction, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.seen(user, channel, message)
	if m == nil {
		return nil, fmt.Errorf("%s sees no message %s", user, message)
	}
	return s.clicked(user, m, object{"custom_id": customID, "component_type": 2})
}

// ChooseStale sends the choice of a value in a menu that a message need not have, as
// a client could.
func (s *Server) ChooseStale(user, channel, message, customID, value string) (*Interaction, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.seen(user, channel, message)
	if m == nil {
		return nil, fmt.Errorf("%s sees no message %s", user, message)
	}
	return s.clicked(user, m, object{"custom_id": customID, "component_type": 3, "values": []string{value}})
}

func (s *Server) clicked(user string, m *Message, data object) (*Interaction, error) {
	c := s.channels[m.Channel]
	if c.Guild != "" && s.guilds[c.Guild].member(user) == nil || !s.can(user, c).has(ViewChannel) {
		return nil, fmt.Errorf("%s is not in %s", user, m.Channel)
	}
	return s.interact(kindComponent, user, c, m, data), nil
}

// Choose selects values in a menu of a message, by the menu's custom ID.
func (s *Server) Choose(user, channel, message, customID string, chosen ...string) (*Interaction, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.seen(user, channel, message)
	if m == nil {
		return nil, fmt.Errorf("%s sees no message %s", user, message)
	}
	for _, menu := range m.Menus() {
		if menu.CustomID != customID || menu.Disabled {
			continue
		}
		data := object{"custom_id": customID, "component_type": menu.Type, "values": nonNil(chosen)}
		if err := s.choosable(s.channels[channel], menu, chosen, data); err != nil {
			return nil, err
		}
		return s.clicked(user, m, data)
	}
	return nil, fmt.Errorf("message %s has no menu %q", message, customID)
}

func (s *Server) choosable(c *Channel, menu Menu, chosen []string, data object) error {
	if len(chosen) < menu.Least || len(chosen) > menu.Most {
		return fmt.Errorf("menu %q takes %d to %d values", menu.CustomID, menu.Least, menu.Most)
	}
	for _, v := range chosen {
		if menu.Type != 3 {
			kind := map[int]int{5: 6, 6: 8, 8: 7}[menu.Type] // a menu's type to an option's
			if err := s.resolve(c, kind, v, data); err != nil {
				return err
			}
			continue
		}
		if !slices.ContainsFunc(menu.Options, func(o Choice) bool { return o.Value == v }) {
			return fmt.Errorf("menu %q has no option %q", menu.CustomID, v)
		}
	}
	return nil
}

// Submit submits a modal with what was typed or chosen in its inputs, by custom
// ID or label; other inputs keep what stood there. It is an error to submit what
// the input does not take.
func (s *Server) Submit(m *Modal, typed map[string]string) (*Interaction, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m == nil {
		return nil, fmt.Errorf("no modal is open")
	}
	components := []object{}
	left := len(typed)
	for n, in := range m.Inputs {
		v, ok := typed[in.CustomID]
		if !ok {
			if v, ok = typed[in.Label]; !ok {
				v = in.Value
			}
		}
		if ok {
			left--
		}
		part, err := submitted(in, v)
		if err != nil {
			return nil, err
		}
		part["id"] = 2*n + 2
		if in.row == "18" {
			components = append(components, object{"type": 18, "id": 2*n + 1, "component": part})
		} else {
			components = append(components, object{"type": 1, "id": 2*n + 1, "components": []object{part}})
		}
	}
	if left > 0 {
		return nil, fmt.Errorf("modal %q has inputs %+v, not all of %v", m.Title, m.Inputs, typed)
	}
	c := s.channels[m.by.Channel]
	if c == nil {
		return nil, fmt.Errorf("the channel is gone")
	}
	return s.interact(kindModal, m.by.User, c, m.by.source, object{"custom_id": m.CustomID, "components": components}), nil
}

func submitted(in Input, v string) (object, error) {
	part := object{"type": in.Type, "custom_id": in.CustomID}
	n := utf8.RuneCountInString(v)
	switch {
	case v == "" && in.Required:
		return nil, fmt.Errorf("input %q is required", in.Label)
	case in.Type != 4:
		part["values"] = []string{}
		if v != "" {
			part["values"] = strings.Split(v, ",")
		}
	case v != "" && (n < in.Least || n > in.Most):
		return nil, fmt.Errorf("input %q takes %d to %d characters, not %d", in.Label, in.Least, in.Most, n)
	default:
		part["value"] = v
	}
	return part, nil
}
