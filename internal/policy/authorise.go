package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Everybody in a list of approvers is every person; bots, guests and people of
// other organisations are still left out.
const Everybody = "*"

// Person is somebody who acts in chat, with the bot's evidence of who they are.
type Person struct {
	ID       string
	Groups   []string // user groups and roles, by the names that config uses
	Bot      bool
	Guest    bool
	External bool // of another organisation; a failed look-up counts as this
}

// Rule is who may decide requests of one tier, and how.
type Rule struct {
	// Required is how many distinct people must approve; below 1 means 1.
	Required int
	// RequesterMayApprove lets those whose messages the turn has taken approve.
	RequesterMayApprove bool
	// TTL is how long a request waits, counted from its card's delivery.
	TTL time.Duration
	// Approvers are person IDs, group names and [Everybody]. Without any nobody
	// may decide.
	Approvers []string
}

// Vote is one person's recorded decision.
type Vote struct {
	By     Person
	Deny   bool
	At     time.Time
	Reason string
}

// State is where a request stands.
type State string

// The states of a request as votes alone decide them; expiry and changes are
// the workflow's to know.
const (
	StatePending  State = "pending"
	StateApproved State = "approved"
	StateDenied   State = "denied"
)

// Refusal is why a person's click does not count.
type Refusal string

// The refusals, each with its own sentence.
const (
	RefusalNone         Refusal = ""
	RefusalNoApprovers  Refusal = "no_approvers"
	RefusalNotApprover  Refusal = "not_approver"
	RefusalRequester    Refusal = "requester"
	RefusalAlreadyVoted Refusal = "already_voted"
	RefusalBot          Refusal = "bot"
	RefusalGuest        Refusal = "guest"
	RefusalExternal     Refusal = "external"
	RefusalDecided      Refusal = "decided"
)

// Outcome is what a person may do about a request, and where it stands.
type Outcome struct {
	State State
	// Approvals are the distinct people whose approval counts, in vote order.
	Approvals []string
	Required  int
	// DecidedBy and DecidedAt are the vote that decided, when State is not pending.
	DecidedBy string
	DecidedAt time.Time
	// MayApprove and MayDeny say what the person's click would do.
	MayApprove bool
	MayDeny    bool
	// Refusal is why they may not approve, and Text the sentence to tell them.
	Refusal Refusal
	Text    string
}

// Authorise says what a person may do about a request that these people asked
// for and these votes were given on. Votes of people who may not decide, by the
// facts in the votes, do not count; so a caller checks membership again by
// passing what is true now. One denial ends a request.
func Authorise(rule Rule, by Person, requesters []string, votes []Vote) Outcome {
	o := Tally(rule, requesters, votes)
	why := refusal(rule, by, requesters)
	o.MayDeny = o.State == StatePending && (why == RefusalNone || why == RefusalRequester)
	switch {
	case o.State != StatePending && (why == RefusalNone || why == RefusalRequester):
		why = RefusalDecided
	case why == RefusalNone && slices.Contains(o.Approvals, by.ID):
		why = RefusalAlreadyVoted
	}
	o.Refusal, o.Text = why, o.sentence(rule, why)
	o.MayApprove = why == RefusalNone
	return o
}

// Tally counts the votes that are valid.
func Tally(rule Rule, requesters []string, votes []Vote) Outcome {
	o := Outcome{State: StatePending, Required: max(1, rule.Required)}
	for _, v := range votes {
		why := refusal(rule, v.By, requesters)
		switch {
		case v.Deny && (why == RefusalNone || why == RefusalRequester):
			o.State, o.DecidedBy, o.DecidedAt = StateDenied, v.By.ID, v.At
			return o
		case v.Deny || why != RefusalNone || slices.Contains(o.Approvals, v.By.ID):
			continue
		}
		o.Approvals = append(o.Approvals, v.By.ID)
		if len(o.Approvals) == o.Required {
			o.State, o.DecidedBy, o.DecidedAt = StateApproved, v.By.ID, v.At
		}
	}
	return o
}

