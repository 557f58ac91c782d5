package workflows

import (
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Priorities of chat tasks: lower runs first. What says how things stand goes
// before what only moves on: where many sessions share a rate, progress waits.
const (
	priorityApproval = 1
	priorityAnswer   = 2
	priorityState    = 3
	priorityProgress = 4
)

// cardWait is how long a card may be behind a command that has just begun. An edit
// costs as much as the command's own two events, on every side.
const cardWait = 150 * time.Millisecond

// gatherFor is how long an edit waits for what is likely to come next: more progress,
// or the end of a command that was approved. It is no event in history; an edit is
// several, on every side.
const gatherFor = 250 * time.Millisecond

// decidedFor is the same for a card whose request was approved: who waits for it sees
// that, and a short command's end with it.
const decidedFor = 100 * time.Millisecond

// edit is the one edit of a message that may be in flight. One that is active and
// cannot be cancelled has not begun: it reads the newest view.
type edit struct {
	active bool
	cancel workflow.CancelFunc
	// refreshing: the edit has seen, or may have seen, a running exec, and so
	// repeats until it is cancelled.
	refreshing bool
	// until is when it reads the view, at the soonest: before, there is nothing to
	// cancel.
	until time.Time
	// superseded: it was cancelled for a newer view. An attempt under way may end
	// with its own error then, which says nothing about that view.
	superseded bool
}

// post finds a message of the thread by its key.
func (s *session) post(key string) *Post {
	for _, p := range s.st.Posts {
		if p.View.Key == key {
			return p
		}
	}
	return nil
}

// show adds a message to the thread.
func (s *session) show(v MessageView) *Post {
	v.Version = 1
	p := &Post{View: v}
	s.st.Posts = append(s.st.Posts, p)
	return p
}

// notice adds a short message of our own.
func (s *session) notice(text string) {
	s.st.Notices++
	p := s.show(MessageView{
		Key: "notice-" + itoa(s.st.Notices), Kind: KindNotice,
		Text: TextRef{Text: text, Bytes: len(text)},
	})
	p.Final = true
}

func (e edit) begun() bool { return e.active && e.cancel != nil }

// changed marks a message's view as newer than what the thread shows. An edit
// that repeats is cancelled, so that the next one reads the new view at once; one that
// still waits for more reads it anyway.
func (s *session) changed(p *Post) {
	if p == nil {
		return
	}
	p.View.Version++
	if !p.edit.begun() {
		return
	}
	if p.edit.refreshing && !s.clock().Before(p.edit.until) {
		p.edit.superseded = true
		p.edit.cancel()
	}
	if p.View.Live() {
		p.edit.refreshing = true
	}
}

// project keeps the thread equal to the views until the run drains: posts one
// after the other, in order; edits beside them, one for each message.
func (s *session) project(ctx workflow.Context) {
	workflow.Go(ctx, s.postLoop)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			_ = workflow.Await(ctx, func() bool { return s.draining || s.stale() != nil || s.droppable() })
			if ctx.Err() != nil || s.draining {
				return
			}
			s.drop()
			if p := s.stale(); p != nil {
				p.edit = edit{active: true}
				workflow.Go(ctx, func(ctx workflow.Context) { s.editLoop(ctx, p) })
			}
		}
	})
}

// stale is a posted message whose view is newer and that no edit is working on.
func (s *session) stale() *Post {
	for _, p := range s.st.Posts {
		if p.Ref != "" && !p.edit.active && p.behind() {
			return p
		}
	}
	return nil
}

func (p *Post) behind() bool { return !p.Gone && p.Shown < p.View.Version }

func (p *Post) droppable() bool {
	return p.Final && !p.edit.active && (p.Gone || (p.Ref != "" && !p.behind()))
}

func (s *session) droppable() bool {
	return slices.ContainsFunc(s.st.Posts, (*Post).droppable)
}

// drop forgets messages that will not change any more.
func (s *session) drop() {
	s.st.Posts = slices.DeleteFunc(s.st.Posts, (*Post).droppable)
}

// settled reports whether the thread shows all that it should.
func (s *session) settled() bool {
	for _, p := range s.st.Posts {
		if !p.Gone && (p.Ref == "" || p.behind() || p.edit.active) {
			return false
		}
	}
	return true
}

func (s *session) nextPost() *Post {
	for _, p := range s.st.Posts {
		if p.Ref == "" && !p.Gone {
			return p
		}
	}
	return nil
}

