package chat_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/workflows"
)

// picky is a wall that does not take some messages, by a panic or by a refusal.
type picky struct {
	*wall
	bad    func(chat.Content) bool
	panics bool
	tries  int
	seen   chat.Content
}

func (p *picky) look(c chat.Content) error {
	p.tries++
	if !p.bad(c) {
		p.seen = c
		return nil
	}
	if p.panics {
		panic("slice bounds out of range")
	}
	return fmt.Errorf("%w: invalid_blocks", chat.ErrRefused)
}

func (p *picky) Post(ctx context.Context, c chat.Content) (string, error) {
	if err := p.look(c); err != nil {
		return "", err
	}
	return p.wall.Post(ctx, c)
}

func (p *picky) Edit(ctx context.Context, ref string, c chat.Content) error {
	if err := p.look(c); err != nil {
		return err
	}
	return p.wall.Edit(ctx, ref, c)
}

// poisoned are views of every kind that say poison.
func poisoned() map[string]workflows.MessageView {
	const poison = "☠ <@U1> `x`"
	actor := workflows.Actor{ID: "kim", Name: poison}
	return map[string]workflows.MessageView{
		"answer-1": {Key: "answer-1", Kind: workflows.KindAnswer, Version: 1, Text: workflows.TextRef{Text: poison}},
		"header":   {Key: "header", Kind: workflows.KindHeader, Version: 1, Header: &workflows.HeaderView{Title: poison, By: actor, Notice: poison}},
		"turn-1": {Key: "turn-1", Kind: workflows.KindTurn, Version: 1, Turn: &workflows.TurnView{
			State: workflows.TurnFailed, By: actor, Error: poison, Hint: poison,
			Calls: []workflows.CallView{{Command: poison, Note: poison, State: workflows.CallFailed}},
		}},
		"approval-1": {Key: "approval-1", Kind: workflows.KindApproval, Version: 1, Approval: &workflows.ApprovalView{
			ID: "17.a1", State: workflows.ApprovalPending, Tier: "risky", Displayable: true, Command: workflows.TextRef{Text: poison}, Cwd: poison,
			Workspace: poison, To: poison, Reasons: []string{poison}, Evidence: []string{poison}, Original: poison, EditedBy: &actor, Remark: poison,
			RequestedBy: []workflows.Actor{actor}, Approvers: []string{"*"}, Votes: []workflows.Vote{{By: actor, Verdict: workflows.VerdictApprove, Reason: poison}},
		}, Buttons: []workflows.Button{{ID: workflows.ButtonReview, Label: "Review…"}}},
	}
}

// TestWhatCannotBeShownIsShownPlainly: a message that cannot be rendered, or that the
// service refuses for good, is shown in a plainer form at once, and the log says
// which and why.
func TestWhatCannotBeShownIsShownPlainly(t *testing.T) {
	t.Parallel()
	for _, panics := range []bool{true, false} {
		for key, v := range poisoned() {
			w := &picky{wall: &wall{}, panics: panics, bad: func(c chat.Content) bool { return strings.Contains(show(c), "☠") }}
			d, s := newDelivery(w.wall)
			var log bytes.Buffer
			d.Poster, d.Log = w, slog.New(slog.NewJSONHandler(&log, nil))
			s.SetView(v)
			res, err := chattest.Deliver(t, d, workflows.ActivityPostMessage, post(key))
			require.NoError(t, err, key)
			require.Equal(t, workflows.PostResult{Ref: "m1", Version: 1}, res)
			require.Equal(t, 2, w.tries, "it is not tried again as it is")
			require.Contains(t, log.String(), `"level":"ERROR"`)
			require.Contains(t, log.String(), `"kind":"`+v.Kind+`"`)
			if panics {
				require.Contains(t, log.String(), "slice bounds out of range")
				require.Contains(t, log.String(), "plainer_test.go", "the stack says where")
			} else {
				require.Contains(t, log.String(), "invalid_blocks")
			}
			if v.Approval != nil {
				require.False(t, w.seen.View.Approval.Displayable, "it is approved from Review, not from a part")
				require.Equal(t, v.Buttons, w.seen.View.Buttons)
			}
			if v.Kind == workflows.KindAnswer {
				require.Equal(t, v.Text.Text, string(w.seen.File.Data), "a file has all of it")
			}

			_, err = chattest.Deliver(t, d, workflows.ActivityEditMessage, edit(key, "m1"))
			require.NoError(t, err, key)
			require.Equal(t, 4, w.tries)
		}
	}
}

// TestWhatIsRefusedInPlainLettersIsSaidBarely: then that there is something is said.
func TestWhatIsRefusedInPlainLettersIsSaidBarely(t *testing.T) {
	t.Parallel()
	for key, v := range poisoned() {
		w := &picky{wall: &wall{}, bad: func(c chat.Content) bool { return c.File != nil || strings.ContainsAny(show(c), "☠U") }}
		d, s := newDelivery(w.wall)
		d.Poster = w
		s.SetView(v)
		_, err := chattest.Deliver(t, d, workflows.ActivityPostMessage, post(key))
		require.NoError(t, err, key)
		require.NotEmpty(t, w.texts()[0])
	}
}

// TestWhatIsRefusedInEveryFormHoldsNothingUp: the session goes on without it.
func TestWhatIsRefusedInEveryFormHoldsNothingUp(t *testing.T) {
	t.Parallel()
	for _, panics := range []bool{true, false} {
		w := &picky{wall: &wall{}, panics: panics, bad: func(chat.Content) bool { return true }}
		d, s := newDelivery(w.wall)
		d.Poster = w
		s.SetView(notice("hello"))
		_, err := chattest.Deliver(t, d, workflows.ActivityPostMessage, post("notice-1"))
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app)
		require.Equal(t, workflows.ErrTypeRefused, app.Type())
		require.True(t, app.NonRetryable())
	}
}

// TestAPanicInARestoreIsNone: nor does a card that is posted again end the bot.
func TestAPanicInARestoreIsNone(t *testing.T) {
	t.Parallel()
	w := &picky{wall: &wall{}, panics: true, bad: func(c chat.Content) bool { return strings.Contains(show(c), "☠") }}
	s := &restored{Sessions: &chattest.Sessions{}}
	s.SetView(poisoned()["approval-1"])
	r := chat.Restore{Poster: w, Sessions: s, Views: s, Log: slog.New(slog.DiscardHandler)}
	n, err := r.Cards(t.Context(), room)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

type restored struct{ *chattest.Sessions }

func (restored) TurnState(context.Context, string) (workflows.TurnState, error) {
	return workflows.TurnState{Approvals: []string{"17.a1"}, StartedAt: time.Now()}, nil
}
