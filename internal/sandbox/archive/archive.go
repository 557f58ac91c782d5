// Package archive shows a directory of this machine as a [snapshot.Tree], and
// makes a directory from the stream that a snapshot gives.
package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrBad says that a stream holds what must not be unpacked.
var ErrBad = errors.New("bad archive")

// Checker decides what of a tar stream may be unpacked: names that stay in the
// workspace and come once, below directories, without devices, pipes and set-uid
// bits, and links only to files that came before. The zero value is ready.
type Checker struct{ seen map[string]byte }

// Check returns the clean name of an entry; "." is the workspace itself, which is
// as it is. It returns [ErrBad] for what must not be unpacked.
func (c *Checker) Check(h *tar.Header) (string, error) {
	bad := func(format string, more ...any) (string, error) {
		return "", fmt.Errorf("%w: %q "+format, append([]any{ErrBad, h.Name}, more...)...)
	}
	name := path.Clean(h.Name)
	switch {
	case path.IsAbs(h.Name) || name == ".." || strings.HasPrefix(name, "../") || strings.ContainsRune(h.Name, 0):
		return bad("leaves the workspace")
	case h.Mode&0o6000 != 0:
		return bad("has a set-uid or set-gid bit")
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink:
	default:
		return bad("is no file, directory or link")
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return bad("is the workspace itself")
		}
		return name, nil
	}
	if _, ok := c.seen[name]; ok {
		return bad("comes twice")
	}
	// A parent that is a symbolic link would lead elsewhere.
	if dir := path.Dir(name); dir != "." && c.seen[dir] != tar.TypeDir {
		return bad("lies in %q, which is no directory before it", dir)
	}
	kind := h.Typeflag
	if kind == tar.TypeLink {
		if c.seen[h.Linkname] != tar.TypeReg {
			return bad("is a link to %q, which is no file before it", h.Linkname)
		}
		kind = tar.TypeReg
	}
	if c.seen == nil {
		c.seen = map[string]byte{}
	}
	c.seen[name] = kind
	return name, nil
}

// Unpack makes the content of a plain tar stream below dir, an existing empty
// directory to which nobody else writes meanwhile. It returns [ErrBad] for what
// [Checker] refuses; dir then holds a part.
func Unpack(ctx context.Context, r io.Reader, dir string) error {
	u := unpacker{dir: dir, tar: tar.NewReader(r), buf: make([]byte, 256<<10)}
	err := u.all(ctx)
	if err == nil {
		err = u.finish()
	}
	if err != nil {
		return fmt.Errorf("unpacking the workspace: %w", err)
	}
	// The rest of the stream is read too: a reader that verifies it must see its end.
	if _, err := io.Copy(io.Discard, r); err != nil {
		return fmt.Errorf("unpacking the workspace: %w", err)
	}
	return nil
}

type unpacker struct {
	dir   string
	tar   *tar.Reader
	check Checker
	buf   []byte
	dirs  []tar.Header
}

func (u *unpacker) all(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := u.tar.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = u.entry(h)
		}
		if err != nil {
			return err
		}
	}
}

// entry makes what the checker has let pass: every parent is a directory that was
// made here.
func (u *unpacker) entry(h *tar.Header) error {
	name, err := u.check.Check(h)
	if err != nil || name == "." {
		return err
	}
	at := u.dir + "/" + name
	if err := u.make(at, h); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		u.dirs = append(u.dirs, tar.Header{Name: at, Mode: h.Mode, ModTime: h.ModTime})
	case tar.TypeSymlink:
		return setTime(at, h)
	}
	return nil
}

func (u *unpacker) make(at string, h *tar.Header) error {
	switch h.Typeflag {
	case tar.TypeDir:
		return os.Mkdir(at, 0o700)
	case tar.TypeSymlink:
		return os.Symlink(h.Linkname, at)
	case tar.TypeLink:
		return os.Link(u.dir+"/"+h.Linkname, at)
	}
	return u.file(at, h)
}

func (u *unpacker) file(at string, h *tar.Header) error {
	fd, err := unix.Open(at, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &os.PathError{Op: "open", Path: at, Err: err}
	}
	err = u.fill(fd, h)
	if err == nil {
		err = unix.Fchmod(fd, uint32(h.Mode&0o777))
	}
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return setTime(at, h)
}

// holeBlock is what of zeros becomes a hole, in bytes: a page, which is what most
// file systems allocate. Files below holeSize have none.
const (
	holeBlock = 4 << 10
	holeSize  = 64 << 10
)

var zeroBlock [holeBlock]byte

// fill writes a file's content. Blocks of zeros are left out of a larger one, so
// that a sparse file takes no more of the disk than it did.
func (u *unpacker) fill(fd int, h *tar.Header) error {
	at, end := int64(0), int64(0)
	for left := h.Size; left > 0; {
		p := u.buf[:min(left, int64(len(u.buf)))]
		n, err := io.ReadFull(u.tar, p)
		left -= int64(n)
		for p = p[:n]; len(p) > 0; {
			block := len(p)
			if h.Size >= holeSize {
				zeros := zeroBlocks(p)
				at, p = at+int64(zeros), p[zeros:]
				block = dataBlocks(p)
			}
			if err := writeAt(fd, p[:block], at); err != nil {
				return err
			}
			at, p = at+int64(block), p[block:]
			if block > 0 {
				end = at
			}
		}
		if err != nil && (left > 0 || !errors.Is(err, io.EOF)) {
			return err
		}
	}
	if end < h.Size {
		return unix.Ftruncate(fd, h.Size)
	}
	return nil
}

// zeroBlocks is how many bytes at the beginning are whole blocks of zeros.
func zeroBlocks(p []byte) int {
	n := 0
	for len(p)-n >= holeBlock && bytes.Equal(p[n:n+holeBlock], zeroBlock[:]) {
		n += holeBlock
	}
	return n
}

// dataBlocks is how many bytes come before the next block of zeros.
func dataBlocks(p []byte) int {
	n := 0
	for len(p)-n >= holeBlock && !bytes.Equal(p[n:n+holeBlock], zeroBlock[:]) {
		n += holeBlock
	}
	if len(p)-n < holeBlock {
		return len(p)
	}
	return n
}

func writeAt(fd int, p []byte, at int64) error {
	for len(p) > 0 {
		n, err := unix.Pwrite(fd, p, at)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		n = max(n, 0)
		at, p = at+int64(n), p[n:]
	}
	return nil
}

// setTime sets the time of what is at a path, a symbolic link's own.
func setTime(at string, h *tar.Header) error {
	ts := unix.NsecToTimespec(h.ModTime.UnixNano())
	err := unix.UtimesNanoAt(unix.AT_FDCWD, at, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
	if h.Typeflag == tar.TypeSymlink && (errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS)) {
		return nil
	}
	return err
}

// finish sets the directories' modes and times, the deepest first: filling a
// directory changes its time, and its mode may forbid filling it.
func (u *unpacker) finish() error {
	for i := len(u.dirs) - 1; i >= 0; i-- {
		d := &u.dirs[i]
		if err := setTime(d.Name, d); err != nil {
			return err
		}
		if err := os.Chmod(d.Name, os.FileMode(d.Mode).Perm()); err != nil {
			return err
		}
	}
	return nil
}
