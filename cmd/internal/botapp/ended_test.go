package botapp_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat/chattest/discordfake"
	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/workflows"
)

// TestEndedFromOutside: of sessions whose workflow was terminated while a request waits,
// or while a command runs, the header says so, the request has no buttons, and the
// turn's card does not go on. Each message is edited once for that, nothing is posted,
// and it outlives the bot: Slack takes no edit before another one is there.
func TestEndedFromOutside(t *testing.T) {
	t.Parallel()
	w := newPaced(t)
	other := newDiscord(t)
	stop := w.bot(t, other.settings()...)
	w.until("the bot is connected", func() bool {
		return w.fake.Connections() == 2 && len(other.Commands("")) > 0 && other.Gateway().Ready()
	})
	waits, runs := quietChannel(0), quietChannel(1)
	w.command(waits, `run --title "Waits" rm -rf build`)
	w.command(runs, `run --title "Runs" tail -f log`)
	_, err := other.Slash(discordfake.Ada, discordfake.General, "agent run", map[string]any{"task": "rm -rf build", "title": "Waits too"})
	require.NoError(t, err)

	card := w.message(waits, "the request", func(m slackfake.Message) bool { return m.HasAction(workflows.ButtonApprove) })
	running := w.message(runs, "the command runs", func(m slackfake.Message) bool { return strings.Contains(string(m.Blocks), "line ") })
	thread := other.waiting(w)
	slack := func(m slackfake.Message) string {
		return workflows.Thread{Platform: workflows.PlatformSlack, Team: slackfake.Team, Channel: m.Channel, ID: m.ThreadTS}.WorkflowID()
	}
	onDiscord := workflows.Thread{Platform: workflows.PlatformDiscord, Team: discordfake.Guild, ID: thread}.WorkflowID()
	w.still(slack(card))
	w.still(onDiscord)

	w.fake.Fail("chat.update", slackfake.Failure{RetryAfter: 1, Times: 1 << 30})
	for _, id := range []string{slack(card), slack(running), onDiscord} {
		require.NoError(t, w.env.Client.TerminateWorkflow(t.Context(), id, "", "by hand"))
	}
	ends := &endings{sessions: control.New(w.env.Client, nil)}
	w.until("all are found", func() bool { ends.look(t); return len(ends.found) == 3 })
	before := [][]string{shownOnSlack(w, card), shownOnSlack(w, running)}
	refused := len(w.fake.Refused("429"))
	w.until("Slack was asked to take it", func() bool { return len(w.fake.Refused("429")) > refused })
	stop()
	w.bot(t, other.settings()...)
	require.Equal(t, before, [][]string{shownOnSlack(w, card), shownOnSlack(w, running)})
	asked := len(w.fake.Calls("chat.update"))
	w.fake.Recover("chat.update")
	w.fake.Fail("chat.update", slackfake.Failure{Status: 502, After: true}) // its answer is lost

	w.until("the threads say so", func() bool {
		m, _ := w.fake.Message(waits, card.TS)
		r, _ := w.fake.Message(runs, running.TS)
		return !m.HasAction(workflows.ButtonApprove) && !r.HasAction(workflows.ButtonStop)
	})
	for _, id := range ends.found {
		w.ended(id)
	}
	w.slackSaysEnded(card, []string{"Nobody had decided when the session was ended from outside at", "not run"})
	w.slackSaysEnded(running, []string{"tail -f log", "outcome unknown"})
	other.saysEnded(w, thread)

	require.LessOrEqual(t, len(w.fake.Calls("chat.update"))-asked, 3+2+1, "header, turn and request, header and turn, and the one whose answer was lost")
	edits, posts := len(w.fake.Calls("chat.update")), len(w.fake.Calls("chat.postMessage"))
	again := &endings{sessions: ends.sessions}
	again.look(t)
	require.Len(t, again.found, 3)
	for _, id := range again.found {
		w.ended(id)
	}
	require.Len(t, w.fake.Calls("chat.update"), edits, "it was seen to")
	require.Len(t, w.fake.Calls("chat.postMessage"), posts)
	require.Empty(t, w.fake.Complaints())
	require.Empty(t, other.Complaints())
}

