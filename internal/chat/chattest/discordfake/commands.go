package discordfake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of application commands (Application Commands, Registering a Command;
// change log of 2026-03-03 for context menus).
const (
	maxSlash      = 100
	maxMenu       = 15
	maxCommand    = 8000
	createsPerDay = 200
)

// Command types (Application Commands, Application Command Types).
const (
	slashCommand   = 1
	userCommand    = 2
	messageCommand = 3
)

// Command is a registered application command.
type Command struct {
	ID, Guild, Name string
	Type            int
	// Body is what it was registered with.
	Body map[string]any
}

// Commands are those registered in a guild, or globally when it is empty.
func (s *Server) Commands(guildID string) []Command {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Command
	for _, c := range s.commands[guildID] {
		out = append(out, *c)
	}
	return out
}

// CommandWrites is how often commands were registered, by bulk or one by one.
func (s *Server) CommandWrites() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.upserts
}

func localized(most int64) *schema { return mapping(str(1, most)).null() }

func optionShapes(nested bool) map[string]*schema {
	option := func(kind string, more map[string]*schema) *schema {
		return record(map[string]*schema{
			"type": numbers(kind).must(), "name": str(1, 32).must(), "name_localizations": localized(32), "description": str(1, 100).must(),
			"description_localizations": localized(100), "required": boolean().null(),
		}).with(more)
	}
	choices := func() *schema {
		return list(record(map[string]*schema{"name": str(1, 100).must(), "name_localizations": localized(100), "value": anything().must()}), 0, 25).null()
	}
	number := func() map[string]*schema {
		return map[string]*schema{"autocomplete": boolean().null(), "choices": choices(), "min_value": anything().null(), "max_value": anything().null()}
	}
	out := map[string]*schema{
		"3": option("3", map[string]*schema{
			"autocomplete": boolean().null(), "min_length": integer(0, 6000).null(), "max_length": integer(1, 6000).null(), "choices": choices(),
		}),
		"4": option("4", number()), "10": option("10", number()), "5": option("5", nil), "6": option("6", nil), "8": option("8", nil),
		"9": option("9", nil), "11": option("11", nil), "7": option("7", map[string]*schema{"channel_types": list(integer(0, 0), 0, 0).once().null()}),
	}
	if nested {
		sub := option("1", map[string]*schema{"options": list(byType(optionShapes(false)), 0, 25).null()})
		out["1"] = sub
		out["2"] = option("2", map[string]*schema{"options": list(byType(map[string]*schema{"1": sub}), 0, 25).null()})
	}
	return out
}

func commandShape() *schema {
	return record(map[string]*schema{
		"name": str(1, 32).must(), "name_localizations": localized(32), "description": str(0, 100).null(), "description_localizations": localized(100),
		"options": list(byType(optionShapes(true)), 0, 25).null(), "default_member_permissions": {kind: "permissions", nullable: true},
		"dm_permission": boolean().null(), "contexts": list(numbers("0", "1", "2"), 1, 0).once().null(),
		"integration_types": list(numbers("0", "1"), 1, 0).once().null(), "handler": numbers("1", "2").null(), "type": numbers("1", "2", "3", "4").null(),
		"id": snowflake().null(), "nsfw": boolean().null(),
	})
}

func commandsBody() *schema { return list(commandShape(), 0, 130) }

// owner checks the application, and the guild where there is one.
func (s *Server) owner(q *request) *refusal {
	if q.path("app") != AppID {
		return refuse(403, 20012, "You are not authorized to perform this action on this application")
	}
	if q.path("guild") == "" {
		return nil
	}
	_, no := s.inviteGuild(q)
	return no
}

func (s *Server) getCommands(q *request) (any, *refusal) {
	if no := s.owner(q); no != nil {
		return nil, no
	}
	out := []object{}
	for _, c := range s.commands[q.path("guild")] {
		out = append(out, c.object())
	}
	return out, nil
}

// putCommands replaces all commands; those of a known name and type keep their ID
// and do not count as created.
func (s *Server) putCommands(q *request) (any, *refusal) {
	if no := s.owner(q); no != nil {
		return nil, no
	}
	items, _ := q.body.([]any)
	s.upserts++
	var p problems
	var next []*Command
	for i, item := range items {
		next = append(next, s.command(q.path("guild"), item, []string{strconv.Itoa(i)}, next, &p))
	}
	return s.register(q.path("guild"), next, &p)
}

func (s *Server) postCommand(q *request) (any, *refusal) {
	if no := s.owner(q); no != nil {
		return nil, no
	}
	s.upserts++
	var p problems
	guildID := q.path("guild")
	c := s.command(guildID, q.body, nil, nil, &p)
	next := slices.DeleteFunc(slices.Clone(s.commands[guildID]), func(o *Command) bool { return o.Name == c.Name && o.Type == c.Type })
	if _, no := s.register(guildID, append(next, c), &p); no != nil {
		return nil, no
	}
	return c.object(), nil
}

func (s *Server) deleteCommand(q *request) (any, *refusal) {
	if no := s.owner(q); no != nil {
		return nil, no
	}
	guildID, before := q.path("guild"), len(s.commands[q.path("guild")])
	s.commands[guildID] = slices.DeleteFunc(s.commands[guildID], func(c *Command) bool { return c.ID == q.path("command") })
	if len(s.commands[guildID]) == before {
		return nil, refuse(404, 10063, "Unknown application command")
	}
	return nil, nil
}

