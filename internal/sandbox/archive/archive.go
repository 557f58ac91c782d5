// Package archive writes a directory as zstd-compressed tar and makes a
// directory from one. The format is plain enough for any tar and zstd: PAX
// headers, no owners, entries in the order of their names, so that equal
// content gives equal bytes.
//
// Kept are regular files, directories (empty ones too) and symbolic links, with
// permission bits, modification times and names of any bytes. Set-uid and
// set-gid bits, sockets, pipes and devices are left out when writing and refused
// when reading. Hard links become files of their own.
package archive

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// ErrBad says that an archive holds what must not be unpacked.
var ErrBad = errors.New("bad archive")

// maxWindow bounds what a stream may make the reader hold in memory, in bytes.
const maxWindow = 64 << 20 // 64 MiB; Pack writes windows of at most 8 MiB

// Stats counts what an archive holds.
type Stats struct {
	Files int
	Bytes int64 // of regular files, not compressed
}

// Pack writes everything below dir to w. What vanishes meanwhile is left out; a
// file that shrinks while it is read is filled up with zeros.
func Pack(ctx context.Context, dir string, w io.Writer) (Stats, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Stats{}, fmt.Errorf("opening the workspace: %w", err)
	}
	defer root.Close()
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2))
	if err != nil {
		return Stats{}, err
	}
	p := packer{ctx: ctx, root: root, tar: tar.NewWriter(z), buf: make([]byte, 256<<10)}
	err = p.dir(".")
	if err == nil {
		err = p.tar.Close()
	}
	if err != nil {
		_ = z.Close()
		return p.stats, fmt.Errorf("packing the workspace: %w", err)
	}
	return p.stats, z.Close()
}

type packer struct {
	ctx   context.Context
	root  *os.Root
	tar   *tar.Writer
	buf   []byte
	stats Stats
}

func (p *packer) dir(name string) error {
	d, err := openForced(p.root, name, os.O_RDONLY|syscall.O_DIRECTORY)
	if err != nil {
		return vanished(err)
	}
	names, err := d.Readdirnames(-1)
	d.Close()
	if err != nil {
		return vanished(err)
	}
	slices.Sort(names)
	for _, n := range names {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		if err := p.entry(path.Join(name, n)); err != nil {
			return err
		}
	}
	return nil
}

func (p *packer) entry(name string) error {
	info, err := p.root.Lstat(name)
	if err != nil {
		return vanished(err)
	}
	h := &tar.Header{
		Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(), Format: tar.FormatPAX,
	}
	switch {
	case info.Mode().IsRegular():
		return p.file(h)
	case info.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
		if err := p.tar.WriteHeader(h); err != nil {
			return err
		}
		return p.dir(name)
	case info.Mode()&fs.ModeSymlink != 0:
		h.Typeflag, h.Mode = tar.TypeSymlink, 0o777
		if h.Linkname, err = p.root.Readlink(name); err != nil {
			return vanished(err)
		}
		p.stats.Files++
		return p.tar.WriteHeader(h)
	}
	return nil
}

