package policy

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

//go:embed policy.yaml
var builtinYAML []byte

// tablesVersion changes whenever the built-in tables or their reading do: it is
// part of every policy's version.
const tablesVersion = "6"

var loadDefault = sync.OnceValue(func() *Policy {
	p := newPolicy()
	if _, err := p.read(builtinYAML, "built-in policy"); err != nil {
		panic(err) // the file is part of the program
	}
	p.seal(builtinYAML)
	return p
})

// Default returns the built-in policy. It is the same value at every call.
func Default() *Policy { return loadDefault() }

// BuiltinFile returns the built-in policy's file, which documents the format.
func BuiltinFile() []byte { return slices.Clone(builtinYAML) }

// Load compiles a policy file on top of the built-in policy. name stands in
// messages. The error names every fault with its line; warnings are rules that
// load but never change a verdict, or change too many.
func Load(data []byte, name string) (*Policy, []Warning, error) {
	p := newPolicy()
	if _, err := p.read(builtinYAML, "built-in policy"); err != nil {
		return nil, nil, err
	}
	own, err := p.read(data, name)
	if err != nil {
		return nil, nil, err
	}
	p.seal(builtinYAML, data)
	return p, append(p.idleTargets(data), p.review(own)...), nil
}

// idleTargets warns of targets that never count, because of a word in them.
func (p *Policy) idleTargets(data []byte) []Warning {
	var out []Warning
	for _, t := range p.targets {
		if p.safeTarget(t) {
			continue
		}
		at := slices.IndexFunc(bytes.Split(data, []byte("\n")), func(l []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(l, ` {"`), []byte("targets")) })
		out = append(out, Warning{Line: at + 1, Text: fmt.Sprintf("target %q never counts: one of target_stops is in it", t)})
	}
	return out
}

func newPolicy() *Policy {
	p := &Policy{tables: loadTables(), builtins: builtinTable(), protectedName: map[string]bool{}, stdinPrograms: map[string]Tier{}}
	for _, n := range protectedNames {
		n = strings.ToLower(strings.TrimSuffix(n, "/"))
		switch {
		case strings.HasPrefix(n, "*"):
			p.protectedEnds = append(p.protectedEnds, n[1:])
		case strings.HasSuffix(n, "*"):
			p.protectedStarts = append(p.protectedStarts, n[:len(n)-1])
		default:
			p.protectedName[n] = true
		}
	}
	return p
}

func (p *Policy) seal(files ...[]byte) {
	h := sha256.New()
	fmt.Fprintf(h, "tables %s\n", tablesVersion)
	for _, f := range files {
		fmt.Fprintf(h, "%d\n", len(f))
		h.Write(f)
	}
	p.version = hex.EncodeToString(h.Sum(nil))
}

// reader collects faults while a file is read.
type reader struct {
	name string
	errs []error
}

func (r *reader) fault(n ast.Node, format string, args ...any) {
	line := 1
	if n != nil && n.GetToken() != nil {
		line = n.GetToken().Position.Line
	}
	r.errs = append(r.errs, fmt.Errorf("%s:%d: %s", r.name, line, fmt.Sprintf(format, args...)))
}

// read adds a file to the policy and returns the rules it brought.
func (p *Policy) read(data []byte, name string) ([]*rule, error) {
	file, err := parser.ParseBytes(bytes.TrimPrefix(data, []byte("\ufeff")), 0)
	var syntax *yaml.SyntaxError
	switch {
	case errors.As(err, &syntax) && syntax.Token != nil && syntax.Token.Position != nil:
		return nil, fmt.Errorf("%s:%d: %s", name, syntax.Token.Position.Line, syntax.Message)
	case err != nil:
		return nil, fmt.Errorf("%s: is not YAML", name)
	}
	r := &reader{name: name}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil, nil
	}
	if len(file.Docs) > 1 {
		r.fault(file.Docs[1].Body, "one document is enough")
	}
	from := len(p.rules)
	r.mapping(file.Docs[0].Body, "the file", func(key string, k, v ast.Node) {
		switch key {
		case "version":
			if s := r.scalar(v); s != "1" {
				r.fault(v, "version %q is not known: want 1", s)
			}
		case "targets":
			p.targets = r.lowerList(v)
		case "target_stops":
			p.targetStops = r.lowerList(v)
		case "protected":
			p.protectedGlob = r.list(v)
		case "scratch":
			p.scratchDirs = r.dirs(v)
		case "stdin":
			p.readStdin(r, v)
		case "rules":
			p.readRules(r, v)
		default:
			r.fault(k, "unknown key %q", key)
		}
	})
	return p.rules[from:], errors.Join(r.errs...)
}

