package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// within bounds what has no bound of its own.
	within = 60 * time.Second
	// poll is how often something outside is looked at.
	poll = 40 * time.Millisecond
)

// machines is by how much a slow machine may be slower than the one that bounds
// were found on.
const machines = 3

// stretched lengthens a bound that is meant for a fast machine with nothing else
// to do by what this one has to do besides.
func stretched(d time.Duration) time.Duration {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return machines * d
	}
	var load float64
	if _, err := fmt.Sscan(string(data), &load); err != nil {
		return machines * d
	}
	return time.Duration(float64(d) * max(machines, load/float64(runtime.NumCPU())))
}

// await returns what look finds as soon as it is satisfied; it fails the test
// when that takes longer than limit, which a busy machine stretches as it gets
// busier.
func await[T any](t testing.TB, limit time.Duration, what string, look func() (T, bool)) T {
	t.Helper()
	began := time.Now()
	for {
		v, ok := look()
		if ok {
			return v
		}
		if took := time.Since(began); took > limit && took > stretched(limit) {
			require.FailNow(t, "not in "+limit.String()+": "+what, "last seen: %+v", v)
		}
		time.Sleep(poll)
	}
}

// process is a running executable. What it prints is in the file log.
type process struct {
	name, log string
	cmd       *exec.Cmd
	ended     chan struct{}
}

var started atomic.Int64

// start runs an executable of ours in dir until the test ends. env is added to
// a small environment.
func start(t testing.TB, name, dir string, env []string, args ...string) *process {
	t.Helper()
	p, err := launch(name, dir, env, args...)
	require.NoError(t, err)
	p.until(t)
	return p
}

// until ends the process with the test, which shows what it printed if it fails.
func (p *process) until(t testing.TB) {
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s printed, at the end:\n%s", filepath.Base(p.log), tail(p.printed(), 2500))
		}
	})
}

// launch starts an executable of ours.
func launch(name, dir string, env []string, args ...string) (*process, error) {
	return launchAt(filepath.Join(bin, name), dir, env, args...)
}

func launchAt(path, dir string, env []string, args ...string) (*process, error) {
	name, logs := filepath.Base(path), filepath.Join(dir, "logs")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return nil, err
	}
	p := &process{
		name: name, log: filepath.Join(logs, fmt.Sprintf("%s-%d", name, started.Add(1))),
		cmd: exec.Command(path, args...), ended: make(chan struct{}),
	}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr, p.cmd.Env = dir, out, out, environment(dir, env)
	// As from a shell: signals reach this process and nothing of the test's.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	go func() {
		_ = p.cmd.Wait() // the state has it
		_ = out.Close()
		close(p.ended)
	}()
	return p, nil
}

// environment is a small one, whatever the tests were started with.
func environment(home string, more []string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + os.TempDir()}, more...)
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

func (p *process) printed() string {
	data, _ := os.ReadFile(p.log) // one that is gone printed nothing
	return string(data)
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// interrupt is Ctrl-C; the process ends by itself, with exit code 0.
func (p *process) interrupt(t testing.TB) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, 0, p.wait(t), p.printed())
}

// wait returns the exit code.
func (p *process) wait(t testing.TB) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(machines * within):
		require.FailNow(t, p.name+" does not end", p.printed())
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// runs runs an executable to its end.
func runs(t testing.TB, name, dir string, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, name), args...)
	var out, problem bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &problem
	cmd.Env = environment(dir, env)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), problem.String()
}

// naps are those that were given out.
var naps atomic.Int64

// nap is a command that sleeps for so many seconds, under a number of its own, by which
// its process is told from all others of this machine.
func nap(seconds int) string {
	return fmt.Sprintf("sleep %d.%07d%03d", seconds, os.Getpid(), naps.Add(1))
}

// asleep reports whether each of these commands is a process.
func asleep(t testing.TB, naps ...string) bool {
	t.Helper()
	for _, n := range naps {
		if !slices.Contains(commandLines(t, n), n) {
			return false
		}
	}
	return true
}

// gone waits until no process of this machine has one of the texts in its command line.
func gone(t testing.TB, texts ...string) {
	t.Helper()
	await(t, within, "no process is left", func() (left []string, none bool) {
		for _, text := range texts {
			left = append(left, commandLines(t, text)...)
		}
		return left, len(left) == 0
	})
}

// commandLines returns the command lines of all processes of this machine that
// contain text, with NULs as blanks.
func commandLines(t testing.TB, text string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	var found []string
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended
		}
		if line := strings.TrimSpace(strings.ReplaceAll(string(data), "\x00", " ")); strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}
