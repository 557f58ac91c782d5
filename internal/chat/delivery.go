package chat

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// slowPost is how long a post may take before another attempt may have been
	// started meanwhile: half the heartbeat time-out of a post.
	slowPost = 5 * time.Second
	// lookAgain bounds the look for copies after an attempt whose context ended.
	lookAgain = 10 * time.Second
	// maxFailedQueries is how many attempts a session's refusal to answer is taken
	// for a passing state, such as a worker of an older version.
	maxFailedQueries = 20
	// maxHopeless is how often a message is tried that is refused in every form. Then
	// the session goes on without it: those behind it wait for it.
	maxHopeless = 5
	// heartbeatEvery is how often an activity says that it lives, and so how soon
	// it learns that it is cancelled.
	heartbeatEvery = time.Second
)

// Delivery is the chat side's activities: what brings a thread to a session's
// views. Register it on the platform's chat queues with
// worker.RegisterActivity(&Delivery{…}); the names are those in
// [workflows.ActivityPostMessage] and its kin. It keeps no state.
type Delivery struct {
	Poster Poster
	Views  Views
	Blobs  Blobs
	// Mask takes secrets out of all that is posted; nil knows their shapes only.
	Mask *mask.Masker
	Log  *slog.Logger
}

// OpenThread opens a new session's thread and returns it with its ID.
func (d *Delivery) OpenThread(ctx context.Context, in workflows.OpenThreadInput) (workflows.Thread, error) {
	stop := beat(ctx, nil)
	defer stop()
	in.Title = d.Mask.Text(in.Title)
	t, err := d.openThread(ctx, in)
	var refused *Error
	if errors.Is(err, ErrThreadGone) && errors.As(err, &refused) && ctx.Err() == nil {
		return t, temporal.NewNonRetryableApplicationError(refused.Text(), workflows.ErrTypeThreadGone, err)
	}
	if err != nil {
		return t, d.fail(ctx, "opening the thread", err)
	}
	return t, nil
}

// openThread opens a thread; one whose title cannot be rendered under a plain one.
func (d *Delivery) openThread(ctx context.Context, in workflows.OpenThreadInput) (t workflows.Thread, err error) {
	open := func() (err error) {
		t, err = d.Poster.OpenThread(ctx, in)
		return err
	}
	if err = caught(open); hopeless(err) {
		d.Log.Error("A thread cannot be opened under its title; it gets a plain one", "key", in.Key, telemetry.KeyError, err)
		in.Title = plainly(in.Title, plainLine)
		err = caught(open)
	}
	return t, err
}

// write posts a message; put brings one to what it is to show. See [written].
func (d *Delivery) write(ctx context.Context, c Content) (ref string, err error) {
	err = written(d.Log, c, func(c Content) (err error) {
		ref, err = d.Poster.Post(ctx, c)
		return err
	})
	return ref, err
}

func (d *Delivery) put(ctx context.Context, ref string, c Content) error {
	return written(d.Log, c, func(c Content) error { return d.Poster.Edit(ctx, ref, c) })
}

// ShowNotStarted says in a thread that was opened why no session runs there: where
// its header would be.
func (d *Delivery) ShowNotStarted(ctx context.Context, in workflows.NotStartedInput) error {
	stop := beat(ctx, nil)
	defer stop()
	c := masked(d.Mask, Content{
		WorkflowID: in.Thread.WorkflowID(), Thread: in.Thread,
		View: workflows.MessageView{Key: workflows.HeaderKey, Kind: workflows.KindHeader, Version: 1, Header: &workflows.HeaderView{
			Title: in.Title, By: in.By, Liveness: workflows.LivenessDestroyed, NotStarted: true, Notice: in.Text,
		}},
	})
	root, err := d.root(ctx, c)
	switch {
	case err != nil:
	case root != "":
		err = d.put(ctx, root, c)
	default:
		_, err = d.write(ctx, c)
	}
	if err != nil {
		return d.fail(ctx, "saying that the session did not start", err)
	}
	return nil
}

