package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// orderedObject is a JSON object whose fields keep their order: items go back to
// the model as it wrote them.
type orderedObject struct{ fields []field }

type field struct {
	name  string
	value json.RawMessage
}

var errNoObject = errors.New("no JSON object")

func readObject(raw []byte) (*orderedObject, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errNoObject
	}
	o := &orderedObject{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("reading a field's name: %w", err)
		}
		name, ok := t.(string)
		if !ok {
			return nil, errNoObject
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, fmt.Errorf("reading field %q: %w", name, err)
		}
		o.fields = append(o.fields, field{name, value})
	}
	return o, nil
}

func (o *orderedObject) drop(name string) {
	o.fields = slices.DeleteFunc(o.fields, func(f field) bool { return f.name == name })
}

// dropNulls drops fields without value: some servers write them and refuse them
// when they come back.
func (o *orderedObject) dropNulls() {
	o.fields = slices.DeleteFunc(o.fields, func(f field) bool { return string(bytes.TrimSpace(f.value)) == "null" })
}

func (o *orderedObject) set(name string, value json.RawMessage) {
	for i := range o.fields {
		if o.fields[i].name == name {
			o.fields[i].value = value
			return
		}
	}
	o.fields = append(o.fields, field{name, value})
}

// text returns a field that is a string, else "".
func (o *orderedObject) text(name string) string {
	for _, f := range o.fields {
		s := ""
		if f.name == name && json.Unmarshal(f.value, &s) == nil {
			return s
		}
	}
	return ""
}

// empty tells that a field is absent, null or an empty list.
func (o *orderedObject) empty(name string) bool {
	for _, f := range o.fields {
		if f.name == name {
			v := string(bytes.Join(bytes.Fields(f.value), nil))
			return v == "null" || v == "[]"
		}
	}
	return true
}

func (o *orderedObject) encode() json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range o.fields {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(item(f.name))
		b.WriteByte(':')
		b.Write(f.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}
