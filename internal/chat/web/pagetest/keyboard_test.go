package pagetest

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// tabTo presses Tab until the element that selector names has the focus.
func (tb *tab) tabTo(selector string, back bool) {
	tb.t.Helper()
	for range 60 {
		if value[bool](tb, `document.activeElement.matches(`+quote(selector)+`)`) {
			outline := tb.text(`getComputedStyle(document.activeElement).outlineStyle + getComputedStyle(document.activeElement.closest(".composer-box") || document.activeElement).boxShadow`)
			require.NotEqual(tb.t, "nonenone", outline, "the focus on %s is seen", selector)
			return
		}
		if back {
			tb.run(chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift)))
		} else {
			tb.press(kb.Tab)
		}
	}
	require.Fail(tb.t, "Tab does not reach "+selector, tb.text(`document.activeElement.outerHTML`))
}

// The main job without a mouse: start a task, follow it, approve, read, reply.
func TestTheMainJobByKeyboard(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	tb := newBrowser(t).open(s, "ada", "")
	tb.until("writing can begin at once", `document.activeElement.id === "composer"`)
	tb.run(typed("#composer", "/ag"))
	tb.press(kb.Tab)
	tb.run(typed("#composer", "look around with `ls -la`, then `rm -rf build`"+kb.Enter))
	tb.shows(".message.user:not(.pending)", "look around with ls -la, then rm -rf build")
	id := s.userMessages()[0].ID

	now := time.Now()
	turn := message{ID: "c1", ThreadID: id, Kind: "turn", Buttons: []button{{"stop", "Stop"}}, Turn: map[string]any{"state": "working", "started_at": now},
		ToolCalls: []toolCall{{ID: "y1", Tool: "shell", Command: "ls -la", State: "completed", ExitCode: ptr(0), DurationMS: ptr(int64(10))}, {ID: "y2", Tool: "shell", Command: "rm -rf build", State: "awaiting_approval"}}}
	s.put(turn)
	card := pendingApproval(now)
	card.ThreadID, card.Approval.Command = id, "rm -rf build"
	s.put(card)
	tb.shows("#announce", "Approval needed: rm -rf build")
	tb.settled("#m-p1 [data-button=approve]")

	tb.tabTo("#m-p1 [data-button=approve]", true)
	tb.press(kb.Tab)
	require.Equal(t, "review", tb.text(`document.activeElement.dataset.button`), "the order is the order that is seen")
	tb.press(kb.Enter)
	tb.until("the review is open", `document.querySelector("dialog")?.contains(document.activeElement)`)
	tb.press(kb.Escape)
	tb.until("and closed", `document.activeElement.dataset.button === "review"`)
	tb.run(chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift)))
	tb.press(kb.Enter)
	tb.shows("#toasts", "Recorded.")
	require.Equal(t, "approve", s.seenClicks()[len(s.seenClicks())-1].Button)

	card.Buttons, card.Approval.State, card.Approval.CallState = nil, "approved", "running"
	card.Approval.Votes = []vote{{By: "ada", Verdict: "approve", At: now}}
	s.put(card)
	tb.shows("#m-p1", "✓ Approved by @ada")
	tb.until("the focus is not lost with the button", `document.activeElement !== document.body`)
	turn.Buttons, turn.Turn = nil, map[string]any{"state": "done", "started_at": now, "ended_at": now.Add(time.Second), "commands": 2}
	turn.ToolCalls[1].State, turn.ToolCalls[1].ExitCode = "completed", ptr(0)
	s.put(turn)
	s.put(message{ID: "a1", ThreadID: id, Kind: "answer", Text: "Both are **done**."})
	tb.shows("#announce", "Answer: Both are")
	tb.shows("#m-c1", "Done · 2 commands · 1.0 s")

	tb.tabTo("#composer", false)
	tb.run(typed("#composer", "thanks"+kb.Enter))
	tb.shows(".message.user", "thanks")
	tb.tabTo(".session", true)
	tb.tabTo(".channel", true)
	tb.press(kb.Enter)
	tb.shows("h1", "#general")

	tb.tabTo("#skip", true)
	tb.press(kb.Enter)
	tb.until("the skip link leads to the conversation", `document.activeElement.id === "main"`)
}
