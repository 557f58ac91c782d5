package chat_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/workflows"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares named texts with the file testdata/<name>.txt.
func golden(t *testing.T, name string, texts ...[2]string) {
	t.Helper()
	var b strings.Builder
	for _, x := range texts {
		b.WriteString("=== " + x[0] + "\n" + x[1] + "\n\n")
	}
	path := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the test with -update")
	require.Equal(t, string(want), b.String())
}

func at(clock string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05", "2026-11-29 "+clock)
	if err != nil {
		panic(err)
	}
	return t
}

func code(n int) *int { return &n }

var (
	ada   = workflows.Actor{ID: "ada", Name: "ada"}
	grace = workflows.Actor{ID: "grace", Name: "grace"}
	plain = chat.PlainStyle(time.UTC)
)

func TestHeaderGolden(t *testing.T) {
	t.Parallel()
	base := workflows.HeaderView{
		Title: "fix the flaky test in internal/router", Backend: "docker", Isolated: true, Workspace: "api",
		Model: "gpt-5.6-mini", By: ada, Liveness: workflows.LivenessActive, Usage: workflows.Usage{Micros: 140_000},
	}
	var texts [][2]string
	add := func(name string, change func(*workflows.HeaderView)) {
		h := base
		change(&h)
		texts = append(texts, [2]string{name, plain.Header(h)})
	}
	add("ended from outside", func(h *workflows.HeaderView) {
		*h = h.CutShort(workflows.CutShort{WorkflowID: "agent/web/main/17", How: "was terminated", At: at("15:40:00")})
	})
	add("active", func(*workflows.HeaderView) {})
	add("waiting", func(h *workflows.HeaderView) { h.Liveness, h.Waiting = workflows.LivenessWaiting, 2 })
	add("paused", func(h *workflows.HeaderView) { h.Liveness = workflows.LivenessPaused })
	add("destroyed", func(h *workflows.HeaderView) {
		h.Liveness, h.DestroyedAt = workflows.LivenessDestroyed, at("15:40:00")
	})
	add("no workspace, no price, a notice", func(h *workflows.HeaderView) {
		h.Backend, h.Workspace, h.Usage, h.Notice = "local", "", workflows.Usage{}, "Commands run on this machine without isolation."
	})
	add("a hostile title", func(h *workflows.HeaderView) { h.Title = "a\nb \u202Egnp.exe\u202C \x1b[31m <!channel>" })
	golden(t, "header", texts...)
}

func calls() []workflows.CallView {
	return []workflows.CallView{
		{Command: "go test ./internal/router -run TestFlaky -count=20", State: workflows.CallCompleted, ExitCode: code(1), StartedAt: at("15:04:11"), EndedAt: at("15:04:11").Add(3100 * time.Millisecond)},
		{Command: "sed -n '1,80p' internal/router/router_test.go", State: workflows.CallCompleted, ExitCode: code(0), StartedAt: at("15:04:20"), EndedAt: at("15:04:20").Add(4 * time.Millisecond)},
		{Command: "go test -race ./internal/router", State: workflows.CallRunning, StartedAt: at("15:04:40"), Tail: "--- FAIL: TestReconnect (2.01s)\n    router_test.go:88: got 3 reconnects, want 1\n"},
		{Command: "rm -rf ~/.cache/go-build", State: workflows.CallAwaiting},
	}
}

