package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// setPrefix marks an approver entry that names a set of approvals.sets.
const setPrefix = "set:"

// accessVerbs are the commands that approvals.access may restrict.
var accessVerbs = []string{"message", "stop", "pause", "title", "model", "fork", "switch", "destroy", "revoke"}

// Approvals is who may approve what, and for how long.
type Approvals struct {
	TTL       time.Duration `key:"ttl" default:"24h" doc:"An approval request expires after this, counted from the delivery of its card."`
	Approvers []string      `key:"approvers" default:"" shown:"none; in cmd/dev *" doc:"Who may approve: IDs of people, IDs or names of the platform's groups, 'set:NAME' for a set of approvals.sets; '*' is everybody. Without any, risky calls are refused with a sentence."`
	Sets      []string      `key:"sets" default:"" shown:"none" doc:"Named sets of approvers, each as NAME=MEMBER MEMBER …; a set that is named and not defined refuses to start."`
	Access    []string      `key:"access" default:"" shown:"message, stop, fork: members; switch, destroy, revoke: starter approvers" doc:"Who may drive a session, each as COMMAND=WHO WHO …: message, stop, pause, title, model, fork, switch, destroy, revoke; WHO is members, starter, approvers, an ID or a group."`
	Channels  []string      `key:"channels" default:"" shown:"none" doc:"Approvers of single channels, each as CHANNEL=MEMBER MEMBER …; they replace approvals.approvers and those of a tier there."`
	Risky     ApprovalRule  `key:"risky"`
	Critical  ApprovalRule  `key:"critical" default.required:"2"`
}

// ApprovalRule is what one tier's approval takes.
type ApprovalRule struct {
	Required            int           `key:"required" default:"1" doc:"Distinct approvers that a request of this tier needs."`
	RequesterMayApprove bool          `key:"requester_may_approve" default:"false" doc:"Whether those who asked may count as approvers of this tier."`
	Approvers           []string      `key:"approvers" default:"" shown:"approvals.approvers" doc:"Approvers of this tier alone."`
	TTL                 time.Duration `key:"ttl" default:"0s" shown:"approvals.ttl" doc:"When requests of this tier expire."`
	Notify              []string      `key:"notify" default:"" shown:"the approvers" doc:"Whom a card of this tier pings, once, when it is posted."`
	BreakGlass          []string      `key:"break_glass" default:"" shown:"none" doc:"Who may approve a request of this tier alone, also their own, with a reason and on a loud record."`
	WidenAfter          time.Duration `key:"widen_after" default:"0s" shown:"never" doc:"After this without a decision widen_to may approve too."`
	WidenTo             []string      `key:"widen_to" default:"" shown:"none" doc:"Second set of approvers."`
}

// For returns the rule of a tier, risky or critical, in a channel, with sets
// expanded and defaults filled in.
func (a Approvals) For(tier, channel string) ApprovalRule {
	r := a.Risky
	if tier == "critical" {
		r = a.Critical
	}
	if len(r.Approvers) == 0 {
		r.Approvers = a.Approvers
	}
	if own, ok := pairs(a.Channels)[channel]; ok && channel != "" {
		r.Approvers = own
	}
	if r.TTL == 0 {
		r.TTL = a.TTL
	}
	sets := pairs(a.Sets)
	for _, list := range []*[]string{&r.Approvers, &r.Notify, &r.BreakGlass, &r.WidenTo} {
		*list = expand(*list, sets)
	}
	return r
}

// AccessRules are the entries of Access by command, sets expanded.
func (a Approvals) AccessRules() map[string][]string {
	out := pairs(a.Access)
	for verb, who := range out {
		out[verb] = expand(who, pairs(a.Sets))
	}
	return out
}

