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

// Here is a moment of the platform's clock by this machine's: how long ago a click was
// is counted by that.
func (c *Clock) Here(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(-c.Ahead())
}

// Ahead is by how much the platform's clock is ahead of this machine's; 0 where that
// does not count.
func (c *Clock) Ahead() time.Duration { return time.Duration(c.ahead.Load()) }

// Near reports whether a moment of the platform's clock is not further away from now
// than d.
func (c *Clock) Near(t time.Time, d time.Duration) bool { return c.Now().Sub(t).Abs() <= d }

// Check says whether this machine's clock is right, as far as the platform's tells.
func (c *Clock) Check(platform string) Check {
	const most = 2 * time.Minute
	ahead := c.Ahead()
	if ahead.Abs() <= most {
		return Check{Name: "clock", State: CheckOK, Text: "This machine's clock agrees with " + platform + "'s."}
	}
	word := "behind"
	if ahead < 0 {
		word = "ahead of"
	}
	return Check{
		Name: "clock", State: CheckWarning, Text: "This machine's clock is " + Duration(ahead.Abs().Round(time.Second)) + " " + word + " " + platform + "'s.",
		Fix: "Let it be set by NTP: times on cards and in the record are this machine's and the server's.",
	}
}

// When is what the platform's clock said at a moment of this process, or earlier:
// since then this machine's clock may have been set, and the machine may have slept,
// for which its other clock stands still. The zero time stays zero.
func (c *Clock) When(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return c.Now().Add(-max(time.Since(t), time.Now().Round(0).Sub(t.Round(0))))
}
