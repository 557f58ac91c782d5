package transcript

import (
	"encoding/json"
	"strings"
	"time"
)

// Kinds of an [Entry].
const (
	KindMessage   = "message"   // of a person, or of Countersign itself
	KindAnswer    = "answer"    // of the model; also its talk between calls
	KindReasoning = "reasoning" // a summary, where the model gives one
	KindCall      = "call"
	KindOutput    = "output"
)

// Entry is one item of a conversation in the form that people read.
type Entry struct {
	Kind   string
	Author string // of a message: "@ada"; else empty
	Model  string // what gave an answer, reasoning or call
	At     time.Time
	Turn   int
	// Text is the message, the answer, the call's arguments or its output.
	Text string
	// Tool and CallID are set for calls; CallID for outputs too.
	Tool   string
	CallID string
}

// Entries returns records for people, in order. Items without anything to read,
// such as reasoning without a summary, are left out.
func Entries(records []Record) []Entry {
	var entries []Entry
	for _, r := range records {
		e := Entry{Author: r.Author, Model: r.Model, At: r.At, Turn: r.Turn}
		it := readableItem{}
		if json.Unmarshal(r.Item, &it) != nil {
			continue
		}
		switch it.Type {
		case "message":
			e.Kind, e.Text = KindMessage, texts(it.Content)
			if it.Role == "assistant" {
				e.Kind = KindAnswer
			}
		case "reasoning":
			e.Kind, e.Text = KindReasoning, texts(it.Summary)
		case "function_call":
			e.Kind, e.Text, e.Tool, e.CallID = KindCall, it.Arguments, it.Name, it.CallID
		case "function_call_output":
			e.Kind, e.Text, e.CallID = KindOutput, texts(it.Output), it.CallID
		}
		if e.Text != "" {
			entries = append(entries, e)
		}
	}
	return entries
}

type readableItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Summary   json.RawMessage `json:"summary"`
	Name      string          `json:"name"`
	CallID    string          `json:"call_id"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

// texts joins a string, or the texts of a list of parts.
func texts(raw json.RawMessage) string {
	text := ""
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct {
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return ""
	}
	var all []string
	for _, p := range parts {
		if t := p.Text + p.Refusal; t != "" {
			all = append(all, t)
		}
	}
	return strings.Join(all, "\n")
}