func (s *session) postLoop(ctx workflow.Context) {
	for {
		_ = workflow.Await(ctx, func() bool { return s.draining || s.nextPost() != nil })
		if ctx.Err() != nil || s.draining {
			return
		}
		p := s.nextPost()
		_ = workflow.Await(ctx, func() bool { return s.draining || s.mayFollow(p) })
		if ctx.Err() != nil || s.draining {
			return
		}
		s.posting = true
		s.deliver(ctx, p)
		s.posting = false
	}
}

// mayFollow reports whether a message may be posted now. Where edits have no rate to
// wait for, an answer follows the last edit of its turn's card: who reads the answer
// finds there how each call ended. A card that goes on moving, for a command in the
// background, holds nothing up.
func (s *session) mayFollow(p *Post) bool {
	if s.st.Thread.Platform != PlatformWeb || p.After == "" {
		return true
	}
	card := s.post(p.After)
	return card == nil || card.View.Live() || !card.behind() && !card.edit.active
}

// deliver posts one message. A thread that cannot be written to any more leaves
// the message undelivered; who waits for it is told by Gone.
func (s *session) deliver(ctx workflow.Context, p *Post) {
	if p.First.IsZero() {
		p.First = workflow.Now(ctx)
	}
	ctx = postOptions(ctx, s.st.Thread.PostQueue(), p.priority(), s.st.Thread.postKey())
	var res PostResult
	err := workflow.ExecuteActivity(ctx, ActivityPostMessage, PostInput{
		WorkflowID: s.id, Thread: s.st.Thread, Key: p.View.Key, First: p.First,
	}).Get(ctx, &res)
	if err != nil {
		workflow.GetLogger(ctx).Error("Message could not be posted", "key", p.View.Key, "error", err)
		p.Gone = true
		return
	}
	p.Ref, p.Shown = res.Ref, res.Version
	// A live view must be followed, whatever version was posted.
	if p.View.Live() && !p.behind() {
		p.View.Version++
	}
}

func (s *session) editLoop(ctx workflow.Context, p *Post) {
	defer func() { p.edit = edit{} }()
	for p.behind() && !s.draining {
		ectx, cancel := workflow.WithCancel(ctx)
		wait := p.gather()
		p.edit = edit{active: true, cancel: cancel, refreshing: p.View.Live(), until: workflow.Now(ctx).Add(wait)}
		ectx = postOptions(ectx, s.st.Thread.EditQueue(), p.priority(), s.id)
		var res PostResult
		err := workflow.ExecuteActivity(ectx, ActivityEditMessage, EditInput{
			WorkflowID: s.id, Thread: s.st.Thread, Key: p.View.Key, Ref: p.Ref, Gather: wait,
		}).Get(ectx, &res)
		cancel()
		switch {
		case err == nil:
			p.Shown = max(p.Shown, res.Version)
		case temporal.IsCanceledError(err), s.draining, p.edit.superseded:
		case isErrType(err, ErrTypeThreadGone):
			p.Gone = true
		default:
			// Retried for ever by its policy, so this is a refusal: what is shown
			// stays older than the state, and the next change tries again.
			workflow.GetLogger(ctx).Error("Message could not be edited", "key", p.View.Key, "error", err)
			p.Shown = p.View.Version
		}
	}
}

// priority is that of bringing the message to its view.
func (p *Post) priority() int {
	switch v := p.View; {
	case v.Kind == KindApproval:
		return priorityApproval
	case v.Kind == KindAnswer, v.Kind == KindNotice:
		return priorityAnswer
	case v.Header != nil && (v.Header.Liveness != LivenessActive || p.Shown == 0):
		return priorityState
	case v.Turn != nil && v.Turn.State != TurnWorking:
		return priorityState
	}
	return priorityProgress
}

// gather is how long an edit of the message waits for more. Who clicked has his answer
// by then.
func (p *Post) gather() time.Duration {
	switch a := p.View.Approval; {
	case a != nil && a.State == ApprovalApproved:
		return decidedFor
	case p.priority() == priorityProgress:
		return gatherFor
	}
	return 0
}

// isErrType reports whether err is an application error of the given type.
func isErrType(err error, typ string) bool {
	var app *temporal.ApplicationError
	return errors.As(err, &app) && app.Type() == typ
}

// message answers [QueryMessage].
func (s *session) message(key string) (MessageView, error) {
	if p := s.post(key); p != nil {
		return p.View, nil
	}
	return MessageView{}, errors.New("no message " + key + " is shown any more")
}
