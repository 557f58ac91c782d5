package botapp_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
	"github.com/countersign/countersign/internal/chat/slack"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// busySessions run at the same time, busyPer in a channel.
	busySessions, busyPer = 100, 5
	// quietChannels have one approval each.
	quietChannels = 3
	// watchedFor is how long all of them are watched; COUNTERSIGN_PACE_FOR, a
	// duration, is in its place.
	watchedFor = 45 * time.Second
	// soon bounds an approval's way into a quiet channel on a machine with much
	// else to do; docs/slack.md has what was measured, and 2 s is what it takes.
	soon = 20 * time.Second
)

// TestSlackPace holds Slack's limits with a hundred running sessions: the bot, the
// workflows, Temporal's queues, and a stand-in for Slack that enforces the limits.
// Next to nothing is refused for its rate, and a request in a channel where no
// other post waits does not wait for the others' posts and edits.
func TestSlackPace(t *testing.T) {
	if testing.Short() {
		t.Skip("a hundred sessions take a minute or two")
	}
	w := startPaced(t)
	began := time.Now()
	for i := range busySessions {
		w.command(busyChannel(i/busyPer), fmt.Sprintf(`run --title "Busy %d" keep on`, i))
	}
	w.until("all of them run", func() bool { return w.agent.running() == busySessions })
	t.Logf("%d sessions run %v after the first was asked for", busySessions, time.Since(began).Round(time.Millisecond))
	watched := watchedFor
	if v := os.Getenv("COUNTERSIGN_PACE_FOR"); v != "" {
		var err error
		watched, err = time.ParseDuration(v)
		require.NoError(t, err)
	}
	from := time.Now()
	for i := range quietChannels {
		w.approval(quietChannel(i))
	}
	w.until("the edits of a while", func() bool { return time.Since(from) > watched })
	require.Equal(t, busySessions, w.agent.running(), "they ran all the time")
	w.limits(from, time.Now())
}

func busyChannel(n int) string  { return fmt.Sprintf("C0BUSY%04d", n) }
func quietChannel(n int) string { return fmt.Sprintf("C0QUIET%03d", n) }

// command gives a command as ada.
func (w *paced) command(channel, text string) {
	w.t.Helper()
	require.True(w.t, w.fake.Command(ada, channel, text).Acked, "acknowledged within 3 s")
}

// approval asks for a risky command in a channel of its own, and follows it from
// the question to the decision on its card.
func (w *paced) approval(channel string) {
	w.t.Helper()
	w.command(channel, "rm -rf build")
	var card slackfake.Message
	w.until("the request is shown", func() bool {
		for _, m := range w.fake.Messages(channel) {
			if m.HasAction(workflows.ButtonApprove) {
				card = m
			}
		}
		return card.TS != ""
	})
	asked, shown := w.asked(channel, card.ThreadTS), at(card.TS)
	w.t.Logf("%s: the request stood there %v after the session had asked for it; meanwhile %d posts and %d edits in all channels",
		channel, shown.Sub(asked).Round(time.Millisecond), between(w.fake.Calls("chat.postMessage"), asked, shown), between(w.fake.Calls("chat.update"), asked, shown))
	require.Less(w.t, shown.Sub(asked), soon)

	clicked := time.Now()
	w.approve(card, "the card says who", func() bool {
		m, _ := w.fake.Message(channel, card.TS)
		return strings.Contains(string(m.Blocks), "Approved by")
	})
	edits := between(w.fake.Calls("chat.update"), clicked, time.Now())
	w.t.Logf("%s: the card said who approved %v after the click, by the %d. edit", channel, time.Since(clicked).Round(time.Millisecond), edits)
	// A hundred cards wait for their next edit; this one went before them.
	require.Less(w.t, edits, busySessions/4)
}

// approve clicks until what we look for is there: once, and as a person does again,
// when told that a click was not confirmed.
func (w *paced) approve(card slackfake.Message, what string, is func() bool) {
	w.t.Helper()
	told := -1
	w.until(what, func() bool {
		if is() {
			return true
		}
		m, _ := w.fake.Message(card.Channel, card.TS)
		if n := len(w.fake.Ephemerals(grace)); n != told && m.HasAction(workflows.ButtonApprove) {
			answer, err := w.fake.Press(grace, card.Channel, card.TS, workflows.ButtonApprove)
			told = n
			require.NoError(w.t, err)
			require.True(w.t, answer.Acked)
		}
		return false
	})
}

// limits holds what was called against what Slack allows.
func (w *paced) limits(from, to time.Time) {
	w.t.Helper()
	edits, posts, refused := w.fake.Calls("chat.update"), w.fake.Calls("chat.postMessage"), w.fake.Refused("429")
	perMinute := float64(between(edits, from, to)) / to.Sub(from).Minutes()
	methods := map[string]int{}
	for _, c := range w.fake.Calls("") {
		methods[c.Method]++
	}
	w.t.Logf("429: %d; edits: %d, at most %d in any minute, %.1f a minute over the last %v; posts: %d, at most %d in 10 s in one channel; calls: %v",
		len(refused), len(edits), most(edits, time.Minute), perMinute, to.Sub(from).Round(time.Second),
		len(posts), mostInAChannel(posts), methods)
	require.LessOrEqual(w.t, len(refused), 2, "%v", refused)
	require.LessOrEqual(w.t, most(edits, time.Minute), 50)
	require.LessOrEqual(w.t, mostInAChannel(posts), 13)
	require.Greater(w.t, perMinute, slack.EditsPerMinute/2, "the cards move on")
	require.Empty(w.t, w.fake.Complaints())
}

// at reads a message's timestamp.
func at(ts string) time.Time {
	var sec, micro int64
	if _, err := fmt.Sscanf(ts, "%d.%d", &sec, &micro); err != nil {
		return time.Time{}
	}
	return time.Unix(sec, micro*1000)
}

// between counts calls.
func between(calls []slackfake.Call, from, to time.Time) int {
	n := 0
	for _, c := range calls {
		if !c.At.Before(from) && !c.At.After(to) {
			n++
		}
	}
	return n
}

// most is the largest number of calls within any span.
func most(calls []slackfake.Call, span time.Duration) int {
	best, from := 0, 0
	for i, c := range calls {
		for c.At.Sub(calls[from].At) >= span {
			from++
		}
		best = max(best, i-from+1)
	}
	return best
}

// mostInAChannel is the largest number of posts in one channel within 10 s.
func mostInAChannel(posts []slackfake.Call) int {
	channels := map[string][]slackfake.Call{}
	for _, c := range posts {
		channel := c.Args.Get("channel")
		channels[channel] = append(channels[channel], c)
	}
	best := 0
	for _, calls := range channels {
		best = max(best, most(slices.Clone(calls), 10*time.Second))
	}
	return best
}
