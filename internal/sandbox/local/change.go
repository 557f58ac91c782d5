package local

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/countersign/countersign/internal/sandbox"
)

// staged is one change, ready to be put in place.
type staged struct {
	at   place
	temp string // the new content; empty removes
	old  string // a second name of what is there; empty where nothing is
}

// Change makes all changes or none; see [sandbox.Files].
func (s *session) Change(ctx context.Context, changes []sandbox.Change) error {
	var all []staged
	defer func() {
		for _, c := range all {
			for _, name := range []string{c.temp, c.old} {
				if name != "" {
					_ = s.root.Remove(name) // gone where it was put in place
				}
			}
		}
	}()
	for _, c := range changes {
		if err := ctx.Err(); err != nil {
			return err
		}
		st, err := s.stage(c)
		all = append(all, st)
		if err != nil {
			return fmt.Errorf("changing %s: %w", c.Path, err)
		}
	}
	for i, c := range all {
		if c.at.rel == "" {
			continue
		}
		err := error(nil)
		if c.temp == "" {
			err = s.root.Remove(c.at.rel)
		} else {
			err = s.root.Rename(c.temp, c.at.rel)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("changing %s: %w", c.at.abs, err), s.restore(all[:i]))
		}
	}
	return nil
}

// stage writes a change beside its place, and keeps what is there by another
// name.
func (s *session) stage(c sandbox.Change) (staged, error) {
	at, err := s.inside(c.Path)
	if err != nil {
		return staged{}, err
	}
	st := staged{at: at}
	mode := cmp.Or(c.Mode.Perm(), 0o644)
	dir := path.Dir(at.rel)
	info, err := s.root.Lstat(at.rel)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return st, sandbox.ErrNotFile
	case err == nil:
		mode = info.Mode().Perm()
		st.old = asideName(at.rel, "old")
		_ = s.root.Remove(st.old) // of one that was killed
		if err := s.root.Link(at.rel, st.old); err != nil {
			return st, err
		}
	case errors.Is(err, fs.ErrNotExist) && c.Remove:
		return staged{}, nil // somebody has, perhaps this change before it was killed
	case !errors.Is(err, fs.ErrNotExist):
		return st, err
	}
	if c.Remove {
		return st, nil
	}
	if err := s.root.MkdirAll(dir, 0o755); err != nil {
		return st, err
	}
	st.temp = asideName(at.rel, "new")
	_ = s.root.Remove(st.temp)
	f, err := s.root.OpenFile(st.temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return st, err
	}
	_, err = f.Write(c.Data)
	if err == nil {
		err = f.Chmod(mode)
	}
	return st, errors.Join(err, f.Close())
}

// asideName is a name beside rel, the same each time: making a change again
// after a kill leaves nothing of the first time.
func asideName(rel, kind string) string {
	sum := sha256.Sum256([]byte(rel))
	return path.Join(path.Dir(rel), ".countersign-"+kind+"-"+hex.EncodeToString(sum[:6]))
}

// restore undoes changes that were made.
func (s *session) restore(made []staged) error {
	var errs []error
	for _, c := range made {
		switch {
		case c.old != "":
			errs = append(errs, s.root.Rename(c.old, c.at.rel))
		case c.temp != "":
			errs = append(errs, s.root.Remove(c.at.rel))
		}
	}
	return errors.Join(errs...)
}

// ReadDir lists a directory; see [sandbox.Files].
func (s *session) ReadDir(_ context.Context, p string, limit int) ([]sandbox.DirEntry, bool, error) {
	at, err := s.inside(p)
	if err != nil {
		return nil, false, err
	}
	d, err := s.root.OpenFile(at.rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false, fmt.Errorf("opening %s: %w", at.abs, err)
	}
	defer d.Close()
	if info, err := d.Stat(); err == nil && !info.IsDir() {
		return nil, false, fmt.Errorf("opening %s: %w", at.abs, sandbox.ErrNotDir)
	}
	names, err := d.Readdirnames(-1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, fmt.Errorf("reading %s: %w", at.abs, err)
	}
	slices.SortFunc(names, strings.Compare)
	more := len(names) > limit
	var out []sandbox.DirEntry
	for _, name := range names[:min(limit, len(names))] {
		info, err := s.root.Lstat(path.Join(at.rel, name))
		if err != nil {
			continue // gone meanwhile
		}
		out = append(out, sandbox.DirEntry{Name: name, Mode: info.Mode(), Size: info.Size(), ModTime: info.ModTime()})
	}
	return out, more, nil
}
