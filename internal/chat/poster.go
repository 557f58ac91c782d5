package chat

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/countersign/countersign/internal/workflows"
)

var (
	// ErrThreadGone: the thread was deleted, or nothing can be written to it.
	ErrThreadGone = errors.New("the thread cannot be written to any more")
	// ErrMessageGone: the message to edit was deleted.
	ErrMessageGone = errors.New("the message was deleted")
)

// RateLimitedError is a platform's refusal for now.
type RateLimitedError struct {
	// RetryAfter is when the platform takes such a call again.
	RetryAfter time.Duration
	Err        error
}

func (e *RateLimitedError) Error() string {
	return fmt.Sprintf("rate limited for %s: %v", e.RetryAfter, e.Err)
}

func (e *RateLimitedError) Unwrap() error { return e.Err }

// Content is what a message is to show.
type Content struct {
	WorkflowID string
	Thread     workflows.Thread
	// View is the newest view, the tails of running commands filled in.
	View workflows.MessageView
	// Text is the whole text of an answer or notice.
	Text string
	// Again: it was posted before, and deleted. Those whom it notified were notified.
	Again bool `json:"-"`
	// File is shown with the text when it is posted.
	File *File `json:"-"`
}

// File is a file of the workspace, for people.
type File struct {
	Name string
	Data []byte
}

// Found is a message of ours that stands in a thread.
type Found struct {
	Ref string
	// Version of the view that it shows; 0 where the platform cannot tell.
	Version int
}

// Limits are what a platform allows.
type Limits struct {
	// MinRefresh and MaxRefresh bound the time between two edits that only follow
	// a running command.
	MinRefresh, MaxRefresh time.Duration
}

// Poster writes to one platform. Its methods are called concurrently, and each
// may be called again for the same message by another process. Errors are
// [ErrThreadGone], [ErrMessageGone], [ErrRefused], [*RateLimitedError], or transient.
type Poster interface {
	// OpenThread posts the root of a new session's thread under in.Key, unless
	// it is there, and returns the thread with its ID. Where a person's message
	// is the root there is nothing to post. Where no thread can be opened for as
	// long as nobody changes something it returns [ErrThreadGone] with an [*Error]
	// that says why, tells who asked, and leaves no root that says otherwise.
	OpenThread(ctx context.Context, in workflows.OpenThreadInput) (workflows.Thread, error)
	// Find returns our messages in the thread that were posted under key since
	// the given time, oldest first. For the header's key, a root of ours counts.
	Find(ctx context.Context, t workflows.Thread, key string, since time.Time) ([]Found, error)
	// Post posts a message under its view's key and returns its reference.
	Post(ctx context.Context, c Content) (ref string, err error)
	// Edit makes the message show c. Equal content may be skipped.
	Edit(ctx context.Context, ref string, c Content) error
	// Delete removes an extra copy. One that is gone is no error.
	Delete(ctx context.Context, t workflows.Thread, ref string) error
	Limits() Limits
}

// Rooted is what a [Poster] is too whose threads may have a root of our own, which
// the header is shown in by edits.
type Rooted interface {
	// Root returns the reference of a thread's root that is ours; empty where a
	// person wrote it.
	Root(ctx context.Context, t workflows.Thread) (ref string, err error)
}

// Members is what a [Poster] of a platform with groups is too.
type Members interface {
	// Members returns the people as the platform vouches for them now: in which
	// groups they are, and whether they are bots, guests or of another
	// organisation. Who is gone is left out. What cannot be looked up is an error:
	// nothing is remembered from before.
	Members(ctx context.Context, t workflows.Thread, people []workflows.Actor) ([]workflows.Actor, error)
}
