package chat

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/audit"
	"github.com/countersign/countersign/internal/workflows"
)

// Details are a turn's calls with all that is on record about them. What they show
// is masked.
type Details struct {
	Turn int `json:"turn"`
	// Calls are in the order in which the model made them.
	Calls []CallDetail `json:"calls"`
}

// CallDetail is one call of a turn.
type CallDetail struct {
	// N is the call's number in its turn, from 1.
	N  int    `json:"n"`
	ID string `json:"id"`
	// Exec names what ran; empty where nothing did.
	Exec string `json:"exec,omitempty"`
	// Command is whole, unless it is kept no more: then it ends in an ellipsis.
	Command   string        `json:"command"`
	State     string        `json:"state"`
	Tier      string        `json:"tier,omitempty"`
	Reasons   []string      `json:"reasons,omitempty"`
	ExitCode  *int          `json:"exit_code,omitempty"`
	StartedAt time.Time     `json:"started_at,omitzero"`
	Duration  time.Duration `json:"duration,omitempty"`
	Note      string        `json:"note,omitempty"`
	// Approval is the request that held the call; Verdicts are on it, oldest first.
	Approval string    `json:"approval,omitempty"`
	Verdicts []Verdict `json:"verdicts,omitempty"`
	// Outcome is what the request came to, a state of an approval request.
	Outcome string `json:"outcome,omitempty"`
	Digest  string `json:"digest,omitempty"`
	// Policy is the version of the policy that judged it.
	Policy string `json:"policy,omitempty"`

	whole string
}

// Verdict is what one person did about a request; kinds are [workflows.VerdictApprove]
// and its kin, [VerdictEdit] and [VerdictGranted].
type Verdict struct {
	By   string    `json:"by"`
	Kind string    `json:"kind"`
	At   time.Time `json:"at"`
	Text string    `json:"text,omitempty"`
}

// More kinds of a [Verdict]: the command was changed; it ran by a standing
// permission that the person had given.
const (
	VerdictEdit    = "edit"
	VerdictGranted = "granted"
)

// Details reads a turn's calls for somebody who may see the session's history. trail
// is what the turn's card says. The error is an [*Error].
func (r *Router) Details(ctx context.Context, by workflows.Actor, t workflows.Thread, turn int, trail workflows.Trail) (Details, error) {
	d := Details{Turn: turn}
	if err := r.allowed(ctx, by, VerbHistory, t); err != nil {
		return d, err
	}
	entries, card, err := r.record(ctx, t, turn, trail)
	if err != nil {
		return d, err
	}
	d.Calls = detailed(entries, turn)
	if card != nil {
		d.add(*card)
	}
	for i := range d.Calls {
		r.finish(ctx, &d.Calls[i])
	}
	return d, nil
}

// add takes from the card what the record has not yet: calls that no verdict is in
// for.
func (d *Details) add(card workflows.TurnView) {
	for _, v := range card.Calls {
		if turnOf(v.ID) == d.Turn && d.call(v.ID) == nil {
			d.Calls = append(d.Calls, CallDetail{N: callOf(v.ID), ID: v.ID, Command: v.Command, State: v.State, Note: v.Note})
		}
	}
	slices.SortStableFunc(d.Calls, func(a, b CallDetail) int { return a.N - b.N })
}

func (d *Details) call(id string) *CallDetail {
	for i := range d.Calls {
		if d.Calls[i].ID == id {
			return &d.Calls[i]
		}
	}
	return nil
}

// Call is a call by its number in the turn.
func (d Details) Call(n int) (CallDetail, bool) {
	i := slices.IndexFunc(d.Calls, func(c CallDetail) bool { return c.N == n })
	if i < 0 {
		return CallDetail{}, false
	}
	return d.Calls[i], true
}

// finish fills in a command's whole text, and masks.
func (r *Router) finish(ctx context.Context, c *CallDetail) {
	if c.whole != "" {
		if data, err := r.Blobs.Get(ctx, c.whole); err == nil {
			c.Command = string(data)
		} else {
			c.Command += "…"
		}
	}
	c.Command, c.Note, c.Reasons = r.Mask.Text(c.Command), r.Mask.Text(c.Note), r.Mask.Texts(c.Reasons)
	for i := range c.Verdicts {
		c.Verdicts[i].Text = r.Mask.Text(c.Verdicts[i].Text)
	}
}

