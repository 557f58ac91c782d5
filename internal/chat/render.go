package chat

import (
	"fmt"
	"slices"
	"strings"

	"github.com/countersign/countersign/internal/workflows"
)

// Marks stand before states; the words beside them say the same.
const (
	markWaiting = "◦"
	markRunning = "▸"
	markEnded   = "✓"
	markDenied  = "⊘"
	markFailed  = "✕"
	markUnknown = "?"
	markExpired = "⌛"
	markEdited  = "✎"
	markChanges = "↺"
)

// maxCalls is how many calls a turn card shows before the oldest are folded.
const maxCalls = 8

// maxTailLines is how many lines of a running command's output a card shows.
const maxTailLines = 10

// Text is a message as plain text, for platforms and readers without a richer
// form. whole is the text of an answer or notice.
func (s Style) Text(v workflows.MessageView, whole string) string {
	switch {
	case v.Header != nil:
		return s.Header(*v.Header)
	case v.Turn != nil:
		return s.Turn(*v.Turn)
	case v.Approval != nil:
		return s.Approval(*v.Approval)
	}
	return whole
}

// Header is the session's header: title, then one line of facts.
func (s Style) Header(h workflows.HeaderView) string {
	lines := []string{Shown(h.Title), s.HeaderLine(h)}
	if notice := Shown(h.Notice); notice != "" {
		lines = append(lines, notice)
	}
	return strings.Join(lines, "\n")
}

// maxFact bounds a name in the header's line of facts, in characters.
const maxFact = 80

// HeaderLine is the header's line of facts: backend, workspace, model, who,
// liveness, cost.
func (s Style) HeaderLine(h workflows.HeaderView) string {
	parts := []string{h.Backend}
	if h.Workspace != "" {
		parts = append(parts, "workspace "+Cut(Shown(h.Workspace), maxFact))
	}
	parts = append(parts, Cut(Shown(h.Model), maxFact), "by "+s.Person(h.By), s.Liveness(h), Money(h.Usage.Micros))
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	return strings.Join(parts, " · ")
}

// Liveness is the header's state with its mark.
func (s Style) Liveness(h workflows.HeaderView) string {
	switch h.Liveness {
	case workflows.LivenessWaiting:
		return fmt.Sprintf("◐ waiting for approval (%d)", max(h.Waiting, 1))
	case workflows.LivenessPaused:
		return "‖ paused"
	case workflows.LivenessDestroyed:
		if h.NotStarted {
			return "■ not started"
		}
		if h.DestroyedAt.IsZero() {
			return "■ destroyed"
		}
		return "■ destroyed " + s.Clock(h.DestroyedAt)
	}
	return "● active"
}

// Turn is the turn card: its summary and the calls, newest at the bottom.
func (s Style) Turn(t workflows.TurnView) string {
	lines := []string{s.TurnSummary(t)}
	calls, folded := VisibleCalls(t)
	switch {
	case folded > 0 && t.State == workflows.TurnWorking:
		lines = append(lines, fmt.Sprintf("… %d earlier", folded))
	case folded > 0 && len(calls) > 0:
		lines = append(lines, fmt.Sprintf("… %d more", folded))
	}
	for _, c := range calls {
		lines = append(lines, s.callLines(c)...)
	}
	if note := Remark(t); note != "" {
		lines = append(lines, note)
	}
	if what, tail := ModelSays(t); what != "" {
		lines = append(lines, what)
		for _, l := range strings.Split(tail, "\n") {
			lines = append(lines, "    "+l)
		}
	}
	if t.Queued > 0 && t.State == workflows.TurnWorking {
		lines = append(lines, Count(t.Queued, "message is", "messages are")+" queued.")
	}
	return strings.Join(lines, "\n")
}

// Remark is what a turn card says below the calls of how the model was served.
func Remark(t workflows.TurnView) string {
	var parts []string
	if t.Condensed {
		parts = append(parts, "The conversation was condensed for the model; the thread and `history` keep all of it.")
	}
	if n := t.Usage.Unsure; n > 0 && t.State != workflows.TurnWorking {
		parts = append(parts, Count(n, "model call was", "model calls were")+" never answered and may have been billed.")
	}
	return strings.Join(parts, " ")
}

