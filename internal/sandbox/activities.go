package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/manifest"
	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/policy"
	"github.com/countersign/countersign/internal/sandbox/snapshot"
	"github.com/countersign/countersign/internal/workflows"
)

// ErrTypeRefused is the application error of what will never work as asked; its
// message is a sentence for people.
const ErrTypeRefused = "SandboxRefused"

// Offer is a backend that this worker serves.
type Offer struct {
	Backend Backend
	// Queue is the task queue on which a sandbox of this backend is reached:
	// workflows.TaskQueueSandbox, with "/" and Host where only this host has it.
	Queue string
	Host  string
}

// Gate judges tool calls. *policy.Policy is one.
type Gate interface {
	Needs(command string, env policy.Env, known policy.Facts) policy.Needs
	Judge(command string, env policy.Env, facts policy.Facts) policy.Verdict
	// Reader is who gets what is sent to a running command, JudgeStdin the verdict
	// on sending that.
	Reader(command string, lang policy.Shell) policy.Reader
	JudgeStdin(to policy.Reader, text string, env policy.Env, facts policy.Facts) policy.Verdict
	JudgeWrite(path string, content []byte, env policy.Env, facts policy.Facts) policy.Verdict
	JudgeChanges(changes []policy.FileChange, show string, env policy.Env, facts policy.Facts) policy.Verdict
	Version() string
	// Secret reports whether a path's name says that it holds credentials.
	Secret(path string, env policy.Env) bool
	// Shape is the exact form of a command that a standing permission may allow;
	// empty where none may.
	Shape(command string, env policy.Env, v policy.Verdict) string
}

// MaxStreamBytes is how much of each stream is handed to Format, in bytes.
const MaxStreamBytes = 32 << 10 // 32 KiB

// Output is what a tool call gave. It has the fields of the model side's own
// type, to which it is converted.
type Output struct {
	// State is a tool call's state, or "changed".
	State    string
	ExitCode *int
	TimedOut bool
	// Session names a command that goes on in the background.
	Session string
	// Note is a remark or reason.
	Note string
	// Stdout and Stderr are whole streams, or the beginnings of those whose ends
	// are StdoutTail and StderrTail. They need not be valid UTF-8.
	Stdout     string
	Stderr     string
	StdoutTail string
	StderrTail string
	// StdoutBytes and StderrBytes are the lengths of the whole streams.
	StdoutBytes int64
	StderrBytes int64
}

// Timeouts are how long a tool call may run.
type Timeouts struct {
	Read    time.Duration // file tools that read
	Shell   time.Duration // shell commands
	Install time.Duration // recognised package installs
	// Background is of shell commands that may go on in the background.
	Background time.Duration
}

// Config is what the activities work with.
type Config struct {
	// Offers are the backends; Default is the name of the one that a session has
	// which asks for none.
	Offers  []Offer
	Default string
	Blobs   *blob.Store
	Gate    Gate
	// Format writes what a call gave as the text that the model reads.
	Format func(Output) string
	// Rules says what an approval of a tier takes in a channel.
	Rules    func(tier, channel string) workflows.ApprovalRule
	Timeouts Timeouts
	// Workspace is the directory that a new workspace is a copy of; empty is an
	// empty workspace. Workspaces are further ones by name, which Fill fills.
	Workspace  string
	Workspaces manifest.Workspaces
	Fill       func(ctx context.Context, w manifest.Workspace, dir string) error
	// Getenv looks up this worker's environment variables, for secrets.
	Getenv func(string) string
	// Roots are directories below which a session may ask for its workspace to be
	// kept.
	Roots []string
	// TempDir takes snapshots while they are made, StateDir what is known of the
	// files of each sandbox, so that the next snapshot costs only what changes.
	TempDir, StateDir string
	// Awaited returns an error where the server does not wait for an activity's attempt
	// any more, which must then start nothing; it heartbeats with details. nil asks
	// nobody.
	Awaited func(ctx context.Context, details ...any) error
	// NotRemoved is told of a sandbox that was to be removed for good, each time that
	// fails here: its session may not ask again. nil is told nothing.
	NotRemoved func(workflows.SandboxRef)
	// Mask masks what people read; nil knows the shapes of secrets only.
	Mask *mask.Masker
	Log  *slog.Logger
}

