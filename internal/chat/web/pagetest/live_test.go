package pagetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

func longThread(s *server, n int) {
	s.addSession(session{ID: "t1", Title: "long", Backend: "local", Liveness: "active"})
	for i := range n {
		s.put(message{ID: fmt.Sprintf("a%03d", i), ThreadID: "t1", Kind: "answer", Text: fmt.Sprintf("Answer %d\n\n%s", i, strings.Repeat("words of an answer ", 30))})
	}
}

func TestNothingJumps(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	longThread(s, 40)
	tb := newBrowser(t).open(s, "ada", "t1")
	tb.shows(".message", "Answer 39")
	atEnd := `(() => { const s = document.querySelector("#scroll"); return s.scrollHeight - s.scrollTop - s.clientHeight < 4; })()`
	tb.until("a reader starts at the end", atEnd)

	s.put(message{ID: "b1", ThreadID: "t1", Kind: "answer", Text: "New at the end"})
	tb.shows(".message", "New at the end")
	tb.until("and stays there", atEnd)

	tb.eval(`document.querySelector("#m-a020").scrollIntoView({ block: "start" })`)
	tb.until("the reader has gone up", `document.querySelector("#scroll").scrollTop < document.querySelector("#scroll").scrollHeight - 2000`)
	top := func() float64 {
		return value[float64](tb, `document.querySelector("#m-a020").getBoundingClientRect().top`)
	}
	before := top()
	s.put(message{ID: "a005", ThreadID: "t1", Kind: "answer", Text: "Edited above: " + strings.Repeat("much longer ", 400)})
	s.put(message{ID: "a030", ThreadID: "t1", Kind: "answer", Text: "Edited below"})
	s.put(message{ID: "b2", ThreadID: "t1", Kind: "answer", Text: "Another one"})
	tb.shows("#m-b2", "Another one")
	tb.shows("#m-a005", "Edited above")
	require.InDelta(t, before, top(), 2, "what is read has moved")
	tb.shows(".jump", "1 new below")
	tb.click(".jump")
	tb.until("back at the end", atEnd)
	tb.until("the button has gone", `document.querySelector(".jump").hidden`)
}

func TestEditsKeepFocusAndSelection(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.addSession(session{ID: "t1", Title: "x", Liveness: "active"})
	turn := workingTurn(time.Now())
	s.put(turn)
	s.put(message{ID: "a1", ThreadID: "t1", Kind: "answer", Text: "First words"})
	tb := newBrowser(t).open(s, "ada", "t1")
	tb.shows("#m-c1 .tail", "FAIL: TestReconnect")
	tb.eval(`document.querySelector("#m-c1 [data-button=stop]").focus()`)
	tb.eval(`getSelection().selectAllChildren(document.querySelector("#m-a1 p"))`)
	for i := range 5 {
		turn.ToolCalls[2].Tail += fmt.Sprintf("line %d\n", i)
		s.put(turn)
	}
	tb.shows("#m-c1 .tail", "line 4")
	require.Equal(t, "stop", tb.text(`document.activeElement.dataset.button`))
	require.Equal(t, "First words", tb.text(`getSelection()`))
	require.Equal(t, "1", tb.text(`document.querySelectorAll("#m-c1").length`))

	s.put(message{ID: "c1", ThreadID: "t1", Kind: "turn", Turn: map[string]any{"state": "stopped", "by": map[string]string{"id": "ada"}, "ended_at": time.Now()}})
	tb.shows("#m-c1", "Stopped by @ada at")
	tb.until("its button has gone", `!document.querySelector("#m-c1 [data-button]")`)
}

func TestTailShowsTheLastTenLinesOfWhatRuns(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.addSession(session{ID: "t1", Title: "x", Liveness: "active"})
	var calls []toolCall
	for i := range 12 {
		calls = append(calls, toolCall{ID: fmt.Sprint("k", i), Tool: "shell", Command: fmt.Sprint("step ", i), State: "completed", ExitCode: ptr(0), Tail: "never shown"})
	}
	var tail strings.Builder
	for i := range 30 {
		fmt.Fprintf(&tail, "out %d\n", i)
	}
	calls = append(calls, toolCall{ID: "r", Tool: "shell", Command: "make", State: "running", Tail: tail.String()})
	s.put(message{ID: "c1", ThreadID: "t1", Kind: "turn", Turn: map[string]any{"state": "working", "started_at": time.Now()}, ToolCalls: calls})
	tb := newBrowser(t).open(s, "ada", "t1")
	tb.shows("#m-c1 .tail", "out 29")
	require.Equal(t, "out 20", tb.text(`document.querySelector("#m-c1 .tail").textContent.split("\n")[0]`))
	require.NotContains(t, tb.text(`document.body.innerText`), "never shown")
	require.Equal(t, "8", tb.text(`document.querySelectorAll("#m-c1 .call").length`))
	tb.shows("#m-c1 .fold", "… 5 earlier")
	tb.run(typed("#m-c1 .fold", kb.Enter))
	tb.until("all are shown", `document.querySelectorAll("#m-c1 .call").length === 13`)
	require.Equal(t, "true", tb.text(`document.activeElement === document.querySelector("#m-c1 .fold")`), "focus stays on what was pressed")
}

func TestNewestVersionWins(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.addSession(session{ID: "t1", Title: "x", Liveness: "active"})
	s.put(message{ID: "a1", ThreadID: "t1", Kind: "answer", Text: "one"})
	tb := newBrowser(t).open(s, "ada", "t1")
	tb.shows("#m-a1", "one")
	s.put(message{ID: "a1", ThreadID: "t1", Kind: "answer", Text: "two"})
	tb.shows("#m-a1", "two")
	s.mu.Lock()
	s.events = append(s.events, message{ID: "a1", ThreadID: "t1", Kind: "answer", Text: "stale", At: time.Now()})
	s.signal()
	s.mu.Unlock()
	s.put(message{ID: "a2", ThreadID: "t1", Kind: "answer", Text: "after"})
	tb.shows("#m-a2", "after")
	tb.shows("#m-a1", "two")
}
