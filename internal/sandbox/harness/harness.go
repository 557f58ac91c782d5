// Package harness is the exec contract inside a sandbox, as a POSIX sh script
// that a backend puts there and runs: at most once, on its own, with a record.
//
// A record is a directory outside the command's reach, named by the exec ID:
//
//	stdout, stderr   the streams, as they come
//	exit             how it ended, written when all else is; whole once its
//	                 last line is
//	run/             made with the record
//	run/lock         made first by whoever runs the exec, exclusively
//	run/self         the script's process while it runs
//	run/main, init   the command's first process; the init of its namespace
//	run/code         the exit code, as far as it is known
//	run/room         becomes the exit file where the disk is full
//	run/begun        not empty once a namespace is ready for the command
//	run/reason       why it is being ended; the first reason stays
//	run/script,      of a spare one: what its namespace is to do, and for how many
//	timeout          seconds; both are written before the record gets its name
//	run/in, holder   the pipe of its standard input; who keeps that open
//	run/sent/KEY/    what was sent to it under a key: text; what, a line of the
//	                 words interrupt and eof; self, who sends it, exclusively;
//	                 done, the code with which that ended
//
// A process is named by its line of /proc/PID/stat, of which the pid and the
// start time count: a pid alone may be another process by now.
package harness

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/sandbox"
)

//go:embed harness.sh
var script string

// Script returns the script's text.
func Script() string { return script }

// Reserved are the files of a record, by their paths in it, that how the exec ends is
// written to where the disk is full. The script makes them where they are not there;
// whoever makes the record can say that there is no room for them.
func Reserved() map[string][]byte {
	return map[string][]byte{"run/code": []byte("126   \n"), "run/room": []byte(strings.Repeat(" ", 80) + "\n")}
}

// Run is what the script's verbs "shared" and "own" take.
type Run struct {
	// Record is the absolute path of the record; the directory exists.
	Record string
	// Own says that Argv reports a process namespace of its own on file
	// descriptor 9, as bubblewrap's --json-status-fd does, and runs [Begin] in it.
	Own         bool
	Timeout     time.Duration
	OutputBytes int64
	Stdin       bool
	// Cwd is where Argv starts; empty is anywhere. With Own it is not used.
	Cwd  string
	Argv []string
}

// Begin is what a namespace of its own runs first: a script for sh -c, a word,
// and the command. It tells the harness that the command now begins, and closes
// what it tells it by.
const Begin = `echo >&8; exec 4>&- 8>&-; exec "$@"`

// Await is what the namespace of a spare runs, a script for sh -c: it waits to be
// let go and does then what its [Order] says.
const Await = `IFS= read -r _ <&3 || exit; . /proc/self/fd/6`

// Order is what a spare one is made to run.
type Order struct {
	Cwd string
	// Env is all of the command's environment, as NAME=value.
	Env  []string
	Argv []string
}

