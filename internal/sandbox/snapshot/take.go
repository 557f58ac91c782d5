package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	digest "github.com/opencontainers/go-digest"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/sandbox/ignore"
)

const (
	// maxLayers is how long a chain grows before it is squashed: each layer costs a
	// restore one more read, and container engines stop at 127.
	maxLayers = 16
	// slack is how much of a chain may be of no use any more besides what is, in
	// bytes.
	slack = 64 << 20 // 64 MiB
	// tick is longer than the steps in which file systems count time: what changes
	// again within one might look unchanged.
	tick = 20 * time.Millisecond
)

// ErrIgnoreFile says that the workspace's ignore file is too long to be read.
var ErrIgnoreFile = fmt.Errorf("%s is over %d KiB", ignore.File, ignore.MaxFile>>10)

// Store keeps snapshots in a blob store. It is safe for concurrent use, by one
// caller for each sandbox.
type Store struct {
	Blobs *blob.Store
	// Temp is a directory for layers in the making, State one for what is known of
	// each sandbox's files. What is lost of State costs a whole snapshot.
	Temp, State string
}

// Taken is a snapshot that was taken.
type Taken struct {
	// Ref names it: the digest of an OCI manifest.
	Ref string
	Content
	// Layers is how many it consists of, Stored how many bytes were added to the
	// store for it.
	Layers int
	Stored int64
}

// Take stores what a sandbox's tree holds, without what its ignore file and
// [ignore.Caches] leave out. A tree that has not changed gives the snapshot before.
func (s *Store) Take(ctx context.Context, sandbox string, tree Tree) (Taken, error) {
	last := s.load(ctx, sandbox)
	now, newest, err := s.look(ctx, last, tree)
	if err != nil {
		return Taken{}, err
	}
	res, err := s.store(ctx, sandbox, last, now, tree)
	if err != nil {
		return Taken{}, err
	}
	return res, settle(ctx, newest)
}

// Seeded notes that a sandbox's tree holds a snapshot, as it was restored: the
// next one costs only what changes from now on.
func (s *Store) Seeded(ctx context.Context, sandbox, ref string, tree Tree) error {
	layers, err := s.layers(ctx, ref)
	if err != nil {
		return err
	}
	now, newest, err := s.look(ctx, nil, tree)
	if err != nil {
		return err
	}
	now.ref, now.layers = ref, layers
	if err := s.keep(sandbox, now, true); err != nil {
		return err
	}
	return settle(ctx, newest)
}

// Forget drops what is known of a sandbox that is gone.
func (s *Store) Forget(sandbox string) {
	_ = os.Remove(s.file(sandbox, lastIndex))
	_ = os.Remove(s.file(sandbox, baseIndex))
}

// An index is kept of the newest snapshot, and of the one that its chain began
// with: what a squashed chain stands on.
const (
	lastIndex = ".last"
	baseIndex = ".base"
)

func (s *Store) file(sandbox, which string) string {
	sum := sha256.Sum256([]byte(sandbox))
	return filepath.Join(s.State, hex.EncodeToString(sum[:16])+which)
}

// load returns what is known of the sandbox's newest snapshot; nil where there is
// none that a further layer can stand on.
func (s *Store) load(ctx context.Context, sandbox string) *index {
	x := readIndex(s.file(sandbox, lastIndex))
	if x == nil {
		return nil
	}
	layers, err := s.layers(ctx, x.ref)
	if err != nil || len(layers) != len(x.layers) {
		return nil
	}
	for i, l := range layers {
		if n, err := s.Blobs.Size(ctx, key(l.digest)); l.digest != x.layers[i].digest || err != nil || n != l.size {
			return nil
		}
	}
	return x
}

