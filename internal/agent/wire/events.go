package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
)

// deltaRunes is how many characters of a text one event brings.
const deltaRunes = 24

// Events are the events of a streamed response, each as it is written, in the
// API's order: the output items grow piece by piece, and the last event holds the
// whole response. The response's status decides which event that is.
func Events(response map[string]any) [][]byte {
	s := &script{}
	begun := maps.Clone(response)
	begun["status"], begun["output"], begun["usage"] = "in_progress", []any{}, nil
	s.add("response.created", object{"response": begun})
	s.add("response.in_progress", object{"response": begun})
	items, _ := response["output"].([]any)
	for i, one := range items {
		s.item(i, fieldsOf(one))
	}
	status, _ := response["status"].(string)
	s.add("response."+status, object{"response": response})
	return s.events
}

type object = map[string]any

// script collects events and numbers them.
type script struct{ events [][]byte }

func (s *script) add(kind string, fields object) {
	fields["type"], fields["sequence_number"] = kind, len(s.events)
	s.events = append(s.events, Event(kind, fields))
}

// Event writes one event.
func Event(kind string, fields any) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: %s\ndata: ", kind)
	e := json.NewEncoder(&b) // ends the line
	e.SetEscapeHTML(false)
	if err := e.Encode(fields); err != nil {
		return fmt.Appendf(nil, "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":%q}\n\n", err)
	}
	b.WriteByte('\n')
	return b.Bytes()
}

func fieldsOf(v any) object {
	data, err := json.Marshal(v)
	fields := object{}
	if err != nil || json.Unmarshal(data, &fields) != nil {
		return object{"value": v} // a server's nonsense, which goes out as one item
	}
	return fields
}

// item adds the events of one output item.
func (s *script) item(index int, it object) {
	begun := maps.Clone(it)
	delete(begun, "encrypted_content") // comes with the item's end
	if it["type"] != "function_call_output" && it["status"] != nil {
		begun["status"] = "in_progress"
	}
	id := it["id"]
	switch it["type"] {
	case "message":
		begun["content"] = []any{}
		s.add("response.output_item.added", object{"output_index": index, "item": begun})
		parts, _ := it["content"].([]any)
		for n, p := range parts {
			s.part(id, index, n, fieldsOf(p))
		}
	case "reasoning":
		begun["summary"] = []any{}
		s.add("response.output_item.added", object{"output_index": index, "item": begun})
		parts, _ := it["summary"].([]any)
		for n, p := range parts {
			at := object{"item_id": id, "output_index": index, "summary_index": n}
			s.add("response.reasoning_summary_part.added", with(at, "part", object{"type": "summary_text", "text": ""}))
			text, _ := fieldsOf(p)["text"].(string)
			s.deltas("response.reasoning_summary_text", at, text, "text")
			s.add("response.reasoning_summary_part.done", with(at, "part", p))
		}
	case "function_call":
		begun["arguments"] = ""
		s.add("response.output_item.added", object{"output_index": index, "item": begun})
		arguments, _ := it["arguments"].(string)
		s.deltas("response.function_call_arguments", object{"item_id": id, "output_index": index}, arguments, "arguments")
	default:
		s.add("response.output_item.added", object{"output_index": index, "item": begun})
	}
	s.add("response.output_item.done", object{"output_index": index, "item": it})
}

func (s *script) part(id any, index, n int, p object) {
	at := object{"item_id": id, "output_index": index, "content_index": n}
	name, field := "response.output_text", "text"
	if p["type"] == "refusal" {
		name, field = "response.refusal", "refusal"
	}
	begun := maps.Clone(p)
	begun[field] = ""
	s.add("response.content_part.added", with(at, "part", begun))
	text, _ := p[field].(string)
	s.deltas(name, at, text, field)
	s.add("response.content_part.done", with(at, "part", p))
}

// deltas adds a text piece by piece and then whole, under field.
func (s *script) deltas(name string, at object, text, field string) {
	for rest := []rune(text); len(rest) > 0; {
		n := min(deltaRunes, len(rest))
		s.add(name+".delta", with(at, "delta", string(rest[:n])))
		rest = rest[n:]
	}
	s.add(name+".done", with(at, field, text))
}

func with(o object, name string, value any) object {
	o = maps.Clone(o)
	o[name] = value
	return o
}