func TestTurnGolden(t *testing.T) {
	t.Parallel()
	base := workflows.TurnView{Number: 1, State: workflows.TurnWorking, StartedAt: at("15:04:10"), Calls: calls()}
	var texts [][2]string
	add := func(name string, change func(*workflows.TurnView)) {
		v := base
		v.Calls = calls()
		change(&v)
		texts = append(texts, [2]string{name, plain.Turn(v)})
	}
	add("ended from outside", func(v *workflows.TurnView) {
		*v = v.CutShort(workflows.CutShort{How: "was terminated", At: at("15:40:00")})
	})
	add("working", func(*workflows.TurnView) {})
	add("working, nothing yet, messages queued", func(v *workflows.TurnView) { v.Calls, v.Queued = nil, 2 })
	add("the model thinks", func(v *workflows.TurnView) {
		v.Calls, v.Says.Thought = v.Calls[:1], "Comparing the two routers."
	})
	add("the model writes", func(v *workflows.TurnView) {
		v.Calls, v.Says.Thought, v.Says.Text = v.Calls[:1], "Comparing.", "The test is flaky because\nit races."
	})
	add("every state of a call", func(v *workflows.TurnView) {
		v.Calls = nil
		for _, s := range []string{
			workflows.CallPending, workflows.CallAwaiting, workflows.CallRunning, workflows.CallCompleted, workflows.CallDenied,
			workflows.CallFailed, workflows.CallExpired, workflows.CallCancelled,
		} {
			v.Calls = append(v.Calls, workflows.CallView{Command: s, State: s, StartedAt: at("15:04:40"), EndedAt: at("15:04:41")})
		}
	})
	add("notes", func(v *workflows.TurnView) {
		v.Calls = []workflows.CallView{
			{Command: "cat <<EOF\nx\nEOF", State: workflows.CallCompleted, ExitCode: code(0), StartedAt: at("15:04:40"), EndedAt: at("15:06:22")},
			{Command: "git push", State: workflows.CallDenied, Note: "by @grace: not during\nthe freeze"},
			{Command: "sleep 200", State: workflows.CallCancelled, StartedAt: at("15:04:40"), EndedAt: at("15:06:40"), Note: "timed out after 2 m 0 s"},
			{Command: "make", State: workflows.CallUnknown},
		}
	})
	add("past eight the oldest fold", func(v *workflows.TurnView) {
		v.Folded = 3
		v.Calls = nil
		for range 10 {
			v.Calls = append(v.Calls, calls()[1])
		}
	})
	add("output that writes over itself", func(v *workflows.TurnView) {
		v.Calls = v.Calls[2:3]
		v.Calls[0].Tail = strings.Repeat("line\n", 12) + "\x1b[32mok\x1b[0m \x1b]0;title\x07\n10%\r50%\r100%\nbell\x07 \u202Ebidi\n"
	})
	done := func(v *workflows.TurnView) {
		v.State, v.EndedAt, v.Commands = workflows.TurnDone, at("15:05:52"), 6
		v.Usage = workflows.Usage{Input: 16_000, Output: 2_400, Micros: 81_234}
		v.Calls = v.Calls[:2]
	}
	add("done, a failure stays visible", done)
	add("done, with cached tokens and a call that was never answered", func(v *workflows.TurnView) {
		done(v)
		v.Condensed = true
		v.Usage = workflows.Usage{Input: 17000, Cached: 12000, Output: 1000, Micros: 80000, Calls: 3, Unsure: 1}
	})
	add("done, one command, no price", func(v *workflows.TurnView) {
		done(v)
		v.Commands, v.Usage, v.Calls, v.EndedAt = 1, workflows.Usage{}, v.Calls[1:], at("15:04:14")
	})
	add("stopped while a command ran", func(v *workflows.TurnView) {
		v.State, v.EndedAt, v.By = workflows.TurnStopped, at("15:07:00"), ada
		v.Calls = v.Calls[2:3]
		v.Calls[0].State = workflows.CallCancelled
	})
	add("stopped between commands", func(v *workflows.TurnView) {
		v.State, v.EndedAt, v.By, v.Calls = workflows.TurnStopped, at("15:07:00"), ada, nil
	})
	add("failed", func(v *workflows.TurnView) {
		v.State, v.EndedAt, v.Calls = workflows.TurnFailed, at("15:07:00"), nil
		v.Error, v.Hint = "The model's quota is used up.", "Raise the quota or change the key, then send a message to go on."
	})
	golden(t, "turn", texts...)
}

func request() workflows.ApprovalView {
	return workflows.ApprovalView{
		ID: "17.a1", State: workflows.ApprovalPending, Tier: "risky", Displayable: true,
		Command: workflows.TextRef{Text: "rm -rf ~/.cache/go-build"}, Cwd: "/workspace", Backend: "docker", Workspace: "api",
		Reasons:   []string{"`rm -rf` deletes /home/agent/.cache/go-build, outside the workspace. 312 files, 48 MB"},
		ExpiresAt: at("16:05:00"), Required: 1, Approvers: []string{"platform-oncall"}, RequestedBy: []workflows.Actor{ada},
	}
}

