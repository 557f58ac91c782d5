package docker

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/snapshot"
)

// List shows the workspace as its owner's find does; see [snapshot.Tree]. What a
// command has closed to its own user is opened meanwhile.
func (s *session) List(ctx context.Context, each func(snapshot.Entry) error) error {
	shut := map[string]uint32{}
	dirs := []string{""}
	for first := true; len(dirs) > 0; first = false {
		dir := dirs[0]
		dirs = dirs[1:]
		found, err := s.entriesBelow(ctx, dir, shut)
		if err != nil {
			return err
		}
		for _, e := range found {
			if !first && e.Name == dir {
				continue // seen from above, as it was before it was opened
			}
			if unreadable(e) {
				shut[e.Name] = e.Mode
				if e.Kind == snapshot.Dir {
					dirs = append(dirs, e.Name)
				}
			}
			if e.Name == "" {
				continue // the workspace itself
			}
			if err := each(e); err != nil {
				return err
			}
		}
	}
	s.shut.Store(&shut)
	return nil
}

// unreadable tells whether the owner cannot read a file or enter a directory.
func unreadable(e snapshot.Entry) bool {
	switch e.Kind {
	case snapshot.Dir:
		return e.Mode&0o500 != 0o500
	case snapshot.File:
		return e.Mode&0o400 == 0
	}
	return false
}

func inWorkspace(name string) string { return path.Join(insideWorkspace, name) }

// entriesBelow lists a directory and what is below it.
func (s *session) entriesBelow(ctx context.Context, dir string, shut map[string]uint32) ([]snapshot.Entry, error) {
	reclose, err := s.unlock(ctx, []string{dir}, shut)
	if err != nil {
		return nil, err
	}
	defer reclose()
	const doing = "listing the workspace"
	out, err := s.ask(ctx, doing, "entries", inWorkspace(dir))
	if err != nil {
		return nil, err
	}
	kind, rest, _ := bytes.Cut(out, []byte{0})
	var found []snapshot.Entry
	switch string(kind) {
	case "find":
		found, err = parseFind(rest, dir)
	case "stat":
		found, err = parseStat(rest)
	default:
		err = fmt.Errorf("the container answers %q", kind)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %v", doing, sandbox.ErrUnavailable, err)
	}
	return found, nil
}

var errTorn = errors.New("the listing is torn")

// parseFind reads what GNU find prints: fields and name, then a link's target.
func parseFind(out []byte, dir string) ([]snapshot.Entry, error) {
	var found []snapshot.Entry
	for len(out) > 0 {
		head, rest, ok := bytes.Cut(out, []byte{0})
		target, rest, ok2 := bytes.Cut(rest, []byte{0})
		fields := strings.SplitN(string(head), " ", 8)
		if !ok || !ok2 || len(fields) != 8 {
			return nil, errTorn
		}
		out = rest
		e := snapshot.Entry{Name: path.Join(dir, fields[7]), Kind: snapshot.Kind(fields[0][0])}
		switch e.Kind {
		case snapshot.File, snapshot.Dir:
		case snapshot.Link:
			e.Target = string(target)
		default:
			continue
		}
		mode, err1 := strconv.ParseUint(fields[1], 8, 32)
		links, err2 := strconv.ParseUint(fields[2], 10, 32)
		inode, err3 := strconv.ParseUint(fields[3], 10, 64)
		size, err4 := strconv.ParseInt(fields[4], 10, 64)
		modTime, err5 := parseStamp(fields[5])
		changeTime, err6 := parseStamp(fields[6])
		if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
			return nil, err
		}
		e.ModTime, e.ChangeTime = modTime, changeTime
		found = append(found, shaped(e, uint32(mode), uint32(links), inode, size))
	}
	return found, nil
}

func shaped(e snapshot.Entry, mode, links uint32, inode uint64, size int64) snapshot.Entry {
	e.Mode, e.Links, e.Inode = mode&0o777, links, inode
	switch e.Kind {
	case snapshot.File:
		e.Size = size
	case snapshot.Link:
		e.Mode = 0o777
	}
	return e
}

