package workflows

import (
	"time"

	"github.com/countersign/countersign/internal/audit"
)

// AgentInput starts a session, or continues one in a new run.
type AgentInput struct {
	Request SessionRequest `json:"request"`
	// ManagerID is the manager that started the session.
	ManagerID string `json:"manager_id"`
	// Joined are messages that the thread received while the session was opened.
	Joined []Message `json:"joined,omitempty"`
	// State is what the run before this one carried over; nil at the start.
	State *State `json:"state,omitempty"`
}

// Settings are what a worker brings to the workflows it runs. They are recorded
// once a run, so that a worker with others can take the run over.
type Settings struct {
	// Model is the default model; Backend the default backend.
	Model   string `json:"model"`
	Backend string `json:"backend"`
	// Backends are those that exist here.
	Backends []string `json:"backends"`
	// Roots are directories below which workspaces may be kept, by backend.
	Roots map[string][]string `json:"roots,omitempty"`
	// Workspaces are the named workspaces, with the backend that each asks for.
	Workspaces map[string]string `json:"workspaces,omitempty"`
	// ForceContinueAsNew, in tests, continues as new after every so many steps.
	ForceContinueAsNew int `json:"force_continue_as_new,omitempty"`
	// OnlyModel: whatever a session names, Model answers, for lack of a key.
	OnlyModel bool `json:"only_model,omitempty"`
	// MaxSteps bounds the model calls of a turn.
	MaxSteps int `json:"max_steps"`
	// HostDeadAfter is how long nobody may serve a host's queue before its sessions
	// may go on elsewhere.
	HostDeadAfter time.Duration `json:"host_dead_after,omitempty"`
}

// State is all that a session carries from run to run. It stays small: long
// texts are references.
type State struct {
	Thread    Thread    `json:"thread"`
	ManagerID string    `json:"manager_id"`
	Title     string    `json:"title"`
	By        Actor     `json:"by"`
	Parent    string    `json:"parent,omitempty"`
	StartedAt time.Time `json:"started_at"`

	Backend   string `json:"backend"`
	Workspace string `json:"workspace,omitempty"`
	Root      string `json:"root,omitempty"`
	Model     string `json:"model"`

	Seen Seen `json:"seen"`
	// Outdated: another worker version has become current during the turn.
	Outdated bool `json:"outdated,omitempty"`
	// Answered are the last updates' answers.
	Answered []Answered `json:"answered,omitempty"`
	// Queue are messages that wait for the model, Stashed those before them, in the
	// blob store. Of Doubtful ones only the blob store knows whether they were taken.
	Queue    []Message `json:"queue,omitempty"`
	Stashed  []Stash   `json:"stashed,omitempty"`
	Doubtful []Message `json:"doubtful,omitempty"`
	// Files are the requests for files that were not read yet.
	Files []SendFiles `json:"files,omitempty"`
	// Speakers are the distinct people heard so far, at most two: more are not
	// needed to know that the session is shared.
	Speakers []string `json:"speakers,omitempty"`

	Posts []*Post `json:"posts"`
	// Notices, Approvals and Turns number the keys given out.
	Notices  int `json:"notices"`
	Requests int `json:"requests"`
	Turns    int `json:"turns"`
	Turn     *Turn
	// Background are commands that go on without a call, and the last ones that did.
	Background []*Background     `json:"background,omitempty"`
	Sandbox    *SandboxRef       `json:"sandbox,omitempty"`
	Gen        int               `json:"gen"`
	Pending    []*Approval       `json:"pending,omitempty"`
	Decided    []DecidedApproval `json:"decided,omitempty"`
	// Grants stand for this thread; Granted numbers them.
	Grants  []Grant `json:"grants,omitempty"`
	Granted int     `json:"granted,omitempty"`
	// Ended are the last grants that do not stand any more.
	Ended    []GrantEnd `json:"ended,omitempty"`
	Boundary Boundary   `json:"boundary"`
	// Work is what no remote had of the workspace at the last boundary.
	Work *Inventory `json:"work,omitempty"`
	// SavedTurn is the turn at whose end Boundary.Snapshot was taken, 0 for one that
	// the session began with; SavedAt is when.
	SavedTurn int       `json:"saved_turn,omitempty"`
	SavedAt   time.Time `json:"saved_at,omitzero"`
	// Unsaved: a command in the background that may have changed files has ended since
	// the last save began.
	Unsaved bool  `json:"unsaved,omitempty"`
	Usage   Usage `json:"usage"`
	Stats   Stats `json:"stats"`
	// DayUsage is what people's turns have cost on Day (UTC), by who began them;
	// Raised are the limits of budgets that approvers have allowed.
	Day      string           `json:"day,omitempty"`
	DayUsage map[string]Usage `json:"day_usage,omitempty"`
	Raised   map[string]int64 `json:"raised,omitempty"`
	// Guides are the digests of the AGENTS.md files that the model has seen.
	Guides map[string]string `json:"guides,omitempty"`
	// Prepared is set once a sandbox was opened, or tried to be, for the model's
	// first call.
	Prepared bool `json:"prepared,omitempty"`
	// Away: the thread was told that the sandbox does not answer, and not yet that it
	// does again.
	Away   bool          `json:"away,omitempty"`
	Recent []HistoryTurn `json:"recent,omitempty"`
	// Audit is the head of the audit chain; Unwritten are its entries that are
	// not in the blob store yet.
	Audit     audit.Chain   `json:"audit"`
	Unwritten []audit.Entry `json:"unwritten,omitempty"`
	Paused    bool          `json:"paused,omitempty"`
	PauseBy   *Actor        `json:"pause_by,omitempty"`
	// Asked is a switch that is judged or waits for an approval; Switch is where the
	// session moves at the turn's boundary.
	Asked   *AskedSwitch `json:"asked,omitempty"`
	Switch  *Move        `json:"switch,omitempty"`
	Destroy *Destroy     `json:"destroy,omitempty"`
	// LateStops have not reached their commands' host yet.
	LateStops []*LateStop `json:"late_stops,omitempty"`
	Liveness  string      `json:"liveness"`
	Waiting   int         `json:"waiting"`
	DestroyAt time.Time   `json:"destroy_at,omitzero"`
}

