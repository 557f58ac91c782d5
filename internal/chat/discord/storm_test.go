package discord

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/chat/chattest/discordfake"
	"github.com/countersign/countersign/internal/workflows"
)

// TestStorm writes messages both ways while connection and API fail at random:
// each message of a person reaches its session, and each of ours stands in the
// thread once.
func TestStorm(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{
				fake:   discordfake.Options{Heartbeat: 400 * time.Millisecond},
				config: func(c *Config) { c.Silence, c.OpenWithin = 1200*time.Millisecond, 3*time.Second },
			})
			s := w.session()
			w.storm(s, rand.New(rand.NewPCG(seed, 1)))
		})
	}
}

func (w *world) storm(s workflows.Thread, r *rand.Rand) {
	w.t.Helper()
	g, written, posted := w.fake.Gateway(), map[string]bool{}, 0
	connection := []func(){
		g.Cut, g.Reconnect, g.Freeze, g.Hold, g.Release,
		func() { g.CloseWith(4000) },
		func() { g.Lose(); g.Forget(); g.Cut() },
		func() { g.Invalidate(false) },
		func() { g.NextDrops(1) },
		func() { g.NextInvalid(1) },
		func() { g.NextCloses(1, 4000) },
		func() { g.RefuseResume(false) },
		func() { g.Duplicate(r.IntN(2) == 0) },
	}
	failures := []discordfake.Failure{
		{Cut: true}, {Cut: true, After: true}, {Status: 502}, {Status: 500, After: true}, {RetryAfter: 100 * time.Millisecond, Scope: "shared"},
	}
	for range 35 {
		switch r.IntN(6) {
		case 0, 1:
			written[w.fake.Say(ada, s.ID, fmt.Sprint("message ", len(written)))] = true
		case 2:
			connection[r.IntN(len(connection))]()
		case 3:
			w.fake.Fail("GET /channels/{channel}/messages", failures[r.IntN(len(failures))])
		case 4:
			w.fake.Fail(postRoute, failures[r.IntN(len(failures))])
		case 5:
			w.posts(note(s, fmt.Sprint("notice-", posted), fmt.Sprint("notice ", posted)))
			posted++
		}
		time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
	}
	// What is held when the storm ends comes, or is lost with its session.
	g.Duplicate(false)
	g.Release()
	g.Cut()
	w.until("a connection", g.Ready)
	written[w.fake.Say(ada, s.ID, "the last one")] = true
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

// posts posts as an activity does: until it is done.
func (w *world) posts(c chat.Content) {
	w.t.Helper()
	w.until("a message is posted", func() bool {
		_, err := w.app.Poster().Post(w.t.Context(), c)
		var limited *chat.RateLimitedError
		if errors.As(err, &limited) {
			time.Sleep(min(limited.RetryAfter, time.Second))
		}
		return err == nil
	})
}

// TestStormOfCommands gives commands while connection and API fail at random: none
// is carried out twice, and of each that was carried out the person is told.
func TestStormOfCommands(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{config: func(c *Config) { c.Silence, c.OpenWithin = 1200*time.Millisecond, 3*time.Second }, fake: discordfake.Options{Heartbeat: 400 * time.Millisecond}})
			r, g := rand.New(rand.NewPCG(seed, 2)), w.fake.Gateway()
			failures := []discordfake.Failure{
				{Cut: true}, {Cut: true, After: true}, {Status: 502}, {Status: 500, After: true}, {RetryAfter: 100 * time.Millisecond, Scope: "shared"},
				{Delay: 200 * time.Millisecond}, {Delay: 3500 * time.Millisecond},
			}
			routes := []string{callbackRoute, originalRoute, "POST /webhooks/{app}/{token}", postRoute}
			connection := []func(){g.Cut, g.Reconnect, func() { g.CloseWith(4000) }, func() { g.Duplicate(r.IntN(2) == 0) }, func() { g.Invalidate(false) }}
			for i := range 20 {
				switch r.IntN(4) {
				case 0:
					connection[r.IntN(len(connection))]()
				case 1:
					w.fake.Fail(routes[r.IntN(len(routes))], failures[r.IntN(len(failures))])
				default:
					_, err := w.fake.Slash(ada, general, "agent run", map[string]any{"task": fmt.Sprint("task ", i)})
					require.NoError(t, err)
				}
				time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
			}
			for _, i := range w.fake.Interactions() {
				answered := i.Answer().Kind != 0
				done := func() bool {
					return slices.ContainsFunc(w.sessions.Asked("RequestSession"), func(c chattest.Call) bool {
						return c.Arg.(workflows.SessionRequest).ID == i.ID
					})
				}
				if answered {
					w.until("what was answered is done", done)
				}
				if done() {
					require.Contains(t, w.shown(i, general), "Accepted")
				}
			}
			seen := map[string]int{}
			for _, c := range w.sessions.Asked("RequestSession") {
				seen[c.Arg.(workflows.SessionRequest).ID]++
			}
			for id, n := range seen {
				require.Equal(t, 1, n, "interaction %s", id)
			}
		})
	}
}