// detailed makes calls of a turn's entries.
func detailed(entries []audit.Entry, turn int) []CallDetail {
	d := Details{Turn: turn}
	requests := map[string]string{} // their calls
	for _, e := range entries {
		id := e.ToolCall
		if id == "" {
			id = requests[e.Approval]
		} else if e.Approval != "" {
			requests[e.Approval] = id
		}
		if turnOf(id) != turn {
			continue
		}
		c := d.call(id)
		if c == nil {
			d.Calls = append(d.Calls, CallDetail{N: callOf(id), ID: id, State: workflows.CallPending})
			c = &d.Calls[len(d.Calls)-1]
		}
		c.take(e)
	}
	slices.SortStableFunc(d.Calls, func(a, b CallDetail) int { return a.N - b.N })
	return d.Calls
}

// take brings a call up to an entry.
func (c *CallDetail) take(e audit.Entry) {
	if e.Command != "" && (e.Kind == audit.KindJudged || e.Kind == audit.KindExecEnded) {
		c.Command, c.whole = e.Command, e.Whole
	}
	switch e.Kind {
	case audit.KindJudged:
		c.Tier, c.Reasons, c.Digest, c.Policy = e.Tier, e.Reasons, e.Digest, e.PolicyVersion
		if e.Actor != "" {
			c.Verdicts = append(c.Verdicts, Verdict{e.Actor, VerdictEdit, e.At, strings.TrimPrefix(e.Text, "edited; it was: ")})
		}
	case audit.KindRequested:
		c.Approval, c.State, c.Outcome = e.Approval, workflows.CallAwaiting, ""
	case audit.KindVote:
		c.Verdicts = append(c.Verdicts, Verdict{e.Actor, e.Outcome, e.At, e.Text})
	case audit.KindGranted:
		if e.ToolCall != "" {
			c.Verdicts = append(c.Verdicts, Verdict{e.Actor, VerdictGranted, e.At, ""})
		}
	case audit.KindDecided:
		c.Outcome = e.Outcome
	case audit.KindExecStarted:
		c.Exec, c.State, c.StartedAt = e.Exec, workflows.CallRunning, e.At
	case audit.KindExecEnded:
		c.State, c.Note, c.ExitCode = e.Outcome, e.Text, e.ExitCode
		c.Duration = time.Duration(e.Millis) * time.Millisecond
		if c.ExitCode == nil && !c.StartedAt.IsZero() {
			c.Duration = e.At.Sub(c.StartedAt)
		}
	}
}

// Outcome says how a call stands: "✓ exit 1 · 3.1 s".
func (s Style) Outcome(c CallDetail) string {
	v := workflows.CallView{State: c.State, ExitCode: c.ExitCode, StartedAt: c.StartedAt, EndedAt: c.StartedAt.Add(c.Duration), Note: c.Note}
	return CallMark(c.State) + " " + s.CallState(v)
}

// Facts says, one a line, what else is on record about a call: the gate's verdict
// and its reasons, who decided, and the call's IDs.
func (s Style) Facts(c CallDetail) []string {
	var lines []string
	if c.Tier != "" {
		line := "Verdict: " + c.Tier
		for i, reason := range c.Reasons {
			sep := "; "
			if i == 0 {
				sep = ": "
			}
			line += sep + strings.TrimSuffix(Shown(reason), ".")
		}
		lines = append(lines, line+".")
	}
	for _, v := range c.Verdicts {
		lines = append(lines, s.verdict(v))
	}
	switch {
	case c.Outcome == workflows.ApprovalExpired:
		lines = append(lines, "Nobody decided in time.")
	case c.Outcome == workflows.ApprovalChanged:
		lines = append(lines, "What was to be run had changed since.")
	case c.Approval == "" && (c.Tier == "safe" || c.Tier == "write"):
		lines = append(lines, "Needed no approval.")
	}
	if !c.StartedAt.IsZero() {
		lines = append(lines, "Started "+s.Exact(c.StartedAt)+".")
	}
	return append(lines, ids(c))
}

func ids(c CallDetail) string {
	parts := []string{"Call " + c.ID}
	for _, p := range [][2]string{{"exec ", c.Exec}, {"request ", c.Approval}, {"digest ", c.Digest}, {"policy ", c.Policy}} {
		if p[1] != "" {
			parts = append(parts, p[0]+p[1])
		}
	}
	return strings.Join(parts, " · ")
}