// PostMessage posts one message, once: a retry looks for the key first, and an
// attempt that may have raced another looks again and deletes the extra copy.
func (d *Delivery) PostMessage(ctx context.Context, in workflows.PostInput) (workflows.PostResult, error) {
	stop := beat(ctx, nil)
	defer stop()
	start, retried := time.Now(), activity.GetInfo(ctx).Attempt > 1
	if retried {
		found, err := d.only(ctx, in)
		if err != nil {
			return workflows.PostResult{}, d.fail(ctx, "looking for message "+in.Key, err)
		}
		if found != nil {
			return workflows.PostResult{Ref: found.Ref, Version: found.Version}, nil
		}
	}
	c, err := d.content(ctx, in.WorkflowID, in.Thread, in.Key)
	if err != nil {
		return workflows.PostResult{}, d.fail(ctx, "reading message "+in.Key, err)
	}
	if root, err := d.root(ctx, c); root != "" || err != nil {
		if err != nil {
			return workflows.PostResult{}, d.fail(ctx, "looking at the thread's root", err)
		}
		return workflows.PostResult{Ref: root}, nil
	}
	if err := d.withFile(ctx, &c); err != nil {
		return workflows.PostResult{}, d.fail(ctx, "reading message "+in.Key, err)
	}
	ref, err := d.write(ctx, c)
	if err != nil {
		return workflows.PostResult{}, d.fail(ctx, "posting message "+in.Key, err)
	}
	res := workflows.PostResult{Ref: ref, Version: c.View.Version}
	if !retried && ctx.Err() == nil && time.Since(start) < slowPost {
		return res, nil
	}
	lctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookAgain)
	defer cancel()
	found, err := d.only(lctx, in)
	switch {
	case err != nil:
		return res, d.fail(ctx, "looking for copies of message "+in.Key, err)
	case found != nil && found.Ref != ref:
		res = workflows.PostResult{Ref: found.Ref, Version: found.Version}
	}
	if ctx.Err() != nil {
		return res, ended(ctx)
	}
	return res, nil
}

// root is the root of ours that stands for a header already, for an edit to show
// it: posts wait for no edit, and both have their own rates.
func (d *Delivery) root(ctx context.Context, c Content) (string, error) {
	r, ok := d.Poster.(Rooted)
	if !ok || c.View.Header == nil {
		return "", nil
	}
	return r.Root(ctx, c.Thread)
}

// CheckMembership looks at who still is in the groups that a vote rests on. On a
// platform that cannot tell, nobody is in any.
func (d *Delivery) CheckMembership(ctx context.Context, in workflows.MembershipInput) (workflows.MembershipResult, error) {
	m, ok := d.Poster.(Members)
	if !ok {
		people := slices.Clone(in.People)
		for i := range people {
			people[i].Groups = nil
		}
		return workflows.MembershipResult{People: people}, nil
	}
	people, err := m.Members(ctx, in.Thread, in.People)
	if err != nil {
		return workflows.MembershipResult{}, d.fail(ctx, "looking up group members", err)
	}
	return workflows.MembershipResult{People: people}, nil
}

// errStopping makes Temporal run the activity again at once, on another bot.
var errStopping = errors.New("the bot is stopping")

// ended is the error of an activity whose context has ended: cancelled by the
// workflow, unless it is the bot that stops.
func ended(ctx context.Context) error {
	select {
	case <-activity.GetWorkerStopChannel(ctx):
		return errStopping
	default:
		return ctx.Err()
	}
}

// only returns the message that stands under a post's key, if any. Of several,
// which attempts that raced have left, the oldest stays: so all attempts keep
// the same one.
func (d *Delivery) only(ctx context.Context, in workflows.PostInput) (*Found, error) {
	found, err := d.Poster.Find(ctx, in.Thread, in.Key, in.First)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	for _, extra := range found[1:] {
		if err := d.Poster.Delete(ctx, in.Thread, extra.Ref); err != nil {
			return nil, fmt.Errorf("deleting the extra copy %s: %w", extra.Ref, err)
		}
		d.Log.Info("Extra copy of a message deleted", telemetry.KeyWorkflowID, in.WorkflowID, telemetry.KeyMessageID, extra.Ref)
	}
	return &found[0], nil
}

