package discordfake

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// schema is what a JSON value must be, as the OpenAPI description says it.
type schema struct {
	kind           string
	nullable, need bool
	// least and most are a string's characters, an array's items or a number's
	// bounds; most 0 is none.
	least, most int64
	choices     []string
	unique      bool
	items       *schema
	fields      map[string]*schema
	// variants are the schemas of an object by the number in its "type".
	variants map[string]*schema
}

func str(least, most int64) *schema   { return &schema{kind: "string", least: least, most: most} }
func oneOf(choices ...string) *schema { return &schema{kind: "string", choices: choices} }
func integer(least, most int64) *schema {
	return &schema{kind: "integer", least: least, most: most}
}
func numbers(choices ...string) *schema { return &schema{kind: "integer", choices: choices} }
func boolean() *schema                  { return &schema{kind: "boolean"} }
func snowflake() *schema                { return &schema{kind: "snowflake"} }
func anything() *schema                 { return &schema{kind: "any"} }
func list(items *schema, least, most int64) *schema {
	return &schema{kind: "array", items: items, least: least, most: most}
}
func mapping(values *schema) *schema           { return &schema{kind: "map", items: values} }
func record(fields map[string]*schema) *schema { return &schema{kind: "object", fields: fields} }
func byType(variants map[string]*schema) *schema {
	return &schema{kind: "union", variants: variants}
}

// null lets the value be null; must makes the field required; once makes a list's
// items unique. All return the schema, which is nobody else's.
func (s *schema) null() *schema { s.nullable = true; return s }
func (s *schema) must() *schema { s.need = true; return s }
func (s *schema) once() *schema { s.unique = true; return s }

// with is a record with more fields.
func (s *schema) with(fields map[string]*schema) *schema {
	maps.Copy(s.fields, fields)
	return s
}

// problem is one thing wrong at a path of a body.
type problem struct {
	path       []string
	code, text string
}

type problems struct{ list []problem }

func (p *problems) add(path []string, code, format string, args ...any) {
	p.list = append(p.list, problem{slices.Clone(path), code, fmt.Sprintf(format, args...)})
}

// unknownField is the fake's own code; Discord has none.
const unknownField = "UNKNOWN_FIELD"

// tree is the errors object (Reference, Error Messages).
func tree(list ...problem) object {
	root := object{}
	for _, one := range list {
		at := root
		for _, name := range one.path {
			next, ok := at[name].(object)
			if !ok {
				next = object{}
				at[name] = next
			}
			at = next
		}
		errs, _ := at["_errors"].([]object)
		at["_errors"] = append(errs, object{"code": one.code, "message": one.text})
	}
	return root
}

var snowflakeForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,19})$`)

// check finds what is wrong with a value at a path.
func (s *schema) check(v any, path []string, p *problems) {
	if v == nil {
		if !s.nullable {
			p.add(path, "BASE_TYPE_REQUIRED", "This field is required")
		}
		return
	}
	switch s.kind {
	case "string":
		s.checkString(v, path, p)
	case "integer":
		s.checkInteger(v, path, p)
	case "boolean":
		if _, ok := v.(bool); !ok {
			p.add(path, "BOOLEAN_TYPE_CONVERT", "Must be either true or false.")
		}
	case "snowflake":
		if !snowflakeForm.MatchString(fmt.Sprint(v)) {
			p.add(path, "NUMBER_TYPE_COERCE", "Value \"%v\" is not snowflake.", v)
		}
	case "permissions": // a number, by the documentation written as a string
		if !snowflakeForm.MatchString(fmt.Sprint(v)) {
			p.add(path, "NUMBER_TYPE_COERCE", "Value \"%v\" is not int.", v)
		}
	case "nonce":
		checkNonce(v, path, p)
	case "time":
		if text, _ := v.(string); !isTime(text) {
			p.add(path, "DATE_TIME_TYPE_PARSE", "Could not parse %v. Should be ISO8601.", v)
		}
	case "array":
		s.checkArray(v, path, p)
	case "map", "object", "union":
		m, ok := v.(map[string]any)
		if !ok {
			p.add(path, "MODEL_TYPE_CONVERT", "Only dictionaries may be used in a ModelType")
			return
		}
		s.checkObject(m, path, p)
	}
}

// checkNonce wants an integer or at most 25 characters (Message, Create Message).
func checkNonce(v any, path []string, p *problems) {
	switch n := v.(type) {
	case string:
		if utf8.RuneCountInString(n) > 25 {
			p.add(path, "NONCE_TYPE_TOO_LONG", "Nonce must be 25 or fewer in length.")
		}
	case json.Number:
		if _, err := n.Int64(); err != nil {
			p.add(path, "NUMBER_TYPE_COERCE", "Value \"%v\" is not int.", v)
		}
	default:
		p.add(path, "NONCE_TYPE_CONVERT", "Nonce must be a string or an integer.")
	}
}

func isTime(text string) bool {
	_, err := time.Parse(time.RFC3339, text)
	return err == nil
}

func (s *schema) checkString(v any, path []string, p *problems) {
	text, ok := v.(string)
	switch n := int64(utf8.RuneCountInString(text)); {
	case !ok:
		p.add(path, "STRING_TYPE_CONVERT", "Could not interpret \"%v\" as string.", v)
	case len(s.choices) > 0:
		if !slices.Contains(s.choices, text) {
			p.add(path, "BASE_TYPE_CHOICES", "Value must be one of %v.", s.choices)
		}
	case n == 0 && s.least > 0:
		p.add(path, "BASE_TYPE_REQUIRED", "This field is required")
	case s.most > 0 && s.least > 0 && (n < s.least || n > s.most):
		p.add(path, "BASE_TYPE_BAD_LENGTH", "Must be between %d and %d in length.", s.least, s.most)
	case s.most > 0 && n > s.most:
		p.add(path, "BASE_TYPE_MAX_LENGTH", "Must be %d or fewer in length.", s.most)
	}
}

func (s *schema) checkInteger(v any, path []string, p *problems) {
	number, ok := v.(json.Number)
	n, err := strconv.ParseInt(string(number), 10, 64)
	switch {
	case !ok || err != nil:
		p.add(path, "NUMBER_TYPE_COERCE", "Value \"%v\" is not int.", v)
	case len(s.choices) > 0:
		if !slices.Contains(s.choices, string(number)) {
			p.add(path, "BASE_TYPE_CHOICES", "Value must be one of %v.", s.choices)
		}
	case n < s.least:
		p.add(path, "NUMBER_TYPE_MIN", "int value should be greater than or equal to %d.", s.least)
	case s.most > 0 && n > s.most:
		p.add(path, "NUMBER_TYPE_MAX", "int value should be less than or equal to %d.", s.most)
	}
}

func (s *schema) checkArray(v any, path []string, p *problems) {
	items, ok := v.([]any)
	if !ok {
		p.add(path, "LIST_TYPE_CONVERT", "Only iterables may be used in a ListType")
		return
	}
	if n := int64(len(items)); n < s.least || s.most > 0 && n > s.most {
		p.add(path, "BASE_TYPE_BAD_LENGTH", "Must be between %d and %d in length.", s.least, s.most)
	}
	seen := map[string]bool{}
	for i, item := range items {
		at := append(slices.Clone(path), strconv.Itoa(i))
		s.items.check(item, at, p)
		if text := fmt.Sprint(item); s.unique && seen[text] {
			p.add(path, "SET_TYPE_ALREADY_CONTAINS_VALUE", "The set already contains this value")
		} else {
			seen[text] = true
		}
	}
}

func (s *schema) checkObject(m map[string]any, path []string, p *problems) {
	if s.kind == "map" {
		for k, v := range m {
			s.items.check(v, append(slices.Clone(path), k), p)
		}
		return
	}
	if s.kind == "union" {
		number, _ := m["type"].(json.Number)
		variant := s.variants[string(number)]
		if variant == nil {
			p.add(append(slices.Clone(path), "type"), "UNION_TYPE_CHOICES", "Value of field \"type\" must be one of %v.", slices.Sorted(maps.Keys(s.variants)))
			return
		}
		variant.checkObject(m, path, p)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		at := append(slices.Clone(path), name)
		if f := s.fields[name]; f != nil {
			f.check(m[name], at, p)
		} else {
			p.add(at, unknownField, "The API's description knows no such field here")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.fields)) {
		if _, ok := m[name]; !ok && s.fields[name].need {
			p.add(append(slices.Clone(path), name), "BASE_TYPE_REQUIRED", "This field is required")
		}
	}
}