// All returns every approver of any rule, sets expanded: those whom a chat
// service must be able to resolve.
func (a Approvals) All() []string {
	var all []string
	for _, list := range a.lists() {
		all = append(all, expand(list.members, pairs(a.Sets))...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func expand(members []string, sets map[string][]string) []string {
	var out []string
	for _, m := range members {
		add := []string{m}
		if name, ok := strings.CutPrefix(m, setPrefix); ok {
			add = sets[name]
		}
		for _, x := range add {
			if !slices.Contains(out, x) {
				out = append(out, x)
			}
		}
	}
	return out
}

// pairs reads NAME=MEMBER MEMBER … entries; faulty ones are left out.
func pairs(entries []string) map[string][]string {
	out := map[string][]string{}
	for _, e := range entries {
		name, members, ok := strings.Cut(e, "=")
		if ok && strings.TrimSpace(name) != "" {
			out[strings.TrimSpace(name)] = strings.Fields(members)
		}
	}
	return out
}

type namedList struct {
	key     string
	members []string
}

// lists are all lists of approvers with their keys.
func (a Approvals) lists() []namedList {
	out := []namedList{{"approvals.approvers", a.Approvers}}
	for _, t := range []struct {
		tier string
		rule ApprovalRule
	}{{"risky", a.Risky}, {"critical", a.Critical}} {
		key := "approvals." + t.tier + "."
		out = append(out, namedList{key + "approvers", t.rule.Approvers}, namedList{key + "notify", t.rule.Notify},
			namedList{key + "break_glass", t.rule.BreakGlass}, namedList{key + "widen_to", t.rule.WidenTo})
	}
	for _, e := range a.Channels {
		_, members, _ := strings.Cut(e, "=")
		out = append(out, namedList{"approvals.channels", strings.Fields(members)})
	}
	return out
}

func (c *Config) checkApprovals(k *checker) {
	a := c.Approvals
	k.positive("approvals.ttl", a.TTL)
	k.pairs("approvals.sets", a.Sets)
	k.pairs("approvals.channels", a.Channels)
	k.pairs("approvals.access", a.Access)
	for verb := range pairs(a.Access) {
		k.oneOf("approvals.access", verb, accessVerbs...)
	}
	sets := pairs(a.Sets)
	for name, members := range sets {
		for _, m := range members {
			if strings.HasPrefix(m, setPrefix) {
				k.fault("approvals.sets", "%s holds %s: sets hold people and groups, not sets", name, m)
			}
		}
	}
	for _, list := range a.lists() {
		for _, m := range list.members {
			if name, ok := strings.CutPrefix(m, setPrefix); ok && len(sets[name]) == 0 {
				k.fault(list.key, "%s is not defined in approvals.sets", m)
			}
		}
	}
	for _, tier := range []string{"risky", "critical"} {
		c.checkTier(k, tier)
	}
	if len(a.All()) == 0 {
		k.warn("approvals.approvers is empty: nobody may approve, so every call that needs an approval is refused")
	}
}

func (c *Config) checkTier(k *checker, tier string) {
	r, key := c.Approvals.For(tier, ""), "approvals."+tier+"."
	k.atLeastOne(key+"required", r.Required)
	switch {
	case r.TTL < 0:
		k.fault(key+"ttl", "must not be below 0, as %s is", r.TTL)
	case r.WidenAfter < 0 || (r.WidenAfter > 0 && r.WidenAfter >= r.TTL):
		k.fault(key+"widen_after", "must be shorter than the request lives (%s), not %s", r.TTL, r.WidenAfter)
	case r.WidenAfter > 0 && len(r.WidenTo) == 0:
		k.warn("%swiden_after is set and %swiden_to is empty: nobody else is asked", key, key)
	case r.WidenAfter == 0 && len(r.WidenTo) > 0:
		k.warn("%swiden_to is set and %swiden_after is not: nobody else is asked", key, key)
	}
	if named := len(r.Approvers); named > 0 && !slices.Contains(r.Approvers, "*") && named < r.Required {
		k.warn("%s calls have %d approvers and need %d: unless one of them is a group, such a call can never be approved",
			tier, named, r.Required)
	}
}

// pairs checks NAME=MEMBER MEMBER … entries.
func (k *checker) pairs(key string, entries []string) {
	seen := map[string]bool{}
	for _, e := range entries {
		name, members, ok := strings.Cut(e, "=")
		name = strings.TrimSpace(name)
		switch {
		case !ok || name == "" || len(strings.Fields(members)) == 0:
			k.fault(key, "%q is not NAME=MEMBER MEMBER …", e)
		case seen[name]:
			k.fault(key, "%s", fmt.Sprintf("%s stands twice", name))
		}
		seen[name] = true
	}
}
