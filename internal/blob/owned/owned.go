// Package owned names the blobs that last as long as the session that they are of,
// and removes them after it. A blob of a session stands at
//
//	<kind>/<workflow ID>/<SHA-256 of its content>
//
// so that its key alone says whose it is. Uploads are the exception: they are there
// before anybody knows which session will get them.
package owned

import (
	"context"
	"errors"
	"path"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/blob"
)

// Kinds of blobs.
const (
	// Attached are files that people attached, on their way into the workspace.
	Attached = "attached"
	// Sent are files of the workspace that were shown in the thread.
	Sent = "sent"
	// Waiting are messages that the model was not given yet.
	Waiting = "waiting"
	// Seen are identities of messages that were taken.
	Seen = "seen"
	// Uploads are files that people have handed to a bot: <kind>/<SHA-256>. They are
	// needed until their message's session has fetched them.
	Uploads = "uploads"
)

var kinds = []string{Attached, Sent, Waiting, Seen}

// Prefix is what the keys of a session's blobs of one kind stand below.
func Prefix(kind, workflowID string) string { return kind + "/" + workflowID }

// owner is the workflow ID of the session whose blob it is; empty where the key does
// not say.
func owner(key string) string {
	for _, kind := range kinds {
		if rest, ok := strings.CutPrefix(key, kind+"/"); ok && strings.Contains(rest, "/") {
			return path.Dir(rest)
		}
	}
	return ""
}

// Needs tells what of sessions is still needed.
type Needs interface {
	// Over reports that a session has ended so long ago that nobody asks for its blobs
	// any more. Of what is not known it says false.
	Over(workflowID string) bool
	// File reports that an upload's message waits to be taken.
	File(key string) bool
}

// Collected is what was removed, or would be.
type Collected struct {
	Blobs int
	Bytes int64
	// Kept is how many blobs stay.
	Kept int
}

// Candidates lists the blobs that were written before a time, and counts the others.
// It goes before asking what is needed: what is asked for anew meanwhile has been
// written anew, or is named by the answer.
func Candidates(ctx context.Context, s *blob.Store, before time.Time) (old []blob.Object, kept int, err error) {
	for _, kind := range append([]string{Uploads}, kinds...) {
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

// Remove removes those of the candidates that nobody needs and that were not written
// anew meanwhile. It may be cut short anywhere and done again. With dry nothing is
// removed.
func Remove(ctx context.Context, s *blob.Store, candidates []blob.Object, before time.Time, dry bool, n Needs) (res Collected, err error) {
	for _, o := range candidates {
		if !unneeded(o.Key, n) {
			res.Kept++
			continue
		}
		at, err := s.ModTime(ctx, o.Key)
		switch {
		case errors.Is(err, blob.ErrNotFound): // somebody else's collection
			continue
		case err != nil:
			return res, err
		case !at.Before(before):
			res.Kept++
			continue
		}
		if !dry {
			if err := s.Delete(ctx, o.Key); err != nil {
				return res, err
			}
		}
		res.Blobs++
		res.Bytes += o.Size
	}
	return res, nil
}

func unneeded(key string, n Needs) bool {
	if strings.HasPrefix(key, Uploads+"/") {
		return !n.File(key)
	}
	id := owner(key)
	return id != "" && n.Over(id)
}
