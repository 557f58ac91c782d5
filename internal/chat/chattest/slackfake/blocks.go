package slackfake

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// surface is where blocks are to be shown.
type surface int

const (
	inMessage surface = iota
	inModal
	inHome
)

// fields are the documented fields of blocks and elements. Slack refuses others.
func fields() map[string][]string {
	return map[string][]string{
		"section": {"text", "fields", "accessory", "expand"}, "header": {"text", "level"}, "context": {"elements"}, "actions": {"elements"},
		"divider": {}, "markdown": {"text"}, "rich_text": {"elements"}, "input": {"label", "element", "hint", "optional", "dispatch_action"},
		"button":           {"text", "action_id", "url", "value", "confirm", "style", "accessibility_label", "visible_to_user_ids"},
		"static_select":    {"placeholder", "action_id", "options", "option_groups", "initial_option", "confirm", "focus_on_load"},
		"plain_text_input": {"action_id", "placeholder", "initial_value", "multiline", "min_length", "max_length", "dispatch_action_config", "focus_on_load"},
		"plain_text":       {"text", "emoji"}, "mrkdwn": {"text", "verbatim"},
		"rich_text_section": {"elements"}, "rich_text_preformatted": {"elements", "border", "language"}, "rich_text_quote": {"elements", "border"},
		"rich_text_list": {"elements", "style", "indent", "offset", "border"},
		"text":           {"text", "style"}, "date": {"timestamp", "format", "url", "fallback", "style"}, "user": {"user_id", "style"},
		"usergroup": {"usergroup_id", "style"}, "link": {"url", "text", "unsafe", "style"}, "emoji": {"name", "unicode", "style"},
	}
}

// checker walks blocks and keeps the first fault.
type checker struct {
	fields                  map[string][]string
	fault                   string
	total, markdown, inputs int
	blockIDs, actionIDs     map[string]bool
}

type node map[string]json.RawMessage

func (c *checker) fail(format string, args ...any) {
	if c.fault == "" {
		c.fault = fmt.Sprintf(format, args...)
	}
}

func (n node) text(name string) string {
	var s string
	_ = json.Unmarshal(n[name], &s) // absent or of another type is empty
	return s
}

// node decodes an object of one of the kinds and refuses unknown fields.
func (c *checker) node(raw json.RawMessage, at string, block bool, kinds ...string) node {
	var n node
	if json.Unmarshal(raw, &n) != nil || n == nil {
		c.fail("must be an object [json-pointer:%s]", at)
		return node{}
	}
	kind := n.text("type")
	if !slices.Contains(kinds, kind) {
		c.fail("unsupported type: %s [json-pointer:%s/type]", kind, at)
		return node{}
	}
	for f := range n {
		if f != "type" && !(block && f == "block_id") && !slices.Contains(c.fields[kind], f) {
			c.fail("invalid additional property: %s [json-pointer:%s]", f, at)
		}
	}
	return n
}

func (c *checker) list(raw json.RawMessage, at string, least, most int) []json.RawMessage {
	var l []json.RawMessage
	if json.Unmarshal(raw, &l) != nil {
		c.fail("must be an array [json-pointer:%s]", at)
	}
	if len(l) < least || len(l) > most {
		c.fail("must have %d to %d items, has %d [json-pointer:%s]", least, most, len(l), at)
	}
	return l
}

// words checks a text object.
func (c *checker) words(raw json.RawMessage, at string, most int, kinds ...string) {
	if raw == nil {
		c.fail("missing required field [json-pointer:%s]", at)
		return
	}
	n := c.node(raw, at, false, kinds...)
	t := n.text("text")
	k := utf8.RuneCountInString(t)
	if k < 1 || k > most {
		c.fail("must be 1 to %d characters, is %d [json-pointer:%s/text]", most, k, at)
	}
	c.total += k
}

