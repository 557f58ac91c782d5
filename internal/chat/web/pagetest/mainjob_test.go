package pagetest

import (
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// The main job, as a person does it in a browser, on the whole of Countersign:
// ask, watch, approve, read the answer, go on in the thread.
func TestMainJob(t *testing.T) {
	t.Parallel()
	s := startStack(t, func(string) {})
	b := newBrowser(t)
	ada := s.joins(b, "ada", "")
	thread := s.asks(ada, "look around with `ls -la`, then `rm -rf build`")
	ada.shows(".turn-card", "ls -la")
	ada.card("Approval needed · risky")
	ada.card("rm -rf build")
	ada.shows(".turn-card", "waits for approval ↓")
	ada.shows(".session.waiting", "waiting for approval")
	require.DirExists(t, ada.workspace(thread)+"/build")
	ada.shot("main-job-waiting")

	grace := s.joins(b, "grace", thread)
	grace.clicksCard("approve")
	grace.told("Approved.")
	ada.card("✓ Approved by @grace at ")
	ada.card("· exit 0 ·")
	ada.shows(".message.answer", "rm -rf build")
	ada.shows(".turn-card", "Done · 2 commands")
	require.NoDirExists(t, ada.workspace(thread)+"/build")

	ada.run(typed("#composer", "and what is left? `ls`"+kb.Enter))
	ada.until("the second answer is there", `document.querySelectorAll(".message.answer").length === 2`)
	ada.until("the second turn has ended", `[...document.querySelectorAll(".turn-card")].at(-1).innerText.includes("Done · 1 command")`)
	ada.shot("main-job-done")
}