// register takes the commands, within the limits.
func (s *Server) register(guildID string, next []*Command, p *problems) (any, *refusal) {
	if no := s.verdict(p); no != nil {
		return nil, no
	}
	now, counts := s.now(), map[int]int{}
	made := slices.DeleteFunc(s.created[guildID], func(t time.Time) bool { return now.Sub(t) >= 24*time.Hour })
	out := []object{}
	for _, c := range next {
		counts[c.Type]++
		if s.registered(guildID, c.Name, c.Type) == nil {
			made = append(made, now)
		}
		out = append(out, c.object())
	}
	switch {
	case counts[slashCommand] > maxSlash, counts[userCommand] > maxMenu, counts[messageCommand] > maxMenu:
		return nil, refuse(400, 30032, "Maximum number of application commands reached")
	case len(made) > createsPerDay:
		return nil, refuse(http.StatusBadRequest, 30034, "Maximum number of daily application command creates has been reached (200)")
	}
	s.created[guildID], s.commands[guildID] = made, next
	return out, nil
}

func (s *Server) registered(guildID, name string, kind int) *Command {
	for _, c := range s.commands[guildID] {
		if c.Name == name && c.Type == kind {
			return c
		}
	}
	return nil
}

var slashName = regexp.MustCompile(`^[-_'\p{L}\p{N}\p{Devanagari}\p{Thai}]{1,32}$`)

// command is a command as registered, with what is wrong with it.
func (s *Server) command(guildID string, item any, path []string, before []*Command, p *problems) *Command {
	body, _ := item.(map[string]any)
	c := &Command{Guild: guildID, Name: fmt.Sprint(body["name"]), Type: slashCommand, Body: body}
	if n, ok := body["type"].(json.Number); ok {
		c.Type, _ = strconv.Atoi(string(n)) // the shape checked it
	}
	at := func(name string) []string { return append(slices.Clone(path), name) }
	description, _ := body["description"].(string)
	switch {
	case c.Type == slashCommand && (!slashName.MatchString(c.Name) || strings.ToLower(c.Name) != c.Name):
		p.add(at("name"), "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
	case c.Type == slashCommand && description == "":
		p.add(at("description"), "BASE_TYPE_REQUIRED", "This field is required")
	case c.Type != slashCommand && description != "":
		p.add(at("description"), "APPLICATION_COMMAND_DESCRIPTION_INVALID", "Context menu commands cannot have description")
	case c.Type != slashCommand && body["options"] != nil:
		p.add(at("options"), "APPLICATION_COMMAND_OPTIONS_INVALID", "Context menu commands cannot have options")
	}
	for _, o := range before {
		if o.Name == c.Name && o.Type == c.Type {
			p.add(at("name"), "APPLICATION_COMMANDS_DUPLICATE_NAME", "Application command names must be unique")
		}
	}
	checkOptions(body["options"], at("options"), p)
	if size(body) > maxCommand {
		p.add(path, "APPLICATION_COMMAND_TOO_LARGE", "Command exceeds maximum size (%d)", maxCommand)
	}
	c.ID = s.snowflake()
	if known := s.registered(guildID, c.Name, c.Type); known != nil {
		c.ID = known.ID
	}
	return c
}

// checkOptions wants names that are valid and unique, required options first,
// subcommands alone, and not both choices and autocomplete.
func checkOptions(items any, path []string, p *problems) {
	options, _ := items.([]any)
	seen, optional, sub, plain := map[string]bool{}, false, false, false
	for i, item := range options {
		o, _ := item.(map[string]any)
		at := append(slices.Clone(path), strconv.Itoa(i))
		name := fmt.Sprint(o["name"])
		if !slashName.MatchString(name) || strings.ToLower(name) != name {
			p.add(append(slices.Clone(at), "name"), "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
		}
		if seen[name] {
			p.add(path, "APPLICATION_COMMAND_OPTIONS_NAME_ALREADY_EXISTS", "Option name already exists")
		}
		seen[name] = true
		kind := kindOf(o)
		nested := kind == "1" || kind == "2"
		sub, plain = sub || nested, plain || !nested
		choices, _ := o["choices"].([]any)
		switch {
		case nested:
			checkOptions(o["options"], append(slices.Clone(at), "options"), p)
		case o["required"] == true && optional:
			p.add(at, "APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID", "Required options must be placed before non-required options")
		case o["required"] != true:
			optional = true
		}
		if o["autocomplete"] == true && len(choices) > 0 {
			p.add(at, "APPLICATION_COMMAND_OPTIONS_AUTOCOMPLETE_INVALID", "Options cannot have both choices and autocomplete")
		}
	}
	if sub && plain {
		p.add(path, "APPLICATION_COMMAND_OPTIONS_TYPE_INVALID", "Sub-command and sub-command group option types are mutually exclusive to all other types")
	}
}

// size is a command's characters: names, descriptions and values (Application
// Commands, Slash Commands).
func size(v any) int {
	switch v := v.(type) {
	case map[string]any:
		n := 0
		for _, key := range []string{"name", "description", "value"} {
			if text, ok := v[key].(string); ok {
				n += utf8.RuneCountInString(text)
			}
		}
		return n + size(v["options"]) + size(v["choices"])
	case []any:
		n := 0
		for _, item := range v {
			n += size(item)
		}
		return n
	}
	return 0
}

func (c *Command) object() object {
	o := object{
		"id": c.ID, "application_id": AppID, "version": c.ID, "default_member_permissions": nil, "type": c.Type, "name": c.Name, "description": "",
		"options": []any{}, "nsfw": false,
	}
	for k, v := range c.Body {
		if v != nil {
			o[k] = v
		}
	}
	o["id"], o["type"] = c.ID, c.Type
	if c.Guild != "" {
		o["guild_id"] = c.Guild
	}
	return o
}
