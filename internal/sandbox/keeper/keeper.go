// Package keeper keeps the record of an exec whose namespace was made ahead: what
// package harness's script does with a dozen processes is one here. It is this
// program itself, started under another name; see [Command].
//
// It becomes a keeper while its packages are initialised, which is why this one
// imports next to nothing: such packages come first, and what the rest of the
// program needs to begin takes more processor time than a whole command does.
//
// The record is package harness's, and the script's verb "signal" reaches what a
// keeper has started. Where the script is as quick, which is at a time-out and at
// the limit of the output, it does the keeper's work, too.
package keeper

import (
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// name is what a process is called that is a keeper.
const name = "countersign-keeper"

func init() {
	if len(os.Args) > 4 && os.Args[0] == name {
		os.Exit(run(os.Args[1:]))
	}
}

// The open files that a keeper is given.
const (
	// fdClaim ends with the worker, or says that the record has got its name.
	fdClaim = 3
	// fdTold gives the worker a byte when the command begins, and ends when the
	// record is whole, or gone.
	fdTold = 4
)

// Environ is what a keeper needs beside a path to programs. It mostly waits, and more
// threads would only wake each other.
func Environ() []string { return []string{"GOMAXPROCS=1"} }

// Command returns path and arguments of a keeper. The record's directory is one
// whose name begins with a dot: it is no exec's until it has another. Script is the
// path of the harness's; argv makes a process namespace, reports on it to file
// descriptor 9, and runs harness.Await in it. A stream longer than limit bytes ends
// the command.
//
// From 3 on, its open files are what ends when the worker does, or gives a byte
// when the record has its name; and what the command's begin is told to, with a
// byte, and the record's end, by its own.
func Command(record, script string, limit int64, argv []string) (path string, args []string) {
	return "/proc/self/exe", append([]string{name, record, script, strconv.FormatInt(limit, 10)}, argv...)
}

// keep is one keeper's work. The record is the working directory.
type keep struct {
	script string
	limit  int64
	argv   []string

	claim, told *os.File

	mu     sync.Mutex
	timer  *time.Timer
	ended  bool
	let    bool // the command was let begin, when so many processes were killed
	killed string
	init   string // the identity of the namespace's init; empty until it is known
	code   int    // as bubblewrap reports it; -1 until it does
}

func run(args []string) int {
	limit, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return 2
	}
	k := &keep{script: args[1], limit: limit, argv: args[3:], code: -1}
	k.claim, k.told = os.NewFile(fdClaim, "claim"), os.NewFile(fdTold, "told")
	syscall.CloseOnExec(fdClaim)
	syscall.CloseOnExec(fdTold)
	if err := os.Chdir(args[0]); err != nil {
		return 1
	}
	// A caught signal is reset in children, an ignored one would stay ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2)
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	syscall.Umask(0o022) // the command's; every file here has its mode named
	if !k.take() {
		return 1
	}
	o := k.enclose()
	code := 0
	if k.named() {
		code = k.record(o)
	}
	_ = k.told.Close() // a process takes its time to end
	return code
}

