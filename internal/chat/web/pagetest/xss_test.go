package pagetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each tries to become markup, an attribute, a script or an address.
var attacks = []string{
	`<img src=x onerror="window.pwned=1">`,
	`"><script>window.pwned=1</script>`,
	`'" onmouseover="window.pwned=1" x="`,
	`javascript:window.pwned=1`,
	`[click](javascript:window.pwned=1)`,
	`![x](https://evil.example/pixel.png)`,
	`[x](https://ok.example/"onclick="window.pwned=1)`,
	"<https://x.example/\"><svg/onload=window.pwned=1>>",
	`</textarea></title><iframe src="https://evil.example"></iframe>`,
	"`<b>`**<i>**",
	`__proto__`,
	`<style>*{display:none}</style>`,
	`{{constructor.constructor('window.pwned=1')()}}`,
	"\u202e\u2066reversed\u2069 \u200b\u0000\x1b[31m",
}

// evil is a message of the kind whose every field is the attack.
func evil(kind, x string, n int) message {
	now := time.Now()
	who := map[string]string{"id": x, "name": x}
	m := message{ID: fmt.Sprintf("evil-%s-%d", kind, n), ThreadID: "t1", Kind: kind, Author: x, Key: x, Text: x + "\n\n" + x,
		Buttons: []button{{x, x}, {"deny", x}}}
	switch kind {
	case "header":
		m.Header = map[string]any{"title": x, "backend": x, "workspace": x, "model": x, "by": who, "liveness": x, "notice": x, "usage": map[string]any{"micros": x}}
	case "turn":
		m.Turn = map[string]any{"state": []string{"working", "failed", "stopped", x}[n%4], "started_at": x, "ended_at": now, "error": x, "hint": x, "by": who, "commands": 3, "queued": 1}
		for _, state := range []string{"running", "denied", "completed", x} {
			m.ToolCalls = append(m.ToolCalls, toolCall{ID: x + state, Tool: x, Command: x, State: state, Tail: x, Note: x, ExitCode: ptr(1)})
		}
	case "approval":
		m.Approval = &approval{ID: x, State: []string{"pending", "denied", "approved", x}[n%4], Tier: x, Command: x, Cwd: x, Backend: x, Workspace: x, Reasons: []string{x, x, x}, Why: []string{x, x}, Digest: x,
			ExpiresAt: now, Votes: []vote{{By: x, Verdict: "approve", At: now, Reason: x}}, Approvers: []string{x}, RequestedBy: []any{who, x}, Required: 2, CallID: x}
	}
	return m
}

func TestNoTextBecomesMarkup(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.onClick = func(c seenClick) clickAnswer {
		x := attacks[0]
		return clickAnswer{Outcome: "recorded", Text: x, Review: map[string]any{"command": x, "cwd": x, "backend": x, "reasons": []string{x}, "env": []string{x},
			"files": []map[string]string{{"path": x, "text": x}}, "notes": []string{x}, "digest": x}}
	}
	for _, x := range attacks {
		s.addSession(session{ID: "s" + x, WorkflowID: x, Title: x, Backend: x, Liveness: x, Parent: x})
	}
	s.addSession(session{ID: "t1", Title: attacks[0], Backend: attacks[1], Liveness: "active"})
	n := 0
	for _, kind := range []string{"user", "header", "turn", "approval", "answer", "notice", attacks[2]} {
		for _, x := range attacks {
			s.put(evil(kind, x, n))
			n++
		}
	}
	tb := newBrowser(t).open(s, "ada", "t1")
	tb.shows(".message.answer", "window.pwned=1")
	// Once more as edits, which take the other way into the page.
	for i, x := range attacks {
		m := evil("answer", x, 1000+i)
		s.put(m)
		m.Text += " edited"
		s.put(m)
	}
	tb.shows(".message.answer", "edited")
	tb.until("reviews can be opened", `document.querySelector("[data-button=review], [data-button=deny]")`)
	tb.eval(`document.querySelectorAll(".fold").forEach((b) => b.click())`)
	requireHarmless(t, tb)

	s.put(message{ID: "p9", ThreadID: "t1", Kind: "approval", Buttons: []button{{"review", "Review…"}}, Approval: &approval{ID: "a", State: "pending", Tier: "risky", Command: attacks[0], Digest: "d"}})
	tb.until("the card is there", `document.querySelector("#m-p9 [data-button=review]")`)
	tb.eval(`document.querySelector("#m-p9 [data-button=review]").click()`)
	tb.shows("dialog", "Environment changes")
	requireHarmless(t, tb)
}

func requireHarmless(t *testing.T, tb *tab) {
	t.Helper()
	require.Equal(t, "undefined", tb.text("typeof window.pwned"))
	bad := tb.text(`[...document.querySelectorAll("iframe, object, embed, base, form[action], style:not(head style), script:not([src='app.js']), img:not([src='icon.svg']), svg:not(.icon)")].map((e) => e.outerHTML).join("\n")`)
	require.Empty(t, bad)
	attributes := tb.text(`[...document.querySelectorAll("*")].flatMap((e) => [...e.attributes].filter((a) => /^on|^style$|^srcdoc$|^formaction$/i.test(a.name) && !(a.name === "style" && e.id === "composer")).map((a) => e.tagName + " " + a.name + "=" + a.value)).join("\n")`)
	require.Empty(t, attributes)
	links := tb.text(`[...document.querySelectorAll("a[href]")].filter((a) => !["http:", "https:", "mailto:"].includes(a.protocol) || (a.origin !== location.origin && !/noopener/.test(a.rel))).map((a) => a.outerHTML).join("\n")`)
	require.Empty(t, links)
	hosts := tb.text(`performance.getEntriesByType("resource").map((e) => new URL(e.name).origin).filter((o) => o !== location.origin).join(" ")`)
	require.Empty(t, hosts, "the page asked another server")
}

func TestWhatDoesNotShowIsShown(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.addSession(session{ID: "t1", Title: "x", Liveness: "waiting"})
	s.put(message{ID: "p1", ThreadID: "t1", Kind: "approval", Approval: &approval{ID: "a", State: "pending", Tier: "risky",
		Command: "echo safe \u202e# \u200brm -rf /\x1b[2K\u3164\u00a0\u2800a\ufe0f", Digest: "d"}, Buttons: []button{{"deny", "Deny…"}}})
	tb := newBrowser(t).open(s, "ada", "t1")
	tb.shows("#m-p1 .command", `echo safe \u{202e}# \u{200b}rm -rf /\u{1b}[2K\u{3164}\u{a0}\u{2800}a\u{fe0f}`)
	s.put(message{ID: "a1", ThreadID: "t1", Kind: "answer", Text: "Prix\u00a0: ✔\ufe0f \u202etxt\u2063 👩\u200d👧"})
	tb.shows("#m-a1", "Prix\u00a0: ✔\ufe0f txt 👩\u200d👧")
	tb.shows("#m-p1", "read all of it under Review")
}
