package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/harness"
)

const (
	// startGrace is how long a harness that has taken the lock may take to write
	// who it is, on a machine under load.
	startGrace = 10 * time.Second
	// Polling of a record grows from pollMin to pollMax while nothing happens.
	pollMin = time.Millisecond
	pollMax = 20 * time.Millisecond
	// probeEvery is how often a silent exec's harness is looked at.
	probeEvery = 500 * time.Millisecond
)

// job is what a record keeps of an exec's spec, to tell a repetition from
// another command under the same ID.
type job struct {
	Command string            `json:"command"`
	Cwd     string            `json:"cwd"`
	Env     map[string]string `json:"env,omitempty"`
	Stdin   bool              `json:"stdin,omitempty"`
	// Forbidden: the exec was stopped before it was started.
	Forbidden bool `json:"forbidden,omitempty"`
}

func (j job) equal(k job) bool {
	return j.Command == k.Command && j.Cwd == k.Cwd && j.Stdin == k.Stdin && maps.Equal(j.Env, k.Env)
}

func (s *session) record(id string) string { return filepath.Join(s.dir, "execs", id) }

// Start starts an exec; see [sandbox.Execs].
func (s *session) Start(ctx context.Context, spec sandbox.ExecSpec) error {
	if err := spec.Check(); err != nil {
		return err
	}
	spec.Limits = spec.Limits.WithDefaults()
	j := job{Command: spec.Command, Cwd: s.info.Abs(spec.Cwd), Env: spec.Env, Stdin: spec.Stdin}
	if err := s.checkCwd(ctx, j.Cwd); err != nil {
		return err
	}
	if err := s.publish(spec.ID, j); err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(s.record(spec.ID), "run")); err == nil {
		return nil
	}
	return s.spawn(ctx, spec, j)
}

func (s *session) checkCwd(ctx context.Context, cwd string) error {
	info, err := s.Stat(ctx, cwd)
	if err != nil {
		return err
	}
	if info.Outside || info.Mode.IsDir() {
		return nil // outside, the sandbox itself will tell
	}
	return sandbox.Refuse(fmt.Sprintf("The working directory %s does not exist.", cwd))
}

// publish makes the exec's record, whole, unless it is there.
func (s *session) publish(id string, j job) error {
	record := s.record(id)
	same, err := s.published(record, j)
	if err != nil || same {
		return err
	}
	temp := filepath.Join(s.dir, "execs", newMark+random())
	if err := os.Mkdir(temp, 0o700); err != nil {
		return s.storeError("making an exec's record", err)
	}
	defer os.RemoveAll(temp)
	data, err := json.Marshal(j)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"job.json": data, "stdout": nil, "stderr": nil} {
		if err := os.WriteFile(filepath.Join(temp, name), content, 0o600); err != nil {
			return s.storeError("making an exec's record", err)
		}
	}
	if err := os.Rename(temp, record); err != nil {
		if same, perr := s.published(record, j); same || perr != nil {
			return perr // somebody else was faster
		}
		return s.storeError("making an exec's record", err)
	}
	return nil
}