func TestApprovalGolden(t *testing.T) {
	t.Parallel()
	var texts [][2]string
	add := func(name string, change func(*workflows.ApprovalView)) {
		a := request()
		change(&a)
		texts = append(texts, [2]string{name, plain.Approval(a)})
	}
	vote := func(by workflows.Actor, verdict, clock, reason string) workflows.Vote {
		return workflows.Vote{By: by, Verdict: verdict, At: at(clock), Reason: reason}
	}
	approved := func(a *workflows.ApprovalView) {
		a.State, a.DecidedAt = workflows.ApprovalApproved, at("15:07:00")
		a.Votes = []workflows.Vote{vote(grace, workflows.VerdictApprove, "15:07:00", "")}
	}
	ended := func(state string, exit *int) func(*workflows.ApprovalView) {
		return func(a *workflows.ApprovalView) {
			approved(a)
			a.CallState, a.ExitCode, a.Duration = state, exit, 400*time.Millisecond
		}
	}
	add("pending, risky", func(*workflows.ApprovalView) {})
	add("pending, critical, nobody yet", func(a *workflows.ApprovalView) { a.Tier, a.Required = "critical", 2 })
	add("pending, critical, one vote, messages queued", func(a *workflows.ApprovalView) {
		a.Tier, a.Required, a.Queued = "critical", 2, 1
		a.Votes = []workflows.Vote{vote(grace, workflows.VerdictApprove, "15:02:00", "")}
	})
	add("pending, everybody, several lines and reasons", func(a *workflows.ApprovalView) {
		a.Approvers, a.Workspace = []string{"*"}, ""
		a.Command.Text = "cd x\nrm -rf *"
		a.Reasons = []string{"segment 1: leaves the workspace", "segment 2: `rm` with -rf and a glob"}
	})
	add("pending, parts that only read", func(a *workflows.ApprovalView) {
		a.Command.Text, a.Asking = "cd x && cat a && rm -rf build", 1
		a.Reasons = []string{"segment 3: `rm -rf` deletes `build` in the workspace", "segment 1: `cd` only reads", "segment 2: `cat` only reads"}
	})
	add("pending, nobody may", func(a *workflows.ApprovalView) { a.Approvers = nil })
	add("pending, too long", func(a *workflows.ApprovalView) {
		a.Displayable, a.Command.Ref, a.Command.Bytes = false, "commands/x", 20_000
	})
	add("pending, not displayable", func(a *workflows.ApprovalView) {
		a.Displayable, a.Command.Text = false, "echo \u202Ex"
	})
	add("approved, about to run", approved)
	add("approved, running", ended(workflows.CallRunning, nil))
	add("approved, ended", ended(workflows.CallCompleted, code(0)))
	add("approved, stopped", ended(workflows.CallCancelled, nil))
	add("approved, failed to start", ended(workflows.CallFailed, nil))
	add("approved, unknown", ended(workflows.CallUnknown, nil))
	add("approved by two", func(a *workflows.ApprovalView) {
		ended(workflows.CallCompleted, code(0))(a)
		a.Tier, a.Required = "critical", 2
		a.Votes = []workflows.Vote{vote(ada, workflows.VerdictApprove, "15:02:00", ""), vote(grace, workflows.VerdictApprove, "15:07:00", "")}
	})
	add("denied with a reason", func(a *workflows.ApprovalView) {
		a.State, a.DecidedAt = workflows.ApprovalDenied, at("15:07:00")
		a.Votes = []workflows.Vote{vote(grace, workflows.VerdictDeny, "15:07:00", "not during the freeze")}
	})
	add("denied without one", func(a *workflows.ApprovalView) {
		a.State, a.DecidedAt = workflows.ApprovalDenied, at("15:07:00")
		a.Votes = []workflows.Vote{vote(grace, workflows.VerdictDeny, "15:07:00", "")}
	})
	add("expired", func(a *workflows.ApprovalView) { a.State, a.DecidedAt = workflows.ApprovalExpired, at("16:05:00") })
	add("ended from outside", func(a *workflows.ApprovalView) {
		a.State, a.DecidedAt, a.CutShort = workflows.ApprovalExpired, at("15:40:00"), true
	})
	add("changed", func(a *workflows.ApprovalView) { a.State, a.DecidedAt = workflows.ApprovalChanged, at("15:07:00") })
	add("withdrawn", func(a *workflows.ApprovalView) {
		a.State, a.DecidedAt = workflows.ApprovalWithdrawn, at("15:07:00")
		a.Votes = []workflows.Vote{vote(ada, workflows.VerdictWithdraw, "15:07:00", "")}
	})
	add("withdrawn by a stop", func(a *workflows.ApprovalView) {
		a.State, a.DecidedAt = workflows.ApprovalWithdrawn, at("15:07:00")
	})
	add("pending, everybody but who asked", func(a *workflows.ApprovalView) { a.Approvers = []string{"*"} })
	add("pending, who asked is an approver and does not count", func(a *workflows.ApprovalView) {
		a.Approvers = []string{"ada", "grace"}
	})
	add("pending, who asked counts", func(a *workflows.ApprovalView) {
		a.Approvers, a.RequesterMayApprove = []string{"ada", "grace"}, true
	})
	edited := func(a *workflows.ApprovalView) {
		a.Original, a.EditedBy = a.Command.Text, &grace
		a.Command.Text = "go clean -cache"
	}
	add("pending, changed by an approver, one vote", func(a *workflows.ApprovalView) {
		edited(a)
		a.Tier, a.Required = "critical", 2
		a.Votes = []workflows.Vote{vote(grace, workflows.VerdictApprove, "15:02:00", "")}
	})
	add("pending, widened, a vote does not count any more", func(a *workflows.ApprovalView) {
		a.Widened, a.Approvers = true, []string{"platform-oncall", "heads"}
		a.Remark = "A vote does not count any more: who gave it may not approve now."
	})
	add("approved with a change", func(a *workflows.ApprovalView) {
		ended(workflows.CallCompleted, code(0))(a)
		edited(a)
	})
	add("approved by two with a change", func(a *workflows.ApprovalView) {
		ended(workflows.CallCompleted, code(0))(a)
		edited(a)
		a.Tier, a.Required = "critical", 2
		a.Votes = append(a.Votes, vote(ada, workflows.VerdictApprove, "15:07:00", ""))
	})
	add("changes asked for", func(a *workflows.ApprovalView) {
		a.State, a.DecidedAt, a.Text = workflows.ApprovalDenied, at("15:07:00"), "use the staging bucket"
		a.Votes = []workflows.Vote{vote(grace, workflows.VerdictChanges, "15:07:00", "use the staging bucket")}
	})
	add("approved and allowed for a time", func(a *workflows.ApprovalView) {
		ended(workflows.CallCompleted, code(0))(a)
		a.GrantedUntil = at("16:07:00")
	})
	add("approved by break-glass", func(a *workflows.ApprovalView) {
		ended(workflows.CallCompleted, code(0))(a)
		a.Tier, a.Required, a.BrokeGlass = "critical", 2, true
		a.Votes = []workflows.Vote{vote(grace, workflows.VerdictApprove, "15:02:00", ""), vote(ada, workflows.VerdictApprove, "15:07:00", "the site is down")}
	})
	add("approved by break-glass with a change", func(a *workflows.ApprovalView) {
		ended(workflows.CallRunning, nil)(a)
		edited(a)
		a.BrokeGlass = true
		a.Votes = []workflows.Vote{vote(grace, workflows.VerdictApprove, "15:07:00", "the site is down.")}
	})
	add("stopped while it waited", func(a *workflows.ApprovalView) {
		a.State, a.DecidedAt, a.DecidedBy = workflows.ApprovalWithdrawn, at("15:07:00"), &ada
	})
	unknown := func(change func(*workflows.ApprovalView)) func(*workflows.ApprovalView) {
		return func(a *workflows.ApprovalView) {
			a.UnknownRun, a.Reasons = true, []string{"The worker died while this ran; it may have finished."}
			change(a)
		}
	}
	add("unknown, pending", unknown(func(*workflows.ApprovalView) {}))
	add("unknown, pending, of two", unknown(func(a *workflows.ApprovalView) {
		a.Required = 2
		a.Votes = []workflows.Vote{vote(grace, workflows.VerdictApprove, "15:02:00", "")}
	}))
	add("unknown, run again", unknown(approved))
	add("unknown, left", unknown(func(a *workflows.ApprovalView) {
		a.State, a.DecidedAt = workflows.ApprovalDenied, at("15:07:00")
		a.Votes = []workflows.Vote{vote(grace, workflows.VerdictDeny, "15:07:00", "")}
	}))
	add("unknown, expired", unknown(func(a *workflows.ApprovalView) { a.State = workflows.ApprovalExpired }))
	golden(t, "approval", texts...)
}

