package workflows

import (
	"slices"
	"strings"
)

// mayDecide answers whether a person's verdict on a request counts, and if not,
// what they are told.
func (s *session) mayDecide(a *Approval, d Decision) (Outcome, bool) {
	who := "This needs " + approversText(a.Rule.Approvers) + "."
	requester := s.st.Turn != nil && slices.ContainsFunc(s.st.Turn.Requesters, func(r Actor) bool { return r.ID == d.By.ID })
	switch {
	case d.By.Bot || d.By.Guest || d.By.External:
		return Outcome{OutcomeNotYours, who + " Bots, guests and people from other organisations do not count."}, false
	case d.Verdict == VerdictWithdraw:
		return Outcome{OutcomeNotYours, "Only those who asked for this can withdraw it."}, requester
	case len(a.Rule.Approvers) == 0:
		return Outcome{OutcomeNotYours, "Nobody may approve: no approvers are set. Set approvals.approvers on the worker."}, false
	case !isApprover(a.Rule.Approvers, d.By):
		return Outcome{OutcomeNotYours, who}, false
	case d.Verdict == VerdictDeny:
		return Outcome{}, true
	case requester && !a.Rule.RequesterMayApprove:
		return Outcome{OutcomeNotYours, "You asked for this, so your own approval does not count. " + who}, false
	case slices.ContainsFunc(a.Votes, func(v Vote) bool { return v.By.ID == d.By.ID }):
		return Outcome{OutcomeAlreadyDecided, "Your vote is recorded: " + s.recordedText(a)}, false
	}
	return Outcome{}, true
}

func isApprover(approvers []string, by Actor) bool {
	for _, a := range approvers {
		if a == "*" || a == by.ID || slices.Contains(by.Groups, a) {
			return true
		}
	}
	return false
}

// approversText names those who may approve: "@a, @b or @c".
func approversText(approvers []string) string {
	if slices.Contains(approvers, "*") {
		return "anybody but who asked"
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
