package discord

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/workflows"
)

// update writes the golden files anew.
var update = flag.Bool("update", false, "write the golden files anew")

// shown is one state of a message as it goes to Discord.
type shown struct {
	Name     string      `json:"name"`
	Text     string      `json:"text"`
	Rows     []component `json:"components,omitempty"`
	Mentions *mentions   `json:"allowed_mentions,omitempty"`
}

// golden compares messages with the file testdata/<name>.json.
func golden(t *testing.T, name string, all []shown) {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	require.NoError(t, e.Encode(all))
	path := filepath.Join("testdata", name+".json")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the test with -update")
	require.Equal(t, string(want), b.String())
}

func clock(t *testing.T, hands string) time.Time {
	t.Helper()
	at, err := time.Parse("2006-01-02 15:04:05", "2026-11-29 "+hands)
	require.NoError(t, err)
	return at
}

func exit(n int) *int { return &n }

// goldenThread is where golden messages stand.
func goldenThread() workflows.Thread {
	return workflows.Thread{Platform: workflows.PlatformDiscord, Team: guild, Channel: general, ID: "1234567890123456789"}
}

func drawn(t *testing.T, name string, v workflows.MessageView, roles ...role) shown {
	t.Helper()
	v.Version = 1
	r := draw(chat.Content{Thread: goldenThread(), View: v}, roles, true)
	require.LessOrEqual(t, size(r.text), shownText)
	return shown{Name: name, Text: r.text, Rows: r.rows, Mentions: &r.allow}
}

func TestHeaderGolden(t *testing.T) {
	t.Parallel()
	var all []shown
	add := func(name string, change func(*workflows.HeaderView)) {
		h := workflows.HeaderView{
			Title: "fix the flaky test in internal/router", Backend: "docker", Isolated: true, Workspace: "api", Model: "gpt-5.6-mini",
			By: workflows.Actor{ID: ada, Name: "ada"}, Liveness: workflows.LivenessActive, Usage: workflows.Usage{Micros: 140_000},
		}
		change(&h)
		all = append(all, drawn(t, name, workflows.MessageView{Key: "header", Kind: workflows.KindHeader, Header: &h}))
	}
	add("ended from outside", func(h *workflows.HeaderView) {
		*h = h.CutShort(workflows.CutShort{WorkflowID: "agent/web/main/17", How: "was terminated", At: clock(t, "15:40:00")})
	})
	add("active", func(*workflows.HeaderView) {})
	add("waiting", func(h *workflows.HeaderView) { h.Liveness, h.Waiting = workflows.LivenessWaiting, 2 })
	add("paused, with a notice", func(h *workflows.HeaderView) {
		h.Liveness, h.Notice = workflows.LivenessPaused, "Commands run on the worker's machine without isolation."
	})
	add("destroyed", func(h *workflows.HeaderView) {
		h.Liveness, h.DestroyedAt = workflows.LivenessDestroyed, clock(t, "15:40:00")
	})
	add("not started", func(h *workflows.HeaderView) {
		h.Liveness, h.NotStarted, h.Notice = workflows.LivenessDestroyed, true, "This session could not be started. Ask again."
		h.Backend, h.Workspace, h.Model, h.Usage = "", "", "", workflows.Usage{}
	})
	add("a hostile title", func(h *workflows.HeaderView) {
		h.Title = "@everyone *bold* :bomb: <@" + grace + "> & " + strings.Repeat("long ", 60)
	})
	golden(t, "header", all)
}

