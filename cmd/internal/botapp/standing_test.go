package botapp

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAnOutageIsSaidSeldom: of a chat service that is away for an hour the log has one
// ERROR, when a minute has passed, and few lines more; of one that is back at once none
// but that it is.
func TestAnOutageIsSaidSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &standing{name: "Slack", log: slog.New(slog.NewTextHandler(&log, nil))}
		count := func(level string) int { return strings.Count(log.String(), "level="+level) }
		s.back()
		require.Empty(t, log.String())

		s.lost(slog.LevelWarn, errors.New("reset"))
		time.Sleep(2 * time.Second)
		s.back()
		require.Equal(t, []int{1, 1, 0}, []int{count("WARN"), count("INFO"), count("ERROR")})
		log.Reset()

		began := time.Now()
		for time.Since(began) < time.Hour {
			s.lost(slog.LevelWarn, errors.New("502"))
			time.Sleep(30 * time.Second)
			if time.Since(began) == time.Minute {
				require.Zero(t, count("ERROR"))
			}
		}
		require.Equal(t, began, s.away())
		s.back()
		require.Equal(t, 1, count("ERROR"))
		require.Equal(t, 1, count("INFO"))
		require.LessOrEqual(t, count("WARN"), 6)
		require.Contains(t, log.String(), "away=1h0m0s")
		require.True(t, s.away().IsZero())
	})
}

// TestARefusalIsSaidOnce: one ERROR for each reason, however often it is asked.
func TestARefusalIsSaidOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &standing{name: "Slack", log: slog.New(slog.NewTextHandler(&log, nil))}
		count := func(level string) int { return strings.Count(log.String(), "level="+level) }
		for n := range 12 {
			s.refuse(errors.New("revoked"))
			s.sayRefused()
			require.Equal(t, 1, count("ERROR"), n)
			time.Sleep(5 * time.Minute)
		}
		require.LessOrEqual(t, count("WARN"), 6)
		require.EqualError(t, s.refusal(), "revoked")
		s.refuse(errors.New("inactive"))
		s.sayRefused()
		require.Equal(t, 2, count("ERROR"))
		s.back()
		require.NoError(t, s.refusal())
		s.refuse(errors.New("inactive"))
		s.sayRefused()
		require.Equal(t, 3, count("ERROR"), "it was served in between")
	})
}
