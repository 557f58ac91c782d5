package pagetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// axePackage is the accessibility checker that the page is held to. Its code is
// not part of this repository.
const axePackage = "axe-core@4.14.1"

// axe is the checker's script: from the directory that COUNTERSIGN_AXE names (an
// unpacked axe-core, as npm pack gives it), else fetched by npm.
var axe = sync.OnceValues(func() (string, error) {
	dir := os.Getenv("COUNTERSIGN_AXE")
	if dir == "" {
		temp, err := os.MkdirTemp("", "axe-core-")
		if err != nil {
			return "", err
		}
		defer func() { _ = os.RemoveAll(temp) }()
		if out, err := command(temp, "npm", "pack", "--silent", axePackage); err != nil {
			return "", fmt.Errorf("npm pack %s: %w: %s", axePackage, err, out)
		}
		files, _ := filepath.Glob(filepath.Join(temp, "axe-core-*.tgz"))
		if len(files) != 1 {
			return "", errors.New("npm pack left no package")
		}
		if out, err := command(temp, "tar", "xzf", files[0]); err != nil {
			return "", fmt.Errorf("unpacking %s: %w: %s", axePackage, err, out)
		}
		dir = filepath.Join(temp, "package")
	}
	script, err := os.ReadFile(filepath.Join(dir, "axe.min.js"))
	return string(script), err
})

// axeScript is the checker. Where nobody has provided it and npm cannot fetch it,
// the test is skipped; what COUNTERSIGN_AXE names has to be there.
func axeScript(t *testing.T) string {
	t.Helper()
	script, err := axe()
	if err != nil && os.Getenv("COUNTERSIGN_AXE") == "" {
		t.Skipf("needs %s: set COUNTERSIGN_AXE to its directory, or install npm: %v", axePackage, err)
	}
	require.NoError(t, err)
	return script
}

