package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Collected is what a collection removed, or would have.
type Collected struct {
	Blobs int
	Bytes int64
	// Kept is how many blobs stay.
	Kept int
}

// Collect removes blobs that none of the snapshots called needed consists of and
// that were written before the time old. needed is called once, after it is known
// which blobs might go: a snapshot that stands on an old blob is named by then, or
// its taker finds the blob gone and says so. Nothing is removed when needed fails
// or names what cannot be read. With dry nothing is removed at all.
func (s *Store) Collect(ctx context.Context, old time.Time, dry bool, needed func(context.Context) ([]string, error)) (Collected, error) {
	var res Collected
	type candidate struct {
		key  string
		size int64
	}
	var candidates []candidate
	for o, err := range s.Blobs.List(ctx, blobPrefix) {
		switch {
		case err != nil:
			return res, err
		case o.ModTime.Before(old) && IsRef("sha256:"+strings.TrimPrefix(o.Key, blobPrefix)):
			candidates = append(candidates, candidate{o.Key, o.Size})
		default:
			res.Kept++
		}
	}
	if len(candidates) == 0 {
		return res, nil
	}
	refs, err := needed(ctx)
	if err != nil {
		return res, err
	}
	marked, err := s.mark(ctx, refs)
	if err != nil {
		return res, err
	}
	for _, c := range candidates {
		if marked[c.key] {
			res.Kept++
			continue
		}
		gone, err := s.remove(ctx, c.key, old, dry)
		if err != nil {
			return res, err
		}
		if !gone {
			res.Kept++
			continue
		}
		res.Blobs++
		res.Bytes += c.size
	}
	return res, nil
}

// mark returns the keys of all that snapshots consist of. A snapshot that is not
// there is no reason to keep anything; one that cannot be read is an error.
func (s *Store) mark(ctx context.Context, refs []string) (map[string]bool, error) {
	marked := map[string]bool{}
	for _, ref := range refs {
		d, err := parseRef(ref)
		if err != nil {
			return nil, err
		}
		if marked[key(d)] {
			continue
		}
		m, _, err := s.manifest(ctx, ref)
		if errors.Is(err, ErrNotKept) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("looking at what is needed: %w", err)
		}
		marked[key(d)], marked[key(m.Config.Digest)] = true, true
		for _, l := range m.Layers {
			marked[key(l.Digest)] = true
		}
	}
	return marked, nil
}

// remove deletes a blob unless it was written anew meanwhile.
func (s *Store) remove(ctx context.Context, key string, old time.Time, dry bool) (bool, error) {
	at, err := s.Blobs.ModTime(ctx, key)
	if err != nil || !at.Before(old) || dry {
		return err == nil && at.Before(old), nil
	}
	return true, s.Blobs.Delete(ctx, key)
}

// IsRef tells whether a text can be a snapshot's reference.
func IsRef(text string) bool {
	_, err := parseRef(text)
	return err == nil
}

// ForgetOld drops what is known of sandboxes of which no snapshot was taken since
// before.
func (s *Store) ForgetOld(before time.Time) error {
	entries, err := os.ReadDir(s.State)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for old indexes: %w", err)
	}
	for _, e := range entries {
		last := strings.TrimSuffix(e.Name(), baseIndex)
		if last != e.Name() {
			last += lastIndex // a base is as old as the newest that stands on it
		}
		info, err := os.Stat(filepath.Join(s.State, last))
		if err == nil && info.ModTime().After(before) {
			continue
		}
		if err := os.Remove(filepath.Join(s.State, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing old indexes: %w", err)
		}
	}
	return nil
}
