package chat_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/workflows"
)

var room = workflows.Thread{Platform: workflows.PlatformWeb, Team: workflows.WebTeam, Channel: "general", ID: "17"}

// wall is a platform in memory that can be made to misbehave. It allows copies,
// as platforms without idempotency keys do.
type wall struct {
	mu    sync.Mutex
	posts []wallPost
	n     int
	edits int
	// after runs after a post, before its answer is given.
	after func(n int) error
	err   error
}

type wallPost struct {
	ref, key, text string
}

func (w *wall) Limits() chat.Limits {
	return chat.Limits{MinRefresh: 2 * time.Second, MaxRefresh: 30 * time.Second}
}

func (w *wall) OpenThread(_ context.Context, in workflows.OpenThreadInput) (workflows.Thread, error) {
	return in.Thread, w.err
}

func (w *wall) Find(_ context.Context, _ workflows.Thread, key string, _ time.Time) ([]chat.Found, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []chat.Found
	for _, p := range w.posts {
		if p.key == key {
			out = append(out, chat.Found{Ref: p.ref})
		}
	}
	return out, w.err
}

func (w *wall) Post(_ context.Context, c chat.Content) (string, error) {
	if w.err != nil {
		return "", w.err
	}
	w.mu.Lock()
	w.n++
	n := w.n
	ref := fmt.Sprint("m", n)
	w.posts = append(w.posts, wallPost{ref, c.View.Key, show(c)})
	w.mu.Unlock()
	if w.after != nil {
		return ref, w.after(n)
	}
	return ref, nil
}

func (w *wall) Edit(_ context.Context, ref string, c chat.Content) error {
	if w.err != nil {
		return w.err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.edits++
	for i := range w.posts {
		if w.posts[i].ref == ref {
			w.posts[i].text = show(c)
			return nil
		}
	}
	return chat.ErrMessageGone
}

func (w *wall) Delete(_ context.Context, _ workflows.Thread, ref string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, p := range w.posts {
		if p.ref == ref {
			w.posts = append(w.posts[:i:i], w.posts[i+1:]...)
			return nil
		}
	}
	return nil
}

func show(c chat.Content) string {
	return chat.PlainStyle(time.UTC).Text(c.View, c.Text)
}

func (w *wall) texts() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, p := range w.posts {
		out = append(out, p.text)
	}
	return out
}

func newDelivery(w *wall) (*chat.Delivery, *chattest.Sessions) {
	s := &chattest.Sessions{}
	return &chat.Delivery{Poster: w, Views: s, Blobs: &chattest.Blobs{}, Log: slog.New(slog.DiscardHandler)}, s
}

func post(key string) workflows.PostInput {
	return workflows.PostInput{WorkflowID: room.WorkflowID(), Thread: room, Key: key, First: time.Now()}
}

func edit(key, ref string) workflows.EditInput {
	return workflows.EditInput{WorkflowID: room.WorkflowID(), Thread: room, Key: key, Ref: ref}
}

func notice(text string) workflows.MessageView {
	return workflows.MessageView{Key: "notice-1", Kind: workflows.KindNotice, Version: 3, Text: workflows.TextRef{Text: text}}
}

func TestPostGivesTheVersionItShowed(t *testing.T) {
	t.Parallel()
	w := &wall{}
	d, s := newDelivery(w)
	s.SetView(notice("hello"))
	res, err := chattest.Deliver(t, d, workflows.ActivityPostMessage, post("notice-1"))
	require.NoError(t, err)
	require.Equal(t, workflows.PostResult{Ref: "m1", Version: 3}, res)
	require.Equal(t, []string{"hello"}, w.texts())
}

// The bot dies after the platform has the message and before Temporal knows.
func TestPostThatWasNotRecordedStaysOne(t *testing.T) {
	t.Parallel()
	w := &wall{after: func(n int) error {
		if n == 1 {
			return errors.New("killed")
		}
		return nil
	}}
	d, s := newDelivery(w)
	s.SetView(notice("hello"))
	res, err := chattest.Deliver(t, d, workflows.ActivityPostMessage, post("notice-1"))
	require.NoError(t, err)
	require.Equal(t, "m1", res.Ref)
	require.Equal(t, []string{"hello"}, w.texts())
	require.Equal(t, 1, w.n, "nobody sees a copy, not even for a moment")
}

