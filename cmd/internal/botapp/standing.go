package botapp

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/countersign/countersign/internal/telemetry"
)

const (
	// loudAfter is how long a chat service must be away to be an ERROR: connections are
	// renewed every few hours, and some seconds are nobody's concern.
	loudAfter = time.Minute
	// sayAgain is the time between two lines that it still is.
	sayAgain = 10 * time.Minute
)

// standing is how a chat service stands with this bot. It is told often and says what
// changes.
type standing struct {
	name string
	log  *slog.Logger

	mu sync.Mutex
	// since is since when its events do not arrive; zero while they do, and before the
	// first failure.
	since time.Time
	// loud: that was an ERROR. said is when there was a line about it last.
	loud bool
	said time.Time
	// refused is why it refuses the bot, if it does; told, what was said of that.
	refused, told error
}

// reach is what an adapter tells; it says itself that it has lost a connection.
func (s *standing) reach(err error) {
	if err == nil {
		s.back()
		return
	}
	s.lost(slog.LevelDebug, err)
}

// lost takes note that the service is away, or still is, and will be tried again. That
// is said at a level at first, as an ERROR when it has lasted, then seldom.
func (s *standing) lost(level slog.Level, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.refused, s.told = nil, nil
	text := s.name + " does not answer; it is tried again until it does"
	switch {
	case s.since.IsZero():
		s.since, s.said = now, now
	case !s.loud && now.Sub(s.since) >= loudAfter:
		level, text = slog.LevelError, s.name+" is away: nothing is received from it. It is tried again until it is back, and what was missed is read then"
		s.loud, s.said = true, now
	case now.Sub(s.said) >= sayAgain:
		level, text = slog.LevelWarn, s.name+" is still away"
		s.said = now
	default:
		level = slog.LevelDebug
	}
	s.log.Log(context.Background(), level, text, "since", s.since.UTC().Format(time.RFC3339), telemetry.KeyError, err)
}

// refuse takes note that the service refuses the bot, which does not pass by itself.
func (s *standing) refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = err
	if s.since.IsZero() {
		s.since = time.Now()
	}
}

// sayRefused says so: as an ERROR at first, then seldom.
func (s *standing) sayRefused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	level, text := slog.LevelDebug, s.name+" still refuses this bot"
	switch {
	case s.told == nil || s.told.Error() != s.refused.Error():
		level, text = slog.LevelError, s.name+" refuses this bot and is not served until that is mended; other chat services are. "+
			"It is asked again every few minutes, but another token takes another start of the bot; “bot doctor” says whether it is mended"
		s.loud, s.said, s.told = true, now, s.refused
	case now.Sub(s.said) >= sayAgain:
		level, s.said = slog.LevelWarn, now
	}
	s.log.Log(context.Background(), level, text, "since", s.since.UTC().Format(time.RFC3339), telemetry.KeyError, s.refused)
}

// back takes note that the service's events arrive.
func (s *standing) back() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.since.IsZero() {
		level := slog.LevelInfo
		if !s.loud && time.Since(s.since) < retryFirst {
			level = slog.LevelDebug // a connection was renewed
		}
		s.log.Log(context.Background(), level, s.name+" is back", "away", time.Since(s.since).Round(time.Millisecond).String())
	}
	s.loud, s.since, s.said, s.refused, s.told = false, time.Time{}, time.Time{}, nil, nil
}

// away is since when nothing arrives from the service; zero where that is no loss.
func (s *standing) away() time.Time { s.mu.Lock(); defer s.mu.Unlock(); return s.since }

// refusal is why the service refuses the bot; nil if it does not.
func (s *standing) refusal() error { s.mu.Lock(); defer s.mu.Unlock(); return s.refused }