// mapping calls f for each key of a mapping.
func (r *reader) mapping(n ast.Node, what string, f func(key string, k, v ast.Node)) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		r.fault(n, "%s is not a mapping", what)
		return
	}
	seen := map[string]bool{}
	for _, kv := range m.Values {
		key := r.scalar(kv.Key)
		if seen[key] {
			r.fault(kv.Key, "key %q is given twice", key)
			continue
		}
		seen[key] = true
		f(key, kv.Key, kv.Value)
	}
}

// scalar is a plain value as text.
func (r *reader) scalar(n ast.Node) string {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		return n.Value.Value
	case *ast.NullNode:
		return ""
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode:
		return n.GetToken().Value
	}
	r.fault(n, "a plain value is wanted here")
	return ""
}

// list is a sequence of plain values, or one of them.
func (r *reader) list(n ast.Node) []string {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		if s := r.scalar(n); s != "" {
			return []string{s}
		}
		return nil
	}
	out := make([]string, 0, len(seq.Values))
	for _, v := range seq.Values {
		s := r.scalar(v)
		if s == "" {
			r.fault(v, "an empty value says nothing")
			continue
		}
		out = append(out, s)
	}
	return out
}

func (r *reader) lowerList(n ast.Node) []string {
	out := r.list(n)
	for i := range out {
		out[i] = strings.ToLower(out[i])
	}
	return out
}

func (r *reader) dirs(n ast.Node) []string {
	out := r.list(n)
	for i, d := range out {
		if !strings.HasPrefix(d, "/") || cleanPath(d) == "/" {
			r.fault(n, "%q is not an absolute directory below the root", d)
			continue
		}
		out[i] = cleanPath(d)
	}
	return out
}

func (r *reader) tier(n ast.Node) Tier {
	t, err := ParseTier(r.scalar(n))
	if err != nil {
		r.fault(n, "%v", err)
	}
	return t
}

func (p *Policy) readStdin(r *reader, n ast.Node) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		r.fault(n, "stdin is not a list")
		return
	}
	for _, v := range seq.Values {
		program, tier, before := "", Risky, len(r.errs)
		r.mapping(v, "an entry of stdin", func(key string, k, v ast.Node) {
			switch key {
			case "program":
				program = r.scalar(v)
			case "tier":
				tier = r.tier(v)
			default:
				r.fault(k, "unknown key %q", key)
			}
		})
		switch {
		case len(r.errs) > before:
		case program == "" || strings.Contains(program, "/"):
			r.fault(v, "program is not a name without a directory")
		case in([]string{"sh", "bash", "dash", "ash"}, program):
			r.fault(v, "a shell's text is always judged as a script")
		default:
			p.stdinPrograms[program] = tier
		}
	}
}

func (p *Policy) readRules(r *reader, n ast.Node) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		r.fault(n, "rules is not a list")
		return
	}
	for _, v := range seq.Values {
		before := len(r.errs)
		ru := r.rule(v)
		for _, have := range slices.Concat(p.rules, p.toolRules) {
			if have.id == ru.id && ru.id != "" {
				r.fault(v, "rule %q is defined twice, first at line %d", ru.id, have.line)
			}
		}
		switch {
		case len(r.errs) != before:
		case ru.tool != nil:
			p.toolRules = append(p.toolRules, ru)
		default:
			p.rules = append(p.rules, ru)
		}
	}
}

