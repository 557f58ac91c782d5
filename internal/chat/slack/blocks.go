package slack

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/slack-go/slack"

	"github.com/countersign/countersign/internal/workflows"
)

// rendered is one Slack message.
type rendered struct {
	// text is for notifications and readers without blocks; escaped.
	text   string
	blocks []slack.Block
}

// ref is what our buttons and menus carry: where they belong.
type ref struct {
	// Thread is "channel/ts".
	Thread   string `json:"t"`
	Key      string `json:"k,omitempty"`
	Approval string `json:"a,omitempty"`
	Turn     int    `json:"n,omitempty"`
	Question string `json:"q,omitempty"`
	Digest   string `json:"d,omitempty"`
	// First and Last are the turn's trail; Page and Call what of it is shown.
	First int `json:"f,omitempty"`
	Last  int `json:"l,omitempty"`
	Page  int `json:"p,omitempty"`
	Call  int `json:"o,omitempty"`
	// Command is what a picker or form is for.
	Command string `json:"c,omitempty"`
	// Workflow is the session's workflow ID where a button stands outside its
	// thread.
	Workflow string `json:"w,omitempty"`
}

func refOf(t workflows.Thread) ref { return ref{Thread: t.Channel + "/" + t.ID} }

func (r ref) encode() string {
	data, err := json.Marshal(r)
	if err != nil { // strings and a number always encode
		return ""
	}
	return string(data)
}

func decodeRef(s string) (ref, bool) {
	var r ref
	if json.Unmarshal([]byte(s), &r) != nil {
		return r, false
	}
	channel, ts, ok := strings.Cut(r.Thread, "/")
	return r, ok && channel != "" && (ts != "" || r.Command != "")
}

// thread is where the ref belongs.
func (a *App) refThread(r ref) workflows.Thread {
	channel, ts, _ := strings.Cut(r.Thread, "/")
	return a.thread(channel, ts)
}

// actionMenu is the action ID of the header's menu; buttons have their own ID.
const actionMenu = "menu"

// actions is a row of buttons. Each carries r.
func actions(buttons []workflows.Button, r ref) slack.Block {
	var elements []slack.BlockElement
	value := r.encode()
	for _, b := range buttons {
		e := slack.NewButtonBlockElement(b.ID, value, plain(b.Label, maxButton))
		switch b.ID {
		case workflows.ButtonApprove, workflows.ButtonRunAgain:
			e.Style = slack.StylePrimary
		case workflows.ButtonDeny, workflows.ButtonDestroy:
			e.Style = slack.StyleDanger
		}
		elements = append(elements, e)
	}
	return slack.NewActionBlock("", elements...)
}

// markOf begins the IDs of our blocks; a message's key follows, so that it can be
// found where Slack does not give its metadata back.
const markOf = "cs|"

// withIDs gives every block an ID that says whose it is and changes with the
// content: Slack wants new IDs in an update.
func withIDs(key string, blocks []slack.Block) []slack.Block {
	for i, b := range blocks {
		data, err := json.Marshal(b)
		if err != nil {
			continue
		}
		sum := sha256.Sum256(fmt.Appendf(data, "|%d", i))
		id := cut(markOf+key, maxBlockID-20) + "|" + hex.EncodeToString(sum[:6])
		switch b := b.(type) {
		case *slack.HeaderBlock:
			b.BlockID = id
		case *slack.SectionBlock:
			b.BlockID = id
		case *slack.ContextBlock:
			b.BlockID = id
		case *slack.ActionBlock:
			b.BlockID = id
		case *slack.RichTextBlock:
			b.BlockID = id
		case *slack.MarkdownBlock:
			b.BlockID = id
		}
	}
	return blocks
}

// keyOf reads the key from a message's metadata, or else from its blocks.
func keyOf(m message) (payload, bool) {
	var p payload
	if m.Metadata.Type == metadataType && json.Unmarshal(m.Metadata.Payload, &p) == nil && p.Key != "" {
		return p, true
	}
	for _, b := range m.Blocks {
		if rest, ok := strings.CutPrefix(b.BlockID, markOf); ok {
			if i := strings.LastIndexByte(rest, '|'); i >= 0 {
				return payload{Key: rest[:i]}, true
			}
		}
	}
	return p, false
}

// metadataType names our message metadata.
const metadataType = "countersign_message"

// payload is what our metadata holds.
type payload struct {
	Key     string `json:"key"`
	Version int    `json:"version"`
	// Part counts the messages of one content from 0; Parts is how many there are.
	Part  int `json:"part"`
	Parts int `json:"parts"`
	// File is the name of the file that holds the whole text.
	File string `json:"file"`
}

func (p payload) metadata() slack.SlackMetadata {
	m := map[string]any{"key": p.Key, "version": p.Version}
	if p.Parts > 1 {
		m["part"], m["parts"] = p.Part, p.Parts
	}
	if p.File != "" {
		m["file"] = p.File
	}
	return slack.SlackMetadata{EventType: metadataType, EventPayload: m}
}
