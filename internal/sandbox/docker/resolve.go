package docker

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/countersign/countersign/internal/sandbox"
)

// maxLinks is how many symbolic links one path may go through, as in Linux.
const maxLinks = 40

// relative returns p's part below the workspace, uncleaned: "link/.." is not ".".
func relative(p string) (string, bool) {
	for _, p := range []string{p, path.Clean(p)} {
		if p == insideWorkspace {
			return ".", true
		}
		if rest, ok := strings.CutPrefix(p, insideWorkspace+"/"); ok {
			return rest, true
		}
	}
	return "", false
}

// resolve follows p as a command would, and looks at what is there.
func (s *session) resolve(ctx context.Context, p string) (sandbox.FileInfo, error) {
	if strings.ContainsRune(p, 0) {
		return sandbox.FileInfo{}, sandbox.Refuse("The path holds a NUL byte.")
	}
	switch {
	case p == "~" || strings.HasPrefix(p, "~/"):
		p = s.Info().Abs(p)
	case !path.IsAbs(p):
		p = insideWorkspace + "/" + p
	}
	rest, ok := relative(p)
	if !ok {
		return sandbox.FileInfo{Resolved: path.Clean(p), Outside: true}, nil
	}
	w := walk{look: s.look, todo: names(rest)}
	return w.run(ctx)
}

// names splits a path and leaves out what leads nowhere.
func names(p string) []string {
	var out []string
	for name := range strings.SplitSeq(p, "/") {
		if name != "" && name != "." {
			out = append(out, name)
		}
	}
	return out
}

// seen is what a look at some names found: n of them are there and are no links,
// and then came what.
type seen struct {
	n    int
	what string // there, absent, link or denied
	to   string // of a link
	info sandbox.FileInfo
}

// walk follows a path from link to link; the names between two links are looked
// at together.
type walk struct {
	look     func(ctx context.Context, at, names []string) (seen, error)
	at, todo []string // below the workspace; at has neither links nor ".."
	links    int
}

func (w *walk) run(ctx context.Context) (sandbox.FileInfo, error) {
	for {
		found, err := w.look(ctx, w.at, w.todo[:staying(len(w.at), w.todo)])
		if err != nil {
			return sandbox.FileInfo{}, err
		}
		w.at, w.todo = follow(w.at, w.todo[:found.n]), w.todo[found.n:]
		switch {
		case found.what == "denied":
			return sandbox.FileInfo{}, fmt.Errorf("looking at %s: %w", w.abs(), fs.ErrPermission)
		case found.what == "absent":
			return w.absent(), nil
		case found.what == "there" && len(w.todo) == 0:
			found.info.Resolved = w.abs()
			return found.info, nil
		}
		if w.links++; w.links > maxLinks {
			return sandbox.FileInfo{}, fmt.Errorf("looking at %s: %w", w.abs(), syscall.ELOOP)
		}
		to := path.Dir(insideWorkspace) // the next name is the ".." that leaves
		if found.what == "link" {
			to = found.to
		}
		w.todo = w.todo[1:]
		if !path.IsAbs(to) {
			w.todo = append(names(to), w.todo...)
		} else if abs, out := w.jump(to); out {
			return sandbox.FileInfo{Resolved: abs, Outside: true}, nil
		}
	}
}

func (w *walk) abs() string { return path.Join(append([]string{insideWorkspace}, w.at...)...) }

// jump goes on at an absolute path. Out and in again is still inside.
func (w *walk) jump(to string) (string, bool) {
	if rest, ok := relative(to); ok {
		w.at, w.todo = nil, append(names(rest), w.todo...)
		return "", false
	}
	abs := path.Join(append([]string{to}, w.todo...)...)
	if rest, ok := relative(abs); ok {
		w.at, w.todo = nil, names(rest)
		return "", false
	}
	return abs, true
}

// absent keeps the rest of a path whose parent does not exist.
func (w *walk) absent() sandbox.FileInfo {
	abs := path.Join(append([]string{w.abs()}, w.todo...)...)
	_, ok := relative(abs)
	return sandbox.FileInfo{Resolved: abs, Outside: !ok}
}

// staying counts the names that can be followed from depth before ".." leaves.
func staying(depth int, names []string) int {
	for i, name := range names {
		if name != ".." {
			depth++
		} else if depth--; depth < 0 {
			return i
		}
	}
	return len(names)
}

// follow goes along names that are no links.
func follow(at, names []string) []string {
	at = at[:len(at):len(at)]
	for _, name := range names {
		if name == ".." {
			at = at[:len(at)-1]
		} else {
			at = append(at, name)
		}
	}
	return at
}

// look asks the container.
func (s *session) look(ctx context.Context, at, names []string) (seen, error) {
	base := path.Join(append([]string{insideWorkspace}, at...)...)
	out, err := s.ask(ctx, "looking at "+base, "look", append([]string{base}, names...)...)
	if err != nil {
		return seen{}, err
	}
	return parseLook(string(out))
}

func parseLook(out string) (seen, error) {
	head, rest, ok := strings.Cut(out, "\n")
	what, count, _ := strings.Cut(head, " ")
	n, err := strconv.Atoi(count)
	if !ok || err != nil {
		return seen{}, fmt.Errorf("looking at a path: the container answers %q", out)
	}
	found := seen{what: what, n: n, to: strings.TrimSuffix(rest, "\n")}
	if what != "there" {
		return found, nil
	}
	// What vanished meanwhile has no line.
	fields := strings.SplitN(strings.TrimSuffix(rest, "\n"), " ", 3)
	if len(fields) == 3 {
		raw, _ := strconv.ParseUint(fields[0], 16, 32)
		size, _ := strconv.ParseInt(fields[1], 10, 64)
		found.info = sandbox.FileInfo{Exists: true, Mode: fileMode(uint32(raw)), Size: size, ModTime: parseTime(fields[2])}
	}
	return found, nil
}

// fileMode reads st_mode.
func fileMode(raw uint32) fs.FileMode {
	mode := fs.FileMode(raw & 0o777)
	for _, bit := range []struct {
		raw  uint32
		mode fs.FileMode
	}{{syscall.S_ISUID, fs.ModeSetuid}, {syscall.S_ISGID, fs.ModeSetgid}, {syscall.S_ISVTX, fs.ModeSticky}} {
		if raw&bit.raw != 0 {
			mode |= bit.mode
		}
	}
	switch raw & syscall.S_IFMT {
	case syscall.S_IFDIR:
		mode |= fs.ModeDir
	case syscall.S_IFLNK:
		mode |= fs.ModeSymlink
	case syscall.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case syscall.S_IFSOCK:
		mode |= fs.ModeSocket
	case syscall.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case syscall.S_IFBLK:
		mode |= fs.ModeDevice
	}
	return mode
}
