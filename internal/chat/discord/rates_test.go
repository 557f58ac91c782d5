package discord

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest/discordfake"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

func secret(s string) telemetry.Secret { return telemetry.NewSecret(s) }

func note(t workflows.Thread, key, text string) chat.Content {
	return chat.Content{WorkflowID: t.WorkflowID(), Thread: t, Text: text, View: workflows.MessageView{Key: key, Kind: workflows.KindNotice, Version: 1}}
}

func TestA429ClosesItsBucketUntilThen(t *testing.T) {
	t.Parallel()
	for scope, others := range map[string]bool{"user": true, "shared": true, "global": false} {
		t.Run(scope, func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{still: true})
			s := w.session()
			w.fake.Fail("POST /channels/{channel}/messages", discordfake.Failure{RetryAfter: 4 * time.Second, Scope: scope})
			_, err := w.app.Poster().Post(t.Context(), note(s, "notice-1", "hello"))
			var limited *chat.RateLimitedError
			require.ErrorAs(t, err, &limited)
			require.InDelta(t, 4*time.Second, limited.RetryAfter, float64(2*time.Second))
			calls := len(w.fake.Calls(""))
			_, err = w.app.Poster().Post(t.Context(), note(s, "notice-1", "hello"))
			require.ErrorAs(t, err, &limited)
			require.Len(t, w.fake.Calls(""), calls, "nothing is sent while it is closed")
			_, err = w.app.lookUpPlace(t.Context(), s.ID)
			require.Equal(t, others, err == nil)
			w.until("it is open again", func() bool {
				_, err = w.app.Poster().Post(t.Context(), note(s, "notice-1", "hello"))
				return err == nil
			})
		})
	}
}

// TestWaitsEndWithTheirContext: discordgo alone would sleep on.
func TestWaitsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true, fake: discordfake.Options{Buckets: map[string]discordfake.Bucket{
		"POST /channels/{channel}/messages": {Limit: 1, In: 4 * time.Second},
	}}})
	s := w.session()
	_, err := w.app.Poster().Post(t.Context(), note(s, "notice-1", "hello"))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err = w.app.Poster().Post(ctx, note(s, "notice-2", "hello"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(began), 3800*time.Millisecond)
	_, err = w.app.Poster().Post(t.Context(), note(s, "notice-3", "hello"))
	require.NoError(t, err, "the bucket is not stuck")
	require.Zero(t, w.fake.Invalid(), "no call was refused")
}

func TestArchivedThreadsAreOpened(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	s := w.session()
	v := workflows.MessageView{Key: "turn-1", Kind: workflows.KindTurn, Version: 1, Turn: &workflows.TurnView{Number: 1, State: workflows.TurnWorking, StartedAt: time.Now()}}
	c := chat.Content{WorkflowID: s.WorkflowID(), Thread: s, View: v}
	ref, err := w.app.Poster().Post(t.Context(), c)
	require.NoError(t, err)
	w.fake.SetThread(s.ID, true, false)
	require.NoError(t, w.app.Poster().Edit(t.Context(), ref, c))
	place, _ := w.fake.Channel(s.ID)
	require.False(t, place.Archived)
}

func TestLockedThreadsAreSaidInTheChannel(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	s := w.session()
	c := chat.Content{WorkflowID: s.WorkflowID(), Thread: s, View: workflows.MessageView{
		Key: "turn-1", Kind: workflows.KindTurn, Version: 1, Turn: &workflows.TurnView{Number: 1, State: workflows.TurnWorking, StartedAt: time.Now()},
	}}
	ref, err := w.app.Poster().Post(t.Context(), c)
	require.NoError(t, err)
	for _, archived := range []bool{false, true} {
		w.fake.SetThread(s.ID, archived, true)
		require.ErrorIs(t, w.app.Poster().Edit(t.Context(), ref, c), chat.ErrThreadGone)
		_, err = w.app.Poster().Post(t.Context(), note(s, "notice-1", "hello"))
		require.ErrorIs(t, err, chat.ErrThreadGone)
	}
	told := 0
	for _, m := range w.fake.Messages(general) {
		if m.Author == discordfake.BotUser {
			require.Contains(t, m.Content, "<#"+s.ID+"> is locked")
			told++
		}
	}
	require.Equal(t, 1, told)
}

