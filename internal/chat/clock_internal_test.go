package chat

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A platform's clock is its own, whatever this machine's says; what was a moment ago
// is never later than it was.
func TestClock(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{0, time.Hour, -time.Hour} {
		var c Clock
		c.Heed(http.Header{"Date": {time.Now().Add(off).UTC().Format(http.TimeFormat)}})
		require.WithinDuration(t, time.Now().Add(off), c.Now(), noticeable+time.Minute)
		c.Heed(http.Header{"Date": {"yesterday"}})
		require.WithinDuration(t, time.Now().Add(off), c.Now(), noticeable+time.Minute)

		require.WithinDuration(t, time.Now(), c.Here(time.Now().Add(off)), noticeable+time.Minute)
		require.True(t, c.Near(time.Now().Add(off-3*time.Minute), 5*time.Minute))
		require.False(t, c.Near(time.Now().Add(off-7*time.Minute), 5*time.Minute))
		require.Equal(t, off == 0, c.Check("Slack").State == CheckOK)

		moment := time.Now().Add(-10 * time.Minute)
		require.WithinDuration(t, time.Now().Add(off-10*time.Minute), c.When(moment), noticeable+time.Minute)
		require.True(t, c.When(time.Time{}).IsZero())
	}
	// Without its monotonic part a time stands for one that was read before the clock
	// was set: forwards, so that it seems to be longer ago, or backwards.
	var c Clock
	require.WithinDuration(t, time.Now().Add(-time.Hour), c.When(time.Now().Round(0).Add(-time.Hour)), time.Minute)
}
