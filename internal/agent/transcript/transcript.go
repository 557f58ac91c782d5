// Package transcript keeps what was said between people, model and tools as an
// append-only chain of segments in the blob store.
//
// A segment's key names the SHA-256 of its content, and the content names the
// segment before it. So a reference stands for the whole past up to it, for
// ever: an attempt that was retried, or that runs on after it was given up, can
// only add segments which nobody refers to; a fork shares its parent's past by
// holding the parent's reference.
//
// Appending merges small segments as a binary counter does: after n appends some
// log₂ n segments are read, and each record was written log₂ n times. Loaded
// segments stay in a cache bounded by bytes; they never go stale.
package transcript

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/blob/owned"
)

const (
	// Prefix begins the blob keys of all transcripts.
	Prefix = owned.Transcripts + "/"

	// maxMergeBytes is the longest segment that merging makes. Larger ones would
	// be rewritten at too high a price; at this size a read costs little per byte.
	maxMergeBytes = 4 << 20 // 4 MiB

	// DefaultCacheBytes is the size of a worker's cache where none is given: some
	// two hundred long conversations.
	DefaultCacheBytes = 64 << 20 // 64 MiB

	format   = 1
	sumChars = 32 // of the hex digest: 128 bits
)

var (
	// ErrMissing says that a segment which a reference needs is not there.
	ErrMissing = errors.New("transcript is missing")
	// ErrCorrupt says that a segment is not what its key names.
	ErrCorrupt = errors.New("transcript is corrupt")
)

// Blobs is what a transcript needs of the blob store; a missing key is
// [blob.ErrNotFound]. It must be safe for concurrent use.
type Blobs interface {
	// Write stores data under key, seen whole or not at all.
	Write(ctx context.Context, key string, data []byte) error
	// Get returns the whole blob.
	Get(ctx context.Context, key string) ([]byte, error)
}

// Record is one item of the conversation.
type Record struct {
	// Item is the input item of the Responses API, as it is sent.
	Item json.RawMessage `json:"item,omitempty"`
	// Author is who wrote a message, for people: "@ada"; empty for model and tools.
	Author string    `json:"author,omitempty"`
	At     time.Time `json:"at,omitzero"`
	Turn   int       `json:"turn,omitempty"`
	// Model and Response name what gave the item, where a model did.
	Model    string `json:"model,omitempty"`
	Response string `json:"response,omitempty"`
	// Unsent items are kept for people and audit and never sent to a model.
	Unsent bool `json:"unsent,omitempty"`
	// Stored: the model's server keeps the response, so a later one may name it.
	Stored bool `json:"stored,omitempty"`
	// Tokens is what the conversation took up to and including a response, as its
	// server has counted; it stands on the response's last record.
	Tokens int64 `json:"tokens,omitempty"`
	// Window, where it is set, is what a model gets in place of this record and
	// all before it. Model then names the one that can read it; empty is any. The
	// records themselves stay, for people and audit.
	Window []json.RawMessage `json:"window,omitempty"`
	// Image is what an output shows beside its text. It takes its place in requests
	// only.
	Image *Image `json:"image,omitempty"`
}

// Image is an image in the blob store.
type Image struct {
	Ref   string `json:"ref"`
	Type  string `json:"type"` // its media type
	Bytes int64  `json:"bytes"`
}

type segment struct {
	Format  int      `json:"format"`
	Seq     int      `json:"seq"`
	Level   int      `json:"level"`
	Prev    string   `json:"prev,omitempty"`
	Records []Record `json:"records"`

	size int
}

// Store appends to and loads transcripts. It is safe for concurrent use.
type Store struct {
	blobs Blobs
	cache *cache
}

// NewStore returns a store on blobs with a cache of cacheBytes (0 takes
// [DefaultCacheBytes], a negative number none).
func NewStore(blobs Blobs, cacheBytes int) *Store {
	if cacheBytes == 0 {
		cacheBytes = DefaultCacheBytes
	}
	return &Store{blobs: blobs, cache: newCache(cacheBytes)}
}

