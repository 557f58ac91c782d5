package pagetest

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

func TestCompletion(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	aThread(s)
	tb := newBrowser(t).open(s, "ada", "")
	tb.run(typed("#composer", "/"))
	tb.shows("#suggestions [role=option]", "/agent")
	tb.press(kb.Tab)
	require.Equal(t, "/agent ", tb.text(`document.querySelector("#composer").value`))
	tb.shows("#suggestions", "opens a thread and runs a task")
	tb.press(kb.ArrowDown, kb.ArrowDown)
	tb.until("the choice is told", `document.getElementById(document.querySelector("#composer").getAttribute("aria-activedescendant")).innerText.includes("list")`)
	tb.press(kb.ArrowUp, kb.Enter)
	require.Equal(t, "/agent run ", tb.text(`document.querySelector("#composer").value`))
	tb.shows("#suggestions", "--backend")
	tb.press(kb.Tab)
	tb.shows("#suggestions", "docker")
	tb.press(kb.ArrowDown, kb.ArrowDown, kb.Enter)
	require.Equal(t, "/agent run --backend docker ", tb.text(`document.querySelector("#composer").value`))
	require.Equal(t, "docker", tb.text(`document.querySelector("#backend").value`))
	tb.press(kb.Escape)
	tb.until("Escape closes the list", `document.querySelector("#suggestions").hidden`)
	tb.press(kb.Tab)
	tb.until("then Tab goes on", `document.activeElement.matches(".attach")`)
	tb.press(kb.Tab)
	tb.until("and on", `document.activeElement.id === "backend"`)
	require.Empty(t, s.seenTries())
}

func TestCompletionInAThread(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	aThread(s)
	tb := newBrowser(t).open(s, "ada", "t1")
	tb.run(typed("#composer", "/agent "))
	for _, c := range []string{"stop", "switch", "fork", "title", "model", "pause", "done", "destroy", "status", "history", "grants", "files", "list", "help"} {
		tb.shows("#suggestions", c)
	}
	tb.run(typed("#composer", "switch "))
	tb.shows("#suggestions", "docker")
	tb.run(typed("#composer", "the lights off"))
	tb.until("a task is not completed", `document.querySelector("#suggestions").hidden`)
}

func TestBackendPickerWritesWhatIsSent(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	tb := newBrowser(t).open(s, "ada", "")
	tb.run(typed("#composer", "/agent fix it"))
	for _, step := range [][2]string{{"docker", "/agent run --backend docker fix it"}, {"local", "/agent run --backend local fix it"}, {"", "/agent fix it"}} {
		tb.eval(`document.querySelector("#backend").value = "` + step[0] + `"; document.querySelector("#backend").dispatchEvent(new Event("change"))`)
		require.Equal(t, step[1], tb.text(`document.querySelector("#composer").value`))
	}
	tb.eval(`document.querySelector("#backend").value = "docker"; document.querySelector("#backend").dispatchEvent(new Event("change"))`)
	tb.press(kb.Enter)
	tb.shows("h1", "run --backend docker fix it")
	require.Equal(t, "/agent run --backend docker fix it", s.seenTries()[0].Text)
}

func TestPlainTextInAChannel(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	tb := newBrowser(t).open(s, "ada", "")
	tb.run(typed("#composer", "fix the test"+kb.Enter))
	tb.shows("#composer-error[role=alert]", "Plain text starts nothing here.")
	require.Empty(t, s.seenTries())
	tb.click("#composer-error button")
	tb.shows(".message.user", "/agent fix the test")
}

func TestNewlinesAndDrafts(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	aThread(s)
	tb := newBrowser(t).open(s, "ada", "t1")
	tb.run(typed("#composer", "first"))
	tb.run(chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(chromedp.ModifierShift)))
	tb.run(typed("#composer", "second"))
	require.Equal(t, "first\nsecond", tb.text(`document.querySelector("#composer").value`))
	tb.eval(`location.hash = "#/t/t2"`)
	tb.shows("h1", "with a mutex")
	tb.until("the other thread has no draft", `document.querySelector("#composer").value === ""`)
	tb.eval(`location.hash = "#/t/t1"`)
	tb.until("the draft is back", `document.querySelector("#composer").value === "first\nsecond"`)
	tb.press(kb.Enter)
	tb.until("it was sent", `document.querySelector("#composer").value === ""`)
	require.Eventually(t, func() bool { return len(s.seenTries()) == 1 }, patience, 10*time.Millisecond)
	require.Equal(t, "first\nsecond", s.seenTries()[0].Text)
}

