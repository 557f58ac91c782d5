package pagetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/chat/web"
	"github.com/countersign/countersign/internal/chat/web/page"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

type outputs map[string]string

func (o outputs) ReadAt(_ context.Context, exec, stream string, offset int64, limit int) ([]byte, error) {
	all := o[exec+"/"+stream]
	from := min(int(offset), len(all))
	return []byte(all[from:min(len(all), from+limit)]), nil
}

// site is the web chat as it is shipped, over stand-in sessions.
type site struct {
	*web.Server
	t        *testing.T
	sessions *chattest.Sessions
	thread   workflows.Thread
}

func openSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, sessions: &chattest.Sessions{}}
	var err error
	s.Server, err = web.New(t.Context(), web.Options{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", ActAs: true, Token: telemetry.NewSecret(token), Sessions: s.sessions, Blobs: &chattest.Blobs{},
		Outputs:  func(string) chat.OutputReader { return outputs{"e1/stdout": "hello from the command\n"} },
		Backends: []web.Backend{{Name: "local"}}, Page: page.FS, PagePolicy: page.ContentSecurityPolicy, Notices: []string{"Commands are not isolated."},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return s
}

// show posts a view, as a session's activity does, and returns its reference.
func (s *site) show(v workflows.MessageView, text string) string {
	s.t.Helper()
	ref, err := s.Poster().Post(s.t.Context(), chat.Content{WorkflowID: s.thread.WorkflowID(), Thread: s.thread, View: v, Text: text})
	require.NoError(s.t, err)
	return ref
}

// The page and the server that ships it agree about the main job.
func TestWithTheServer(t *testing.T) {
	t.Parallel()
	s := openSite(t)
	tb := newBrowser(t).blank()
	tb.run(chromedp.Navigate(s.Link()))
	tb.shows(".welcome", "Commands are not isolated.")
	tb.until("connected", `document.querySelector(".connection.open")`)
	tb.run(typed("#composer", "/agent look around with `ls`, then `rm -rf build`"+kb.Enter))
	tb.shows(".message.user", "look around with ls, then rm -rf build")
	s.thread = s.sessions.Asked("RequestSession")[0].Arg.(workflows.SessionRequest).Thread
	require.True(t, strings.HasSuffix(tb.text("location.hash"), "#/t/"+s.thread.ID))

	tb.click("[data-action=menu]")
	for _, item := range []string{"Status", "Switch backend…", "Fork…", "Rename…", "Change model…", "Stop the turn", "Pause", "Grants…", "Files", "Destroy…"} {
		tb.shows(".menu", item)
	}
	tb.press(kb.Escape)
	now := time.Now()
	ada := workflows.Actor{ID: "ada", Name: "ada"}
	s.show(workflows.MessageView{Key: "header", Kind: workflows.KindHeader, Version: 1, Header: &workflows.HeaderView{
		Title: "look around", Backend: "local", Workspace: "api", Model: "offline", By: ada, Liveness: workflows.LivenessWaiting, Waiting: 1}}, "")
	turn := workflows.TurnView{Number: 1, State: workflows.TurnWorking, StartedAt: now, Calls: []workflows.CallView{
		{ID: s.thread.ID + ".1.1", Tool: "shell", Command: "ls", State: workflows.CallCompleted, ExitCode: ptr(0), StartedAt: now, EndedAt: now.Add(400 * time.Millisecond), ExecID: "e1"},
		{ID: s.thread.ID + ".1.2", Tool: "shell", Command: "rm -rf build", State: workflows.CallAwaiting}}}
	s.show(workflows.MessageView{Key: "turn-1", Kind: workflows.KindTurn, Version: 1, Turn: &turn, Buttons: []workflows.Button{{ID: "stop", Label: "Stop"}}}, "")
	a := workflows.ApprovalView{ID: "a1", State: workflows.ApprovalPending, Tier: "risky", Command: workflows.TextRef{Text: "rm -rf build"}, Displayable: true, Cwd: "/workspace",
		Backend: "local", Reasons: []string{"deletes build"}, Digest: "d1", ExpiresAt: now.Add(time.Hour), Required: 1, Approvers: []string{"*"}, RequesterMayApprove: true, RequestedBy: []workflows.Actor{ada}, CallID: s.thread.ID + ".1.2"}
	card := workflows.MessageView{Key: "approval-a1", Kind: workflows.KindApproval, Version: 1, Approval: &a,
		Buttons: []workflows.Button{{ID: "approve", Label: "Approve once"}, {ID: "review", Label: "Review…"}, {ID: "deny", Label: "Deny…"}}}
	id := "#m-" + s.show(card, "")
	tb.shows("h1", "look around")
	tb.shows(".head-line", "◐ waiting for approval (1)")
	tb.shows(".session-sub", "waiting for approval")
	tb.shows(".turn-card", "waits for approval ↓")
	tb.shows(".turn-card", "exit 0 · 0.4 s")
	tb.shows(id, "Asked for by @ada’s session. May approve: everybody.")
	tb.click(".call.completed .call-line")
	tb.shows("dialog .output", "hello from the command")
	tb.press(kb.Escape)
	tb.click(id + " [data-button=review]")
	tb.shows("dialog", "Digest d1")
	tb.press(kb.Escape)

	s.sessions.Answer = workflows.Outcome{Outcome: workflows.OutcomeNotYours, Text: "This needs @grace."}
	tb.settled(id + " [data-button=approve]")
	tb.click(id + " [data-button=approve]")
	tb.shows("#toasts", "This needs @grace.")
	s.sessions.Answer = workflows.Outcome{}
	tb.settled(id + " [data-button=approve]")
	tb.click(id + " [data-button=approve]")
	require.Eventually(t, func() bool { return len(s.sessions.Asked("Decide")) == 2 }, patience, 10*time.Millisecond)
	decided := s.sessions.Asked("Decide")
	require.Equal(t, "d1", decided[1].Arg.(workflows.Decision).Digest)

	a.State, a.DecidedAt, a.CallState, a.ExitCode, a.Duration = workflows.ApprovalApproved, now, workflows.CallCompleted, ptr(0), 400*time.Millisecond
	a.Votes = []workflows.Vote{{By: ada, Verdict: workflows.VerdictApprove, At: now}}
	card.Version, card.Buttons = 2, nil
	s.show(card, "")
	tb.shows(id, "✓ Approved by @ada at "+now.Local().Format("15:04")+" · exit 0 · 0.4 s")
	turn.State, turn.EndedAt, turn.Commands = workflows.TurnDone, now.Add(102*time.Second), 2
	s.show(workflows.MessageView{Key: "turn-1", Kind: workflows.KindTurn, Version: 2, Turn: &turn}, "")
	s.show(workflows.MessageView{Key: "answer-1", Kind: workflows.KindAnswer, Version: 1}, "All **done**.")
	tb.shows(".turn-card", "Done · 2 commands · 1 m 42 s")
	tb.shows(".message.answer strong", "done")

	tb.run(typed("#composer", "thanks"+kb.Enter))
	tb.until("it is confirmed", `!document.querySelector(".pending") && [...document.querySelectorAll(".message.user")].some((e) => e.innerText.includes("thanks"))`)
	tb.eval(`location.hash = "#/c/general"`)
	tb.shows("h1", "#general")
	tb.run(typed("#composer", "/agent list"+kb.Enter))
	tb.shows(".message.notice", "no sessions yet")
	tb.run(chromedp.Reload())
	tb.shows(".message.notice", "no sessions yet")
}

// Who an address names is somebody that the server takes, or the page goes on as who
// the token is for, and says so.
func TestWhoTheAddressNames(t *testing.T) {
	t.Parallel()
	s := openSite(t)
	tb := newBrowser(t).blank()
	tb.expect("400")
	tb.run(chromedp.Navigate(s.URL() + "/?as=zo%C3%AB#token=" + token))
	tb.shows("button.person", "zoë")
	tb.run(chromedp.Navigate(s.URL() + "/?as=no%20spaces#token=" + token))
	tb.shows("#toasts", "Nobody can speak here as “no spaces”.")
	tb.shows("button.person", "you")
	require.NotContains(t, tb.text("location.href"), "as=")
	tb.until("connected", `document.querySelector(".connection.open")`)
}
