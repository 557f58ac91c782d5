package workflows

import (
	"time"

	"github.com/countersign/countersign/internal/audit"
)

// Kinds of messages that a session shows in its thread.
const (
	KindHeader   = "header"
	KindTurn     = "turn"
	KindApproval = "approval"
	KindAnswer   = "answer"
	KindNotice   = "notice"
)

// HeaderKey is the key of a session's header.
const HeaderKey = "header"

// Liveness of a session.
const (
	LivenessActive    = "active"
	LivenessWaiting   = "waiting"
	LivenessPaused    = "paused"
	LivenessDestroyed = "destroyed"
)

// MessageView is what one message of the thread should show. The thread is a
// projection of these: a bot posts and edits until the two agree.
type MessageView struct {
	// Key names the message within the session and never changes.
	Key     string `json:"key"`
	Kind    string `json:"kind"`
	Version int    `json:"version"`
	// Text is the answer or notice, in Markdown.
	Text TextRef `json:"text,omitzero"`
	// File is shown with the text.
	File     *FileRef      `json:"file,omitempty"`
	Header   *HeaderView   `json:"header,omitempty"`
	Turn     *TurnView     `json:"turn,omitempty"`
	Approval *ApprovalView `json:"approval,omitempty"`
	Buttons  []Button      `json:"buttons,omitempty"`
	// Running names the execs whose live tail the message shows: while there are
	// any, its edit is run again and again.
	Running []string `json:"running,omitempty"`
	// Thinking is true while a model call is under way, whose words the message
	// shows as they come: it is followed like a running exec.
	Thinking bool `json:"thinking,omitempty"`
	// Over: the session was ended from outside. The message stays as it is, and is not
	// posted again.
	Over bool `json:"over,omitempty"`
	// ReplyTo is the message ID this answers, where the platform can show that.
	ReplyTo string `json:"reply_to,omitempty"`
}

// Live reports whether the message shows something that moves without a change
// of the view: its edit is run again and again.
func (v MessageView) Live() bool { return v.Thinking || len(v.Running) > 0 }

// Button IDs.
const (
	ButtonApprove = "approve"
	ButtonDeny    = "deny"
	ButtonReview  = "review"
	ButtonStop    = "stop"
	// ButtonDetails shows a turn's calls with all that is on record about them, and the
	// way to their outputs.
	ButtonDetails  = "details"
	ButtonWithdraw = "withdraw"
	// ButtonGrant approves and allows the exact command for [GrantTime].
	ButtonGrant = "grant"
	// ButtonRunAgain and ButtonLeave decide about a command whose outcome is unknown.
	ButtonRunAgain = "run_again"
	ButtonLeave    = "leave"
	// ButtonDestroy and ButtonKeep answer the question before a destroy.
	ButtonDestroy = "destroy"
	ButtonKeep    = "keep"
)

// Button is one button of a message.
type Button struct {
	ID    string `json:"id"`
	Label string `json:"label"`
}

// HeaderView is the session's header.
type HeaderView struct {
	Title         string    `json:"title"`
	Backend       string    `json:"backend"`
	Isolated      bool      `json:"isolated"`
	Workspace     string    `json:"workspace"`
	WorkspacePath string    `json:"workspace_path,omitempty"`
	Model         string    `json:"model"`
	By            Actor     `json:"by"`
	Liveness      string    `json:"liveness"`
	Waiting       int       `json:"waiting,omitempty"`
	DestroyedAt   time.Time `json:"destroyed_at,omitzero"`
	// NotStarted is true where the session never ran; Liveness is destroyed then.
	NotStarted bool   `json:"not_started,omitempty"`
	Parent     string `json:"parent,omitempty"`
	Usage      Usage  `json:"usage,omitzero"`
	// Notice is a standing honest sentence, such as that the sandbox is not isolated.
	Notice string `json:"notice,omitempty"`
}

// same reports whether two headers show the same; who started a session never
// changes.
func (h *HeaderView) same(o *HeaderView) bool {
	return h.Title == o.Title && h.Backend == o.Backend && h.Isolated == o.Isolated &&
		h.Workspace == o.Workspace && h.WorkspacePath == o.WorkspacePath && h.Model == o.Model &&
		h.Liveness == o.Liveness && h.Waiting == o.Waiting && h.DestroyedAt.Equal(o.DestroyedAt) &&
		h.Parent == o.Parent && h.Usage == o.Usage && h.Notice == o.Notice
}

// States of a turn.
const (
	TurnWorking = "working"
	TurnDone    = "done"
	TurnStopped = "stopped"
	TurnFailed  = "failed"
)

