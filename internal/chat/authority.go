package chat

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/countersign/countersign/internal/workflows"
)

// Who a rule of [Authority] may name, beside people's IDs and groups.
const (
	// WhoMembers is everybody whom the platform lets write where the session is.
	WhoMembers = "members"
	// WhoStarter is who started the session.
	WhoStarter = "starter"
	// WhoApprovers are those who may approve.
	WhoApprovers = "approvers"
)

// Authority says who may drive a session; its method Allow is [Router.Allow].
// Without rules of its own members message, stop and fork, and the starter or an
// approver switches, destroys and revokes. It keeps no state.
type Authority struct {
	// Approvers reports whether a person is in the approver sets; [InSet] makes
	// one of config's list. Nil is nobody. The person's groups must be known.
	Approvers func(workflows.Actor) bool
	// Named are the approvers as config has them, for the sentence of a refusal.
	Named []string
	// Rules say who may give a command: [WhoMembers], [WhoStarter],
	// [WhoApprovers], IDs, groups and "*". A verb without a rule has the default.
	Rules map[Verb][]string
	// Sessions tells who started a session.
	Sessions interface {
		TurnState(ctx context.Context, workflowID string) (workflows.TurnState, error)
	}
	Style Style
}

// InSet reports whether people are in a set of IDs and groups; "*" is everybody.
// Bots, guests and people of other organisations are in none.
func InSet(set []string) func(workflows.Actor) bool {
	return func(by workflows.Actor) bool {
		if by.Bot || by.Guest || by.External {
			return false
		}
		return slices.ContainsFunc(set, func(who string) bool {
			return who == "*" || who == by.ID || slices.Contains(by.Groups, who)
		})
	}
}

// Allow returns nil if the person may give the command to the thread's session,
// else a refusal that names who may.
func (a *Authority) Allow(ctx context.Context, by workflows.Actor, verb Verb, t workflows.Thread) *Error {
	rule := a.rule(verb)
	if slices.Contains(rule, WhoMembers) || InSet(rule)(by) {
		return nil
	}
	if slices.Contains(rule, WhoApprovers) && a.Approvers != nil && a.Approvers(by) {
		return nil
	}
	if t.ID == "" {
		if slices.Contains(rule, WhoStarter) {
			return nil // it leads to the choice of a session, which is asked about then
		}
		return a.refusal(rule, verb, nil)
	}
	if !slices.Contains(rule, WhoStarter) {
		return a.refusal(rule, verb, nil)
	}
	st, err := a.Sessions.TurnState(ctx, t.WorkflowID())
	switch {
	case errors.Is(err, workflows.ErrNoSession):
		return nil // there is nothing to protect, which is said
	case err != nil:
		return &Error{
			Kind: KindUnavailable, Code: "starter_unknown", Message: "Who started this session could not be looked up, so nothing was done.",
			Hint: "Try again in a moment.", Err: err,
		}
	case st.Header.By.ID == by.ID && by.ID != "":
		return nil
	}
	return a.refusal(rule, verb, &st.Header.By)
}

func (a *Authority) rule(verb Verb) []string {
	if rule, ok := a.Rules[verb]; ok {
		return rule
	}
	switch verb {
	case VerbSwitch, VerbDestroy, VerbRevoke:
		return []string{WhoStarter, WhoApprovers}
	}
	return []string{WhoMembers}
}

// refusal names those who may.
func (a *Authority) refusal(rule []string, verb Verb, starter *workflows.Actor) *Error {
	var who, ids []string
	if slices.Contains(rule, WhoStarter) {
		who = append(who, a.starter(starter))
		if starter != nil {
			ids = append(ids, starter.ID)
		}
	}
	for _, name := range rule {
		set := []string{name}
		switch name {
		case WhoStarter:
			continue
		case WhoApprovers:
			set = a.Named
		}
		for _, id := range set {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
				who = append(who, a.approver(id))
			}
		}
	}
	message := "Nobody may " + doing(verb) + "."
	hint := "Ask whoever set Countersign up."
	if len(who) > 0 {
		message, hint = "Only "+or(who)+" may "+doing(verb)+".", "Ask one of them."
	}
	return &Error{Kind: KindForbidden, Code: "not_yours", Message: message, Hint: hint}
}

func (a *Authority) starter(by *workflows.Actor) string {
	if by == nil || by.ID == "" || a.Style.Person == nil {
		return "who started the session"
	}
	return a.Style.Person(*by) + " (who started the session)"
}

func (a *Authority) approver(id string) string {
	if a.Style.Approver == nil {
		return plainApprover(id)
	}
	return a.Style.Approver(id)
}

// or joins names: "@a", "@a or @b", "@a, @b or @c".
func or(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// doing is what a command does, for "may …".
func doing(verb Verb) string {
	switch verb {
	case VerbRun:
		return "give this session tasks"
	case VerbSwitch:
		return "move this session to another backend"
	case VerbDestroy:
		return "destroy this session"
	case VerbRevoke:
		return "revoke this session's permissions"
	case VerbStop:
		return "stop this session"
	case VerbFork, VerbNew:
		return "copy this session"
	case VerbPause:
		return "pause this session"
	}
	return "use " + Code(string(verb)) + " here"
}
