package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/countersign/countersign/internal/sandbox/snapshot"
)

// Dir is a directory of this machine as a [snapshot.Tree]. No symbolic link is
// followed below it.
type Dir string

var _ snapshot.Tree = Dir("")

// List walks the directory; see [snapshot.Tree]. What vanishes meanwhile is left
// out.
func (d Dir) List(ctx context.Context, each func(snapshot.Entry) error) error {
	root, err := d.open()
	if err != nil {
		return err
	}
	defer root.Close()
	w := walker{ctx: ctx, each: each, more: make(chan struct{}, runtime.GOMAXPROCS(0)-1)}
	return w.walk(root, "")
}

func (d Dir) open() (*os.File, error) {
	root, err := os.OpenFile(string(d), os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the workspace: %w", err)
	}
	return root, nil
}

// walker lists directories, several at a time where there are processors for it:
// most of the time goes to the kernel.
type walker struct {
	ctx  context.Context
	more chan struct{} // holds what walks besides the first
	mu   sync.Mutex    // held while each is called
	each func(snapshot.Entry) error
}

// walk lists what is in an open directory, whose name with a slash is prefix, and
// returns when all below it is listed.
func (w *walker) walk(dir *os.File, prefix string) error {
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("listing %s: %w", prefix, err)
	}
	found := make([]snapshot.Entry, 0, len(names))
	for _, name := range names {
		e, ok, err := stat(int(dir.Fd()), name)
		if err != nil {
			return fmt.Errorf("looking at %s%s: %w", prefix, name, err)
		}
		if ok {
			e.Name = prefix + name
			found = append(found, e)
		}
	}
	if err := w.tell(found); err != nil {
		return err
	}
	var below sync.WaitGroup
	errs := make(chan error, 1)
	for i := range found {
		if found[i].Kind != snapshot.Dir {
			continue
		}
		select {
		case w.more <- struct{}{}:
			below.Go(func() {
				defer func() { <-w.more }()
				if err := w.descend(dir, found[i].Name); err != nil {
					select {
					case errs <- err:
					default:
					}
				}
			})
			continue
		default:
		}
		if err = w.descend(dir, found[i].Name); err != nil {
			break
		}
	}
	below.Wait()
	select {
	case other := <-errs:
		err = errors.Join(err, other)
	default:
	}
	return err
}

func (w *walker) tell(found []snapshot.Entry) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.ctx.Err(); err != nil {
		return err
	}
	for _, e := range found {
		if err := w.each(e); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) descend(dir *os.File, name string) error {
	sub, shut, err := openAt(dir, path.Base(name), unix.O_DIRECTORY)
	if err != nil {
		if gone(err) {
			return nil
		}
		return fmt.Errorf("listing %s: %w", name, err)
	}
	defer sub.Close()
	defer shut()
	return w.walk(sub, name+"/")
}

// stat tells what is at a name; false for what is not kept or not there.
func stat(dir int, name string) (snapshot.Entry, bool, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if gone(err) {
			err = nil
		}
		return snapshot.Entry{}, false, err
	}
	e := snapshot.Entry{
		Mode: st.Mode & 0o777, ModTime: st.Mtim.Nano(), ChangeTime: st.Ctim.Nano(), Inode: st.Ino, Links: uint32(st.Nlink),
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		e.Kind, e.Size = snapshot.File, st.Size
	case unix.S_IFDIR:
		e.Kind = snapshot.Dir
	case unix.S_IFLNK:
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(dir, name, buf)
		if err != nil {
			if gone(err) || errors.Is(err, unix.EINVAL) {
				err = nil
			}
			return e, false, err
		}
		e.Kind, e.Mode, e.Target = snapshot.Link, 0o777, string(buf[:n])
	default:
		return e, false, nil
	}
	return e, true, nil
}

// openAt opens a name for reading, also one that a command has made unreadable for
// its owner, or a directory whose names it may list and not look at; shut makes it so
// again. No symbolic link is followed.
func openAt(dir *os.File, name string, flags int) (f *os.File, shut func(), err error) {
	shut = func() {}
	at := int(dir.Fd())
	flags |= unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := openat(at, name, flags)
	if err == nil && flags&unix.O_DIRECTORY != 0 && errors.Is(unix.Faccessat(fd, ".", unix.X_OK, 0), unix.EACCES) {
		unix.Close(fd)
		err = unix.EACCES
	}
	if errors.Is(err, unix.EACCES) {
		if shut, err = unlock(at, name); err == nil {
			if fd, err = openat(at, name, flags); err != nil {
				shut()
			}
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fd), name), shut, nil
}

func openat(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// unlock lets the owner read what is at a name until the returned function is
// called.
func unlock(dir int, name string) (func(), error) {
	fd, err := openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = unix.ELOOP
	}
	self := "/proc/self/fd/" + strconv.Itoa(fd) // an O_PATH descriptor is not changed by itself
	if err == nil {
		err = unix.Chmod(self, st.Mode&0o7777|0o500)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return func() {
		_ = unix.Chmod(self, st.Mode&0o7777)
		unix.Close(fd)
	}, nil
}

func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

// Read gives the files' content; see [snapshot.Tree]. A file that shrinks while it
// is read is filled up with zeros.
func (d Dir) Read(ctx context.Context, names []string, each func(string, int64, io.Reader) error) error {
	root, err := d.open()
	if err != nil {
		return err
	}
	defer root.Close()
	p := parents{root: root}
	defer p.close()
	for _, name := range slices.Sorted(slices.Values(names)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.read(ctx, name, each); err != nil {
			return err
		}
	}
	return nil
}

// parents keeps the directory open that was read from last: the next name is most
// often in it, too.
type parents struct {
	root *os.File
	name string
	dir  *os.File
	shut []func()
}

func (p *parents) close() {
	if p.dir != nil && p.dir != p.root {
		p.dir.Close()
	}
	for _, shut := range slices.Backward(p.shut) {
		shut()
	}
	p.dir, p.shut = nil, nil
}

// at returns the open directory of that name; nil where there is none.
func (p *parents) at(name string) (*os.File, error) {
	if p.dir != nil && p.name == name {
		return p.dir, nil
	}
	p.close()
	if name == "." {
		p.name, p.dir = name, p.root
		return p.dir, nil
	}
	dir := p.root
	for part := range splitPath(name) {
		sub, shut, err := openAt(dir, part, unix.O_DIRECTORY)
		if dir != p.root {
			dir.Close()
		}
		if err != nil {
			if gone(err) || errors.Is(err, unix.ELOOP) {
				err = nil
			}
			p.close()
			return nil, err
		}
		dir, p.shut = sub, append(p.shut, shut)
	}
	p.name, p.dir = name, dir
	return dir, nil
}

func splitPath(name string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name != "" {
			i := 0
			for i < len(name) && name[i] != '/' {
				i++
			}
			if !yield(name[:i]) {
				return
			}
			name = name[min(i+1, len(name)):]
		}
	}
}

func (p *parents) read(ctx context.Context, name string, each func(string, int64, io.Reader) error) error {
	dir, err := p.at(path.Dir(name))
	if err != nil || dir == nil {
		return err
	}
	f, shut, err := openAt(dir, path.Base(name), 0)
	if err != nil {
		if gone(err) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
			return nil
		}
		return fmt.Errorf("reading %s: %w", name, err)
	}
	defer f.Close()
	defer shut()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return err
	}
	body := io.MultiReader(f, zeros{})
	return each(name, st.Size, io.LimitReader(ctxReader{ctx, body}, st.Size))
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
