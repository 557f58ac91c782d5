package local

import (
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

// maxLinks is how many symbolic links one path may go through, as in Linux.
const maxLinks = 40

// place is where a path leads.
type place struct {
	abs     string // with every link followed
	rel     string // below the workspace; "." is the workspace
	outside bool
}

// relative returns p's part below the workspace, uncleaned: "link/.." is not ".".
func (s *session) relative(p string) (string, bool) {
	for _, p := range []string{p, path.Clean(p)} {
		if p == s.info.Workspace {
			return ".", true
		}
		if rest, ok := strings.CutPrefix(p, s.info.Workspace+"/"); ok {
			return rest, true
		}
	}
	return "", false
}

// resolve follows p as a command would. Absolute links are read as commands
// read them: /workspace is the workspace, wherever it is on this machine.
func (s *session) resolve(p string) (place, error) {
	if strings.ContainsRune(p, 0) {
		return place{}, sandbox.Refuse("The path holds a NUL byte.")
	}
	switch {
	case p == "~" || strings.HasPrefix(p, "~/"):
		p = s.info.Abs(p)
	case !path.IsAbs(p):
		p = s.info.Workspace + "/" + p
	}
	rest, ok := s.relative(p)
	if !ok {
		return place{abs: path.Clean(p), outside: true}, nil
	}
	w := walk{s: s, todo: strings.Split(rest, "/"), at: "."}
	return w.run()
}

type walk struct {
	s     *session
	todo  []string
	at    string
	links int
}

func (w *walk) run() (place, error) {
	for len(w.todo) > 0 {
		name := w.todo[0]
		w.todo = w.todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if w.at == "." {
				return w.outside(path.Join(w.s.info.Workspace, ".."))
			}
			w.at = path.Dir(w.at)
			continue
		}
		next := path.Join(w.at, name)
		info, err := w.s.root.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			return w.absent(next)
		case err != nil:
			return place{}, fmt.Errorf("looking at %s: %w", next, err)
		case info.Mode()&fs.ModeSymlink == 0:
			w.at = next
			continue
		}
		if w.links++; w.links > maxLinks {
			return place{}, fmt.Errorf("looking at %s: %w", next, syscall.ELOOP)
		}
		to, err := w.s.root.Readlink(next)
		if err != nil {
			return place{}, fmt.Errorf("looking at %s: %w", next, err)
		}
		if path.IsAbs(to) {
			rest, ok := w.s.relative(to)
			if !ok {
				return w.outside(to)
			}
			w.at, to = ".", rest
		}
		w.todo = append(strings.Split(to, "/"), w.todo...)
	}
	return place{abs: path.Join(w.s.info.Workspace, w.at), rel: w.at}, nil
}

func (w *walk) outside(at string) (place, error) {
	abs := path.Join(append([]string{at}, w.todo...)...)
	// Out and in again is still inside.
	if rest, ok := w.s.relative(abs); ok && w.links < maxLinks {
		w.todo, w.at = strings.Split(rest, "/"), "."
		w.links++
		return w.run()
	}
	return place{abs: abs, outside: true}, nil
}

// absent keeps the rest of a path whose parent does not exist.
func (w *walk) absent(at string) (place, error) {
	rel := path.Join(append([]string{at}, w.todo...)...)
	if rel == ".." || strings.HasPrefix(rel, "../") {
		return place{abs: path.Join(w.s.info.Workspace, rel), outside: true}, nil
	}
	return place{abs: path.Join(w.s.info.Workspace, rel), rel: rel}, nil
}

// inside resolves p and refuses what leads out of the workspace.
func (s *session) inside(p string) (place, error) {
	at, err := s.resolve(p)
	if err == nil && at.outside {
		err = fmt.Errorf("%w: %s", sandbox.ErrOutside, at.abs)
	}
	return at, err
}