// Script is the order as [Await] takes it. It is false where a shell cannot carry
// it: not every name of an environment variable is one of the shell's.
func (o Order) Script() (string, bool) {
	var b strings.Builder
	fmt.Fprintf(&b, "cd -- %s || exit\nunset OLDPWD\n", quote(o.Cwd))
	for _, kv := range o.Env {
		name, value, _ := strings.Cut(kv, "=")
		if !isName(name) {
			return "", false
		}
		fmt.Fprintf(&b, "export %s=%s\n", name, quote(value))
	}
	// Whoever is told on 4 may be gone, which is none of the command's affairs.
	b.WriteString("echo >&8\ntrap '' PIPE\necho 2>/dev/null >&4\ntrap - PIPE\nexec 3<&- 4>&- 6<&- 8>&-\nexec")
	for _, arg := range o.Argv {
		b.WriteString(" " + quote(arg))
	}
	return b.String() + "\n", true
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// isName tells whether a shell takes the word as a variable's name, and changes
// nothing by itself when it gets that value.
func isName(s string) bool {
	for i, r := range s {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	switch s {
	case "", "IFS", "PS1", "PS2", "PS4", "OPTIND", "PPID", "LINENO", "UID", "EUID", "BASHOPTS", "SHELLOPTS":
		return false
	}
	return true
}

// Mark is the environment variable, as NAME=value, that finds the processes of
// an exec without a namespace of its own. Names of records are unique on a
// machine, and the end of this one is marked: exec-1 is not exec-10.
func Mark(record string) string { return "COUNTERSIGN_EXEC=" + record + ";" }

// Args returns the script's arguments.
func (r Run) Args() []string {
	verb, stdin := "shared", "0"
	if r.Own {
		verb = "own"
	}
	if r.Stdin {
		stdin = "1"
	}
	return append([]string{verb, r.Record, Seconds(r.Timeout), blocks(r.OutputBytes), stdin, r.Cwd}, r.Argv...)
}

// What is the content of the file of that name beside what is sent to a command.
func What(interrupt, eof bool) []byte {
	words := "text"
	if interrupt {
		words += " interrupt"
	}
	if eof {
		words += " eof"
	}
	return []byte(words + "\n")
}

// blocks is what ulimit -f counts in.
func blocks(bytes int64) string { return strconv.FormatInt((bytes+511)/512, 10) }

// Seconds is a time-out as the script reads it.
func Seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

// Reasons in a record's exit file.
const (
	ReasonExited      = "exited"
	ReasonFailed      = "failed"
	ReasonTimedOut    = "timed_out"
	ReasonCancelled   = "cancelled"
	ReasonOutputLimit = "output_limit"
	ReasonOutputLost  = "output_lost"
)

// Exit is what an exit file says.
type Exit struct {
	Code   int
	Reason string
}

// State is how the exec ended. A reason that is none of the above is an error.
func (e Exit) State() (sandbox.State, error) {
	switch e.Reason {
	case ReasonExited:
		return sandbox.StateExited, nil
	case ReasonFailed:
		return sandbox.StateFailed, nil
	case ReasonTimedOut:
		return sandbox.StateTimedOut, nil
	case ReasonCancelled:
		return sandbox.StateCancelled, nil
	case ReasonOutputLimit:
		return sandbox.StateOutputLimit, nil
	case ReasonOutputLost:
		return sandbox.StateOutputLost, nil
	}
	return sandbox.StateUnknown, fmt.Errorf("an exec ended for the unknown reason %q", e.Reason)
}

// Encode writes an exit file.
func (e Exit) Encode() []byte {
	return fmt.Appendf(nil, "code %d\nreason %s\n", e.Code, e.Reason)
}

// ErrUnfinished is of an exit file that is not whole yet.
var ErrUnfinished = errors.New("the exit record is not whole")

// ParseExit reads an exit file. Its error is [ErrUnfinished] where that is still
// being written, or never was.
func ParseExit(data []byte) (Exit, error) {
	var e Exit
	if !bytes.Contains(data, []byte("reason ")) || !bytes.HasSuffix(data, []byte("\n")) {
		return e, fmt.Errorf("reading the exit record %q: %w", data, ErrUnfinished)
	}
	if _, err := fmt.Sscanf(string(data), "code %d\nreason %s\n", &e.Code, &e.Reason); err != nil {
		return e, fmt.Errorf("reading the exit record %q: %w", data, err)
	}
	return e, nil
}

// Process names a process for as long as the system is up.
type Process struct {
	PID   int
	Start string
}

// ParseProcess reads an identity line, or the content of /proc/PID/stat.
func ParseProcess(line string) (Process, error) {
	pid, rest, ok := strings.Cut(strings.TrimSpace(line), " ")
	n, err := strconv.Atoi(pid)
	i := strings.LastIndexByte(rest, ')')
	if !ok || err != nil || n <= 0 || i < 0 {
		return Process{}, fmt.Errorf("%q names no process", line)
	}
	start := strings.TrimSpace(rest[i+1:])
	// The start time is field 22; the first after the name is field 3.
	if f := strings.Fields(start); len(f) > 19 {
		start = f[19]
	}
	return Process{PID: n, Start: start}, nil
}
