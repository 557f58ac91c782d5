package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
	"github.com/countersign/countersign/internal/workflows"
)

// board is how sessions stand.
type board []workflows.SessionStanding

func (b board) Standing(context.Context, workflows.Thread) ([]workflows.SessionStanding, error) {
	return b, nil
}

// homeOf opens a home and waits for it.
func (w *world) homeOf(user string) slackfake.View {
	w.t.Helper()
	before, had := w.fake.Home(user)
	acked, _ := w.fake.OpenHome(user, "home").Wait()
	require.True(w.t, acked)
	w.until("the home is published", func() bool {
		now, ok := w.fake.Home(user)
		return ok && (!had || now.Updates > before.Updates)
	})
	v, _ := w.fake.Home(user)
	return v
}

// stands makes a session of somebody in a channel.
func (w *world) stands(by, channel, title, parent string) workflows.Thread {
	t := w.sessionIn(channel, w.fake.Quiet(by, channel, "", bot+" "+title))
	w.sessions.mu.Lock()
	defer w.sessions.mu.Unlock()
	last := len(w.sessions.rows) - 1
	row := w.sessions.rows[last]
	row.Title, row.By, row.Parent = title, workflows.Actor{ID: by, Name: by}, parent
	w.sessions.rows = slices.Insert(w.sessions.rows[:last], 0, row) // newest first
	return t
}

const private = "C0PRIVATE1"

// TestHomeShowsWhatAPersonMaySee: own sessions as a tree, requests in channels
// that they are in, nothing of others beside.
func TestHomeShowsWhatAPersonMaySee(t *testing.T) {
	t.Parallel()
	w := start(t, setup{before: func(w *world) {
		w.fake.AddChannel(slackfake.Channel{ID: private, Private: true, Members: []string{slackfake.BotUser, ada}})
	}})
	mine := w.stands(ada, general, "mine & only <mine>", "")
	copied := w.stands(grace, general, "a copy by grace", mine.WorkflowID())
	w.stands(grace, general, "grace's own", "")
	hidden := w.stands(ada, private, "not for grace", "")
	w.app.dep.Board = board{
		{WorkflowID: hidden.WorkflowID(), Liveness: workflows.LivenessWaiting, Waiting: 1},
		{WorkflowID: copied.WorkflowID(), Liveness: workflows.LivenessPaused},
	}
	w.asks(hidden, "rm -rf secret", []string{"*"})

	v := w.homeOf(ada)
	text := blockText(v.Blocks)
	require.Contains(t, text, "mine &amp; only &lt;mine&gt;")
	require.Contains(t, text, "↳ *<https://fake.slack.com/archives/"+general+"/p")
	require.Contains(t, text, "a copy by grace")
	require.NotContains(t, text, "grace's own")
	require.Contains(t, text, "No request waits for your decision.", "one's own requests wait for others")
	require.Contains(t, string(v.Blocks), jsonText(mine.WorkflowID()), "buttons carry the workflow ID")

	text = blockText(w.homeOf(grace).Blocks)
	require.Contains(t, text, "grace's own")
	require.NotContains(t, text, "secret", "a request of a channel that she is not in")
	require.NotContains(t, text, "not for grace")
	require.NotContains(t, text, "mine")
}

func jsonText(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		return s
	}
	return string(data[1 : len(data)-1])
}

// asks makes a session wait for a decision.
func (w *world) asks(t workflows.Thread, command string, approvers []string) string {
	w.t.Helper()
	var id string
	w.approval(t, func(v *workflows.MessageView) {
		v.Key = "approval-" + t.ID // the stand-in knows views by their key only
		id = "x.a" + t.ID
		v.Approval.ID, v.Approval.Command.Text, v.Approval.Approvers = id, command, approvers
	})
	w.sessions.mu.Lock()
	defer w.sessions.mu.Unlock()
	st := w.sessions.state[t.WorkflowID()]
	st.Approvals, st.Header.Liveness = []string{id}, workflows.LivenessWaiting
	w.sessions.state[t.WorkflowID()] = st
	for i := range w.sessions.rows {
		if w.sessions.rows[i].WorkflowID == t.WorkflowID() {
			w.sessions.rows[i].Liveness = workflows.LivenessWaiting
		}
	}
	return id
}

