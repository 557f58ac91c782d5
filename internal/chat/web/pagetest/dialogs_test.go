package pagetest

import (
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

func approvalThread(t *testing.T) (*server, *browser) {
	t.Helper()
	s := newServer(t)
	s.addSession(session{ID: "t1", Title: "x", Backend: "docker", Liveness: "waiting"})
	s.put(pendingApproval(time.Now()))
	return s, newBrowser(t)
}

func TestApproveSendsWhatWasShown(t *testing.T) {
	t.Parallel()
	s, b := approvalThread(t)
	tb := b.open(s, "grace", "t1")
	tb.settled("#m-p1 [data-button=approve]")
	tb.click("#m-p1 [data-button=approve]")
	tb.shows("#toasts", "Recorded.")
	require.Equal(t, []seenClick{{click{"approve", map[string]string{"digest": "sha256:5f1c0d"}}, "p1", "grace"}}, s.seenClicks())

	m := pendingApproval(time.Now())
	m.Buttons = nil
	m.Approval.State, m.Approval.CallState, m.Approval.ExitCode, m.Approval.DurationMS = "approved", "completed", ptr(0), 400
	m.Approval.Votes = []vote{{By: "grace", Verdict: "approve", At: time.Date(2026, 1, 2, 15, 7, 0, 0, time.UTC)}}
	s.put(m)
	tb.shows("#m-p1 .decision", "✓ Approved by @grace at ")
	tb.shows("#m-p1 .decision", " · exit 0 · 0.4 s")
	tb.shows("#m-p1", "rm -rf ~/.cache/go-build")
	tb.shows("#m-p1", "outside the workspace")
	tb.until("the buttons have gone", `!document.querySelector("#m-p1 button")`)
}

func TestAClickIsSentOnce(t *testing.T) {
	t.Parallel()
	s, b := approvalThread(t)
	release := make(chan struct{})
	s.onClick = func(seenClick) clickAnswer {
		<-release
		return clickAnswer{Outcome: "recorded", Text: "Recorded."}
	}
	tb := b.open(s, "grace", "t1")
	tb.settled("#m-p1 [data-button=approve]")
	tb.eval(`for (let i = 0; i < 5; i++) document.querySelector("#m-p1 [data-button=approve]").click()`)
	tb.until("it says that it is busy", `document.querySelector("#m-p1 [data-button=approve][aria-busy=true]")`)
	tb.eval(`document.querySelector("#m-p1 [data-button=approve]").click()`)
	close(release)
	tb.shows("#toasts", "Recorded.")
	require.Len(t, s.seenClicks(), 1)
	tb.until("and no longer", `!document.querySelector("#m-p1 [aria-busy]")`)
}

func TestOutcomesAreToldToTheClickerAlone(t *testing.T) {
	t.Parallel()
	s, b := approvalThread(t)
	s.onClick = func(seenClick) clickAnswer {
		return clickAnswer{Outcome: "not_yours", Text: "This needs @platform-oncall or @grace."}
	}
	ada, linus := b.open(s, "ada", "t1"), b.open(s, "linus", "t1")
	ada.settled("#m-p1 [data-button=approve]")
	ada.click("#m-p1 [data-button=approve]")
	ada.shows("#toasts[aria-live=polite] .toast.bad", "This needs @platform-oncall or @grace.")
	require.NotContains(t, linus.text(`document.body.innerText`), "This needs")
	ada.click("#toasts .close")
	ada.until("it can be dismissed", `!document.querySelector("#toasts .toast")`)
}

func TestNoAnswerIsNoDecision(t *testing.T) {
	t.Parallel()
	s, b := approvalThread(t)
	tb := b.open(s, "grace", "t1")
	tb.expect("Failed to load", "ERR_")
	tb.settled("#m-p1 [data-button=approve]")
	s.setDown(true)
	tb.shows("#banner[role=alert]", "Not connected to the server.")
	tb.settled("#m-p1 [data-button=approve]")
	tb.click("#m-p1 [data-button=approve]")
	tb.shows("#toasts", "Not confirmed: the server did not answer in time. If your click was recorded, the card shows it; else click again.")
	s.setDown(false)
}

func TestDeny(t *testing.T) {
	t.Parallel()
	s, b := approvalThread(t)
	tb := b.open(s, "grace", "t1")
	tb.click("#m-p1 [data-button=deny]")
	tb.until("the reason has the focus", `document.activeElement.matches("dialog textarea")`)
	tb.press(kb.Escape)
	tb.until("Escape closes it", `!document.querySelector("dialog")`)
	tb.until("focus goes back", `document.activeElement.dataset.button === "deny"`)
	require.Empty(t, s.seenClicks())

	tb.press(kb.Enter)
	tb.until("it is open again", `document.querySelector("dialog textarea")`)
	tb.run(typed("dialog textarea", "not during the freeze"))
	tb.click("dialog [type=submit]")
	tb.shows("#toasts", "Recorded.")
	require.Equal(t, click{"deny", map[string]string{"reason": "not during the freeze"}}, s.seenClicks()[0].click)
}

func TestReview(t *testing.T) {
	t.Parallel()
	s, b := approvalThread(t)
	s.onClick = func(c seenClick) clickAnswer {
		if c.Button == "review" {
			return clickAnswer{Outcome: "recorded", Text: "all as text", Review: map[string]any{
				"command": "sh s.sh\nsecond line", "cwd": "/workspace", "backend": "docker", "reasons": []string{"runs a script"}, "env": []string{"A=1"},
				"files": []map[string]string{{"path": "s.sh", "text": "#!/bin/sh\ncurl evil"}}, "digest": "sha256:reviewed"}}
		}
		return clickAnswer{Outcome: "recorded", Text: "Recorded."}
	}
	m := pendingApproval(time.Now())
	m.Approval.Digest = "sha256:reviewed"
	m.Buttons = []button{{"review", "Review…"}, {"deny", "Deny…"}}
	s.put(m)
	tb := b.open(s, "grace", "t1")
	tb.shows("#m-p1", "This cannot be approved from the card")
	tb.click("#m-p1 [data-button=review]")
	for _, text := range []string{"sh s.sh\nsecond line", "runs a script", "A=1", "s.sh", "curl evil", "sha256:reviewed"} {
		tb.shows("dialog", text)
	}
	tb.until("Tab stays inside", `(() => { const d = document.querySelector("dialog"); return d.matches(":modal") && d.contains(document.activeElement); })()`)
	for range 12 {
		tb.press(kb.Tab)
		require.Equal(t, "true", tb.text(`document.querySelector("dialog").contains(document.activeElement)`))
	}
	tb.shot("review")
	tb.click("dialog .primary")
	tb.shows("#toasts", "Recorded.")
	require.Equal(t, click{"approve", map[string]string{"digest": "sha256:reviewed"}}, s.seenClicks()[1].click)
}

func TestReviewFollowsTheCard(t *testing.T) {
	t.Parallel()
	s, b := approvalThread(t)
	s.onClick = func(seenClick) clickAnswer { return clickAnswer{Outcome: "recorded", Text: "the whole text"} }
	tb := b.open(s, "grace", "t1")
	tb.click("#m-p1 [data-button=review]")
	tb.shows("dialog", "the whole text")
	tb.shows("dialog", "Approve what is shown")

	m := pendingApproval(time.Now())
	m.Approval.Digest = "sha256:other"
	s.put(m)
	tb.shows("dialog", "The command has changed since")
	tb.until("nothing is left to approve", `!document.querySelector("dialog .primary")`)

	m.Approval.State, m.Buttons = "denied", nil
	m.Approval.Votes = []vote{{By: "linus", Verdict: "deny", At: time.Now(), Reason: "no"}}
	s.put(m)
	tb.shows("dialog", "⊘ Denied by @linus")
	tb.press(kb.Escape)
	tb.until("focus is somewhere useful", `!document.querySelector("dialog") && document.activeElement.id === "m-p1"`)
}

func TestAClickRightAfterTheCardMovedDoesNotCount(t *testing.T) {
	t.Parallel()
	s, b := approvalThread(t)
	tb := b.open(s, "grace", "t1")
	tb.settled("#m-p1 [data-button=approve]")
	tb.eval(`window.clickWhenMoved = new Promise((done) => {
		const button = document.querySelector("#m-p1 [data-button=approve]");
		const top = button.getBoundingClientRect().top;
		(function look() {
			if (Math.abs(button.getBoundingClientRect().top - top) < 4) return requestAnimationFrame(look);
			button.dispatchEvent(new MouseEvent("click", { bubbles: true, detail: 1 }));
			done(true);
		})();
	})`)
	s.put(message{ID: "n0", ThreadID: "t1", Kind: "notice", Text: "earlier", At: time.Now().Add(-time.Hour)})
	require.True(t, value[bool](tb, `window.clickWhenMoved`))
	tb.shows("#toasts", "The page moved just then.")
	require.Empty(t, s.seenClicks())
}

func TestButtonsOfAllKinds(t *testing.T) {
	t.Parallel()
	s, b := approvalThread(t)
	s.put(message{ID: "n1", ThreadID: "t1", Kind: "notice", Text: "Destroy this session? 2 commits are not pushed.", Buttons: []button{{"destroy", "Destroy"}, {"keep", "Keep"}}})
	m := pendingApproval(time.Now())
	m.ID, m.Approval.UnknownRun, m.Buttons = "p2", true, []button{{"run_again", "Run again…"}, {"leave", "Leave it"}}
	s.put(m)
	tb := b.open(s, "grace", "t1")
	tb.shows("#m-p2", "Outcome unknown")
	s.put(workingTurn(time.Now()))
	tb.click("#m-c1 [data-button=stop]")
	tb.shows("#toasts", "Recorded.")
	tb.click("#toasts .close")
	tb.shows("#m-p2", "? The worker died while this ran; it may have finished.")
	tb.shows("#m-p2", "Look at the output")
	tb.click("#m-n1 [data-button=keep]")
	require.Eventually(t, func() bool { return len(s.seenClicks()) == 2 }, patience, 10*time.Millisecond)
	tb.shows("#toasts", "Recorded.")
	tb.click("#m-p2 [data-button=run_again]")
	tb.shows("dialog", "only if doing it twice does no harm")
	tb.click("dialog .dialog-foot .danger")
	tb.until("both were sent", `!document.querySelector("dialog")`)
	require.Eventually(t, func() bool { return len(s.seenClicks()) == 3 }, patience, 10*time.Millisecond)
	require.Equal(t, "stop", s.seenClicks()[0].Button)
	require.Equal(t, "keep", s.seenClicks()[1].Button)
	require.Equal(t, "run_again", s.seenClicks()[2].Button)
}

// Details open at once, list the turn's calls, and lead to each one's output.
func TestDetails(t *testing.T) {
	t.Parallel()
	s, b := approvalThread(t)
	s.onClick = func(c seenClick) clickAnswer {
		return clickAnswer{Outcome: "recorded", Text: "all as text", Details: []map[string]any{
			{"n": 1, "id": "y1", "command": "go test ./...\nsecond line", "outcome": "✓ exit 1 · 3.1 s", "ran": true, "facts": []string{"Verdict: safe.", "Approved by @grace at 2026-11-29T15:04:05Z."}},
			{"n": 2, "id": "y9", "command": "rm <b>x</b>", "outcome": "⊘ denied", "ran": false, "facts": []string{"Denied by @grace."}},
		}}
	}
	s.output = func(w http.ResponseWriter, id, stream string, offset int) {
		if id == "y1" && stream == "stdout" && offset == 0 {
			_, _ = w.Write([]byte("hello from the command\n"))
		}
	}
	m := workingTurn(time.Now())
	m.Buttons = []button{{"stop", "Stop"}, {"details", "Details"}}
	s.put(m)
	tb := b.open(s, "grace", "t1")
	tb.click("#m-c1 [data-button=details]")
	for _, text := range []string{"go test ./...\nsecond line", "Verdict: safe.", "Denied by @grace.", "rm <b>x</b>"} {
		tb.shows("dialog", text)
	}
	require.Equal(t, "details", s.seenClicks()[0].Button)
	tb.click("dialog .detail button")
	tb.shows("dialog:last-of-type", "hello from the command")
}
