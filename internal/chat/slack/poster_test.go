package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"pgregory.net/rapid"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
	"github.com/countersign/countersign/internal/workflows"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	chattest.Conform(t, func(t *testing.T) chattest.Platform {
		w := start(t, setup{still: true, before: func(w *world) {
			w.fake.AddGroup(slackfake.Group{ID: "S0ONCALL01", Handle: "platform-oncall", Users: []string{grace}})
		}})
		root := w.fake.Quiet(ada, general, "", bot+" hello")
		return chattest.Platform{
			Live:   func() chattest.Live { return w.receive(root) },
			Poster: w.app.Poster(), Thread: w.app.thread(general, root), New: w.app.thread(general, ""),
			Lose: func() { w.fake.Fail("chat.postMessage", slackfake.Failure{After: true, Status: 502}) },
			Read: func(_ *testing.T, thread workflows.Thread) []chattest.Shown { return w.read(thread) },
		}
	})
}

// receive runs the adapter, before a session in the thread of a root.
func (w *world) receive(root string) chattest.Live {
	thread := w.sessionIn(general, root)
	w.run()
	return chattest.Live{
		Sessions: w.sessions.Sessions,
		Is:       func(st workflows.TurnState) { w.sessions.set(thread, st) },
		Say: func(text string) string {
			ts, ds := w.fake.Say(ada, general, root, text)
			settled(w, ds...)
			return ts
		},
		Remove: []func(string){func(ref string) { settled(w, w.fake.Remove(general, ref)) }},
		Approve: func(t *testing.T, ref string) {
			answer, err := w.fake.Press(grace, general, ref, workflows.ButtonApprove)
			require.NoError(t, err)
			require.True(t, answer.Acked)
		},
	}
}

// read is what people see of our messages in a thread.
func (w *world) read(t workflows.Thread) []chattest.Shown {
	var out []chattest.Shown
	files := map[string]string{}
	for _, m := range w.fake.Thread(t.Channel, t.ID) {
		for _, f := range m.Files {
			files[f.Name] = string(f.Content)
		}
	}
	for _, m := range w.fake.Thread(t.Channel, t.ID) {
		var meta struct {
			Payload payload `json:"event_payload"`
		}
		if m.BotID != slackfake.BotID || len(m.Files) > 0 || json.Unmarshal(m.Metadata, &meta) != nil {
			continue
		}
		text := blockText(m.Blocks)
		if meta.Payload.File != "" {
			text += files[meta.Payload.File]
		}
		if meta.Payload.Part > 0 {
			out[len(out)-1].Text += text
			continue
		}
		notified := pings(m)
		if strings.HasPrefix(meta.Payload.Key, "approval-") {
			notified = mentioned(m.Text) // the mentions in its blocks are ours, and Slack notifies by the text
		}
		out = append(out, chattest.Shown{Ref: m.TS, Text: text, Buttons: labels(m.Blocks), Pings: notified})
	}
	return out
}

func answerOf(t workflows.Thread, text string) chat.Content {
	return chat.Content{
		WorkflowID: t.WorkflowID(), Thread: t, Text: text,
		View: workflows.MessageView{Key: "answer-1", Kind: workflows.KindAnswer, Version: 1},
	}
}

func TestLongAnswers(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	thread := w.session()
	var b strings.Builder
	for i := range 300 {
		fmt.Fprintf(&b, "Paragraph %d, with some words so that it takes its room on the page.\n\n", i)
	}
	_, err := w.app.Poster().Post(t.Context(), answerOf(thread, b.String()))
	require.NoError(t, err)
	parts := w.fake.Thread(thread.Channel, thread.ID)[1:]
	require.Len(t, parts, 2)
	for _, p := range parts {
		require.Contains(t, string(p.Blocks), `"type":"markdown"`)
		require.True(t, strings.HasPrefix(strings.TrimSpace(blockText(p.Blocks)), "Paragraph"), "a part breaks between blocks")
	}
	require.Contains(t, w.read(thread)[0].Text, "Paragraph 299")
}

func TestInterruptedPartsAreCompleted(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	thread := w.session()
	long := strings.Repeat("word word word word\n\n", 1000)
	w.fake.Fail("chat.postMessage", slackfake.Failure{Code: "internal_error", Times: 1, After: true})
	c := answerOf(thread, long)
	_, err := w.app.Poster().Post(t.Context(), c)
	require.Error(t, err)
	found, err := w.app.Poster().Find(t.Context(), thread, "answer-1", time.Now().Add(-time.Minute))
	require.NoError(t, err)
	require.Empty(t, found, "half a message is none")
	ref, err := w.app.Poster().Post(t.Context(), c)
	require.NoError(t, err)
	found, err = w.app.Poster().Find(t.Context(), thread, "answer-1", time.Now().Add(-time.Minute))
	require.NoError(t, err)
	require.Equal(t, []chat.Found{{Ref: ref, Version: 1}}, found)
	require.Len(t, w.fake.Thread(thread.Channel, thread.ID), 3, "the root and two parts, none of them twice")
}