// published tells whether the record is there for this job.
func (s *session) published(record string, j job) (bool, error) {
	data, err := os.ReadFile(filepath.Join(record, "job.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, s.storeError("reading an exec's record", err)
	}
	var have job
	if err := json.Unmarshal(data, &have); err != nil {
		return false, fmt.Errorf("reading an exec's record: %w", err)
	}
	if !have.equal(j) && !have.Forbidden && !j.Forbidden {
		return false, fmt.Errorf("%w: %s", sandbox.ErrExecConflict, filepath.Base(record))
	}
	return true, nil
}

// storeError tells a sandbox that was removed from a disk that fails.
func (s *session) storeError(doing string, err error) error {
	if _, serr := os.Stat(s.dir); errors.Is(serr, fs.ErrNotExist) {
		return fmt.Errorf("%w: %v", sandbox.ErrGone, err)
	}
	return fmt.Errorf("%s: %w: %w", doing, sandbox.ErrUnavailable, err)
}

// argv is what the harness runs.
func (s *session) argv(id string, j job) []string {
	env := s.env(id, j.Env)
	var argv []string
	if s.info.Isolated {
		argv = append(s.b.bwrapArgs(s.dir, j.Cwd, env), "/bin/sh", "-c", harness.Begin, "sh")
	} else {
		argv = append([]string{"env", "-i"}, env...)
	}
	argv = append(argv, s.b.shell)
	if s.info.Shell == "bash" {
		argv = append(argv, "--noprofile", "--norc")
	}
	return append(argv, "-c", "--", j.Command)
}

// spawn runs the harness detached: in a session of its own, with nothing of this
// process but a path to programs, so that this one's end is none of its affairs.
func (s *session) spawn(ctx context.Context, spec sandbox.ExecSpec, j job) error {
	run := harness.Run{
		Record: s.record(spec.ID), Own: s.info.Isolated, Stdin: spec.Stdin,
		Timeout: spec.Limits.Timeout, OutputBytes: spec.Limits.OutputBytes, Argv: s.argv(spec.ID, j),
	}
	if !s.info.Isolated {
		run.Cwd = j.Cwd
	}
	cmd := s.command(run.Args()...)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the exec harness: %w: %w", sandbox.ErrUnavailable, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return s.awaitStart(ctx, run.Record, ended)
}

func (s *session) command(args ...string) *exec.Cmd {
	cmd := exec.Command("/bin/sh", append([]string{s.b.harness}, args...)...)
	cmd.Env = []string{"PATH=" + otherPath}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// awaitStart returns once the command's shell begins, or never will.
func (s *session) awaitStart(ctx context.Context, record string, ended <-chan error) error {
	begun := "run/main"
	if s.info.Isolated {
		begun = "run/begun"
	}
	wait := pollMin
	for {
		for _, name := range []string{begun, "run/done", "exit"} {
			if info, err := os.Lstat(filepath.Join(record, name)); err == nil && (name != "run/begun" || info.Size() > 0) {
				return nil
			}
		}
		select {
		case err := <-ended:
			if _, lerr := os.Lstat(filepath.Join(record, "run")); lerr == nil {
				return nil // another harness holds the lock
			}
			if err == nil {
				err = errors.New("it ended without a word")
			}
			return s.storeError("running the exec harness", err)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
			wait = min(wait*2, pollMax/4)
		}
	}
}

// recorded tells whether the exec has its exit record.
func (s *session) recorded(id string) bool {
	_, err := os.Lstat(filepath.Join(s.record(id), "exit"))
	return err == nil
}

// Status returns how an exec stands; see [sandbox.Execs].
func (s *session) Status(ctx context.Context, id string) (sandbox.ExecStatus, error) {
	record := s.record(id)
	run, err := os.Stat(filepath.Join(record, "run"))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return sandbox.ExecStatus{}, s.storeError("reading an exec's record", err)
		}
		if _, err := os.Stat(s.dir); errors.Is(err, fs.ErrNotExist) {
			return sandbox.ExecStatus{}, fmt.Errorf("%w: %v", sandbox.ErrGone, err)
		}
		return sandbox.ExecStatus{}, fmt.Errorf("%w: %s", sandbox.ErrNoExec, id)
	}
	st := sandbox.ExecStatus{State: sandbox.StateUnknown, StartedAt: run.ModTime()}
	if self, err := os.Stat(filepath.Join(record, "run", "self")); err == nil {
		st.StartedAt = self.ModTime()
	}
	done, err := s.readExit(record, &st)
	if err != nil {
		return st, err
	}
	if !done && s.alive(record, run.ModTime()) {
		st.State = sandbox.StateRunning
	} else if !done {
		// It may have written its exit record and gone between the two looks.
		if _, err := s.readExit(record, &st); err != nil {
			return st, err
		}
	}
	st.StdoutBytes = size(filepath.Join(record, "stdout"))
	st.StderrBytes = size(filepath.Join(record, "stderr"))
	return st, nil
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

func (s *session) readExit(record string, st *sandbox.ExecStatus) (bool, error) {
	f, err := os.Open(filepath.Join(record, "exit"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, s.storeError("reading an exec's record", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil {
		return false, s.storeError("reading an exec's record", err)
	}
	e, err := harness.ParseExit(data)
	if err != nil {
		return false, err
	}
	if info, err := f.Stat(); err == nil {
		st.EndedAt = info.ModTime()
	}
	st.ExitCode = e.Code
	switch e.Reason {
	case harness.ReasonExited:
		st.State = sandbox.StateExited
	case harness.ReasonTimedOut:
		st.State = sandbox.StateTimedOut
	case harness.ReasonCancelled:
		st.State = sandbox.StateCancelled
	case harness.ReasonOutputLimit, harness.ReasonOutputLost:
		st.State = sandbox.StateOutputLimit
	case harness.ReasonFailed:
		st.State = sandbox.StateFailed
	default:
		return false, fmt.Errorf("an exec ended for the unknown reason %q", e.Reason)
	}
	return true, nil
}

// alive tells whether the exec's harness still runs.
func (s *session) alive(record string, since time.Time) bool {
	line, err := os.ReadFile(filepath.Join(record, "run", "self"))
	if err != nil || len(line) == 0 {
		return time.Since(since) < startGrace
	}
	want, err := harness.ParseProcess(string(line))
	if err != nil {
		return false
	}
	line, err = os.ReadFile("/proc/" + strconv.Itoa(want.PID) + "/stat")
	if errors.Is(err, fs.ErrNotExist) && !haveProc() {
		return syscall.Kill(want.PID, 0) == nil
	}
	if err != nil {
		return false
	}
	have, err := harness.ParseProcess(string(line))
	return err == nil && have == want && !isZombie(string(line))
}

func haveProc() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}

// isZombie tells whether a process has ended and only waits to be noticed.
func isZombie(stat string) bool {
	i := strings.LastIndexByte(stat, ')')
	return strings.HasPrefix(strings.TrimSpace(stat[i+1:]), "Z")
}

// Running returns the execs that run; see [sandbox.Execs].
func (s *session) Running(ctx context.Context) ([]string, error) {
	ids, err := s.started()
	if err != nil {
		return nil, s.storeError("listing execs", err)
	}
	var running []string
	for _, id := range ids {
		if s.recorded(id) {
			continue
		}
		st, err := s.Status(ctx, id)
		if err != nil && !errors.Is(err, sandbox.ErrNoExec) {
			return nil, err
		}
		if err == nil && !st.Ended() {
			running = append(running, id)
		}
	}
	return running, nil
}

// Attach follows a stream; see [sandbox.Execs].
func (s *session) Attach(ctx context.Context, id string, stream sandbox.Stream, offset int64, w io.Writer) error {
	if stream != sandbox.Stdout && stream != sandbox.Stderr {
		return fmt.Errorf("an exec has no stream %q", stream)
	}
	if _, err := s.Status(ctx, id); err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(s.record(id), string(stream)))
	if err != nil {
		return s.storeError("opening an exec's output", err)
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return fmt.Errorf("reading output at offset %d: %w", offset, err)
	}
	buf := make([]byte, 64<<10)
	wait, looked := pollMin, time.Now()
	for {
		// Looked at before the last read: what was written before the end is read.
		ended := s.recorded(id)
		if !ended && time.Since(looked) > probeEvery {
			looked = time.Now()
			st, err := s.Status(ctx, id)
			if err != nil {
				return err
			}
			ended = st.Ended()
		}
		n, err := copyAvailable(ctx, w, f, buf)
		if err != nil || ended {
			return err
		}
		if n > 0 {
			wait = pollMin
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
			wait = min(wait*3/2+1, pollMax)
		}
	}
}

// copyAvailable copies what is there now.
func copyAvailable(ctx context.Context, w io.Writer, r io.Reader, buf []byte) (int64, error) {
	var total int64
	for {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return total, err
			}
			total += int64(n)
		}
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, fmt.Errorf("reading output: %w", err)
		}
	}
}

