package workerapp

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
)

const (
	// moveEvery is how often a process notes that it moves, and stillFor how long it
	// has not when it counts as having stood still: less than any heartbeat time-out.
	moveEvery = 500 * time.Millisecond
	stillFor  = 3 * time.Second
	// doubtFor is how long after a standstill tasks may still come that were handed
	// to this process before or during it: longer than a poll waits.
	doubtFor = 2 * time.Minute
	// doubtEvery is the pause before the server is asked again that did not answer.
	doubtEvery = 500 * time.Millisecond
)

// stillness notices when this process stood still, as a stopped process and a paused
// machine do. What it was given before may have been given up meanwhile, by the server
// and by people, and must not begin now.
type stillness struct {
	// ask asks the server about an activity's attempt.
	ask func(ctx context.Context, details ...any) error

	mu    sync.Mutex
	moved time.Time // when it last noted that it moves; zero while nobody watches
	ended time.Time // when the last standstill was over; zero before any
}

// watch notes that the process moves until ctx ends.
func (s *stillness) watch(ctx context.Context) {
	s.mu.Lock()
	s.moved = time.Now()
	s.mu.Unlock()
	t := time.NewTicker(moveEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.lately()
		}
	}
}

// lately reports whether the process stood still a short while ago.
func (s *stillness) lately() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.moved.IsZero() {
		return false
	}
	now := time.Now()
	if passed(s.moved, now) > stillFor {
		s.ended = now
	}
	s.moved = now
	return !s.ended.IsZero() && now.Sub(s.ended) < doubtFor
}

// passed is how long ago a moment of this process was. A machine that slept had its
// monotonic clock stopped; where its wall clock was set forwards it seems longer.
func passed(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

// awaited returns nil where the server still waits for the activity's attempt. It asks
// only after a standstill; where it is not answered, it asks again.
func (s *stillness) awaited(ctx context.Context, details ...any) error {
	if !s.lately() {
		return nil
	}
	for {
		err := s.ask(ctx, details...)
		var gone *serviceerror.NotFound
		var away *serviceerror.Unavailable
		var late *serviceerror.DeadlineExceeded
		switch {
		case errors.As(err, &gone):
			return errGivenUp
		case !errors.As(err, &away) && !errors.As(err, &late):
			return nil // also one that is to be cancelled: its context ends
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(doubtEvery):
		}
	}
}

// heartbeat asks by a heartbeat that waits for its answer: NotFound is that of an
// attempt which the server has given up.
func heartbeat(ctx context.Context, details ...any) error {
	if !activity.IsActivity(ctx) {
		return nil
	}
	return activity.GetClient(ctx).RecordActivityHeartbeat(ctx, activity.GetInfo(ctx).TaskToken, details...)
}

var errGivenUp = errors.New("the server has given this attempt up while the process stood still")
