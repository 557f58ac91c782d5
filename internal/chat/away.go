package chat

import (
	"math/rand/v2"
	"time"
)

// Reach is told how an adapter stands with its platform, as often as that may have
// changed: nil when the platform's events arrive, else why they do not. Nil is told
// nothing.
type Reach func(err error)

// Tell tells r.
func (r Reach) Tell(err error) {
	if r != nil {
		r(err)
	}
}

// Backoff is the pause before the next try of something that failed: it doubles from
// First to Most, and a part of it is chance, so that many who failed together do not
// come again together.
type Backoff struct {
	First, Most time.Duration
	next        time.Duration
}

// Next is the next pause, between three quarters and all of what is due.
func (b *Backoff) Next() time.Duration {
	d := min(max(b.next, b.First), b.Most)
	b.next = 2 * d
	return d - rand.N(d/4+1)
}

// Reset begins anew with First.
func (b *Backoff) Reset() { b.next = 0 }

// Missed is since when messages may have been missed, by this process's clock: for so
// long before it began to be away, or before now where it was not. The zero time
// means that none are looked for.
func Missed(away time.Time, back time.Duration) time.Time {
	switch {
	case !away.IsZero():
		return away.Add(-max(back, 0))
	case back > 0:
		return time.Now().Add(-back)
	}
	return time.Time{}
}
