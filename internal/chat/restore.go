package chat

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/workflows"
)

// Dated is what a [Poster] is too whose references say when a message was posted.
type Dated interface {
	// PostedAt is when the message of a reference was posted; the zero time where
	// that is not known.
	PostedAt(ref string) time.Time
}

// Restore posts the cards of requests that wait and that somebody has deleted: a
// person, or a moderator's tool, may take away any message, and without its card
// nobody can decide.
type Restore struct {
	Poster   Poster
	Sessions Queries
	Views    Views
	// Mask takes secrets out of what is posted; nil knows their shapes only.
	Mask *mask.Masker
}

// Cards looks for the cards of a thread's requests and posts those that are gone. It
// returns how many. The session finds them by their keys when it edits them next.
func (r Restore) Cards(ctx context.Context, t workflows.Thread) (posted int, err error) {
	id := t.WorkflowID()
	st, err := r.Sessions.TurnState(ctx, id)
	if errors.Is(err, workflows.ErrNoSession) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("asking which requests wait: %w", err)
	}
	since := st.StartedAt
	if st.Turn != nil { // a turn's requests are younger than it
		since = st.Turn.StartedAt
	}
	for _, approval := range st.Approvals {
		key := workflows.ApprovalKey(approval)
		found, err := r.Poster.Find(ctx, t, key, since)
		if err != nil {
			return posted, fmt.Errorf("looking for message %s: %w", key, err)
		}
		if len(found) > 0 {
			continue
		}
		v, err := r.Views.Message(ctx, id, key)
		if err != nil {
			return posted, fmt.Errorf("reading message %s: %w", key, err)
		}
		if v.Approval == nil || v.Approval.State != workflows.ApprovalPending {
			continue // decided meanwhile: the session's own edit shows it
		}
		if _, err := r.Poster.Post(ctx, masked(r.Mask, Content{WorkflowID: id, Thread: t, View: v, Again: true})); err != nil {
			return posted, fmt.Errorf("posting message %s again: %w", key, err)
		}
		posted++
	}
	return posted, nil
}
