package pagetest

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

func TestTokenLeavesTheAddress(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	aThread(s)
	tb := newBrowser(t).open(s, "ada", "t1")
	require.Equal(t, s.url+"/?as=ada#/t/t1", tb.text("location.href"))
	require.NotContains(t, tb.text("document.documentElement.outerHTML"), token)
	require.Equal(t, "1", tb.text("history.length - 1"), "the address with the token is not in the history")
	tb.run(chromedp.Reload())
	tb.shows("h1", "fix the flaky test")
	tb.shows("#side", "ada")
}

func TestWithoutAToken(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	tb := newBrowser(t).blank()
	tb.expect("401")
	tb.run(chromedp.Navigate(s.url))
	tb.shows("main", "The link’s token is missing or no longer valid.")
	tb.run(typed("#token", "wrong"+kb.Enter))
	tb.until("it is asked for again", `document.querySelector("#token")?.value === ""`)
	tb.shot("gate")
	tb.run(typed("#token", s.url+"/#token="+token+kb.Enter))
	tb.shows("main", "Give the agent a task")
}

func TestATokenThatEnds(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	tb := newBrowser(t).open(s, "ada", "")
	tb.expect("401", "ERR_", "Failed to load")
	s.setToken("another")
	s.cut()
	tb.shows("main", "no longer valid")
	s.setToken(token)
	tb.eval(`location.hash = "#token=` + token + `"`)
	tb.shows("main", "Give the agent a task")
	require.NotContains(t, tb.text("location.href"), token)
}

func TestTwoPeopleSideBySide(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.addSession(session{ID: "t1", Title: "x", Backend: "local", Liveness: "active"})
	b := newBrowser(t)
	ada, grace := b.open(s, "ada", "t1"), b.open(s, "grace", "t1")
	ada.run(typed("#composer", "hello from ada"+kb.Enter))
	grace.shows(".message.user", "hello from ada")
	grace.lacks(".message.user", "you")
	grace.run(typed("#composer", "hello back"+kb.Enter))
	ada.shows(".message.user", "hello back")
	ada.shows(".message.user", "you")
	require.Equal(t, []string{"ada", "grace"}, []string{s.userMessages()[0].Author, s.userMessages()[1].Author})
	for _, tb := range []*tab{ada, grace} {
		tb.until("nothing is shown twice", `document.querySelectorAll(".message").length === 2`)
	}
}

func TestActAsSwitches(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.addSession(session{ID: "t1", Title: "x", Backend: "local", Liveness: "active"})
	tb := newBrowser(t).open(s, "", "t1")
	tb.shows("button.person", "dev")
	tb.click("button.person")
	tb.shows("dialog", "Known here: ada, grace, linus.")
	tb.run(typed("dialog input", "no spaces please"+kb.Enter))
	tb.shows("dialog [role=alert]", "Use letters, digits, dots, hyphens and underscores, at most 32.")
	tb.eval(`document.querySelector("dialog input").value = ""`)
	tb.run(typed("dialog input", "grace"+kb.Enter))
	tb.shows("button.person", "grace")
	require.True(t, strings.HasSuffix(tb.text("location.href"), "/?as=grace#/t/t1"))
	tb.until("connected as grace", `document.querySelector(".connection.open")`)
	tb.run(typed("#composer", "as grace"+kb.Enter))
	tb.shows(".message.user:not(.pending)", "as grace")
	require.Equal(t, "grace", s.userMessages()[0].Author)
}