// TestAnOldCardIsReplaced: Discord takes few edits of messages older than an hour.
func TestAnOldCardIsReplaced(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true, fake: discordfake.Options{OldEdits: 1}})
	s := w.session()
	card := w.approval(s, nil)
	w.fake.Advance(2 * time.Hour)
	c := chat.Content{WorkflowID: s.WorkflowID(), Thread: s, View: w.sessions.Views["approval-1"]}
	require.NoError(t, w.app.Poster().Edit(t.Context(), card, c))
	require.ErrorIs(t, w.app.Poster().Edit(t.Context(), card, c), chat.ErrMessageGone, "the delivery posts it anew")
	_, there := w.fake.Message(s.ID, card)
	require.False(t, there, "no card with old buttons stays")
	again, err := w.app.Poster().Post(t.Context(), c)
	require.NoError(t, err)
	require.NotEqual(t, card, again)
}

func TestMissingPermissionsAreWaitedFor(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	s := w.session()
	for _, code := range []int{50001, 50013} {
		w.fake.Fail("POST /channels/{channel}/messages", discordfake.Failure{Status: http.StatusForbidden, Code: code})
		_, err := w.app.Poster().Post(t.Context(), note(s, "notice-1", "hello"))
		var limited *chat.RateLimitedError
		require.ErrorAs(t, err, &limited)
		require.GreaterOrEqual(t, limited.RetryAfter, time.Minute, "refused calls count towards a ban")
	}
	w.fake.RemoveChannel(s.ID)
	_, err := w.app.Poster().Post(t.Context(), note(s, "notice-1", "hello"))
	require.ErrorIs(t, err, chat.ErrThreadGone)
}

func TestAnswersComeInParts(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	s := w.session()
	text := "# Result\n\n" + strings.Repeat("A paragraph of words that is not too long for anybody to read. 😀\n\n", 60) + "```go\n" + strings.Repeat("x := 1\n", 300) + "```\n\nhttps://example.com"
	c := chat.Content{WorkflowID: s.WorkflowID(), Thread: s, Text: text, View: workflows.MessageView{Key: "answer-1", Kind: workflows.KindAnswer, Version: 1}}
	// The connection breaks after the second part: the next attempt adds the rest.
	var first string
	for range 2 {
		w.fake.Fail("POST /channels/{channel}/messages", discordfake.Failure{Delay: time.Millisecond, After: true, Times: 2})
		w.fake.Fail("POST /channels/{channel}/messages", discordfake.Failure{Cut: true, After: true})
		id, err := w.app.Poster().Post(t.Context(), c)
		first = id
		if err == nil {
			break
		}
		w.fake.Advance(5 * time.Minute) // the nonces are forgotten
		found, ferr := w.app.Poster().Find(t.Context(), s, "answer-1", time.Now().Add(-time.Hour))
		require.NoError(t, ferr)
		require.Empty(t, found, "a message in parts is there when all parts are")
	}
	if first == "" {
		id, err := w.app.Poster().Post(t.Context(), c)
		require.NoError(t, err)
		first = id
	}
	got := w.read(s)
	require.Len(t, got, 1)
	require.Equal(t, first, got[0].Ref)
	require.Equal(t, 300, strings.Count(got[0].Text, "x := 1"))
	for _, m := range w.fake.Messages(s.ID) {
		require.Zero(t, strings.Count(m.Content, "```")%2, "every part closes what it opens")
		require.NotZero(t, m.Flags&discordfake.FlagSuppressEmbeds)
		require.LessOrEqual(t, size(m.Content), maxContent)
	}
	found, err := w.app.Poster().Find(t.Context(), s, "answer-1", time.Now().Add(-time.Hour))
	require.NoError(t, err)
	require.Equal(t, first, found[0].Ref)
}

func TestWordsOfErrors(t *testing.T) {
	t.Parallel()
	require.Contains(t, words(errors.New("boom")), "Not confirmed")
	require.NotContains(t, words(errors.New("boom")), "boom")
	require.Equal(t, "POST /webhooks/1/…/messages/@original", redacted("POST /webhooks/1/token/messages/@original"))
}

// TestARefusedForm: a card whose form Discord does not take is shown without it.
func TestARefusedForm(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true})
	s := w.session()
	w.fake.Fail("POST /channels/{channel}/messages", discordfake.Failure{Status: http.StatusBadRequest, Code: 50035})
	card := w.approval(s, nil)
	m, _ := w.fake.Message(s.ID, card)
	require.Contains(t, m.Content, "rm -rf build")
	require.Len(t, m.Buttons(), 3)
	found, err := w.app.Poster().Find(t.Context(), s, "approval-1", time.Now().Add(-time.Hour))
	require.NoError(t, err)
	require.Equal(t, card, found[0].Ref)
}
