package chat

import (
	"fmt"
	"slices"
	"strings"

	"github.com/countersign/countersign/internal/workflows"
)

// Approval is the approval card: while it is pending who may decide what, then
// the same command and reasons with one line that says what came of it.
func (s Style) Approval(a workflows.ApprovalView) string {
	lines := []string{s.ApprovalTitle(a)}
	if Where(a) != "" {
		lines = append(lines, "In "+Where(a)+":")
	}
	lines = append(lines, "")
	for _, l := range strings.Split(ApprovalCommand(a), "\n") {
		lines = append(lines, "  "+l)
	}
	lines = append(lines, "")
	if why := Why(a); why != "" {
		lines = append(lines, why)
	}
	if a.State == workflows.ApprovalPending {
		lines = append(lines, s.AskedFor(a))
		if a.Queued > 0 {
			lines = append(lines, Count(a.Queued, "message waits", "messages wait")+" behind this request.")
		}
	} else {
		lines = append(lines, s.ApprovalOutcome(a))
	}
	return strings.Join(lines, "\n")
}

// ApprovalTitle is the card's first line: what it is, the tier, the votes of a
// quorum, and until when.
func (s Style) ApprovalTitle(a workflows.ApprovalView) string {
	parts := []string{"Approval needed", a.Tier}
	switch {
	case a.UnknownRun && (a.State != workflows.ApprovalPending || a.Required < 2):
		return "Outcome unknown"
	case a.UnknownRun:
		parts = []string{"Outcome unknown", "to run it again"}
	}
	if a.State != workflows.ApprovalPending {
		if a.BrokeGlass {
			return "Approval · " + a.Tier + " · break-glass"
		}
		return "Approval · " + a.Tier
	}
	votes := approvals(a)
	if a.Required > 1 {
		parts = append(parts, fmt.Sprintf("%d of %d", len(votes), a.Required))
		for _, v := range votes {
			parts = append(parts, s.Person(v.By)+" at "+s.Clock(v.At))
		}
	}
	if !a.ExpiresAt.IsZero() {
		parts = append(parts, "until "+s.Clock(a.ExpiresAt))
	}
	return strings.Join(parts, " · ")
}

// Where is "docker, workspace api, directory /workspace"; of text for a running
// command "docker, workspace api, as text to the running command python3 -i (1.2)".
// What has a terminal says so.
func Where(a workflows.ApprovalView) string {
	parts := []string{a.Backend}
	if a.Workspace != "" {
		parts = append(parts, "workspace "+ShownExactly(a.Workspace))
	}
	if a.Cwd != "" {
		parts = append(parts, "directory "+ShownExactly(a.Cwd))
	}
	switch {
	case a.To != "" && a.Terminal:
		parts = append(parts, "as keys to the terminal of the running command "+Shown(a.To))
	case a.To != "":
		parts = append(parts, "as text to the running command "+Shown(a.To))
	case a.Terminal:
		parts = append(parts, "on a terminal")
	}
	return strings.Join(parts, ", ")
}

// ApprovalCommand is what the card shows of the command. One that is too long or
// cannot be displayed is shown in part, and then only Review leads to approval.
func ApprovalCommand(a workflows.ApprovalView) string {
	text := ShownLines(a.Command.Text)
	switch {
	case a.Command.Ref != "":
		return text + fmt.Sprintf("\n… %d bytes in all: Review shows the whole command", a.Command.Bytes)
	case !a.Displayable:
		return text + "\n… cannot be shown faithfully here: use Review"
	}
	return text
}

// Faithful reports whether a card may show a request's command whole, so that it can
// be approved from the card.
func Faithful(a workflows.ApprovalView) bool { return a.Displayable && a.Command.Ref == "" }

// Why gives the reasons why the request is made, and what the command would lose.
func Why(a workflows.ApprovalView) string {
	lines := []string{Reasons(a), Evidence(a.Evidence)}
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return l == "" }), "\n")
}

// Reasons gives why the request is made, on one line, or one a line where there are
// more reasons. That the only one is of the first segment says nothing.
func Reasons(a workflows.ApprovalView) string {
	var lines []string
	switch why := a.Why(); len(why) {
	case 0:
	case 1:
		lines = append(lines, "Why: "+Sentence(Shown(strings.TrimPrefix(why[0], "segment 1: "))))
	default:
		lines = append(lines, "Why:")
		for _, r := range why {
			lines = append(lines, "- "+Sentence(Shown(r)))
		}
	}
	return strings.Join(lines, "\n")
}

// Evidence is "When asked: 312 files, 48 MB." of phrases on what a command would
// lose; the workspace may have changed since.
func Evidence(phrases []string) string {
	if len(phrases) == 0 {
		return ""
	}
	out := make([]string, len(phrases))
	for i, p := range phrases {
		out[i] = Shown(p)
	}
	return Sentence("When asked: " + strings.Join(out, "; "))
}

