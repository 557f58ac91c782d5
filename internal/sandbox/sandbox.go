// Package sandbox is where commands run and files live: what every backend
// gives, and the Temporal activities that drive it.
//
// A [Backend] opens a [Session], which is one generation of a session's
// sandbox. Its guarantees, which package sandboxtest checks for each backend:
//
//   - an exec runs at most once under its ID, whoever starts it and how often,
//     and goes on when the process that started it dies;
//   - its output is kept to the byte, both streams apart, until the sandbox is
//     destroyed, and is read from any offset, also while it runs;
//   - its limits hold while nobody watches;
//   - ending an exec ends everything that it started, and so does its own end:
//     nothing stays behind in the background;
//   - a sandbox that was there and is gone is [ErrGone], never an empty one.
//
// How much a backend confines what runs in it differs; [Info] says so.
package sandbox

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/countersign/countersign/internal/sandbox/snapshot"
)

var (
	// ErrGone says that the sandbox existed by the caller's record and is not
	// there any more. Its execs are of unknown outcome.
	ErrGone = errors.New("the sandbox is gone")
	// ErrUnavailable says that the backend does not answer now; nothing is lost
	// and the call may be tried again.
	ErrUnavailable = errors.New("the sandbox's backend is not available")
	// ErrNoExec says that no exec was started under the ID.
	ErrNoExec = errors.New("no such exec")
	// ErrExecEnded says that the exec has ended and takes no more input.
	ErrExecEnded = errors.New("the exec has ended")
	// ErrUnsure says that input may have reached a command in part.
	ErrUnsure = errors.New("the command may have got a part of it")
	// ErrExecConflict says that the exec ID was used for another command.
	ErrExecConflict = errors.New("the exec ID belongs to another command")
	// ErrOutside says that a path leaves the workspace.
	ErrOutside = errors.New("the path is outside the workspace")
	// ErrNotFile says that a path is there and is no regular file.
	ErrNotFile = errors.New("not a regular file")
	// ErrNotDir says that a path is there and is no directory.
	ErrNotDir = errors.New("not a directory")
	// ErrTooMany says that a pattern leads through more directories than were looked
	// into.
	ErrTooMany = errors.New("too many directories to look into")
)

// RefusedError says why something cannot be carried out as asked, and will not
// be however often it is tried: a sentence for people.
type RefusedError struct{ Text string }

func (e *RefusedError) Error() string { return e.Text }

// Refuse returns a [RefusedError] with this sentence.
func Refuse(text string) error { return &RefusedError{Text: text} }

// Unavailable is an [ErrUnavailable] with a sentence, or more, for people: what
// happened, and what to do.
func Unavailable(text string, err error) error { return &unavailableError{text: text, err: err} }

type unavailableError struct {
	text string
	err  error
}

func (e *unavailableError) Error() string   { return e.err.Error() }
func (e *unavailableError) Unwrap() []error { return []error{ErrUnavailable, e.err} }

// Backend is a kind of sandbox. It is safe for concurrent use.
type Backend interface {
	// Name is the backend's word in commands and settings, such as "local".
	Name() string
	// Isolated tells whether what it opens is isolated, and where it is not, why, as a
	// sentence.
	Isolated() (bool, string)
	// Open makes the sandbox that spec names, or resumes it. It is idempotent:
	// the content of one that is there stays as it is and spec.Seed is not looked
	// at. It returns [ErrGone] for one that spec.Existing says was there and is
	// not, or that was destroyed, and [ErrUnavailable] when it cannot tell.
	Open(ctx context.Context, spec Spec) (Session, error)
}

// Spec names a sandbox and what a new one holds.
type Spec struct {
	// ID is the session's: any text.
	ID string
	// Generation counts up with each replacement of the content.
	Generation int
	// Existing says that this generation was opened before: it must be there.
	Existing bool
	// Seed fills a new sandbox.
	Seed Seed
	// Root, if set, is a directory of the worker's machine below which a new
	// workspace's files are kept. A backend that keeps none there refuses it.
	Root string
	// Image is what a backend of containers makes the sandbox from; empty is its
	// own choice.
	Image string
	// Network are the hosts that commands may reach, as package manifest writes
	// them; without any there is no network. A backend that cannot hold commands
	// to them refuses.
	Network []string
	// Progress, if set, is told what a long Open is at, as a line for people.
	Progress func(line string)
}

// Seed is what a new workspace holds; the zero value is an empty one. Fill wins over
// Snapshot, and that over Directory.
type Seed struct {
	// Fill makes the content in a directory of the worker that is there and empty.
	Fill func(ctx context.Context, dir string) error
	// Directory is copied without what git or a .countersignignore file ignores.
	// It is only read.
	Directory string
	// Snapshot, when set, opens a tar stream as [snapshot.Store.Open] and
	// [snapshot.Flat] write it; Directory is then not looked at. A stream that fails
	// leaves no sandbox.
	Snapshot func(ctx context.Context) (io.ReadCloser, error)
	// Filled, if set, is called with the workspace that Snapshot has filled, before
	// anybody can use it.
	Filled func(ctx context.Context, tree snapshot.Tree)
}

