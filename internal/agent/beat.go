package agent

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// heartbeatEvery is how often a running call reports that it lives and what it
	// says: often enough that the worker's throttle, not this, decides how soon a
	// stop arrives.
	heartbeatEvery = 400 * time.Millisecond

	// tellKeep is how much of what the model says is kept to show its end, and
	// tellBytes and tellLines what is shown of it.
	tellKeep  = 4 << 10 // 4 KiB
	tellBytes = 1 << 10 // 1 KiB
	tellLines = 10
)

// beat reports that the activity lives, what the model says, and how many
// requests went unanswered; that count it carries over to the next attempt.
type beat struct {
	ctx  context.Context
	mask *mask.Masker
	done chan struct{}
	wg   sync.WaitGroup

	mu            sync.Mutex
	now           workflows.ModelProgress
	thought, text tail
	// quiet: what is said now is not for the card.
	quiet bool
}

func startBeat(ctx context.Context, m *mask.Masker) *beat {
	b := &beat{ctx: ctx, mask: m, done: make(chan struct{})}
	if activity.HasHeartbeatDetails(ctx) {
		_ = activity.GetHeartbeatDetails(ctx, &b.now) // unreadable: count from 0
	}
	b.now.Thought, b.now.Text = "", ""
	b.wg.Go(func() {
		t := time.NewTicker(heartbeatEvery)
		defer t.Stop()
		for {
			select {
			case <-b.done:
				return
			case <-t.C:
				b.record(0)
			}
		}
	})
	return b
}

func (b *beat) stop() {
	close(b.done)
	b.wg.Wait()
}

// record adds n to the unanswered requests and reports.
func (b *beat) record(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now.Unsure += n
	b.now.Thought, b.now.Text = b.thought.shown(b.mask), b.text.shown(b.mask)
	activity.RecordHeartbeat(b.ctx, b.now)
}

// sent notes a request; what an earlier one said is void.
func (b *beat) sent() {
	b.mu.Lock()
	b.thought, b.text = nil, nil
	b.mu.Unlock()
	b.record(1)
}

func (b *beat) answered() { b.record(-1) }

// thinks and says take in a piece of the reasoning summary and of the answer.
func (b *beat) thinks(piece string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.quiet {
		b.thought.add(piece)
	}
}

func (b *beat) says(piece string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.quiet {
		b.text.add(piece)
	}
}

// silence keeps what the model says from the card.
func (b *beat) silence(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.quiet = on
}

// detached notes a response that goes on without its reader; "" is none.
func (b *beat) detached(id string) {
	b.mu.Lock()
	b.now.Response = id
	b.mu.Unlock()
	b.record(0)
}

// ended passes on how a response ended. One that failed is not fetched again; a
// whole one is, when what was made of it is lost.
func (b *beat) ended(err error) error {
	if err != nil {
		b.detached("")
	}
	return err
}

func (b *beat) response() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now.Response
}

func (b *beat) unsure() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now.Unsure
}

// tail is the end of a text that grows.
type tail []byte

func (t *tail) add(piece string) {
	*t = append(*t, piece...)
	if over := len(*t) - 2*tellKeep; over > 0 {
		*t = append((*t)[:0], (*t)[len(*t)-tellKeep:]...)
	}
}

// shown is the last lines, masked before they are cut, so that half a secret does
// not pass for none. A line that was begun before is left out, unless it is all
// there is.
func (t tail) shown(m *mask.Masker) string {
	text := strings.TrimRight(m.Text(clean(string(t))), "\n ")
	lines := strings.Split(text, "\n")
	text = strings.Join(lines[max(0, len(lines)-tellLines):], "\n")
	if len(text) <= tellBytes {
		return text
	}
	text = clean(text[len(text)-tellBytes:])
	if _, rest, ok := strings.Cut(text, "\n"); ok {
		return rest
	}
	_, rest, _ := strings.Cut(text, " ")
	return "…" + rest
}
