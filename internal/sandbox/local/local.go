// Package local runs sandboxes on the worker's own machine.
//
// A sandbox is a directory below the data directory: a private copy of the
// seed, never the user's own directory. Where bubblewrap works (tried at start,
// not looked up) a command sees its workspace, its home and /tmp, the system's
// programs read-only, and nothing else: no network, no worker environment, no
// data directory. Where it does not, commands run with a clean environment as
// the worker's user, and [sandbox.Info] says that they are not isolated; Landlock
// keeps them off the worker's files then, where the kernel has it.
//
// Execs run under package harness's script, outside bubblewrap: their records
// cannot be written from inside, and they go on when the worker is killed. What
// kills the worker's whole group or container kills them too.
package local

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/archive"
	"github.com/countersign/countersign/internal/sandbox/harness"
)

// Name is this backend's word.
const Name = "local"

// Config is what [New] needs.
type Config struct {
	// DataDir holds everything; sandboxes are below its directory "sandboxes".
	DataDir string
	// ReadOnly are further absolute paths that isolated commands may read, such
	// as a toolchain in an unusual place; a bin directory in one is on PATH.
	ReadOnly []string
	// Hidden are further absolute paths that commands never read where Landlock holds
	// their files, such as settings. The data directory, the user's home and the
	// working directory always are.
	Hidden []string
	// Forwarder is a program that is an [egress.Forward], a [terminal.Run] or what
	// [landlock.Rules.Command] starts when it is asked to be, such as this one; without
	// it, workspaces with a network and commands on a terminal are refused, and Landlock
	// holds no command.
	Forwarder string
	// NoIsolation leaves bubblewrap out even where it works, and lets commands run.
	NoIsolation bool
	// AllowUnisolated lets commands run where bubblewrap does not work; else they
	// are refused there.
	AllowUnisolated bool
	// NoLandlock lets such commands reach all files that the worker's user does.
	NoLandlock bool
	// Limits bound what each sandbox takes of the machine, as far as that can be
	// done here; see [Backend.Facts].
	Limits Limits
	// Log gets what nobody asked for; nil discards it.
	Log *slog.Logger
}

// Backend keeps sandboxes below one data directory.
type Backend struct {
	cfg     Config
	dir     string   // the sandboxes
	held    *os.File // dir itself, whatever is at its path by now
	harness string   // the script's path
	shell   string   // the path of bash, or of sh
	mode    isolation
	groups  groups
	private private

	spares atomic.Int32 // how many there are

	mu       sync.Mutex
	sessions map[string]*session // by directory name
	unread   map[string]error    // what [Backend.Boxes] could not read, likewise
}

var _ sandbox.Backend = (*Backend)(nil)

