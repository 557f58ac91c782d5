package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/harness"
	"github.com/countersign/countersign/internal/sandbox/terminal"
)

const (
	// startGrace is how long a harness that has taken the lock may take to write
	// who it is, on a machine under load.
	startGrace = 10 * time.Second
	// A record is polled after a pollShare of the time in which nothing happened,
	// but no sooner than pollMin and no later than pollMax; where its end is told,
	// no sooner than pollTold.
	pollShare = 20
	pollMin   = time.Millisecond
	pollTold  = 5 * time.Millisecond
	pollMax   = 20 * time.Millisecond
	// probeEvery is how often a silent exec's harness is looked at.
	probeEvery = 500 * time.Millisecond
)

// job is what a record keeps of an exec's spec, to tell a repetition from
// another command under the same ID.
type job struct {
	Command string `json:"command"`
	Cwd     string `json:"cwd"`
	// Env is the environment's SHA-256: the values may be secrets.
	Env   string `json:"env,omitempty"`
	Stdin bool   `json:"stdin,omitempty"`
	TTY   bool   `json:"tty,omitempty"`
	// Forbidden: the exec was stopped before it was started.
	Forbidden bool `json:"forbidden,omitempty"`
}

func (j job) equal(k job) bool {
	j.Forbidden, k.Forbidden = false, false
	return j == k
}