// take takes the record's lock, for this process and for good.
func (k *keep) take() bool {
	lock, err := os.OpenFile("run/lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	_ = lock.Close()
	_ = put(room, strings.Repeat(" ", 80)+"\n")
	return put("run/own", "") == nil && put("run/self", identity("self")) == nil
}

// room is a file that how the exec ends is written to where the command has filled the
// disk: what is written over takes no room.
const room = "run/room"

// where is where the record is now, and whether it is an exec's; it is empty where
// the record is nowhere any more.
func where() (at string, named bool) {
	buf := make([]byte, 4096)
	n, err := syscall.Getcwd(buf)
	if err != nil || n < 2 || buf[0] != '/' {
		return "", false
	}
	at = string(buf[:n-1])
	return at, !strings.HasPrefix(at[strings.LastIndexByte(at, '/')+1:], ".")
}

// named tells whether the record is an exec's, for good: one that is not is gone
// afterwards.
func (k *keep) named() bool {
	for {
		at, named := where()
		if named || at == "" {
			return named
		}
		// Whoever gives it a name at this moment succeeds, or does not.
		if gone := at + ".gone"; os.Rename(at, gone) == nil {
			_ = os.RemoveAll(gone)
			return false
		} else if _, err := os.Lstat(at); err == nil {
			return false // it cannot be removed
		}
	}
}

// outcome is how the namespace's program ended.
type outcome struct {
	code  int
	begun bool
}

// enclose runs the program between its pipes, and its namespace ends with it.
func (k *keep) enclose() outcome {
	files, err := k.open()
	if err != nil {
		return outcome{code: 126}
	}
	bwrap, err := k.begin(files.given)
	for _, f := range files.given {
		if f != nil && f != k.told {
			_ = f.Close()
		}
	}
	if err != nil {
		return outcome{code: 126}
	}
	go k.claimed(files.letGo)
	var copies sync.WaitGroup
	copies.Go(func() { k.copy(files.out, "stdout") })
	copies.Go(func() { k.copy(files.err, "stderr") })
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		k.status(files.status)
	}()
	state, err := bwrap.Wait()
	<-reported // what bubblewrap's namespace runs has no hold of it
	k.endInit()
	_ = put("run/done", "")
	k.stopTimer()
	copies.Wait()
	k.mu.Lock()
	if k.let {
		sayShort(k.killed)
	}
	k.mu.Unlock()
	o := outcome{code: 126, begun: size("run/begun") > 0}
	if k.code >= 0 {
		o.code = k.code
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); err == nil && ok {
		if ws.Signaled() {
			o.code = 128 + int(ws.Signal())
		} else if ws.ExitStatus() >= 128 {
			o.code = ws.ExitStatus()
		}
	}
	return o
}

// pipes are the keeper's ends, and what bubblewrap gets from 0 on.
type pipes struct {
	out, err, status, letGo *os.File
	given                   []*os.File
}

func (k *keep) open() (p pipes, err error) {
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	file := func(path string, flag int) (f *os.File) {
		if err == nil {
			f, err = os.OpenFile(path, flag, 0o600)
		}
		return f
	}
	var out, problem, status, wait *os.File
	p.out, out = pipe()
	p.err, problem = pipe()
	p.status, status = pipe()
	wait, p.letGo = pipe()
	null := file(os.DevNull, os.O_RDONLY)
	script := file("run/script", os.O_RDONLY)
	begun := file("run/begun", os.O_WRONLY|os.O_CREATE)
	// As the order that the shell in the namespace reads has them.
	p.given = []*os.File{null, out, problem, wait, k.told, nil, script, nil, begun, status}
	return p, err
}

// claimed lets the command begin once there is one, and ends it when its time is
// over.
func (k *keep) claimed(letGo *os.File) {
	defer letGo.Close()
	_, _ = k.claim.Read(make([]byte, 1))
	if _, ok := where(); !ok {
		return
	}
	data, err := os.ReadFile("run/timeout")
	seconds, perr := strconv.ParseFloat(strings.TrimSpace(string(data)), 64)
	if err != nil || perr != nil {
		return // the shell in the namespace ends
	}
	k.mu.Lock()
	k.let, k.killed = true, killed()
	if !k.ended {
		k.timer = time.AfterFunc(time.Duration(seconds*float64(time.Second)), func() { k.finish("timed_out", "stop") })
	}
	k.mu.Unlock()
	_, _ = letGo.Write([]byte("\n"))
}

func (k *keep) stopTimer() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	if k.timer != nil {
		k.timer.Stop()
	}
}

