package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A bot killed at any moment, also between posting and recording, leaves one copy
// of every message, and loses none.
func TestBotKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	d := startDev(t, "--without", "bot")
	var kills atomic.Int32
	stop := d.killBots(t, &kills, 20, 300*time.Millisecond, 2*time.Second)
	const sessions, fewest, wanted = 3, 4, 4
	ada := d.as("ada")
	var ids []string
	for range sessions {
		ids = append(ids, ada.write(t, "/channels/general/messages", "/agent `echo 1 >> log`, then `rm -rf build`").ThreadID)
	}
	for _, id := range ids {
		approveOne(t, ada, id)
	}
	turns := 1
	for turns < fewest || kills.Load() < wanted {
		turns++
		for _, id := range ids {
			ada.sees(t, id, "the answer before", answered(turns-1))
			ada.write(t, "/threads/"+id+"/messages", fmt.Sprintf("`echo %d >> log`", turns))
		}
	}
	for _, id := range ids {
		ada.sees(t, id, "the last answer", answered(turns))
	}
	stop()
	t.Logf("%d kills in %d turns", kills.Load(), turns)
	d.bot(t)
	for _, id := range ids {
		th := ada.sees(t, id, "the last card is over", over(turns))
		once(t, th)
		require.Len(t, th.all("user"), turns, "the person's messages")
		require.Len(t, th.all("turn"), turns)
		require.Len(t, th.all("answer"), turns)
		require.Len(t, th.all("approval"), 1)
		require.Equal(t, seq(turns), th.inWorkspace(t, "log"))
	}
}

// killBots starts a bot and kills and replaces it, each after a random time
// between the bounds, up to n times or until the returned function is called,
// which kills the last one. The kills are counted.
func (d *dev) killBots(t testing.TB, kills *atomic.Int32, n int32, least, most time.Duration) (stop func()) {
	t.Helper()
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			p, err := launch("bot", d.home, d.env, "--data-dir", d.dir)
			if err != nil {
				t.Errorf("starting a bot: %v", err)
				return
			}
			var after <-chan time.Time // never for the last one
			if kills.Load() < n {
				after = time.After(least + rand.N(most-least))
			}
			last := false
			select {
			case <-quit:
				last = true
			case <-after:
			}
			p.kill()
			kills.Add(1)
			if last {
				return
			}
		}
	}()
	var once sync.Once
	stop = func() { once.Do(func() { close(quit); <-ended }) }
	t.Cleanup(stop)
	return stop
}

// approveOne approves a session's only request, however often the bot dies: a
// repeated click is the same click.
func approveOne(t testing.TB, c *client, id string) {
	t.Helper()
	m := c.sees(t, id, "a request", waiting).pending()[0]
	await(t, within, "the click counts", func() (string, bool) {
		status, data, err := c.request(http.MethodPost, "/messages/"+m.ID+"/click", map[string]string{"button": "approve", "client_id": "once"})
		var out clicked
		ok := err == nil && status == http.StatusOK && json.Unmarshal(data, &out) == nil
		return string(data), ok && (out.Outcome == "recorded" || out.Outcome == "already_decided")
	})
}

// event is one server-sent event.
type event struct {
	id int
	message
}

// follow reads events after a number until enough says so.
func (c *client) follow(t testing.TB, after int, enough func([]event) bool) []event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), machines*within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.dev.WebURL+"/api/v1/events?after="+strconv.Itoa(after), nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+c.dev.Token)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Contains(t, resp.Header.Get("Content-Type"), "text/event-stream")
	var events []event
	var next event
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 8<<20)
	for !enough(events) && lines.Scan() {
		line := lines.Text()
		if v, ok := strings.CutPrefix(line, "id: "); ok {
			next.id, err = strconv.Atoi(v)
			require.NoError(t, err)
		}
		if v, ok := strings.CutPrefix(line, "data: "); ok {
			require.NoError(t, json.Unmarshal([]byte(v), &next.message))
			events = append(events, next)
			next = event{}
		}
	}
	require.True(t, enough(events), "the stream ended: %v", lines.Err())
	return events
}

// The event stream tells every change with whole messages, live, and goes on
// after any number.
func TestEventsResume(t *testing.T) {
	t.Parallel()
	d := sharedDev(t)
	ada := d.as("ada")
	var meta struct {
		Last int `json:"last_event"`
	}
	ada.get(t, "/meta", &meta)
	id := ada.opens(t, "``until [ -e go ]; do echo tick; sleep 0.5; done``")
	in := func(events []event, ok func(message) bool) bool {
		for _, e := range events {
			if e.ThreadID == id && ok(e.message) {
				return true
			}
		}
		return false
	}
	live := func(m message) bool {
		return m.Key == "turn-1" && len(m.ToolCalls) == 1 && m.ToolCalls[0].State == "running" && strings.Contains(m.ToolCalls[0].Tail, "tick")
	}
	answer := func(m message) bool { return m.Key == "answer-1" }
	events := ada.follow(t, meta.Last, func(es []event) bool { return in(es, live) })
	require.True(t, in(events, func(m message) bool { return m.Kind == "header" }) || in(events, func(m message) bool { return m.Kind == "user" }))
	ada.thread(t, id).letGo(t)
	events = append(events, ada.follow(t, events[len(events)-1].id, func(es []event) bool { return in(es, answer) })...)
	for i := 1; i < len(events); i++ {
		require.Greater(t, events[i].id, events[i-1].id, "numbers grow")
	}
	ada.sees(t, id, "the card is over", over(1))
	for range 2 {
		middle := events[len(events)/2].id
		again := ada.follow(t, middle, func(es []event) bool { return in(es, answer) })
		require.Greater(t, again[0].id, middle)
		require.True(t, in(again, answer))
	}
	ada.refusal(t, http.StatusBadRequest, http.MethodGet, "/events?after=x", nil)
}
