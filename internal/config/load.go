package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/countersign/countersign/internal/manifest"
)

// Sources is what [Load] reads from. The zero value reads [DefaultFile] and
// nothing else.
type Sources struct {
	// File is the YAML file. Empty means [DefaultFile], which may be absent; a
	// named file must exist.
	File string
	// Environ is the environment as os.Environ gives it. An empty variable
	// counts as not set.
	Environ []string
	// Flags are settings given on the command line, by key, as typed.
	Flags map[string]string
	// Snapshot holds the settings of a running cmd/dev that this process works
	// for; they win over the environment and the file, not over flags.
	Snapshot *Snapshot
	// Defaults replace the built-in defaults by key. cmd/dev's differ.
	Defaults map[string]string
	// Embedded says that the process brings its own Temporal server, so that
	// nothing about another one is read.
	Embedded bool
}

// value is a setting as some source gave it, before it is parsed.
type value struct {
	items  []string
	list   bool
	source string
	// node is a mapping as it stands in the file; items are then empty.
	node ast.Node
}

// layer is what one source gave, by key.
type layer map[string]value

// Load reads the settings. The error is a [Faults] that lists everything that
// is wrong with any source.
func Load(s Sources) (*Config, error) {
	c := new(Config)
	fields := fieldsOf(c)
	index := make(map[string]field, len(fields))
	for _, f := range fields {
		index[f.key] = f
	}
	l := loader{index: index, keys: keysOf(fields)}
	layers := []layer{l.defaults(fields, s.Defaults), l.file(s.File), l.environment(s.Environ)}
	if s.Snapshot != nil {
		layers = append(layers, s.Snapshot.layer())
	}
	layers = append(layers, l.flags(s.Flags))
	l.apply(fields, layers)
	c.file = l.read
	if !s.Embedded {
		l.temporal(c, layers, s.Environ)
	}
	l.faults = append(l.faults, c.finish()...)
	if len(l.faults) > 0 {
		return nil, l.faults
	}
	return c, nil
}

type loader struct {
	index  map[string]field
	keys   []string
	faults Faults
	read   string // the settings file
}

func keysOf(fields []field) []string {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.key
	}
	return keys
}

func (l *loader) fault(source, key, format string, args ...any) {
	l.faults = append(l.faults, Fault{Source: source, Key: key, Problem: fmt.Sprintf(format, args...)})
}

func (l *loader) unknown(source, key string) {
	if near := nearest(key, l.keys); near != "" {
		l.fault(source, key, "unknown setting; did you mean %s?", near)
		return
	}
	l.fault(source, key, "unknown setting")
}

// apply gives each field the strongest layer's value. A value that does not
// parse is a fault even where a stronger layer replaces it: it would be one
// the day that layer is gone.
func (l *loader) apply(fields []field, layers []layer) {
	for _, f := range fields {
		for _, from := range layers {
			v, ok := from[f.key]
			if !ok {
				continue
			}
			if err := f.set(v); err != nil {
				l.refuse(v, f.key, err)
			}
		}
	}
}

// refuse notes a value that does not parse, where it stands.
func (l *loader) refuse(v value, key string, err error) {
	source := v.source
	var form *manifest.ParseError
	if errors.As(err, &form) && v.node != nil {
		if name, _, ok := strings.Cut(source, ":"); ok && form.Line > 0 {
			source = fmt.Sprintf("%s:%d", name, form.Line)
		}
		err = errors.New(form.Problem)
	}
	l.fault(source, key, "%v", err)
}

func (l *loader) defaults(fields []field, replaced map[string]string) layer {
	out := layer{}
	for _, f := range fields {
		text := f.def
		if r, ok := replaced[f.key]; ok {
			text = r
		}
		out[f.key] = f.fromText(text, "default")
	}
	return out
}

// fromText reads a value typed as one text: a list is comma-separated there.
func (f field) fromText(text, source string) value {
	if !f.isList() {
		return value{items: []string{text}, source: source}
	}
	v := value{list: true, source: source}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			v.items = append(v.items, item)
		}
	}
	return v
}

func (l *loader) flags(flags map[string]string) layer {
	out := layer{}
	keys := make([]string, 0, len(flags))
	for key := range flags {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	for _, key := range keys {
		if f, row, ok := l.tableOf(key); ok {
			v := out[f.key]
			out[f.key] = value{items: append(v.items, row+"="+flags[key]), list: true, source: "flag"}
			continue
		}
		f, ok := l.index[key]
		if !ok {
			l.unknown("flag", key)
			continue
		}
		v := f.fromText(flags[key], "flag")
		v.items = append(v.items, out[key].items...)
		out[key] = v
	}
	return out
}

// aliases are variables of other tools that are read when ours is not set.
// The Temporal ones are read by the SDK's envconfig.
var aliases = map[string]string{
	"OPENAI_API_KEY":  "openai.api_key",
	"OPENAI_BASE_URL": "openai.base_url",
}

// DevDatabase is a variable that is a flag of cmd/dev and no setting: it may hold a
// password, which a command line would show.
const DevDatabase = EnvPrefix + "DEV_DB_URL"

func (l *loader) environment(environ []string) layer {
	byEnv := make(map[string]field, len(l.index))
	names := make([]string, 0, len(l.index))
	for _, f := range l.index {
		byEnv[f.env()] = f
		names = append(names, f.env())
	}
	sort.Strings(names)
	out, borrowed := layer{}, layer{}
	for _, entry := range environ {
		name, text, _ := strings.Cut(entry, "=")
		if key, ok := aliases[name]; ok && text != "" {
			borrowed[key] = l.index[key].fromText(text, name)
			continue
		}
		if !strings.HasPrefix(name, EnvPrefix) || name == DevDatabase {
			continue
		}
		f, ok := byEnv[name]
		switch {
		case !ok:
			problem := "no setting has this variable"
			if near := nearest(name, names); near != "" {
				problem += "; did you mean " + near + "?"
			}
			l.fault(name, "", "%s", problem)
		case text != "":
			out[f.key] = f.fromText(text, name)
		}
	}
	for key, v := range borrowed {
		if _, ok := out[key]; !ok {
			out[key] = v
		}
	}
	return out
}

func (l *loader) file(name string) layer {
	required := name != ""
	if !required {
		name = DefaultFile
	}
	data, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !required:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		l.fault(name, "", "no such file")
		return nil
	case err != nil:
		l.fault(name, "", "cannot be read: %v", errors.Unwrap(err))
		return nil
	}
	l.read, _ = filepath.Abs(name)
	return l.yaml(filepath.Base(name), data)
}