// Signal reaches everything that the exec started; see [sandbox.Execs]. Once
// begun it goes on when ctx or this process ends.
func (s *session) Signal(ctx context.Context, id string, sig sandbox.Signal) error {
	switch sig {
	case sandbox.SignalStop, sandbox.SignalKill, sandbox.SignalInterrupt, sandbox.SignalTerminate, sandbox.SignalFreeze, sandbox.SignalThaw:
	default:
		return fmt.Errorf("there is no signal %q", sig)
	}
	_, err := s.Status(ctx, id)
	if errors.Is(err, sandbox.ErrNoExec) && (sig == sandbox.SignalStop || sig == sandbox.SignalKill) {
		var forbidden bool
		if forbidden, err = s.forbid(id); forbidden {
			return nil
		}
	}
	if err != nil {
		return err
	}
	return s.harness(ctx, "signal", s.record(id), string(sig))
}

// forbid takes the lock of an exec that was not started, and records that it was
// cancelled. It says false when somebody starts it at this moment.
func (s *session) forbid(id string) (bool, error) {
	if err := (sandbox.ExecSpec{ID: id, Command: "-"}).Check(); err != nil {
		return false, err
	}
	if err := s.publish(id, job{Forbidden: true}); err != nil {
		return false, err
	}
	record := s.record(id)
	if err := os.Mkdir(filepath.Join(record, "run"), 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return false, nil
		}
		return false, s.storeError("forbidding an exec", err)
	}
	temp := filepath.Join(record, "run", "exit")
	if err := os.WriteFile(temp, harness.Exit{Reason: harness.ReasonCancelled}.Encode(), 0o600); err != nil {
		return false, s.storeError("forbidding an exec", err)
	}
	if err := os.Rename(temp, filepath.Join(record, "exit")); err != nil {
		return false, s.storeError("forbidding an exec", err)
	}
	return true, nil
}

