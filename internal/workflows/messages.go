package workflows

import (
	"errors"
	"math"
	"strconv"
	"time"
)

// MaxInlineText is the longest text, in bytes, that travels inline through
// signals, updates and activities. Whoever makes a longer one puts it into the
// blob store and sends a [TextRef] with its beginning.
const MaxInlineText = 8 << 10 // 8 KiB

// InlineLimit is MaxInlineText, or less where less is asked for.
func InlineLimit(asked int) int {
	if asked <= 0 {
		return MaxInlineText
	}
	return min(asked, MaxInlineText)
}

// MaxInlineMessage is the same for the messages of people, of which a session may
// have many waiting: 1,500 stay below the 2 MiB that a continue-as-new input may
// have.
const MaxInlineMessage = 512

// TextRef is a text that may be longer than history should hold.
type TextRef struct {
	// Text is the whole text, or its beginning when Ref is set.
	Text string `json:"text"`
	// Ref is the blob key of the whole text; empty when Text is whole.
	Ref string `json:"ref,omitempty"`
	// Bytes is the length of the whole text.
	Bytes int `json:"bytes,omitempty"`
}

// Actor is a person, as the platform vouches for them at that moment.
type Actor struct {
	// ID is the platform's user ID; Name is shown.
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
	// Groups are the approver groups that the bot found the person in: the
	// evidence of membership for a decision.
	Groups []string `json:"groups,omitempty"`
	// Bot, Guest and External people never count as approvers.
	Bot      bool `json:"bot,omitempty"`
	Guest    bool `json:"guest,omitempty"`
	External bool `json:"external,omitempty"`
}

// Label is how the person is named in texts.
func (a Actor) Label() string {
	if a.Name != "" {
		return "@" + a.Name
	}
	return "@" + a.ID
}

// DeletedAt stands for the time of a deletion in a message's identity: there is one,
// and it comes after all edits. The message's text then says that it was deleted.
const DeletedAt = "deleted"

// Message is one message of a person to a session.
type Message struct {
	// ID is the message's own identity on its platform, never a delivery's. IDs
	// of one thread order as the platform orders the messages when compared with
	// [CompareIDs].
	ID string `json:"id"`
	// EditedAt is the edit's own time, or [DeletedAt]; empty for the original.
	EditedAt string    `json:"edited_at,omitempty"`
	Author   Actor     `json:"author"`
	Text     TextRef   `json:"text"`
	At       time.Time `json:"at"`
	// Attachments are the files that came with it, at most [MaxAttached].
	Attachments []Attachment `json:"attachments,omitempty"`
	// Earlier is what others had written in the thread when this message called us
	// into it.
	Earlier *Earlier `json:"earlier,omitempty"`
}

// Earlier is talk of others that is given to the model as such: quoted, with who
// wrote it. It asks for nothing, and nobody in it becomes a requester.
type Earlier struct {
	Text     TextRef `json:"text"`
	Messages int     `json:"messages"`
}

// size is about what the message takes in an input, in bytes: its text, and what
// stands around it.
func (m Message) size() int {
	n := len(m.Text.Text) + 256 + 512*len(m.Attachments)
	if m.Earlier != nil {
		n += len(m.Earlier.Text.Text) + 128
	}
	return n
}

// SetTitle is the payload of [SignalSetTitle].
type SetTitle struct {
	Title string `json:"title"`
	By    Actor  `json:"by"`
}

// Destroy is the payload of [SignalDestroy].
type Destroy struct {
	By Actor     `json:"by"`
	At time.Time `json:"at"`
}

// Verdicts of a [Decision].
const (
	VerdictApprove  = "approve"
	VerdictDeny     = "deny"
	VerdictWithdraw = "withdraw"
	// VerdictChanges ends the request as denied; its text goes to the model.
	VerdictChanges = "changes"
)

// Decision is the input of [UpdateDecideApproval]. Its update ID names approval,
// clicker and interaction.
type Decision struct {
	ApprovalID string `json:"approval_id"`
	Verdict    string `json:"verdict"`
	By         Actor  `json:"by"`
	// Interaction is the platform's ID of the click.
	Interaction string `json:"interaction"`
	// ClickedAt is when the person clicked; a decision older than
	// [MaxDecisionAge] is refused.
	ClickedAt time.Time `json:"clicked_at"`
	Reason    string    `json:"reason,omitempty"`
	// Digest, when the click came from Review, is what was reviewed.
	Digest string `json:"digest,omitempty"`
	// Edit, with an approval, is the command to run instead. It is judged and
	// digested again, and the votes before it are void. At most [MaxEdit] bytes.
	Edit string `json:"edit,omitempty"`
	// GrantFor, with an approval, also allows this exact command in this thread
	// for so long, at most [MaxGrant].
	GrantFor time.Duration `json:"grant_for,omitempty"`
	// BreakGlass, with an approval, asks to count alone and even for one's own
	// request; it needs a Reason and the right to.
	BreakGlass bool `json:"break_glass,omitempty"`
}

