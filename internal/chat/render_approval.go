package chat

import (
	"fmt"
	"strings"

	"github.com/countersign/countersign/internal/workflows"
)

// Approval is the approval card: while it is pending who may decide what, then
// the same command and reasons with one line that says what came of it.
func (s Style) Approval(a workflows.ApprovalView) string {
	lines := []string{s.ApprovalTitle(a), "In " + Where(a) + ":", ""}
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
	if a.UnknownRun {
		return "Outcome unknown"
	}
	parts := []string{"Approval needed", a.Tier}
	if a.State != workflows.ApprovalPending {
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

// Where is "docker, workspace api, directory /workspace".
func Where(a workflows.ApprovalView) string {
	parts := []string{a.Backend}
	if a.Workspace != "" {
		parts = append(parts, "workspace "+Shown(a.Workspace))
	}
	if a.Cwd != "" {
		parts = append(parts, "directory "+Shown(a.Cwd))
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

// Why gives the reasons on one line, or one a line where there are more.
func Why(a workflows.ApprovalView) string {
	switch len(a.Reasons) {
	case 0:
		return ""
	case 1:
		return "Why: " + Sentence(Shown(a.Reasons[0]))
	}
	lines := []string{"Why:"}
	for _, r := range a.Reasons {
		lines = append(lines, "- "+Sentence(Shown(r)))
	}
	return strings.Join(lines, "\n")
}

// Sentence closes s with a full stop, unless it has one.
func Sentence(s string) string {
	if s == "" || strings.HasSuffix(s, ".") || strings.HasSuffix(s, "?") || strings.HasSuffix(s, "…") {
		return s
	}
	return s + "."
}

// AskedFor says whose session asks and who may decide.
func (s Style) AskedFor(a workflows.ApprovalView) string {
	text := ""
	if len(a.RequestedBy) > 0 {
		names := make([]string, len(a.RequestedBy))
		for i, p := range a.RequestedBy {
			names[i] = s.Person(p)
		}
		text = "Asked for by " + And(names) + "'s session. "
	}
	if len(a.Approvers) == 0 {
		return text + "Nobody may approve it here: no approvers are set."
	}
	names := make([]string, len(a.Approvers))
	for i, p := range a.Approvers {
		names[i] = s.Approver(p)
	}
	return text + "May approve: " + strings.Join(names, ", ") + "."
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
		return fmt.Sprintf("⌛ Nobody decided by %s: not run.", s.Clock(a.ExpiresAt))
	case workflows.ApprovalWithdrawn:
		return fmt.Sprintf("⊘ Withdrawn%s at %s: not run.", s.by(a, workflows.VerdictWithdraw), s.Clock(a.DecidedAt))
	case workflows.ApprovalChanged:
		return "⊘ What was to be run has changed since: not run. A new request follows if it is still wanted."
	}
	return ""
}

func (s Style) approved(a workflows.ApprovalView) string {
	parts := []string{fmt.Sprintf("✓ Approved%s at %s", s.by(a, workflows.VerdictApprove), s.Clock(a.DecidedAt))}
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
	return strings.Join(parts, " · ")
}

func (s Style) denied(a workflows.ApprovalView) string {
	text := fmt.Sprintf("⊘ Denied%s at %s", s.by(a, workflows.VerdictDeny), s.Clock(a.DecidedAt))
	for _, v := range a.Votes {
		if v.Verdict == workflows.VerdictDeny && v.Reason != "" {
			return text + ": " + Shown(v.Reason)
		}
	}
	return text + "."
}

func (s Style) unknownOutcome(a workflows.ApprovalView) string {
	switch a.State {
	case workflows.ApprovalPending:
		return "? The worker died while this ran; it may have finished."
	case workflows.ApprovalApproved:
		return fmt.Sprintf("✓ Run again%s at %s", s.by(a, workflows.VerdictApprove), s.Clock(a.DecidedAt))
	case workflows.ApprovalExpired:
		return fmt.Sprintf("⌛ Nobody decided by %s: left as it is.", s.Clock(a.ExpiresAt))
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