// A first attempt that was taken for dead posts while the second one does.
func TestRacingPostsLeaveTheOldest(t *testing.T) {
	t.Parallel()
	w := &wall{}
	d, s := newDelivery(w)
	s.SetView(notice("hello"))
	late := false
	w.after = func(n int) error {
		switch {
		case n == 1:
			w.mu.Lock()
			w.posts = nil // it is not visible yet
			w.mu.Unlock()
			return errors.New("timed out")
		case n == 2 && !late:
			late = true
			w.mu.Lock()
			w.posts = append([]wallPost{{"m1", "notice-1", "hello"}}, w.posts...) // now it is
			w.mu.Unlock()
		}
		return nil
	}
	res, err := chattest.Deliver(t, d, workflows.ActivityPostMessage, post("notice-1"))
	require.NoError(t, err)
	require.Equal(t, "m1", res.Ref)
	require.Equal(t, []string{"hello"}, w.texts())
}

func TestPostFetchesALongText(t *testing.T) {
	t.Parallel()
	w := &wall{}
	d, s := newDelivery(w)
	whole := strings.Repeat("long ", 10_000)
	ref, err := chat.PutText(t.Context(), d.Blobs, whole)
	require.NoError(t, err)
	require.NotEmpty(t, ref.Ref)
	s.SetView(workflows.MessageView{Key: "answer-1", Kind: workflows.KindAnswer, Version: 1, Text: ref})
	_, err = chattest.Deliver(t, d, workflows.ActivityPostMessage, post("answer-1"))
	require.NoError(t, err)
	require.Equal(t, []string{whole}, w.texts())
}

func TestDeliveryGivesUpOnWhatIsGone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		typ  string
		view bool
	}{
		{chat.ErrThreadGone, workflows.ErrTypeThreadGone, true},
		{nil, workflows.ErrTypeNotFound, false},
	} {
		w := &wall{err: c.err}
		d, s := newDelivery(w)
		if c.view {
			s.SetView(notice("hello"))
		}
		_, err := chattest.Deliver(t, d, workflows.ActivityPostMessage, post("notice-1"))
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app)
		require.Equal(t, c.typ, app.Type())
		require.True(t, app.NonRetryable())
	}
}

// A session that refuses to answer now may answer later; its message is not
// given up for that.
func TestPostOutlastsAFailedQuery(t *testing.T) {
	t.Parallel()
	w := &wall{}
	d, s := newDelivery(w)
	s.SetView(notice("hello"))
	failures := 0
	s.Fail = func(c chattest.Call) error {
		if c.Method == "Message" && failures < 5 {
			failures++
			return fmt.Errorf("querying: %w", serviceerror.NewQueryFailed("unknown query type"))
		}
		return nil
	}
	_, err := chattest.Deliver(t, d, workflows.ActivityPostMessage, post("notice-1"))
	require.NoError(t, err)
	require.Equal(t, []string{"hello"}, w.texts())

	w.posts = nil
	s.Fail = func(chattest.Call) error { return serviceerror.NewQueryFailed("no message") }
	_, err = chattest.Deliver(t, d, workflows.ActivityPostMessage, post("notice-1"))
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.Equal(t, workflows.ErrTypeNotFound, app.Type())
}

// While no worker answers for a session its messages are tried again soon, and not
// ever later, as when the chat service is away.
func TestPostIsTriedSoonWhileItsSessionIsSilent(t *testing.T) {
	t.Parallel()
	d, s := newDelivery(&wall{})
	s.SetView(notice("hello"))
	s.Fail = func(chattest.Call) error { return errors.New("the server did not answer in time") }
	for name, in := range map[string]any{
		workflows.ActivityPostMessage: post("notice-1"),
		workflows.ActivityEditMessage: workflows.EditInput{WorkflowID: room.WorkflowID(), Thread: room, Key: "notice-1", Ref: "m1"},
	} {
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestActivityEnvironment()
		env.RegisterActivity(d)
		_, err := env.ExecuteActivity(name, in)
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app, name)
		require.Equal(t, workflows.ErrTypeUnanswered, app.Type(), name)
		require.Equal(t, time.Second, app.NextRetryDelay(), name)
	}
}

