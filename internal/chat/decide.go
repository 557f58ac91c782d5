package chat

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/countersign/countersign/internal/workflows"
)

// MaxReason bounds what may be typed with a decision, in bytes: as a reason, a
// wish for changes, or why somebody approves alone.
const MaxReason = 4 << 10 // 4 KiB

// decide records a verdict on an approval request.
func (r *Router) decide(ctx context.Context, workflowID string, c Click) (ClickReply, error) {
	d, err := decision(c)
	if err != nil {
		return ClickReply{}, err
	}
	d.Reason = r.Mask.Text(d.Reason) // it goes on record
	return clicked(r.Sessions.Decide(ctx, workflowID, d))
}

// decision is what a click on an approval card says.
func decision(c Click) (workflows.Decision, error) {
	d := workflows.Decision{
		ApprovalID: c.ApprovalID, By: c.By, Interaction: c.Interaction, ClickedAt: c.At,
		Reason: c.Reason, Digest: c.Digest, Edit: c.Edit,
	}
	switch c.Button {
	case workflows.ButtonApprove, workflows.ButtonRunAgain:
		d.Verdict = workflows.VerdictApprove
	case workflows.ButtonGrant:
		d.Verdict, d.GrantFor = workflows.VerdictApprove, workflows.GrantTime
	case workflows.ButtonDeny, workflows.ButtonLeave:
		d.Verdict = workflows.VerdictDeny
	case workflows.ButtonWithdraw:
		d.Verdict = workflows.VerdictWithdraw
	default:
		return d, &Error{
			Kind: KindConflict, Code: "no_such_button", Message: "An approval request has no such button.",
			Hint: "Its buttons are approve, grant, deny, review and withdraw.",
		}
	}
	if err := typed(c); err != nil {
		return d, err
	}
	if c.Changes != "" {
		d.Verdict, d.Reason = workflows.VerdictChanges, c.Changes
	}
	if c.BreakGlass != "" {
		d.BreakGlass, d.Reason = true, c.BreakGlass
	}
	return d, nil
}

// typed refuses texts that do not belong to the button that they came with, and
// those that cannot be taken.
func typed(c Click) error {
	given := 0
	for _, text := range []string{c.Reason, c.Changes, c.BreakGlass} {
		switch {
		case len(text) > MaxReason:
			return invalid("reason_too_long", fmt.Sprintf("The text is longer than %d bytes.", MaxReason), "Say it shorter.")
		case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
			return invalid("bad_text", "The text has characters that cannot be taken.", "Send plain text.")
		case text != "":
			given++
		}
	}
	switch {
	case given > 1:
		return invalid("two_texts", "A decision takes one text: a reason, a wish for changes, or why you approve alone.", "Send one of them.")
	case c.Changes != "" && c.Button != workflows.ButtonDeny:
		return invalid("changes_without_deny", "Changes are asked for with the deny button.", "Send the text as “changes” of “deny”.")
	case c.Changes != "" && strings.TrimSpace(c.Changes) == "":
		return invalid("empty_changes", "It is not said what should be different.", "Say what the agent should change.")
	case c.BreakGlass != "" && c.Button != workflows.ButtonApprove:
		return invalid("break_glass_without_approve", "Only an approval can be given alone.", "Send the reason as “break_glass” of “approve”.")
	case c.BreakGlass != "" && strings.TrimSpace(c.BreakGlass) == "":
		return invalid("empty_reason", "It is not said why you approve this alone.", "Say why: the reason goes on record.")
	}
	return edited(c)
}

// edited refuses a changed command that cannot be one. Whether it may run is the
// gate's to say.
func edited(c Click) error {
	switch {
	case c.Edit == "":
		return nil
	case c.Button != workflows.ButtonApprove:
		return invalid("edit_without_approve", "Only an approval can carry a changed command.", "Change the command under Review and approve it there.")
	case c.Digest == "":
		return invalid("edit_without_review", "A command can be changed only from Review.", "Open Review, change the command there and approve it.")
	case strings.TrimSpace(c.Edit) == "":
		return invalid("empty_command", "The changed command is empty.", "Deny the request if nothing should run.")
	case len(c.Edit) > workflows.MaxEdit:
		return invalid("command_too_long", fmt.Sprintf("The changed command is longer than %d bytes.", workflows.MaxEdit),
			"Ask for changes instead: the agent can write the long one.")
	case !utf8.ValidString(c.Edit) || strings.ContainsRune(c.Edit, 0):
		return invalid("bad_command", "The changed command has characters that no command can have.", "Send it as plain text.")
	}
	return nil
}