// parseStamp reads seconds and a fraction, as find prints for %T@, in nanoseconds.
func parseStamp(text string) (int64, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	sec, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return 0, err
	}
	nsec, err := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	return time.Unix(sec, nsec).UnixNano(), err
}

// parseStat reads what other finds and stat give: names, a line for each of them,
// and where the links among them lead.
func parseStat(out []byte) ([]snapshot.Entry, error) {
	names, rest, ok := bytes.Cut(out, []byte("\x00\x00"))
	text, rest, ok2 := bytes.Cut(rest, []byte{0})
	if !ok || !ok2 {
		return nil, errTorn
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	targets := bytes.Split(rest, []byte{0})
	var found []snapshot.Entry
	i := 0
	for name := range bytes.SplitSeq(names, []byte{0}) {
		if i >= len(lines) {
			return nil, errTorn
		}
		e, kept, err := parseStatLine(lines[i])
		if err != nil {
			return nil, err
		}
		i++
		if e.Name, _ = relative(string(name)); e.Name == "." {
			e.Name = ""
		}
		if e.Kind == snapshot.Link {
			if len(targets) < 2 { // the last is empty
				return nil, errTorn
			}
			e.Target, targets = string(targets[0]), targets[1:]
		}
		if kept {
			found = append(found, e)
		}
	}
	if i != len(lines) || len(targets) != 1 {
		return nil, errTorn
	}
	return found, nil
}

// parseStatLine reads mode, links, inode and size, then both times.
func parseStatLine(line string) (snapshot.Entry, bool, error) {
	var raw, links uint32
	var inode uint64
	var size int64
	parts := strings.Split(line, "|")
	if len(parts) != 3 {
		return snapshot.Entry{}, false, errTorn
	}
	if _, err := fmt.Sscanf(parts[0], "%x %d %d %d", &raw, &links, &inode, &size); err != nil {
		return snapshot.Entry{}, false, err
	}
	var e snapshot.Entry
	switch mode := fileMode(raw); {
	case mode.IsRegular():
		e.Kind = snapshot.File
	case mode.IsDir():
		e.Kind = snapshot.Dir
	case mode&^0o7777 == fileMode(0o120000):
		e.Kind = snapshot.Link
	default:
		return e, false, nil
	}
	e.ModTime, e.ChangeTime = parseTime(parts[1]).UnixNano(), parseTime(parts[2]).UnixNano()
	return shaped(e, raw, links, inode, size), true, nil
}

// unlock lets the owner read what a command has closed to itself, on the way to
// names, until the returned function is called.
func (s *session) unlock(ctx context.Context, names []string, shut map[string]uint32) (func(), error) {
	if len(shut) == 0 {
		return func() {}, nil
	}
	open := map[string]bool{}
	for _, name := range names {
		for ; ; name = path.Dir(name) {
			if name == "." {
				name = ""
			}
			if _, ok := shut[name]; ok {
				open[name] = true
			}
			if name == "" {
				break
			}
		}
	}
	var inOrder []string
	for name := range open {
		inOrder = append(inOrder, name)
	}
	slices.Sort(inOrder) // a directory before what is in it
	if err := s.setModes(ctx, inOrder, func(name string) uint32 { return shut[name] | 0o500 }); err != nil {
		return nil, err
	}
	slices.Reverse(inOrder)
	return func() {
		err := s.setModes(context.WithoutCancel(ctx), inOrder, func(name string) uint32 { return shut[name] })
		if err != nil {
			s.b.cfg.Log.WarnContext(ctx, "Files that a command had closed to itself stay open", "container", s.name, "error", err)
		}
	}, nil
}

// modesAtOnce is how many names go with one request: as arguments of a program
// they may hold 2 MiB.
const modesAtOnce = 200

func (s *session) setModes(ctx context.Context, names []string, mode func(string) uint32) error {
	for some := range slices.Chunk(names, modesAtOnce) {
		var args []string
		for _, name := range some {
			args = append(args, strconv.FormatUint(uint64(mode(name)), 8), inWorkspace(name))
		}
		if _, err := s.ask(ctx, "reading the workspace", "modes", args...); err != nil {
			return err
		}
	}
	return nil
}

// pack writes the files whose names it reads as tar: one archive after the other,
// as many names as fit into a command line each.
const pack = `cd /workspace && exec xargs -0 tar -cf -`

// Read gives the files' content as their owner's tar does; see [snapshot.Tree].
func (s *session) Read(ctx context.Context, names []string, each func(string, int64, io.Reader) error) error {
	if len(names) == 0 {
		return nil
	}
	const doing = "reading the workspace"
	used, err := s.ready(ctx, doing)
	if err != nil {
		return err
	}
	defer used()
	if shut := s.shut.Load(); shut != nil {
		reclose, err := s.unlock(ctx, names, *shut)
		if err != nil {
			return err
		}
		defer reclose()
	}
	ctx, end := s.b.api.watch(ctx, 0)
	defer end()
	conn, exec, err := s.b.exec(ctx, s.id, container.ExecOptions{
		User: fmt.Sprintf("%d:%d", insideUser, insideUser), Env: []string{rootPath, "LC_ALL=C"},
		AttachStdin: true, AttachStdout: true, AttachStderr: true, Cmd: []string{"sh", "-c", pack},
	})
	if err != nil {
		return s.gone(doing, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, conn.Close)
	defer stop()
	go func() {
		w := bufio.NewWriterSize(conn.Conn, 64<<10)
		for _, name := range names {
			_, _ = w.WriteString("./" + name + "\x00")
		}
		_ = w.Flush()
		_ = conn.CloseWrite()
	}()
	out := &frames{r: conn.Reader}
	if err := readArchives(bufio.NewReaderSize(out, 64<<10), each); err != nil {
		if ctx.Err() != nil {
			return s.b.fail(doing, why(ctx, ctx.Err()))
		}
		return err
	}
	return s.packed(ctx, exec, out)
}

// packed looks at how the packing ended. That a file has vanished or changed
// meanwhile shows in what was read.
func (s *session) packed(ctx context.Context, exec string, out *frames) error {
	const doing = "reading the workspace"
	e, err := s.b.api.ContainerExecInspect(ctx, exec)
	switch {
	case err != nil:
		return s.gone(doing, err)
	case e.Running:
		return fmt.Errorf("%s: %w: the connection has ended", doing, sandbox.ErrUnavailable)
	case e.ExitCode == codeNotFound:
		return unusable(s.image, "it has no tar and xargs, which snapshots are made with")
	case e.ExitCode > 2 && e.ExitCode != 123: // xargs: a program of it had an exit code of its own
		return fmt.Errorf("%s: %w: exit code %d%s", doing, sandbox.ErrUnavailable, e.ExitCode, out.problem())
	}
	return nil
}

// readArchives reads tar archives that follow each other, with zeros between.
func readArchives(in *bufio.Reader, each func(string, int64, io.Reader) error) error {
	const block = 512
	for {
		head, err := in.Peek(block)
		if len(head) == 0 && errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the workspace: %w: %v", sandbox.ErrUnavailable, err)
		}
		if !slices.ContainsFunc(head, func(b byte) bool { return b != 0 }) {
			_, _ = in.Discard(block)
			continue
		}
		if err := readArchive(tar.NewReader(in), each); err != nil {
			return err
		}
	}
}

func readArchive(in *tar.Reader, each func(string, int64, io.Reader) error) error {
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the workspace: %w: %v", sandbox.ErrUnavailable, err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if err := each(strings.TrimPrefix(h.Name, "./"), h.Size, in); err != nil {
			return err
		}
	}
}