const (
	// MaxEdit bounds an edited command: what an edit box of a chat service holds
	// (Discord's text input: 4,000 characters).
	MaxEdit = 4000
	// MaxGrant is the longest standing permission.
	MaxGrant = 24 * time.Hour
	// GrantTime is what the card's button gives.
	GrantTime = time.Hour
)

// MaxDecisionAge is how old a click may be when it is recorded: one whose answer
// never came must not count minutes later. A clock that is ahead by as much must
// not make an old click young, so a click is refused as well that is by so much in
// the future.
const MaxDecisionAge = 15 * time.Second

// Outcomes of a click.
const (
	OutcomeRecorded       = "recorded"
	OutcomeNotYours       = "not_yours"
	OutcomeAlreadyDecided = "already_decided"
	OutcomeExpired        = "expired"
	OutcomeChanged        = "changed"
	OutcomeUnconfirmed    = "unconfirmed"
)

// Outcome answers an update: what became of it, and the sentence for the person.
type Outcome struct {
	// Outcome is one of the constants above; commands answer recorded or refused.
	Outcome string `json:"outcome"`
	Text    string `json:"text"`
}

// OutcomeRefused answers a command that cannot be carried out; Text says why.
const OutcomeRefused = "refused"

// CancelTurn is the input of [UpdateCancelTurn].
type CancelTurn struct {
	By Actor `json:"by"`
	// Turn is the number of the turn that the button or command meant; 0 is the
	// one that runs.
	Turn int       `json:"turn,omitempty"`
	At   time.Time `json:"at"`
}

// SwitchBackend is the input of [UpdateSwitchBackend].
type SwitchBackend struct {
	Backend string `json:"backend"`
	Root    string `json:"root,omitempty"`
	By      Actor  `json:"by"`
}

// Pause is the input of [UpdatePause].
type Pause struct {
	By Actor `json:"by"`
}

// SetModel is the input of [UpdateSetModel].
type SetModel struct {
	Model string `json:"model"`
	By    Actor  `json:"by"`
}

// RevokeGrant is the input of [UpdateRevokeGrant].
type RevokeGrant struct {
	GrantID string `json:"grant_id"`
	By      Actor  `json:"by"`
}

// SessionRequest asks the manager for a new session: by signal from chat, by
// [UpdateCreateSession] from another client.
type SessionRequest struct {
	// ID is the identity of the message or interaction that asked: the same ID
	// never gives two sessions.
	ID string `json:"id"`
	// Thread has an ID where the platform lets it be known beforehand; else
	// [ActivityOpenThread] fills it.
	Thread    Thread  `json:"thread"`
	Title     string  `json:"title,omitempty"`
	Task      Message `json:"task"`
	Backend   string  `json:"backend,omitempty"`
	Workspace string  `json:"workspace,omitempty"`
	Model     string  `json:"model,omitempty"`
	By        Actor   `json:"by"`
	// From is set for a fork and for `new --from`.
	From *Boundary `json:"from,omitempty"`
	// Join: no new session is asked for; Task is a message for the session of
	// Thread, which may still be opening.
	Join bool `json:"join,omitempty"`
}

// ForkSession is the input of [UpdateForkSession].
type ForkSession struct {
	ID      string `json:"id"`
	Source  string `json:"source"`
	Thread  Thread `json:"thread"`
	Title   string `json:"title,omitempty"`
	Backend string `json:"backend,omitempty"`
	By      Actor  `json:"by"`
	// Task is the first message of the new session; empty text starts it idle.
	Task Message `json:"task"`
	// OfClosed allows a destroyed source (`new --from`).
	OfClosed bool `json:"of_closed,omitempty"`
}

// SessionResult answers [UpdateCreateSession] and [UpdateForkSession].
type SessionResult struct {
	Outcome
	WorkflowID string `json:"workflow_id,omitempty"`
	Thread     Thread `json:"thread"`
	// Turn is the turn at whose end the fork's boundary was taken; 0 is the
	// manifest's content.
	Turn int `json:"turn"`
}

// DestroySession is the input of [UpdateDestroySession].
type DestroySession struct {
	WorkflowID string    `json:"workflow_id"`
	By         Actor     `json:"by"`
	At         time.Time `json:"at"`
}