// Append adds records to the transcript ref ("" is an empty one) and returns the
// reference of the result; what ref stands for does not change. session only
// names the folder. Appending nothing returns ref.
func (s *Store) Append(ctx context.Context, session, ref string, records []Record) (string, error) {
	if len(records) == 0 {
		return ref, nil
	}
	next := &segment{Format: format, Seq: 1, Prev: ref, Records: records}
	size := sizeOf(records)
	for next.Prev != "" {
		prev, err := s.get(ctx, next.Prev)
		if err != nil {
			return "", err
		}
		next.Seq = max(next.Seq, prev.Seq+1)
		if prev.Level != next.Level || prev.size+size > maxMergeBytes {
			break
		}
		next.Records = slices.Concat(prev.Records, next.Records)
		next.Prev = prev.Prev
		next.Level++
		size += prev.size
	}
	data, err := encode(next)
	if err != nil {
		return "", err
	}
	key := Folder(session) + fmt.Sprintf("%06d-%s.json", next.Seq, sum(data))
	if err := s.blobs.Write(ctx, key, data); err != nil {
		return "", fmt.Errorf("writing transcript segment: %w", err)
	}
	next.size = len(data)
	s.cache.put(key, next)
	return key, nil
}

// Load returns all records that ref stands for, oldest first. The records are
// shared with the cache: the caller must not change them.
func (s *Store) Load(ctx context.Context, ref string) ([]Record, error) {
	var chain []*segment
	for ref != "" {
		seg, err := s.get(ctx, ref)
		if err != nil {
			return nil, err
		}
		chain = append(chain, seg)
		ref = seg.Prev
	}
	var records []Record
	for _, seg := range slices.Backward(chain) {
		records = append(records, seg.Records...)
	}
	return records, nil
}

// Keys returns the blob keys that ref needs, newest first: what a collector of
// unreferenced blobs must keep.
func (s *Store) Keys(ctx context.Context, ref string) ([]string, error) {
	var keys []string
	for ref != "" {
		seg, err := s.get(ctx, ref)
		if err != nil {
			return nil, err
		}
		keys = append(keys, ref)
		ref = seg.Prev
	}
	return keys, nil
}

func (s *Store) get(ctx context.Context, ref string) (*segment, error) {
	if seg, ok := s.cache.get(ref); ok {
		return seg, nil
	}
	want, ok := sumOf(ref)
	if !ok {
		return nil, fmt.Errorf("%w: %q is no reference", ErrCorrupt, ref)
	}
	data, err := s.blobs.Get(ctx, ref)
	if errors.Is(err, blob.ErrNotFound) {
		return nil, fmt.Errorf("%w: %q", ErrMissing, ref)
	}
	if err != nil {
		return nil, fmt.Errorf("reading transcript segment: %w", err)
	}
	seg := &segment{size: len(data)}
	if sum(data) != want {
		return nil, fmt.Errorf("%w: %q has another content", ErrCorrupt, ref)
	}
	if err := json.Unmarshal(data, seg); err != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrCorrupt, ref, err)
	}
	if seg.Format != format {
		return nil, fmt.Errorf("%w: %q has format %d, this program knows %d", ErrCorrupt, ref, seg.Format, format)
	}
	s.cache.put(ref, seg)
	return seg, nil
}

// Folder is the prefix of a session's segments. Those of its parent, where it
// was forked, stay in the parent's.
func Folder(session string) string { return owned.Prefix(owned.Transcripts, session) + "/" }

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])[:sumChars]
}

// sumOf returns the digest that a reference names.
func sumOf(ref string) (string, bool) {
	name, ok := strings.CutSuffix(ref, ".json")
	if !ok || !strings.HasPrefix(ref, Prefix) {
		return "", false
	}
	_, digest, ok := strings.Cut(path.Base(name), "-")
	return digest, ok && len(digest) == sumChars
}

func sizeOf(records []Record) int {
	n := 0
	for _, r := range records {
		n += len(r.Item) + 100
		for _, w := range r.Window {
			n += len(w)
		}
	}
	return n
}

// encode writes JSON without HTML escapes, which would blow up code.
func encode(seg *segment) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(seg); err != nil {
		return nil, fmt.Errorf("encoding transcript segment: %w", err)
	}
	return b.Bytes(), nil
}