// shown is what an edit remembers from attempt to attempt, in heartbeat details.
type shown struct {
	// Digest of the content last brought to the message.
	Digest string `json:"digest,omitempty"`
	Ref    string `json:"ref,omitempty"`
}

// EditMessage brings a message to the newest view. While the view is live it fails retryably with [workflows.ErrTypeRefresh] and its next delay,
// so that following a command adds no history.
func (d *Delivery) EditMessage(ctx context.Context, in workflows.EditInput) (workflows.PostResult, error) {
	last := &sticky{}
	if activity.HasHeartbeatDetails(ctx) {
		_ = activity.GetHeartbeatDetails(ctx, &last.shown) // absent or old: then the edit is made
	}
	if last.shown.Ref != "" {
		in.Ref = last.shown.Ref
	}
	stop := beat(ctx, last)
	defer stop()
	if activity.GetInfo(ctx).Attempt == 1 {
		pause(ctx, in.Gather)
	}
	c, err := d.content(ctx, in.WorkflowID, in.Thread, in.Key)
	if err != nil {
		return workflows.PostResult{}, d.fail(ctx, "reading message "+in.Key, err)
	}
	digest := digestOf(c)
	if digest != last.get().Digest {
		if in.Ref, err = d.edit(ctx, in, c); err != nil {
			return workflows.PostResult{}, d.fail(ctx, "editing message "+in.Key, err)
		}
		last.set(shown{Digest: digest, Ref: in.Ref})
		if c.View.Live() {
			activity.RecordHeartbeat(ctx, last.get()) // for the next attempt
		}
	}
	if c.View.Live() {
		if ctx.Err() != nil {
			return workflows.PostResult{}, ended(ctx)
		}
		return workflows.PostResult{}, temporal.NewApplicationErrorWithOptions("what the card shows moves on; it is refreshed",
			workflows.ErrTypeRefresh, temporal.ApplicationErrorOptions{
				NextRetryDelay: d.refreshDelay(activity.GetInfo(ctx).Attempt),
				Category:       temporal.ApplicationErrorCategoryBenign,
			})
	}
	return workflows.PostResult{Ref: in.Ref, Version: c.View.Version}, nil
}

// pause waits, but not for what its activity does not wait for.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	case <-activity.GetWorkerStopChannel(ctx):
	}
}

// edit makes a message show c; one that somebody deleted is posted anew, unless that
// has been done: by an attempt that nobody heard of, or by [Restore]. Nothing is posted
// for a session that is over.
func (d *Delivery) edit(ctx context.Context, in workflows.EditInput, c Content) (string, error) {
	if in.Ref == "" {
		return d.editPosted(ctx, in.First, c)
	}
	err := d.put(ctx, in.Ref, c)
	if !errors.Is(err, ErrMessageGone) {
		return in.Ref, err
	}
	if dated, ok := d.Poster.(Dated); ok {
		found, err := d.Poster.Find(ctx, c.Thread, c.View.Key, dated.PostedAt(in.Ref))
		if err != nil {
			return in.Ref, err
		}
		for _, f := range found {
			if f.Ref != in.Ref {
				return f.Ref, d.put(ctx, f.Ref, c)
			}
		}
	}
	if c.View.Over {
		return in.Ref, nil
	}
	c.Again = true
	return d.write(ctx, c)
}

// editPosted edits a message if it was posted since the given time.
func (d *Delivery) editPosted(ctx context.Context, since time.Time, c Content) (string, error) {
	found, err := d.Poster.Find(ctx, c.Thread, c.View.Key, since)
	if err != nil || len(found) == 0 {
		return "", err
	}
	if err := d.put(ctx, found[0].Ref, c); !errors.Is(err, ErrMessageGone) {
		return found[0].Ref, err
	}
	return "", nil
}

// refreshDelay grows by a third with each attempt.
func (d *Delivery) refreshDelay(attempt int32) time.Duration {
	l := d.Poster.Limits()
	delay := l.MinRefresh
	for i := int32(1); i < attempt && delay < l.MaxRefresh; i++ {
		delay += delay / 3
	}
	return min(delay, l.MaxRefresh)
}