// New prepares the data directory and tries whether isolation works, which
// takes some tenths of a second.
func New(ctx context.Context, cfg Config) (*Backend, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	data, err := filepath.Abs(cfg.DataDir)
	if err != nil {
		return nil, fmt.Errorf("finding the data directory: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(data, "sandboxes"), 0o700); err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	// Paths inside the workspace are compared with what the kernel reports.
	if data, err = filepath.EvalSymlinks(data); err != nil {
		return nil, fmt.Errorf("finding the data directory: %w", err)
	}
	cfg.DataDir, cfg.Hidden = data, append(ownPlaces(), cfg.Hidden...)
	b := &Backend{cfg: cfg, dir: filepath.Join(data, "sandboxes"), sessions: map[string]*session{}}
	if b.held, err = os.Open(b.dir); err != nil {
		return nil, fmt.Errorf("opening the data directory: %w", err)
	}
	if b.shell, err = findShell(); err != nil {
		return nil, err
	}
	if err := b.writeHarness(); err != nil {
		return nil, err
	}
	b.groups = findGroups(cfg.Limits, data)
	b.mode = b.probe(ctx)
	if ok, why := b.Isolated(); !ok {
		cfg.Log.Warn("Commands are not isolated", "reason", why)
	}
	return b, nil
}

// Name returns [Name].
func (b *Backend) Name() string { return Name }

// Isolated tells whether commands are isolated, and if not, what they reach and why,
// as sentences.
func (b *Backend) Isolated() (bool, string) {
	if b.mode.bwrap != "" {
		return true, ""
	}
	return false, b.mode.why()
}

// Refuses is a sentence about why no command runs here; empty where they do.
func (b *Backend) Refuses() string {
	if b.mode.bwrap != "" || b.cfg.AllowUnisolated || b.cfg.NoIsolation {
		return ""
	}
	return "Commands cannot be isolated on this worker, so none run here: " + b.mode.whyNot +
		" Install bubblewrap, take the docker backend, or set sandbox.local.allow_unisolated to run them all the same."
}

// writeHarness puts the script where the execs of several versions of this
// program can go on using theirs.
func (b *Backend) writeHarness() error {
	sum := sha256.Sum256([]byte(harness.Script()))
	b.harness = filepath.Join(b.dir, "harness-"+hex.EncodeToString(sum[:6])+".sh")
	if have, err := os.ReadFile(b.harness); err == nil && string(have) == harness.Script() {
		return nil
	}
	temp := b.harness + "." + random()
	if err := os.WriteFile(temp, []byte(harness.Script()), 0o600); err != nil {
		return fmt.Errorf("writing the exec harness: %w", err)
	}
	if err := os.Rename(temp, b.harness); err != nil {
		return fmt.Errorf("writing the exec harness: %w", err)
	}
	return nil
}

// record is what a sandbox says of itself, in its file sandbox.json.
type record struct {
	ID         string    `json:"id"`
	Generation int       `json:"generation"`
	CreatedAt  time.Time `json:"created_at"`
}

const (
	recordFile = "sandbox.json"
	newMark    = ".new-"   // before a random word: a sandbox that is being made
	trashMark  = ".trash-" // likewise: one that is being removed
	goneSuffix = ".gone"   // a file that says that the sandbox was destroyed
)

// dirName is a session's directory: readable, and distinct by its hash.
func dirName(id string, generation int) string {
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, id)
	sum := sha256.Sum256([]byte(id))
	return fmt.Sprintf("%s-%s-g%d", safe[:min(len(safe), 48)], hex.EncodeToString(sum[:6]), generation)
}

func random() string {
	var b [6]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Open makes or resumes a sandbox; see [sandbox.Backend].
func (b *Backend) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Session, error) {
	if spec.ID == "" || spec.Generation < 0 {
		return nil, sandbox.Refuse("The sandbox has no name.")
	}
	name := dirName(spec.ID, spec.Generation)
	if why := b.Refuses(); why != "" && !spec.Existing && !strings.HasPrefix(name, scratchPrefix) {
		return nil, sandbox.Refuse(why)
	}
	if err := b.canHold(spec.Network); err != nil {
		return nil, err
	}
	ok, err := b.present(name, spec)
	if err != nil {
		return nil, err
	}
	if !ok {
		if spec.Existing {
			return nil, fmt.Errorf("%w: %s is not in %s", sandbox.ErrGone, name, b.dir)
		}
		if err := b.create(ctx, name, spec); err != nil {
			return nil, err
		}
	}
	s, err := b.session(ctx, name)
	if err == nil {
		err = s.serveNetwork(spec.Network)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// present tells whether the sandbox is there.
func (b *Backend) present(name string, spec sandbox.Spec) (bool, error) {
	if _, err := os.Lstat(filepath.Join(b.dir, name+goneSuffix)); err == nil {
		if err := b.discard(name); err != nil {
			return false, fmt.Errorf("destroying the sandbox: %w", err)
		}
		return false, fmt.Errorf("%w: it was destroyed", sandbox.ErrGone)
	}
	data, err := os.ReadFile(filepath.Join(b.dir, name, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(b.dir); err != nil && !(spec.Existing && b.removed()) {
			return false, fmt.Errorf("%w: %v", sandbox.ErrUnavailable, err)
		}
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%w: %v", sandbox.ErrUnavailable, err)
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil || r.ID != spec.ID || r.Generation != spec.Generation {
		return false, fmt.Errorf("%w: its record names %q", sandbox.ErrGone, r.ID)
	}
	return true, nil
}

// discard removes what is left of a sandbox in which nothing runs any more, also what
// an earlier try has left.
func (b *Backend) discard(name string) error {
	dir := filepath.Join(b.dir, name)
	if err := os.Rename(dir, dir+trashMark+random()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), name+trashMark) {
			err = errors.Join(err, removeSandbox(filepath.Join(b.dir, e.Name())))
		}
	}
	return err
}

// removed tells whether the directory of all sandboxes was removed, for good: one that
// is only not mounted is still there.
func (b *Backend) removed() bool {
	info, err := b.held.Stat()
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 0
}

// create makes a sandbox aside and puts it in place whole. When somebody else
// was faster, theirs stays.
func (b *Backend) create(ctx context.Context, name string, spec sandbox.Spec) error {
	temp := filepath.Join(b.dir, name+newMark+random())
	defer removeSandbox(temp)
	for _, d := range []string{"", "home", "tmp", "execs"} {
		if err := os.Mkdir(filepath.Join(temp, d), 0o700); err != nil {
			return fmt.Errorf("making a sandbox: %w", err)
		}
	}
	if err := makeWorkspace(temp, name, spec.Root); err != nil {
		return err
	}
	if err := b.fill(ctx, filepath.Join(temp, workspaceDir), spec.Seed); err != nil {
		return err
	}
	if err := writeEtc(filepath.Join(temp, etcDir), "/etc"); err != nil {
		return fmt.Errorf("making a sandbox: %w", err)
	}
	data, err := json.Marshal(record{ID: spec.ID, Generation: spec.Generation, CreatedAt: time.Now().UTC()})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(temp, recordFile), data, 0o600); err != nil {
		return fmt.Errorf("making a sandbox: %w", err)
	}
	if err := os.Rename(temp, filepath.Join(b.dir, name)); err != nil {
		if ok, perr := b.present(name, spec); ok {
			return perr
		}
		return fmt.Errorf("making a sandbox: %w", err)
	}
	return nil
}

func (b *Backend) fill(ctx context.Context, workspace string, seed sandbox.Seed) error {
	switch {
	case seed.Fill != nil:
		return seed.Fill(ctx, workspace)
	case seed.Snapshot != nil:
		r, err := seed.Snapshot(ctx)
		if err != nil {
			return fmt.Errorf("opening the snapshot: %w", err)
		}
		defer r.Close()
		if err := archive.Unpack(ctx, r, workspace); err != nil {
			return err
		}
		if seed.Filled != nil {
			seed.Filled(ctx, archive.Dir(workspace))
		}
	case seed.Directory != "":
		return copySeed(ctx, seed.Directory, workspace, b.cfg.DataDir)
	}
	return nil
}

// session returns the one session of a sandbox that is there.
func (b *Backend) session(ctx context.Context, name string) (*session, error) {
	b.mu.Lock()
	s, ok := b.sessions[name]
	b.mu.Unlock()
	if ok {
		return s, nil
	}
	s, err := b.newSession(name)
	if err != nil {
		return nil, err
	}
	s.sweepSpares()
	s.sweepWrites()
	// A worker that died between freezing and thawing left execs frozen.
	if err := s.thawAll(ctx); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if have, ok := b.sessions[name]; ok {
		return have, nil
	}
	b.sessions[name] = s
	return s, nil
}

// workspaceDir is where a sandbox's workspace is: a directory, or a link to one
// below a root that was asked for.
const workspaceDir = "workspace"

// makeWorkspace makes the empty workspace of the sandbox in dir. Below a root it
// is a directory of its own: what is there already is never touched.
func makeWorkspace(dir, name, root string) error {
	at := filepath.Join(dir, workspaceDir)
	if root == "" {
		if err := os.Mkdir(at, 0o700); err != nil {
			return fmt.Errorf("making a sandbox: %w", err)
		}
		return nil
	}
	kept := filepath.Join(root, name+"-"+random())
	// The link comes first: a worker that is killed in between leaves nothing that
	// its next one would not find.
	if err := os.Symlink(kept, at); err != nil {
		return fmt.Errorf("making a sandbox: %w", err)
	}
	if err := os.Mkdir(kept, 0o700); err != nil {
		return sandbox.Refuse(fmt.Sprintf("The workspace cannot be kept in %s: %v.", root, errors.Unwrap(err)))
	}
	return nil
}

// removeSandbox removes a sandbox's directory, and its workspace where that is
// elsewhere.
func removeSandbox(dir string) error {
	kept, err := os.Readlink(filepath.Join(dir, workspaceDir))
	if err == nil {
		if err := removeAll(kept); err != nil {
			return err
		}
	}
	return removeAll(dir)
}

// removeAll removes a tree, directories too that a command made unwritable.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		if err != nil && d != nil && d.IsDir() {
			return nil
		}
		return nil
	})
	return os.RemoveAll(dir)
}