// refusal says why a person's approval would not count, whatever was voted.
func refusal(rule Rule, by Person, requesters []string) Refusal {
	switch {
	case len(rule.Approvers) == 0:
		return RefusalNoApprovers
	case by.Bot:
		return RefusalBot
	case by.External:
		return RefusalExternal
	case by.Guest:
		return RefusalGuest
	case !listed(rule.Approvers, by):
		return RefusalNotApprover
	case !rule.RequesterMayApprove && slices.Contains(requesters, by.ID):
		return RefusalRequester
	}
	return RefusalNone
}

// listed reports whether a list names a person, one of their groups, or
// everybody. An empty ID or group is nobody's.
func listed(list []string, by Person) bool {
	if by.ID == "" {
		return false
	}
	for _, a := range list {
		a = strings.TrimPrefix(a, "@")
		if a == Everybody || a == by.ID {
			return true
		}
		if a == "" {
			continue
		}
		for _, g := range by.Groups {
			if strings.TrimPrefix(g, "@") == a {
				return true
			}
		}
	}
	return false
}

// MayApproveText names who may decide: "@platform-oncall or @grace".
func (r Rule) MayApproveText() string {
	names := make([]string, 0, len(r.Approvers))
	for _, a := range r.Approvers {
		if a == Everybody {
			return "anybody here"
		}
		if a = strings.TrimPrefix(a, "@"); a != "" {
			names = append(names, "@"+a)
		}
	}
	switch len(names) {
	case 0:
		return "nobody"
	case 1:
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// sentence is what a refused person is told.
func (o Outcome) sentence(rule Rule, why Refusal) string {
	switch why {
	case RefusalNoApprovers:
		return "Nobody may approve here: no approvers are set. Set approvals.approvers, and ask again."
	case RefusalBot:
		return "Bots may not decide requests."
	case RefusalGuest:
		return fmt.Sprintf("Guests may not decide requests. This needs %s.", rule.MayApproveText())
	case RefusalExternal:
		return fmt.Sprintf("People of other organisations may not decide requests. This needs %s.", rule.MayApproveText())
	case RefusalNotApprover:
		return fmt.Sprintf("This needs %s.", rule.MayApproveText())
	case RefusalRequester:
		return fmt.Sprintf("Your messages are part of this turn, so somebody else must approve. This needs %s.", rule.MayApproveText())
	case RefusalAlreadyVoted:
		return fmt.Sprintf("You have approved this already: %d of %d.", len(o.Approvals), o.Required)
	case RefusalDecided:
		return fmt.Sprintf("@%s already %s this.", o.DecidedBy, o.State)
	}
	return ""
}

// Action is something a person asks of a session.
type Action string

// The actions that authority is asked for.
const (
	ActionMessage Action = "message"
	ActionStop    Action = "stop"
	ActionFork    Action = "fork"
	ActionSwitch  Action = "switch"
	ActionDestroy Action = "destroy"
	ActionRevoke  Action = "revoke"
)

// MayAct says whether a person may do something to a session, and if not, a
// sentence that says who may. allowed are the IDs and groups that config gives
// for the action; empty means the default: members of the channel message, stop
// and fork, the starter or an approver does the rest. Bots and people of other
// organisations may do nothing.
func MayAct(action Action, by Person, starter string, allowed, approvers []string) (bool, string) {
	if by.Bot || by.External || by.ID == "" {
		return false, "Bots and people of other organisations may not act on this session."
	}
	if len(allowed) > 0 {
		if listed(allowed, by) {
			return true, ""
		}
		return false, fmt.Sprintf("This needs %s.", Rule{Approvers: allowed}.MayApproveText())
	}
	switch action {
	case ActionMessage, ActionStop, ActionFork:
		return true, ""
	}
	if by.ID == starter || (!by.Guest && listed(approvers, by)) {
		return true, ""
	}
	if len(approvers) == 0 {
		return false, fmt.Sprintf("This needs @%s, who started the session.", starter)
	}
	return false, fmt.Sprintf("This needs @%s, who started the session, or an approver: %s.", starter, Rule{Approvers: approvers}.MayApproveText())
}
