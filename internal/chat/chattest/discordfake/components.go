package discordfake

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Message flags (Message, Message Flags).
const (
	FlagSuppressEmbeds        = 1 << 2
	FlagHasThread             = 1 << 5
	FlagEphemeral             = 1 << 6
	FlagLoading               = 1 << 7
	FlagSuppressNotifications = 1 << 12
	flagVoice                 = 1 << 13
	FlagComponentsV2          = 1 << 15
)

// Limits of components (Components Reference). Text components hold 4,000
// characters together.
const (
	maxLegacyRows    = 5
	maxComponents    = 40
	maxComponentText = 4000
	maxEmbedText     = 6000
)

// kindOf is a component's type.
func kindOf(c map[string]any) string { return fmt.Sprint(c["type"]) }

// walk visits components with their paths, parents before children.
func walk(items any, path []string, visit func(c map[string]any, path []string)) {
	list, _ := items.([]any)
	for i, item := range list {
		c, ok := item.(map[string]any)
		if !ok {
			continue
		}
		at := append(slices.Clone(path), strconv.Itoa(i))
		visit(c, at)
		walk(c["components"], append(slices.Clone(at), "components"), visit)
		for _, name := range []string{"accessory", "component"} {
			if inner, ok := c[name].(map[string]any); ok {
				visit(inner, append(slices.Clone(at), name))
			}
		}
	}
}

// checkComponents finds what the shapes do not: IDs used twice, rows that are too
// wide, too many components, buttons of the wrong kind, and components that need
// the V2 flag.
func checkComponents(items any, v2 bool, p *problems) {
	seen, total, text := map[string]bool{}, 0, 0
	top, _ := items.([]any)
	if !v2 && len(top) > maxLegacyRows {
		p.add([]string{"components"}, "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
	}
	for i, item := range top {
		if c, ok := item.(map[string]any); ok && !v2 && kindOf(c) != "1" {
			p.add([]string{"components", strconv.Itoa(i), "type"}, "BASE_TYPE_CHOICES", "Value must be one of [1]; others need the flag IS_COMPONENTS_V2.")
		}
	}
	walk(items, []string{"components"}, func(c map[string]any, path []string) {
		total++
		for _, name := range []string{"custom_id", "id"} {
			id := fmt.Sprint(c[name])
			if c[name] == nil || name == "id" && id == "0" {
				continue
			}
			if key := name + id; seen[key] {
				p.add(append(slices.Clone(path), name), "COMPONENT_CUSTOM_ID_DUPLICATED", "Component %s cannot be duplicated", strings.ReplaceAll(name, "_", " "))
			} else {
				seen[key] = true
			}
		}
		switch kindOf(c) {
		case "1":
			checkRow(c, path, p)
		case "2":
			checkButton(c, path, p)
		case "10":
			content, _ := c["content"].(string)
			text += utf8.RuneCountInString(content)
		}
	})
	if total > maxComponents {
		p.add([]string{"components"}, "COMPONENT_LIMIT_EXCEEDED", "The total number of components cannot exceed %d", maxComponents)
	}
	if text > maxComponentText {
		p.add([]string{"components"}, "COMPONENT_DISPLAYABLE_TEXT_SIZE_EXCEEDED", "The total displayable text size cannot exceed %d", maxComponentText)
	}
}

// checkRow wants buttons alone, or one menu.
func checkRow(row map[string]any, path []string, p *problems) {
	inside, _ := row["components"].([]any)
	width := 0
	for _, item := range inside {
		if c, ok := item.(map[string]any); ok && kindOf(c) != "2" {
			width += 5
		} else {
			width++
		}
	}
	if width > 5 {
		p.add(append(slices.Clone(path), "components"), "COMPONENT_LAYOUT_WIDTH_EXCEEDED", "Component layout width exceeded: %d of 5", width)
	}
}

// checkButton wants what a button's style needs (Components Reference, Button).
func checkButton(b map[string]any, path []string, p *problems) {
	style := fmt.Sprint(b["style"])
	field := func(name string) []string { return append(slices.Clone(path), name) }
	text, _ := b["label"].(string)
	switch style {
	case "1", "2", "3", "4":
		if b["custom_id"] == nil {
			p.add(field("custom_id"), "BASE_TYPE_REQUIRED", "A custom id is required")
		}
		if b["url"] != nil {
			p.add(field("url"), "BUTTON_COMPONENT_INVALID_FIELD", "Only a link button has a url")
		}
	case "5":
		if b["custom_id"] != nil {
			p.add(field("custom_id"), "BUTTON_COMPONENT_INVALID_FIELD", "A custom id and url cannot both be specified")
		}
		if url, _ := b["url"].(string); !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "discord://") {
			p.add(field("url"), "URL_TYPE_INVALID_SCHEME", "Scheme \"%s\" is not supported.", url)
		}
	}
	if text == "" && b["emoji"] == nil && style != "6" {
		p.add(path, "BUTTON_COMPONENT_INVALID_EMPTY", "A button needs a label or an emoji")
	}
}