// ModelSays is what the model does now, and the last lines of it: of its answer,
// or before that of what it thinks. Empty where it says nothing.
func ModelSays(t workflows.TurnView) (what, tail string) {
	switch {
	case t.State != workflows.TurnWorking:
		return "", ""
	case strings.TrimSpace(t.Says.Text) != "":
		return markRunning + " writing", Tail(t.Says.Text, maxTailLines)
	case strings.TrimSpace(t.Says.Thought) != "":
		return markRunning + " thinking", Tail(t.Says.Thought, maxTailLines)
	}
	return "", ""
}

// TurnSummary is the first line of the turn card.
func (s Style) TurnSummary(t workflows.TurnView) string {
	switch t.State {
	case workflows.TurnDone:
		parts := []string{"Done", Count(t.Commands, "command", "commands"), Duration(t.EndedAt.Sub(t.StartedAt))}
		if used := UsedTokens(t.Usage); used != "" {
			parts = append(parts, used)
		}
		if m := Money(t.Usage.Micros); m != "" {
			parts = append(parts, m)
		}
		return strings.Join(parts, " · ")
	case workflows.TurnStopped:
		text := "Stopped by " + s.Person(t.By) + " at " + s.Clock(t.EndedAt) + "."
		if slices.ContainsFunc(t.Calls, func(c workflows.CallView) bool {
			return c.State == workflows.CallCancelled && !c.StartedAt.IsZero()
		}) {
			text += " The running command was ended."
		}
		return text
	case workflows.TurnFailed:
		text := "Could not go on: " + strings.TrimSuffix(Shown(t.Error), ".") + "."
		if hint := Shown(t.Hint); hint != "" {
			text += " " + hint
		}
		return text
	}
	return "Working · since " + s.Exact(t.StartedAt)
}

// VisibleCalls are the calls that a turn card shows, and how many older ones are
// folded: past eight the oldest, and after the turn all that went well.
func VisibleCalls(t workflows.TurnView) (calls []workflows.CallView, folded int) {
	calls = t.Calls
	if t.State != workflows.TurnWorking {
		calls = slices.DeleteFunc(slices.Clone(calls), CallWentWell)
	}
	calls = calls[max(0, len(calls)-maxCalls):]
	return calls, t.Folded + len(t.Calls) - len(calls)
}

// CallWentWell reports a call that ended with exit code 0, or without one.
func CallWentWell(c workflows.CallView) bool {
	return c.State == workflows.CallCompleted && (c.ExitCode == nil || *c.ExitCode == 0)
}

func (s Style) callLines(c workflows.CallView) []string {
	command, more, _ := strings.Cut(ShownLines(c.Command), "\n")
	if more != "" {
		command += " …"
	}
	lines := []string{CallMark(c.State) + " " + command + "  " + s.CallState(c)}
	if c.State == workflows.CallRunning && c.Tail != "" {
		for _, l := range strings.Split(Tail(c.Tail, maxTailLines), "\n") {
			lines = append(lines, "    "+l)
		}
	}
	return lines
}

// CallMark is the mark of a tool call's state.
func CallMark(state string) string {
	switch state {
	case workflows.CallRunning:
		return markRunning
	case workflows.CallCompleted:
		return markEnded
	case workflows.CallDenied, workflows.CallCancelled:
		return markDenied
	case workflows.CallFailed:
		return markFailed
	case workflows.CallUnknown:
		return markUnknown
	case workflows.CallExpired:
		return markExpired
	}
	return markWaiting
}

// CallState says in words how a tool call stands: "exit 1 · 3.1 s".
func (s Style) CallState(c workflows.CallView) string {
	var parts []string
	switch c.State {
	case workflows.CallPending:
		parts = []string{"next"}
	case workflows.CallAwaiting:
		parts = []string{"waits for approval ↓"}
	case workflows.CallRunning:
		parts = []string{"since " + s.Exact(c.StartedAt)}
	case workflows.CallCompleted:
		parts = []string{"done"}
		if c.ExitCode != nil {
			parts = []string{fmt.Sprintf("exit %d", *c.ExitCode)}
		}
		if !c.StartedAt.IsZero() {
			parts = append(parts, Duration(c.EndedAt.Sub(c.StartedAt)))
		}
	case workflows.CallDenied:
		parts = []string{"denied"}
	case workflows.CallCancelled:
		parts = []string{"stopped"}
	case workflows.CallFailed:
		parts = []string{"failed to start"}
	case workflows.CallUnknown:
		parts = []string{"outcome unknown"}
	case workflows.CallExpired:
		parts = []string{"expired, not run"}
	default:
		parts = []string{c.State}
	}
	if c.Note != "" {
		parts = append(parts, Shown(c.Note))
	}
	return strings.Join(parts, " · ")
}
