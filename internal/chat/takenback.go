package chat

import (
	"context"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/workflows"
)

// maxRepeated is how much of a deleted message is repeated, in characters.
const maxRepeated = 200

// Given is what a message gave a session to do, as its deletion repeats it; false for
// a command, which gave it nothing.
func Given(ev Event) (string, bool) {
	text := "its files"
	if strings.TrimSpace(ev.Text) != "" {
		c, err := Parse(ev.Text, KnownBackends())
		if err != nil || c.Verb != VerbRun {
			return "", false
		}
		text = c.Task
	}
	// Backticks would be commands to the offline model.
	return strings.ReplaceAll(Cut(Shown(text), maxRepeated), "`", "'"), true
}

// TakenBack tells a session that works, or is about to, that a message to it was
// deleted; the event's text is what [Given] says of it. To a session that is at rest
// the message was answered: a turn about its deletion would help nobody.
// The error is an [*Error].
func (r *Router) TakenBack(ctx context.Context, was Event) error {
	st, err := r.Sessions.TurnState(ctx, was.Thread.WorkflowID())
	if err == nil && st.Turn == nil && st.Queued == 0 {
		return nil
	}
	_, err = r.Message(ctx, Event{
		ID: was.ID, EditedAt: workflows.DeletedAt, Thread: was.Thread, By: was.By, At: time.Now(),
		Text: "(This message was deleted by its writer or a moderator; it counts no more: “" + was.Text + "”)",
	})
	return err
}
