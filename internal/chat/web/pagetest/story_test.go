package pagetest

import (
	"testing"
	"time"
)

const answerText = "# What I found\n\nThe test is **flaky** because `Reconnect` races with the timer, see [the docs](https://go.dev/doc/articles/race_detector).\n\n" +
	"| file | line | why |\n| --- | ---: | --- |\n| `router.go` | 88 | no lock |\n| `router_test.go` | 12 | sleeps |\n\n" +
	"1. Take the lock first.\n2. Then *wait* for the signal:\n   - not with `time.Sleep`\n   - but with a channel\n\n" +
	"```go\nfunc (r *Router) Reconnect() {\n\tr.mu.Lock()\n\tdefer r.mu.Unlock()\n\tr.count++\n}\n```\n\n> It passed 200 times in a row after that."

// aThread fills the server with one thread that has every kind of message.
func aThread(s *server) {
	now := time.Now()
	s.addSession(session{ID: "m1", Title: "look around the repository", Backend: "local", Liveness: "destroyed"})
	s.addSession(session{ID: "m2", Title: "explain the build", Backend: "docker", Liveness: "paused"})
	s.addSession(session{ID: "t1", Title: "fix the flaky test in internal/router", Backend: "docker", Liveness: "waiting"})
	s.addSession(session{ID: "t2", Title: "fix the flaky test, but with a mutex", Backend: "local", Liveness: "active", Parent: "t1"})
	s.put(message{ID: "u1", ThreadID: "t1", Kind: "user", Author: "ada", Text: "/agent fix the flaky test in internal/router, run `go test ./internal/router` first"})
	s.put(message{ID: "h1", ThreadID: "t1", Kind: "header", Author: "countersign", Text: "fix the flaky test in internal/router\ndocker · workspace api", Header: map[string]any{
		"title": "fix the flaky test in internal/router", "backend": "docker", "isolated": true, "workspace": "api", "model": "gpt-5.6-mini",
		"by": map[string]string{"id": "ada", "name": "ada"}, "liveness": "waiting", "waiting": 1, "usage": map[string]any{"micros": 140000},
	}})
	s.put(message{ID: "c0", ThreadID: "t1", Kind: "turn", Turn: map[string]any{
		"number": 1, "state": "done", "started_at": now.Add(-4 * time.Minute), "ended_at": now.Add(-138 * time.Second), "commands": 6,
		"usage": map[string]any{"input": 17000, "output": 1200, "micros": 80000},
	}, ToolCalls: []toolCall{
		{ID: "x1", Tool: "shell", Command: "ls -la", State: "completed", ExitCode: ptr(0), DurationMS: ptr(int64(12))},
		{ID: "x2", Tool: "shell", Command: "go test ./internal/router -run TestFlaky -count=20", State: "completed", ExitCode: ptr(1), DurationMS: ptr(int64(3100))},
		{ID: "x3", Tool: "shell", Command: "git log --oneline -5", State: "completed", ExitCode: ptr(0), DurationMS: ptr(int64(20))},
	}})
	s.put(message{ID: "a1", ThreadID: "t1", Kind: "answer", Author: "agent", Text: answerText})
	s.put(message{ID: "u2", ThreadID: "t1", Kind: "user", Author: "grace", Text: "Good. Do that, and clean the build cache."})
	s.put(workingTurn(now))
	s.put(pendingApproval(now))
}

func workingTurn(now time.Time) message {
	return message{ID: "c1", ThreadID: "t1", Kind: "turn", Turn: map[string]any{"number": 2, "state": "working", "started_at": now.Add(-50 * time.Second)}, Buttons: []button{{"stop", "Stop"}},
		ToolCalls: []toolCall{
			{ID: "y1", Tool: "shell", Command: "go test ./internal/router -run TestFlaky -count=20", State: "completed", ExitCode: ptr(1), DurationMS: ptr(int64(3100))},
			{ID: "y2", Tool: "shell", Command: "sed -n '1,80p' internal/router/router_test.go", State: "completed", ExitCode: ptr(0), DurationMS: ptr(int64(30))},
			{ID: "y3", Tool: "shell", Command: "go test -race ./internal/router", State: "running", StartedAt: ptr(now.Add(-20 * time.Second)), Tail: "--- FAIL: TestReconnect (2.01s)\n    router_test.go:88: got 3 reconnects, want 1\n"},
			{ID: "y4", Tool: "shell", Command: "rm -rf ~/.cache/go-build", State: "awaiting_approval"},
		}}
}

func pendingApproval(now time.Time) message {
	return message{ID: "p1", ThreadID: "t1", Kind: "approval",
		Buttons: []button{{"approve", "Approve once"}, {"review", "Review…"}, {"deny", "Deny…"}},
		Approval: &approval{ID: "ap1", State: "pending", Tier: "risky", Command: "rm -rf ~/.cache/go-build", Cwd: "/workspace", Backend: "docker", Workspace: "api",
			Why: []string{"`rm -rf` deletes /home/agent/.cache/go-build, outside the workspace. 312 files, 48 MB."}, Digest: "sha256:5f1c0d", ExpiresAt: now.Add(time.Hour),
			Approvers: []string{"platform-oncall"}, RequestedBy: []any{map[string]string{"id": "ada", "name": "ada"}}, CallID: "y4"}}
}

func TestLook(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	aThread(s)
	b := newBrowser(t)
	tb := b.open(s, "ada", "t1")
	tb.scheme(false)
	tb.shows(".approval-card", "Approve once")
	tb.shot("thread-light")
	tb.eval(`document.querySelector("#scroll").scrollTop = 0`)
	tb.shot("thread-top-light")
	tb.scheme(true)
	tb.shot("thread-top-dark")
	tb.eval(`document.querySelector(".code").scrollIntoView({ block: "center" })`)
	tb.shot("thread-code-dark")
	tb.scheme(false)
	tb.eval(`document.querySelector("[data-action=menu]").click()`)
	tb.shot("thread-code-menu")
	tb.eval(`document.querySelector(".menu").dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }))`)
	tb.eval(`document.querySelector("#scroll").scrollTop = 1e6`)
	tb.settled("#m-p1 [data-button=approve]")
	tb.click("#m-p1 [data-button=approve]")
	tb.shows("#toasts", "Recorded.")
	tb.shot("toast")
	tb.scheme(true)
	tb.click("#m-p1 [data-button=deny]")
	tb.until("the dialog is open", `document.querySelector("dialog")`)
	tb.shot("deny-dark")
	tb.press("\u001b")
	tb.eval(`location.hash = "#/c/general"`)
	tb.shows("main", "Give the agent a task")
	tb.shot("channel-dark")
	tb.scheme(false)
	tb.run(typed("#composer", "/agent "))
	tb.shows("#suggestions", "list")
	tb.shot("channel-complete")
}