// checkEmbeds wants the texts of all embeds within their limit (Message, Embed
// Limits).
func checkEmbeds(items any, p *problems) {
	list, _ := items.([]any)
	total := 0
	count := func(v any) {
		text, _ := v.(string)
		total += utf8.RuneCountInString(text)
	}
	for i, item := range list {
		e, _ := item.(map[string]any)
		if blank(e) {
			p.add([]string{"embeds", strconv.Itoa(i), "description"}, "BASE_TYPE_REQUIRED", "This field is required")
		}
		count(e["title"])
		count(e["description"])
		footer, _ := e["footer"].(map[string]any)
		author, _ := e["author"].(map[string]any)
		count(footer["text"])
		count(author["name"])
		fields, _ := e["fields"].([]any)
		for _, f := range fields {
			field, _ := f.(map[string]any)
			count(field["name"])
			count(field["value"])
		}
	}
	if total > maxEmbedText {
		p.add([]string{"embeds"}, "MAX_EMBED_SIZE_EXCEEDED", "Embed size exceeds maximum size of %d", maxEmbedText)
	}
}

// blank reports whether an embed shows nothing.
func blank(embed map[string]any) bool {
	for _, name := range []string{"title", "description", "fields", "footer", "author", "image", "thumbnail", "video"} {
		switch v := embed[name].(type) {
		case nil:
		case string:
			if v != "" {
				return false
			}
		case []any:
			if len(v) > 0 {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// checkMedia wants references to attachments that are there (Components
// Reference, Unfurled Media Item); a file component takes nothing else.
func checkMedia(items any, files []File, p *problems) {
	walk(items, []string{"components"}, func(c map[string]any, path []string) {
		for _, name := range []string{"file", "media"} {
			media, _ := c[name].(map[string]any)
			url, _ := media["url"].(string)
			ref, local := strings.CutPrefix(url, "attachment://")
			at := append(slices.Clone(path), name, "url")
			switch {
			case media == nil:
			case local && !slices.ContainsFunc(files, func(f File) bool { return f.Name == ref }):
				p.add(at, "UNFURLED_MEDIA_ITEM_REFERENCED_ATTACHMENT_NOT_FOUND", "The referenced attachment was not found.")
			case !local && name == "file":
				p.add(at, "UNFURLED_MEDIA_ITEM_ATTACHMENT_REFERENCE_REQUIRED", "Only attachment://<filename> is taken here.")
			}
		}
	})
}

// texts are the contents of the text components.
func texts(items any) []string {
	var out []string
	walk(items, nil, func(c map[string]any, _ []string) {
		if content, ok := c["content"].(string); ok && kindOf(c) == "10" {
			out = append(out, content)
		}
	})
	return out
}

// number gives each component that has none an ID, as Discord's answers do.
func number(items any) {
	taken := map[string]bool{}
	walk(items, nil, func(c map[string]any, _ []string) { taken[fmt.Sprint(c["id"])] = true })
	next := 1
	walk(items, nil, func(c map[string]any, _ []string) {
		if id := fmt.Sprint(c["id"]); c["id"] != nil && id != "0" {
			return
		}
		for taken[strconv.Itoa(next)] {
			next++
		}
		c["id"] = next
		next++
	})
}
