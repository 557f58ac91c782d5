package discordfake

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bucket is how many calls a route takes in a time, for each channel, guild or
// webhook.
type Bucket struct {
	Limit int
	In    time.Duration
}

// buckets are limits that were seen; Discord publishes none and says that they
// change (Rate Limits). Routes that are not listed have loose ones.
func buckets() map[string]Bucket {
	five := Bucket{5, 5 * time.Second}
	return map[string]Bucket{
		"POST /channels/{channel}/messages":                   five,
		"PATCH /channels/{channel}/messages/{message}":        five,
		"POST /channels/{channel}/messages/{message}/threads": {50, 5 * time.Minute},
		"PATCH /channels/{channel}":                           five,
		"POST /webhooks/{app}/{token}":                        {5, 2 * time.Second},
		"PATCH /webhooks/{app}/{token}/messages/{message}":    {5, 2 * time.Second},
	}
}

// globalLimit is a bot's for all routes (Rate Limits, Global Rate Limit).
const globalLimit = 50

type window struct {
	started time.Time
	used    int
}

// take uses one call of a window; it answers how many are left and when it ends,
// and whether there was one.
func (w *window) take(now time.Time, b Bucket) (left int, reset time.Time, ok bool) {
	if now.Sub(w.started) >= b.In {
		w.started, w.used = now, 0
	}
	reset = w.started.Add(b.In)
	if w.used >= b.Limit {
		return 0, reset, false
	}
	w.used++
	return b.Limit - w.used, reset, true
}

func (s *Server) window(key string) *window {
	w := s.windows[key]
	if w == nil {
		w = &window{}
		s.windows[key] = w
	}
	return w
}

// rate counts a call and sets the headers. Interaction endpoints, which take no
// bot token, are not under the global limit.
func (s *Server) rate(h http.Header, pattern, major string, open bool) *refusal {
	if s.opt.NoRates {
		return nil
	}
	now := s.now()
	if !open {
		if _, reset, ok := s.window("global").take(now, Bucket{globalLimit, time.Second}); !ok {
			return limited(reset.Sub(now), "global")
		}
	}
	b, ok := s.opt.Buckets[pattern]
	if !ok {
		b, ok = buckets()[pattern]
	}
	if !ok {
		b = Bucket{50, time.Second}
	}
	left, reset, ok := s.window(pattern+" "+major).take(now, b)
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(pattern)) // a hash never fails
	h.Set("X-RateLimit-Limit", strconv.Itoa(b.Limit))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(left))
	h.Set("X-RateLimit-Reset", fmt.Sprintf("%.3f", float64(reset.UnixMilli())/1000))
	h.Set("X-RateLimit-Reset-After", fmt.Sprintf("%.3f", reset.Sub(now).Seconds()))
	h.Set("X-RateLimit-Bucket", strings.ToLower(strconv.FormatUint(hash.Sum64(), 16)))
	if !ok {
		return limited(reset.Sub(now), "user")
	}
	return nil
}

// banned reports whether the sender made too many invalid requests.
func (s *Server) banned() bool {
	now := s.now()
	s.invalid = slices.DeleteFunc(s.invalid, func(t time.Time) bool { return now.Sub(t) >= 10*time.Minute })
	return len(s.invalid) >= s.opt.InvalidRequests
}
