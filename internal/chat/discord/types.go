package discord

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/workflows"
)

// What we read of Discord's objects: nothing that a new kind of component or
// channel could break.

type user struct {
	ID     string `json:"id"`
	Name   string `json:"username"`
	Global string `json:"global_name"`
	Bot    bool   `json:"bot"`
	System bool   `json:"system"`
}

type member struct {
	User    *user    `json:"user"`
	Nick    string   `json:"nick"`
	Roles   []string `json:"roles"`
	Pending bool     `json:"pending"`
	Flags   int      `json:"flags"`
}

type channel struct {
	ID     string `json:"id"`
	Guild  string `json:"guild_id"`
	Type   int    `json:"type"`
	Name   string `json:"name"`
	Parent string `json:"parent_id"`
	// Owner is who opened a thread.
	Owner string `json:"owner_id"`
	// Overwrites come with whole channels, not with those of interactions.
	Overwrites []overwrite `json:"permission_overwrites"`
}

// Channel types (Channel, Channel Types).
const (
	typeText         = 0
	typeAnnouncement = 5
	typeNewsThread   = 10
	typeThread       = 11
	typePrivate      = 12
)

func (c channel) isThread() bool { return c.Type >= typeNewsThread && c.Type <= typePrivate }

// opens reports whether a thread can be opened from a message in the channel.
func (c channel) opens() bool { return c.Type == typeText || c.Type == typeAnnouncement }

type role struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Permissions string `json:"permissions"`
	Mentionable bool   `json:"mentionable"`
	Managed     bool   `json:"managed"`
	Tags        *struct {
		Bot string `json:"bot_id"`
	} `json:"tags"`
}

type message struct {
	ID           string          `json:"id"`
	Channel      string          `json:"channel_id"`
	Guild        string          `json:"guild_id"`
	Author       user            `json:"author"`
	Member       *member         `json:"member"`
	Content      string          `json:"content"`
	Edited       string          `json:"edited_timestamp"`
	Type         int             `json:"type"`
	Webhook      string          `json:"webhook_id"`
	Mentions     []user          `json:"mentions"`
	MentionRoles []string        `json:"mention_roles"`
	Attachments  []attached      `json:"attachments"`
	Components   json.RawMessage `json:"components"`
}

// attached is a file that somebody sent.
type attached struct {
	ID   string `json:"id"`
	Name string `json:"filename"`
	Size int64  `json:"size"`
	URL  string `json:"url"`
}

func (f attached) attachment() workflows.Attachment {
	return workflows.Attachment{ID: f.ID, Name: f.Name, Bytes: f.Size}
}

// Message types that people write (Message, Message Types).
const (
	typeDefault = 0
	typeReply   = 19
)

// interaction is what a command, click or submission comes as.
type interaction struct {
	ID      string  `json:"id"`
	Type    int     `json:"type"`
	Token   string  `json:"token"`
	Guild   string  `json:"guild_id"`
	In      string  `json:"channel_id"`
	Channel channel `json:"channel"`
	Member  *member `json:"member"`
	User    *user   `json:"user"`
	// Permissions are the application's where it was used.
	Permissions string   `json:"app_permissions"`
	FileLimit   int      `json:"attachment_size_limit"`
	Message     *message `json:"message"`
	Data        struct {
		Name       string          `json:"name"`
		Type       int             `json:"type"`
		Target     string          `json:"target_id"`
		Options    []option        `json:"options"`
		CustomID   string          `json:"custom_id"`
		Values     []string        `json:"values"`
		Components json.RawMessage `json:"components"`
		Resolved   struct {
			Attachments map[string]attached `json:"attachments"`
		} `json:"resolved"`
	} `json:"data"`
}

type option struct {
	Name    string   `json:"name"`
	Type    int      `json:"type"`
	Value   any      `json:"value"`
	Focused bool     `json:"focused"`
	Options []option `json:"options"`
}

// who is the member or user behind an interaction.
func (i interaction) who() string {
	switch {
	case i.Member != nil && i.Member.User != nil:
		return i.Member.User.ID
	case i.User != nil:
		return i.User.ID
	}
	return ""
}

// at is when the person acted, by Discord's clock.
func (i interaction) at() time.Time { return timeOf(i.ID) }

