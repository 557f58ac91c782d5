package policy

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// review finds rules that never change a verdict, or change too many.
func (p *Policy) review(own []*rule) []Warning {
	var out []Warning
	warn := func(r *rule, format string, args ...any) {
		out = append(out, Warning{Line: r.line, Text: fmt.Sprintf("rule %q ", r.id) + fmt.Sprintf(format, args...)})
	}
	for _, r := range own {
		for _, b := range r.backend {
			if !in([]string{"local", "docker", "e2b", "daytona", "modal"}, b) {
				warn(r, "is unreachable: no backend is called %q", b)
			}
		}
		if r.argv == nil && r.broad() {
			warn(r, "is over-broad: it raises every command to %s", r.tier)
		}
		for _, name := range r.command {
			if !p.knows(name) && r.tier <= Risky {
				warn(r, "changes nothing: %q is not a command that the policy knows, so it is risky already", name)
			}
		}
		for _, pat := range r.path {
			if !strings.HasPrefix(pat, "/") && !strings.HasPrefix(pat, "*") {
				warn(r, "is unreachable: the path %q starts with neither / nor *, and paths are absolute", pat)
			}
		}
		if why := p.idleShape(r); why != "" {
			warn(r, "%s", why)
		}
		for _, o := range p.rules {
			if why := r.shadowedBy(o); why != "" {
				warn(r, "%s", why)
			}
		}
	}
	return out
}

// idleShape says why a rule with a shape never changes a verdict or lowers more
// than it seems to, or "".
func (p *Policy) idleShape(r *rule) string {
	if len(r.argv) == 0 {
		return ""
	}
	if strings.Contains(r.argv[0], "/") {
		return "is unreachable: a program named by its path is never lowered"
	}
	if len(r.argv) > 1 && r.argv[1] == "{word}" && p.hasSubcommands(r.argv[0]) && r.tier < Risky {
		return fmt.Sprintf("is over-broad: it leaves open which command %q is given", r.argv[0])
	}
	least, most := Forbidden, Safe
	for _, isolated := range []bool{true, false} {
		if r.isolated != nil && *r.isolated != isolated {
			continue
		}
		t := Default().Judge(sampleOf(r.argv), Env{Isolated: isolated, Cwd: "/workspace", Home: "/home/agent", Workspace: "/workspace"}, Facts{}).Tier
		least, most = min(least, t), max(most, t)
	}
	switch {
	case least == Forbidden && r.tier < Forbidden:
		return "never lowers anything: what it matches is forbidden"
	case least == r.tier && most == r.tier:
		return fmt.Sprintf("changes nothing: what it matches is %s already", r.tier)
	}
	return ""
}

// hasSubcommands reports whether a program's first word says what it does.
func (p *Policy) hasSubcommands(name string) bool {
	sp := p.spec(name)
	return sp != nil && slices.ContainsFunc([]string{
		"git", "go", "cargo", "npm", "docker", "remote", "system", "packages", "services", "targets", "make",
	}, sp.attr)
}

// sampleOf is a command line of a shape.
func sampleOf(argv []string) string {
	parts := make([]string, len(argv))
	for i, a := range argv {
		switch a {
		case "{path}", "{paths}", "{word}":
			a = "x"
		}
		q, err := syntax.Quote(a, syntax.LangBash)
		if err != nil {
			return "x"
		}
		parts[i] = q
	}
	return strings.Join(parts, " ")
}

// shadowedBy says why a rule has no effect because of another, or "".
func (r *rule) shadowedBy(o *rule) string {
	switch {
	case o == r || o.argv != nil && r.argv == nil:
	case r.argv == nil && o.tier >= r.tier && o.covers(r) && (o.tier > r.tier || !r.covers(o) || o.line < r.line):
		return fmt.Sprintf("is shadowed: rule %q raises all it matches to %s", o.id, o.tier)
	case r.argv != nil && o.argv == nil && o.tier > r.tier && o.coversShape(r):
		return fmt.Sprintf("never lowers anything: rule %q raises what it matches to %s", o.id, o.tier)
	case r.argv != nil && o.argv != nil && o.tier <= r.tier && slices.Equal(o.argv, r.argv) && o.line < r.line && sameEnv(o, r):
		return fmt.Sprintf("is shadowed: rule %q has the same shape", o.id)
	}
	return ""
}

// broad reports whether a raising rule has no selector that narrows it to some
// commands.
func (r *rule) broad() bool {
	all := func(pats []string) bool {
		for _, p := range pats {
			if strings.Trim(p, "*/") == "" {
				return true
			}
		}
		return len(pats) == 0
	}
	return len(r.command) == 0 && all(r.path) && all(r.host)
}

// covers reports whether r matches whatever o matches.
func (r *rule) covers(o *rule) bool {
	return subset(o.command, r.command) && subset(o.sub, r.sub) && subset(o.backend, r.backend) && subset(o.path, r.path) && subset(o.host, r.host) &&
		supersetFlags(o.flags, r.flags) && (r.isolated == nil || o.isolated != nil && *o.isolated == *r.isolated)
}

// coversShape reports whether a raising rule matches whatever a shape matches.
func (r *rule) coversShape(o *rule) bool {
	if len(r.path) > 0 || len(r.host) > 0 || !subset(o.backend, r.backend) || (r.isolated != nil && (o.isolated == nil || *o.isolated != *r.isolated)) {
		return false
	}
	if len(r.command) > 0 && !in(r.command, o.argv[0]) {
		return false
	}
	if len(r.sub) > 0 && (len(o.argv) < 2 || !in(r.sub, o.argv[1])) {
		return false
	}
	for _, f := range r.flags {
		if !in(o.argv, f) {
			return false
		}
	}
	return true
}

func sameEnv(a, b *rule) bool {
	return subset(a.backend, b.backend) && subset(b.backend, a.backend) && (a.isolated == nil) == (b.isolated == nil) && (a.isolated == nil || *a.isolated == *b.isolated)
}

// subset reports whether a selector a is at least as narrow as b; an empty one
// matches everything.
func subset(a, b []string) bool {
	if len(b) == 0 {
		return true
	}
	if len(a) == 0 {
		return false
	}
	for _, s := range a {
		if !in(b, s) {
			return false
		}
	}
	return true
}

// supersetFlags: more required flags match less.
func supersetFlags(a, b []string) bool {
	for _, s := range b {
		if !in(a, s) {
			return false
		}
	}
	return true
}
