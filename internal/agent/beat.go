package agent

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
)

// progress is the heartbeat detail of a model call.
type progress struct {
	// Unsure counts requests that were sent and never answered, in this attempt
	// and those before it: each may have been billed.
	Unsure int `json:"unsure"`
}

// beat reports once a second that the activity lives. It carries the count of
// unanswered requests over to the next attempt.
type beat struct {
	ctx  context.Context
	done chan struct{}
	wg   sync.WaitGroup

	mu  sync.Mutex
	now progress
}

func startBeat(ctx context.Context) *beat {
	b := &beat{ctx: ctx, done: make(chan struct{})}
	if activity.HasHeartbeatDetails(ctx) {
		_ = activity.GetHeartbeatDetails(ctx, &b.now) // unreadable: count from 0
	}
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
	activity.RecordHeartbeat(b.ctx, b.now)
}

func (b *beat) sent()     { b.record(1) }
func (b *beat) answered() { b.record(-1) }

func (b *beat) unsure() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now.Unsure
}
