package docker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
)

// Exit codes of requests, as container.sh gives them.
const (
	codeConflict = 40
	codeNoDir    = 41
	codeNoExec   = 42
	codeNotFile  = 43

	codeNotFound = 127 // of a program, as the engine and shells say it
)

// maxAnswer is the most that one answer may hold, in bytes.
const maxAnswer = 256 << 20 // 256 MiB: the listing of millions of files

// rootPath is where the container's root finds programs: in the read-only
// image, never where a command may write.
const rootPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

var errAgentLost = errors.New("the connection into the container has ended")

// agent is a shell in the container, as its root, that answers requests over the
// stdio of one engine exec: an answer takes milliseconds where an exec for each
// would take fifty. One request at a time.
type agent struct {
	conn types.HijackedResponse
	in   *frames
	exec string // the engine's ID of it
	lost atomic.Bool
	used atomic.Bool // it has answered
}

// call sends one request and returns what it printed, in buf, and its exit code.
// When it fails or ctx ends meanwhile the agent is lost.
func (a *agent) call(ctx context.Context, buf *bytes.Buffer, request string) ([]byte, int, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	stop := context.AfterFunc(ctx, a.conn.Close)
	defer stop()
	data, code, err := a.exchange(buf, request)
	if err == nil {
		a.used.Store(true)
	} else {
		a.close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
	}
	return data, code, err
}

func (a *agent) exchange(buf *bytes.Buffer, request string) ([]byte, int, error) {
	mark := random() + random()
	if _, err := io.WriteString(a.conn.Conn, mark+"\n"+request+"\n"); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", errAgentLost, err)
	}
	end := []byte("\n" + mark + " ")
	buf.Reset()
	for from := 0; ; {
		buf.Grow(4 << 10)
		room := buf.AvailableBuffer()
		n, err := a.in.Read(room[:cap(room)])
		if err != nil {
			return nil, 0, fmt.Errorf("%w: %w%s", errAgentLost, err, a.in.problem())
		}
		buf.Write(room[:n])
		all := buf.Bytes()
		if i := bytes.Index(all[from:], end); i >= 0 && all[len(all)-1] == '\n' {
			code, err := strconv.Atoi(string(all[from+i+len(end) : len(all)-1]))
			return all[:from+i], code, err
		}
		from = max(0, len(all)-len(end)-8) // the mark, and the code that may still come
		if len(all) > maxAnswer {
			return nil, 0, errors.New("the answer from the container is too long")
		}
	}
}

func (a *agent) close() {
	a.lost.Store(true)
	a.conn.Close()
}

// frames is standard output of an engine exec without a terminal, taken out of
// the frames in which it comes with standard error.
type frames struct {
	r    *bufio.Reader
	kind byte
	left int
	err  []byte // the last of standard error
}

const (
	frameStdout = 1
	frameStderr = 2
)

func (f *frames) Read(p []byte) (int, error) {
	for {
		if f.left == 0 {
			var head [8]byte
			if _, err := io.ReadFull(f.r, head[:]); err != nil {
				return 0, err
			}
			f.kind, f.left = head[0], int(binary.BigEndian.Uint32(head[4:]))
			continue
		}
		n, err := f.r.Read(p[:min(len(p), f.left)])
		f.left -= n
		if f.kind == frameStdout && n > 0 {
			return n, nil
		}
		if f.kind >= frameStderr {
			f.err = append(f.err, p[:n]...)
			f.err = f.err[max(0, len(f.err)-1<<10):]
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
	}
}

// problem is what standard error said, as the end of an error's text.
func (f *frames) problem() string {
	if text := strings.TrimSpace(string(f.err)); text != "" {
		return ": " + text
	}
	return ""
}

// splitFrames is frames that passes standard output on, and waits for the first
// word on standard error.
type splitFrames struct {
	r     *bufio.Reader
	ready chan struct{}

	mu  sync.Mutex
	err []byte
	up  bool
}

func (s *splitFrames) copy(w io.Writer) error {
	for {
		var head [8]byte
		if _, err := io.ReadFull(s.r, head[:]); err != nil {
			return err
		}
		n := int64(binary.BigEndian.Uint32(head[4:]))
		if head[0] != frameStderr {
			if _, err := io.CopyN(w, s.r, n); err != nil {
				return err
			}
			continue
		}
		text, err := io.ReadAll(io.LimitReader(s.r, n))
		if err != nil {
			return err
		}
		s.heard(text)
	}
}

func (s *splitFrames) heard(text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = append(s.err, text...)
	s.err = s.err[max(0, len(s.err)-1<<10):]
	if !s.up && bytes.Contains(s.err, []byte("ready\n")) {
		s.up, s.err = true, nil
		close(s.ready)
	}
}

// problem is what standard error said, as the end of a sentence.
func (s *splitFrames) problem() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text := strings.TrimSpace(string(s.err)); text != "" {
		return ": " + text
	}
	return ""
}

