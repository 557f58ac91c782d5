package chat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
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
	Log  *slog.Logger
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
		c := masked(r.Mask, Content{WorkflowID: id, Thread: t, View: v, Again: true})
		err = written(r.Log, c, func(c Content) error {
			_, err := r.Poster.Post(ctx, c)
			return err
		})
		if err != nil {
			return posted, fmt.Errorf("posting message %s again: %w", key, err)
		}
		posted++
	}
	return posted, nil
}

// Rerun runs a look for each key one at a time. Who asks while one is under way has it
// done once more after that, because it may have passed by already what is asked
// about now. The zero value is ready.
type Rerun struct {
	mu sync.Mutex
	// asked has the keys whose look is under way, and whether another was asked for.
	asked map[string]bool
}

// Do looks, or has who is looking look again.
func (r *Rerun) Do(key string, look func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, running := r.asked[key]; running {
		r.asked[key] = true
		return
	}
	if r.asked == nil {
		r.asked = map[string]bool{}
	}
	defer delete(r.asked, key)
	for again := true; again; again = r.asked[key] {
		r.asked[key] = false
		r.mu.Unlock()
		look()
		r.mu.Lock()
	}
}
