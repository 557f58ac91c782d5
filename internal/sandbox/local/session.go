package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/archive"
	"github.com/countersign/countersign/internal/sandbox/harness"
	"github.com/countersign/countersign/internal/sandbox/snapshot"
)

// session is one open sandbox. Its state is all on disk: another process that
// opens the same directory sees the same.
type session struct {
	b    *Backend
	name string
	dir  string
	info sandbox.Info
	root *os.Root // the workspace

	network network
	spares  spares
	// endings are channels by the IDs of execs; see [session.follow].
	endings sync.Map
	// finished are the IDs of execs that have their exit record.
	finished sync.Map

	closing sync.Mutex // held while the sandbox is released or removed
}

var _ sandbox.Session = (*session)(nil)

func (b *Backend) newSession(name string) (*session, error) {
	dir := filepath.Join(b.dir, name)
	at, err := filepath.EvalSymlinks(filepath.Join(dir, workspaceDir))
	var root *os.Root
	if err == nil {
		root, err = os.OpenRoot(at)
	}
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: its workspace is not there", sandbox.ErrGone)
		}
		return nil, fmt.Errorf("%w: %v", sandbox.ErrUnavailable, err)
	}
	s := &session{b: b, name: name, dir: dir, root: root}
	s.info = sandbox.Info{
		Workspace: insideWorkspace, Home: insideHome, HostPath: root.Name(),
		Shell: filepath.Base(b.shell), Isolated: b.mode.bwrap != "",
	}
	if !s.info.Isolated {
		s.info.Confined, s.info.WhyNot = b.mode.landlock > 0, b.mode.why()
		s.info.Workspace, s.info.Home, s.info.Network = root.Name(), filepath.Join(dir, "home"), true
	}
	return s, nil
}

func (s *session) Info() sandbox.Info {
	info := s.info
	info.Network = info.Network || s.network.on()
	return info
}

// env is the clean environment of a command.
func (s *session) env(id string, extra map[string]string) []string {
	path, temp := systemPath, "/tmp"
	if !s.info.Isolated {
		path, temp = otherPath, filepath.Join(s.dir, "tmp")
	}
	for _, d := range s.b.cfg.ReadOnly {
		if info, err := os.Stat(filepath.Join(d, "bin")); err == nil && info.IsDir() {
			path += ":" + filepath.Join(d, "bin")
		}
	}
	env := []string{
		"PATH=" + path, "HOME=" + s.info.Home, "TMPDIR=" + temp, "USER=agent", "LOGNAME=agent",
		"LANG=C.UTF-8", "TERM=dumb",
	}
	for k, v := range extra {
		env = append(env, k+"="+v)
	}
	slices.Sort(env[7:])
	// The mark comes last: it finds stray processes, so it cannot be overridden.
	if s.info.Isolated {
		return append(env, "COUNTERSIGN_EXEC="+id)
	}
	return append(env, harness.Mark(s.record(id)))
}

// List and Read show the workspace; see [snapshot.Tree].
func (s *session) List(ctx context.Context, each func(snapshot.Entry) error) error {
	return archive.Dir(s.root.Name()).List(ctx, each)
}

func (s *session) Read(ctx context.Context, names []string, each func(string, int64, io.Reader) error) error {
	return archive.Dir(s.root.Name()).Read(ctx, names, each)
}

// Release ends running execs. An idle local sandbox costs only its disk.
func (s *session) Release(ctx context.Context) error {
	s.closing.Lock()
	defer s.closing.Unlock()
	s.endSpares()
	if err := s.endAll(ctx, sandbox.SignalStop); err != nil {
		return fmt.Errorf("releasing the sandbox: %w", err)
	}
	s.network.stop()
	s.forget()
	s.b.groups.close(s.name)
	return nil
}

// Destroy removes the sandbox and leaves word that it was there.
func (s *session) Destroy(ctx context.Context) error { return s.remove(ctx, true) }

func (s *session) remove(ctx context.Context, leaveWord bool) error {
	s.closing.Lock()
	defer s.closing.Unlock()
	s.endSpares()
	if err := s.endAll(ctx, sandbox.SignalKill); err != nil {
		return fmt.Errorf("destroying the sandbox: %w", err)
	}
	s.network.stop()
	s.forget()
	s.b.groups.close(s.name)
	if leaveWord {
		if err := os.WriteFile(s.dir+goneSuffix, nil, 0o600); err != nil {
			return fmt.Errorf("destroying the sandbox: %w", err)
		}
	}
	if err := s.b.discard(s.name); err != nil {
		return fmt.Errorf("destroying the sandbox: %w", err)
	}
	return nil
}

func (s *session) forget() {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.b.sessions[s.name] == s {
		delete(s.b.sessions, s.name)
	}
}

func (s *session) endAll(ctx context.Context, sig sandbox.Signal) error {
	ids, err := s.started()
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	// Also where the harness has died: what it watched may still run.
	var wg sync.WaitGroup
	errs := make([]error, len(ids))
	for i, id := range ids {
		if s.recorded(id) {
			continue
		}
		wg.Go(func() { errs[i] = s.Signal(ctx, id, sig) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *session) thawAll(ctx context.Context) error {
	ids, err := s.Running(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := s.Signal(ctx, id, sandbox.SignalThaw); err != nil {
			return err
		}
	}
	return nil
}

// started returns the IDs of all execs that have a record.
func (s *session) started() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "execs"))
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}
