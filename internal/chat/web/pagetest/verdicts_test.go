package pagetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// choose clicks the button of that name in the dialog that is open.
func (tb *tab) choose(label string) {
	tb.t.Helper()
	button := fmt.Sprintf(`[...document.querySelectorAll("dialog button, dialog summary")].find((b) => b.innerText === %s && b.checkVisibility())`, quote(label))
	tb.until("the dialog offers "+label, button)
	tb.eval(button + ".click()")
}

// reviewed answers a review with the card's command and digest, and any other
// click with what next gives.
func reviewed(command string, next func(seenClick) clickAnswer) func(seenClick) clickAnswer {
	return func(c seenClick) clickAnswer {
		if c.Button == "review" {
			return clickAnswer{Outcome: "recorded", Review: map[string]any{"command": command, "cwd": "/workspace", "backend": "docker", "digest": "sha256:5f1c0d"}}
		}
		return next(c)
	}
}

func recorded(seenClick) clickAnswer { return clickAnswer{Outcome: "recorded", Text: "Recorded."} }

func TestEditAndApprove(t *testing.T) {
	t.Parallel()
	s, b := approvalThread(t)
	never := "That is never allowed: it destroys the host. The request stands as it was."
	s.onClick = reviewed("rm -rf ~/.cache/go-build", func(c seenClick) clickAnswer {
		if c.Values["command"] == "rm -rf /" {
			return clickAnswer{Outcome: "not_yours", Text: never}
		}
		return clickAnswer{Outcome: "recorded", Text: "Approved."}
	})
	tb := b.open(s, "grace", "t1")
	tb.click("#m-p1 [data-button=review]")
	tb.choose("Change the command")
	tb.shows("dialog", "judged again by the server before it counts")
	require.Equal(t, "rm -rf ~/.cache/go-build", tb.text(`document.querySelector("#review-edit").value`))
	tb.shot("review-edit")
	tb.eval(`document.querySelector("#review-edit").select()`)
	tb.run(typed("#review-edit", "rm -rf /"))
	tb.choose("Approve with this change")
	tb.shows("dialog [role=alert]", never)
	require.Equal(t, "rm -rf /", tb.text(`document.querySelector("#review-edit").value`), "what was typed is not lost")
	tb.eval(`document.querySelector("#review-edit").select()`)
	tb.run(typed("#review-edit", "go clean -cache"))
	tb.choose("Approve with this change")
	tb.shows("#toasts", "Approved.")
	tb.until("the dialog is closed", `!document.querySelector("dialog")`)
	clicks := s.seenClicks()
	require.Equal(t, click{"approve", map[string]string{"digest": "sha256:5f1c0d", "command": "go clean -cache"}}, clicks[2].click)

	m := pendingApproval(time.Now())
	m.Buttons, m.Approval.State, m.Approval.Command, m.Approval.Original, m.Approval.EditedBy = nil, "approved", "go clean -cache", "rm -rf ~/.cache/go-build", "grace"
	m.Approval.Outcome = "✎ Approved with a change by @grace (see Review) at 2026-01-02T15:07:00Z · exit 0 · 0.4 s"
	s.put(m)
	tb.shows("#m-p1 .decision", "✎ Approved with a change by @grace (see Review) at ")
	s.mu.Lock()
	s.onClick = func(seenClick) clickAnswer {
		return clickAnswer{Outcome: "recorded", Review: map[string]any{"command": "go clean -cache", "original": "rm -rf ~/.cache/go-build", "edited_by": "@grace", "digest": "sha256:5f1c0d"}}
	}
	s.mu.Unlock()
	tb.click("#m-p1 [data-button=review]")
	tb.shows("dialog", "✎ Changed by @grace. The agent had asked for:")
	tb.shows("dialog [aria-label='Command']", "go clean -cache")
	tb.shows("dialog [aria-label='The command before it was changed']", "rm -rf ~/.cache/go-build")
	tb.until("what is decided cannot be approved", `!document.querySelector("dialog .primary") && !document.querySelector("dialog details")?.checkVisibility()`)
	tb.shot("review-edited")
}