// Activities drives sandboxes for workflows. Its exported methods are registered
// under their own names; see package workflows for their inputs and results.
//
// Errors that end in a workflow are application errors whose message is a
// sentence for people.
type Activities struct {
	cfg       Config
	snapshots *snapshot.Store
	// heartbeat is activity.RecordHeartbeat, which tests cannot listen to: their
	// environment throttles it to one a minute.
	heartbeat func(ctx context.Context, details ...any)

	mu    sync.Mutex
	locks map[string]*sessionLock // by sandbox ID and generation
}

// NewActivities returns the activities.
func NewActivities(cfg Config) *Activities {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Awaited == nil {
		cfg.Awaited = func(context.Context, ...any) error { return nil }
	}
	if cfg.NotRemoved == nil {
		cfg.NotRemoved = func(workflows.SandboxRef) {}
	}
	return &Activities{
		cfg: cfg, heartbeat: recordHeartbeat, locks: map[string]*sessionLock{},
		snapshots: &snapshot.Store{Blobs: cfg.Blobs, Temp: cfg.TempDir, State: cfg.StateDir},
	}
}

// offer finds a backend by name.
func (a *Activities) offer(name string) (Offer, error) {
	if name == "" {
		name = a.cfg.Default
	}
	var names []string
	for _, o := range a.cfg.Offers {
		if o.Backend.Name() == name {
			return o, nil
		}
		names = append(names, o.Backend.Name())
	}
	slices.Sort(names)
	return Offer{}, temporal.NewNonRetryableApplicationError(
		fmt.Sprintf("There is no backend %q here. There is: %s.", name, strings.Join(names, ", ")), workflows.ErrTypeUnknownBackend, nil)
}

// OpenSandbox opens a session's sandbox, or resumes it. A fresh workspace is set
// up as its manifest says.
func (a *Activities) OpenSandbox(ctx context.Context, in workflows.OpenInput) (workflows.OpenResult, error) {
	told := &progress{exec: in.ExecID}
	stop := a.beatWith(ctx, told.details)
	res, err := a.openSandbox(ctx, in, told)
	stop()
	return res, err
}

func (a *Activities) openSandbox(ctx context.Context, in workflows.OpenInput, told *progress) (workflows.OpenResult, error) {
	name, workspace := in.Backend, in.Workspace
	spec := Spec{ID: in.WorkflowID, Generation: in.Generation}
	if in.Current != nil {
		name, workspace = in.Current.Backend, in.Current.Workspace
		spec = Spec{ID: in.Current.ID, Generation: in.Current.Generation, Existing: true}
	}
	o, err := a.offer(name)
	if err != nil {
		return workflows.OpenResult{}, err
	}
	if !spec.Existing {
		if spec.Seed, err = a.seed(in, o.Backend.Name()); err != nil {
			return workflows.OpenResult{}, activityError(ctx, err)
		}
	}
	if in.Root != "" && !spec.Existing {
		if spec.Root, err = a.root(o.Backend.Name(), in.Root); err != nil {
			return workflows.OpenResult{}, activityError(ctx, err)
		}
	}
	a.complete(&spec, workspace)
	spec.Progress = told.say
	s, err := o.Backend.Open(ctx, spec)
	if err != nil {
		return workflows.OpenResult{}, activityError(ctx, err)
	}
	if p, ok := s.(Preparer); ok {
		p.Prepare()
	}
	res := workflows.OpenResult{SandboxRef: refOf(o, spec, s.Info())}
	res.Workspace = workspace
	if !spec.Existing && in.Snapshot == "" {
		if res.Setup, err = a.setUp(ctx, s, in, res.SandboxRef, told); err != nil {
			return workflows.OpenResult{}, activityError(ctx, err)
		}
	}
	res.Guides = a.guides(ctx, s, in.WorkflowID)
	return res, nil
}

func refOf(o Offer, spec Spec, info Info) workflows.SandboxRef {
	ref := workflows.SandboxRef{
		Backend: o.Backend.Name(), ID: spec.ID, Generation: spec.Generation, Queue: o.Queue, Host: o.Host,
		WorkspacePath: info.HostPath, Root: info.Workspace, Home: info.Home, Shell: info.Shell,
		Isolated: info.Isolated, Confined: info.Confined, Network: info.Network,
	}
	if !info.Isolated {
		ref.Notice = "Commands are not isolated from the worker's machine. " + info.WhyNot
	}
	return ref
}