// TurnView is the turn card.
type TurnView struct {
	Number    int        `json:"number"`
	State     string     `json:"state"`
	StartedAt time.Time  `json:"started_at"`
	EndedAt   time.Time  `json:"ended_at,omitzero"`
	Calls     []CallView `json:"calls,omitempty"`
	// Folded is how many older calls were dropped from Calls to keep state small.
	Folded   int    `json:"folded,omitempty"`
	Commands int    `json:"commands"`
	Usage    Usage  `json:"usage,omitzero"`
	By       Actor  `json:"by,omitzero"`
	Error    string `json:"error,omitempty"`
	// Hint says what to do about Error.
	Hint   string `json:"hint,omitempty"`
	Queued int    `json:"queued,omitempty"`
	// Condensed: the conversation was condensed for the model during the turn.
	Condensed bool `json:"condensed,omitempty"`
	// Trail are the turn's entries of the audit chain.
	Trail Trail `json:"trail,omitzero"`
	// Says is what the model is saying now; filled in when the card is shown.
	Says ModelProgress `json:"says,omitzero"`
}

// Trail is a row of audit entries by their numbers, both included. Last is 0 while
// more may come.
type Trail struct {
	First int `json:"first"`
	Last  int `json:"last,omitempty"`
}

// States of a tool call.
const (
	CallPending   = "pending"
	CallAwaiting  = "awaiting_approval"
	CallRunning   = "running"
	CallCompleted = "completed"
	CallDenied    = "denied"
	CallFailed    = "failed"
	CallExpired   = "expired"
	CallCancelled = "cancelled"
	CallUnknown   = "unknown"
)

