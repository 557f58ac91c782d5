package botapp_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
	"github.com/countersign/countersign/internal/workflows"
)

// TestSlackSession is a session from the command to the answer, over a real
// Temporal server: its request waits in the App Home of who may decide, is approved
// from there through another bot than the one that posted it, and is gone from the
// home then. A session that is called into a thread says that it has read it.
func TestSlackSession(t *testing.T) {
	t.Parallel()
	w := startPaced(t)
	channel := quietChannel(0)
	w.command(channel, `run --title "Clean up" rm -rf build`)
	w.message(channel, "the request", func(m slackfake.Message) bool { return m.HasAction(workflows.ButtonApprove) })

	w.stop()
	w.bot(t)
	w.until("another bot is connected", func() bool { return w.fake.Connections() == 2 })
	w.home(grace, "the request is in her home", func(blocks string) bool { return strings.Contains(blocks, "rm -rf build") })
	w.home(ada, "the session is in her home", func(blocks string) bool {
		return strings.Contains(blocks, "Clean up") && !strings.Contains(blocks, "rm -rf build")
	})
	answer, err := w.fake.PressHome(grace, workflows.ButtonReview, "agent/slack")
	require.NoError(t, err)
	require.True(t, answer.Acked)
	w.until("the review is filled", func() bool {
		views := w.fake.Views(grace)
		return len(views) == 1 && views[0].Submit == "Approve once"
	})
	_, err = w.fake.Submit(w.fake.Views(grace)[0].ID, nil)
	require.NoError(t, err)
	w.message(channel, "the answer", func(m slackfake.Message) bool { return strings.Contains(m.Text, "Done.") })
	w.message(channel, "the card says who", func(m slackfake.Message) bool { return strings.Contains(string(m.Blocks), "Approved by") })
	root := w.message(channel, "the root is the header", func(m slackfake.Message) bool {
		return (m.ThreadTS == "" || m.ThreadTS == m.TS) && strings.Contains(string(m.Blocks), "Clean up") && m.HasAction("menu")
	})
	require.Equal(t, slackfake.BotUser, root.User)
	w.home(grace, "nothing waits any more", func(blocks string) bool { return strings.Contains(blocks, "No request waits") })

	talk := w.fake.Quiet(grace, quietChannel(1), "", "is the build directory in the way?")
	w.fake.Say(ada, quietChannel(1), talk, "<@"+slackfake.BotUser+"> rm -rf build")
	w.message(quietChannel(1), "it says what it read", func(m slackfake.Message) bool {
		return m.ThreadTS == talk && strings.Contains(m.Text, "The message before the mention in this thread was read")
	})
	require.Empty(t, w.fake.Complaints())
}

// message is the newest message of the bot in a channel that is what we look for.
func (w *paced) message(channel, what string, is func(slackfake.Message) bool) slackfake.Message {
	w.t.Helper()
	var found slackfake.Message
	w.until(what, func() bool {
		for _, m := range w.fake.Messages(channel) {
			if m.User == slackfake.BotUser && is(m) {
				found = m
			}
		}
		return found.TS != ""
	})
	return found
}

// home opens somebody's home again and again, as people do, until it is what we
// look for.
func (w *paced) home(user, what string, is func(blocks string) bool) {
	w.t.Helper()
	w.until(what, func() bool {
		w.fake.OpenHome(user, "home")
		v, ok := w.fake.Home(user)
		return ok && is(string(v.Blocks))
	})
}
