package snapshot

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	digest "github.com/opencontainers/go-digest"
)

const (
	// whiteout begins the last name of an entry that records a deletion.
	whiteout = ".wh."
	// escaped stands in place of whiteout at the beginning of a name that is really
	// so; realName then has the name as it is.
	escaped  = ".countersign.wh."
	realName = "COUNTERSIGN.name"
)

// escape writes a name so that none of its parts reads as a deletion.
func escape(name string) (string, bool) {
	if !strings.HasPrefix(name, whiteout) && !strings.Contains(name, "/"+whiteout) {
		return name, false
	}
	parts := strings.Split(name, "/")
	for i, part := range parts {
		if strings.HasPrefix(part, whiteout) {
			parts[i] = escaped + part[len(whiteout):]
		}
	}
	return strings.Join(parts, "/"), true
}

// header begins the record of a name.
func header(kind byte, name string) *tar.Header {
	h := &tar.Header{Typeflag: kind, Format: tar.FormatPAX}
	var odd bool
	if h.Name, odd = escape(name); odd {
		h.PAXRecords = map[string]string{realName: name}
	}
	return h
}

// entryHeader is the record of an entry; a hard link's is made of its file's.
func entryHeader(kind byte, e *Entry) *tar.Header {
	h := header(kind, e.Name)
	h.Mode, h.ModTime = int64(e.Mode&0o777), time.Unix(0, e.ModTime)
	switch kind {
	case tar.TypeDir:
		h.Name += "/"
	case tar.TypeSymlink:
		h.Mode, h.Linkname = 0o777, e.Target
	}
	return h
}

// writer writes entries as tar.
type writer struct {
	tar *tar.Writer
	buf []byte
}

func newWriter(w io.Writer) *writer {
	return &writer{tar: tar.NewWriter(w), buf: make([]byte, 256<<10)}
}

// put writes a change of tree. It returns the names of files that were not there
// any more.
func (w *writer) put(ctx context.Context, c *change, tree Tree) (missing []string, err error) {
	for _, e := range c.dirs {
		if err := w.tar.WriteHeader(entryHeader(tar.TypeDir, e)); err != nil {
			return nil, err
		}
	}
	for _, name := range c.gone {
		if err := w.gone(name); err != nil {
			return nil, err
		}
	}
	for _, e := range c.links {
		if err := w.tar.WriteHeader(entryHeader(tar.TypeSymlink, e)); err != nil {
			return nil, err
		}
	}
	got, err := w.files(ctx, c.files, tree)
	if err != nil {
		return nil, err
	}
	for _, e := range c.files {
		if !got[e.Name] {
			missing = append(missing, e.Name)
		}
	}
	for _, l := range c.hard {
		if !got[l.to] {
			missing = append(missing, l.entry.Name)
			continue
		}
		h := entryHeader(tar.TypeLink, l.entry)
		h.Linkname, _ = escape(l.to)
		if _, odd := escape(l.to); odd {
			if h.PAXRecords == nil {
				h.PAXRecords = map[string]string{}
			}
			h.PAXRecords[realTarget] = l.to
		}
		if err := w.tar.WriteHeader(h); err != nil {
			return nil, err
		}
	}
	return missing, nil
}

// realTarget has a hard link's target as it is where that is escaped.
const realTarget = "COUNTERSIGN.target"

func (w *writer) files(ctx context.Context, files []*Entry, tree Tree) (got map[string]bool, err error) {
	if len(files) == 0 {
		return nil, nil
	}
	entries := make(map[string]*Entry, len(files))
	names := make([]string, len(files))
	for i, e := range files {
		entries[e.Name], names[i] = e, e.Name
	}
	got = make(map[string]bool, len(files))
	return got, tree.Read(ctx, names, func(name string, size int64, r io.Reader) error {
		e, ok := entries[name]
		if !ok || got[name] {
			return nil
		}
		got[name] = true
		h := entryHeader(tar.TypeReg, e)
		h.Size = size
		if err := w.tar.WriteHeader(h); err != nil {
			return err
		}
		_, err := io.CopyBuffer(struct{ io.Writer }{w.tar}, struct{ io.Reader }{r}, w.buf)
		return err
	})
}

// gone records a deletion.
func (w *writer) gone(name string) error {
	h := header(tar.TypeReg, name)
	dir, base := path.Split(h.Name)
	h.Name = dir + whiteout + base
	return w.tar.WriteHeader(h)
}

// Flat writes everything in a tree as plain tar, as [Store.Open] gives it.
func Flat(ctx context.Context, tree Tree, w io.Writer) (Content, error) {
	entries, err := list(ctx, tree)
	if err != nil {
		return Content{}, err
	}
	c := diff(nil, entries)
	out := newWriter(w)
	if _, err = out.put(ctx, &c, tree); err == nil {
		err = out.tar.Close()
	}
	if err != nil {
		return Content{}, fmt.Errorf("packing the workspace: %w", err)
	}
	return contentOf(entries), nil
}

// counter digests and counts what passes.
type counter struct {
	w io.Writer
	h hash.Hash
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.h.Write(p[:n])
	c.n += int64(n)
	return n, err
}

func (c *counter) digest() digest.Digest {
	return digest.NewDigestFromEncoded(digest.SHA256, hex.EncodeToString(c.h.Sum(nil)))
}

// pack writes a change as a layer into a new file below dir, which is the
// caller's to remove.
func pack(ctx context.Context, dir string, c *change, tree Tree) (file string, l layer, missing []string, err error) {
	f, err := os.CreateTemp(dir, "layer-*")
	if err != nil {
		return "", l, nil, fmt.Errorf("making room for a layer: %w", err)
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("writing a layer: %w", cerr)
		}
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	blob := &counter{w: f, h: sha256.New()}
	buffered := bufio.NewWriterSize(blob, 256<<10)
	z, err := zstd.NewWriter(buffered, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2))
	if err != nil {
		return "", l, nil, err
	}
	raw := &counter{w: z, h: sha256.New()}
	w := newWriter(raw)
	missing, err = w.put(ctx, c, tree)
	for _, name := range missing {
		if err == nil {
			err = w.gone(name)
		}
	}
	if err == nil {
		err = w.tar.Close()
	}
	err = errors.Join(err, z.Close())
	if err == nil {
		err = buffered.Flush()
	}
	if err != nil {
		return "", l, nil, fmt.Errorf("packing the workspace: %w", err)
	}
	return f.Name(), layer{digest: blob.digest(), diff: raw.digest(), size: blob.n, bytes: raw.n}, missing, nil
}
