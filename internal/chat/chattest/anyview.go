package chattest

import (
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/countersign/countersign/internal/workflows"
)

// Words that [AnyText] mixes into what it draws.
const (
	// Forged is what a line of a card's own begins with. Where it stands in a text from
	// outside, no line of a card may begin with it.
	Forged = "✓ Approved by @forged"
	// Form is Markdown that is to be seen as it is written.
	Form = "__zap__"
)

// AnyText draws what a model, a command or a person may write.
func AnyText() *rapid.Generator[string] {
	unit := rapid.SampledFrom([]string{
		"a", "rm -rf / ", "é", "e\u0301", "漢", "🙂", "👩‍👩‍👧", "\n", "\r\n", "\t", " ", "`", "``", "```", "```\n" + Forged + " at 15:07\n```sh\n", "\n" + Forged + "\n",
		"<!channel>", "<@U0GRACE001>", "<@1000000000000000002>", "<@&1000000000000000020>", "@everyone ", "@here ", "<&>", "|", "\\", "*_~", Form, "# ", "- ", "> ", "-# ",
		"[x](https://example.com)", "https://example.com/a_b ", "<t:0:R>", ":bomb:", "\x00", "\x1b[31m", "\x1b]0;t\x07", "\xff", "\xe2\x82", "\u202e", "\u200b", "\u2063", "\uE000", "\uFFFD", "{}", "%s",
	})
	return rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		for range rapid.IntRange(0, 5).Draw(t, "pieces") {
			n := rapid.SampledFrom([]int{1, 1, 1, 2, 3, 7, 40, 700}).Draw(t, "times")
			b.WriteString(strings.Repeat(unit.Draw(t, "unit"), n))
		}
		return b.String()
	})
}

// AnyView draws a card for a thread: a header, a turn or a request, with what a
// session could have put into it, and more. People are those whom the platform knows
// under the IDs that are given; name keeps it the same message.
func AnyView(t *rapid.T, thread workflows.Thread, key, kind string, people []string) workflows.MessageView {
	d := drawer{t: t, people: people}
	v := workflows.MessageView{Key: key, Kind: kind, Version: rapid.IntRange(1, 5000).Draw(t, "version")}
	switch kind {
	case workflows.KindHeader:
		v.Header = d.header()
	case workflows.KindTurn:
		v.Turn = d.turn(thread)
		v.Buttons = []workflows.Button{{ID: workflows.ButtonDetails, Label: "Details"}}
		if v.Turn.State == workflows.TurnWorking {
			v.Buttons = append([]workflows.Button{{ID: workflows.ButtonStop, Label: "Stop"}}, v.Buttons...)
		}
	case workflows.KindApproval:
		v.Approval = d.approval(thread)
		v.Buttons = buttonsOf(*v.Approval)
	}
	return v
}

// buttonsOf are the buttons of a request in its state.
func buttonsOf(a workflows.ApprovalView) []workflows.Button {
	switch {
	case a.State != workflows.ApprovalPending:
		return nil
	case a.UnknownRun:
		return []workflows.Button{{ID: workflows.ButtonDetails, Label: "Look at the output"}, {ID: workflows.ButtonRunAgain, Label: "Run again…"}, {ID: workflows.ButtonLeave, Label: "Leave it"}}
	}
	return []workflows.Button{
		{ID: workflows.ButtonApprove, Label: "Approve once"}, {ID: workflows.ButtonGrant, Label: "Allow this for 1 h"},
		{ID: workflows.ButtonReview, Label: "Review…"}, {ID: workflows.ButtonDeny, Label: "Deny…"}, {ID: workflows.ButtonWithdraw, Label: "Withdraw"},
	}
}

type drawer struct {
	t      *rapid.T
	people []string
}

func (d drawer) text(what string) string { return AnyText().Draw(d.t, what) }

func (d drawer) texts(what string, most int) []string {
	return rapid.SliceOfN(AnyText(), 0, most).Draw(d.t, what)
}

func (d drawer) one(what string, of ...string) string { return rapid.SampledFrom(of).Draw(d.t, what) }

func (d drawer) count(what string, most int) int {
	return rapid.SampledFrom([]int{0, 1, 2, most}).Draw(d.t, what)
}

func (d drawer) time() time.Time {
	return time.Unix(1_790_000_000+rapid.Int64Range(0, 100_000).Draw(d.t, "time"), 0)
}

func (d drawer) actor() workflows.Actor {
	return workflows.Actor{ID: d.one("who", d.people...), Name: d.text("name")}
}

func (d drawer) actors(what string, most int) []workflows.Actor {
	var out []workflows.Actor
	for range d.count(what, most) {
		out = append(out, d.actor())
	}
	return out
}

func (d drawer) header() *workflows.HeaderView {
	return &workflows.HeaderView{
		Title: d.text("title"), Backend: d.one("backend", "local", "docker"), Workspace: d.text("workspace"), Model: d.text("model"), By: d.actor(),
		Liveness: d.one("liveness", workflows.LivenessActive, workflows.LivenessWaiting, workflows.LivenessPaused, workflows.LivenessDestroyed),
		Waiting:  d.count("waiting", 1000), DestroyedAt: d.time(), NotStarted: rapid.Bool().Draw(d.t, "not started"),
		Usage: workflows.Usage{Micros: 140_000}, Notice: d.text("notice"),
	}
}