// open opens the sandbox that ref names, which was there.
func (a *Activities) open(ctx context.Context, ref workflows.SandboxRef) (Session, error) {
	o, err := a.offer(ref.Backend)
	if err != nil {
		return nil, err
	}
	spec := Spec{ID: ref.ID, Generation: ref.Generation, Existing: true}
	a.complete(&spec, ref.Workspace)
	return o.Backend.Open(ctx, spec)
}

// SignalExec ends an exec and everything that it started. One that was not
// started yet never will be.
func (a *Activities) SignalExec(ctx context.Context, in workflows.SignalExecInput) error {
	s, err := a.open(ctx, in.Sandbox)
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err == nil {
		err = s.Signal(ctx, in.ExecID, SignalStop)
	}
	return activityError(ctx, err)
}

// ReleaseSandbox gives back what an idle sandbox costs. Its content stays.
func (a *Activities) ReleaseSandbox(ctx context.Context, in workflows.ReleaseInput) error {
	defer a.beat(ctx)()
	s, err := a.open(ctx, in.Sandbox)
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err == nil {
		err = s.Release(ctx)
	}
	return activityError(ctx, err)
}

// DestroySandbox removes the sandbox and says what was in it.
func (a *Activities) DestroySandbox(ctx context.Context, in workflows.ReleaseInput) (inv workflows.Inventory, err error) {
	defer a.beat(ctx)()
	defer func() {
		if err != nil {
			a.cfg.NotRemoved(in.Sandbox)
		}
	}()
	s, err := a.open(ctx, in.Sandbox)
	if errors.Is(err, ErrGone) {
		return workflows.Inventory{}, nil
	}
	if err != nil {
		return workflows.Inventory{}, activityError(ctx, err)
	}
	inv = takeInventory(ctx, s)
	if err := s.Destroy(ctx); err != nil {
		return inv, activityError(ctx, err)
	}
	a.forgetLock(in.Sandbox)
	a.snapshots.Forget(lockKey(in.Sandbox))
	return inv, nil
}

func recordHeartbeat(ctx context.Context, details ...any) {
	if activity.IsActivity(ctx) {
		activity.RecordHeartbeat(ctx, details...)
	}
}

// beatEvery is well below any heartbeat time-out that workflows use.
const beatEvery = time.Second

// beat heartbeats until the returned function is called.
func (a *Activities) beat(ctx context.Context, details ...any) func() {
	return a.beatWith(ctx, func() []any { return details })
}

// beatWith is beat with what the heartbeats tell of the moment.
func (a *Activities) beatWith(ctx context.Context, details func() []any) func() {
	return repeat(beatEvery, func() { a.heartbeat(ctx, details()...) })
}

// quiet is how long nothing is told of what may be over in a moment: a heartbeat is
// a write of the server's, and whoever ends waits for the last one.
const quiet = 100 * time.Millisecond

// repeat calls tell soon and then every so often, until the returned function is
// called.
func repeat(every time.Duration, tell func()) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for wait := quiet; ; wait = every {
			select {
			case <-done:
				return
			case <-time.After(wait):
			}
			tell()
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// activityError makes an error that Temporal and people understand. The end of
// the activity's own context is passed on as it is.
func activityError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return ctx.Err()
	}
	var refused *RefusedError
	var app *temporal.ApplicationError
	var away *unavailableError
	switch {
	case errors.As(err, &app):
		return err
	case errors.As(err, &away):
		return temporal.NewApplicationError(away.text, workflows.ErrTypeSandboxUnavailable, err)
	case errors.As(err, &refused):
		return temporal.NewNonRetryableApplicationError(refused.Text, ErrTypeRefused, nil)
	case errors.Is(err, ErrGone):
		return temporal.NewNonRetryableApplicationError("The sandbox and its files are gone from the worker.", workflows.ErrTypeSandboxGone, err)
	case errors.Is(err, os.ErrPermission):
		return temporal.NewApplicationError("The worker may not use its sandbox directory.", workflows.ErrTypeSandboxUnavailable, err)
	case noSpace(err):
		return temporal.NewApplicationError("The worker's disk that holds this session's files is full. Free some space on it.",
			workflows.ErrTypeSandboxUnavailable, err)
	case errors.Is(err, ErrUnavailable):
		return temporal.NewApplicationError("The sandbox's backend does not answer.", workflows.ErrTypeSandboxUnavailable, err)
	}
	return temporal.NewApplicationError("The worker could not do it: "+firstLine(err.Error())+".", workflows.ErrTypeSandboxUnavailable, err)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