// rule reads one rule.
func (r *reader) rule(n ast.Node) *rule {
	ru := &rule{tier: -1, file: r.name, line: n.GetToken().Position.Line}
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 {
		ru.line = m.Values[0].Key.GetToken().Position.Line
	}
	before := len(r.errs)
	r.mapping(n, "a rule", func(key string, k, v ast.Node) {
		switch key {
		case "id":
			ru.id = r.scalar(v)
		case "command":
			ru.command = r.list(v)
		case "subcommand":
			ru.sub = r.list(v)
		case "flags":
			ru.flags = r.list(v)
		case "path":
			ru.path = r.list(v)
		case "host":
			ru.host = r.lowerList(v)
		case "backend":
			ru.backend = r.list(v)
		case "isolated":
			b, ok := v.(*ast.BoolNode)
			if !ok {
				r.fault(v, "isolated is true or false")
				return
			}
			ru.isolated = &b.Value
		case "argv":
			ru.argv = r.list(v)
		case "tool":
			ru.tool = r.list(v)
		case "tier":
			ru.tier = r.tier(v)
		case "reason":
			ru.reason = r.scalar(v)
		default:
			r.fault(k, "unknown key %q in a rule", key)
		}
	})
	if len(r.errs) == before { // else what follows from the fault would be reported too
		r.checkRule(n, ru)
	}
	return ru
}

// checkRule refuses rules that cannot mean what they say.
func (r *reader) checkRule(n ast.Node, ru *rule) {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 {
		n = m.Values[0].Key
	}
	switch {
	case ru.id == "":
		r.fault(n, "a rule needs an id")
	case ru.tier < Safe:
		r.fault(n, "rule %q has no tier", ru.id)
	case ru.tool != nil:
		if what := ru.checkTool(); what != "" {
			r.fault(n, "rule %q %s", ru.id, what)
		}
		return
	case ru.argv == nil && ru.tier < Risky:
		r.fault(n, "rule %q would lower commands to %s without naming their exact shape: give argv", ru.id, ru.tier)
	case ru.argv != nil && len(ru.argv) == 0:
		r.fault(n, "rule %q: argv is empty", ru.id)
	case ru.argv != nil && (len(ru.command) > 0 || len(ru.sub) > 0 || len(ru.flags) > 0):
		r.fault(n, "rule %q gives argv, which holds command, subcommand and flags already", ru.id)
	case len(ru.sub) > 0 && len(ru.command) == 0:
		r.fault(n, "rule %q gives a subcommand without a command", ru.id)
	}
	for _, f := range ru.flags {
		if !strings.HasPrefix(f, "-") {
			r.fault(n, "rule %q: flag %q does not start with a dash", ru.id, f)
		}
	}
	for _, c := range ru.command {
		switch {
		case strings.Contains(c, "/"):
			r.fault(n, "rule %q: command %q is not a name without a directory", ru.id, c)
		case strings.ContainsAny(c, "*?[ "):
			r.fault(n, "rule %q: command %q is not a name: it is compared as it stands", ru.id, c)
		}
	}
	r.checkShape(n, ru)
}

// checkShape refuses shapes that leave open what would run.
func (r *reader) checkShape(n ast.Node, ru *rule) {
	if len(ru.argv) == 0 {
		return
	}
	open := 0
	for i, a := range ru.argv {
		if !strings.HasPrefix(a, "{") {
			for _, p := range []string{"{path}", "{paths}", "{word}"} {
				if strings.Contains(a, p) {
					r.fault(n, "rule %q: %s must be a word of its own, not a part of %q", ru.id, p, a)
				}
			}
			continue
		}
		switch {
		case i == 0:
			r.fault(n, "rule %q does not name the program", ru.id)
		case a == "{paths}" && i != len(ru.argv)-1:
			r.fault(n, "rule %q: {paths} must stand last", ru.id)
		case a != "{path}" && a != "{paths}" && a != "{word}":
			r.fault(n, "rule %q: unknown placeholder %q", ru.id, a)
		}
		open++
	}
	if open > 0 && runsOthers(ru.argv[0]) {
		r.fault(n, "rule %q: %q runs what it is given, so its words must all be literal", ru.id, ru.argv[0])
	}
}

// runsOthers reports whether a program runs other commands or code: no open
// shape of it is narrow.
func runsOthers(name string) bool {
	sp := loadTables().specs[name]
	if sp == nil {
		return false
	}
	for _, a := range []string{
		"wrap", "coverwrap", "env", "busybox", "xargs", "watch", "flock", "script", "parallel", "strings", "sudo", "su",
		"trace", "riskywrap", "escape", "shell", "ssh", "tmux", "envrun", "at", "python", "interp", "node", "editor",
		"sql", "find", "docker", "npx", "java",
	} {
		if sp.attr(a) {
			return true
		}
	}
	return name == "eval" || name == "source" || name == "." || name == "exec" || name == "command" || name == "builtin" || name == "trap"
}