func TestPingsAreTheApproversOrWhomTheRuleNames(t *testing.T) {
	t.Parallel()
	a := request()
	require.Equal(t, []string{"platform-oncall"}, chat.Pings(a))
	a.Approvers = []string{"*", "grace"}
	require.Equal(t, []string{"grace"}, chat.Pings(a))
	a.Notify = []string{"oncall"}
	require.Equal(t, []string{"oncall"}, chat.Pings(a))
}

func TestFormats(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0.0 s": 4 * time.Millisecond, "0.4 s": 400 * time.Millisecond, "59.9 s": 59_949 * time.Millisecond,
		"1 m 0 s": 59_950 * time.Millisecond, "1 m 42 s": 102 * time.Second, "59 m 59 s": time.Hour - time.Second,
		"1 h 0 m": time.Hour - 400*time.Millisecond, "3 h 12 m": 3*time.Hour + 12*time.Minute, "50 h 0 m": 50 * time.Hour,
	} {
		require.Equal(t, want, chat.Duration(d))
	}
	require.Equal(t, "0.0 s", chat.Duration(-time.Second))
	for want, n := range map[string]int64{
		"0 MB": 0, "under 0.1 MB": 99_999, "0.1 MB": 100_000, "1.4 MB": 1_400_000, "9.9 MB": 9_949_999, "10 MB": 9_950_000, "48 MB": 48_200_000, "1200 MB": 1_200_000_000,
	} {
		require.Equal(t, want, chat.Size(n))
	}
	for want, n := range map[string]int64{"": 0, "under $0.01": 4_999, "$0.01": 5_000, "$0.14": 140_000, "$1.92": 1_915_000, "$12.00": 12_000_000} {
		require.Equal(t, want, chat.Money(n))
	}
	for want, n := range map[string]int64{
		"0 tokens": 0, "1 token": 1, "812 tokens": 812, "1.0k tokens": 1000, "9.9k tokens": 9949, "10k tokens": 9950, "18k tokens": 18_400, "1.0M tokens": 999_500,
	} {
		require.Equal(t, want, chat.Tokens(n))
	}
}

