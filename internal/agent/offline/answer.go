package offline

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/countersign/countersign/internal/agent/tooloutput"
)

const (
	// maxOutput is how much of a command's output the answer holds, in bytes.
	maxOutput = 2000
	// minStderr is how much of that stderr gets where both streams are long.
	minStderr = 500
	// maxCommand is how much of a command the answer repeats, in bytes.
	maxCommand = 2000
)

const introduction = "This is Countersign's offline model. It does not think: it runs the commands in backticks of " +
	"your messages and reports what they gave. For a real model set `OPENAI_API_KEY` (or `openai.api_key` in " +
	"`countersign.yaml`) and start Countersign again."

const tourNote = "Your message has no command in backticks, so here is a short tour of the workspace; its last command " +
	"is one that asks for approval."

// answer is the turn's final answer, in Markdown.
func (t *turn) answer() string {
	var parts []string
	if t.first {
		parts = append(parts, introduction)
	}
	if t.tour {
		parts = append(parts, tourNote)
	}
	for _, r := range t.done {
		parts = append(parts, r.report())
	}
	switch {
	case t.idle == 1:
		parts = append(parts, "One more message had no command in backticks; nothing was run for it.")
	case t.idle > 1:
		parts = append(parts, fmt.Sprintf("%d more messages had no command in backticks; nothing was run for them.", t.idle))
	}
	if len(parts) == 0 {
		return "There is nothing to run."
	}
	return strings.Join(parts, "\n\n")
}

// report is one command, how it ended and what it printed.
func (r ran) report() string {
	var b strings.Builder
	command := strings.TrimRight(cut(r.command, maxCommand), "\n")
	if strings.Contains(command, "\n") {
		b.WriteString(fenced("sh", command) + "\n" + capital(r.outcome()))
	} else {
		b.WriteString(codeSpan(command) + ": " + r.outcome())
	}
	stdout, stderr := r.output.Stdout, r.output.Stderr
	if len(stdout)+len(stderr) > maxOutput {
		stderr = cut(stderr, max(minStderr, maxOutput-len(stdout)))
		stdout = cut(stdout, maxOutput-len(stderr))
	}
	for _, img := range r.images {
		fmt.Fprintf(&b, "\nThe model was shown a %s image of %d × %d pixels, %d bytes.", img.Name(), img.Width, img.Height, img.Bytes)
	}
	if stdout != "" {
		b.WriteString("\n" + fenced("", stdout))
	}
	if stderr != "" {
		b.WriteString("\n\nstderr:\n" + fenced("", stderr))
	}
	if shown, all := int64(len(stdout)+len(stderr)), r.output.StdoutBytes+r.output.StderrBytes; shown < all {
		fmt.Fprintf(&b, "\n%d of %d bytes of output.", shown, all)
	}
	return b.String()
}

// outcome says in words how the call ended.
func (r ran) outcome() string {
	o := r.output
	var s string
	switch o.State {
	case tooloutput.StateCompleted:
		s = "completed"
		if o.ExitCode != nil {
			s = fmt.Sprintf("exit code %d", *o.ExitCode)
		}
	case "denied":
		s = "denied, not run"
	case "expired":
		s = "nobody decided in time, not run"
	case "cancelled":
		s = "cancelled"
	case "changed":
		s = "changed since it was approved, not run"
	case "failed":
		s = "could not be run"
	case "running":
		s = "goes on in the background as session " + plain(o.Session)
	case "unknown":
		s = "outcome unknown; it may have run"
	default:
		s = plain(o.State)
	}
	if o.State != tooloutput.StateCompleted && o.ExitCode != nil {
		s += fmt.Sprintf(", exit code %d", *o.ExitCode)
	}
	if o.TimedOut {
		s += ", timed out"
	}
	if r.changedBy != "" {
		s += " (changed by " + plain(r.changedBy) + ")"
	}
	if o.Note != "" {
		s += " (" + plain(o.Note) + ")"
	}
	return s + "."
}

// codeSpan writes s so that no backtick in it ends the span.
func codeSpan(s string) string {
	run := strings.Repeat("`", longestRun(s)+1)
	if longestRun(s) == 0 && strings.TrimSpace(s) != "" && !strings.HasPrefix(s, " ") {
		return run + s + run
	}
	return run + " " + s + " " + run
}

// fenced writes s as a code block that nothing in it can end.
func fenced(info, s string) string {
	run := strings.Repeat("`", max(3, longestRun(s)+1))
	if !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	return run + info + "\n" + s + run
}

func longestRun(s string) int {
	longest, n := 0, 0
	for _, c := range s {
		if c == '`' {
			n++
			longest = max(longest, n)
		} else {
			n = 0
		}
	}
	return longest
}

// plain makes people's words safe outside code.
func plain(s string) string {
	return strings.NewReplacer("\\", "\\\\", "`", "\\`", "*", "\\*", "_", "\\_", "[", "\\[", "<", "\\<",
		"\n", " ").Replace(s)
}

// cut returns at most n bytes of s, on a rune border.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
