package pagetest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// startsWithin bounds the start of cmd/dev on a busy machine.
const startsWithin = 90 * time.Second

// devBinary is cmd/dev: from the directory that COUNTERSIGN_E2E_BIN names, else
// built once.
var devBinary = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv("COUNTERSIGN_E2E_BIN"); dir != "" {
		return filepath.Join(dir, "dev"), nil
	}
	dir, err := os.MkdirTemp("", "countersign-pagetest-")
	if err != nil {
		return "", err
	}
	builtDir = dir
	cmd := exec.Command("go", "build", "-o", dir, "./cmd/dev")
	cmd.Dir = filepath.Join("..", "..", "..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building cmd/dev: %w\n%s", err, out)
	}
	return filepath.Join(dir, "dev"), nil
})

// builtDir is removed when all tests have ended.
var builtDir string

// stack is a running cmd/dev: the web chat, the sessions on a Temporal server,
// the gate and the sandboxes, with the offline model.
type stack struct {
	*server
	t *testing.T
}

// startStack runs cmd/dev on a fresh directory until the test ends. Ada, grace
// and linus may approve; nobody may for themselves.
func startStack(t *testing.T, prepare func(project string)) *stack {
	t.Helper()
	if testing.Short() {
		t.Skip("starts the whole of Countersign")
	}
	if _, err := chromium(); err != nil {
		t.Skip(err)
	}
	bin, err := devBinary()
	require.NoError(t, err)
	home := t.TempDir()
	project, data := filepath.Join(home, "project"), filepath.Join(home, "data")
	require.NoError(t, os.MkdirAll(filepath.Join(project, "build"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(project, "build", "out"), []byte("made\n"), 0o644))
	prepare(project)
	cmd := exec.Command(bin, "--data-dir", data, "--workspace", project, "--model", "offline", "--web-listen", "127.0.0.1:0",
		"--set", "approvals.approvers=ada,grace,linus", "--set", "approvals.risky.requester_may_approve=false")
	cmd.Dir, cmd.Env = home, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + os.TempDir()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.Create(filepath.Join(home, "log"))
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		select {
		case <-ended:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			<-ended
		}
		_ = log.Close()
		if out, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("cmd/dev printed, at the end:\n%s", out[max(0, len(out)-2500):])
		}
	})
	var up struct {
		URL   string `json:"web_url"`
		Token string `json:"token"`
	}
	require.Eventually(t, func() bool {
		content, err := os.ReadFile(filepath.Join(data, "dev.json"))
		return err == nil && json.Unmarshal(content, &up) == nil && up.URL != ""
	}, startsWithin, 50*time.Millisecond, "cmd/dev does not start")
	return &stack{server: &server{url: up.URL, token: up.Token}, t: t}
}

// asks starts a session from the channel and returns its thread.
func (s *stack) asks(tb *tab, task string) string {
	s.t.Helper()
	tb.run(typed("#composer", "/agent "+task+kb.Enter))
	tb.until("the thread is open", `location.hash.startsWith("#/t/")`)
	return strings.TrimPrefix(tb.text("location.hash"), "#/t/")
}

// clicks clicks a button of the last approval card once it stands still.
func (tb *tab) clicksCard(button string) {
	tb.t.Helper()
	tb.until("the card has the button "+button, `lastCard()?.querySelector("[data-button=`+button+`]")`)
	tb.eval(`lastCard().querySelector("[data-button=` + button + `]").scrollIntoView({ block: "center" })`)
	selector := "#" + tb.text(`lastCard().id`) + " [data-button=" + button + "]"
	tb.settled(selector)
	tb.click(selector)
}

// told waits for what the clicker alone is told, and puts it away.
func (tb *tab) told(text string) {
	tb.t.Helper()
	tb.shows("#toasts", text)
	tb.eval(`document.querySelectorAll("#toasts .close").forEach((b) => b.click())`)
}

// card waits for a text on the last approval card.
func (tb *tab) card(text string) {
	tb.t.Helper()
	tb.until("the card shows "+text, `lastCard()?.innerText.replace(/\s+/g, " ").includes(`+quote(text)+`)`)
}

const lastCard = `window.lastCard = () => [...document.querySelectorAll(".message.approval")].at(-1)`

// joins opens a thread as a person.
func (s *stack) joins(b *browser, name, thread string) *tab {
	s.t.Helper()
	tb := b.open(s.server, name, thread)
	tb.eval(lastCard)
	return tb
}