// layers are those of a stored snapshot. How much they hold is not known of them.
func (s *Store) layers(ctx context.Context, ref string) ([]layer, error) {
	m, _, err := s.manifest(ctx, ref)
	if err != nil {
		return nil, err
	}
	var config struct {
		RootFS struct {
			DiffIDs []digest.Digest `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if _, err := s.getJSON(ctx, m.Config.Digest, &config); err != nil {
		return nil, err
	}
	if len(config.RootFS.DiffIDs) != len(m.Layers) {
		return nil, fmt.Errorf("%w: its config is of another", ErrDamaged)
	}
	out := make([]layer, len(m.Layers))
	for i, l := range m.Layers {
		out[i] = layer{digest: l.Digest, diff: config.RootFS.DiffIDs[i], size: l.Size}
	}
	return out, nil
}

// look lists the tree without what is left out of it, and tells when the newest
// change was.
func (s *Store) look(ctx context.Context, last *index, tree Tree) (*index, int64, error) {
	all, err := list(ctx, tree)
	if err != nil {
		return nil, 0, fmt.Errorf("listing the workspace: %w", err)
	}
	now := &index{}
	var newest int64
	for i := range all {
		newest = max(newest, all[i].ChangeTime)
		if all[i].Name == ignore.File && all[i].Kind == File {
			if now.rules, err = rules(ctx, last, &all[i], tree); err != nil {
				return nil, 0, err
			}
		}
	}
	now.entries = leaveOut(all, ignore.Parse(ignore.Caches, now.rules))
	return now, newest, nil
}

// rules is the workspace's ignore file, read anew only when it has changed.
func rules(ctx context.Context, last *index, e *Entry, tree Tree) (text string, err error) {
	if last != nil {
		for i := range last.entries {
			if was := &last.entries[i]; was.Name == e.Name && e.same(was) {
				return last.rules, nil
			}
		}
	}
	if e.Size > ignore.MaxFile {
		return "", ErrIgnoreFile
	}
	err = tree.Read(ctx, []string{ignore.File}, func(_ string, _ int64, r io.Reader) error {
		data, err := io.ReadAll(r)
		text = string(data)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", ignore.File, err)
	}
	return text, nil
}

// list is everything in a tree, in the order of names.
func list(ctx context.Context, tree Tree) ([]Entry, error) {
	var all []Entry
	err := tree.List(ctx, func(e Entry) error {
		if !clean(e.Name) {
			return fmt.Errorf("the workspace has an entry %q", e.Name)
		}
		all = append(all, e)
		return nil
	})
	sortEntries(all)
	return all, err
}

// leaveOut drops what the rules ignore, and what lies in no directory that is
// kept.
func leaveOut(all []Entry, rules ignore.Rules) []Entry {
	kept := all[:0]
	dirs := map[string]bool{".": true}
	for _, e := range all {
		if !dirs[path.Dir(e.Name)] || rules.Match(e.Name, e.Kind == Dir) {
			continue
		}
		if e.Kind == Dir {
			dirs[e.Name] = true
		}
		kept = append(kept, e)
	}
	return kept
}

// store adds what changed since the last snapshot, or squashes its chain.
func (s *Store) store(ctx context.Context, sandbox string, last, now *index, tree Tree) (Taken, error) {
	if last == nil {
		return s.whole(ctx, sandbox, now, tree)
	}
	c := diff(last.entries, now.entries)
	live, chain := now.live(), c.bytes()
	for _, l := range last.layers {
		chain += max(l.bytes, l.size)
	}
	switch {
	case c.empty():
		return Taken{Ref: last.ref, Content: contentOf(now.entries), Layers: len(last.layers)}, nil
	case len(last.layers) < maxLayers && chain <= 2*live+slack:
		return s.add(ctx, sandbox, now, last.layers, &c, tree, false)
	}
	if base := readIndex(s.file(sandbox, baseIndex)); base != nil && len(base.layers) <= maxLayers/2 && startsWith(last.layers, base.layers) {
		if c := diff(base.entries, now.entries); c.bytes() <= live/2 {
			return s.add(ctx, sandbox, now, base.layers, &c, tree, false)
		}
	}
	return s.whole(ctx, sandbox, now, tree)
}

func startsWith(layers, with []layer) bool {
	return len(layers) >= len(with) && slices.EqualFunc(layers[:len(with)], with, func(a, b layer) bool { return a.digest == b.digest })
}

// whole stores the tree as the first layer of a new chain.
func (s *Store) whole(ctx context.Context, sandbox string, now *index, tree Tree) (Taken, error) {
	c := diff(nil, now.entries)
	return s.add(ctx, sandbox, now, nil, &c, tree, true)
}

// add stores a change as a layer upon others: the layer first, the image that
// names it after that, and last of all what is known of the tree.
func (s *Store) add(ctx context.Context, sandbox string, now *index, below []layer, c *change, tree Tree, base bool) (Taken, error) {
	file, l, missing, err := pack(ctx, s.Temp, c, tree)
	if err != nil {
		return Taken{}, err
	}
	defer os.Remove(file)
	if err := now.drop(ctx, missing, tree); err != nil {
		return Taken{}, err
	}
	if err := s.Blobs.PutFile(ctx, key(l.digest), file); err != nil {
		return Taken{}, fmt.Errorf("storing a layer: %w", err)
	}
	now.layers = append(below[:len(below):len(below)], l)
	content := contentOf(now.entries)
	if now.ref, err = s.putImage(ctx, now.layers, content); err != nil {
		return Taken{}, err
	}
	if err := s.check(ctx, now.layers); err != nil {
		return Taken{}, err
	}
	if err := s.keep(sandbox, now, base); err != nil {
		return Taken{}, err
	}
	return Taken{Ref: now.ref, Content: content, Layers: len(now.layers), Stored: l.size}, nil
}

// drop takes out what could not be read, because it was not there any more. That
// something there could not be read is an error.
func (x *index) drop(ctx context.Context, missing []string, tree Tree) error {
	if len(missing) == 0 {
		return nil
	}
	gone := map[string]bool{}
	for _, name := range missing {
		gone[name] = true
	}
	err := tree.List(ctx, func(e Entry) error {
		if gone[e.Name] && e.Kind == File {
			return fmt.Errorf("the file %q cannot be read", e.Name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	x.entries = slices.DeleteFunc(x.entries, func(e Entry) bool { return gone[e.Name] })
	return nil
}

// check makes sure that the collector took none of the layers that this snapshot
// stands on: until a moment ago nothing may have named them.
func (s *Store) check(ctx context.Context, layers []layer) error {
	for _, l := range layers {
		n, err := s.Blobs.Size(ctx, key(l.digest))
		if err != nil || n != l.size {
			return errors.Join(fmt.Errorf("a layer of the snapshot is gone: %s", l.digest), err)
		}
	}
	return nil
}

func (s *Store) keep(sandbox string, x *index, base bool) error {
	data := x.encode()
	if base {
		if err := writeIndex(s.file(sandbox, baseIndex), data); err != nil {
			return err
		}
	}
	return writeIndex(s.file(sandbox, lastIndex), data)
}

// settle waits until another change cannot have the time of the newest one.
func settle(ctx context.Context, newest int64) error {
	wait := time.Until(time.Unix(0, newest).Add(tick))
	if wait <= 0 || wait > tick {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
		return nil
	}
}