func running(tail string) workflows.MessageView {
	return workflows.MessageView{
		Key: "turn-1", Kind: workflows.KindTurn, Version: 2, Running: []string{"17.1.1.x1"},
		Turn: &workflows.TurnView{Number: 1, State: workflows.TurnWorking, Calls: []workflows.CallView{
			{ID: "17.1.1", ExecID: "17.1.1.x1", Command: "make", State: workflows.CallRunning, Tail: tail},
		}},
	}
}

// While a command runs its edit is run again and again, and brings its tail; an
// edit is made only when there is something new.
func TestEditFollowsARunningCommand(t *testing.T) {
	t.Parallel()
	w := &wall{posts: []wallPost{{"m1", "turn-1", ""}}}
	d, s := newDelivery(w)
	s.SetView(running(""))
	looks := 0
	s.Fail = func(c chattest.Call) error {
		if c.Method != "Message" {
			return nil
		}
		looks++
		switch looks {
		case 2, 3: // twice the same
			s.Execs = map[string]workflows.ExecProgress{"17.1.1.x1": {Tail: "compiling"}}
		case 4:
			s.Execs = map[string]workflows.ExecProgress{"17.1.1.x1": {Tail: "linking"}}
		case 5:
			done := running("")
			done.Running, done.Version = nil, 3
			done.Turn.Calls[0].State = workflows.CallCompleted
			s.Views["turn-1"] = done
		}
		return nil
	}
	res, err := chattest.Deliver(t, d, workflows.ActivityEditMessage, edit("turn-1", "m1"))
	require.NoError(t, err)
	require.Equal(t, workflows.PostResult{Ref: "m1", Version: 3}, res)
	require.Equal(t, 5, looks)
	require.Equal(t, 4, w.edits, "the third look found nothing new")
	require.Contains(t, w.texts()[0], "✓ make")
}

// An edit that gathers reads the view when it has waited, and once.
func TestEditGathersWhatComesSoon(t *testing.T) {
	t.Parallel()
	w := &wall{posts: []wallPost{{"m1", "notice-1", ""}}}
	d, s := newDelivery(w)
	in := edit("notice-1", "m1")
	in.Gather = 50 * time.Millisecond
	began := time.Now()
	s.SetView(notice("before"))
	s.Fail = func(c chattest.Call) error {
		if c.Method == "Message" && time.Since(began) < in.Gather {
			return errors.New("read too soon")
		}
		return nil
	}
	res, err := chattest.Deliver(t, d, workflows.ActivityEditMessage, in)
	require.NoError(t, err)
	require.Equal(t, workflows.PostResult{Ref: "m1", Version: 3}, res)
	require.Equal(t, 1, w.edits)
}

// knowing is a wall of a platform that knows its groups.
type knowing struct {
	*wall
	groups map[string][]string
}

func (k knowing) Members(_ context.Context, _ workflows.Thread, people []workflows.Actor) ([]workflows.Actor, error) {
	if k.err != nil {
		return nil, k.err
	}
	var out []workflows.Actor
	for _, p := range people {
		p.Groups = k.groups[p.ID]
		out = append(out, p)
	}
	return out, nil
}

