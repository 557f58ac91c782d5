package chat

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// How a back-fill that was not complete is repeated.
const (
	fillPause     = time.Second
	fillPauseMost = time.Minute
	fillFor       = time.Hour
)

// Backfill keeps track of what an adapter reads after it could not listen: one
// reading runs at a time, and one that failed is repeated, because platforms do
// not tell of these messages again. Whatever was taken before is recognised by its
// identity, so reading twice does no harm. The zero value wants nothing. It is
// safe for concurrent use.
type Backfill struct {
	mu      sync.Mutex
	running bool
	wanted  time.Time
}

// Want asks for what was written since then. It reports whether the caller has to
// call [Backfill.Run]; else that is running, and does it next.
func (b *Backfill) Want(since time.Time) (run bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.wanted.IsZero() || since.Before(b.wanted) {
		b.wanted = since
	}
	run = !b.running
	b.running = true
	return run
}

// Idle reports that nothing is read and nothing is wanted.
func (b *Backfill) Idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.running
}

// next takes what is wanted; without anything, or at the end of ctx, nothing runs
// any more.
func (b *Backfill) next(ctx context.Context) (since time.Time, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	since, b.wanted = b.wanted, time.Time{}
	b.running = !since.IsZero() && ctx.Err() == nil
	return since, b.running
}

// Run reads until nothing is wanted or ctx ends. A reading that fails is repeated
// after a second, then ever more slowly, up to a minute; what failed for an hour is
// given up, and is the error.
func (b *Backfill) Run(ctx context.Context, read func(ctx context.Context, since time.Time) error) error {
	var failed time.Time
	var given error
	pause := fillPause
	for {
		since, ok := b.next(ctx)
		if !ok {
			return given
		}
		err := caught(func() error { return read(ctx, since) })
		switch {
		case err == nil:
			failed, pause = time.Time{}, fillPause
			continue
		case failed.IsZero():
			failed = time.Now()
		case time.Since(failed) > fillFor:
			given = fmt.Errorf("what was written since %s was not read: %w", since.UTC().Format(time.RFC3339), err)
			failed, pause = time.Time{}, fillPause
			continue
		}
		b.Want(since)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		pause = min(2*pause, fillPauseMost)
	}
}
