package snapshot

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/countersign/countersign/internal/blob"
)

// maxWindow bounds what a layer may make its reader hold in memory, in bytes.
const maxWindow = 64 << 20 // 64 MiB; pack writes windows of at most 8 MiB

// Open streams what a snapshot holds as plain tar: each name once, a directory
// before what is in it, a file before its further names. The stream ends with an
// error where anything stored is not what its digest says.
func (s *Store) Open(ctx context.Context, ref string) (io.ReadCloser, error) {
	m, _, err := s.manifest(ctx, ref)
	if err != nil {
		return nil, err
	}
	// What lacks a part fails before anything is made of it.
	for _, l := range m.Layers {
		n, err := s.Blobs.Size(ctx, key(l.Digest))
		switch {
		case errors.Is(err, blob.ErrNotFound):
			return nil, fmt.Errorf("%w: %s", ErrNotKept, l.Digest)
		case err != nil:
			return nil, fmt.Errorf("reading a snapshot: %w", err)
		case n != l.Size:
			return nil, fmt.Errorf("%w: %s has another length", ErrDamaged, l.Digest)
		}
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(s.flatten(ctx, m.Layers, w)) }()
	return r, nil
}

// flatten writes a chain of layers as one, the newest first.
func (s *Store) flatten(ctx context.Context, layers []ocispec.Descriptor, w io.Writer) error {
	f := flattener{ctx: ctx, out: tar.NewWriter(w), seen: map[string]bool{}, hidden: map[string]bool{}, buf: make([]byte, 256<<10)}
	for _, l := range slices.Backward(layers) {
		if err := s.readLayer(ctx, l, f.layer); err != nil {
			return err
		}
		for _, name := range f.hiding {
			f.hidden[name] = true
		}
		f.hiding = f.hiding[:0]
	}
	return f.out.Close()
}

// readLayer verifies a layer while it is read, before its end is believed.
func (s *Store) readLayer(ctx context.Context, l ocispec.Descriptor, each func(*tar.Reader) error) error {
	r, err := s.Blobs.NewReader(ctx, key(l.Digest))
	if errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("%w: %s", ErrNotKept, l.Digest)
	}
	if err != nil {
		return fmt.Errorf("reading a snapshot: %w", err)
	}
	defer r.Close()
	sum := &counter{w: io.Discard, h: sha256.New()}
	z, err := zstd.NewReader(io.TeeReader(r, sum), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return fmt.Errorf("reading a snapshot: %w", err)
	}
	defer z.Close()
	err = each(tar.NewReader(z))
	if err == nil {
		_, err = io.Copy(io.Discard, z)
	}
	var out outError
	switch {
	case errors.As(err, &out) || ctx.Err() != nil:
		return errors.Join(err, ctx.Err())
	case err != nil:
		// Is it what was stored that cannot be read?
		if verr := s.verify(ctx, l); verr != nil {
			return verr
		}
		return fmt.Errorf("%w: %s: %w", ErrDamaged, l.Digest, err)
	case sum.digest() != l.Digest:
		return fmt.Errorf("%w: %s", ErrDamaged, l.Digest)
	}
	return nil
}

// verify reads a blob and compares it with its name.
func (s *Store) verify(ctx context.Context, d ocispec.Descriptor) error {
	r, err := s.Blobs.NewReader(ctx, key(d.Digest))
	if errors.Is(err, blob.ErrNotFound) {
		return fmt.Errorf("%w: %s", ErrNotKept, d.Digest)
	}
	if err != nil {
		return fmt.Errorf("reading a snapshot: %w", err)
	}
	defer r.Close()
	sum := &counter{w: io.Discard, h: sha256.New()}
	if _, err := io.Copy(sum, r); err != nil {
		return fmt.Errorf("reading a snapshot: %w", err)
	}
	if sum.digest() != d.Digest {
		return fmt.Errorf("%w: %s", ErrDamaged, d.Digest)
	}
	return nil
}

// outError is a failure of whoever takes the stream, not of what is read.
type outError struct{ error }

func (e outError) Unwrap() error { return e.error }

type flattener struct {
	ctx context.Context
	out *tar.Writer
	// seen are the names that newer layers have. hidden are those below which
	// nothing of older layers is left; hiding is what the present one adds.
	seen, hidden map[string]bool
	hiding       []string
	buf          []byte
}

func (f *flattener) layer(in *tar.Reader) error {
	for {
		if err := f.ctx.Err(); err != nil {
			return err
		}
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = f.entry(h, in)
		}
		if err != nil {
			return err
		}
	}
}

func (f *flattener) entry(h *tar.Header, body io.Reader) error {
	name, gone, err := nameOf(h)
	if err != nil {
		return err
	}
	if gone || h.Typeflag != tar.TypeDir {
		f.hiding = append(f.hiding, name)
	}
	if gone || f.seen[name] || f.covered(name) {
		return nil
	}
	f.seen[name] = true
	out := *h
	out.Name, out.Format = name, tar.FormatPAX
	if h.Typeflag == tar.TypeDir {
		out.Name += "/"
	}
	if to, ok := h.PAXRecords[realTarget]; ok {
		out.Linkname = to
	}
	out.PAXRecords = nil
	if err := f.out.WriteHeader(&out); err != nil {
		return outError{err}
	}
	if _, err := io.CopyBuffer(outWriter{f.out}, struct{ io.Reader }{body}, f.buf); err != nil {
		return err
	}
	return nil
}

// outWriter marks what is the taker's fault.
type outWriter struct{ w io.Writer }

func (w outWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	if err != nil {
		err = outError{err}
	}
	return n, err
}

// covered tells whether a newer layer leaves nothing at or below a name.
func (f *flattener) covered(name string) bool {
	if len(f.hidden) == 0 {
		return false
	}
	for ; name != "."; name = path.Dir(name) {
		if f.hidden[name] {
			return true
		}
	}
	return false
}

// nameOf is the name that a record is about, and whether it says that it is gone.
func nameOf(h *tar.Header) (name string, gone bool, err error) {
	name = strings.TrimSuffix(h.Name, "/")
	dir, base := path.Split(name)
	if gone = strings.HasPrefix(base, whiteout); gone {
		name = dir + base[len(whiteout):]
	}
	if real, ok := h.PAXRecords[realName]; ok {
		name = real
	}
	if !clean(name) {
		return "", false, fmt.Errorf("%q leaves the workspace", h.Name)
	}
	return name, gone, nil
}