func (d drawer) turn(thread workflows.Thread) *workflows.TurnView {
	v := &workflows.TurnView{
		Number: d.count("number", 9999), StartedAt: d.time(), EndedAt: d.time(), Folded: d.count("folded", 900), Commands: d.count("commands", 900),
		State: d.one("state", workflows.TurnWorking, workflows.TurnDone, workflows.TurnStopped, workflows.TurnFailed), By: d.actor(),
		Error: d.text("error"), Hint: d.text("hint"), Queued: d.count("queued", 99), Condensed: rapid.Bool().Draw(d.t, "condensed"),
		Usage: workflows.Usage{Input: 1234567, Cached: 23456, Output: 999999, Micros: 1e9, Unsure: d.count("unsure", 9)},
		Trail: workflows.Trail{First: 100_000, Last: 200_000},
		Says:  workflows.ModelProgress{Text: d.text("says"), Thought: d.text("thinks")},
	}
	for i := range rapid.SampledFrom([]int{0, 1, 3, 9, 40}).Draw(d.t, "calls") {
		call := workflows.CallView{
			ID: fmt.Sprintf("%s.%d.%d", thread.ID, v.Number, i+1), Tool: "shell", Command: fmt.Sprintf("c%dc ", i) + d.text("command"),
			State: d.one("call", workflows.CallPending, workflows.CallAwaiting, workflows.CallRunning, workflows.CallCompleted, workflows.CallDenied,
				workflows.CallFailed, workflows.CallExpired, workflows.CallCancelled, workflows.CallUnknown),
			StartedAt: d.time(), EndedAt: d.time(), Tail: d.text("tail"), Note: d.text("note"),
		}
		if rapid.Bool().Draw(d.t, "exited") {
			call.ExitCode = &i
		}
		v.Calls = append(v.Calls, call)
	}
	return v
}

func (d drawer) approval(thread workflows.Thread) *workflows.ApprovalView {
	a := &workflows.ApprovalView{
		ID: thread.ID + ".a" + d.one("number", "1", "999"), Tier: d.one("tier", "risky", "critical", "forbidden"),
		State: d.one("state", workflows.ApprovalPending, workflows.ApprovalPending, workflows.ApprovalApproved, workflows.ApprovalDenied,
			workflows.ApprovalExpired, workflows.ApprovalChanged, workflows.ApprovalWithdrawn),
		Command: workflows.TextRef{Text: d.text("command")}, Displayable: rapid.Bool().Draw(d.t, "displayable"), Editable: true,
		Cwd: d.text("cwd"), Backend: "docker", Workspace: d.text("workspace"), Terminal: rapid.Bool().Draw(d.t, "terminal"),
		Reasons: d.texts("reasons", 30), Evidence: d.texts("evidence", 30), Digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		ExpiresAt: d.time(), Required: d.count("required", 3), RequesterMayApprove: rapid.Bool().Draw(d.t, "own"),
		Approvers:   rapid.SliceOfN(rapid.SampledFrom(append([]string{"platform-oncall", "nobody-knows-them"}, d.people...)), 0, 40).Draw(d.t, "approvers"),
		Notify:      rapid.SliceOfN(rapid.SampledFrom(append([]string{"platform-oncall", "*"}, d.people...)), 0, 3).Draw(d.t, "notify"),
		RequestedBy: d.actors("requested by", 12), DecidedAt: d.time(), Queued: d.count("queued", 99), CallID: thread.ID + ".7.3",
		CallState: d.one("call", "", workflows.CallRunning, workflows.CallCompleted, workflows.CallCancelled, workflows.CallFailed, workflows.CallUnknown, workflows.CallDenied),
		Duration:  time.Minute, UnknownRun: rapid.IntRange(0, 4).Draw(d.t, "unknown") == 0, Text: d.text("text"),
		Widened: rapid.Bool().Draw(d.t, "widened"), BrokeGlass: rapid.IntRange(0, 4).Draw(d.t, "broke glass") == 0,
	}
	if rapid.Bool().Draw(d.t, "to") {
		a.To = d.text("to whom")
	}
	if rapid.IntRange(0, 4).Draw(d.t, "long") == 0 {
		a.Command.Ref, a.Command.Bytes = "blob", 1_000_000
	}
	for _, by := range d.actors("votes", 12) {
		a.Votes = append(a.Votes, workflows.Vote{By: by, At: d.time(), Reason: d.text("reason"), Verdict: d.one("verdict",
			workflows.VerdictApprove, workflows.VerdictApprove, workflows.VerdictDeny, workflows.VerdictChanges, workflows.VerdictWithdraw)})
	}
	if rapid.Bool().Draw(d.t, "edited") {
		by := d.actor()
		a.EditedBy, a.Original = &by, d.text("original")
	}
	if rapid.Bool().Draw(d.t, "decided") {
		by := d.actor()
		a.DecidedBy = &by
	}
	if rapid.Bool().Draw(d.t, "granted") {
		a.GrantedUntil = d.time()
		a.GrantEnd = &workflows.GrantEnd{ID: "g1", At: d.time(), Why: d.text("why")}
	}
	return a
}
