package slack

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
	"github.com/countersign/countersign/internal/workflows"
)

// TestStorm writes messages both ways while connections and API fail at random:
// each message of a person reaches its session, and each of ours stands in the
// thread once.
func TestStorm(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{
				fake:   slackfake.Options{NoTiers: true, AckWithin: 200 * time.Millisecond, RetryAfter: []time.Duration{0, 200 * time.Millisecond}, PingEvery: 100 * time.Millisecond},
				config: func(c *Config) { c.Silence, c.Backfill, c.Pace = 600*time.Millisecond, time.Hour, time.Millisecond },
			})
			w.storm(w.session(), rand.New(rand.NewPCG(seed, 1)))
		})
	}
}

func (w *world) storm(s workflows.Thread, r *rand.Rand) {
	w.t.Helper()
	f, written, posted := w.fake, map[string]bool{}, 0
	connection := []func(){
		f.Freeze, f.Refresh, f.Hold, f.Release, func() { f.DropAcks(1 + r.IntN(3)) }, func() { f.Duplicate(r.IntN(2) == 0) },
	}
	failures := []slackfake.Failure{{Status: 502}, {Status: 500, After: true}, {RetryAfter: 1}, {Code: "internal_error"}}
	for range 35 {
		switch r.IntN(6) {
		case 0, 1:
			ts, _ := f.Say(ada, general, s.ID, fmt.Sprint("message ", len(written)))
			written[ts] = true
		case 2:
			connection[r.IntN(len(connection))]()
		case 3:
			f.Fail("conversations.replies", failures[r.IntN(len(failures))])
		case 4:
			f.Fail("chat.postMessage", failures[r.IntN(len(failures))])
		case 5:
			w.posts(answerOf(s, fmt.Sprint("notice ", posted)), posted)
			posted++
		}
		time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
	}
	f.Duplicate(false)
	f.Release()
	f.Freeze() // what was given up comes with the back-fill
	given := func() map[string]bool {
		out := map[string]bool{}
		for _, c := range w.sessions.Asked("SendMessage") {
			out[c.Arg.(workflows.Message).ID] = true
		}
		return out
	}
	require.Eventually(w.t, func() bool { return len(given()) >= len(written) }, 3*time.Minute, 20*time.Millisecond, "some messages did not come")
	require.Equal(w.t, written, given())
	require.Len(w.t, w.read(s), posted)
}

// posts posts as an activity does: until it is done, looking each time whether it
// already was.
func (w *world) posts(c chat.Content, n int) {
	w.t.Helper()
	c.View.Key = fmt.Sprint("answer-", n)
	since := time.Now().Add(-time.Second)
	w.until("a message is posted", func() bool {
		found, err := w.app.Poster().Find(w.t.Context(), c.Thread, c.View.Key, since)
		if err == nil && len(found) > 0 {
			return true
		}
		if err == nil {
			_, err = w.app.Poster().Post(w.t.Context(), c)
		}
		var limited *chat.RateLimitedError
		if errors.As(err, &limited) {
			time.Sleep(min(limited.RetryAfter, time.Second))
		}
		return err == nil
	})
}