func (c *checker) id(n node, name, at string, seen map[string]bool, required bool) {
	id := n.text(name)
	switch {
	case id == "" && required:
		c.fail("missing required field: %s [json-pointer:%s]", name, at)
	case utf8.RuneCountInString(id) > 255:
		c.fail("must be less than 256 characters [json-pointer:%s/%s]", at, name)
	case id != "" && seen[id]:
		c.fail("%s already exists: %s [json-pointer:%s]", name, id, at)
	}
	seen[id] = true
}

// checkBlocks answers the error code and explanation for a message's or modal's
// blocks; an empty code is none.
func checkBlocks(raw []byte, where surface) (code, why string) {
	c := &checker{fields: fields(), blockIDs: map[string]bool{}, actionIDs: map[string]bool{}}
	most := 50
	if where != inMessage {
		most = 100
	}
	var l []json.RawMessage
	if json.Unmarshal(raw, &l) != nil {
		return "invalid_blocks_format", "blocks is no array"
	}
	l = c.list(raw, "/blocks", 0, most)
	for i, b := range l {
		c.block(b, fmt.Sprintf("/blocks/%d", i), where)
	}
	switch {
	case c.fault != "":
		return "invalid_blocks", c.fault
	case c.markdown > 12000:
		return "invalid_blocks", "markdown blocks hold more than 12,000 characters"
	case where == inMessage && c.total > 13200:
		return "msg_blocks_too_long", fmt.Sprintf("%d characters", c.total)
	}
	return "", ""
}

func (c *checker) block(raw json.RawMessage, at string, where surface) {
	kinds := []string{"section", "header", "context", "actions", "divider", "rich_text"}
	if where == inMessage {
		kinds = append(kinds, "markdown")
	} else {
		kinds = append(kinds, "input")
	}
	n := c.node(raw, at, true, kinds...)
	clear(c.actionIDs) // they are unique within a block
	c.id(n, "block_id", at, c.blockIDs, false)
	delete(c.blockIDs, "")
	switch n.text("type") {
	case "section":
		if n["text"] == nil && n["fields"] == nil {
			c.fail("missing required field: text [json-pointer:%s]", at)
		}
		if n["text"] != nil {
			c.words(n["text"], at+"/text", 3000, "plain_text", "mrkdwn")
		}
		if n["accessory"] != nil {
			c.element(n["accessory"], at+"/accessory", "button", "static_select")
		}
	case "header":
		c.words(n["text"], at+"/text", 150, "plain_text")
	case "context":
		for i, e := range c.list(n["elements"], at+"/elements", 1, 10) {
			c.words(e, fmt.Sprintf("%s/elements/%d", at, i), 2000, "plain_text", "mrkdwn")
		}
	case "actions":
		for i, e := range c.list(n["elements"], at+"/elements", 1, 25) {
			c.element(e, fmt.Sprintf("%s/elements/%d", at, i), "button", "static_select")
		}
	case "markdown":
		k := utf8.RuneCountInString(n.text("text"))
		if k < 1 {
			c.fail("must be more than 0 characters [json-pointer:%s/text]", at)
		}
		c.markdown += k
		c.total += k
	case "rich_text":
		for i, e := range c.list(n["elements"], at+"/elements", 1, 1000) {
			c.rich(e, fmt.Sprintf("%s/elements/%d", at, i))
		}
	case "input":
		c.inputs++
		c.words(n["label"], at+"/label", 2000, "plain_text")
		c.element(n["element"], at+"/element", "plain_text_input", "static_select")
	}
}