func TestFileOfAnInterruptedAnswer(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	thread := w.session()
	c := answerOf(thread, strings.Repeat("word word word word\n\n", 5000))
	w.fake.Fail("files.completeUploadExternal", slackfake.Failure{Code: "internal_error"})
	_, err := w.app.Poster().Post(t.Context(), c)
	require.Error(t, err)
	for range 2 {
		_, err = w.app.Poster().Post(t.Context(), c)
		require.NoError(t, err)
	}
	var names []string
	for _, m := range w.fake.Thread(thread.Channel, thread.ID) {
		for _, f := range m.Files {
			names = append(names, f.Name)
			require.Equal(t, strings.TrimSpace(c.Text), string(f.Content))
		}
	}
	require.Equal(t, []string{"answer-1.md"}, names)
}

func TestRateLimitClosesTheMethod(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	thread := w.session()
	w.fake.Fail("chat.postMessage", slackfake.Failure{RetryAfter: 30})
	var limited *chat.RateLimitedError
	_, err := w.app.Poster().Post(t.Context(), answerOf(thread, "one"))
	require.ErrorAs(t, err, &limited)
	require.Equal(t, 30*time.Second, limited.RetryAfter)
	_, err = w.app.Poster().Post(t.Context(), answerOf(thread, "two"))
	require.ErrorAs(t, err, &limited)
	require.Greater(t, limited.RetryAfter, 25*time.Second)
	require.Len(t, w.fake.Calls("chat.postMessage"), 1, "a closed method is not called")
	_, err = w.app.Poster().Find(t.Context(), thread, "answer-1", time.Now())
	require.NoError(t, err, "other methods stay open")
}

func TestRefusalsOfSlack(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]error{
		"thread_not_found": chat.ErrThreadGone, "channel_not_found": chat.ErrThreadGone, "is_archived": chat.ErrThreadGone,
		"message_not_found": chat.ErrMessageGone, "cant_update_message": chat.ErrMessageGone,
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{still: true})
			w.fake.Fail("chat.update", slackfake.Failure{Code: code})
			require.ErrorIs(t, w.app.Poster().Edit(t.Context(), "1.000001", answerOf(w.session(), "x")), want)
		})
	}
	t.Run("transient", func(t *testing.T) {
		t.Parallel()
		w := start(t, setup{still: true})
		thread := w.session()
		for _, f := range []slackfake.Failure{{Code: "internal_error"}, {Status: 503}, {Code: "not_in_channel"}} {
			w.fake.Fail("chat.postMessage", f)
			_, err := w.app.Poster().Post(t.Context(), answerOf(thread, "x"))
			require.Error(t, err)
			require.NotErrorIs(t, err, chat.ErrThreadGone)
		}
	})
}

func TestReplyThatLostItsThread(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	thread := w.session()
	w.fake.Remove(thread.Channel, thread.ID)
	_, err := w.app.Poster().Post(t.Context(), answerOf(thread, "x"))
	require.ErrorIs(t, err, chat.ErrThreadGone)
	require.Empty(t, w.fake.Messages(general), "the stray reply is taken back")
}

func TestRefusedBlocksAreSentAsText(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	thread := w.session()
	w.fake.Fail("chat.postMessage", slackfake.Failure{Code: "invalid_blocks"})
	ts := w.approval(thread, nil)
	m, ok := w.fake.Message(general, ts)
	require.True(t, ok)
	require.Contains(t, blockText(m.Blocks), "rm -rf build")
	require.Equal(t, []string{"Approve once", "Review…", "Deny…"}, labels(m.Blocks))
}

// TestWhatSlackRefusesForGoodSaysSo: neither the form nor the text is taken, so the
// same would be refused for ever.
func TestWhatSlackRefusesForGoodSaysSo(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	thread := w.session()
	for _, code := range []string{"invalid_blocks", "msg_too_long", "no_text"} {
		w.fake.Fail("chat.postMessage", slackfake.Failure{Code: code, Times: 2})
		_, err := w.app.Poster().Post(t.Context(), answerOf(thread, "x"))
		require.ErrorIs(t, err, chat.ErrRefused, code)
		w.fake.Fail("chat.update", slackfake.Failure{Code: code, Times: 2})
		require.ErrorIs(t, w.app.Poster().Edit(t.Context(), "1.000001", answerOf(thread, "x")), chat.ErrRefused, code)
		if code == "no_text" { // no form helps: it was asked once
			_, _ = w.app.Poster().Post(t.Context(), answerOf(thread, "x"))
			_ = w.app.Poster().Edit(t.Context(), "1.000001", answerOf(thread, "x"))
		}
	}
}

