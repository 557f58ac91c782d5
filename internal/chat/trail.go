package chat

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"github.com/countersign/countersign/internal/audit"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// maxTrail bounds the entries that are read of one turn.
	maxTrail = 4000
	// trailBatch is how many are read at once.
	trailBatch = 32
)

// record reads what is on record about a turn. The card says where it begins, and,
// once the turn has ended, where it ends; what is not written yet the session has.
func (r *Router) record(ctx context.Context, t workflows.Thread, turn int, at workflows.Trail) ([]audit.Entry, *workflows.TurnView, error) {
	id := t.WorkflowID()
	if at.Last > 0 {
		if entries, whole := r.entries(ctx, id, turn, at.First, at.Last); whole {
			return entries, nil, nil
		}
	}
	now, asked := r.Sessions.TurnTrail(ctx, id, turn)
	if now.Running != nil && now.Running.Trail.First > 0 {
		at.First = now.Running.Trail.First
	}
	last := now.Head - len(now.Unwritten)
	if asked != nil {
		last = at.First + maxTrail - 1
	}
	if at.First <= 0 {
		if asked != nil {
			return nil, nil, failure(asked)
		}
		return nil, now.Running, nil
	}
	entries, _ := r.entries(ctx, id, turn, at.First, last)
	for _, e := range now.Unwritten {
		if e.Seq >= at.First && (at.Last == 0 || e.Seq <= at.Last) {
			entries = append(entries, e)
		}
	}
	if asked != nil && len(entries) == 0 {
		return nil, nil, failure(asked)
	}
	return entries, now.Running, nil
}

// entries reads a row of entries as far as it is there and belongs to the turn;
// whole says that all of it was.
func (r *Router) entries(ctx context.Context, id string, turn, first, last int) (out []audit.Entry, whole bool) {
	last = min(last, first+maxTrail-1)
	for from := first; from <= last; from += trailBatch {
		batch := make([]*audit.Entry, min(trailBatch, last-from+1))
		var wg sync.WaitGroup
		for i := range batch {
			wg.Go(func() {
				data, err := r.Blobs.Get(ctx, audit.Key(id, from+i))
				var e audit.Entry
				if err == nil && json.Unmarshal(data, &e) == nil && e.WorkflowID == id {
					batch[i] = &e
				}
			})
		}
		wg.Wait()
		for _, e := range batch {
			if e == nil || e.ToolCall != "" && turnOf(e.ToolCall) != turn {
				return out, false
			}
			out = append(out, *e)
		}
	}
	return out, true
}

// turnOf and callOf read the numbers in a tool call's ID: its turn's, and its own
// in the turn. They are 0 where it has none.
func turnOf(call string) int {
	turn, _ := numbers(call)
	return turn
}

// CallTurn is the number of the turn that a tool call belongs to; 0 where its ID names
// none.
func CallTurn(call string) int { return turnOf(call) }

func callOf(call string) int {
	_, n := numbers(call)
	return n
}

func numbers(call string) (turn, n int) {
	p := strings.Split(call, ".")
	if len(p) < 3 {
		return 0, 0
	}
	turn, terr := strconv.Atoi(p[len(p)-2])
	n, nerr := strconv.Atoi(p[len(p)-1])
	if terr != nil || nerr != nil {
		return 0, 0
	}
	return turn, n
}
