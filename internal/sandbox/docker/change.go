package docker

import (
	"archive/tar"
	"bytes"
	"cmp"
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

// change reads a tar with a file for each of its arguments (what to do, mode and
// path, octal as [write] takes them) and puts them in place once all is there.
// Old files are kept until then, to undo. The directory aside always has the same
// name: one that was killed leaves nothing that the next does not remove.
const change = `umask 077
aside=/workspace/.countersign-change
bytes() { printf %b. "$1"; }
name() { file=$(bytes "$1"); file=${file%.}; dir=${file%/*}; }
prepare() {
	n=0
	while [ $# -gt 0 ]; do
		name "$3"
		if [ -e "$file" ] || [ -L "$file" ]; then
			[ -f "$file" ] && { ln -- "$file" "$aside/old.$n" 2>/dev/null || cp -p -- "$file" "$aside/old.$n"; } || return 1
		fi
		if [ "$1" = put ]; then
			(umask 022 && mkdir -p -- "$dir") && chmod "$2" "$aside/$n" || return 1
		fi
		[ ! -d "$dir" ] || { [ -w "$dir" ] && [ -x "$dir" ]; } || return 1
		n=$((n + 1)); shift 3
	done
}
place() {
	n=0
	while [ $# -gt 0 ]; do
		name "$3"
		if [ "$1" = put ]; then mv -f -- "$aside/$n" "$file"; else rm -f -- "$file"; fi || return 1
		n=$((n + 1)); shift 3
	done
}
undo() {
	i=0
	while [ "$i" -lt "$n" ]; do
		name "$3"
		if [ -e "$aside/old.$i" ]; then mv -f -- "$aside/old.$i" "$file"; else rm -f -- "$file"; fi
		i=$((i + 1)); shift 3
	done
}
rm -rf -- "$aside" && mkdir -- "$aside" || exit 1
tar -xf - -C "$aside"
code=$?
case $code in
0)
	prepare "$@" && { place "$@" || { undo "$@"; false; }; }
	code=$?
	;;
126 | 127) ;; # there is no tar
*) code=28 ;;
esac
rm -rf -- "$aside"
exit "$code"`

// Change makes all changes or none; see [sandbox.Files].
func (s *session) Change(ctx context.Context, changes []sandbox.Change) error {
	var args []string
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	for i, c := range changes {
		at, err := s.inside(ctx, c.Path)
		if err != nil {
			return err
		}
		mode := cmp.Or(c.Mode.Perm(), 0o644)
		if at.Exists {
			if !at.Mode.IsRegular() {
				return fmt.Errorf("changing %s: %w", at.Resolved, sandbox.ErrNotFile)
			}
			mode = at.Mode.Perm()
		}
		what := "put"
		if c.Remove {
			what = "del"
		} else if err := addFile(w, strconv.Itoa(i), c.Data); err != nil {
			return fmt.Errorf("changing %s: %w", at.Resolved, err)
		}
		args = append(args, what, strconv.FormatUint(uint64(mode), 8), octal(at.Resolved))
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("packing changes: %w", err)
	}
	const doing = "changing files"
	used, err := s.ready(ctx, doing)
	if err != nil {
		return err
	}
	defer used()
	code, err := s.b.feed(ctx, s.id, data.Bytes(), container.ExecOptions{
		User: fmt.Sprintf("%d:%d", insideUser, insideUser), Env: []string{rootPath, "LC_ALL=C"},
		Cmd: append([]string{"sh", "-c", change, "change"}, args...),
	})
	if err != nil {
		return s.gone(doing, err)
	}
	switch code {
	case 0:
		return nil
	case codeShort:
		return noRoom(doing, "their content does not fit")
	}
	return fmt.Errorf("%s: %w", doing, fs.ErrPermission)
}

func addFile(w *tar.Writer, name string, data []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(data)), Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

// ReadDir lists a directory; see [sandbox.Files].
func (s *session) ReadDir(ctx context.Context, p string, limit int) ([]sandbox.DirEntry, bool, error) {
	at, err := s.inside(ctx, p)
	if err != nil {
		return nil, false, err
	}
	doing := "reading " + at.Resolved
	switch {
	case !at.Exists:
		return nil, false, fmt.Errorf("%s: %w", doing, fs.ErrNotExist)
	case !at.Mode.IsDir():
		return nil, false, fmt.Errorf("%s: %w", doing, sandbox.ErrNotDir)
	}
	data, code, err := s.call(ctx, doing, "listing", at.Resolved)
	switch {
	case err != nil:
		return nil, false, err
	case code == codeNoDir:
		return nil, false, fmt.Errorf("%s: %w", doing, fs.ErrPermission)
	case code != 0:
		return nil, false, badAnswer(doing, code)
	}
	out, err := parseListing(data)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w: %v", doing, sandbox.ErrUnavailable, err)
	}
	slices.SortFunc(out, func(a, b sandbox.DirEntry) int { return strings.Compare(a.Name, b.Name) })
	return out[:min(limit, len(out))], len(out) > limit, nil
}

// parseListing reads names, and a line for each of them.
func parseListing(data []byte) ([]sandbox.DirEntry, error) {
	if len(data) == 1 && data[0] == 0 {
		return nil, nil
	}
	names, text, ok := bytes.Cut(data, []byte("\x00\x00"))
	if !ok {
		return nil, errTorn
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	var out []sandbox.DirEntry
	for name := range bytes.SplitSeq(names, []byte{0}) {
		if len(out) == len(lines) {
			return nil, errTorn
		}
		fields := strings.SplitN(lines[len(out)], " ", 3)
		if len(fields) != 3 {
			return nil, errTorn
		}
		raw, err := strconv.ParseUint(fields[0], 16, 32)
		if err != nil {
			return nil, errTorn
		}
		size, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return nil, errTorn
		}
		out = append(out, sandbox.DirEntry{Name: path.Base(string(name)), Mode: fileMode(uint32(raw)), Size: size, ModTime: parseTime(fields[2])})
	}
	if len(out) != len(lines) {
		return nil, errTorn
	}
	return out, nil
}