// One asks, two approve a critical command, each at a browser of their own, on a
// real Temporal server.
func TestThreePeople(t *testing.T) {
	t.Parallel()
	s := startStack(t, func(project string) {
		for _, args := range [][]string{
			{"init", "-q", "-b", "main", "."},
			{"-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "first"},
		} {
			out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", project}, args...)...).CombinedOutput()
			if err != nil {
				t.Skipf("needs git: %v: %s", err, out)
			}
		}
	})
	b := newBrowser(t)
	ada := s.joins(b, "ada", "")
	thread := s.asks(ada, "publish it with `git push --force . main:published`")
	ada.card("Approval needed · critical · 0 of 2")
	ada.card("git push --force . main:published")
	ada.card("Asked for by @ada’s session. May approve: @ada, @grace, @linus. You asked for this, so your own approval does not count.")
	ada.card("When asked: 1 commit is published on published, which is new.")
	require.NotContains(t, ada.text(`lastCard().innerText`), "waits for you")
	ada.clicksCard("approve")
	ada.told("You asked for this, so your own approval does not count.")

	mallory := s.joins(b, "mallory", thread)
	mallory.clicksCard("approve")
	mallory.told("This needs @ada, @grace or @linus.")

	grace, linus := s.joins(b, "grace", thread), s.joins(b, "linus", thread)
	grace.card("waits for you")
	grace.clicksCard("approve")
	grace.told("Recorded: 1 of 2.")
	for _, tb := range []*tab{ada, grace, linus} {
		tb.card("Approval needed · critical · 1 of 2 · @grace at ")
		tb.shows(".turn-card", "waits for approval ↓")
	}
	require.NotContains(t, grace.text(`lastCard().innerText`), "waits for you")
	linus.card("waits for you")
	linus.shot("three-people-one-vote")
	grace.clicksCard("approve")
	grace.told("Your vote is recorded")
	ada.shows(".turn-card", "waits for approval ↓")

	linus.clicksCard("approve")
	linus.told("Approved.")
	for _, tb := range []*tab{ada, grace, linus, mallory} {
		tb.card("✓ Approved by @grace and @linus at ")
		tb.card("· exit 0 ·")
		tb.shows(".message.answer", "git push --force . main:published")
		tb.shows(".turn-card", "Done · 1 command")
	}
	ada.shot("three-people-done")
	pushed, err := filepath.Glob(filepath.Join(ada.workspace(thread), ".git", "refs", "heads", "published"))
	require.NoError(t, err)
	require.Len(t, pushed, 1, "it ran where the session's files are")
}

// workspace is where the session's files are on this machine.
func (tb *tab) workspace(thread string) (path string) {
	tb.t.Helper()
	require.Eventually(tb.t, func() bool { // the header that says so lags behind
		path = value[string](tb, `fetch("/api/v1/threads/`+thread+`", { headers: { Authorization: "Bearer " + sessionStorage.getItem("countersign.token") } }).then((r) => r.json()).then((t) => t.workspace_path || "")`)
		return path != ""
	}, patience, 50*time.Millisecond)
	return path
}

// The other verdicts, through the page, the session and the gate.
func TestVerdictsOnTheWholeStack(t *testing.T) {
	t.Parallel()
	s := startStack(t, func(project string) {
		require.NoError(t, os.MkdirAll(filepath.Join(project, "dist"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(project, "dist", "out"), []byte("made\n"), 0o644))
	})
	b := newBrowser(t)
	ada := s.joins(b, "ada", "")
	thread := s.asks(ada, "clean up: `rm -rf .`")
	grace := s.joins(b, "grace", thread)

	// Changes are asked for: nothing runs, and the agent reads them.
	grace.clicksCard("review")
	grace.choose("Ask for changes")
	grace.run(typed("#review-note", "only build and dist"))
	grace.choose("Ask for these changes")
	ada.card("↺ Changes asked for by @grace: only build and dist")
	ada.shows(".message.answer", "only build and dist")

	// A changed command is judged again, and what was changed is shown.
	ada.run(typed("#composer", "`rm -rf build dist`"+kb.Enter))
	grace.card("Approval needed · risky")
	grace.card("rm -rf build dist")
	grace.card("When asked: 2 files, under 0.1 MB.")
	grace.clicksCard("review")
	grace.shows("dialog", "When asked: 2 files, under 0.1 MB.")
	grace.choose("Change the command")
	grace.eval(`document.querySelector("#review-edit").select()`)
	grace.run(typed("#review-edit", "rm -rf /"))
	grace.choose("Approve with this change")
	grace.shows("dialog [role=alert]", "never allowed")
	grace.eval(`document.querySelector("#review-edit").select()`)
	grace.run(typed("#review-edit", "rm -rf build"))
	grace.choose("Approve with this change")
	grace.told("Approved.")
	ada.card("✎ Approved with a change by @grace (see Review) at ")
	ada.card("· exit 0 ·")
	ada.clicksCard("review")
	ada.shows("dialog [aria-label='The command before it was changed']", "rm -rf build dist")
	ada.shows("dialog [aria-label='Command']", "rm -rf build")
	ada.press(kb.Escape)
	dir := ada.workspace(thread)
	require.NoDirExists(t, filepath.Join(dir, "build"))
	require.FileExists(t, filepath.Join(dir, "dist", "out"))

	// A permission: the same command is not asked about again until it is revoked.
	ada.shows(".message.answer", "rm -rf build")
	ada.run(typed("#composer", "`rm -rf dist`"+kb.Enter))
	grace.card("Approval needed · risky waits for you")
	grace.clicksCard("grant")
	grace.told("Approved.")
	grace.card("Allowed until ")
	ada.until("the third turn is done", `document.querySelectorAll(".turn-card.done").length === 3`)
	cards := `document.querySelectorAll(".message.approval").length`
	before := ada.text(cards)
	ada.run(typed("#composer", "`rm -rf dist`"+kb.Enter))
	ada.until("the fourth turn is done", `document.querySelectorAll(".turn-card.done").length === 4`)
	require.Equal(t, before, ada.text(cards), "it was not asked about")
	ada.click("[data-action=menu]")
	ada.eval(`[...document.querySelectorAll(".menu button")].find((b) => b.innerText === "Grants…").click()`)
	ada.shows("dialog .grants", "rm -rf dist")
	ada.choose("Revoke")
	ada.shows("dialog [role=status]", "Revoked: it is asked about again.")
	ada.shows("dialog .grants", "None: every risky command is asked about.")
	ada.press(kb.Escape)
	ada.run(typed("#composer", "`rm -rf dist`"+kb.Enter))
	ada.card("Approval needed · risky")

	// Stopped while it waits: who did it stands on the card.
	ada.run(chromedp.Click(chromedp.CSS(".turn-card.working [data-button=stop]"), chromedp.NodeVisible))
	grace.card("⊘ Stopped by @ada at ")
}