// request writes a call of a function of container.sh.
func request(verb string, args ...string) string {
	var before, call strings.Builder
	call.WriteString(verb)
	for i, arg := range args {
		if plain(arg) {
			call.WriteString(" '" + strings.ReplaceAll(arg, "'", `'\''`) + "'")
			continue
		}
		name := "a" + strconv.Itoa(i)
		// The dot keeps newlines at the end.
		fmt.Fprintf(&before, "%s=$(printf '%%b.' '%s'); %s=${%s%%.}; ", name, octal(arg), name, name)
		call.WriteString(` "$` + name + `"`)
	}
	return before.String() + call.String()
}

// plain tells whether arg can stand in one line of shell code as it is.
func plain(arg string) bool {
	for i := range len(arg) {
		if arg[i] < ' ' || arg[i] > '~' {
			return false
		}
	}
	return true
}

// octal writes arg for printf's %b.
func octal(arg string) string {
	var out strings.Builder
	for i := range len(arg) {
		c := arg[i]
		if c < ' ' || c > '~' || c == '\\' || c == '\'' {
			fmt.Fprintf(&out, `\0%03o`, c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}

// errNoShell says that a container has no sh.
var errNoShell = errors.New("there is no sh")

// dial starts an agent in a container that runs.
func (b *Backend) dial(ctx context.Context, id string) (*agent, error) {
	conn, exec, err := b.exec(ctx, id, container.ExecOptions{
		User: "0:0", AttachStdin: true, AttachStdout: true, AttachStderr: true, Env: []string{rootPath},
		Cmd: []string{"sh", "-c", `text=$1; shift; eval "$text"`, "countersign", b.script, "agent", b.hash},
	})
	if err != nil {
		if exec != "" && strings.Contains(err.Error(), "executable file not found") {
			err = errNoShell // engines before 25 call it a client's mistake, later ones "not found"
		} else if e, ierr := b.api.ContainerExecInspect(ctx, exec); exec != "" && ierr == nil && e.ExitCode == codeNotFound {
			err = errNoShell
		}
		return nil, err
	}
	return &agent{conn: conn, in: &frames{r: conn.Reader}, exec: exec}, nil
}

// mute tells whether an agent never answered because there is no sh to be one:
// newer engines say so only in the exec's exit code.
func (b *Backend) mute(ctx context.Context, a *agent) bool {
	if a.used.Load() {
		return false
	}
	e, err := b.api.ContainerExecInspect(ctx, a.exec)
	return err == nil && !e.Running && (e.ExitCode == codeNotFound || e.ExitCode == codeNotFound-1)
}

// exec starts a program in a container and returns its stdio and the exec's ID,
// empty where the engine did not take it.
func (b *Backend) exec(ctx context.Context, id string, opts container.ExecOptions) (types.HijackedResponse, string, error) {
	opts.WorkingDir = "/"
	e, err := b.api.ContainerExecCreate(ctx, id, opts)
	if err != nil {
		return types.HijackedResponse{}, "", err
	}
	conn, err := b.api.ContainerExecAttach(ctx, e.ID)
	return conn, e.ID, err
}