// Info is what a session is like.
type Info struct {
	// Workspace and Home are absolute paths as commands see them.
	Workspace, Home string
	// HostPath is the workspace as people on the worker's host see it; empty when
	// they cannot.
	HostPath string
	// Shell is bash or sh: the language of commands.
	Shell string
	// Isolated says that commands see and change nothing but the workspace, their
	// home and /tmp. WhyNot says in sentences what they reach, and why, where they do.
	Isolated bool
	WhyNot   string
	// Confined says of commands that are not isolated that all the same they change
	// nothing but the workspace, their home and TMPDIR, and read of other files only
	// the system's.
	Confined bool
	// Network says that commands reach a network.
	Network bool
}

// Session is one open sandbox. It is safe for concurrent use.
type Session interface {
	Info() Info
	Execs
	Files
	snapshot.Tree
	// Release gives back what costs while idle; content and exec records stay,
	// running execs are ended. The session is not used afterwards; Open resumes.
	Release(ctx context.Context) error
	// Destroy ends all execs and removes everything. It is idempotent; Open says
	// [ErrGone] afterwards.
	Destroy(ctx context.Context) error
}

// Execs runs commands.
type Execs interface {
	// Start starts the exec, or does nothing if spec.ID was started before. It
	// returns once the command cannot be started a second time. It returns a
	// [RefusedError] for what can never run and [ErrExecConflict] when the ID was
	// used for another command.
	Start(ctx context.Context, spec ExecSpec) error
	// Attach writes a stream from a byte offset on to w, as it comes, and returns
	// nil when the exec has ended and all was written. An ended ctx ends the
	// attachment, never the exec.
	Attach(ctx context.Context, id string, stream Stream, offset int64, w io.Writer) error
	// Status returns how the exec stands, or [ErrNoExec].
	Status(ctx context.Context, id string) (ExecStatus, error)
	// Signal sends sig to everything that the exec started. One that has ended is
	// no error. Stopping or killing one that was not started forbids it: it is
	// cancelled and never runs.
	Signal(ctx context.Context, id string, sig Signal) error
	// Send sends input to a running command that was started with Stdin, at most
	// once under its key, and returns when the command has read it all or its pipe
	// holds it. An ended ctx ends the wait: what was begun is still sent when this
	// process dies. [ErrExecEnded] when nobody reads any more, [ErrUnsure] where
	// what an earlier call began was cut off.
	Send(ctx context.Context, id string, in Input) error
	// Sent tells whether [Execs.Send] has begun to send what is under key.
	Sent(ctx context.Context, id, key string) (bool, error)
	// Running returns the IDs of the execs that run now.
	Running(ctx context.Context) ([]string, error)
}

// Files looks at the workspace and changes it. Paths are absolute as commands
// see them, or relative to the workspace; symbolic links are followed as
// commands would follow them. What leads out of the workspace is [ErrOutside].
type Files interface {
	// Stat tells what is at path. A path that does not exist is no error.
	Stat(ctx context.Context, path string) (FileInfo, error)
	// ReadFile returns up to limit bytes of a regular file, and its whole size.
	ReadFile(ctx context.Context, path string, limit int64) ([]byte, int64, error)
	// WriteFile makes or replaces a regular file, its parents included. It is
	// seen whole or not at all, and an existing file's mode stays.
	WriteFile(ctx context.Context, path string, data []byte) error
	// Change makes all of the changes or, where it fails, none: everything is
	// written beside its place before the first file is put there. One that a kill
	// cuts off may have made some; those are whole, and making the changes again
	// makes the rest. No two of them may be about one file.
	Change(ctx context.Context, changes []Change) error
	// ReadDir returns what a directory holds, sorted by name. One with more than
	// limit entries returns that many, and true.
	ReadDir(ctx context.Context, path string, limit int) ([]DirEntry, bool, error)
	// Hash returns the SHA-256 of a regular file in hex.
	Hash(ctx context.Context, path string) (string, error)
	// Glob returns up to limit absolute paths that match a pattern, sorted. Of each
	// part of the pattern as many directories are looked into; where there are more
	// it returns what it has found, and [ErrTooMany].
	Glob(ctx context.Context, pattern string, limit int) ([]string, error)
}

// Change is a regular file that [Files.Change] makes, replaces or removes.
type Change struct {
	Path string
	// Data is what it holds afterwards, its missing parents made; with Remove it is
	// not there any more.
	Data   []byte
	Remove bool
	// Mode is a new file's; 0 is 0644. An existing file's mode stays.
	Mode fs.FileMode
}

