package agent

import (
	"encoding/json"
	"fmt"

	"github.com/countersign/countersign/internal/agent/transcript"
)

// leftOutMark stands where the older part of a conversation was left out.
const leftOutMark = "[countersign]: Older parts of this conversation were left out, and long texts cut, because they no longer fit."

// minShrunkText is what is left of a long text at least, in bytes.
const minShrunkText = 2 << 10 // 2 KiB

// shrink makes the records fit into budget bytes, for a model whose window is
// full: long texts lose their middle, then the oldest records go, up to a
// person's message, then the oldest steps since the newest message. That message
// always stays. The transcript itself stays whole. Calls and outputs that lose
// each other are mended by [replay].
func shrink(records []transcript.Record, budget int) []transcript.Record {
	limit := max(minShrunkText, budget/8)
	small := make([]transcript.Record, 0, len(records)+1)
	total, newest := 0, 0
	for _, r := range records {
		if r.Unsent || peek(r).Type == itemReasoning {
			continue
		}
		r.Item = cutItem(r.Item, limit)
		total += weight(r)
		if isPersons(r) {
			newest = len(small)
		}
		small = append(small, r)
	}
	start := 0
	for start < newest && (total > budget || !isPersons(small[start])) {
		total -= weight(small[start])
		start++
	}
	after := newest + 1
	for after < len(small) && total > budget {
		total -= weight(small[after])
		after++
	}
	kept := []transcript.Record{{Item: messageItem(leftOutMark)}}
	kept = append(kept, small[start:min(newest+1, len(small))]...)
	return append(kept, small[min(after, len(small)):]...)
}

func size(records []transcript.Record) int {
	n := 0
	for _, r := range records {
		n += weight(r)
	}
	return n
}

// weight is what a record takes of a request, in bytes of text.
func weight(r transcript.Record) int {
	if r.Image != nil {
		return len(r.Item) + imageWeight
	}
	return len(r.Item)
}

func isPersons(r transcript.Record) bool {
	it := peek(r)
	return it.Type == itemMessage && it.Role == "user"
}

// cutItem shortens the texts of messages, arguments and outputs. Reasoning is
// opaque and stays.
func cutItem(raw json.RawMessage, limit int) json.RawMessage {
	if len(raw) <= limit {
		return raw
	}
	o, err := readObject(raw)
	if err != nil || o.text("type") == itemReasoning {
		return raw
	}
	for i, f := range o.fields {
		switch f.name {
		case "output":
			o.fields[i].value = cutJSON(f.value, limit)
		case "arguments":
			text := ""
			if json.Unmarshal(f.value, &text) == nil && len(text) > limit {
				o.fields[i].value = item(string(item(object{"cut": middleOut(text, limit)})))
			}
		case "content":
			o.fields[i].value = cutContent(f.value, limit)
		}
	}
	return o.encode()
}

func cutContent(raw json.RawMessage, limit int) json.RawMessage {
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return cutJSON(raw, limit)
	}
	for i, part := range parts {
		if p, err := readObject(part); err == nil && p.text("text") != "" {
			p.set("text", item(middleOut(p.text("text"), limit)))
			parts[i] = p.encode()
		}
	}
	return item(parts)
}

func cutJSON(raw json.RawMessage, limit int) json.RawMessage {
	text := ""
	if json.Unmarshal(raw, &text) != nil {
		return raw
	}
	return item(middleOut(text, limit))
}

// middleOut keeps the beginning and the end of a text.
func middleOut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	head := cut(s, limit/2)
	tail := clean(s[len(s)-limit/2:])
	return head + fmt.Sprintf("\n[… %d bytes left out …]\n", len(s)-len(head)-len(tail)) + tail
}