func sumOf(env map[string]string) string {
	if len(env) == 0 {
		return ""
	}
	h := sha256.New()
	for _, k := range slices.Sorted(maps.Keys(env)) {
		fmt.Fprintf(h, "%d:%s%d:%s", len(k), k, len(env[k]), env[k])
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (j job) encode() ([]byte, error) {
	data, err := json.Marshal(j)
	if err != nil {
		return nil, fmt.Errorf("writing down an exec: %w", err)
	}
	return data, nil
}

func (s *session) record(id string) string { return filepath.Join(s.dir, "execs", id) }

// Start starts an exec; see [sandbox.Execs].
func (s *session) Start(ctx context.Context, spec sandbox.ExecSpec) error {
	if err := spec.Check(); err != nil {
		return err
	}
	if why := s.b.Refuses(); why != "" {
		return sandbox.Refuse(why)
	}
	if spec.TTY && s.b.cfg.Forwarder == "" {
		return sandbox.Refuse("No terminal can be had here: this worker has no program that makes one.")
	}
	spec.Limits = spec.Limits.WithDefaults()
	spec.Stdin = spec.Stdin || spec.TTY
	j := job{Command: spec.Command, Cwd: s.info.Abs(spec.Cwd), Env: sumOf(spec.Env), Stdin: spec.Stdin, TTY: spec.TTY}
	if err := s.checkCwd(ctx, j.Cwd); err != nil {
		return err
	}
	same, err := s.published(s.record(spec.ID), j)
	if err != nil {
		return err
	}
	if !same {
		if done, err := s.startSpare(ctx, spec, j); done || err != nil {
			return err
		}
	}
	if err := s.publish(spec.ID, j); err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(s.record(spec.ID), "run", "lock")); err == nil {
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
	defer os.RemoveAll(temp)
	for _, dir := range []string{temp, filepath.Join(temp, "run")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return s.storeError("making an exec's record", err)
		}
	}
	data, err := j.encode()
	if err != nil {
		return err
	}
	files := harness.Reserved()
	files["job.json"], files["stdout"], files["stderr"] = data, nil, nil
	for name, content := range files {
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

// argv is what the harness runs, and what of it is read from a file: the command's
// environment, which is nobody else's.
func (s *session) argv(spec sandbox.ExecSpec, cwd string, groups []string) (argv []string, env string) {
	own := s.networkEnv(spec.Env)
	command := s.shellArgv(spec.Command)
	if s.info.Isolated {
		if spec.TTY {
			command = terminal.Command(s.terminalHelper(), command)
		}
		env = harness.BwrapArgs(s.env(spec.ID, own))
		binds := s.networkBinds()
		if spec.TTY {
			binds = append(binds, "--dir", insideDir, "--ro-bind", s.b.cfg.Forwarder, s.terminalHelper())
		}
		argv = append(s.b.bwrapArgs(s.dir, s.root.Name(), cwd, true, binds...), s.networkBegin()...)
		argv = append(argv, "/bin/sh", "-c", s.b.ulimits()+harness.Begin, "sh")
	} else {
		var prefix []string
		prefix, env = harness.Import(own, harness.Mark(s.record(spec.ID)))
		argv = append([]string{"env", "-i"}, s.env(spec.ID, nil)...)
		argv = append(argv, prefix...)
		command = s.bare(spec, command, groups)
	}
	return append(argv, command...), env
}

// bare is what runs a command without a namespace of its own. What gives it a terminal
// and what holds it to its files are programs of ours, which its limits may not suit.
func (s *session) bare(spec sandbox.ExecSpec, command, groups []string) []string {
	if limits := s.b.ulimits(); limits != "" {
		command = append([]string{"/bin/sh", "-c", limits + `exec "$@"`, "sh"}, command...)
	}
	if s.info.Confined {
		command = s.held(command, groups)
	}
	if spec.TTY {
		command = terminal.Command(s.terminalHelper(), command)
	}
	return command
}

// terminalHelper is where commands find the program that gives them a terminal.
func (s *session) terminalHelper() string {
	if s.info.Isolated {
		return insideTerminal
	}
	return s.b.cfg.Forwarder
}

// shellArgv runs the command in the session's shell.
func (s *session) shellArgv(command string) []string {
	argv := []string{s.b.shell}
	if s.info.Shell == "bash" {
		argv = append(argv, "--noprofile", "--norc")
	}
	return append(argv, "-c", "--", command)
}

// spawn runs the harness detached: in a session of its own, with nothing of this
// process but a path to programs and the command's environment, so that this one's
// end is none of its affairs.
func (s *session) spawn(ctx context.Context, spec sandbox.ExecSpec, j job) error {
	groups, bounds, err := s.bounds()
	if err != nil {
		return err
	}
	argv, env := s.argv(spec, j.Cwd, groups)
	run := harness.Run{
		Record: s.record(spec.ID), Own: s.info.Isolated, Stdin: spec.Stdin,
		Timeout: spec.Limits.Timeout, OutputBytes: spec.Limits.OutputBytes, Argv: argv,
	}
	if !s.info.Isolated {
		run.Cwd = j.Cwd
	}
	cmd := s.command(run.Args()...)
	cmd.Env = append(cmd.Env, bounds...)
	if env != "" {
		f, err := unnamed(run.Record, env)
		if err != nil {
			return s.storeError("writing a command's environment", err)
		}
		defer f.Close()
		cmd.ExtraFiles = []*os.File{f} // harness.EnvFD
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the exec harness: %w: %w", sandbox.ErrUnavailable, err)
	}
	ended, over := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- cmd.Wait()
		close(over)
	}()
	s.follow(spec.ID, over)
	return s.awaitStart(ctx, run.Record, ended)
}

// unnamed is an open file with this content that no directory holds any more.
func unnamed(dir, content string) (*os.File, error) {
	f, err := os.CreateTemp(dir, ".env")
	if err != nil {
		return nil, err
	}
	err = os.Remove(f.Name())
	if err == nil {
		_, err = f.WriteString(content)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// command is the harness's script with these arguments.
func (s *session) command(args ...string) *exec.Cmd {
	return detached("/bin/sh", append([]string{"sh", s.b.harness}, args...))
}

// detached is a program with nothing of this one's.
func detached(path string, args []string) *exec.Cmd {
	return &exec.Cmd{
		Path: path, Args: args, Env: []string{"PATH=" + otherPath}, Dir: "/",
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
}

// awaitStart returns once the command's shell begins, or never will.
func (s *session) awaitStart(ctx context.Context, record string, ended <-chan error) error {
	begun := "run/main"
	if s.info.Isolated {
		begun = "run/begun"
	}
	for {
		for _, name := range []string{begun, "run/done", "exit"} {
			if info, err := os.Lstat(filepath.Join(record, name)); err == nil && (name != "run/begun" || info.Size() > 0) {
				return nil
			}
		}
		select {
		case err := <-ended:
			if _, lerr := os.Lstat(filepath.Join(record, "run", "lock")); lerr == nil {
				return nil // another harness holds the lock
			}
			if err == nil {
				err = errors.New("it ended without a word")
			}
			return s.storeError("running the exec harness", err)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollMin):
		}
	}
}