// DirEntry is one entry of a directory.
type DirEntry struct {
	Name string
	// Mode has the type of what is there; a symbolic link is not followed.
	Mode    fs.FileMode
	Size    int64
	ModTime time.Time
}

// FileInfo is what is at a path.
type FileInfo struct {
	// Resolved is the absolute path with every symbolic link followed; of a path
	// that does not exist, its longest existing parent followed and the rest kept.
	Resolved string
	// Outside says that the path leads out of the workspace: nothing else is
	// known of it.
	Outside bool
	Exists  bool
	Size    int64
	Mode    fs.FileMode
	ModTime time.Time
}

// Stream is one of an exec's outputs.
type Stream string

// The two streams.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// Signal is what [Execs.Signal] sends.
type Signal string

const (
	// SignalStop asks everything to end, and after a second ends it. The exec
	// is then cancelled.
	SignalStop Signal = "stop"
	// SignalKill ends everything at once. The exec is then cancelled.
	SignalKill Signal = "KILL"
	// SignalInterrupt is what Ctrl-C sends; what it does is the command's affair.
	SignalInterrupt Signal = "INT"
	// SignalTerminate asks, and leaves it at that.
	SignalTerminate Signal = "TERM"
	// SignalFreeze halts everything and SignalThaw lets it go on. Limits go on
	// counting.
	SignalFreeze Signal = "STOP"
	SignalThaw   Signal = "CONT"
)

// MaxCommand is the longest command, in bytes: one argument of a Linux process
// holds 128 KiB, and a backend's own wrapping must fit too.
const MaxCommand = 100 << 10 // 100 KiB

// ExecSpec is one command to run.
type ExecSpec struct {
	// ID matches [A-Za-z0-9._-]{1,128} and does not begin with a dot.
	ID string
	// Command is in the language of [Info].Shell.
	Command string
	// Cwd is absolute or relative to the workspace; empty is the workspace.
	Cwd string
	// Env is added to the sandbox's clean environment.
	Env map[string]string
	// Stdin keeps standard input open for [Execs.Send]; else it is empty.
	Stdin bool
	// TTY gives the command a terminal, of the size that package terminal says, which
	// controls it and is its three standard streams. What the terminal shows, the echo
	// of what is sent included, is Stdout; Stderr stays empty. Its input is open
	// as with Stdin: what is sent are keys.
	TTY    bool
	Limits Limits
}

// Preparer is a [Session] that can make ready for the next exec ahead of it.
type Preparer interface {
	// Prepare returns at once; what it makes goes away by itself when nothing comes.
	Prepare()
}

// Input is something to send to a running command: in this order an interrupt,
// data, the end of its input.
type Input struct {
	// Key matches what an exec ID does. What is sent again under it is not sent a
	// second time, whatever it holds.
	Key       string
	Interrupt bool
	Data      []byte
	EOF       bool
}

// Limits end an exec that goes over them, whether anybody watches or not.
type Limits struct {
	// Timeout is how long it may run; 0 is DefaultTimeout. It is kept to about a
	// tenth of a second.
	Timeout time.Duration
	// OutputBytes is how much each stream may hold, rounded up to 512; 0 is
	// DefaultOutputBytes.
	OutputBytes int64
}

// Defaults of [Limits].
const (
	DefaultTimeout     = 120 * time.Second
	DefaultOutputBytes = 512 << 20 // 512 MiB: what one command may take of the disk
)

// State is how an exec stands.
type State string

const (
	StateRunning State = "running"
	// StateExited: the command ended by itself, or by a signal of its own.
	StateExited State = "exited"
	// StateTimedOut, StateCancelled, StateOutputLimit and StateOutputLost: it was
	// ended, because its time was over, because somebody stopped it, because it wrote
	// too much, because what it wrote could not be stored.
	StateTimedOut    State = "timed_out"
	StateCancelled   State = "cancelled"
	StateOutputLimit State = "output_limit"
	StateOutputLost  State = "output_lost"
	// StateFailed: it could not be started; nothing of it ran.
	StateFailed State = "failed"
	// StateUnknown: it was started, and what became of it is not recorded.
	StateUnknown State = "unknown"
)

// ExecStatus is how an exec stands.
type ExecStatus struct {
	State State
	// ExitCode is the shell's: 128 + n for a command that signal n ended. It means
	// nothing unless State is StateExited.
	ExitCode int
	// StartedAt and EndedAt are by the sandbox's clock; EndedAt is zero while it
	// runs or where it is unknown.
	StartedAt, EndedAt time.Time
	// StdoutBytes and StderrBytes are what each stream holds so far.
	StdoutBytes, StderrBytes int64
}

// Ended tells whether nothing more will come of the exec.
func (s ExecStatus) Ended() bool { return s.State != StateRunning }
