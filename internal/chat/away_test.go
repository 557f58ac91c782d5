package chat

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBackoff(t *testing.T) {
	t.Parallel()
	b := Backoff{First: time.Second, Most: time.Minute}
	sums := map[time.Duration]bool{}
	for range 20 {
		var sum time.Duration
		for _, due := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			d := b.Next()
			require.LessOrEqual(t, d, due*time.Second)
			require.GreaterOrEqual(t, d, due*time.Second*3/4)
			sum += d
		}
		sums[sum] = true
		b.Reset()
	}
	require.Greater(t, len(sums), 1, "chance has no part in it")
}

func TestMissed(t *testing.T) {
	t.Parallel()
	away := time.Now().Add(-8 * time.Hour)
	require.Equal(t, away.Add(-time.Hour), Missed(away, time.Hour))
	require.Equal(t, away, Missed(away, 0), "what the gap hid is read, whatever is read after a start")
	require.Equal(t, away, Missed(away, -time.Hour))
	require.WithinDuration(t, time.Now().Add(-time.Hour), Missed(time.Time{}, time.Hour), time.Minute)
	require.True(t, Missed(time.Time{}, 0).IsZero())
	require.True(t, Missed(time.Time{}, -time.Second).IsZero())
}
