package workflows

import (
	"slices"
	"strings"
)

// mayDecide answers whether a person's verdict on a request counts, and if not,
// what they are told.
func (s *session) mayDecide(a *Approval, d Decision) (Outcome, bool) {
	who := "This needs " + neededText(a.Rule) + "."
	notYours := func(text string) (Outcome, bool) { return Outcome{OutcomeNotYours, text}, false }
	switch {
	case d.By.Bot || d.By.Guest || d.By.External:
		return notYours(who + " Bots, guests and people from other organisations do not count.")
	case d.Verdict == VerdictWithdraw && !s.requested(a, d.By):
		return notYours("Only those who asked for this can withdraw it.")
	case d.Verdict == VerdictWithdraw:
		return Outcome{}, true
	case len(a.Rule.Approvers) == 0:
		return notYours("Nobody may approve: no approvers are set. Set approvals.approvers on the worker.")
	case d.BreakGlass && !isApprover(a.Rule.BreakGlass, d.By):
		return notYours("You may not approve this alone. " + who)
	case d.BreakGlass && strings.TrimSpace(d.Reason) == "":
		return notYours("To approve this alone, say why: the reason goes on record.")
	case d.BreakGlass:
		return Outcome{}, true
	case !isApprover(a.Rule.Approvers, d.By):
		return notYours(who)
	case d.Verdict == VerdictDeny || d.Verdict == VerdictChanges:
		return Outcome{}, true
	case s.requested(a, d.By) && !a.Rule.RequesterMayApprove:
		return notYours("You asked for this, so your own approval does not count. " + who)
	case d.Edit == "" && slices.ContainsFunc(a.Votes, func(v Vote) bool { return v.By.ID == d.By.ID }):
		return Outcome{OutcomeAlreadyDecided, "Your vote is recorded: " + strings.TrimPrefix(s.recordedText(a), "Recorded: ")}, false
	}
	return Outcome{}, true
}

// requested reports whether the person asked for it: whether the turn has taken a
// message of theirs, or a switch is their own.
func (s *session) requested(a *Approval, by Actor) bool {
	if a.Switch != nil {
		return a.Switch.By.ID == by.ID
	}
	return s.st.Turn != nil && slices.ContainsFunc(s.st.Turn.Requesters, func(r Actor) bool { return r.ID == by.ID })
}

func isApprover(approvers []string, by Actor) bool {
	for _, a := range approvers {
		if a == "*" || a == by.ID || slices.Contains(by.Groups, a) {
			return true
		}
	}
	return false
}

// neededText names who has to decide, for "This needs …".
func neededText(r ApprovalRule) string {
	switch everybody := slices.Contains(r.Approvers, "*"); {
	case everybody && r.RequesterMayApprove:
		return "a member of this team"
	case everybody:
		return "somebody who did not ask for it"
	}
	return approversText(r.Approvers)
}

// approversText names those who may approve: "@a, @b or @c".
func approversText(approvers []string) string {
	if slices.Contains(approvers, "*") {
		return "everybody else"
	}
	names := make([]string, len(approvers))
	for i, a := range approvers {
		names[i] = "@" + a
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
