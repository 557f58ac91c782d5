package workflows

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"
)

// maxQueued bounds the messages that wait in a session's state, in bytes, and those
// that one stash holds: more of them wait in the blob store.
const maxQueued = 256 << 10

// Stash are messages that wait in the blob store.
type Stash struct {
	Ref   string `json:"ref"`
	Count int    `json:"count"`
	// Bytes is about what they take in an input.
	Bytes int `json:"bytes"`
}

// StashInput stores messages that wait.
type StashInput struct {
	WorkflowID string    `json:"workflow_id"`
	Messages   []Message `json:"messages"`
}

// UnstashInput reads messages that were stored.
type UnstashInput struct {
	Ref string `json:"ref"`
}

// RecordSeenInput adds identities, in order, to those in the blob store.
type RecordSeenInput struct {
	WorkflowID string   `json:"workflow_id"`
	Older      string   `json:"older,omitempty"`
	IDs        []string `json:"ids"`
}

// FindSeenInput asks which of some identities are in the blob store.
type FindSeenInput struct {
	Older string   `json:"older"`
	IDs   []string `json:"ids"`
}

// waiting is how many messages wait for the model.
func (s *session) waiting() int {
	n := len(s.st.Queue)
	for _, stash := range s.st.Stashed {
		n += stash.Count
	}
	return n
}

func (s *session) queueSize() int {
	size := 0
	for i := range s.st.Queue {
		size += s.st.Queue[i].size()
	}
	return size
}

// untidy reports that something is to be moved to the blob store or looked up there.
func (s *session) untidy() bool {
	return len(s.st.Doubtful) > 0 || len(s.st.Seen.IDs) > maxSeen || s.queueSize() > maxQueued
}

// tidy keeps small what the session carries.
func (s *session) tidy(ctx workflow.Context) {
	for {
		_ = workflow.Await(ctx, func() bool { return s.draining || s.untidy() && !s.tidying })
		if s.draining || ctx.Err() != nil {
			return
		}
		s.calls++
		err := s.tidyOnce(ctx)
		s.calls--
		if err != nil {
			workflow.GetLogger(ctx).Error("Session could not be kept small", "error", err)
			return
		}
	}
}

// tidyOnce does the first thing that is to be done. While it does, nobody takes
// messages from the queue.
func (s *session) tidyOnce(ctx workflow.Context) error {
	s.tidying = true
	defer func() { s.tidying = false }()
	switch {
	case len(s.st.Doubtful) > 0:
		return s.settleDoubts(ctx)
	case len(s.st.Seen.IDs) > maxSeen:
		return s.storeSeen(ctx)
	}
	return s.stash(ctx)
}

// settleDoubts takes those of the doubtful messages that were never taken.
func (s *session) settleDoubts(ctx workflow.Context) error {
	n := min(len(s.st.Doubtful), maxDoubts)
	in := FindSeenInput{Older: s.st.Seen.Older}
	for _, m := range s.st.Doubtful[:n] {
		in.IDs = append(in.IDs, m.identity())
	}
	var seen []string
	if err := workflow.ExecuteActivity(recordOptions(ctx), ActivityFindSeen, in).Get(ctx, &seen); err != nil {
		return fmt.Errorf("looking for messages among those taken: %w", err)
	}
	doubtful := slices.Clone(s.st.Doubtful[:n])
	s.st.Doubtful = slices.Delete(s.st.Doubtful, 0, n)
	for _, m := range doubtful {
		if !slices.Contains(seen, m.identity()) {
			s.admit(ctx, m)
		}
	}
	return nil
}

func (s *session) storeSeen(ctx workflow.Context) error {
	ids := s.st.Seen.oldest()
	var older string
	err := workflow.ExecuteActivity(recordOptions(ctx), ActivityRecordSeen, RecordSeenInput{
		WorkflowID: s.id, Older: s.st.Seen.Older, IDs: ids,
	}).Get(ctx, &older)
	if err != nil {
		return fmt.Errorf("storing which messages were taken: %w", err)
	}
	s.st.Seen.stored(older, ids)
	return nil
}

// stash moves the first of the waiting messages behind those in the blob store.
func (s *session) stash(ctx workflow.Context) error {
	n, size := 0, 0
	for n < len(s.st.Queue) && (n == 0 || size+s.st.Queue[n].size() <= maxQueued/2) {
		size += s.st.Queue[n].size()
		n++
	}
	if n == 0 {
		return nil
	}
	var ref string
	err := workflow.ExecuteActivity(recordOptions(ctx), ActivityStashMessages, StashInput{
		WorkflowID: s.id, Messages: slices.Clone(s.st.Queue[:n]),
	}).Get(ctx, &ref)
	if err != nil {
		return fmt.Errorf("storing messages that wait: %w", err)
	}
	s.st.Stashed = append(s.st.Stashed, Stash{Ref: ref, Count: n, Bytes: size})
	s.st.Queue = slices.Delete(s.st.Queue, 0, n)
	return nil
}

// unstash reads as many of the messages in the blob store as fit beside taken bytes
// into a model call, in the order in which they were written.
func (s *session) unstash(ctx workflow.Context, taken int) []Message {
	var all []Message
	for len(s.st.Stashed) > 0 {
		next, before := s.st.Stashed[0], taken
		if taken += next.Bytes; taken > maxTaken && before > 0 {
			break
		}
		var messages []Message
		err := workflow.ExecuteActivity(recordOptions(ctx), ActivityUnstashMessages, UnstashInput{Ref: next.Ref}).Get(ctx, &messages)
		if err != nil {
			s.notice("Of the messages that waited, " + itoa(next.Count) + " could not be read any more: " + sentenceOf(err) + " Send them again.")
		}
		all = append(all, messages...)
		s.unstashed = all
		s.st.Stashed = slices.Delete(s.st.Stashed, 0, 1)
	}
	byTime(all)
	return all
}
