package chat

import (
	"time"

	"github.com/countersign/countersign/internal/workflows"
)

// Event is something that a person wrote: a command, or a message in a thread.
type Event struct {
	// ID is the message's own identity, or a slash command's interaction ID;
	// never a delivery's.
	ID       string
	EditedAt string
	// Thread is where it was written. Its ID is empty in a channel.
	Thread workflows.Thread
	// New is the thread that a session started by this event gets. Its ID is
	// empty where the platform gives one only when the thread is opened.
	New workflows.Thread
	By  workflows.Actor
	At  time.Time
	// Text is what was written, without the mention or the slash command.
	Text string
	// Attachments are the files that came with it, LeftOut what is said of those that
	// are not passed on; see [Attach].
	Attachments []workflows.Attachment
	LeftOut     string
}

// Questions that a [Reply] may ask.
const (
	QuestionDone    = "done"
	QuestionDestroy = "destroy"
	QuestionSwitch  = "switch"
	// QuestionGrants offers to revoke: each of its buttons is answered for itself.
	QuestionGrants = "grants"
)

// ButtonSwitch begins the IDs of the buttons of a backend picker; the backend's
// name follows.
const ButtonSwitch = "switch:"

// ButtonRevoke begins the IDs of the buttons that end a standing permission; the
// permission's ID follows.
const ButtonRevoke = "revoke:"

// Reply is what the person, or the thread, is told about an event.
type Reply struct {
	// Text is Markdown; empty when the session itself shows what happens.
	Text string
	// Private texts are for the asker alone.
	Private bool
	// Question names what Buttons answer.
	Question string
	Buttons  []workflows.Button
	// Opens is true when a session was asked for in Thread.
	Opens  bool
	Thread workflows.Thread
	// Title and Backend are what a session that opens was asked for with.
	Title, Backend string
}

// Click is a click on a button of ours.
type Click struct {
	// Interaction is the platform's ID of the click.
	Interaction string
	// Thread is the session's.
	Thread workflows.Thread
	Button string
	// ApprovalID comes with the button of an approval card, Turn with a turn
	// card's, Question with that of a question.
	ApprovalID string
	Turn       int
	Question   string
	// Reason is what was typed with a denial; Digest what was reviewed.
	Reason string
	Digest string
	// Changes, with the deny button, asks for changes: the text goes to the model.
	Changes string
	// Edit, with the approve button of Review, is the command to run instead.
	Edit string
	// BreakGlass, with the approve button, is why the clicker approves alone.
	BreakGlass string
	By         workflows.Actor
	At         time.Time
}

// ClickReply answers a click to the clicker.
type ClickReply struct {
	workflows.Outcome
	// Answered, when set, takes the place of a question's buttons.
	Answered string
}