func (s Style) verdict(v Verdict) string {
	by, at := s.Approver(v.By), s.Clock(v.At)
	text := ""
	switch v.Kind {
	case workflows.VerdictApprove:
		text = "Approved by " + by + " at " + at
	case workflows.VerdictDeny:
		text = "Denied by " + by + " at " + at
	case workflows.VerdictChanges:
		text = "Changes asked for by " + by + " at " + at
	case workflows.VerdictWithdraw:
		text = "Withdrawn by " + by + " at " + at
	case VerdictEdit:
		return "Changed by " + by + " at " + at + ", which voided the votes before; it was: " + Cut(Shown(v.Text), maxOriginal)
	case VerdictGranted:
		return "Allowed by a standing permission of " + by + "."
	default:
		text = Shown(v.Kind) + " by " + by + " at " + at
	}
	if v.Text != "" {
		return text + ": " + Sentence(Shown(v.Text))
	}
	return text + "."
}

// Text is all of it as plain text, for a file.
func (d Details) Text(s Style) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Turn %d, %s\n", d.Turn, Count(len(d.Calls), "call", "calls"))
	for _, c := range d.Calls {
		fmt.Fprintf(&b, "\n%d. %s\n\n", c.N, s.Outcome(c))
		for l := range strings.SplitSeq(ShownLines(c.Command), "\n") {
			b.WriteString("    " + l + "\n")
		}
		b.WriteString("\n")
		for _, l := range s.Facts(c) {
			b.WriteString(l + "\n")
		}
	}
	return b.String()
}

// NoCalls is what Details of a turn without any says.
const NoCalls = "The agent has run nothing in this turn."

// Page is a part of a turn's calls: at most size of them. The newest page is the
// last; page counts from 1, and 0 or one that is not there is the newest.
func (d Details) Page(page, size int) (calls []CallDetail, at, of int) {
	of = max(1, (len(d.Calls)+size-1)/size)
	if page < 1 || page > of {
		page = of
	}
	return d.Calls[(page-1)*size : min(page*size, len(d.Calls))], page, of
}

// OutputFile is one stream of a call's output.
type OutputFile struct {
	Name string
	// Stream is [Stdout] or [Stderr].
	Stream string
	Text   string
	// Bytes is how long the stream is; Text of a longer one lacks its middle, and
	// says so.
	Bytes int64
}

// Output reads the whole output of a call, masked: the streams that have any, of
// each at most most bytes. The error is an [*Error].
func (r *Router) Output(ctx context.Context, by workflows.Actor, t workflows.Thread, turn int, c CallDetail, most int) ([]OutputFile, error) {
	if err := r.allowed(ctx, by, VerbHistory, t); err != nil {
		return nil, err
	}
	if c.Exec == "" || r.Outputs == nil {
		return nil, nil
	}
	var files []OutputFile
	for _, stream := range []string{Stdout, Stderr} {
		o := Output{
			From: r.Outputs(t.WorkflowID()), Mask: r.Mask, Exec: c.Exec, Stream: stream,
			Ended: func() bool { return c.State != workflows.CallRunning },
		}
		head, tail, left, err := o.Whole(ctx, most)
		if err != nil {
			return nil, &Error{
				Kind: KindUnavailable, Code: "output_unavailable", Message: "The output cannot be read now.",
				Hint: "Try again in a moment.", Err: err,
			}
		}
		text := string(head)
		if left > 0 {
			text += fmt.Sprintf("\n… %d bytes are left out here …\n", left)
		}
		text += string(tail)
		if text == "" {
			continue
		}
		files = append(files, OutputFile{
			Name: fmt.Sprintf("turn-%d-call-%d-%s.txt", turn, c.N, stream), Stream: stream,
			Text: text, Bytes: int64(len(head)) + left + int64(len(tail)),
		})
	}
	return files, nil
}

// OutputSays is what is said where a call has no output to show.
func OutputSays(c CallDetail) string {
	switch {
	case c.Exec == "":
		return "This call has run nothing, so there is no output."
	case c.State == workflows.CallRunning:
		return "There is no output yet."
	}
	return "There was no output, or it is kept no longer."
}