// CallView is one tool call on a turn card.
type CallView struct {
	ID   string `json:"id"`
	Tool string `json:"tool"`
	// Command is what is shown of it: at most [MaxShownCommand] bytes, escaped.
	Command   string    `json:"command"`
	State     string    `json:"state"`
	ExitCode  *int      `json:"exit_code,omitempty"`
	StartedAt time.Time `json:"started_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	Tail      string    `json:"tail,omitempty"`
	// Note is a short remark: timed out, by whom denied, why it failed.
	Note string `json:"note,omitempty"`
	// ExecID names the exec; empty before one was started.
	ExecID string `json:"exec_id,omitempty"`
}

// MaxShownCommand is how much of a command a turn card or list shows, in bytes.
const MaxShownCommand = 1 << 10 // 1 KiB

// States of an approval request.
const (
	ApprovalPending   = "pending"
	ApprovalApproved  = "approved"
	ApprovalDenied    = "denied"
	ApprovalExpired   = "expired"
	ApprovalChanged   = "changed"
	ApprovalWithdrawn = "withdrawn"
)

// Vote is one person's recorded verdict.
type Vote struct {
	By      Actor     `json:"by"`
	Verdict string    `json:"verdict"`
	At      time.Time `json:"at"`
	Reason  string    `json:"reason,omitempty"`
}

// ApprovalView is an approval card.
type ApprovalView struct {
	ID    string `json:"id"`
	State string `json:"state"`
	Tier  string `json:"tier"`
	// Command is the escaped, masked text for display, whole when it is at most
	// MaxInlineText bytes; Ref holds the whole one.
	Command     TextRef `json:"command"`
	Displayable bool    `json:"displayable"`
	// Editable is [Judgement.Editable].
	Editable  bool   `json:"editable,omitempty"`
	Cwd       string `json:"cwd"`
	Backend   string `json:"backend"`
	Workspace string `json:"workspace,omitempty"`
	// Detail is the blob key of what Review shows beside the command: environment
	// changes, script contents.
	Detail string `json:"detail,omitempty"`
	// To names the running command that gets Command as text.
	To string `json:"to,omitempty"`
	// Terminal says that the command has a terminal, or the one that gets text.
	Terminal bool `json:"terminal,omitempty"`
	// Reasons and Asking are those of [Judgement].
	Reasons []string `json:"reasons"`
	Asking  int      `json:"asking,omitempty"`
	// Evidence are phrases on what the command would lose, as it was when it was
	// asked for.
	Evidence  []string  `json:"evidence,omitempty"`
	Digest    string    `json:"digest"`
	ExpiresAt time.Time `json:"expires_at"`
	Required  int       `json:"required"`
	Votes     []Vote    `json:"votes,omitempty"`
	// Approvers are the IDs and groups that may approve; "*" is everybody.
	Approvers []string `json:"approvers,omitempty"`
	// RequesterMayApprove says whether those in RequestedBy count too.
	RequesterMayApprove bool `json:"requester_may_approve,omitempty"`
	// BreakGlass are the IDs and groups that may approve alone, with a reason.
	BreakGlass []string `json:"break_glass,omitempty"`
	// Notify are those whom the card pings once, when it is posted; empty pings
	// the approvers.
	Notify      []string  `json:"notify,omitempty"`
	RequestedBy []Actor   `json:"requested_by,omitempty"`
	DecidedAt   time.Time `json:"decided_at,omitzero"`
	// DecidedBy ended the request, also where that was no vote on it: a stop.
	DecidedBy *Actor `json:"decided_by,omitempty"`
	// CutShort is set on an expired request whose session was ended from outside, at
	// DecidedAt.
	CutShort bool `json:"cut_short,omitempty"`
	// Result is filled when an approved call has ended.
	CallState  string        `json:"call_state,omitempty"`
	ExitCode   *int          `json:"exit_code,omitempty"`
	Duration   time.Duration `json:"duration,omitempty"`
	CallID     string        `json:"call_id"`
	UnknownRun bool          `json:"unknown_run,omitempty"`
	// Queued is how many messages wait behind the request.
	Queued int `json:"queued,omitempty"`
	// Text is what a person wants changed, where that ended the request.
	Text string `json:"text,omitempty"`
	// Original is the command as the model asked for it, and EditedBy who changed
	// it, where somebody did.
	Original string `json:"original,omitempty"`
	EditedBy *Actor `json:"edited_by,omitempty"`
	// GrantedUntil is set where the approval also allows this for a time.
	GrantedUntil time.Time `json:"granted_until,omitzero"`
	// GrantEnd is set where that ended before its time.
	GrantEnd *GrantEnd `json:"grant_end,omitempty"`
	// BrokeGlass is true where one person approved alone, on the record.
	BrokeGlass bool `json:"broke_glass,omitempty"`
	// Widened is true once the second set of approvers was asked.
	Widened bool `json:"widened,omitempty"`
	// Remark is a line about votes that no longer count.
	Remark string `json:"remark,omitempty"`
}

// Grant is a standing permission for one exact command in one thread.
type Grant struct {
	ID string `json:"id"`
	// Shape is the parsed form it allows; Command is how it was shown.
	Shape   string    `json:"shape"`
	Command string    `json:"command"`
	By      Actor     `json:"by"`
	At      time.Time `json:"at"`
	Until   time.Time `json:"until"`
	// PolicyVersion: a newer policy ends the permission.
	PolicyVersion string `json:"policy_version"`
	// Approval is the request with which it was given.
	Approval string `json:"approval,omitempty"`
}

// GrantEnd is how a standing permission ended.
type GrantEnd struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
	// By ended it; nil where nobody did. Why is empty where its time was over.
	By  *Actor `json:"by,omitempty"`
	Why string `json:"why,omitempty"`
}

// Usage counts tokens; Micros is money in millionths of the currency's unit, 0
// where the model has no price.
type Usage struct {
	Input     int64 `json:"input,omitempty"`
	Cached    int64 `json:"cached,omitempty"`
	Output    int64 `json:"output,omitempty"`
	Reasoning int64 `json:"reasoning,omitempty"`
	Micros    int64 `json:"micros,omitempty"`
	Calls     int   `json:"calls,omitempty"`
	// Unsure counts those of Calls that were never answered, so that their tokens
	// are not known; they may have been billed.
	Unsure int `json:"unsure,omitempty"`
}

// Add returns the sum.
func (u Usage) Add(v Usage) Usage {
	u.Input += v.Input
	u.Cached += v.Cached
	u.Output += v.Output
	u.Reasoning += v.Reasoning
	u.Micros += v.Micros
	u.Calls += v.Calls
	u.Unsure += v.Unsure
	return u
}

// TurnState answers [QueryTurnState].
type TurnState struct {
	WorkflowID string      `json:"workflow_id"`
	Header     HeaderView  `json:"header"`
	Turn       *TurnView   `json:"turn,omitempty"`
	Approvals  []string    `json:"approvals,omitempty"`
	Grants     []Grant     `json:"grants,omitempty"`
	Queued     int         `json:"queued"`
	Turns      int         `json:"turns"`
	Sandbox    *SandboxRef `json:"sandbox,omitempty"`
	StartedAt  time.Time   `json:"started_at"`
	// Work is what no remote had of the workspace at the last turn's end.
	Work *Inventory `json:"work,omitempty"`
}

// HistoryTurn is one recent turn in short.
type HistoryTurn struct {
	Number   int       `json:"number"`
	At       time.Time `json:"at"`
	Messages []string  `json:"messages"`
	Commands []string  `json:"commands,omitempty"`
	Answer   string    `json:"answer,omitempty"`
	State    string    `json:"state"`
}

// History answers [QueryHistory].
type History struct {
	Turns      []HistoryTurn `json:"turns"`
	Transcript string        `json:"transcript"`
}

// TurnTrail answers [QueryTurnTrail]: where the record of a turn ends for now, and
// what of it is not written yet.
type TurnTrail struct {
	// Running is the card of the turn, if it is the one that runs.
	Running *TurnView `json:"running,omitempty"`
	// Head is the number of the session's newest entry.
	Head int `json:"head"`
	// Unwritten are the newest entries, which are not in the blob store yet.
	Unwritten []audit.Entry `json:"unwritten,omitempty"`
}

// ToolCallInfo answers [QueryToolCall].
type ToolCallInfo struct {
	ID        string `json:"id"`
	ExecID    string `json:"exec_id"`
	OutputRef string `json:"output_ref,omitempty"`
	Ended     bool   `json:"ended"`
}
