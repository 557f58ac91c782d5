package config

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// yaml reads the file's settings. Keys may be nested (log: {level: info}) or
// dotted (log.level: info); a null value counts as not set.
func (l *loader) yaml(name string, data []byte) layer {
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		l.syntax(name, err)
		return nil
	}
	r := yamlReader{loader: l, name: name, out: layer{}}
	if len(file.Docs) > 1 {
		l.fault(r.at(file.Docs[1].Body), "", "holds more than one document")
	}
	for _, doc := range file.Docs {
		r.mapping("", doc.Body)
	}
	return r.out
}

func (l *loader) syntax(name string, err error) {
	var syntax *yaml.SyntaxError
	if errors.As(err, &syntax) && syntax.Token != nil && syntax.Token.Position != nil {
		l.fault(fmt.Sprintf("%s:%d", name, syntax.Token.Position.Line), "", "%s", syntax.Message)
		return
	}
	l.fault(name, "", "is not YAML")
}

type yamlReader struct {
	*loader
	name string
	out  layer
}

func (r *yamlReader) at(n ast.Node) string {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return r.name
	}
	return fmt.Sprintf("%s:%d", r.name, n.GetToken().Position.Line)
}

// mapping reads node as settings whose keys begin with prefix.
func (r *yamlReader) mapping(prefix string, node ast.Node) {
	switch n := node.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
	case *ast.MappingNode:
		for _, entry := range n.Values {
			r.entry(prefix, entry)
		}
	case *ast.MappingValueNode:
		r.entry(prefix, n)
	default:
		r.fault(r.at(node), trimDot(prefix), "must hold settings (key: value)")
	}
}

func (r *yamlReader) entry(prefix string, n *ast.MappingValueNode) {
	key, ok := scalar(n.Key)
	if !ok {
		r.fault(r.at(n.Key), trimDot(prefix), "a setting's name must be plain text")
		return
	}
	key = prefix + key
	if f, row, ok := r.tableOf(key); ok {
		r.row(f, row, n)
		return
	}
	f, isSetting := r.index[key]
	if isSetting && f.isTable() && isMapping(n.Value) {
		r.mapping(key+".", n.Value)
		return
	}
	if !isSetting {
		if r.isGroup(key) {
			r.mapping(key+".", n.Value)
			return
		}
		r.unknown(r.at(n.Key), key)
		return
	}
	if _, twice := r.out[key]; twice {
		r.fault(r.at(n.Key), key, "is set twice")
		return
	}
	if v, ok := r.value(f, n); ok {
		r.out[key] = v
	}
}

func isMapping(n ast.Node) bool {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}

// row adds one row to a table, or those below it.
func (r *yamlReader) row(f field, name string, n *ast.MappingValueNode) {
	if isMapping(n.Value) {
		r.mapping(f.key+"."+name+".", n.Value)
		return
	}
	text, ok := scalar(n.Value)
	if !ok {
		r.fault(r.at(n.Key), f.key+"."+name, "takes plain text")
		return
	}
	v := r.out[f.key]
	r.out[f.key] = value{items: append(v.items, name+"="+text), list: true, source: r.at(n.Key)}
}

// value reads the entry's right side as f's value; false means that it is null
// or that a fault was recorded.
func (r *yamlReader) value(f field, n *ast.MappingValueNode) (value, bool) {
	source := r.at(n.Key)
	switch v := n.Value.(type) {
	case *ast.NullNode:
		return value{}, false
	case *ast.MappingNode, *ast.MappingValueNode:
		if f.isMapping() {
			return value{node: v, source: source}, true
		}
	case *ast.SequenceNode:
		items := []string{}
		for _, item := range v.Values {
			text, ok := scalar(item)
			if !ok {
				r.fault(r.at(item), f.key, "an item of the list must be plain text")
				return value{}, false
			}
			items = append(items, text)
		}
		return value{items: items, list: true, source: source}, true
	}
	text, ok := scalar(n.Value)
	if !ok {
		r.fault(source, f.key, "takes plain text or a list, without anchors or tags")
		return value{}, false
	}
	return f.fromText(text, source), true
}

// isGroup says whether some setting's key begins with key and a dot.
func (r *yamlReader) isGroup(key string) bool {
	for _, k := range r.keys {
		if len(k) > len(key) && k[:len(key)] == key && k[len(key)] == '.' {
			return true
		}
	}
	return false
}

// scalar returns a scalar as written: 007 and yes stay that.
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func trimDot(prefix string) string {
	if prefix == "" {
		return ""
	}
	return prefix[:len(prefix)-1]
}