func TestMembershipIsLookedUp(t *testing.T) {
	t.Parallel()
	in := workflows.MembershipInput{Thread: room, Approvers: []string{"oncall"}, People: []workflows.Actor{{ID: "kim", Groups: []string{"oncall"}}, {ID: "mo", Groups: []string{"oncall"}}}}
	check := func(p chat.Poster) ([]workflows.Actor, error) {
		var s testsuite.WorkflowTestSuite
		env := s.NewTestActivityEnvironment()
		d, _ := newDelivery(&wall{})
		d.Poster = p
		env.RegisterActivity(d)
		v, err := env.ExecuteActivity(workflows.ActivityCheckMembership, in)
		if err != nil {
			return nil, err
		}
		var res workflows.MembershipResult
		require.NoError(t, v.Get(&res))
		return res.People, nil
	}
	got, err := check(knowing{&wall{}, map[string][]string{"kim": {"oncall", "dev"}}})
	require.NoError(t, err)
	require.Equal(t, []workflows.Actor{{ID: "kim", Groups: []string{"oncall", "dev"}}, {ID: "mo"}}, got)

	got, err = check(&wall{})
	require.NoError(t, err)
	require.Equal(t, []workflows.Actor{{ID: "kim"}, {ID: "mo"}}, got, "who cannot be looked up is in no group")
	require.Equal(t, []string{"oncall"}, in.People[0].Groups)

	_, err = check(knowing{wall: &wall{err: errors.New("the service is down")}})
	require.ErrorContains(t, err, "looking up group members")
}

func TestEditOfADeletedMessagePostsItAnew(t *testing.T) {
	t.Parallel()
	w := &wall{}
	d, s := newDelivery(w)
	s.SetView(notice("hello"))
	res, err := chattest.Deliver(t, d, workflows.ActivityEditMessage, edit("notice-1", "m99"))
	require.NoError(t, err)
	require.Equal(t, workflows.PostResult{Ref: "m1", Version: 3}, res)
}

func TestRefreshDelayGrowsToItsBound(t *testing.T) {
	t.Parallel()
	w := &wall{posts: []wallPost{{"m1", "turn-1", ""}}}
	d, s := newDelivery(w)
	s.SetView(running(""))
	var delays []time.Duration
	started := time.Time{}
	_, err := chattest.Deliver(t, d, workflows.ActivityEditMessage, edit("turn-1", "m1"), func(env *testsuite.TestWorkflowEnvironment) {
		env.SetOnActivityStartedListener(func(*activity.Info, context.Context, converter.EncodedValues) {
			if !started.IsZero() {
				delays = append(delays, env.Now().Sub(started))
			}
			started = env.Now()
		})
	})
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.Equal(t, workflows.ErrTypeRefresh, app.Type())
	require.NotEmpty(t, delays)
	require.GreaterOrEqual(t, delays[0], 2*time.Second)
	require.Less(t, delays[0], 4*time.Second)
	last := delays[len(delays)-1]
	require.GreaterOrEqual(t, last, 30*time.Second)
	require.Less(t, last, 35*time.Second)
}

// Whatever a view holds, no secret reaches the platform.
func TestNothingIsPostedWithASecret(t *testing.T) {
	t.Parallel()
	shape, known := "ghp_"+strings.Repeat("a1B2", 9), "swordfish-one"
	text := "x " + shape + " y " + known + " z"
	w := &wall{}
	d, s := newDelivery(w)
	d.Mask = mask.New(known)
	s.SetView(workflows.MessageView{
		Key: "notice-1", Kind: workflows.KindApproval, Version: 1, Text: workflows.TextRef{Text: text},
		Header: &workflows.HeaderView{Title: text, Notice: text},
		Turn:   &workflows.TurnView{Error: text, Hint: text, Calls: []workflows.CallView{{Command: text, Tail: text, Note: text}}},
		Approval: &workflows.ApprovalView{
			Command: workflows.TextRef{Text: text}, Reasons: []string{text}, Text: text, Original: text, Remark: text,
			Votes: []workflows.Vote{{Reason: text}}, State: workflows.ApprovalPending, Displayable: true,
		},
	})
	all := &recorder{wall: w}
	d.Poster = all
	_, err := chattest.Deliver(t, d, workflows.ActivityPostMessage, post("notice-1"))
	require.NoError(t, err)
	data, err := json.Marshal(all.last)
	require.NoError(t, err)
	require.NotContains(t, string(data), shape)
	require.NotContains(t, string(data), known)
	require.Equal(t, "x ghp_"+mask.Mark+" y "+mask.Mark+" z", all.last.View.Approval.Command.Text)
}

// recorder keeps what was posted last.
type recorder struct {
	*wall
	last chat.Content
}

func (r *recorder) Post(ctx context.Context, c chat.Content) (string, error) {
	r.last = c
	return r.wall.Post(ctx, c)
}