func TestAFailedSendIsKeptAndRetriedAsTheSame(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.addSession(session{ID: "t1", Title: "x", Liveness: "active"})
	var fail atomic.Bool
	fail.Store(true)
	s.onPost = func(string, string, post, string) (int, string) {
		if fail.Load() {
			return http.StatusServiceUnavailable, "Temporal did not answer; nothing was recorded."
		}
		return 0, ""
	}
	tb := newBrowser(t).open(s, "ada", "t1")
	tb.expect("503")
	tb.run(typed("#composer", "important"+kb.Enter))
	tb.shows(".message.pending", "not sent")
	tb.shows(".message.pending", "Temporal did not answer; nothing was recorded.")
	tb.shot("not-sent")
	fail.Store(false)
	tb.click(".message.pending [data-action=resend]")
	tb.until("it is sent", `!document.querySelector(".pending") && document.querySelectorAll(".message.user").length === 1`)
	tries := s.seenTries()
	require.Len(t, tries, 2)
	require.Equal(t, tries[0], tries[1], "the same client_id again")

	fail.Store(true)
	tb.run(typed("#composer", "never mind"+kb.Enter))
	tb.shows(".message.pending", "not sent")
	tb.click(".message.pending [data-action=unsend]")
	tb.until("it is taken back into the field", `document.querySelector("#composer").value === "never mind" && !document.querySelector(".pending")`)
}

// What was refused would be refused again: it can only be taken back and changed.
func TestARefusedMessageIsTakenBack(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.addSession(session{ID: "t1", Title: "x", Liveness: "active"})
	s.onPost = func(string, string, post, string) (int, string) {
		return http.StatusBadRequest, "There is no backend “nowhere”."
	}
	tb := newBrowser(t).open(s, "ada", "t1")
	tb.expect("400")
	tb.run(typed("#composer", "/agent switch nowhere"+kb.Enter))
	tb.shows(".message.pending", "There is no backend “nowhere”.")
	require.Equal(t, "0", tb.text(`document.querySelectorAll(".message.pending [data-action=resend]").length`))
	tb.click(".message.pending [data-action=unsend]")
	tb.until("it is taken back into the field", `document.querySelector("#composer").value === "/agent switch nowhere" && !document.querySelector(".pending")`)
}

func TestAFailedStartKeepsTextAndIdentity(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var fail atomic.Bool
	fail.Store(true)
	s.onPost = func(string, string, post, string) (int, string) {
		if fail.Load() {
			return http.StatusServiceUnavailable, "Temporal did not answer; nothing was recorded."
		}
		return 0, ""
	}
	tb := newBrowser(t).open(s, "ada", "")
	tb.expect("503")
	tb.run(typed("#composer", "/agent go"+kb.Enter))
	tb.shows("#composer-error", "Temporal did not answer")
	require.Equal(t, "/agent go", tb.text(`document.querySelector("#composer").value`))
	fail.Store(false)
	tb.press(kb.Enter)
	tb.shows(".message.user", "/agent go")
	tries := s.seenTries()
	require.Len(t, tries, 2)
	require.Equal(t, tries[0], tries[1])
}

func TestTooLongIsSaidBeforeItIsSent(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	tb := newBrowser(t).open(s, "ada", "")
	tb.eval(`document.querySelector("#composer").value = "/agent " + "x".repeat(1 << 20)`)
	tb.press(kb.Enter)
	tb.shows("#composer-error", "longer than 1 MB")
	require.Empty(t, s.seenTries())
}

func TestTheSessionMenu(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.addSession(session{ID: "t1", Title: "x", Liveness: "active"})
	tb := newBrowser(t).open(s, "ada", "t1")
	tb.eval(`document.querySelector("[data-action=menu]").focus()`)
	tb.press(kb.Enter)
	tb.until("the first item has the focus", `document.activeElement.getAttribute("role") === "menuitem"`)
	tb.press(kb.Escape)
	tb.until("Escape closes and gives the focus back", `!document.querySelector(".menu") && document.activeElement.dataset.action === "menu"`)
	tb.press(kb.Enter, kb.ArrowDown, kb.ArrowDown, kb.Enter)
	tb.until("fork is written for me", `document.querySelector("#composer").value === "/agent fork "`)
	tb.eval(`document.querySelector("[data-action=menu]").focus()`)
	tb.press(kb.Enter, kb.End, kb.ArrowUp, kb.ArrowUp, kb.ArrowUp, kb.ArrowUp, kb.Enter)
	require.Eventually(t, func() bool { return len(s.seenTries()) == 1 }, patience, 10*time.Millisecond)
	require.Equal(t, "/agent pause", s.seenTries()[0].Text)
}

