// Package execlog keeps the full output of commands in the blob store, while
// they run and after. A worker appends; a bot reads by byte offset, without
// knowing anything of sandboxes.
//
// A stream is a row of blobs
//
//	execs/<workflow ID>/<exec>/<stream>/<offset of its first byte, 20 digits>
//
// each written once and never changed. So an append may be repeated, and a
// worker that takes over goes on at [Log.Size].
package execlog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/blob/owned"
)

// Streams of a command.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// MaxChunk is the longest append, in bytes: it bounds a writer's memory.
const MaxChunk = 1 << 20 // 1 MiB

// ErrMoved says that another writer has appended at this offset: ask
// [Log.Size] for the stream's end and go on from there.
var ErrMoved = errors.New("another writer has appended here")

// Log reads and writes the outputs of one session's execs. It is safe for
// concurrent use.
type Log struct {
	store  *blob.Store
	prefix string
}

// New returns the log of the session with this workflow ID.
func New(store *blob.Store, workflowID string) *Log {
	return &Log{store: store, prefix: Prefix(workflowID)}
}

// Prefix is where a session's outputs lie in the blob store, with a closing slash.
func Prefix(workflowID string) string { return owned.Prefix(owned.Execs, workflowID) + "/" }

// slug makes one path element of an ID: readable, and distinct by its hash.
func slug(id string) string {
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, id)
	sum := sha256.Sum256([]byte(id))
	return safe[:min(len(safe), 64)] + "-" + hex.EncodeToString(sum[:6])
}

func (l *Log) dir(exec, stream string) (string, error) {
	if exec == "" || (stream != Stdout && stream != Stderr) {
		return "", fmt.Errorf("exec %q has no stream %q", exec, stream)
	}
	return l.prefix + slug(exec) + "/" + stream + "/", nil
}

// Append stores data, at most [MaxChunk] bytes, as the stream's bytes from
// offset on, which is the stream's present size. Repeating it is harmless; it
// returns [ErrMoved] when the offset is taken.
func (l *Log) Append(ctx context.Context, exec, stream string, offset int64, data []byte) error {
	dir, err := l.dir(exec, stream)
	if err != nil || len(data) == 0 {
		return err
	}
	if len(data) > MaxChunk {
		return fmt.Errorf("appending %d bytes of output at once: at most %d", len(data), MaxChunk)
	}
	err = l.store.PutNew(ctx, fmt.Sprintf("%s%020d", dir, offset), data)
	if errors.Is(err, blob.ErrExists) {
		return ErrMoved
	}
	return err
}

type chunk struct {
	key         string
	start, size int64
}

func (l *Log) chunks(ctx context.Context, exec, stream string) ([]chunk, error) {
	dir, err := l.dir(exec, stream)
	if err != nil {
		return nil, err
	}
	var out []chunk
	for o, err := range l.store.List(ctx, dir) {
		if err != nil {
			return nil, err
		}
		name := path.Base(o.Key)
		start, err := strconv.ParseInt(name, 10, 64)
		if err != nil || len(name) != 20 {
			continue
		}
		out = append(out, chunk{o.Key, start, o.Size})
	}
	return out, nil
}

// Size returns how many bytes of the stream are stored, without a gap, from its
// start; 0 for a stream that is not known.
func (l *Log) Size(ctx context.Context, exec, stream string) (int64, error) {
	chunks, err := l.chunks(ctx, exec, stream)
	var end int64
	for _, c := range chunks {
		if c.start > end {
			break
		}
		end = max(end, c.start+c.size)
	}
	return end, err
}

// ReadAt returns up to limit bytes of the stream from offset on, as far as they
// are stored now: none at the end, and none for a stream that is not known.
func (l *Log) ReadAt(ctx context.Context, exec, stream string, offset int64, limit int) ([]byte, error) {
	if offset < 0 {
		return nil, fmt.Errorf("reading output at offset %d", offset)
	}
	chunks, err := l.chunks(ctx, exec, stream)
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, c := range chunks {
		at := offset + int64(len(out))
		if c.start > at || len(out) == limit {
			break
		}
		if c.start+c.size <= at {
			continue
		}
		data, err := l.store.GetRange(ctx, c.key, at-c.start, int64(limit-len(out)))
		if err != nil {
			return out, fmt.Errorf("reading output of exec %s: %w", exec, err)
		}
		out = append(out, data...)
	}
	return out, nil
}