// TestTheSimpleFormOfALongCommandApprovesNothing: it does not show all of it.
func TestTheSimpleFormOfALongCommandApprovesNothing(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	thread := w.session()
	for _, command := range []string{strings.Repeat("x", 2900), strings.Repeat("<", 900)} {
		w.fake.Fail("chat.postMessage", slackfake.Failure{Code: "invalid_blocks"})
		ts := w.approval(thread, func(v *workflows.MessageView) { v.Approval.Command.Text = command })
		m, _ := w.fake.Message(general, ts)
		require.Equal(t, []string{"Review…", "Deny…"}, labels(m.Blocks))
	}
}

func TestApproversArePingedOnce(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true, before: func(w *world) {
		w.fake.AddGroup(slackfake.Group{ID: "S0ONCALL01", Handle: "platform-oncall", Users: []string{grace}})
	}})
	thread := w.session()
	ts := w.approval(thread, func(v *workflows.MessageView) { v.Approval.Approvers = []string{"platform-oncall", grace} })
	m, _ := w.fake.Message(general, ts)
	require.Contains(t, m.Text, "<!subteam^S0ONCALL01>")
	require.Contains(t, m.Text, "<@"+grace+">")
	v := w.sessions.Views["approval-1"]
	v.Version = 2
	require.NoError(t, w.app.Poster().Edit(t.Context(), ts, chat.Content{Thread: thread, View: v}))
	m, _ = w.fake.Message(general, ts)
	require.NotContains(t, m.Text, "<!subteam")
	require.NotContains(t, m.Text, "<@")
}

func TestWhatTheCardDoesNotShowWholeCannotBeApprovedFromIt(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	ts := w.approval(w.session(), func(v *workflows.MessageView) {
		v.Approval.Command.Text = "echo " + strings.Repeat("x", 4000)
	})
	m, _ := w.fake.Message(general, ts)
	require.Equal(t, []string{"Review…", "Deny…"}, labels(m.Blocks))
}

// TestAnythingFits: whatever a session shows, Slack takes it as it is.
func TestAnythingFits(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	thread := w.session()
	text := rapid.Custom(func(t *rapid.T) string {
		unit := rapid.SampledFrom([]string{"a", "<&>", "`", "``` \n", "é", "世", "🧪", "\n", "<!channel>", "|", " ", "*_~", "\x00", "\u202e"}).Draw(t, "unit")
		return strings.Repeat(unit, rapid.IntRange(0, 9000).Draw(t, "times")) + rapid.String().Draw(t, "tail")
	})
	version := 0
	rapid.Check(t, func(rt *rapid.T) {
		version++
		at := time.Unix(1760000000, 0)
		c := chat.Content{Thread: thread, View: workflows.MessageView{Key: fmt.Sprint("any-", version), Version: 1}}
		switch rapid.IntRange(0, 3).Draw(rt, "kind") {
		case 0:
			c.View.Header = &workflows.HeaderView{
				Title: text.Draw(rt, "title"), Backend: "local", Workspace: text.Draw(rt, "workspace"), Notice: text.Draw(rt, "notice"),
				By: workflows.Actor{ID: ada, Name: text.Draw(rt, "name")}, Liveness: rapid.SampledFrom([]string{"active", "waiting", "paused", "destroyed"}).Draw(rt, "liveness"), DestroyedAt: at,
			}
		case 1:
			turn := &workflows.TurnView{Number: 1, State: workflows.TurnWorking, StartedAt: at, Error: text.Draw(rt, "error")}
			for i := range rapid.IntRange(0, 12).Draw(rt, "calls") {
				turn.Calls = append(turn.Calls, workflows.CallView{
					ID: fmt.Sprint(i), Tool: "shell", Command: chat.CutBytes(text.Draw(rt, "command"), workflows.MaxShownCommand), Tail: text.Draw(rt, "tail"),
					State: rapid.SampledFrom([]string{"running", "completed", "denied"}).Draw(rt, "state"), StartedAt: at, Note: chat.Cut(text.Draw(rt, "note"), 300),
				})
			}
			c.View.Turn, c.View.Buttons = turn, []workflows.Button{{ID: workflows.ButtonStop, Label: "Stop"}}
		case 2:
			c.View.Approval = &workflows.ApprovalView{
				ID: thread.ID + ".a1", State: workflows.ApprovalPending, Tier: "risky", Displayable: true, Command: workflows.TextRef{Text: chat.CutBytes(text.Draw(rt, "command"), workflows.MaxInlineText)},
				Backend: "local", Cwd: chat.Cut(text.Draw(rt, "cwd"), 500), Reasons: []string{text.Draw(rt, "reason"), text.Draw(rt, "reason 2")}, ExpiresAt: at, Required: 2,
			}
			c.View.Buttons = []workflows.Button{{ID: workflows.ButtonApprove, Label: "Approve once"}, {ID: workflows.ButtonReview, Label: "Review…"}}
		default:
			c.View.Kind, c.Text = workflows.KindAnswer, text.Draw(rt, "answer")
		}
		ts, err := w.app.Poster().Post(t.Context(), c)
		require.NoError(rt, err)
		c.View.Version = 2
		require.NoError(rt, w.app.Poster().Edit(t.Context(), ts, c))
		require.Empty(rt, w.fake.Refused("invalid_blocks", "msg_too_long", "msg_blocks_too_long", "no_text"))
	})
}