func command(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// accessible lets the checker look at the page as it is, in both schemes: no
// serious and no critical finding is let through.
func (tb *tab) accessible(what string) {
	tb.t.Helper()
	for _, dark := range []bool{false, true} {
		tb.scheme(dark)
		found := value[[]string](tb, `axe.run(document, { resultTypes: ["violations"] }).then((r) => r.violations.filter((v) => ["serious", "critical"].includes(v.impact))
			.flatMap((v) => v.nodes.map((n) => v.id + " (" + v.impact + "): " + n.html.slice(0, 200) + " " + n.failureSummary)))`)
		require.Empty(tb.t, found, "%s, dark=%v", what, dark)
		passed := value[int](tb, `axe.run(document, { runOnly: ["color-contrast"] }).then((r) => r.passes.flatMap((p) => p.nodes).length)`)
		require.Positive(tb.t, passed, "%s: contrast was not looked at", what)
	}
}

func TestAccessible(t *testing.T) {
	t.Parallel()
	script := axeScript(t)
	s := newServer(t)
	aThread(s)
	everyState(s)
	s.grants = []grant{{"g1", "rm -rf build", "grace", time.Now().Add(time.Hour)}}
	m := pendingApproval(time.Now())
	m.Approval.BreakGlass = []string{"ada"}
	s.put(m)
	s.onClick = func(seenClick) clickAnswer {
		return clickAnswer{Outcome: "recorded", Text: "all of it", Review: map[string]any{"command": "sh s.sh", "files": []map[string]string{{"path": "s.sh", "text": "ls"}}, "digest": "sha256:5f1c0d"}}
	}
	b := newBrowser(t)
	tb := b.open(s, "ada", "")
	tb.eval(script)
	tb.accessible("the channel")
	tb.run(typed("#composer", "/agent "))
	tb.shows("#suggestions", "list")
	tb.accessible("the completion")
	tb.eval(`document.querySelector("#composer").value = "plain"`)
	tb.press("\r")
	tb.shows("#composer-error", "Plain text")
	tb.accessible("the composer's error")
	s.mu.Lock()
	s.onFile = func(name string) (int, string) {
		if name == "no.txt" {
			return 500, "The disk is full."
		}
		return 0, ""
	}
	s.mu.Unlock()
	tb.expect("500")
	tb.chooses([2]string{"yes.txt", "y"}, [2]string{"no.txt", "n"})
	tb.shows("#attached .failed", "The disk is full.")
	tb.accessible("files to send")
	tb.shot("attached-failed")

	tb.eval(`location.hash = "#/t/t1"`)
	tb.shows(".approval-card", "Approve once")
	tb.accessible("a thread")
	tb.eval(`document.querySelector("#scroll").scrollTop = 0`)
	tb.accessible("a thread's start")
	tb.eval(`document.querySelector("[data-action=menu]").click()`)
	tb.accessible("the menu")
	tb.press("\u001b")
	tb.eval(`document.querySelector("#m-p1 [data-button=review]").click()`)
	tb.shows("dialog", "Approve what is shown")
	tb.eval(`document.querySelectorAll("dialog details").forEach((d) => { d.open = true; })`)
	tb.accessible("the review")
	tb.eval(`[...document.querySelectorAll("dialog button")].find((b) => b.innerText === "Approve alone…").click()`)
	tb.shows("dialog", "on your word alone")
	tb.accessible("the break-glass question")
	tb.press("\u001b")
	tb.eval(`document.querySelector("[data-action=menu]").click(); [...document.querySelectorAll(".menu button")].find((b) => b.innerText === "Grants…").click()`)
	tb.shows("dialog .grants", "rm -rf build")
	tb.accessible("the permissions")
	tb.press("\u001b")
	tb.eval(`document.querySelector("#m-p1 [data-button=deny]").click()`)
	tb.until("the dialog is open", `document.querySelector("dialog textarea")`)
	tb.accessible("the denial")
	tb.press("\u001b")
	tb.eval(`document.querySelector("#m-c1 [data-call=y1]").click()`)
	tb.shows("dialog", "no output")
	tb.accessible("the output")
	tb.press("\u001b")

	tb.eval(`location.hash = "#/t/states"`)
	tb.shows(".message", "outcome unknown")
	tb.accessible("every state")
	tb.run(chromedp.EmulateViewport(390, 780))
	tb.accessible("every state on a small screen")
	tb.eval(`document.querySelector(".head [data-action=open-side]").click()`)
	tb.until("the list is there", `document.body.classList.contains("side-open")`)
	tb.accessible("the list on a small screen")
}

func TestAccessibleWithoutToken(t *testing.T) {
	t.Parallel()
	script := axeScript(t)
	s := newServer(t)
	tb := newBrowser(t).blank()
	tb.run(chromedp.Navigate(s.url))
	tb.shows("main", "Token")
	tb.eval(script)
	tb.accessible("the gate")
}

// everyState is a thread with each state that a tool call, a turn and an approval
// can be in. It returns the time that all of it tells.
func everyState(s *server) (now time.Time) {
	now = time.Now()
	s.addSession(session{ID: "states", Title: "every state", Backend: "local", Liveness: "destroyed"})
	s.put(message{ID: "sh", ThreadID: "states", Kind: "header", Header: map[string]any{"title": "every state", "backend": "local", "isolated": false, "model": "offline",
		"by": map[string]string{"id": "ada"}, "liveness": "destroyed", "destroyed_at": now, "notice": "This sandbox is not isolated: commands run as you, on this machine."}})
	var calls []toolCall
	for _, state := range []string{"pending", "awaiting_approval", "running", "completed", "denied", "failed", "expired", "cancelled", "unknown"} {
		c := toolCall{ID: "s-" + state, Tool: "shell", Command: "do " + state, State: state}
		if state == "completed" {
			c.ExitCode, c.DurationMS = ptr(0), ptr(int64(400))
		}
		if state == "running" {
			c.StartedAt, c.Tail = &now, "tail"
		}
		calls = append(calls, c)
	}
	calls = append(calls, toolCall{ID: "s-file", Tool: "read_file", Command: "README.md", State: "completed", DurationMS: ptr(int64(3))})
	s.put(message{ID: "working", ThreadID: "states", Kind: "turn", ToolCalls: calls, Buttons: []button{{"stop", "Stop"}}, Turn: map[string]any{"state": "working", "started_at": now, "queued": 2}})
	s.put(message{ID: "failed", ThreadID: "states", Kind: "turn", Turn: map[string]any{"state": "failed", "started_at": now, "ended_at": now, "error": "the model's quota is used up.", "hint": "Add credit, then write again."}})
	s.put(message{ID: "stopped", ThreadID: "states", Kind: "turn", ToolCalls: calls[7:8], Turn: map[string]any{"state": "stopped", "started_at": now, "ended_at": now, "by": map[string]string{"name": "ada"}, "error": "The running command was ended."}})
	s.put(message{ID: "textonly", ThreadID: "states", Kind: "turn", Text: "Done · 2 commands · at " + now.UTC().Format(time.RFC3339) + "\nsecond line"})
	for i, state := range []string{"pending", "approved", "denied", "expired", "changed", "withdrawn"} {
		a := &approval{ID: "a-" + state, State: state, Tier: []string{"risky", "critical"}[i%2], Command: "rm -rf " + state, Cwd: "/workspace", Backend: "local", Reasons: []string{"first", "second", "third"}, Why: []string{"first", "second"},
			Digest: "d", ExpiresAt: now, Required: 2, Votes: []vote{{By: "grace", Verdict: "approve", At: now, Reason: "why not"}}}
		s.put(message{ID: "ap-" + state, ThreadID: "states", Kind: "approval", Approval: a})
	}
	decided := func(id, outcome string, change func(*approval)) {
		a := &approval{ID: "a-" + id, State: "approved", Tier: "critical", Command: "rm -rf " + id, Cwd: "/workspace", Backend: "local", Digest: "d", ExpiresAt: now, Outcome: outcome}
		change(a)
		s.put(message{ID: "ap-" + id, ThreadID: "states", Kind: "approval", Approval: a})
	}
	at := now.UTC().Format(time.RFC3339)
	decided("edited", "✎ Approved with a change by @grace (see Review) at "+at+"\nAllowed until "+at+" in this thread, unless revoked.", func(a *approval) { a.EditedBy, a.Original = "grace", "rm -rf /" })
	decided("glass", "✓ Break-glass: approved by @ada alone at "+at+"\nReason: the site is down.", func(a *approval) { a.BrokeGlass = true })
	decided("wished", "↺ Changes asked for by @grace: use the staging bucket", func(a *approval) { a.State, a.Text = "denied", "use the staging bucket" })
	decided("open", "", func(a *approval) {
		a.State, a.EditedBy, a.Original, a.Widened, a.Remark = "pending", "grace", "rm -rf /", true, "A vote does not count any more."
		a.Approvers, a.RequestedBy, a.RequesterMayApprove = []string{"*"}, []any{"linus"}, ptr(false)
	})
	s.put(message{ID: "note", ThreadID: "states", Kind: "notice", Text: "Destroyed by @ada at " + now.UTC().Format(time.RFC3339) + ".", Buttons: []button{{"destroy", "Destroy"}, {"keep", "Keep"}}})
	return now
}

func TestEveryStateHasItsMarkAndWords(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	clock := everyState(s).Local().Format("15:04")
	tb := newBrowser(t).open(s, "ada", "states")
	tb.shows("#m-working", "2 messages sent meanwhile: taken next.")
	tb.eval(`document.querySelector("#m-working .fold").click()`)
	tb.until("all calls are shown", `document.querySelectorAll("#m-working .call").length === 10`)
	for _, line := range []string{
		"◦ next: do pending next", "◦ waits for approval: do awaiting_approval waits for approval ↓", "▸ running: do running since " + clock,
		"✓ ended: do completed exit 0 · 0.4 s", "⊘ denied: do denied denied", "✕ failed to start: do failed failed to start", "⌛ expired, not run: do expired expired, not run",
		"⊘ stopped: do cancelled stopped", "? outcome unknown: do unknown outcome unknown", "✓ ended: read_file README.md 0.0 s",
	} {
		tb.until(line, `[...document.querySelectorAll("#m-working .call-line")].some((e) => e.innerText.replace(/\s+/g, " ").startsWith(`+quote(line)+`))`)
	}
	for selector, want := range map[string]string{
		".head-line":      "local (not isolated) · offline · by @ada · ■ destroyed " + clock,
		"#m-sh":           "This sandbox is not isolated",
		"#m-working":      "Working · since " + clock + ":",
		"#m-failed":       "Could not go on: the model's quota is used up. Add credit, then write again.",
		"#m-stopped":      "Stopped by @ada at " + clock + ". The running command was ended.",
		"#m-textonly":     "Done · 2 commands · at " + clock,
		"#m-note":         "Destroyed by @ada at " + clock + ".",
		"#m-ap-pending":   "Approval needed · risky · 1 of 2 · @grace at " + clock,
		"#m-ap-approved":  "✓ Approved by @grace at " + clock,
		"#m-ap-denied":    "⊘ Denied by @grace at " + clock + ": why not",
		"#m-ap-expired":   "⌛ Nobody decided by " + clock + ": not run.",
		"#m-ap-changed":   "⊘ What was to run has changed since it was shown: not run.",
		"#m-ap-withdrawn": "⊘ Withdrawn by @grace at " + clock + ": not run.",
		"#m-ap-edited":    "✎ Approved with a change by @grace (see Review) at " + clock + " Allowed until " + clock + " in this thread, unless revoked. Review…",
		"#m-ap-glass":     "Approval · critical · break-glass In local, directory /workspace: rm -rf glass ✓ Break-glass: approved by @ada alone at " + clock + " Reason: the site is down.",
		"#m-ap-wished":    "↺ Changes asked for by @grace: use the staging bucket",
		"#m-ap-open":      "May approve: everybody but who asked. ✎ Changed by @grace; it was: rm -rf / Nobody answered in time, so more people may approve now. A vote does not count any more.",
	} {
		tb.until(selector+" shows "+want, `document.querySelector(`+quote(selector)+`)?.innerText.replace(/\s+/g, " ").includes(`+quote(want)+`)`)
	}
	tb.eval(`document.querySelector("#scroll").scrollTop = 0`)
	tb.shot("states-1")
	tb.eval(`document.querySelector("#scroll").scrollTop = 700`)
	tb.shot("states-2")
	tb.eval(`document.querySelector("#scroll").scrollTop = 1400`)
	tb.shot("states-3")
}

func TestSmallScreens(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	aThread(s)
	everyState(s)
	tb := newBrowser(t).open(s, "ada", "t1")
	tb.run(chromedp.EmulateViewport(360, 720))
	for _, route := range []string{"#/t/t1", "#/t/states", "#/c/general"} {
		tb.eval(`location.hash = ` + quote(route))
		tb.shows("h1", map[string]string{"#/t/t1": "fix the flaky test", "#/t/states": "every state", "#/c/general": "#general"}[route])
		tb.settled("h1")
		wide := `[...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > 361 && !e.closest("pre, .table, .sr")).map((e) => e.outerHTML.slice(0, 120)).join("\n")`
		require.Empty(t, tb.text(wide), route)
		require.Equal(t, "true", tb.text(`document.documentElement.scrollWidth <= 360 && document.querySelector(".scroll").scrollWidth <= 360`), route)
		tb.shot("small-" + strings.ReplaceAll(route[2:], "/", "-"))
	}
	tb.until("what is out of sight is out of reach", `getComputedStyle(document.querySelector("#side")).visibility === "hidden"`)
	tb.click(".head [data-action=open-side]")
	tb.shows("#side", "Sessions")
	tb.settled("h1")
	tb.shot("small-side")
	tb.eval(`document.querySelector(".session").click()`)
	tb.until("it closes on a choice", `!document.body.classList.contains("side-open")`)
}