// Stats are counted for the receipt.
type Stats struct {
	Commands int `json:"commands"`
	Approved int `json:"approved"`
	Denied   int `json:"denied"`
	Expired  int `json:"expired"`
	// Deciders counts approvals by the label of whose vote was the last.
	Deciders map[string]int `json:"deciders,omitempty"`
}

// Answered is the answer that an update was given, but for decisions, which
// remember their clicks.
type Answered struct {
	UpdateID string  `json:"update_id"`
	Outcome  Outcome `json:"outcome"`
}

// Post is one message of the thread: what it should show, and where it stands.
type Post struct {
	View MessageView `json:"view"`
	// Ref is the platform's reference once it is posted.
	Ref string `json:"ref,omitempty"`
	// Shown is the version last brought to the thread.
	Shown int       `json:"shown"`
	First time.Time `json:"first,omitzero"`
	// Final posts are dropped once shown.
	Final bool `json:"final,omitempty"`
	// Gone: the platform does not have the message or its thread any more.
	Gone bool `json:"gone,omitempty"`
	// After is the key of the turn card that an answer ends.
	After string `json:"after,omitempty"`

	edit edit
}

// Turn is the turn that runs.
type Turn struct {
	Number     int       `json:"number"`
	StartedAt  time.Time `json:"started_at"`
	Step       int       `json:"step"`
	Requesters []Actor   `json:"requesters"`
	// Append is what the next model call adds to the transcript.
	Append []Item `json:"append,omitempty"`
	// Calls are those of the current step.
	Calls []*Call `json:"calls,omitempty"`
	// Made counts the calls of the turn, for their IDs.
	Made int      `json:"made"`
	Card TurnView `json:"card"`
	// Guides are AGENTS.md files that the next model call adds to the transcript.
	Guides []Guide `json:"guides,omitempty"`
	// HostAsk is the ID of its request to go on on another host, until that is
	// answered.
	HostAsk string `json:"host_ask,omitempty"`
	// BudgetAsk is the ID of its request to raise the budget that Over says, until
	// that is answered.
	BudgetAsk string      `json:"budget_ask,omitempty"`
	Over      *OverBudget `json:"over,omitempty"`
	// Raised is the turn's budget, where an approver has raised it.
	Raised int64 `json:"raised,omitempty"`
	// Stop is set by cancel_turn and destroy.
	Stop *CancelTurn `json:"stop,omitempty"`
	// Opened is true once the sandbox was there for it.
	Opened bool `json:"opened,omitempty"`
	// Wrote is true once something ran that may have changed the workspace.
	Wrote    bool     `json:"wrote,omitempty"`
	Messages []string `json:"messages,omitempty"`
	Commands []string `json:"commands,omitempty"`
}

