package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/manifest"
	"github.com/countersign/countersign/internal/telemetry"
)

// Field describes one setting, for documentation and for tests.
type Field struct {
	// Key is the full key, such as approvals.risky.required.
	Key string
	// Env is the name of the environment variable.
	Env string
	// Default is the built-in value as text, or what stands for one where the
	// value is worked out ("file:// below data_dir").
	Default string
	// Type is text, list, table, number, true or false, duration, secret, list of
	// secrets, or mapping: YAML, or JSON, of its own form.
	Type string
	// Doc says what it is for.
	Doc string
}

// Fields lists every setting in the order in which Config declares them.
func Fields() []Field {
	var out []Field
	for _, f := range fieldsOf(new(Config)) {
		shown := f.shown
		if shown == "" {
			shown = f.def
		}
		out = append(out, Field{Key: f.key, Env: f.env(), Default: shown, Type: f.typeName(), Doc: f.doc})
	}
	return out
}

// field is one setting bound to the place in a Config that holds it.
type field struct {
	key, def, shown, doc string
	ptr                  any
}

func (f field) env() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(f.key, ".", "_"))
}

func (f field) isList() bool {
	switch f.ptr.(type) {
	case *[]string, *[]Secret, *Table:
		return true
	}
	return false
}

func (f field) isTable() bool {
	_, ok := f.ptr.(*Table)
	return ok
}

func (f field) isSecret() bool {
	switch f.ptr.(type) {
	case *Secret, *[]Secret:
		return true
	}
	return false
}

func (f field) typeName() string {
	switch f.ptr.(type) {
	case *[]string:
		return "list"
	case *[]Secret:
		return "list of secrets"
	case *Table:
		return "table"
	case *Secret:
		return "secret"
	case *int:
		return "number"
	case *bool:
		return "true or false"
	case *time.Duration:
		return "duration"
	case *manifest.Workspaces:
		return "mapping"
	}
	return "text"
}

// set parses v into the field. Its errors hold the value only where the field
// is no secret.
func (f field) set(v value) error {
	if !f.isList() && v.list {
		return fmt.Errorf("takes one value, not a list")
	}
	text := strings.Join(v.items, ",")
	switch p := f.ptr.(type) {
	case *manifest.Workspaces:
		return setWorkspaces(p, text, v)
	case *string:
		*p = text
	case *Secret:
		*p = telemetry.NewSecret(text)
	case *[]string:
		*p = v.items
	case *Table:
		return p.add(v.items)
	case *[]Secret:
		*p = nil
		for _, s := range v.items {
			*p = append(*p, telemetry.NewSecret(s))
		}
	case *int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		*p = n
	case *bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		*p = b
	case *time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is not a duration such as 90s, 30m or 24h", text)
		}
		*p = d
	}
	return nil
}

func setWorkspaces(to *manifest.Workspaces, text string, v value) (err error) {
	if v.node != nil {
		*to, err = manifest.ParseNode(v.node)
	} else {
		*to, err = manifest.Parse(text)
	}
	return err
}

// isMapping tells whether the setting is written as a mapping of its own.
func (f field) isMapping() bool {
	_, ok := f.ptr.(*manifest.Workspaces)
	return ok
}

// get is the inverse of set. Secrets come out redacted.
func (f field) get() value {
	switch p := f.ptr.(type) {
	case *[]string:
		return value{items: *p, list: true}
	case *Table:
		return value{items: p.rows(), list: true}
	case *[]Secret:
		v := value{list: true}
		for _, s := range *p {
			v.items = append(v.items, s.String())
		}
		return v
	case *string:
		return value{items: []string{*p}}
	case *manifest.Workspaces:
		return value{items: []string{p.String()}}
	}
	return value{items: []string{fmt.Sprint(reflect.ValueOf(f.ptr).Elem().Interface())}}
}

// fieldsOf walks the tags of Config and its parts.
func fieldsOf(c *Config) []field {
	return walk(reflect.ValueOf(c).Elem(), "", "")
}

// walk collects the fields of struct v, whose keys begin with prefix.
// override replaces a default tag by field key: a tag default.required:"2" on a
// struct field changes the default of its part required.
func walk(v reflect.Value, prefix string, override reflect.StructTag) []field {
	var out []field
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		key, ok := sf.Tag.Lookup("key")
		if !ok {
			continue
		}
		full := prefix + key
		if sf.Type.Kind() == reflect.Struct && sf.Type != reflect.TypeFor[Secret]() {
			out = append(out, walk(v.Field(i), full+".", sf.Tag)...)
			continue
		}
		def := sf.Tag.Get("default")
		if d, ok := override.Lookup("default." + key); ok {
			def = d
		}
		out = append(out, field{
			key: full, def: def, shown: sf.Tag.Get("shown"), doc: sf.Tag.Get("doc"),
			ptr: v.Field(i).Addr().Interface(),
		})
	}
	return out
}