// Sentence closes s with a full stop, unless it has one.
func Sentence(s string) string {
	if s == "" || strings.HasSuffix(s, ".") || strings.HasSuffix(s, "?") || strings.HasSuffix(s, "…") {
		return s
	}
	return s + "."
}

// maxNames bounds the names of those who ask: who may approve stands behind them.
const maxNames = 100

// AskedFor says whose session asks and who may decide, and below it what has
// happened to the request meanwhile, one a line.
func (s Style) AskedFor(a workflows.ApprovalView) string {
	text := ""
	if len(a.RequestedBy) > 0 {
		names := make([]string, len(a.RequestedBy))
		for i, p := range a.RequestedBy {
			names[i] = s.Person(p)
		}
		text = "Asked for by " + Cut(And(names), maxNames) + "'s session. "
	}
	return strings.Join(append([]string{text + s.mayApprove(a)}, s.meanwhile(a)...), "\n")
}

// mayApprove says who may, and of those who asked that they may not, where they
// would seem to.
func (s Style) mayApprove(a workflows.ApprovalView) string {
	if len(a.Approvers) == 0 {
		return "Nobody may approve it here: no approvers are set."
	}
	if !a.RequesterMayApprove && len(a.RequestedBy) > 0 && len(a.Approvers) == 1 && a.Approvers[0] == "*" {
		return "May approve: everybody but who asked."
	}
	names := make([]string, len(a.Approvers))
	for i, p := range a.Approvers {
		names[i] = s.Approver(p)
	}
	text := "May approve: " + strings.Join(names, ", ") + "."
	if a.RequesterMayApprove {
		return text
	}
	var own []string
	for _, p := range a.RequestedBy {
		if slices.Contains(a.Approvers, p.ID) {
			own = append(own, s.Person(p))
		}
	}
	switch len(own) {
	case 0:
	case 1:
		text += " " + own[0] + " asked, so " + own[0] + "'s own approval does not count."
	default:
		text += " " + And(own) + " asked, so their own approvals do not count."
	}
	return text
}

// maxOriginal is how much of a replaced command a card shows, in characters.
const maxOriginal = 200

func (s Style) meanwhile(a workflows.ApprovalView) []string {
	var lines []string
	if a.EditedBy != nil {
		lines = append(lines, markEdited+" Changed by "+s.Person(*a.EditedBy)+"; it was: "+Cut(Shown(a.Original), maxOriginal))
	}
	if a.Widened {
		lines = append(lines, "Nobody answered in time, so more people may approve now.")
	}
	if a.Remark != "" {
		lines = append(lines, Shown(a.Remark))
	}
	return lines
}

// Pings are the IDs and groups that an approval card notifies, once: when it is
// posted. An edit never notifies anybody, and "everybody" is never notified.
func Pings(a workflows.ApprovalView) []string {
	who := a.Notify
	if len(who) == 0 {
		who = a.Approvers
	}
	return slices.DeleteFunc(slices.Clone(who), func(id string) bool { return id == "*" })
}