func TestShownEscapesWhatIsInvisible(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain": "plain", "a\nb\tc": "a b c", "é 漢字 🙂": "é 漢字 🙂",
		"a\u202Eb": "a\\u{202e}b", "a\u200Bb": "a\\u{200b}b", "a\u200Db": "a\\u{200d}b", "a\u2028b": "a\\u{2028}b",
		"\x1b[31m": "\\u{1b}[31m", "a\x00b": "a\\u{0}b", "a\xffb": "a\\xffb", "\uFEFFa": "\\u{feff}a", "a\u3164b": "a\\u{3164}b",
	} {
		require.Equal(t, want, chat.Shown(in), "%q", in)
	}
}

func TestMarkdownStaysLiteral(t *testing.T) {
	t.Parallel()
	require.Equal(t, "``a`b``", chat.Code("a`b"))
	require.Equal(t, "`` `a ``", chat.Code("`a"))
	require.Equal(t, `\[x\](y) \*a\* \<b\> !\[`, chat.Escape("[x](y) *a* <b>\n!["))
}

func FuzzShown(f *testing.F) {
	for _, s := range []string{"a\u202Eb", "\x1b[31m\x1b]0;x\x07", "\xff\xfe", "a\r\nb", "é🙂"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, out := range []string{chat.Shown(s), chat.Tail(s, 10), chat.Escape(s), chat.Code(s)} {
			require.True(t, utf8.ValidString(out))
			for _, r := range out {
				require.False(t, r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)), "%q in %q", r, out)
			}
		}
		require.LessOrEqual(t, strings.Count(chat.Tail(s, 10), "\n"), 9)
		require.NotContains(t, chat.Shown(s), "\n")
		require.LessOrEqual(t, len(chat.CutBytes(s, 7)), 7)
	})
}

// The only reason of a command of one segment needs no number.
func TestTheOnlyReason(t *testing.T) {
	t.Parallel()
	why := func(reasons ...string) string { return chat.Reasons(workflows.ApprovalView{Reasons: reasons}) }
	require.Equal(t, "Why: `rm -rf` deletes `build` in the workspace.", why("segment 1: `rm -rf` deletes `build` in the workspace"))
	require.Equal(t, "Why: segment 2: deletes.", why("segment 2: deletes"))
	require.Equal(t, "Why:\n- segment 1: reads.\n- segment 2: deletes.", why("segment 1: reads", "segment 2: deletes"))
	require.Equal(t, "Why: segment 2: deletes.", chat.Reasons(workflows.ApprovalView{Reasons: []string{"segment 2: deletes", "segment 1: reads"}, Asking: 1}))
}
