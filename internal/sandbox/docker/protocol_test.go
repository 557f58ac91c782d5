package docker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os/exec"
	"path"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/countersign/countersign/internal/sandbox"
)

// Whatever an argument holds, a shell reads it as it was.
func TestRequest(t *testing.T) {
	t.Parallel()
	var shells []string
	for _, name := range []string{"dash", "bash", "busybox"} {
		if p, err := exec.LookPath(name); err == nil {
			shells = append(shells, p)
		}
	}
	require.NotEmpty(t, shells)
	var all []byte
	for c := 1; c < 256; c++ {
		all = append(all, byte(c), byte(c))
	}
	check := func(t require.TestingT, args []string) {
		text := request("show", args...)
		require.NotContains(t, text, "\n")
		for _, shell := range shells {
			argv := []string{shell, "-c", `show() { for a; do printf '%s\000' "$a"; done; }; IFS= read -r line; eval "$line"`}
			if path.Base(shell) == "busybox" {
				argv = append([]string{shell, "sh"}, argv[1:]...)
			}
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Env = []string{"LC_ALL=C", "PATH=" + strings.TrimPrefix(rootPath, "PATH=")}
			cmd.Stdin = strings.NewReader(text + "\n")
			out, err := cmd.Output()
			require.NoError(t, err)
			require.Equal(t, strings.Join(args, "\x00")+"\x00", string(out), shell)
		}
	}
	check(t, []string{string(all), "", "a\n\n", "'", `\`, "$(id)", "`id`", "-n", "%s", "\\0101", "x.", "\x81\x88"})
	rapid.Check(t, func(r *rapid.T) {
		args := rapid.SliceOfN(rapid.Map(rapid.SliceOf(rapid.ByteRange(1, 255)), func(b []byte) string { return string(b) }), 1, 4).Draw(r, "args")
		check(r, args)
	})
}

func frame(kind byte, text string) string {
	head := make([]byte, 8)
	head[0] = kind
	binary.BigEndian.PutUint32(head[4:], uint32(len(text)))
	return string(head) + text
}

func TestFrames(t *testing.T) {
	t.Parallel()
	stream := frame(1, "he") + frame(2, "problem") + frame(1, "") + frame(1, "llo\x00\x01") + frame(2, " two\n")
	for _, r := range []io.Reader{strings.NewReader(stream), iotest.OneByteReader(strings.NewReader(stream))} {
		f := frames{r: bufio.NewReader(r)}
		out, err := io.ReadAll(&f)
		require.NoError(t, err)
		require.Equal(t, "hello\x00\x01", string(out))
		require.Equal(t, ": problem two", f.problem())
	}
	_, err := io.ReadAll(&frames{r: bufio.NewReader(strings.NewReader(frame(1, "cut")[:9]))})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// answerer plays the container's side of a connection.
func answerer(t *testing.T, answer func(mark, request string) string) *agent {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close(); there.Close() })
	go func() {
		lines := bufio.NewReader(there)
		for {
			mark, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			request, _ := lines.ReadString('\n')
			_, _ = io.WriteString(there, answer(strings.TrimSpace(mark), strings.TrimSpace(request)))
		}
	}()
	return &agent{conn: types.HijackedResponse{Conn: here}, in: &frames{r: bufio.NewReader(here)}}
}

func TestAgent(t *testing.T) {
	t.Parallel()
	a := answerer(t, func(mark, request string) string {
		switch request {
		case "split":
			return frame(1, "da\n") + frame(1, "ta") + frame(1, "\n"+mark[:5]) + frame(2, "!") + frame(1, mark[5:]+" 4") + frame(1, "2\n")
		case "like": // a mark that was meant for another answer
			return frame(1, "\n"+strings.Repeat("0", len(mark))+" 0\n") + frame(1, "\n"+mark+" 7\n")
		case "silent":
			return ""
		}
		return frame(1, request) + frame(1, "\n"+mark+" 0\n")
	})
	call := func(ctx context.Context, request string) (string, int, error) {
		data, code, err := a.call(ctx, new(bytes.Buffer), request)
		return string(data), code, err
	}
	data, code, err := call(t.Context(), "echo")
	require.NoError(t, err)
	require.Equal(t, "echo", data)
	require.Zero(t, code)
	data, code, err = call(t.Context(), "split")
	require.NoError(t, err)
	require.Equal(t, "da\nta", data)
	require.Equal(t, 42, code)
	data, code, err = call(t.Context(), "like")
	require.NoError(t, err)
	require.Equal(t, 7, code)
	require.Len(t, data, 28)

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, _, err = call(ctx, "silent")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.True(t, a.lost.Load())
	_, _, err = call(t.Context(), "echo")
	require.ErrorIs(t, err, errAgentLost)
}

// tree is a workspace for walks: directories end in a slash, links have a target.
type tree map[string]string

func (f tree) look(_ context.Context, at, names []string) (seen, error) {
	here := path.Join(at...)
	for i, name := range names {
		if name == ".." {
			here = path.Join(here, "..")
			continue
		}
		next := path.Join(here, name)
		to, ok := f[next]
		switch {
		case !ok:
			return seen{n: i, what: "absent"}, nil
		case to == "!":
			return seen{n: i, what: "denied"}, nil
		case to != "":
			return seen{n: i, what: "link", to: to}, nil
		}
		here = next
	}
	return seen{n: len(names), what: "there", info: sandbox.FileInfo{Exists: true}}, nil
}

func TestWalk(t *testing.T) {
	t.Parallel()
	f := tree{
		"d": "", "d/e": "", "d/e/f": "", "rel": "d/e", "abs": "/workspace/d", "up": "..", "out": "/etc", "round": "../workspace/d", "loop": "loop",
		"shut": "!", "d/back": "../../workspace/rel/f", "far": "../../../etc/x", "dangling": "d/none", "self": ".", "top": "/workspace", "near": "/workspaces/x",
	}
	for p, want := range map[string]string{
		".": "/workspace", "d/e/f": "/workspace/d/e/f", "d//./e/": "/workspace/d/e", "rel/f": "/workspace/d/e/f", "abs/e": "/workspace/d/e",
		"rel/../e": "/workspace/d/e", "round/e": "/workspace/d/e", "d/back": "/workspace/d/e/f", "self/self/d": "/workspace/d", "top/d": "/workspace/d",
		"../workspace/d": "/workspace/d", "up/workspace/d": "/workspace/d", "d/../d": "/workspace/d",
		"none": "-/workspace/none", "dangling": "-/workspace/d/none", "none/../x": "-/workspace/x", "dangling/more": "-/workspace/d/none/more",
		"out": "!/etc", "out/passwd": "!/etc/passwd", "..": "!/", "../x": "!/x", "up": "!/", "up/etc": "!/etc", "far": "!/etc/x", "near": "!/workspaces/x",
		"none/../../x": "!/x", "out/../workspace/d": "/workspace/d",
	} {
		w := walk{look: f.look, todo: names(p)}
		got, err := w.run(t.Context())
		require.NoError(t, err, p)
		text := got.Resolved
		if got.Outside {
			text = "!" + text
		} else if !got.Exists {
			text = "-" + text
		}
		require.Equal(t, want, text, p)
	}
	for _, p := range []string{"loop", "shut/x"} {
		w := walk{look: f.look, todo: names(p)}
		_, err := w.run(t.Context())
		require.Error(t, err, p)
	}
}

func TestParseState(t *testing.T) {
	t.Parallel()
	st, err := parseState("up no\ncode 3\nreason exited\n/x/run/lock 0 2026-01-02 03:04:05.5 +0000\n/x/run/self 9 2026-01-02 03:04:05.6 +0000\n" +
		"/x/exit 21 2026-01-02 03:04:06 +0000\n/x/stdout 12 2026-01-02 03:04:06.1 +0000\n/x/stderr 0 2026-01-02 03:04:05.6 +0000\n")
	require.NoError(t, err)
	at := time.Date(2026, 1, 2, 3, 4, 5, 600e6, time.UTC)
	require.True(t, st.StartedAt.Equal(at))
	require.True(t, st.EndedAt.Equal(at.Add(400*time.Millisecond)))
	st.StartedAt, st.EndedAt = time.Time{}, time.Time{}
	require.Equal(t, sandbox.ExecStatus{State: sandbox.StateExited, ExitCode: 3, StdoutBytes: 12}, st)

	began := "/x/run/lock 0 2026-01-02 03:04:05 +0000\n"
	for text, want := range map[string]sandbox.State{
		"up yes\n":                   sandbox.StateRunning,
		"up no\n":                    sandbox.StateUnknown,
		"up starting 1767323046\n":   sandbox.StateRunning,
		"up starting 1767323099\n":   sandbox.StateUnknown,
		"code 0\nreason timed_out\n": sandbox.StateTimedOut,
	} {
		st, err := parseState(text + began)
		require.NoError(t, err)
		require.Equal(t, want, st.State, text)
	}
	_, err = parseState("code 0\nreason magic\n")
	require.Error(t, err)
}

func TestCompose(t *testing.T) {
	t.Parallel()
	_, err := compose("no verbs", "x")
	require.Error(t, err)
	b, err := New(Config{})
	require.NoError(t, err)
	defer b.Close()
	for _, shell := range []string{"dash", "bash"} {
		cmd := exec.Command(shell, "-n")
		cmd.Stdin = strings.NewReader(b.script)
		out, err := cmd.CombinedOutput()
		if !errors.Is(err, exec.ErrNotFound) {
			require.NoError(t, err, string(out))
		}
	}
}