func TestAnUnchangedCommandIsNoEdit(t *testing.T) {
	t.Parallel()
	s, b := approvalThread(t)
	s.onClick = reviewed("rm -rf ~/.cache/go-build", recorded)
	tb := b.open(s, "grace", "t1")
	tb.click("#m-p1 [data-button=review]")
	tb.choose("Change the command")
	tb.run(typed("#review-edit", "x"))
	tb.press(kb.Backspace)
	tb.choose("Approve what is shown")
	tb.shows("#toasts", "Recorded.")
	require.Equal(t, click{"approve", map[string]string{"digest": "sha256:5f1c0d"}}, s.seenClicks()[1].click)
}

func TestOnlyShellCommandsCanBeChanged(t *testing.T) {
	t.Parallel()
	s, b := approvalThread(t)
	s.onClick = reviewed("write_file .env", recorded)
	s.put(message{ID: "c1", ThreadID: "t1", Kind: "turn", ToolCalls: []toolCall{{ID: "y4", Tool: "write_file", Command: ".env", State: "awaiting_approval"}}})
	tb := b.open(s, "grace", "t1")
	tb.click("#m-p1 [data-button=review]")
	tb.shows("dialog", "Ask for changes")
	tb.until("no edit box", `!document.querySelector("#review-edit")`)
}

func TestAskForChanges(t *testing.T) {
	t.Parallel()
	s, b := approvalThread(t)
	s.onClick = reviewed("rm -rf x", recorded)
	tb := b.open(s, "grace", "t1")
	tb.click("#m-p1 [data-button=review]")
	tb.choose("Ask for changes")
	tb.choose("Ask for these changes")
	tb.shows("dialog [role=alert]", "Say what should be different.")
	tb.run(typed("#review-note", "use the staging bucket"))
	tb.choose("Ask for these changes")
	tb.shows("#toasts", "Recorded.")
	require.Equal(t, click{"deny", map[string]string{"changes": "use the staging bucket"}}, s.seenClicks()[1].click)
}

func TestANoteToTheApproval(t *testing.T) {
	t.Parallel()
	s, b := approvalThread(t)
	s.onClick = reviewed("rm -rf x", recorded)
	tb := b.open(s, "grace", "t1")
	tb.click("#m-p1 [data-button=review]")
	tb.choose("Add a note")
	tb.run(typed("#review-remark", "agreed with linus"))
	tb.choose("Approve what is shown")
	tb.shows("#toasts", "Recorded.")
	require.Equal(t, click{"approve", map[string]string{"digest": s.seenClicks()[1].Values["digest"], "reason": "agreed with linus"}}, s.seenClicks()[1].click)
}

func TestBreakGlassAsksTwice(t *testing.T) {
	t.Parallel()
	s, b := approvalThread(t)
	s.onClick = reviewed("rm -rf x", recorded)
	m := pendingApproval(time.Now())
	m.Approval.Tier, m.Approval.Required, m.Approval.RequesterMayApprove = "critical", 2, ptr(false)
	m.Approval.Approvers, m.Approval.BreakGlass = []string{"ada", "grace", "linus"}, []string{"ada"}
	s.put(m)
	ada, grace := b.open(s, "ada", "t1"), b.open(s, "grace", "t1")
	ada.shows("#m-p1", "You asked for this, so your own approval does not count.")
	ada.lacks("#m-p1", "waits for you")
	grace.shows("#m-p1 .mine", "waits for you")
	grace.lacks("#m-p1", "your own approval")
	grace.click("#m-p1 [data-button=review]")
	grace.shows("dialog", "Approve what is shown")
	grace.lacks("dialog", "Approve alone")
	grace.press(kb.Escape)

	ada.click("#m-p1 [data-button=review]")
	ada.choose("Approve alone…")
	ada.until("the reason has the focus", `document.activeElement.id === "glass-why"`)
	ada.shot("break-glass")
	ada.choose("Approve alone")
	ada.shows("dialog [role=alert]", "Say why")
	ada.run(typed("#glass-why", "the site is down"))
	ada.choose("Approve alone")
	ada.shows("dialog [role=alert]", "Confirm that you mean it.")
	require.Len(t, s.seenClicks(), 2, "only reviews so far")
	ada.click("#glass-sure")
	ada.choose("Approve alone")
	ada.shows("#toasts", "Recorded.")
	require.Equal(t, seenClick{click{"approve", map[string]string{"break_glass": "the site is down", "digest": "sha256:5f1c0d"}}, "p1", "ada"}, s.seenClicks()[2])
}