// Stat tells what is at a path; see [sandbox.Files].
func (s *session) Stat(_ context.Context, p string) (sandbox.FileInfo, error) {
	at, err := s.resolve(p)
	if err != nil {
		return sandbox.FileInfo{}, err
	}
	out := sandbox.FileInfo{Resolved: at.abs, Outside: at.outside}
	if at.outside {
		return out, nil
	}
	info, err := s.root.Lstat(at.rel)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return out, nil
	case err != nil:
		return out, fmt.Errorf("looking at %s: %w", at.abs, err)
	}
	out.Exists, out.Size, out.Mode, out.ModTime = true, info.Size(), info.Mode(), info.ModTime()
	return out, nil
}

// open opens a regular file for reading. A pipe in its place is not waited for.
func (s *session) open(p string) (*os.File, fs.FileInfo, error) {
	at, err := s.inside(p)
	if err != nil {
		return nil, nil, err
	}
	f, err := s.root.OpenFile(at.rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("opening %s: %w", at.abs, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = sandbox.ErrNotFile
	}
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("opening %s: %w", at.abs, err)
	}
	return f, info, nil
}

// ReadFile reads a regular file; see [sandbox.Files].
func (s *session) ReadFile(_ context.Context, p string, limit int64) ([]byte, int64, error) {
	f, info, err := s.open(p)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, 0, fmt.Errorf("reading %s: %w", p, err)
	}
	return data, max(info.Size(), int64(len(data))), nil
}

// Hash digests a regular file; see [sandbox.Files].
func (s *session) Hash(_ context.Context, p string) (string, error) {
	f, _, err := s.open(p)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("reading %s: %w", p, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// WriteFile writes a regular file; see [sandbox.Files].
func (s *session) WriteFile(_ context.Context, p string, data []byte) error {
	at, err := s.inside(p)
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	info, err := s.root.Lstat(at.rel)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("writing %s: %w", at.abs, sandbox.ErrNotFile)
	case err == nil:
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("writing %s: %w", at.abs, err)
	}
	dir := path.Dir(at.rel)
	if err := s.root.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("writing %s: %w", at.abs, err)
	}
	if err := s.replace(at.rel, data, mode); err != nil {
		return fmt.Errorf("writing %s: %w", at.abs, err)
	}
	return nil
}

// Glob expands a pattern as the shell does by default: "*" and "?" match no
// slash and no leading dot. See [sandbox.Files].
func (s *session) Glob(ctx context.Context, pattern string, limit int) ([]string, error) {
	if !path.IsAbs(pattern) {
		pattern = s.info.Workspace + "/" + pattern
	}
	rest, ok := s.relative(pattern)
	if !ok {
		return nil, fmt.Errorf("%w: %s", sandbox.ErrOutside, pattern)
	}
	at := []string{s.info.Workspace}
	cut, tooMany := false, error(nil)
	for part := range strings.SplitSeq(rest, "/") {
		if part == "" {
			continue
		}
		if cut {
			tooMany = sandbox.ErrTooMany
		}
		var next []string
		for _, dir := range at {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			found, err := s.expand(dir, part)
			if err != nil {
				return nil, err
			}
			next = append(next, found...)
			if len(next) > limit {
				next, cut = next[:limit], true
				break
			}
		}
		at = next
	}
	slices.Sort(at)
	return at, tooMany
}

// expand returns the entries of dir that match one part of a pattern.
func (s *session) expand(dir, part string) ([]string, error) {
	at, err := s.inside(dir)
	if err != nil {
		return nil, err
	}
	if !strings.ContainsAny(part, `*?[\`) {
		p := dir + "/" + part
		if to, err := s.resolve(p); err != nil || to.outside {
			return []string{p}, nil // the next part, or the reader, sees that it leads out
		} else if _, err := s.root.Lstat(to.rel); err != nil {
			return nil, nil
		}
		return []string{path.Clean(p)}, nil
	}
	d, err := s.root.OpenFile(at.rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil // no directory, or not readable: nothing matches
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	part = strings.ReplaceAll(part, "[!", "[^")
	var out []string
	for _, name := range names {
		if strings.HasPrefix(name, ".") && !strings.HasPrefix(part, ".") {
			continue
		}
		if ok, err := path.Match(part, name); err != nil {
			return nil, fmt.Errorf("the pattern %q: %w", part, err)
		} else if ok {
			out = append(out, dir+"/"+name)
		}
	}
	return out, nil
}
