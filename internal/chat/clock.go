package chat

import (
	"net/http"
	"sync/atomic"
	"time"
)

// noticeable is the least difference between two clocks that counts: an answer's
// Date has whole seconds, and the answer takes time.
const noticeable = 3 * time.Second

// Clock is a platform's clock, as far as its answers tell. Messages carry its time,
// and this machine's may be another: what was written since a moment is asked for
// by the platform's. The zero value is this machine's clock.
type Clock struct {
	ahead atomic.Int64
}

// Heed reads the clock in an answer.
func (c *Clock) Heed(h http.Header) {
	at, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return
	}
	ahead := time.Until(at)
	if ahead.Abs() < noticeable {
		ahead = 0
	}
	c.ahead.Store(int64(ahead))
}

// Now is the platform's time.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// When is what the platform's clock said at a moment of this process, or earlier:
// since then this machine's clock may have been set, and the machine may have slept,
// for which its other clock stands still. The zero time stays zero.
func (c *Clock) When(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return c.Now().Add(-max(time.Since(t), time.Now().Round(0).Sub(t.Round(0))))
}
