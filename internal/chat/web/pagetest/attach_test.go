package pagetest

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/workflows"
)

// chooses picks files as the browser's own dialog does; their names come with the
// contents.
func (tb *tab) chooses(files ...[2]string) {
	tb.t.Helper()
	dir := tb.t.TempDir()
	var paths []string
	for _, f := range files {
		path := filepath.Join(dir, f[0])
		require.NoError(tb.t, os.WriteFile(path, []byte(f[1]), 0o644))
		paths = append(paths, path)
	}
	tb.run(chromedp.SetUploadFiles(chromedp.CSS("#attach-input"), paths))
}

// uploaded waits until nothing is on its way any more.
func (tb *tab) uploaded(n int) {
	tb.t.Helper()
	tb.until("files are there", `document.querySelectorAll("#attached li.ready").length === `+strconv.Itoa(n))
}

// What a message brings is named with its size before it is sent, may be taken
// away again, and goes with the message once.
func TestAttachingFiles(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	aThread(s)
	tb := newBrowser(t).open(s, "ada", "t1")
	tb.chooses([2]string{"log.txt", "it failed\n"}, [2]string{"gone.txt", "x"}, [2]string{"tricky\u202etxt.sh", "y"})
	tb.uploaded(3)
	tb.shows("#attached li", "log.txt\n10 B")
	tb.shows("#attached li", "tricky\\u{202e}txt.sh\n1 B")
	tb.shows("#announce", "Attached: log.txt, 10 B; gone.txt, 1 B;")
	tb.shot("attached")

	tb.click(`[aria-label="Remove gone.txt"]`)
	tb.until("it is gone and the next has the focus", `document.querySelectorAll("#attached li").length === 2 && document.activeElement.getAttribute("aria-label").startsWith("Remove tricky")`)
	tb.click(`#attached li:last-child [data-do=remove]`)
	tb.until("one is left", `document.querySelectorAll("#attached li").length === 1`)

	// The draft keeps its files while the person looks elsewhere.
	tb.eval(`location.hash = "#/t/t2"`)
	tb.shows("h1", "with a mutex")
	tb.lacks("#attached", "log.txt")
	tb.eval(`location.hash = "#/t/t1"`)
	tb.shows("#attached li", "log.txt\n10 B")

	tb.run(typed("#composer", "what is wrong here?"+kb.Enter))
	tb.shows(".message.user", "Attached: log.txt")
	tb.until("nothing is left to send", `!document.querySelector("#attached li") && document.querySelector("#composer").value === "" && !document.querySelector(".message.pending")`)
	tries := s.seenTries()
	require.Len(t, tries, 1)
	require.Equal(t, "what is wrong here?", tries[0].Text)
	require.Len(t, tries[0].Files, 1)
	require.Equal(t, "log.txt", tries[0].Files[0].Name)
	require.EqualValues(t, 10, tries[0].Files[0].Bytes)

	// Files need no text in a thread; in a channel the text says that it is a task.
	tb.chooses([2]string{"alone.txt", "z"})
	tb.uploaded(1)
	tb.click(".send")
	tb.shows(".message.user:not(.pending)", "Attached: alone.txt")
	tb.eval(`location.hash = "#/c/general"`)
	tb.shows("h1", "#general")
	tb.chooses([2]string{"task.txt", "t"})
	tb.uploaded(1)
	tb.run(typed("#composer", "read it"+kb.Enter))
	tb.shows("#composer-error", "Plain text starts nothing here.")
	tb.shows("#attached", "task.txt")
	tb.click("#composer-error button")
	tb.shows(".message.user:not(.pending)", "Attached: task.txt")
	require.Equal(t, "/agent read it", s.seenTries()[2].Text)
	require.Len(t, s.seenTries()[2].Files, 1)
}

