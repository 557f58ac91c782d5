package pagetest

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

func TestTheServerGoesAndComesBack(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.addSession(session{ID: "t1", Title: "x", Liveness: "active"})
	s.put(message{ID: "a1", ThreadID: "t1", Kind: "answer", Text: "one"})
	tb := newBrowser(t).open(s, "ada", "t1")
	tb.expect("Failed to load", "ERR_")
	tb.shows(".message", "one")
	s.setDown(true)
	tb.shows("#banner", "Not connected to the server. What you see may be old.")
	tb.shows(".connection", "Not connected")
	tb.shows(".message", "one")
	tb.shot("offline")
	s.put(message{ID: "a1", ThreadID: "t1", Kind: "answer", Text: "one, edited meanwhile"})
	s.put(message{ID: "a2", ThreadID: "t1", Kind: "answer", Text: "two"})
	s.setDown(false)
	tb.eval(`document.querySelector("#banner button")?.click()`)
	tb.shows(".message", "two")
	tb.shows(".message", "one, edited meanwhile")
	tb.until("the banner has gone", `!document.querySelector("#banner")`)
	require.Equal(t, "2", tb.text(`document.querySelectorAll(".message").length`))
}

func TestTheServerIsNotThereYet(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.setDown(true)
	tb := newBrowser(t).blank()
	tb.expect("Failed to load", "ERR_")
	tb.run(chromedp.Navigate(s.url + "/#token=" + token))
	tb.shows("main [role=alert]", "The server cannot be reached.")
	s.setDown(false)
	tb.shows("main", "Give the agent a task")
}

func TestThreadsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	tb := newBrowser(t).blank()
	tb.expect("404")
	tb.run(chromedp.Navigate(s.url + "/#token=" + token + "&thread=nowhere"))
	tb.shows("main", "There is no such session here.")
}

func TestOutput(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.addSession(session{ID: "t1", Title: "x", Liveness: "active"})
	m := workingTurn(time.Now())
	s.put(m)
	var whole atomic.Value
	whole.Store("line 1\n")
	s.output = func(w http.ResponseWriter, id, stream string, offset int) {
		if id == "y3" && stream == "stdout" {
			_, _ = fmt.Fprint(w, whole.Load().(string)[offset:])
		}
		if id == "y3" && stream == "stderr" && offset == 0 {
			_, _ = fmt.Fprint(w, "\x1b[31mwarning\x1b[0m: <b>not bold</b>\n")
		}
	}
	tb := newBrowser(t).open(s, "ada", "t1")
	tb.shows("#m-c1", "go test -race")
	tb.click("#m-c1 [data-call=y3]")
	tb.shows("dialog .output", "line 1")
	tb.shows("dialog section[aria-label=stderr]", "warning: <b>not bold</b>")
	tb.shows("dialog", "▸ running")
	whole.Store("line 1\nline 2\n")
	tb.shows("dialog .output", "line 1\nline 2")
	m.ToolCalls[2].State, m.ToolCalls[2].ExitCode, m.ToolCalls[2].DurationMS = "completed", ptr(1), ptr(int64(2010))
	whole.Store("line 1\nline 2\nlast line\n")
	s.put(m)
	tb.shows("dialog", "✓ ended · exit 1 · 2.0 s")
	tb.shows("dialog .output", "last line")
	tb.shot("output")
	tb.press(kb.Escape)
	tb.until("focus goes back to the call", `document.activeElement.dataset.call === "y3"`)

	tb.click("#m-c1 [data-call=y1]")
	tb.shows("dialog", "no output")
}

// A server with another store: what the page followed is not known there.
func TestTheServerForgets(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	longThread(s, 5)
	tb := newBrowser(t).open(s, "ada", "t1")
	tb.expect("410", "ERR_", "Failed to load")
	tb.shows(".message", "Answer 4")
	s.mu.Lock()
	s.events, s.messages = nil, s.messages[:2]
	s.mu.Unlock()
	s.cut()
	tb.until("what is gone goes", `document.querySelectorAll(".message").length === 2`)
	s.put(message{ID: "n1", ThreadID: "t1", Kind: "answer", Text: "from the new one"})
	tb.shows(".message", "from the new one")
}

func TestALongThreadStaysQuick(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	longThread(s, 600)
	turn := workingTurn(time.Now())
	s.put(turn)
	tb := newBrowser(t).open(s, "ada", "t1")
	tb.shows(".turn-card", "Working")
	took := time.Hour // the best of a few: this machine may have more to do for a while
	for try := 0; try < 4 && took >= 10*time.Second; try++ {
		start := time.Now()
		for i := range 50 {
			turn.ToolCalls[2].Tail = fmt.Sprintf("line %d.%d", try, i)
			s.put(turn)
		}
		tb.shows(".tail", fmt.Sprintf("line %d.49", try))
		took = time.Since(start)
	}
	require.Less(t, took, 10*time.Second)
}

func TestTimesAreTheReaders(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.addSession(session{ID: "t1", Title: "x", Liveness: "active"})
	at := time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC)
	s.put(message{ID: "n1", ThreadID: "t1", Kind: "notice", At: at, Text: "Paused at 2026-03-01T12:30:00Z."})
	tb := newBrowser(t).blank()
	_, err := chromedp.Call(tb.ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Tokyo"})
	require.NoError(t, err)
	tb.run(chromedp.Navigate(s.url + "/#token=" + token + "&thread=t1"))
	tb.shows("#m-n1", "21:30.")
	require.Contains(t, tb.text(`document.querySelector("#m-n1 time").textContent`), "1 Mar")
	require.Equal(t, "2026-03-01T12:30:00.000Z", tb.text(`document.querySelector("#m-n1 time").dateTime`))
}