// Call is one tool call of the current step and how far it has come.
type Call struct {
	ToolCall
	ID        string     `json:"id"`
	State     string     `json:"state"`
	Attempt   int        `json:"attempt"`
	Judgement *Judgement `json:"judgement,omitempty"`
	// EditedBy changed the command before it ran.
	EditedBy *Actor `json:"edited_by,omitempty"`
	// Approval is the ID of the request that holds the call.
	Approval string `json:"approval,omitempty"`
	// Started is true once an exec was asked for: from then on it is attached to.
	Started bool `json:"started,omitempty"`
	// On is the generation of the sandbox in which it began: it is attached to there,
	// and nowhere else.
	On     int     `json:"on,omitempty"`
	Output TextRef `json:"output,omitzero"`
	// OutputRef is where the whole output is found.
	Result *ToolResult `json:"result,omitempty"`
	// YieldAt is when a shell call goes to the background; Yielded says that it has.
	YieldAt time.Time `json:"yield_at,omitzero"`
	Yielded bool      `json:"yielded,omitempty"`
	// Rejudged counts verdicts that were void because something had changed.
	Rejudged int `json:"rejudged,omitempty"`

	patience patience
}

// ended reports whether the call has an outcome.
func (c *Call) ended() bool {
	switch c.State {
	case CallPending, CallAwaiting, CallRunning:
		return false
	}
	return true
}

// execID names the exec of the call's current attempt.
func (c *Call) execID() string {
	return c.ID + ".x" + itoa(c.Attempt)
}

// Approval is a held tool call: a request and the votes on it.
type Approval struct {
	ID        string       `json:"id"`
	Key       string       `json:"key"`
	CallID    string       `json:"call_id"`
	Rule      ApprovalRule `json:"rule"`
	Digest    string       `json:"digest"`
	Votes     []Vote       `json:"votes,omitempty"`
	CreatedAt time.Time    `json:"created_at"`
	// ExpiresAt counts from the card's delivery; zero until then.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// Quorum is true once enough people have approved.
	Quorum bool `json:"quorum,omitempty"`
	// UnknownRun asks whether to run again a command whose outcome is unknown.
	UnknownRun bool   `json:"unknown_run,omitempty"`
	State      string `json:"state"`
	// Widened is true once Rule.WidenTo may approve too.
	Widened bool `json:"widened,omitempty"`
	// GrantFor is set when the vote that decides also allows this for a time.
	GrantFor time.Duration `json:"grant_for,omitempty"`
	// BrokeGlass is true when one person approved alone.
	BrokeGlass bool `json:"broke_glass,omitempty"`
	// Budget is set where no call is held, but the turn, for a budget to be raised.
	Budget *OverBudget `json:"budget,omitempty"`
	// Lost is set when the request is to go on without the sandbox's host.
	Lost *LostHost `json:"lost,omitempty"`
	// Switch is set when the request is to move to less isolation.
	Switch *SwitchBackend `json:"switch,omitempty"`
	// Editing is true while a changed command is being judged.
	Editing bool `json:"editing,omitempty"`
	// Interactions are those already answered, so that a repeated click after a
	// continue-as-new gets the same answer.
	Interactions []string `json:"interactions,omitempty"`
	// looked: the host has been asked whether what was approved still stands.
	looked bool
}

// DecidedApproval is what is kept of a decided request for the session's life.
type DecidedApproval struct {
	ID    string    `json:"id"`
	State string    `json:"state"`
	By    string    `json:"by,omitempty"`
	At    time.Time `json:"at"`
	// Reason is the denier's, cut short; Changes that it asks for changes.
	Reason     string `json:"reason,omitempty"`
	Changes    bool   `json:"changes,omitempty"`
	UnknownRun bool   `json:"unknown_run,omitempty"`
	// Interactions whose votes were recorded.
	Interactions []string `json:"interactions,omitempty"`
}