func (p *packer) file(h *tar.Header) error {
	f, err := openForced(p.root, h.Name, os.O_RDONLY|syscall.O_NONBLOCK)
	if err != nil {
		return vanished(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	p.stats.Files++
	p.stats.Bytes += h.Size
	body := io.MultiReader(io.LimitReader(f, h.Size), zeros{})
	_, err = io.CopyBuffer(struct{ io.Writer }{p.tar}, io.LimitReader(ctxReader{p.ctx, body}, h.Size), p.buf)
	return err
}

// openForced opens what a command has made unreadable even for its owner.
func openForced(root *os.Root, name string, flag int) (*os.File, error) {
	f, err := root.OpenFile(name, flag, 0)
	if !errors.Is(err, fs.ErrPermission) {
		return f, err
	}
	info, serr := root.Lstat(name)
	if serr != nil {
		return nil, err
	}
	if cerr := root.Chmod(name, info.Mode().Perm()|0o500); cerr != nil {
		return nil, err
	}
	f, err = root.OpenFile(name, flag, 0)
	if !info.IsDir() {
		_ = root.Chmod(name, info.Mode().Perm())
	}
	return f, err
}

func vanished(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (r ctxReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// Unpack makes the archive's content below dir, an existing empty directory. It
// returns [ErrBad] for an entry that leaves dir, is a device, pipe or hard link,
// has a set-uid or set-gid bit, or comes twice; dir then holds a part.
func Unpack(ctx context.Context, r io.Reader, dir string) (Stats, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Stats{}, fmt.Errorf("opening the new workspace: %w", err)
	}
	defer root.Close()
	z, err := zstd.NewReader(ctxReader{ctx, r}, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return Stats{}, fmt.Errorf("unpacking the workspace: %w", err)
	}
	defer z.Close()
	u := unpacker{root: root, dir: dir, tar: tar.NewReader(z), buf: make([]byte, 256<<10)}
	for {
		h, err := u.tar.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = u.entry(h)
		}
		if err != nil {
			return u.stats, fmt.Errorf("unpacking the workspace: %w", err)
		}
	}
	// The rest of the stream is read too: a reader that verifies it must see its end.
	if _, err := io.Copy(io.Discard, z); err != nil {
		return u.stats, fmt.Errorf("unpacking the workspace: %w", err)
	}
	return u.stats, u.finish()
}

type unpacker struct {
	root  *os.Root
	dir   string
	tar   *tar.Reader
	buf   []byte
	stats Stats
	dirs  []tar.Header
}

func (u *unpacker) entry(h *tar.Header) error {
	name, err := u.check(h)
	if err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if name == "." {
			return nil
		}
		u.dirs = append(u.dirs, tar.Header{Name: name, Mode: h.Mode, ModTime: h.ModTime})
		return u.root.Mkdir(name, 0o700)
	case tar.TypeSymlink:
		u.stats.Files++
		if err := u.root.Symlink(h.Linkname, name); err != nil {
			return err
		}
		return u.linkTime(name, h.ModTime)
	}
	return u.file(name, h)
}

func (u *unpacker) check(h *tar.Header) (string, error) {
	name := path.Clean(h.Name)
	if path.IsAbs(h.Name) || name == ".." || strings.HasPrefix(name, "../") || strings.ContainsRune(h.Name, 0) {
		return "", fmt.Errorf("%w: %q leaves the workspace", ErrBad, h.Name)
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink:
	default:
		return "", fmt.Errorf("%w: %q is no file, directory or symbolic link", ErrBad, h.Name)
	}
	if h.Mode&0o6000 != 0 {
		return "", fmt.Errorf("%w: %q has a set-uid or set-gid bit", ErrBad, h.Name)
	}
	if h.Typeflag != tar.TypeDir && name == "." {
		return "", fmt.Errorf("%w: %q is the workspace itself", ErrBad, h.Name)
	}
	// A parent that the archive made a symbolic link would lead elsewhere.
	for p := path.Dir(name); p != "."; p = path.Dir(p) {
		if info, err := u.root.Lstat(p); err == nil && !info.IsDir() {
			return "", fmt.Errorf("%w: %q goes through %q, which is no directory", ErrBad, h.Name, p)
		}
	}
	if _, err := u.root.Lstat(name); err == nil && name != "." {
		return "", fmt.Errorf("%w: %q comes twice", ErrBad, h.Name)
	}
	return name, nil
}

func (u *unpacker) file(name string, h *tar.Header) error {
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	u.stats.Files++
	n, err := io.CopyBuffer(struct{ io.Writer }{f}, u.tar, u.buf)
	u.stats.Bytes += n
	if err == nil {
		err = f.Chmod(fs.FileMode(h.Mode).Perm())
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return u.root.Chtimes(name, time.Time{}, h.ModTime)
}

// linkTime is set by path: os.Root cannot set a symbolic link's own time. Nobody
// else writes below dir while it is filled.
func (u *unpacker) linkTime(name string, at time.Time) error {
	ts := unix.NsecToTimespec(at.UnixNano())
	err := unix.UtimesNanoAt(unix.AT_FDCWD, u.dir+"/"+name, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return err
}

// finish sets the directories' modes and times, the deepest first: filling a
// directory changes its time, and its mode may forbid filling it.
func (u *unpacker) finish() error {
	for i := len(u.dirs) - 1; i >= 0; i-- {
		d := u.dirs[i]
		if err := u.root.Chtimes(d.Name, time.Time{}, d.ModTime); err != nil {
			return err
		}
		if err := u.root.Chmod(d.Name, fs.FileMode(d.Mode).Perm()); err != nil {
			return err
		}
	}
	return nil
}