func TestTurnGolden(t *testing.T) {
	t.Parallel()
	var all []shown
	add := func(name string, change func(*workflows.TurnView)) {
		v := workflows.TurnView{
			Number: 2, State: workflows.TurnWorking, StartedAt: clock(t, "15:04:10"),
			Calls: []workflows.CallView{
				{ID: "1", Tool: "shell", Command: "go test ./internal/router -run TestFlaky -count=20", State: workflows.CallCompleted, ExitCode: exit(1), StartedAt: clock(t, "15:04:11"), EndedAt: clock(t, "15:04:11").Add(3100 * time.Millisecond)},
				{ID: "2", Tool: "shell", Command: "sed -n '1,80p' internal/router/router_test.go", State: workflows.CallCompleted, ExitCode: exit(0), StartedAt: clock(t, "15:04:15"), EndedAt: clock(t, "15:04:15")},
				{ID: "3", Tool: "shell", Command: "go test -race ./internal/router", State: workflows.CallRunning, StartedAt: clock(t, "15:04:40"), Tail: "--- FAIL: TestReconnect (2.01s)\n    router_test.go:88: got 3 reconnects, want 1\n"},
				{ID: "4", Tool: "shell", Command: "rm -rf ~/.cache/go-build && echo <done>", State: workflows.CallAwaiting},
			},
		}
		change(&v)
		m := workflows.MessageView{Key: "turn-2", Kind: workflows.KindTurn, Turn: &v}
		if v.State == workflows.TurnWorking {
			m.Buttons = []workflows.Button{{ID: workflows.ButtonStop, Label: "Stop"}, {ID: workflows.ButtonDetails, Label: "Details"}}
		}
		if v.State != workflows.TurnWorking {
			m.Buttons = []workflows.Button{{ID: workflows.ButtonDetails, Label: "Details"}}
		}
		all = append(all, drawn(t, name, m))
	}
	add("ended from outside", func(v *workflows.TurnView) {
		*v = v.CutShort(workflows.CutShort{How: "was terminated", At: clock(t, "15:40:00")})
	})
	ended := func(v *workflows.TurnView) { v.EndedAt, v.Calls = clock(t, "15:05:52"), v.Calls[:2] }
	add("working", func(*workflows.TurnView) {})
	add("working, nothing yet", func(v *workflows.TurnView) { v.Calls, v.Queued = nil, 2 })
	add("folded", func(v *workflows.TurnView) {
		v.Folded = 3
		for range 6 {
			v.Calls = append([]workflows.CallView{v.Calls[1]}, v.Calls...)
		}
	})
	add("every other state", func(v *workflows.TurnView) {
		v.Calls = nil
		for _, s := range []string{workflows.CallPending, workflows.CallDenied, workflows.CallFailed, workflows.CallExpired, workflows.CallCancelled, workflows.CallUnknown} {
			v.Calls = append(v.Calls, workflows.CallView{ID: s, Tool: "shell", Command: "make " + s + "\nmore", State: s, Note: "a note"})
		}
	})
	add("done", func(v *workflows.TurnView) {
		ended(v)
		v.State, v.Commands, v.Usage = workflows.TurnDone, 6, workflows.Usage{Input: 17000, Output: 1000, Micros: 80_000}
	})
	add("stopped", func(v *workflows.TurnView) {
		ended(v)
		v.State, v.By = workflows.TurnStopped, workflows.Actor{ID: ada, Name: "ada"}
	})
	add("failed", func(v *workflows.TurnView) {
		ended(v)
		v.State, v.Error, v.Hint = workflows.TurnFailed, "the model's quota is used up", "Raise it, then say `go on`."
	})
	add("the model writes", func(v *workflows.TurnView) {
		v.Calls, v.Condensed = v.Calls[:1], true
		v.Says.Text = "The test raced.\n```go\nmu.Lock()\n```\nI am"
	})
	add("long output", func(v *workflows.TurnView) {
		for range 7 {
			v.Calls = append([]workflows.CallView{v.Calls[1]}, v.Calls...)
		}
		v.Calls[len(v.Calls)-2].Tail = strings.Repeat(strings.Repeat("0123456789", 40)+"\n", 12)
	})
	golden(t, "turn", all)
}

