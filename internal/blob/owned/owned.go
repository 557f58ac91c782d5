// Package owned names the blobs that last as long as the session that they are of,
// and removes them after it. A blob of a session stands at
//
//	<kind>/<workflow ID>/<SHA-256 of its content>
//
// so that its key alone says whose it is; what commands wrote has three parts after
// the workflow ID, and a conversation's names begin with a number. Uploads and long
// messages are the exception: they are there before anybody knows which session will
// get them.
//
// What is on record about a session, `audit/` and the whole commands in `commands/`,
// is no kind of these, and stays.
package owned

import (
	"context"
	"errors"
	"path"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/blob"
)

// Kinds of blobs that go with their session.
const (
	// Attached are files that people attached, on their way into the workspace.
	Attached = "attached"
	// Sent are files of the workspace that were shown in the thread.
	Sent = "sent"
	// Waiting are messages that the model was not given yet.
	Waiting = "waiting"
	// Seen are identities of messages that were taken.
	Seen = "seen"
	// Texts are long texts of the model: answers, and arguments of its calls.
	Texts = "texts"
	// Arguments are those of calls that a person has changed.
	Arguments = "arguments"
	// Bindings are what verdicts rest on, under their digests; Details is what Review
	// shows beside a command.
	Bindings = "bindings"
	Details  = "details"
	// Outputs are what the model read of calls' results, Guides the AGENTS.md files
	// that it was given.
	Outputs = "outputs"
	Guides  = "guides"
	// Execs are the full outputs of commands.
	Execs = "execs"
)

// Kinds of blobs that a session's conversation consists of. They go when the session
// and all that were made from it are over: a fork shares its source's past.
const (
	Transcripts = "transcripts"
	Images      = "images"
)

// Kinds of blobs that are needed until their message's session has taken it:
// <kind>/<SHA-256>.
const (
	// Uploads are files that people have handed to a bot.
	Uploads = "uploads"
	// Messages are people's texts that are too long for history.
	Messages = "messages"
)

// execParts is how many parts the key of a command's output has after the workflow ID:
// exec, stream and offset.
const execParts = 3

var (
	sessions  = []string{Attached, Sent, Waiting, Seen, Texts, Arguments, Bindings, Details, Outputs, Guides, Execs}
	inherited = []string{Transcripts, Images}
	arriving  = []string{Uploads, Messages}
)

// Prefix is what the keys of a session's blobs of one kind stand below.
func Prefix(kind, workflowID string) string { return kind + "/" + workflowID }

// owner is the workflow ID of the session whose blob of a kind it is; empty where the
// key does not say.
func owner(kind, key string) string {
	id, parts := strings.TrimPrefix(key, kind+"/"), 1
	if kind == Execs {
		parts = execParts
	}
	for range parts {
		if !strings.Contains(id, "/") {
			return ""
		}
		id = path.Dir(id)
	}
	return id
}

// Needs tells what of sessions is still needed.
type Needs interface {
	// Over reports that a session has ended so long ago that nobody asks for its blobs
	// any more. Of what is not known it says false.
	Over(workflowID string) bool
	// Inherited reports that a session which is not over may have been made from this
	// one, or from one that was.
	Inherited(workflowID string) bool
	// Arriving reports that an upload's or a long text's message waits to be taken.
	Arriving(key string) bool
}

// Collected is what was removed, or would be.
type Collected struct {
	Blobs int
	Bytes int64
	// Kept is how many blobs stay.
	Kept int
}

// Candidates lists the uploads and messages that were written before a time, and
// counts the others. It goes before asking what is needed: what is asked for anew
// meanwhile has been written anew, or is named by the answer.
func Candidates(ctx context.Context, s *blob.Store, before time.Time) (old []blob.Object, kept int, err error) {
	for _, kind := range arriving {
		for o, err := range s.List(ctx, kind+"/") {
			switch {
			case err != nil:
				return nil, 0, err
			case o.ModTime.Before(before):
				old = append(old, o)
			default:
				kept++
			}
		}
	}
	return old, kept, nil
}

// Remove removes those of the candidates that nobody needs, and what is of sessions
// that are over: of both only what was not written anew meanwhile. It may be cut short
// anywhere and done again. With dry nothing is removed.
func Remove(ctx context.Context, s *blob.Store, candidates []blob.Object, before time.Time, dry bool, n Needs) (Collected, error) {
	c := collection{store: s, before: before, dry: dry}
	for _, o := range candidates {
		if err := c.look(ctx, o, !n.Arriving(o.Key)); err != nil {
			return c.res, err
		}
	}
	for _, kind := range sessions {
		if err := c.ofSessions(ctx, kind, n.Over); err != nil {
			return c.res, err
		}
	}
	for _, kind := range inherited {
		err := c.ofSessions(ctx, kind, func(id string) bool { return n.Over(id) && !n.Inherited(id) })
		if err != nil {
			return c.res, err
		}
	}
	return c.res, nil
}

type collection struct {
	store  *blob.Store
	before time.Time
	dry    bool
	res    Collected
}

// ofSessions looks at all blobs of a kind.
func (c *collection) ofSessions(ctx context.Context, kind string, over func(workflowID string) bool) error {
	last := ""
	for o, err := range c.store.List(ctx, kind+"/") {
		if err != nil {
			return err
		}
		id := owner(kind, o.Key)
		unneeded := id != "" && o.ModTime.Before(c.before) && over(id)
		if err := c.look(ctx, o, unneeded); err != nil {
			return err
		}
		if unneeded && id != last {
			if err := c.prune(kind, last); err != nil {
				return err
			}
			last = id
		}
	}
	return c.prune(kind, last)
}

// prune removes what directories are left of a session's blobs of a kind.
func (c *collection) prune(kind, workflowID string) error {
	if workflowID == "" || c.dry {
		return nil
	}
	return c.store.Prune(Prefix(kind, workflowID))
}

// look removes a blob that nobody needs, unless it was written anew meanwhile.
func (c *collection) look(ctx context.Context, o blob.Object, unneeded bool) error {
	if !unneeded {
		c.res.Kept++
		return nil
	}
	at, err := c.store.ModTime(ctx, o.Key)
	switch {
	case errors.Is(err, blob.ErrNotFound): // somebody else's collection
		return nil
	case err != nil:
		return err
	case !at.Before(c.before):
		c.res.Kept++
		return nil
	}
	if !c.dry {
		if err := c.store.Delete(ctx, o.Key); err != nil {
			return err
		}
	}
	c.res.Blobs++
	c.res.Bytes += o.Size
	return nil
}