func (s *session) harness(ctx context.Context, args ...string) error {
	cmd := s.command(args...)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the exec harness: %w: %w", sandbox.ErrUnavailable, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("running the exec harness's %s: %w", args[0], err)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stdin writes to the command; see [sandbox.Execs].
func (s *session) Stdin(ctx context.Context, id string, data []byte, eof bool) error {
	record := s.record(id)
	if err := s.awaitPipe(ctx, id); err != nil {
		return err
	}
	if len(data) > 0 {
		if err := writePipe(ctx, filepath.Join(record, "run", "in"), data); err != nil {
			return err
		}
	}
	if eof {
		return s.harness(ctx, "eof", record)
	}
	return nil
}

// awaitPipe returns once the command's standard input can be written to.
func (s *session) awaitPipe(ctx context.Context, id string) error {
	for {
		st, err := s.Status(ctx, id)
		if err != nil {
			return err
		}
		if st.Ended() {
			return sandbox.ErrExecEnded
		}
		data, err := os.ReadFile(filepath.Join(s.record(id), "job.json"))
		if err != nil {
			return s.storeError("reading an exec's record", err)
		}
		var j job
		if err := json.Unmarshal(data, &j); err != nil || !j.Stdin {
			return sandbox.Refuse("The command was started without a standard input.")
		}
		// The harness has just been started.
		if _, err := os.Lstat(filepath.Join(s.record(id), "run", "holder")); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollMin):
		}
	}
}

func writePipe(ctx context.Context, path string, data []byte) error {
	// Without waiting: a pipe that nobody reads says so.
	f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) || errors.Is(err, fs.ErrNotExist) {
		return sandbox.ErrExecEnded
	}
	if err != nil {
		return fmt.Errorf("opening the command's standard input: %w", err)
	}
	defer f.Close()
	stop := context.AfterFunc(ctx, func() { _ = f.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := f.Write(data); err != nil {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, syscall.EPIPE):
			return sandbox.ErrExecEnded
		}
		return fmt.Errorf("writing to the command's standard input: %w", err)
	}
	return nil
}
