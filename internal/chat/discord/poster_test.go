package discord

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/chat/chattest/discordfake"
	"github.com/countersign/countersign/internal/workflows"
)

func TestConform(t *testing.T) {
	t.Parallel()
	chattest.Conform(t, func(t *testing.T) chattest.Platform {
		w := start(t, setup{still: true})
		id := w.fake.Quiet(ada, general, bot+" do something")
		w.fake.OpenThread(ada, general, id, "do something")
		return chattest.Platform{
			Live:   func() chattest.Live { return w.receive(id) },
			Poster: w.app.Poster(), Thread: w.app.thread(guild, general, id), New: w.app.thread(guild, general, ""), Approver: oncall,
			Lose: func() { w.fake.Fail("POST /channels/{channel}/messages", discordfake.Failure{Cut: true, After: true}) },
			Read: func(_ *testing.T, thread workflows.Thread) []chattest.Shown { return w.read(thread) },
		}
	})
}

// receive runs the adapter, before a session in a thread.
func (w *world) receive(thread string) chattest.Live {
	s := w.sessionIn(general, thread)
	w.run()
	return chattest.Live{
		Sessions: w.sessions.Sessions,
		Is:       func(st workflows.TurnState) { w.sessions.set(s, st) },
		Say:      func(text string) string { return w.fake.Say(ada, thread, text) },
		Remove: []func(string){
			func(ref string) { w.fake.Remove(thread, ref) },
			func(ref string) { w.fake.Purge(thread, ref, "1000000000000000071") },
		},
		Approve: func(_ *testing.T, ref string) { w.click(grace, thread, ref, "Approve once") },
	}
}

// read is our messages of a thread as people see them: the one it was opened from
// first, parts joined, files read.
func (w *world) read(t workflows.Thread) []chattest.Shown {
	var all []discordfake.Message
	if root, ok := w.fake.Message(t.Channel, t.ID); ok {
		all = append(all, root)
	}
	all = append(all, w.fake.Messages(t.ID)...)
	var out []chattest.Shown
	for _, m := range all {
		if m.Author != discordfake.BotUser {
			continue
		}
		k, ok := readMark(m.Content)
		require.True(w.t, ok, "a message of ours bears no mark: %q", m.Content)
		s := chattest.Shown{Ref: m.ID, Text: m.Text(), Pings: m.Pings}
		for _, b := range m.Buttons() {
			s.Buttons = append(s.Buttons, b.Label)
		}
		for _, f := range m.Files {
			s.Text += "\n" + string(f.Content)
		}
		if k.part > 0 && len(out) > 0 {
			out[len(out)-1].Text += "\n" + s.Text
			continue
		}
		out = append(out, s)
	}
	return out
}

func TestMark(t *testing.T) {
	t.Parallel()
	for _, m := range []mark{markOf("header", 0, 1), markOf("answer-3", 4, 6), markOf("notice-1", 255, 255)} {
		require.Equal(t, markLength, length(m.String()))
		got, ok := readMark("text" + m.String())
		require.True(t, ok)
		require.Equal(t, m, got)
	}
	_, ok := readMark("text" + strings.Repeat("\u200b", markLength))
	require.False(t, ok)
	_, ok = readMark(unmarked("text" + markOf("header", 0, 1).String()))
	require.False(t, ok, "nothing from outside is a mark")
}

// TestWhatDiscordRefusesForGoodSaysSo: also what it refuses because of what it says.
func TestWhatDiscordRefusesForGoodSaysSo(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	s := w.session()
	for code, status := range map[int]int{50035: 400, 50006: 400, 40005: 413, 200000: 400, 240000: 403} {
		f := discordfake.Failure{Status: status, Code: code}
		if code == 50035 {
			f.Times = 2 // also as plain text
		}
		w.fake.Fail("POST /channels/{channel}/messages", f)
		_, err := w.app.Poster().Post(t.Context(), note(s, "notice-1", "hello"))
		require.ErrorIs(t, err, chat.ErrRefused, code)
	}
}

// TestTheSimpleFormOfALongCommandApprovesNothing: it does not show all of it.
func TestTheSimpleFormOfALongCommandApprovesNothing(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	s := w.session()
	for n, want := range map[int]bool{100: true, 1200: false} {
		w.fake.Fail("POST /channels/{channel}/messages", discordfake.Failure{Status: 400, Code: 50035})
		id := w.approval(s, func(v *workflows.MessageView) {
			v.Key, v.Approval.Command.Text = fmt.Sprint("approval-", n), strings.Repeat("x", n)
		})
		m, _ := w.fake.Message(s.ID, id)
		require.Equal(t, want, strings.Contains(string(m.Components), "Approve once"))
		require.Contains(t, string(m.Components), "Review")
	}
}