func TestAllowForAnHour(t *testing.T) {
	t.Parallel()
	s, b := approvalThread(t)
	s.grants = []grant{{"g1", "rm -rf ~/.cache/go-build", "grace", time.Now().Add(time.Hour)}, {"g2", "rm \u202Ex", "linus", time.Now().Add(time.Hour)}}
	m := pendingApproval(time.Now())
	m.Buttons = []button{{"approve", "Approve once"}, {"grant", "Allow this for 1 h"}, {"review", "Review…"}, {"deny", "Deny…"}}
	s.put(m)
	tb := b.open(s, "grace", "t1")
	tb.settled("#m-p1 [data-button=grant]")
	tb.click("#m-p1 [data-button=grant]")
	tb.shows("#toasts", "Recorded.")
	require.Equal(t, click{"grant", map[string]string{"digest": "sha256:5f1c0d"}}, s.seenClicks()[0].click)

	tb.click("[data-action=menu]")
	tb.eval(`[...document.querySelectorAll(".menu button")].find((b) => b.innerText === "Grants…").click()`)
	tb.shows("dialog .grants", "rm -rf ~/.cache/go-build")
	tb.shows("dialog .grants", "by @grace · until ")
	tb.shows("dialog .grants", `rm \u{202e}x`)
	tb.shot("grants")
	tb.click("dialog [data-revoke=g1]")
	tb.shows("dialog [role=status]", "Revoked: it is asked about again.")
	tb.lacks("dialog .grants", "go-build")
	tb.until("the focus stays in the list", `document.activeElement.dataset.revoke === "g2"`)
	require.Equal(t, "/agent grants revoke g1", s.seenTries()[0].Text)
	tb.press(kb.Enter)
	tb.shows("dialog .grants", "None: every risky command is asked about.")
	tb.press(kb.Escape)
	tb.until("closed, the focus is back", `!document.querySelector("dialog") && document.activeElement.dataset.action === "menu"`)
	tb.run(chromedp.Reload())
	tb.shows(".message.user", "/agent grants revoke g1")
}

func TestReviewFollowsAChangeOfTheCommand(t *testing.T) {
	t.Parallel()
	s, b := approvalThread(t)
	s.onClick = reviewed("rm -rf ~/.cache/go-build", recorded)
	tb := b.open(s, "linus", "t1")
	tb.click("#m-p1 [data-button=review]")
	tb.shows("dialog", "Approve what is shown")
	m := pendingApproval(time.Now())
	m.Approval.Command, m.Approval.Digest, m.Approval.EditedBy, m.Approval.Original = "go clean -cache", "sha256:new", "grace", m.Approval.Command
	s.put(m)
	tb.shows("dialog .decision", "@grace has changed the command since.")
	tb.until("nothing of the old one can be approved", `!document.querySelector("dialog .primary") && document.querySelector("dialog .choices").hidden`)
	tb.shows("#m-p1", "✎ Changed by @grace; it was: rm -rf ~/.cache/go-build")
	s.mu.Lock()
	s.onClick = func(c seenClick) clickAnswer {
		return clickAnswer{Outcome: "recorded", Text: "Recorded.", Review: map[string]any{"command": "go clean -cache", "digest": "sha256:new"}}
	}
	s.mu.Unlock()
	tb.choose("Review it as it is now")
	tb.shows("dialog", "Digest sha256:new")
	tb.choose("Approve what is shown")
	tb.shows("#toasts", "Recorded.")
	require.Equal(t, "sha256:new", s.seenClicks()[2].Values["digest"])
}
