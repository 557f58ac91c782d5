package web

import (
	"time"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/workflows"
)

// style writes times as RFC 3339 in UTC: the page shows them in the reader's
// zone.
var style = chat.RFC3339Style()

// message is a message as the API shows it. Fields may be added, and none changes
// its meaning.
type message struct {
	ID        string             `json:"id"`
	ThreadID  string             `json:"thread_id"`
	ChannelID string             `json:"channel_id"`
	At        time.Time          `json:"at"`
	Key       string             `json:"key"`
	Kind      string             `json:"kind"`
	Author    string             `json:"author"`
	Text      string             `json:"text"`
	Version   int                `json:"version"`
	ToolCalls []toolCall         `json:"tool_calls"`
	Approval  *approval          `json:"approval"`
	Buttons   []workflows.Button `json:"buttons"`
	// Question is set on a reply that asks one.
	Question string                `json:"question,omitempty"`
	Header   *workflows.HeaderView `json:"header,omitempty"`
	Turn     *workflows.TurnView   `json:"turn,omitempty"`
	// File is one of the workspace, at GET /messages/{id}/file.
	File *shownFile `json:"file,omitempty"`
	// Deleted takes the message away; only events have such messages.
	Deleted bool `json:"deleted,omitempty"`
}

type shownFile struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

type toolCall struct {
	ID         string     `json:"id"`
	Tool       string     `json:"tool"`
	Command    string     `json:"command"`
	State      string     `json:"state"`
	ExitCode   *int       `json:"exit_code"`
	DurationMS int64      `json:"duration_ms"`
	Tail       string     `json:"tail"`
	StartedAt  *time.Time `json:"started_at,omitempty"`
	Note       string     `json:"note,omitempty"`
}

type approval struct {
	ID        string    `json:"id"`
	State     string    `json:"state"`
	Tier      string    `json:"tier"`
	Command   string    `json:"command"`
	Cwd       string    `json:"cwd"`
	Backend   string    `json:"backend"`
	Reasons   []string  `json:"reasons"`
	Why       []string  `json:"why"` // those of Reasons for which it asks
	Digest    string    `json:"digest"`
	ExpiresAt time.Time `json:"expires_at"`
	Votes     []vote    `json:"votes"`

	Required    int        `json:"required"`
	Approvers   []string   `json:"approvers"`
	RequestedBy []string   `json:"requested_by"`
	Workspace   string     `json:"workspace,omitempty"`
	Displayable bool       `json:"displayable"`
	Queued      int        `json:"queued,omitempty"`
	DecidedAt   *time.Time `json:"decided_at,omitempty"`
	CallID      string     `json:"call_id"`
	CallState   string     `json:"call_state,omitempty"`
	ExitCode    *int       `json:"exit_code,omitempty"`
	DurationMS  int64      `json:"duration_ms,omitempty"`
	UnknownRun  bool       `json:"unknown_run,omitempty"`
	// Outcome is the line that takes the buttons' place.
	Outcome string `json:"outcome,omitempty"`

	RequesterMayApprove bool     `json:"requester_may_approve"`
	BreakGlass          []string `json:"break_glass,omitempty"`
	// Original is the command before EditedBy changed it.
	Original     string     `json:"original,omitempty"`
	EditedBy     string     `json:"edited_by,omitempty"`
	GrantedUntil *time.Time `json:"granted_until,omitempty"`
	BrokeGlass   bool       `json:"broke_glass,omitempty"`
	Widened      bool       `json:"widened,omitempty"`
	Remark       string     `json:"remark,omitempty"`
	// Editable says that the command is shown as it is and may be changed.
	Editable bool `json:"editable"`
	// Evidence are phrases on what the command would lose, when it was asked for.
	Evidence []string `json:"evidence,omitempty"`
	// Text is what a person wants changed, where that ended the request.
	Text string `json:"text,omitempty"`
	// DecidedBy ended the request, also by stopping the turn.
	DecidedBy string `json:"decided_by,omitempty"`
}

type vote struct {
	By      string    `json:"by"`
	Verdict string    `json:"verdict"`
	At      time.Time `json:"at"`
	Reason  string    `json:"reason,omitempty"`
}

func (r row) message() message {
	m := message{
		ID: r.id, ThreadID: r.thread, ChannelID: r.channel, At: r.at, Key: r.key, Kind: r.kind, Author: r.author,
		Text: r.text, Version: r.version, ToolCalls: []toolCall{}, Buttons: []workflows.Button{}, Question: r.question,
	}
	m.Deleted = r.deleted()
	if r.buttons != nil {
		m.Buttons = r.buttons
	}
	if r.view == nil {
		return m
	}
	m.Header, m.Turn = r.view.Header, r.view.Turn
	if f := r.view.File; f != nil {
		m.File = &shownFile{f.Name, f.Bytes}
	}
	if r.view.Turn != nil {
		for _, c := range r.view.Turn.Calls {
			m.ToolCalls = append(m.ToolCalls, showCall(c))
		}
	}
	if r.view.Approval != nil {
		m.Approval = showApproval(*r.view.Approval)
	}
	return m
}

func showCall(c workflows.CallView) toolCall {
	t := toolCall{
		ID: c.ID, Tool: c.Tool, Command: c.Command, State: c.State, ExitCode: c.ExitCode,
		Tail: chat.Tail(c.Tail, tailLines), StartedAt: timeOrNil(c.StartedAt), Note: c.Note,
	}
	if !c.StartedAt.IsZero() && c.EndedAt.After(c.StartedAt) {
		t.DurationMS = c.EndedAt.Sub(c.StartedAt).Milliseconds()
	}
	return t
}

// tailLines is how many lines of a command's output a card shows.
const tailLines = 10

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func showApproval(a workflows.ApprovalView) *approval {
	out := &approval{
		ID: a.ID, State: a.State, Tier: a.Tier, Command: a.Command.Text, Cwd: a.Cwd, Backend: a.Backend,
		Reasons: append([]string{}, a.Reasons...), Why: append([]string{}, a.Why()...), Digest: a.Digest, ExpiresAt: a.ExpiresAt, Votes: []vote{},
		Required: a.Required, Approvers: append([]string{}, a.Approvers...), RequestedBy: []string{},
		Workspace: a.Workspace, Displayable: chat.Faithful(a), Queued: a.Queued,
		DecidedAt: timeOrNil(a.DecidedAt), CallID: a.CallID, CallState: a.CallState, ExitCode: a.ExitCode,
		DurationMS: a.Duration.Milliseconds(), UnknownRun: a.UnknownRun, Outcome: style.ApprovalOutcome(a),
	}
	out.RequesterMayApprove, out.BreakGlass = a.RequesterMayApprove, a.BreakGlass
	out.Original, out.EditedBy, out.GrantedUntil = a.Original, idOf(a.EditedBy), timeOrNil(a.GrantedUntil)
	out.BrokeGlass, out.Widened, out.Remark, out.Text = a.BrokeGlass, a.Widened, a.Remark, a.Text
	out.DecidedBy, out.Evidence, out.Editable = idOf(a.DecidedBy), a.Evidence, a.Editable
	for _, p := range a.RequestedBy {
		out.RequestedBy = append(out.RequestedBy, p.ID)
	}
	for _, v := range a.Votes {
		out.Votes = append(out.Votes, vote{By: v.By.ID, Verdict: v.Verdict, At: v.At, Reason: v.Reason})
	}
	return out
}

func idOf(p *workflows.Actor) string {
	if p == nil {
		return ""
	}
	return p.ID
}
