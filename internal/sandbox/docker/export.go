package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/countersign/countersign/internal/sandbox"
)

// Export writes the workspace; see [sandbox.Archiver]. The stream is the one
// that package archive would write for the same files. Times are whole seconds
// where the image has no GNU find: the engine does not tell more.
func (s *session) Export(ctx context.Context, w io.Writer) (sandbox.Exported, error) {
	stamps, err := s.stamps(ctx)
	if err != nil {
		return sandbox.Exported{}, err
	}
	r, _, err := s.b.api.CopyFromContainer(ctx, s.id, insideWorkspace)
	if err != nil {
		return sandbox.Exported{}, s.b.gone("packing the workspace", err)
	}
	defer r.Close()
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2))
	if err != nil {
		return sandbox.Exported{}, err
	}
	e := exporter{s: s, stamps: stamps, out: tar.NewWriter(z), buf: make([]byte, 256<<10)}
	err = e.copy(ctx, tar.NewReader(r))
	if err == nil {
		err = e.out.Close()
	}
	if cerr := z.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return e.sum, fmt.Errorf("packing the workspace: %w", err)
	}
	return e.sum, nil
}

// stamps returns the entries' times by their paths below the workspace.
func (s *session) stamps(ctx context.Context) (map[string]time.Time, error) {
	out, err := s.ask(ctx, "listing the workspace", "stamps")
	if err != nil {
		return nil, err
	}
	stamps := map[string]time.Time{}
	for entry := range bytes.SplitSeq(out, []byte{0}) {
		at, name, ok := strings.Cut(string(entry), " ")
		if t, err := parseStamp(at); ok && err == nil {
			stamps[name] = t
		}
	}
	return stamps, nil
}

// parseStamp reads seconds and a fraction, as find prints for %T@.
func parseStamp(text string) (time.Time, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	sec, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	nsec, err := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	return time.Unix(sec, nsec), err
}

// exporter writes the engine's tar as the canonical one.
type exporter struct {
	s      *session
	stamps map[string]time.Time
	out    *tar.Writer
	buf    []byte
	sum    sandbox.Exported
}

func (e *exporter) copy(ctx context.Context, in *tar.Reader) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return e.s.b.fail("reading from the engine", err)
		}
		if err := e.entry(ctx, h, in); err != nil {
			return err
		}
	}
}

func (e *exporter) entry(ctx context.Context, in *tar.Header, body io.Reader) error {
	_, name, _ := strings.Cut(strings.TrimSuffix(in.Name, "/"), "/")
	if name == "" {
		return nil // the workspace itself
	}
	h := &tar.Header{Name: name, Mode: in.Mode & 0o777, ModTime: in.ModTime, Format: tar.FormatPAX}
	// A file that changed since is no worse with the engine's time.
	if t, ok := e.stamps[name]; ok && t.Unix() == in.ModTime.Unix() {
		h.ModTime = t
	}
	switch in.Typeflag {
	case tar.TypeDir:
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
		return e.out.WriteHeader(h)
	case tar.TypeSymlink:
		h.Typeflag, h.Mode, h.Linkname = tar.TypeSymlink, 0o777, in.Linkname
		e.sum.Files++
		return e.out.WriteHeader(h)
	case tar.TypeLink:
		return e.hardLink(ctx, h)
	case tar.TypeReg:
		return e.file(h, in.Size, body)
	}
	return nil // sockets, pipes and devices
}

func (e *exporter) file(h *tar.Header, size int64, body io.Reader) error {
	h.Typeflag, h.Size = tar.TypeReg, size
	if err := e.out.WriteHeader(h); err != nil {
		return err
	}
	e.sum.Files++
	n, err := io.CopyBuffer(struct{ io.Writer }{e.out}, struct{ io.Reader }{body}, e.buf)
	e.sum.Bytes += n
	return err
}

// hardLink makes a file of its own of one that the engine gave before under
// another name.
func (e *exporter) hardLink(ctx context.Context, h *tar.Header) error {
	r, _, err := e.s.b.api.CopyFromContainer(ctx, e.s.id, path.Join(insideWorkspace, h.Name))
	if err != nil {
		return e.s.b.gone("reading from the engine", err)
	}
	defer r.Close()
	t := tar.NewReader(r)
	in, err := t.Next()
	if err != nil {
		return e.s.b.fail("reading from the engine", err)
	}
	if in.Typeflag != tar.TypeReg {
		return nil // replaced meanwhile
	}
	return e.file(h, in.Size, t)
}
