// Package terminal gives a command in a sandbox a terminal.
//
// A copy of this program stands inside the sandbox between the harness's pipes and
// the command: it makes a pseudo-terminal, begins the command in a session of its
// own that the terminal controls, writes there what comes on its standard input and
// passes on what the terminal shows. For the harness it is the command: it ends with
// its exit code, and with it the terminal.
package terminal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// Verb is the first argument of a program that is to run a command on a terminal.
const Verb = "on-terminal"

// The size of every terminal, in characters: wide enough for tables and compilers'
// messages, and never changed.
const (
	Columns = 120
	Rows    = 40
)

// MaxLine is the longest line that a terminal takes, its end not counted, in bytes:
// Linux keeps 4,095 of one and drops the rest.
const MaxLine = 4095

// cannot is the exit code of a command that could not be begun, as shells say it.
const cannot = 126

// Asked tells whether the arguments of this process, its name included, ask it to
// run a command on a terminal; [Run] is then all that it does.
func Asked(args []string) bool { return len(args) >= 3 && args[1] == Verb }

// Command is what runs argv on a terminal, where helper is a program for which
// [Asked] holds.
func Command(helper string, argv []string) []string { return append([]string{helper, Verb}, argv...) }

// Run runs the command after [Verb] on a terminal, and returns the process's exit
// code: the command's, 128 + n where signal n ended it.
func Run(args []string) int {
	code, err := run(args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "countersign:", err)
	}
	return code
}

func run(argv []string) (int, error) {
	keepInherited()
	// What is meant for the command does not end this; a signal that is noticed is
	// not ignored by what is started, as an ignored one would be.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2)
	master, tty, err := open()
	if err != nil {
		return cannot, fmt.Errorf("no terminal can be had here: %w", err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // of descriptor 0
	if err := cmd.Start(); err != nil {
		code := cannot
		if errors.Is(err, os.ErrNotExist) {
			code++ // 127, not found
		}
		return code, err
	}
	go write(master, os.Stdin)
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		show(os.Stdout, master)
	}()
	err = cmd.Wait()
	// What the command has left in the background may hold the terminal open, and
	// ends with it: only what is there now is still shown.
	_ = master.SetReadDeadline(time.Now())
	<-shown
	showRest(os.Stdout, master)
	var exit *exec.ExitError
	switch status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus); {
	case status.Signaled():
		return 128 + int(status.Signal()), nil
	case err == nil, errors.As(err, &exit):
		return cmd.ProcessState.ExitCode(), nil
	}
	return cannot, err
}

// endOfInput is the key that ends a terminal's input.
const endOfInput = "\x04"

// write writes what comes to the terminal, and the end of it as a key.
func write(master *os.File, from io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if !writeAll(master, buf[:n]) {
			return
		}
		if err != nil {
			writeAll(master, []byte(endOfInput))
			return
		}
	}
}

// writeAll waits for as long as the command takes to read. It looks again now and
// then: the kernel may wake it before there is room, and not once there is.
func writeAll(master *os.File, p []byte) bool {
	for len(p) > 0 {
		_ = master.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := master.Write(p)
		p = p[n:]
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
	}
	return true
}

// show passes on what the terminal shows. Where nobody takes it any more the
// command is not held up.
func show(to io.Writer, master *os.File) {
	buf := make([]byte, 32<<10)
	for {
		n, err := master.Read(buf)
		if _, werr := to.Write(buf[:n]); werr != nil {
			to = io.Discard
		}
		if err != nil {
			return
		}
	}
}
