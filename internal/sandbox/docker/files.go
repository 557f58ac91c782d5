package docker

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/countersign/countersign/internal/sandbox"
)

// inside resolves p and refuses what leads out of the workspace.
func (s *session) inside(ctx context.Context, p string) (sandbox.FileInfo, error) {
	at, err := s.resolve(ctx, p)
	if err == nil && at.Outside {
		err = fmt.Errorf("%w: %s", sandbox.ErrOutside, at.Resolved)
	}
	return at, err
}

// regular is inside for a regular file.
func (s *session) regular(ctx context.Context, p string) (sandbox.FileInfo, error) {
	at, err := s.inside(ctx, p)
	switch {
	case err != nil:
	case !at.Exists:
		err = fmt.Errorf("opening %s: %w", at.Resolved, fs.ErrNotExist)
	case !at.Mode.IsRegular():
		err = fmt.Errorf("opening %s: %w", at.Resolved, sandbox.ErrNotFile)
	}
	return at, err
}

// Stat tells what is at a path; see [sandbox.Files].
func (s *session) Stat(ctx context.Context, p string) (sandbox.FileInfo, error) {
	return s.resolve(ctx, p)
}

// ReadFile reads a regular file; see [sandbox.Files].
func (s *session) ReadFile(ctx context.Context, p string, limit int64) ([]byte, int64, error) {
	at, err := s.regular(ctx, p)
	if err != nil {
		return nil, 0, err
	}
	data, err := s.read(ctx, at.Resolved, "content", at.Resolved, strconv.FormatInt(limit, 10))
	return data, max(at.Size, int64(len(data))), err
}

// Hash digests a regular file; see [sandbox.Files].
func (s *session) Hash(ctx context.Context, p string) (string, error) {
	at, err := s.regular(ctx, p)
	if err != nil {
		return "", err
	}
	out, err := s.read(ctx, at.Resolved, "digest", at.Resolved)
	if err != nil {
		return "", err
	}
	sum, _, _ := strings.Cut(string(out), " ")
	if len(sum) != 64 {
		return "", fmt.Errorf("reading %s: the container's sha256sum prints %q", p, out)
	}
	return sum, nil
}

func (s *session) read(ctx context.Context, p, verb string, args ...string) ([]byte, error) {
	data, code, err := s.call(ctx, "reading "+p, verb, args...)
	switch {
	case err != nil:
		return nil, err
	case code == codeNotFile:
		return nil, fmt.Errorf("reading %s: %w", p, sandbox.ErrNotFile)
	case code != 0:
		return nil, fmt.Errorf("reading %s: %w", p, fs.ErrPermission)
	}
	return data, nil
}

// write puts its standard input in place once it has it whole. Names come as
// octal writes them: they may be no text that the engine's API can carry.
const write = `bytes() { printf %b. "$1"; }
dir=$(bytes "$1") file=$(bytes "$2") temp=$3 size=$4 mode=$5
dir=${dir%.} file=${file%.}
mkdir -p -- "$dir" || exit 1
umask 077
: >"$dir/$temp" || exit 1
code=28
cat >"$dir/$temp" && [ "$(wc -c <"$dir/$temp")" -eq "$size" ] && code=1 && chmod "$mode" "$dir/$temp" &&
	mv -f -- "$dir/$temp" "$dir/$file" || { rm -f -- "$dir/$temp"; exit "$code"; }`

// codeShort is the exit code of [write] and [change] where there was no room for all
// of the content.
const codeShort = 28

// WriteFile writes a regular file; see [sandbox.Files].
func (s *session) WriteFile(ctx context.Context, p string, data []byte) error {
	at, err := s.inside(ctx, p)
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if at.Exists {
		if !at.Mode.IsRegular() {
			return fmt.Errorf("writing %s: %w", at.Resolved, sandbox.ErrNotFile)
		}
		mode = at.Mode.Perm()
	}
	used, err := s.ready(ctx, "writing "+at.Resolved)
	if err != nil {
		return err
	}
	defer used()
	dir, file := path.Split(at.Resolved)
	code, err := s.b.feed(ctx, s.id, data, container.ExecOptions{
		User: fmt.Sprintf("%d:%d", insideUser, insideUser), Env: []string{rootPath, "LC_ALL=C"},
		Cmd: []string{"sh", "-c", "umask 022\n" + write, "write",
			octal(path.Clean(dir)), octal(file), ".countersign-" + random(), strconv.Itoa(len(data)), strconv.FormatUint(uint64(mode), 8)},
	})
	if err != nil {
		return s.gone("writing "+at.Resolved, err)
	}
	switch code {
	case 0:
		return nil
	case codeShort:
		return noRoom("writing "+at.Resolved, "its content does not fit")
	}
	return fmt.Errorf("writing %s: %w", at.Resolved, fs.ErrPermission)
}

// ready makes sure that the container runs, and is not stopped until the returned
// function is called.
func (s *session) ready(ctx context.Context, doing string) (func(), error) {
	used, err := s.usage.use(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case <-s.line:
		_, err = s.connect(ctx, doing)
		s.line <- struct{}{}
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		used()
		return nil, err
	}
	return used, nil
}

// Glob expands a pattern as the shell does by default: "*" and "?" match no
// slash and no leading dot. See [sandbox.Files].
func (s *session) Glob(ctx context.Context, pattern string, limit int) ([]string, error) {
	if !path.IsAbs(pattern) {
		pattern = insideWorkspace + "/" + pattern
	}
	rest, ok := relative(pattern)
	if !ok {
		return nil, fmt.Errorf("%w: %s", sandbox.ErrOutside, pattern)
	}
	at := []string{insideWorkspace}
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
			found, err := s.expand(ctx, dir, part)
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
func (s *session) expand(ctx context.Context, dir, part string) ([]string, error) {
	at, err := s.inside(ctx, dir)
	if err != nil {
		return nil, err
	}
	if !strings.ContainsAny(part, `*?[\`) {
		p := dir + "/" + part
		// One that leads out is for the next part, or the reader, to see.
		if to, err := s.resolve(ctx, p); err != nil || to.Outside || to.Exists {
			return []string{path.Clean(p)}, nil
		}
		return nil, nil
	}
	part = strings.ReplaceAll(part, "[!", "[^")
	if _, err := path.Match(part, ""); err != nil {
		return nil, fmt.Errorf("the pattern %q: %w", part, err)
	}
	list, err := s.ask(ctx, "listing "+dir, "names", at.Resolved)
	if err != nil {
		return nil, err
	}
	var out []string
	for name := range bytes.SplitSeq(list, []byte{0}) {
		name := string(name)
		if name == "" || strings.HasPrefix(name, ".") && !strings.HasPrefix(part, ".") {
			continue
		}
		if ok, _ := path.Match(part, name); ok {
			out = append(out, dir+"/"+name)
		}
	}
	return out, nil
}