// What cannot be sent is said before anything is, and what failed is tried again.
func TestFilesThatAreNotTaken(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	aThread(s)
	var fail atomic.Bool
	s.onFile = func(string) (int, string) {
		if fail.Load() {
			return http.StatusInternalServerError, "The disk is full."
		}
		return 0, ""
	}
	tb := newBrowser(t).open(s, "ada", "t1")
	tb.expect("500", "503")
	tb.chooses([2]string{"big.bin", strings.Repeat("x", 1001)}, [2]string{"a", "a"})
	tb.shows("#composer-error[role=alert]", "big.bin is 1 kB; a file may have 1 kB. Send a smaller one, or let the agent fetch it.")
	tb.uploaded(1)
	tb.shows("#composer-error", "big.bin")
	tb.chooses([2]string{"b", strings.Repeat("b", 800)}, [2]string{"c", strings.Repeat("c", 800)})
	tb.shows("#composer-error", "With c the files are more than the 2 kB that one message brings.")
	tb.chooses([2]string{"d", "d"}, [2]string{"e", "e"})
	tb.shows("#composer-error", "A message brings at most 3 files. Send the others with another message.")
	tb.uploaded(3)
	tb.click(`[aria-label="Remove b"]`)
	tb.click(`[aria-label="Remove d"]`)
	tb.until("two are removed", `document.querySelectorAll("#attached li").length === 1`)

	fail.Store(true)
	tb.chooses([2]string{"f.txt", "f"})
	tb.shows("#composer-error[role=alert]", "f.txt was not uploaded. The disk is full.")
	tb.shows("#attached li.failed", "not uploaded: The disk is full.")
	tb.run(typed("#composer", "look"+kb.Enter))
	tb.shows("#composer-error", "f.txt: not uploaded. Try again or remove it; nothing was sent.")
	require.Empty(t, s.seenTries())
	require.Equal(t, "look", tb.text(`document.querySelector("#composer").value`))
	fail.Store(false)
	tb.click("#attached [data-do=again]")
	tb.uploaded(2)

	// A message that did not arrive keeps its files; taken back, they are there again.
	var down atomic.Bool
	down.Store(true)
	s.mu.Lock()
	s.onPost = func(string, string, post, string) (int, string) {
		if down.Load() {
			return http.StatusServiceUnavailable, "Temporal did not answer; nothing was recorded."
		}
		return 0, ""
	}
	s.mu.Unlock()
	tb.click(".send")
	tb.shows(".message.pending", "Attached: a (1 B), f.txt (1 B)")
	tb.shows(".message.pending", "not sent")
	tb.click(".message.pending [data-action=unsend]")
	tb.until("all of it is taken back", `document.querySelector("#composer").value === "look" && document.querySelectorAll("#attached li.ready").length === 2`)
	tb.click(".send")
	tb.shows(".message.pending", "not sent")
	down.Store(false)
	tb.click(".message.pending [data-action=resend]")
	tb.until("it is sent", `!document.querySelector(".message.pending") && document.querySelectorAll(".message.user").length > 0`)
	tries := s.seenTries()
	require.Equal(t, tries[1], tries[len(tries)-1], "the same client_id with the same files")
	require.Len(t, tries[1].Files, 2)
}

// Files are chosen by the keyboard's button, by dropping and by pasting.
func TestWaysToAttach(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	aThread(s)
	tb := newBrowser(t).open(s, "ada", "t1")
	tb.eval(`window.opened = 0; document.querySelector("#attach-input").addEventListener("click", (e) => { e.preventDefault(); window.opened++; })`)
	tb.tabTo("[aria-label='Attach files']", false)
	tb.press(kb.Enter)
	tb.until("the dialog opens", `window.opened === 1`)
	tb.eval(`window.given = (name) => { const d = new DataTransfer(); d.items.add(new File(["z"], name)); return d; };
		document.querySelector("#scroll").dispatchEvent(new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: given("dropped.txt") }));
		document.querySelector("#composer").dispatchEvent(new ClipboardEvent("paste", { bubbles: true, cancelable: true, clipboardData: given("pasted.png") }))`)
	tb.uploaded(2)
	tb.shows("#attached", "dropped.txt")
	tb.shows("#attached", "pasted.png")
	tb.until("a drop that is no file's is the browser's", `document.querySelector("#scroll").dispatchEvent(new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: new DataTransfer() }))`)
}

// The page and the server that ships it agree about files.
func TestAttachingWithTheServer(t *testing.T) {
	t.Parallel()
	s := openSite(t)
	tb := newBrowser(t).blank()
	tb.run(chromedp.Navigate(s.Link()))
	tb.until("connected", `document.querySelector(".connection.open")`)
	tb.chooses([2]string{"notes.md", "read me"})
	tb.uploaded(1)
	tb.run(typed("#composer", "/agent summarise it"+kb.Enter))
	tb.shows(".message.user", "Attached: notes.md")
	require.Eventually(t, func() bool { return len(s.sessions.Asked("RequestSession")) == 1 }, patience, 10*time.Millisecond)
	got := s.sessions.Asked("RequestSession")[0].Arg.(workflows.SessionRequest).Task.Attachments
	require.Len(t, got, 1)
	require.Equal(t, "notes.md", got[0].Name)
	require.EqualValues(t, 7, got[0].Bytes)
}