// TestHomeDecides: a request is reviewed and denied from the home; a session is
// stopped from it; the outcome is said in a modal.
func TestHomeDecides(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.stands(ada, general, "a task", "")
	id := w.asks(s, "rm -rf build", []string{grace})
	v := w.homeOf(grace)
	require.Contains(t, blockText(v.Blocks), "rm -rf build")
	_, err := w.fake.PressHome(grace, workflows.ButtonReview, jsonText(s.WorkflowID()))
	require.NoError(t, err)
	w.until("the review is filled", func() bool {
		views := w.fake.Views(grace)
		return len(views) == 1 && views[0].Submit == "Approve once"
	})
	_, err = w.fake.Submit(w.fake.Views(grace)[0].ID, nil)
	require.NoError(t, err)
	d := one[workflows.Decision](w, "Decide")
	require.Equal(t, id, d.ApprovalID)
	require.Equal(t, grace, d.By.ID)
	require.Equal(t, "sha256:1", d.Digest)

	w.homeOf(ada)
	_, err = w.fake.PressHome(ada, "stop", jsonText(s.WorkflowID()))
	require.NoError(t, err)
	stop := one[workflows.CancelTurn](w, "CancelTurn")
	require.Equal(t, ada, stop.By.ID)
	require.Equal(t, s.WorkflowID(), w.sessions.Asked("CancelTurn")[0].ID)
	w.until("the outcome is said", func() bool {
		views := w.fake.Views(ada)
		return len(views) == 1 && views[0].Updates == 1
	})
	require.Empty(t, w.fake.Ephemerals(ada))
}

// TestHomeIsPaced: however often it is opened, it is published now and once more
// when its time has come.
func TestHomeIsPaced(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	w.homeOf(ada)
	for range 20 {
		acked, _ := w.fake.OpenHome(ada, "home").Wait()
		require.True(t, acked)
	}
	_, attempts := w.fake.OpenHome(ada, "messages").Wait()
	require.Equal(t, 1, attempts)
	require.Len(t, w.fake.Calls("views.publish"), 1)

	var h homes
	now := time.Now()
	require.Zero(t, h.book(ada, now))
	require.Equal(t, homeEvery-time.Second, h.book(ada, now.Add(time.Second)))
	require.Less(t, h.book(ada, now.Add(2*time.Second)), time.Duration(0), "one is coming")
	require.Zero(t, h.book(ada, now.Add(2*homeEvery)))
	require.Zero(t, h.book(grace, now))
	require.True(t, h.open(ada, now))
	require.False(t, h.open("somebody", now))
}

// TestHomeIsBounded: as many sessions and requests as there may be fit into
// Slack's limits, which the fake enforces, and what is left out is said.
func TestHomeIsBounded(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	for i := range 60 {
		s := w.stands(ada, general, fmt.Sprintf("session %d %s", i, longWords(300)), "")
		if i < 20 {
			w.asks(s, longWords(5000), []string{grace})
		}
	}
	text := blockText(w.homeOf(ada).Blocks)
	require.Contains(t, text, "And 35 older ones")
	text = blockText(w.homeOf(grace).Blocks)
	require.Contains(t, text, "rm rm rm")
}

func longWords(n int) string {
	out := make([]byte, 0, n+3)
	for len(out) < n {
		out = append(out, "rm "...)
	}
	return string(out)
}

// TestHomeWithoutSlacksHelp: what cannot be looked up is not shown, and that is
// said.
func TestHomeWithoutSlacksHelp(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	w.stands(ada, general, "a task", "")
	w.fake.Fail("users.conversations", slackfake.Failure{Code: "internal_error", Times: 3})
	text := blockText(w.homeOf(ada).Blocks)
	require.Contains(t, text, "could not be looked up")
	require.NotContains(t, text, "a task")
}