// content reads what a message should show now, masked.
func (d *Delivery) content(ctx context.Context, workflowID string, t workflows.Thread, key string) (Content, error) {
	v, err := d.Views.Message(ctx, workflowID, key)
	if err != nil {
		return Content{}, &unansweredError{err}
	}
	c := Content{WorkflowID: workflowID, Thread: t, View: v}
	if c.Text, err = GetText(ctx, d.Blobs, v.Text); err != nil {
		return c, fmt.Errorf("reading its text: %w", err)
	}
	if v.Live() && v.Turn != nil {
		c.View.Turn = d.withTails(ctx, workflowID, *v.Turn, v.Thinking)
	}
	return masked(d.Mask, c), nil
}

// unansweredError is that a session did not say what a message should show.
type unansweredError struct{ error }

func (e *unansweredError) Unwrap() error { return e.error }

// askAgainAfter is the pause before a session that did not answer is asked again.
// It does not grow, as the pause after a failure of the chat service does: a
// worker or the server is away, and the thread is to be right soon after it is
// back.
const askAgainAfter = time.Second

// withTails fills in the live tails and the model's words. Without them, when the server does not say,
// the card is shown all the same.
func (d *Delivery) withTails(ctx context.Context, workflowID string, t workflows.TurnView, thinking bool) *workflows.TurnView {
	tails, err := d.Views.Tails(ctx, workflowID)
	if err != nil {
		d.Log.Warn("Live tails are not known", telemetry.KeyWorkflowID, workflowID, telemetry.KeyError, err)
		return &t
	}
	t.Calls = slices.Clone(t.Calls)
	for i := range t.Calls {
		if p, ok := tails.Execs[t.Calls[i].ExecID]; ok && t.Calls[i].State == workflows.CallRunning {
			t.Calls[i].Tail = p.Tail
		}
	}
	if thinking {
		t.Says = tails.Model
	}
	return &t
}

func digestOf(c Content) string {
	c.View.Version = 0 // a version that changes nothing to see needs no edit
	data, err := json.Marshal(c)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// fail turns an error into what Temporal does with it: retried, unless the
// thread or message is gone for good, or the message refused in every form.
func (d *Delivery) fail(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return ended(ctx)
	}
	var limited *RateLimitedError
	var query *serviceerror.QueryFailed
	var unanswered *unansweredError
	switch {
	case errors.As(err, &limited):
		return temporal.NewApplicationErrorWithOptions(doing, workflows.ErrTypeRateLimited,
			temporal.ApplicationErrorOptions{NextRetryDelay: limited.RetryAfter, Cause: err})
	case errors.Is(err, ErrThreadGone):
		return temporal.NewNonRetryableApplicationError(doing, workflows.ErrTypeThreadGone, err)
	case hopeless(err) && activity.GetInfo(ctx).Attempt >= maxHopeless:
		return temporal.NewNonRetryableApplicationError(doing, workflows.ErrTypeRefused, err)
	case errors.Is(err, workflows.ErrNoSession), errors.As(err, &query) && activity.GetInfo(ctx).Attempt >= maxFailedQueries:
		return temporal.NewNonRetryableApplicationError(doing, workflows.ErrTypeNotFound, err)
	case errors.As(err, &unanswered):
		return temporal.NewApplicationErrorWithOptions(doing, workflows.ErrTypeUnanswered,
			temporal.ApplicationErrorOptions{NextRetryDelay: askAgainAfter, Cause: err})
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// sticky is the heartbeat detail that every beat repeats.
type sticky struct {
	mu    sync.Mutex
	shown shown
}

func (s *sticky) get() shown {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown
}

func (s *sticky) set(v shown) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = v
}

// beat records heartbeats until stop is called.
func beat(ctx context.Context, s *sticky) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(heartbeatEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
				if s == nil {
					activity.RecordHeartbeat(ctx)
				} else {
					activity.RecordHeartbeat(ctx, s.get())
				}
			}
		}
	})
	return func() { close(done); wg.Wait() }
}