// And joins names: "@a", "@a and @b", "@a, @b and @c".
func And(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// ApprovalOutcome is the line that takes the buttons' place once a request is
// decided. It is empty while it is pending.
func (s Style) ApprovalOutcome(a workflows.ApprovalView) string {
	if a.UnknownRun {
		return s.unknownOutcome(a)
	}
	switch a.State {
	case workflows.ApprovalApproved:
		return s.approved(a)
	case workflows.ApprovalDenied:
		return s.denied(a)
	case workflows.ApprovalExpired:
		return "⌛ " + s.nobodyDecided(a) + ": not run."
	case workflows.ApprovalWithdrawn:
		return s.withdrawn(a)
	case workflows.ApprovalChanged:
		return "⊘ What was to be run has changed since: not run. A new request follows if it is still wanted."
	}
	return ""
}

func (s Style) nobodyDecided(a workflows.ApprovalView) string {
	if a.CutShort {
		return "Nobody had decided when the session was ended from outside at " + s.Clock(a.DecidedAt)
	}
	return "Nobody decided by " + s.Clock(a.ExpiresAt)
}

func (s Style) approved(a workflows.ApprovalView) string {
	parts := []string{s.approvedBy(a)}
	switch a.CallState {
	case workflows.CallCompleted:
		if a.ExitCode != nil {
			parts = append(parts, fmt.Sprintf("exit %d", *a.ExitCode))
		}
		parts = append(parts, Duration(a.Duration))
	case workflows.CallRunning:
		parts = append(parts, "running")
	case workflows.CallCancelled:
		parts = append(parts, "stopped")
	case workflows.CallFailed:
		parts = append(parts, "failed to start")
	case workflows.CallUnknown:
		parts = append(parts, "outcome unknown")
	case workflows.CallDenied:
		parts = append(parts, "not run")
	}
	lines := []string{strings.Join(parts, " · ")}
	for _, v := range approvals(a) {
		if v.Reason != "" && !a.BrokeGlass {
			lines = append(lines, "Note by "+s.Person(v.By)+": "+Sentence(Shown(v.Reason)))
		}
	}
	if a.BrokeGlass {
		lines = append(lines, "Reason: "+Sentence(Shown(lastApproval(a).Reason)))
	}
	switch end := a.GrantEnd; {
	case a.GrantedUntil.IsZero():
	case end == nil:
		lines = append(lines, "Allowed until "+s.Clock(a.GrantedUntil)+" in this thread, unless revoked.")
	case end.By != nil && end.Why == "revocation":
		lines = append(lines, "Was allowed in this thread until revoked by "+s.Person(*end.By)+" at "+s.Clock(end.At)+".")
	default:
		lines = append(lines, "Was allowed in this thread until "+s.Clock(end.At)+", when "+Shown(end.Why)+" ended it.")
	}
	return strings.Join(lines, "\n")
}

// approvedBy is who approved, how and when.
func (s Style) approvedBy(a workflows.ApprovalView) string {
	at := " at " + s.Clock(a.DecidedAt)
	by := s.by(a, workflows.VerdictApprove)
	switch {
	case a.BrokeGlass:
		text := "✓ Break-glass: approved by " + s.Person(lastApproval(a).By) + " alone" + at
		if a.EditedBy != nil {
			text += ", with a change by " + s.Person(*a.EditedBy) + " (see Review)"
		}
		return text
	case a.EditedBy == nil:
		return "✓ Approved" + by + at
	}
	if votes := approvals(a); len(votes) == 1 && votes[0].By.ID == a.EditedBy.ID {
		return markEdited + " Approved with a change by " + s.Person(*a.EditedBy) + " (see Review)" + at
	}
	return markEdited + " Approved" + by + " with a change by " + s.Person(*a.EditedBy) + " (see Review)" + at
}

func lastApproval(a workflows.ApprovalView) workflows.Vote {
	votes := approvals(a)
	if len(votes) == 0 {
		return workflows.Vote{}
	}
	return votes[len(votes)-1]
}

func (s Style) denied(a workflows.ApprovalView) string {
	for _, v := range a.Votes {
		switch {
		case v.Verdict == workflows.VerdictChanges && a.Text != "":
			return markChanges + " Changes asked for by " + s.Person(v.By) + ": " + Shown(a.Text)
		case v.Verdict == workflows.VerdictChanges:
			return markChanges + " Changes asked for by " + s.Person(v.By) + "."
		}
	}
	text := fmt.Sprintf("⊘ Denied%s at %s", s.by(a, workflows.VerdictDeny), s.Clock(a.DecidedAt))
	for _, v := range a.Votes {
		if v.Verdict == workflows.VerdictDeny && v.Reason != "" {
			return text + ": " + Shown(v.Reason)
		}
	}
	return text + "."
}

// withdrawn: by a requester, or because somebody stopped the turn.
func (s Style) withdrawn(a workflows.ApprovalView) string {
	by, at := s.by(a, workflows.VerdictWithdraw), s.Clock(a.DecidedAt)
	if by == "" && a.DecidedBy != nil {
		return fmt.Sprintf("⊘ Stopped by %s at %s: not run.", s.Person(*a.DecidedBy), at)
	}
	return fmt.Sprintf("⊘ Withdrawn%s at %s: not run.", by, at)
}

func (s Style) unknownOutcome(a workflows.ApprovalView) string {
	switch a.State {
	case workflows.ApprovalPending:
		return "? The worker died while this ran; it may have finished."
	case workflows.ApprovalApproved:
		return fmt.Sprintf("✓ Run again%s at %s", s.by(a, workflows.VerdictApprove), s.Clock(a.DecidedAt))
	case workflows.ApprovalExpired:
		return "⌛ " + s.nobodyDecided(a) + ": left as it is."
	}
	return fmt.Sprintf("⊘ Left as it is%s at %s.", s.by(a, workflows.VerdictDeny, workflows.VerdictWithdraw), s.Clock(a.DecidedAt))
}

// by is " by @a and @b" for those who gave one of the verdicts.
func (s Style) by(a workflows.ApprovalView, verdicts ...string) string {
	var names []string
	for _, v := range a.Votes {
		for _, want := range verdicts {
			if v.Verdict == want {
				names = append(names, s.Person(v.By))
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " by " + And(names)
}

func approvals(a workflows.ApprovalView) []workflows.Vote {
	var out []workflows.Vote
	for _, v := range a.Votes {
		if v.Verdict == workflows.VerdictApprove {
			out = append(out, v)
		}
	}
	return out
}