// copy copies a stream to its file, up to the limit. The command never holds the
// file itself: it could truncate it. The rest is read, too: without a reader the
// command would end by itself, before it is known why.
func (k *keep) copy(from *os.File, to string) {
	lost := ""
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		lost = "output_lost"
		k.finish(lost, "KILL")
	}
	buf := make([]byte, 64<<10)
	for left := k.limit; ; {
		n, err := from.Read(buf)
		if n > 0 && lost == "" {
			take := min(int64(n), left)
			left -= take
			if _, werr := f.Write(buf[:take]); werr != nil {
				lost = "output_lost"
			} else if take < int64(n) {
				lost = "output_limit"
			}
			if lost != "" {
				k.finish(lost, "KILL")
			}
		}
		if err != nil {
			return
		}
	}
}

// status reads what bubblewrap reports: the init of its namespace, then the
// command's exit code.
func (k *keep) status(from *os.File) {
	var text string
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		text += string(buf[:n])
		if pid, ok := number(text, `"child-pid": `); ok && k.init == "" {
			init := identity(strconv.Itoa(pid))
			k.mu.Lock()
			k.init = init
			k.mu.Unlock()
			_ = put("run/init", init)
		}
		if err != nil {
			break
		}
	}
	if code, ok := number(text, `"exit-code": `); ok {
		k.code = code
	}
}

// number finds the number behind a key, when all of it is there.
func number(text, key string) (int, bool) {
	_, rest, ok := strings.Cut(text, key)
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if !ok || end <= 0 {
		return 0, false
	}
	n, err := strconv.Atoi(rest[:end])
	return n, err == nil
}

// endInit ends the namespace: its init stays for what the command left in the
// background, or where the program was killed that watches it.
func (k *keep) endInit() {
	k.mu.Lock()
	init := k.init
	k.mu.Unlock()
	pid, _, _ := strings.Cut(init, " ")
	n, err := strconv.Atoi(pid)
	if err == nil && n > 1 && started(init) == started(identity(pid)) {
		_ = syscall.Kill(n, syscall.SIGKILL)
	}
}

// finish ends the command for a reason, of which the first one stays.
func (k *keep) finish(reason, sig string) {
	if at, _ := where(); at == "" {
		k.endInit() // the script finds nothing where the record is gone
		return
	}
	f, err := os.OpenFile("run/reason", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		_, _ = f.WriteString(reason + "\n")
		_ = f.Close()
	}
	p, err := os.StartProcess("/bin/sh", []string{"sh", k.script, "signal", ".", sig}, &os.ProcAttr{Env: os.Environ()})
	if err == nil {
		go func() { _, _ = p.Wait() }()
	}
}

const (
	// recordTries is how often the record's end is written while the disk does not
	// take it, once a recordEvery: without it the exec's outcome would be unknown.
	recordTries = 600
	recordEvery = time.Second
)

// record writes how the exec ended.
func (k *keep) record(o outcome) int {
	reason := "exited"
	if data, err := os.ReadFile("run/reason"); err == nil {
		reason = strings.TrimSpace(string(data))
		if reason == "" {
			reason = "output_lost" // the disk did not take it
		}
	} else if !o.begun {
		reason = "failed" // bubblewrap could not set the sandbox up
	}
	for range recordTries {
		text := "code " + strconv.Itoa(o.code) + "\nreason " + reason + "\n"
		if put("exit", text) == nil || over(room, text) == nil && os.Rename(room, "exit") == nil {
			return 0
		}
		if _, err := os.Stat("run"); err != nil {
			return 1 // a sandbox that was destroyed needs no record
		}
		time.Sleep(recordEvery)
	}
	return 1
}

func put(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) }

// over writes a text over the beginning of a file.
func over(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err = f.WriteString(text); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// identity is a line that names a process for as long as the system is up.
func identity(pid string) string {
	data, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return ""
	}
	return string(data)
}

// started is what of an identity never changes: pid and start time, field 22.
func started(line string) string {
	pid, _, _ := strings.Cut(line, " ")
	f := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(f) < 20 {
		return ""
	}
	return pid + " " + f[19]
}
