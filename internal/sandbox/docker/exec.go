package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/egress"
	"github.com/countersign/countersign/internal/sandbox/harness"
	"github.com/countersign/countersign/internal/sandbox/terminal"
)

// startGrace is how long a harness that has taken the lock may take to write who
// it is, on a machine under load.
const startGrace = 10 * time.Second

// Start starts an exec; see [sandbox.Execs].
func (s *session) Start(ctx context.Context, spec sandbox.ExecSpec) error {
	if err := spec.Check(); err != nil {
		return err
	}
	used, err := s.usage.use(ctx)
	if err != nil {
		return err
	}
	defer used()
	if err := s.connectNetwork(ctx); err != nil {
		return err
	}
	limits := spec.Limits.WithDefaults()
	cwd := s.Info().Abs(spec.Cwd)
	var have *bundle
	helper := ""
	if spec.TTY {
		if have, err = s.b.helper(); err != nil {
			return sandbox.Refuse("No terminal can be had in this sandbox: " + err.Error() + ".")
		}
		if helper, err = s.terminalHelper(ctx, have); err != nil {
			return err
		}
	}
	argv, env := s.argv(spec, have)
	run := harness.Run{
		Record: insideRoot, Stdin: spec.Stdin || spec.TTY, Timeout: limits.Timeout, OutputBytes: limits.OutputBytes, Argv: argv,
	}
	given := run.Args() // shared RECORD TIMEOUT BLOCKS STDIN CWD PROGRAM…
	args := append([]string{spec.ID, job(spec, cwd), cwd}, given[2:5]...)
	args = append(args, strconv.FormatInt(max(0, s.b.cfg.Disk>>10), 10), env, helper)
	_, code, err := s.call(ctx, "starting a command", "begin", append(args, given[6:]...)...)
	switch {
	case err != nil:
		return err
	case code == codeConflict:
		return fmt.Errorf("%w: %s", sandbox.ErrExecConflict, spec.ID)
	case code == codeNoDir:
		return sandbox.Refuse(fmt.Sprintf("The working directory %s does not exist.", cwd))
	case code != 0:
		return noRoom("starting a command", "its record cannot be written")
	}
	return nil
}

// job is what a record keeps of an exec's spec: enough to tell a repetition from
// another command under the same ID.
func job(spec sandbox.ExecSpec, cwd string) string {
	h := sha256.New()
	field := func(s string) { fmt.Fprintf(h, "%d:%s", len(s), s) }
	field(spec.Command)
	field(cwd)
	for _, k := range slices.Sorted(maps.Keys(spec.Env)) {
		field(k)
		field(spec.Env[k])
	}
	line := hex.EncodeToString(h.Sum(nil))
	if spec.TTY {
		line += " tty"
	}
	if spec.Stdin || spec.TTY {
		line += " stdin"
	}
	return line
}

// argv is the program that runs the command: its shell in a clean environment, of
// which the spec's own comes from a file. On a terminal helper is what gives it that.
func (s *session) argv(spec sandbox.ExecSpec, helper *bundle) (argv []string, env string) {
	argv = []string{"env", "-i", "PATH=" + strings.TrimPrefix(rootPath, "PATH="), "LANG=C.UTF-8"}
	argv = append(argv, s.imageEnv...)
	argv = append(argv, "HOME="+insideHome, "TMPDIR=/tmp", "USER=agent", "LOGNAME=agent", "TERM=dumb")
	if s.network.on() {
		for k, v := range egress.Environ() {
			argv = append(argv, k+"="+v)
		}
	}
	mark := "COUNTERSIGN_EXEC=" + spec.ID
	prefix, env := harness.Import(spec.Env, mark)
	argv = append(append(argv, mark), prefix...)
	command := []string{s.shell}
	if s.shell == "bash" {
		command = append(command, "--noprofile", "--norc")
	}
	command = append(command, "-c", "--", spec.Command)
	if spec.TTY {
		run := helper.command(terminalFD)
		last := len(run) - 1
		command = append(run[:last], terminal.Command(run[last], command)...)
	}
	return append(argv, command...), env
}

// Status returns how an exec stands; see [sandbox.Execs].
func (s *session) Status(ctx context.Context, id string) (sandbox.ExecStatus, error) {
	if validID(id) != nil {
		return sandbox.ExecStatus{}, fmt.Errorf("%w: %q", sandbox.ErrNoExec, id)
	}
	out, code, err := s.call(ctx, "looking at a command", "state", id)
	switch {
	case err != nil:
		return sandbox.ExecStatus{}, err
	case code == codeNoExec:
		return sandbox.ExecStatus{}, fmt.Errorf("%w: %s", sandbox.ErrNoExec, id)
	case code != 0:
		return sandbox.ExecStatus{}, badAnswer("looking at a command", code)
	}
	return parseState(string(out))
}

// parseState reads what container.sh's state prints.
func parseState(text string) (sandbox.ExecStatus, error) {
	st := sandbox.ExecStatus{State: sandbox.StateUnknown}
	var now time.Time
	var up, exit string
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "up":
			var sec string
			up, sec, _ = strings.Cut(rest, " ")
			n, _ := strconv.ParseInt(sec, 10, 64)
			now = time.Unix(n, 0)
		case "code", "reason":
			exit += line + "\n"
		default:
			note(&st, path.Base(word), rest)
		}
	}
	switch {
	case exit != "":
		e, err := harness.ParseExit([]byte(exit))
		if err != nil {
			return st, err
		}
		st.ExitCode = e.Code
		if st.State, err = e.State(); err != nil {
			return st, err
		}
	case up == "yes", up == "starting" && now.Sub(st.StartedAt) < startGrace:
		st.State, st.EndedAt = sandbox.StateRunning, time.Time{}
	}
	return st, nil
}

// note takes in what stat printed of one of a record's files.
func note(st *sandbox.ExecStatus, name, text string) {
	size, at, _ := strings.Cut(text, " ")
	n, _ := strconv.ParseInt(size, 10, 64)
	switch name {
	case "stdout":
		st.StdoutBytes = n
	case "stderr":
		st.StderrBytes = n
	case "exit":
		st.EndedAt = parseTime(at)
	case "lock", "self": // self comes after lock, and is nearer to the truth
		st.StartedAt = parseTime(at)
	}
}

// parseTime reads what stat prints for %y, with fractions of a second or without.
func parseTime(text string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05 -0700", text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// Running returns the execs that run; see [sandbox.Execs].
func (s *session) Running(ctx context.Context) ([]string, error) {
	out, err := s.ask(ctx, "listing commands", "running")
	return strings.Fields(string(out)), err
}