func TestStolenMetadataIsNotOurs(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	thread := w.session()
	w.fake.SayAs("U0OTHERBOT", "B0OTHERBOT", general, thread.ID, "I am the answer")
	found, err := w.app.Poster().Find(t.Context(), thread, "answer-1", time.Time{})
	require.NoError(t, err)
	require.Empty(t, found)
}

func TestOnlyThoseWhomTheCardNotifiesArePinged(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true, before: oncall})
	ts := w.approval(w.session(), func(v *workflows.MessageView) {
		v.Approval.Approvers, v.Approval.Notify = []string{"platform-oncall", ada}, []string{ada, grace}
	})
	m, _ := w.fake.Message(general, ts)
	require.NotContains(t, m.Text, "<!subteam")
	require.Contains(t, m.Text, "@platform-oncall")
	require.Contains(t, m.Text, "<@"+ada+">")
	require.Contains(t, m.Text, "<@"+grace+">")
	require.NotContains(t, string(m.Blocks), "usergroup")
}

// TestMembersAreLookedUpAnew: a vote counts only while the voter is in the group.
func TestMembersAreLookedUpAnew(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true, before: oncall})
	thread, p := w.session(), &poster{app: w.app}
	people := []workflows.Actor{{ID: grace}, {ID: "U0GONE0001"}}
	now, err := p.Members(t.Context(), thread, people)
	require.NoError(t, err)
	require.Len(t, now, 1)
	require.Contains(t, now[0].Groups, "platform-oncall")
	w.fake.AddGroup(slackfake.Group{ID: "S0ONCALL01", Handle: "platform-oncall"})
	w.fake.AddUser(slackfake.User{ID: grace, Name: "grace", Deleted: true})
	now, err = p.Members(t.Context(), thread, people)
	require.NoError(t, err)
	require.Empty(t, now[0].Groups)
	require.True(t, now[0].External, "a deactivated account counts for nothing")
	w.fake.Fail("usergroups.list", slackfake.Failure{Status: 503})
	_, err = p.Members(t.Context(), thread, people)
	require.Error(t, err)
}

func TestErrorsNameNoResponseURL(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	away := httptest.NewServer(nil)
	away.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, away.URL+"/respond/secret", nil)
	require.NoError(t, err)
	_, err = w.app.api.gate.Do(req)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}

// TestRemovedFromAPrivateChannel: Slack says that there is no such channel. That is
// waited for, slowly, as where it says that the bot is no member.
func TestRemovedFromAPrivateChannel(t *testing.T) {
	t.Parallel()
	const private = "C0PRIVATE1"
	for name, c := range map[string]slackfake.Channel{
		"private": {ID: private, Private: true, Members: []string{ada}}, "public": {ID: private, Members: []string{ada}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{still: true})
			whole := c
			whole.Members = []string{ada, slackfake.BotUser}
			w.fake.AddChannel(whole)
			thread := w.sessionIn(private, w.fake.Quiet(ada, private, "", bot+" do it"))
			w.fake.AddChannel(c)
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			env.RegisterActivityWithOptions(func(ctx context.Context) error {
				_, err := w.app.Poster().Post(ctx, answerOf(thread, "x"))
				var limited *chat.RateLimitedError
				if !errors.As(err, &limited) || limited.RetryAfter < 30*time.Second {
					return fmt.Errorf("not waited for: %w", err)
				}
				return nil
			}, activity.RegisterOptions{Name: "post"})
			_, err := env.ExecuteActivity("post")
			require.NoError(t, err)
		})
	}
}