// SwitchSession is the input of the manager's [UpdateSwitchSession].
type SwitchSession struct {
	WorkflowID string `json:"workflow_id"`
	SwitchBackend
}

// RenameSession is the payload of [SignalRenameSession].
type RenameSession struct {
	WorkflowID string `json:"workflow_id"`
	Title      string `json:"title"`
}

// UpdateSnapshotID is the payload of [SignalUpdateSnapshotID]: a session's
// boundary at release and at its end.
type UpdateSnapshotID struct {
	Boundary  Boundary `json:"boundary"`
	Liveness  string   `json:"liveness"`
	Destroyed bool     `json:"destroyed,omitempty"`
}

// Boundary is a session's content at a turn's end: what a fork copies.
type Boundary struct {
	WorkflowID string `json:"workflow_id"`
	// Turn counts from 1; 0 is the manifest's content.
	Turn     int    `json:"turn"`
	Snapshot string `json:"snapshot,omitempty"`
	// Previous is the snapshot before: a fork may be on its way with it.
	Previous   string    `json:"previous,omitempty"`
	Transcript string    `json:"transcript,omitempty"`
	Title      string    `json:"title,omitempty"`
	Backend    string    `json:"backend,omitempty"`
	Workspace  string    `json:"workspace,omitempty"`
	Model      string    `json:"model,omitempty"`
	At         time.Time `json:"at"`
	// Failed says why the last snapshot could not be taken; fork and switch are
	// refused until one succeeds.
	Failed string `json:"failed,omitempty"`
	// Forks counts the forks taken of the session, for titles.
	Forks int `json:"forks,omitempty"`
}

// ListSessions is the argument of [QueryListSessions].
type ListSessions struct {
	// Before pages: rows older than this cursor; empty starts at the newest.
	Before string `json:"before,omitempty"`
	// Limit is the page's size; 0 is 50, at most 200.
	Limit int `json:"limit,omitempty"`
}

// Size is how many rows the page may have.
func (l ListSessions) Size() int {
	if l.Limit <= 0 {
		return 50
	}
	return min(l.Limit, 200)
}

// BeforeRow is the number of the row that the page comes before.
func (l ListSessions) BeforeRow() (int, error) {
	if l.Before == "" {
		return math.MaxInt, nil
	}
	n, err := strconv.Atoi(l.Before)
	if err != nil {
		return 0, errors.New("that is no cursor of this list")
	}
	return n, nil
}

// SessionRow is one session in a list.
type SessionRow struct {
	// Row numbers the manager's sessions in the order of their starts, from 0.
	Row        int       `json:"row"`
	WorkflowID string    `json:"workflow_id"`
	Thread     Thread    `json:"thread"`
	Title      string    `json:"title"`
	Backend    string    `json:"backend"`
	Workspace  string    `json:"workspace,omitempty"`
	Liveness   string    `json:"liveness"`
	Parent     string    `json:"parent,omitempty"`
	By         Actor     `json:"by"`
	StartedAt  time.Time `json:"started_at"`
	Snapshot   string    `json:"snapshot,omitempty"`
	Transcript string    `json:"transcript,omitempty"`
	Turn       int       `json:"turn,omitempty"`
	Model      string    `json:"model,omitempty"`
	Forks      int       `json:"forks,omitempty"`
	// EndedAt is when the session was destroyed.
	EndedAt time.Time `json:"ended_at,omitzero"`
	// DestroyedBy is the label of who asked the manager to end it first.
	DestroyedBy string `json:"destroyed_by,omitempty"`
}

// Cursor names the place after the row in a list.
func (r SessionRow) Cursor() string { return strconv.Itoa(r.Row) }

// SessionStanding is how a running session stands, by its search attributes.
type SessionStanding struct {
	WorkflowID string
	Liveness   string
	// Waiting counts the requests that wait.
	Waiting int
}

// SessionList answers [QueryListSessions], newest first.
type SessionList struct {
	Sessions []SessionRow `json:"sessions"`
	// Next is the cursor of the following page; empty at the end of what the
	// manager holds.
	Next string `json:"next,omitempty"`
	// Archive is the blob key of the registry of older sessions; empty when there
	// are none. Changes of them are not in it yet.
	Archive string      `json:"archive,omitempty"`
	Changes []RowChange `json:"changes,omitempty"`
	// Opening are the workflow IDs of sessions about to start, Sources those of the
	// sessions that they will be made from and Needed the snapshots, Files what
	// [FilesOf] says of the messages that they begin with.
	Opening []string `json:"opening,omitempty"`
	Sources []string `json:"sources,omitempty"`
	Needed  []string `json:"needed,omitempty"`
	Files   []string `json:"files,omitempty"`
}
