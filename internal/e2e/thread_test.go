package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// byKey returns the message with a key; it has no ID where there is none.
func (th thread) byKey(key string) message {
	for _, m := range th.Messages {
		if m.Key == key {
			return m
		}
	}
	return message{}
}

func (th thread) turn(n int) message   { return th.byKey(fmt.Sprintf("turn-%d", n)) }
func (th thread) answer(n int) message { return th.byKey(fmt.Sprintf("answer-%d", n)) }

// all returns the messages of a kind, in order.
func (th thread) all(kind string) []message {
	var found []message
	for _, m := range th.Messages {
		if m.Kind == kind {
			found = append(found, m)
		}
	}
	return found
}

// pending returns the requests that wait.
func (th thread) pending() []message {
	var found []message
	for _, m := range th.all("approval") {
		if m.Approval.State == "pending" {
			found = append(found, m)
		}
	}
	return found
}

// said reports whether a notice holds the text.
func (th thread) said(text string) bool {
	for _, m := range th.all("notice") {
		if strings.Contains(m.Text, text) {
			return true
		}
	}
	return false
}

// calls returns the tool calls of a turn.
func (th thread) calls(turn int) []call { return th.turn(turn).ToolCalls }

// call is one of a turn's calls; nothing is known of one that is not there yet.
func (th thread) call(turn, i int) call {
	if calls := th.calls(turn); i < len(calls) {
		return calls[i]
	}
	return call{}
}

// answered: a turn has its answer, and its card is over.
func answered(turn int) func(thread) bool {
	return func(th thread) bool { return th.answer(turn).ID != "" && over(turn)(th) }
}

// over: a turn's card says that it has ended. Messages of a thread are brought
// up to date one by one, so what stands in one says nothing of another.
func over(turn int) func(thread) bool {
	return func(th thread) bool {
		m := th.turn(turn)
		if strings.HasPrefix(m.Text, "Done") && th.answer(turn).ID == "" {
			return false // its answer follows the card
		}
		return m.ID != "" && !m.has("stop")
	}
}

func (m message) has(id string) bool {
	for _, b := range m.Buttons {
		if b.ID == id {
			return true
		}
	}
	return false
}

// waiting: a request waits.
func waiting(th thread) bool { return len(th.pending()) > 0 }

// decided: the session's first request ended so, and has no buttons any more.
func decided(state string) func(thread) bool {
	return func(th thread) bool {
		m := th.all("approval")[0]
		return m.Approval.State == state && len(m.Buttons) == 0
	}
}

// closed: a turn has its answer, and a request of it is not asked any more.
func closed(request message, turn int) func(thread) bool {
	return func(th thread) bool { return answered(turn)(th) && len(th.byKey(request.Key).Buttons) == 0 }
}

// running: the turn's only call runs.
func running(turn int) func(thread) bool {
	return func(th thread) bool {
		calls := th.calls(turn)
		return len(calls) > 0 && calls[len(calls)-1].State == "running"
	}
}

// ran requires that a call has ended by itself with exit code 0.
func ran(t testing.TB, c call) {
	t.Helper()
	require.Equal(t, "completed", c.State, "%+v", c)
	require.NotNil(t, c.ExitCode, "%+v", c)
	require.Equal(t, 0, *c.ExitCode, "%+v", c)
}

// workspace is where a session's workspace is on this machine. The header that
// says so lags behind.
func (th thread) workspace(t testing.TB) string {
	t.Helper()
	if th.WorkspacePath != "" {
		return th.WorkspacePath
	}
	return th.reader.sees(t, th.ID, "the workspace is known", func(th thread) bool { return th.WorkspacePath != "" }).WorkspacePath
}

// inWorkspace reads a file of the session's workspace; "" where there is none.
func (th thread) inWorkspace(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(th.workspace(t), name))
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return string(data)
}

// untilGo is a command that goes on when the test lets it go.
const untilGo = "until [ -e go ]; do sleep 0.1; done"

// letGo lets a session's command go on that waits with [untilGo].
func (th thread) letGo(t testing.TB) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(th.workspace(t), "go"), nil, 0o644))
}

// does gives a command in a session's next turn, approves what is asked, and
// returns the call when the turn has ended.
func (c *client) does(t testing.TB, id string, turn int, command string) call {
	t.Helper()
	c.says(t, id, "``"+command+"``")
	return c.approves(t, id, turn)
}

// approves approves what a turn asks until its answer is there and returns its
// last call. What takes others' votes gets grace's and linus's.
func (c *client) approves(t testing.TB, id string, turn int) call {
	t.Helper()
	for range 10 {
		th := c.sees(t, id, fmt.Sprintf("turn %d asks or ends", turn), func(th thread) bool { return waiting(th) || answered(turn)(th) })
		if answered(turn)(th) {
			calls := th.calls(turn)
			require.NotEmpty(t, calls)
			return calls[len(calls)-1]
		}
		m := th.pending()[0]
		people := []*client{c}
		if m.Approval.Tier == "critical" {
			people = []*client{c.dev.as("grace"), c.dev.as("linus")}
		}
		for _, p := range people {
			p.approve(t, m)
		}
		c.sees(t, id, "the request is decided", func(th thread) bool { return th.byKey(m.Key).Approval.State != "pending" })
	}
	require.FailNow(t, "the turn goes on asking")
	return call{}
}

// approve clicks the button, or, where the card does not show all of the
// command, approves from its review.
func (c *client) approve(t testing.TB, m message) {
	t.Helper()
	values := map[string]any{}
	if !m.has("approve") {
		values["digest"] = c.click(t, m, "review", nil).Digest
	}
	require.Equal(t, "recorded", c.click(t, m, "approve", values).Outcome)
}

func contains(s, part string) bool { return strings.Contains(s, part) }