func TestTheTree(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	aThread(s)
	s.addSession(session{ID: "t3", Title: "a fork of the fork", Liveness: "active", Parent: "agent/web/main/t2"})
	s.addSession(session{ID: "t4", Title: strings.Repeat("very long title ", 20), Liveness: "active", Parent: "gone"})
	tb := newBrowser(t).open(s, "ada", "")
	tb.shows(".forks .forks", "a fork of the fork")
	tb.shows(".tree > li", "very long title")
	for _, words := range []string{"waiting for approval", "paused", "destroyed", "active"} {
		tb.shows(".session-sub", words)
	}
	tb.until("the title counts what waits", `document.title === "(1 ◐) #general · Countersign"`)
	tb.until("the list is not too wide", `document.querySelector("#side").scrollWidth <= document.querySelector("#side").clientWidth`)
	s.put(message{ID: "z1", ThreadID: "t3", Kind: "answer", Text: "news"})
	tb.shows(".session.unread", "a fork of the fork")
	tb.click(".session.unread")
	tb.shows(".message", "news")
	tb.until("it is read", `!document.querySelector(".session.unread")`)
}

func TestCommandsInAChannelAreAnsweredThere(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	aThread(s)
	b := newBrowser(t)
	tb, other := b.open(s, "ada", ""), b.open(s, "grace", "")
	tb.shows(".welcome .note", "Commands run as you, on this machine.")
	tb.shows("#backend", "default (local)")
	tb.run(typed("#composer", "/agent list"+kb.Enter))
	tb.shows(".message.user", "/agent list")
	tb.shows(".message.notice a", "fix it")
	other.shows(".message.notice a", "fix it")
	tb.lacks(".message.notice", "15:04:05Z")
	tb.shows("h1", "#general")
	tb.click(".message.notice a")
	tb.shows("h1", "fix the flaky test in internal/router")
	tb.run(typed("#composer", "/agent grants"+kb.Enter))
	tb.shows("#toasts strong", "no")
	other.lacks("body", "You have no grants")
}

func TestCompletionFromTheServersOwnList(t *testing.T) {
	t.Parallel()
	tb := newBrowser(t).open(newServer(t), "ada", "")
	suggest := func(text, place string) []string {
		return value[[]string](tb, `import("/complete.js").then((m) => m.suggest(`+quote(text)+`, `+quote(place)+`, {
			backends: [{ name: "local" }, { name: "docker" }], models: [{ name: "big" }], sessions: [{ name: "0001" }], commands: [
				{ name: "run", usage: "run [--backend B] [--title \"T\"] [--] <task>", does: "runs", thread: false },
				{ name: "new", usage: "new --from <session>", does: "copies", thread: false },
				{ name: "model", usage: "model <name>", does: "changes", thread: true },
				{ name: "switch", usage: "switch [backend] [root]", does: "moves", thread: true },
				{ name: "later", usage: "later", does: "is new", thread: false }] }).map((i) => i.text))`)
	}
	require.Equal(t, []string{"/agent run ", "/agent new ", "/agent later"}, suggest("/agent ", "c"))
	require.Equal(t, []string{"/agent new ", "/agent model ", "/agent switch ", "/agent later"}, suggest("/agent ", "t"))
	require.Equal(t, []string{"@countersign "}, suggest("@C", "c"))
	require.Equal(t, []string{"@Countersign run "}, suggest("@Countersign ru", "c"), "phones begin words large")
	require.Equal(t, []string{"/agent run --backend ", "/agent run --title "}, suggest("/agent run ", "c"))
	require.Equal(t, []string{"/agent switch local ", "/agent switch docker "}, suggest("/agent switch ", "t"))
	require.Equal(t, []string{"/agent model big "}, suggest("/agent model ", "t"))
	require.Equal(t, []string{"@countersign new --from 0001 "}, suggest("@countersign new --from ", "c"))
	require.Empty(t, suggest("/agent look at the list", "c"))
}

func TestAnEndedSessionLeadsToANewOne(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.addSession(session{ID: "t1", Title: "x", Liveness: "destroyed"})
	s.put(message{ID: "n1", ThreadID: "t1", Kind: "notice", Text: "Destroyed."})
	tb := newBrowser(t).open(s, "ada", "t1")
	tb.shows(".ended", "This session has ended.")
	tb.click(".ended button")
	tb.shows("h1", "#general")
	tb.until("the command is written", `document.querySelector("#composer").value === "/agent new --from t1"`)
}
