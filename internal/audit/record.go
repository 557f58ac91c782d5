package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrConflict says that another entry stands under the number.
var ErrConflict = errors.New("is there already, with other content")

// Store is what the record needs of the blob store.
type Store interface {
	// PutNew writes a blob, or fails when the key is taken.
	PutNew(ctx context.Context, key string, data []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
}

// Record writes entries, each as a blob of its own. Writing the same entry again
// is no error; another one under its number is.
func Record(ctx context.Context, s Store, entries []Entry) error {
	for _, e := range entries {
		data, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("encoding audit entry %d: %w", e.Seq, err)
		}
		key := Key(e.WorkflowID, e.Seq)
		if err = s.PutNew(ctx, key, data); err == nil {
			continue
		}
		have, gerr := s.Get(ctx, key)
		if gerr != nil {
			return fmt.Errorf("writing audit entry %d: %w", e.Seq, err)
		}
		if !bytes.Equal(have, data) {
			return fmt.Errorf("audit entry %d of %s: %w", e.Seq, e.WorkflowID, ErrConflict)
		}
	}
	return nil
}

// Problem is what a verification found wrong.
type Problem struct {
	Seq  int    `json:"seq"`
	What string `json:"what"`
}

// Report is the result of a verification.
type Report struct {
	WorkflowID string    `json:"workflow_id"`
	Head       Chain     `json:"head"`
	Entries    int       `json:"entries"`
	Problems   []Problem `json:"problems"`
}

// OK reports whether the record is whole.
func (r Report) OK() bool { return len(r.Problems) == 0 }

// Verify reads a session's entries from the first to the head and reports each
// that is missing, changed, or not linked to the one before it.
func Verify(ctx context.Context, s Store, workflowID string, head Chain) Report {
	r := Report{WorkflowID: workflowID, Head: head, Problems: []Problem{}}
	found := func(seq int, what string) { r.Problems = append(r.Problems, Problem{seq, what}) }
	prev := ""
	for seq := 1; seq <= head.Seq; seq++ {
		data, err := s.Get(ctx, Key(workflowID, seq))
		if err != nil {
			found(seq, "missing: "+err.Error())
			prev = ""
			continue
		}
		var e Entry
		switch err := json.Unmarshal(data, &e); {
		case err != nil:
			found(seq, "unreadable: "+err.Error())
		case e.Seq != seq || e.WorkflowID != workflowID:
			found(seq, "is another entry")
		case e.Sum() != e.Hash:
			found(seq, "changed: its hash is not that of its content")
		case prev != "" && e.Prev != prev, seq == 1 && e.Prev != "":
			found(seq, "not linked to the entry before it")
		default:
			r.Entries++
		}
		prev = e.Hash
	}
	if head.Seq > 0 && prev != head.Hash {
		found(head.Seq, "the last entry is not the one that the session's state names")
	}
	return r
}