// endings are sessions that were ended from outside, as a worker looks for them.
type endings struct {
	sessions *control.Client
	found    []string
	looks    *control.CutShort
}

func (e *endings) look(t *testing.T) {
	t.Helper()
	if e.looks == nil {
		e.looks = &control.CutShort{Client: e.sessions}
	}
	require.NoError(t, e.looks.Look(t.Context(), func(ctx context.Context, id string) error {
		if !slices.Contains(e.found, id) {
			e.found = append(e.found, id)
		}
		return e.sessions.ShowEnded(ctx, id)
	}))
}

// ended waits until a session's thread was brought up to date.
func (w *paced) ended(id string) {
	w.t.Helper()
	d, err := w.env.Client.DescribeWorkflowExecution(w.t.Context(), id, "")
	require.NoError(w.t, err)
	run := w.env.Client.GetWorkflow(w.t.Context(), workflows.EndedID(id, d.WorkflowExecutionInfo.Execution.RunId), "")
	require.NoError(w.t, run.Get(w.t.Context(), nil))
}

// shownOnSlack is what the thread of a message shows.
func shownOnSlack(w *paced, m slackfake.Message) []string {
	var texts []string
	for _, m := range w.fake.Thread(m.Channel, m.ThreadTS) {
		texts = append(texts, string(m.Blocks))
	}
	return texts
}

// slackSaysEnded holds the thread of a message against what it must say.
func (w *paced) slackSaysEnded(m slackfake.Message, parts []string) {
	w.t.Helper()
	thread := w.fake.Thread(m.Channel, m.ThreadTS)
	for key, n := range keys(thread) {
		require.Equal(w.t, 1, n, key)
	}
	all := ""
	for _, m := range thread {
		text := string(m.Blocks)
		all += text
		switch key := keyOf(m); {
		case m.TS == m.ThreadTS || m.ThreadTS == "":
			require.Contains(w.t, text, "■ destroyed")
			require.Contains(w.t, text, "Ended from outside: its workflow was terminated in Temporal.")
			require.Contains(w.t, text, "new --from agent/slack/")
		case strings.HasPrefix(key, "turn-"):
			require.Contains(w.t, text, "Could not go on: the session was ended from outside.")
			require.NotContains(w.t, text, "Working")
			require.False(w.t, m.HasAction(workflows.ButtonStop))
			require.True(w.t, m.HasAction(workflows.ButtonDetails))
		case strings.HasPrefix(key, "approval-"):
			for _, button := range []string{workflows.ButtonApprove, workflows.ButtonDeny, workflows.ButtonGrant} {
				require.False(w.t, m.HasAction(button), button)
			}
		}
	}
	for _, part := range parts {
		require.Contains(w.t, all, part)
	}
}

// waiting is the thread of the session whose request waits.
func (d onDiscord) waiting(w *paced) (thread string) {
	w.t.Helper()
	w.until("the request is on Discord", func() bool {
		for _, c := range d.Threads(discordfake.General) {
			for _, m := range d.Messages(c.ID) {
				if _, ok := m.Button("Approve once"); ok {
					thread = c.ID
				}
			}
		}
		return thread != ""
	})
	return thread
}

func (d onDiscord) saysEnded(w *paced, thread string) {
	w.t.Helper()
	root, ok := d.Message(discordfake.General, thread)
	require.True(w.t, ok)
	require.Contains(w.t, root.Content, "■ destroyed")
	require.Contains(w.t, root.Content, "Ended from outside: its workflow was terminated in Temporal.")
	require.Empty(w.t, root.Buttons())
	require.Empty(w.t, root.Menus())
	said := 0
	for _, m := range d.Messages(thread) {
		_, approve := m.Button("Approve once")
		_, halt := m.Button("Stop")
		require.False(w.t, approve || halt, m.Content)
		require.NotContains(w.t, m.Content, "Working")
		for _, part := range []string{"Could not go on: the session was ended from outside.", "Nobody had decided when the session was ended from outside at"} {
			said += strings.Count(m.Content, part)
		}
	}
	require.Equal(w.t, 2, said)
}