func (c *checker) element(raw json.RawMessage, at string, kinds ...string) {
	n := c.node(raw, at, false, kinds...)
	c.id(n, "action_id", at, c.actionIDs, false)
	switch n.text("type") {
	case "button":
		c.words(n["text"], at+"/text", 75, "plain_text")
		if utf8.RuneCountInString(n.text("value")) > 2000 {
			c.fail("must be less than 2001 characters [json-pointer:%s/value]", at)
		}
		if utf8.RuneCountInString(n.text("url")) > 3000 {
			c.fail("must be less than 3001 characters [json-pointer:%s/url]", at)
		}
		if s, ok := n["style"]; ok && string(s) != `"primary"` && string(s) != `"danger"` {
			c.fail("invalid style %s [json-pointer:%s/style]", s, at)
		}
	case "static_select":
		if n["placeholder"] != nil {
			c.words(n["placeholder"], at+"/placeholder", 150, "plain_text")
		}
		for i, o := range c.list(n["options"], at+"/options", 1, 100) {
			c.option(o, fmt.Sprintf("%s/options/%d", at, i))
		}
	case "plain_text_input":
		if n["placeholder"] != nil {
			c.words(n["placeholder"], at+"/placeholder", 150, "plain_text")
		}
		var most int
		if n["max_length"] != nil && (json.Unmarshal(n["max_length"], &most) != nil || most < 1 || most > 3000) {
			c.fail("must be 1 to 3000 [json-pointer:%s/max_length]", at)
		}
	}
}

func (c *checker) option(raw json.RawMessage, at string) {
	var n node
	if json.Unmarshal(raw, &n) != nil {
		c.fail("must be an object [json-pointer:%s]", at)
		return
	}
	for _, f := range slices.Sorted(maps.Keys(n)) {
		if !slices.Contains([]string{"text", "value", "description", "url"}, f) {
			c.fail("invalid additional property: %s [json-pointer:%s]", f, at)
		}
	}
	c.words(n["text"], at+"/text", 75, "plain_text", "mrkdwn")
	if k := utf8.RuneCountInString(n.text("value")); k < 1 || k > 150 {
		c.fail("must be 1 to 150 characters [json-pointer:%s/value]", at)
	}
}

func (c *checker) rich(raw json.RawMessage, at string) {
	n := c.node(raw, at, false, "rich_text_section", "rich_text_preformatted", "rich_text_quote", "rich_text_list")
	for i, e := range c.list(n["elements"], at+"/elements", 1, 1000) {
		at := fmt.Sprintf("%s/elements/%d", at, i)
		if n.text("type") == "rich_text_list" {
			c.rich(e, at)
			continue
		}
		in := c.node(e, at, false, "text", "date", "user", "usergroup", "link", "emoji")
		switch in.text("type") {
		case "text":
			if in.text("text") == "" {
				c.fail("must be more than 0 characters [json-pointer:%s/text]", at)
			}
			c.total += utf8.RuneCountInString(in.text("text"))
		case "date":
			if in["timestamp"] == nil || in.text("format") == "" {
				c.fail("missing required field [json-pointer:%s]", at)
			}
		}
		c.style(in["style"], at+"/style")
	}
}

func (c *checker) style(raw json.RawMessage, at string) {
	if raw == nil {
		return
	}
	var s map[string]bool
	if json.Unmarshal(raw, &s) != nil {
		c.fail("must be an object of booleans [json-pointer:%s]", at)
	}
	for f := range s {
		if !slices.Contains([]string{"bold", "italic", "strike", "code", "underline", "highlight"}, f) {
			c.fail("invalid additional property: %s [json-pointer:%s]", f, at)
		}
	}
}

// withBlockIDs gives blocks without an ID one, as Slack does.
func withBlockIDs(raw []byte) json.RawMessage {
	var l []map[string]json.RawMessage
	if json.Unmarshal(raw, &l) != nil {
		return raw
	}
	for i, b := range l {
		if b["block_id"] == nil {
			b["block_id"] = json.RawMessage(fmt.Sprintf("%q", fmt.Sprintf("auto%d", i)))
		}
	}
	out, err := json.Marshal(l)
	if err != nil {
		return raw
	}
	return out
}

// blockIDs are the blocks by their ID.
func blockIDs(raw json.RawMessage) map[string]json.RawMessage {
	var l []json.RawMessage
	out := map[string]json.RawMessage{}
	if json.Unmarshal(raw, &l) != nil {
		return out
	}
	for _, b := range l {
		var n node
		if json.Unmarshal(b, &n) == nil {
			out[n.text("block_id")] = b
		}
	}
	return out
}