// timeOf is the time in a snowflake; the zero time for what is none.
func timeOf(id string) time.Time {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil || n < 1<<22 {
		return time.Time{}
	}
	return time.UnixMilli(n>>22 + epochMillis)
}

// snowflake is the smallest ID of a time: IDs at or after it are greater.
func snowflake(t time.Time) string {
	ms := t.UnixMilli() - epochMillis
	if ms <= 0 {
		return "0"
	}
	return strconv.FormatInt(ms<<22, 10)
}

// older orders IDs by time.
func older(a, b string) int { return workflows.CompareIDs(a, b) }

// isID reports the form of a snowflake.
func isID(s string) bool {
	return len(s) >= 15 && len(s) <= 20 && strings.Trim(s, "0123456789") == ""
}

// Outgoing. Pointers and omitempty: Discord's schema takes no null where a field
// may be left out.

// mentions is allowed_mentions: by default nothing that stands in a text pings.
type mentions struct {
	Parse []string `json:"parse"`
	Users []string `json:"users,omitempty"`
	Roles []string `json:"roles,omitempty"`
}

func noMentions() mentions { return mentions{Parse: []string{}} }

// flagNoPreviews suppresses the previews of links, flagEphemeral shows a message
// to one person (Message, Message Flags).
const (
	flagNoPreviews = 1 << 2
	flagEphemeral  = 1 << 6
)

// outgoing is a message to create.
type outgoing struct {
	Content     string       `json:"content"`
	Mentions    mentions     `json:"allowed_mentions"`
	Components  []component  `json:"components,omitempty"`
	Attachments []attachment `json:"attachments,omitempty"`
	Flags       int          `json:"flags,omitempty"`
	Nonce       string       `json:"nonce,omitempty"`
	Enforce     bool         `json:"enforce_nonce,omitempty"`
}

// edit replaces a message's content and components; attachments stay.
type edit struct {
	Content     string       `json:"content"`
	Mentions    mentions     `json:"allowed_mentions"`
	Components  []component  `json:"components"`
	Attachments []attachment `json:"attachments,omitempty"`
	Flags       int          `json:"flags,omitempty"`
}

type attachment struct {
	ID   string `json:"id"`
	Name string `json:"filename"`
}

// Component types (Component Reference).
const (
	componentRow    = 1
	componentButton = 2
	componentSelect = 3
	componentInput  = 4
	componentLabel  = 18
)

// Button styles.
const (
	stylePrimary   = 1
	styleSecondary = 2
	styleSuccess   = 3
	styleDanger    = 4
)

// Input styles.
const (
	inputShort = 1
	inputLong  = 2
)

// component is any component that we send. Which fields are set follows from its
// type.
type component struct {
	Type        int         `json:"type"`
	CustomID    string      `json:"custom_id,omitempty"`
	Style       int         `json:"style,omitempty"`
	Label       string      `json:"label,omitempty"`
	Description string      `json:"description,omitempty"`
	Placeholder string      `json:"placeholder,omitempty"`
	Value       string      `json:"value,omitempty"`
	MaxLength   int         `json:"max_length,omitempty"`
	MinValues   *int        `json:"min_values,omitempty"`
	Required    *bool       `json:"required,omitempty"`
	Options     []choice    `json:"options,omitempty"`
	Components  []component `json:"components,omitempty"`
	Component   *component  `json:"component,omitempty"`
}

// choice is an option of a select.
type choice struct {
	Label   string `json:"label"`
	Value   string `json:"value"`
	Default bool   `json:"default,omitempty"`
}

// Response types (Receiving and Responding, Interaction Callback Type).
const (
	respondDeferred = 5
	respondUpdate   = 6
	respondMessage  = 4
	respondChoices  = 8
	respondModal    = 9
)

// Interaction types.
const (
	interactionPing     = 1
	interactionCommand  = 2
	interactionClick    = 3
	interactionComplete = 4
	interactionSubmit   = 5
)

// response is a first answer to an interaction.
type response struct {
	Type int `json:"type"`
	Data any `json:"data,omitempty"`
}

type modal struct {
	CustomID   string      `json:"custom_id"`
	Title      string      `json:"title"`
	Components []component `json:"components"`
}