func TestApprovalGolden(t *testing.T) {
	t.Parallel()
	var all []shown
	vote := func(name, verdict, hands, reason string) workflows.Vote {
		return workflows.Vote{By: workflows.Actor{ID: "10000000000000000" + name, Name: name}, Verdict: verdict, At: clock(t, hands), Reason: reason}
	}
	add := func(name string, change func(*workflows.ApprovalView)) {
		a := workflows.ApprovalView{
			ID: goldenThread().ID + ".a1", State: workflows.ApprovalPending, Tier: "risky", Displayable: true,
			Command: workflows.TextRef{Text: "rm -rf ~/.cache/go-build"}, Cwd: "/workspace", Backend: "docker", Workspace: "api",
			Reasons:   []string{"`rm -rf` deletes /home/agent/.cache/go-build, outside the workspace. 312 files, 48 MB"},
			ExpiresAt: clock(t, "16:05:00"), Required: 1, Approvers: []string{"platform-oncall"}, RequestedBy: []workflows.Actor{{ID: ada, Name: "ada"}},
		}
		change(&a)
		m := workflows.MessageView{Key: "approval-1", Kind: workflows.KindApproval, Approval: &a}
		if a.State == workflows.ApprovalPending {
			m.Buttons = []workflows.Button{{ID: workflows.ButtonApprove, Label: "Approve once"}, {ID: workflows.ButtonReview, Label: "Review…"}, {ID: workflows.ButtonDeny, Label: "Deny…"}}
		}
		if a.UnknownRun && a.State == workflows.ApprovalPending {
			a.CallID = "1764428650.000100.2.1"
			m.Buttons = []workflows.Button{{ID: workflows.ButtonDetails, Label: "Look at the output"}, {ID: workflows.ButtonRunAgain, Label: "Run again…"}, {ID: workflows.ButtonLeave, Label: "Leave it"}}
		}
		all = append(all, drawn(t, name, m, role{ID: oncall, Name: "platform-oncall"}))
	}
	decided := func(state string, v workflows.Vote) func(*workflows.ApprovalView) {
		return func(a *workflows.ApprovalView) {
			a.State, a.DecidedAt, a.Votes = state, v.At, []workflows.Vote{v}
		}
	}
	add("pending", func(*workflows.ApprovalView) {})
	add("pending, nobody may", func(a *workflows.ApprovalView) { a.Approvers = nil })
	add("pending, people and everybody", func(a *workflows.ApprovalView) { a.Approvers = []string{grace, "unknown-team", "*"} })
	add("critical, one of two", func(a *workflows.ApprovalView) {
		a.Tier, a.Required, a.Queued = "critical", 2, 1
		a.Votes = []workflows.Vote{vote("grace", workflows.VerdictApprove, "15:02:00", "")}
		a.Reasons = []string{"segment 1: deletes", "segment 2: @everyone & pushes"}
	})
	add("parts that only read", func(a *workflows.ApprovalView) {
		a.Command.Text, a.Asking = "cd x && cat a && rm -rf build", 1
		a.Reasons = []string{"segment 3: `rm -rf` deletes `build` in the workspace", "segment 1: `cd` only reads", "segment 2: `cat` only reads"}
	})
	add("too long for the card", func(a *workflows.ApprovalView) { a.Command.Text = strings.Repeat("echo 0123456789\n", 300) })
	add("not displayable", func(a *workflows.ApprovalView) { a.Displayable, a.Command.Text = false, "echo \u202egpj.exe" })
	add("on a terminal", func(a *workflows.ApprovalView) { a.Terminal = true })
	add("text for a running command", func(a *workflows.ApprovalView) {
		a.Cwd, a.To, a.Command.Text = "", "psql *shop* <prod> (1.2)", "select 1;"
		a.Reasons = []string{"`psql` is sent text, and what it does with it is not known"}
	})
	add("keys for a terminal", func(a *workflows.ApprovalView) {
		a.Cwd, a.To, a.Terminal, a.Command.Text = "", "psql *shop* <prod> (1.2)", true, "select 1;\n\\u0003"
		a.Reasons = []string{"`psql` is sent text, and what it does with it is not known", "the text holds keys that edit, complete or interrupt on a terminal"}
	})
	add("approved", func(a *workflows.ApprovalView) {
		decided(workflows.ApprovalApproved, vote("grace", workflows.VerdictApprove, "15:07:00", ""))(a)
		a.CallState, a.ExitCode, a.Duration = workflows.CallCompleted, exit(0), 400*time.Millisecond
	})
	add("denied", decided(workflows.ApprovalDenied, vote("grace", workflows.VerdictDeny, "15:07:00", "not during the <freeze>")))
	add("withdrawn", decided(workflows.ApprovalWithdrawn, vote("ada", workflows.VerdictWithdraw, "15:07:00", "")))
	add("expired", func(a *workflows.ApprovalView) {
		a.State, a.DecidedAt = workflows.ApprovalExpired, clock(t, "16:05:00")
	})
	add("ended from outside", func(a *workflows.ApprovalView) {
		a.State, a.DecidedAt, a.CutShort = workflows.ApprovalExpired, clock(t, "15:40:00"), true
	})
	add("changed", func(a *workflows.ApprovalView) {
		a.State, a.DecidedAt = workflows.ApprovalChanged, clock(t, "15:07:00")
	})
	add("unknown", func(a *workflows.ApprovalView) { a.UnknownRun, a.Reasons = true, []string{"The worker died."} })
	add("many reasons, and what would be lost", func(a *workflows.ApprovalView) {
		a.Reasons = []string{strings.Repeat("a long reason ", 60), strings.Repeat("another one ", 60)}
		a.Evidence = []string{"312 files, 48 MB", "2 commits that no remote has"}
	})
	add("approved with a note", func(a *workflows.ApprovalView) {
		a.State = workflows.ApprovalApproved
		a.Votes = []workflows.Vote{{By: workflows.Actor{ID: grace, Name: "grace"}, Verdict: workflows.VerdictApprove, Reason: "agreed in the stand-up"}}
		a.CallState, a.ExitCode = workflows.CallCompleted, exit(0)
	})
	golden(t, "approval", all)
}

func TestTextGolden(t *testing.T) {
	t.Parallel()
	var all []shown
	add := func(name, key, text string) {
		for _, p := range textContent(key, text).parts {
			require.LessOrEqual(t, size(p), shownText)
			all = append(all, shown{Name: name, Text: p})
		}
	}
	add("answer", "answer-1", "# Fixed\n\nThe test **raced**: `a && b < c`.\n\n| file | change |\n|---|---|\n| x.go | one |\n\n```go\nif a < b {\n}\n```\n")
	add("an answer that would ping", "answer-2", "@everyone @here <@"+grace+"> <@&"+oncall+">\n\n```\n@everyone\n```")
	add("nested fences and small headings", "answer-3", "#### A heading\n\n````md\n```sh\nls\n```\n````\n\n~~~\ntildes\n~~~")
	add("notice", "notice-1", "Paused. The next message resumes it.")
	golden(t, "text", all)
}
