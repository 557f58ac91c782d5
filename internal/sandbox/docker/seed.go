package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/archive"
)

var errEngineStopped = errors.New("the engine takes no more")

// fill unpacks a seed into a container that was made and not started. It
// returns what is left for [session.finish].
func (b *Backend) fill(ctx context.Context, id string, seed sandbox.Seed) (*importer, error) {
	r, err := b.openSeed(ctx, seed)
	if err != nil || r == nil {
		return nil, err
	}
	defer r.Close()
	pr, pw := io.Pipe()
	im := &importer{out: tar.NewWriter(pw), dirs: map[string]tar.Header{}, buf: make([]byte, 256<<10)}
	done := make(chan error, 1)
	go func() {
		err := im.copy(ctx, r)
		pw.CloseWithError(err) // nil is the end of the stream
		done <- err
	}()
	err = b.api.CopyToContainer(ctx, id, insideWorkspace, pr)
	pr.CloseWithError(errEngineStopped)
	// Of a stream that breaks off by its own fault the engine says only that.
	if cerr := <-done; cerr != nil && !errors.Is(cerr, errEngineStopped) {
		return nil, fmt.Errorf("unpacking the workspace: %w", cerr)
	}
	if err != nil {
		return nil, b.fail("unpacking the workspace", err)
	}
	return im, nil
}

func (b *Backend) openSeed(ctx context.Context, seed sandbox.Seed) (io.ReadCloser, error) {
	switch {
	case seed.Snapshot != nil:
		r, err := seed.Snapshot(ctx)
		if err != nil {
			return nil, fmt.Errorf("opening the snapshot: %w", err)
		}
		return r, nil
	case seed.Directory == "" && seed.Fill == nil:
		return nil, nil
	case b.cfg.PackSeed == nil:
		return nil, sandbox.Refuse("A Docker sandbox cannot be filled from a directory here.")
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(b.cfg.PackSeed(ctx, seed, w)) }()
	return r, nil
}

// importer reads a tar stream, refuses what package archive refuses, and writes
// what the engine unpacks: the same entries, owned by the command's user.
type importer struct {
	out   *tar.Writer
	check archive.Checker
	dirs  map[string]tar.Header // by path: mode and time
	later []tar.Header          // links that the engine would refuse
	buf   []byte
}

func (im *importer) copy(ctx context.Context, r io.Reader) error {
	in := tar.NewReader(r)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = im.entry(h, in)
		}
		if err != nil {
			return err
		}
	}
	// The rest of the stream is read too: a reader that verifies it must see its end.
	if _, err := io.Copy(io.Discard, r); err != nil {
		return err
	}
	return im.out.Close()
}

func (im *importer) entry(h *tar.Header, body io.Reader) error {
	name, err := im.check.Check(h)
	if err != nil || name == "." {
		return err
	}
	out := tar.Header{
		Typeflag: h.Typeflag, Name: name, Linkname: h.Linkname, Size: h.Size, Mode: h.Mode & 0o777, ModTime: h.ModTime,
		Uid: insideUser, Gid: insideUser, Format: tar.FormatPAX,
	}
	switch h.Typeflag {
	case tar.TypeSymlink:
		if escapes(name, h.Linkname) {
			im.later = append(im.later, out)
			return nil
		}
	case tar.TypeDir:
		im.dirs[name] = out
		out.Name += "/"
	}
	if err := im.out.WriteHeader(&out); err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{im.out}, struct{ io.Reader }{body}, im.buf)
	return err
}

// escapes tells whether the engine would refuse a link: one that leads above
// the directory that it unpacks into.
func escapes(name, to string) bool {
	p := path.Join(path.Dir(name), to)
	return !path.IsAbs(to) && (p == ".." || strings.HasPrefix(p, "../"))
}

// finish makes what the engine could not, in the container, which runs now.
func (s *session) finish(ctx context.Context, im *importer) error {
	if im == nil {
		return nil
	}
	for _, h := range im.later {
		dir := path.Dir(h.Name)
		mode, at := int64(0o755), time.Now()
		if have, ok := im.dirs[dir]; ok {
			mode, at = have.Mode, have.ModTime
		}
		_, err := s.ask(ctx, "unpacking the workspace", "link",
			h.Name, h.Linkname, stamp(h.ModTime), dir, strconv.FormatInt(mode, 8), stamp(at))
		if err != nil {
			return err
		}
	}
	return nil
}

// stamp writes a time as touch reads it.
func stamp(t time.Time) string { return fmt.Sprintf("@%d.%09d", t.Unix(), t.Nanosecond()) }
