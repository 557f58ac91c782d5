package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/harness"
	"github.com/countersign/countersign/internal/sandbox/keeper"
)

const (
	// spareMark begins the name of a record that is no exec's yet.
	spareMark = ".spare-"
	// spareFor is how long a spare waits for a command. It costs some ten processes
	// that sleep; who has thought for longer does not notice a start.
	spareFor = 15 * time.Second
	// maxSpares bounds how many a backend keeps.
	maxSpares = 16
	// spareAfter is when the next one is made while a command still runs.
	spareAfter = 200 * time.Millisecond
	// A session has one, and mostSpares when its commands come sooner after each other
	// than spareSoon: making one takes some 15 ms, and longer on a busy machine.
	spareSoon  = 500 * time.Millisecond
	mostSpares = 2
	// spareEnd is how long the end of a spare may take on a machine under load.
	spareEnd = 10 * time.Second
)

// spare is a namespace that was made ahead for a session's next command: fresh like
// every other, with nothing in it but a shell that waits. It is claimed by the name
// that its record gets, and ends by itself when this process does.
type spare struct {
	dir string
	// argv is what made it: one that would be made otherwise now is not used.
	argv []string
	// claim says, and its end says too, that dir has got a name, or never will.
	claim *os.File
	// told gives a byte when the command begins, and ends when its record is whole.
	told  *os.File
	began chan struct{} // closed when the command begins, and when it never will
	ended chan struct{} // closed when nothing more comes of it
	timer *time.Timer
}

// spares are a session's: those that wait, the oldest first, and one that is being
// made.
type spares struct {
	mu     sync.Mutex
	ready  []*spare
	making bool
	// wanted is how many since somebody has asked for them, closed when the session
	// was given up.
	wanted int
	closed bool
	taken  time.Time // when one was last asked for
	makers sync.WaitGroup
}

// Prepare makes a namespace ready for the next command, in the background, so that
// its start costs that command nothing, and from then on one after each.
func (s *session) Prepare() {
	if !s.info.Isolated {
		return
	}
	s.spares.mu.Lock()
	s.spares.wanted = max(s.spares.wanted, 1)
	s.spares.mu.Unlock()
	s.prepare()
}

func (s *session) prepare() {
	if !s.spares.begin(s.b) {
		return
	}
	go func() {
		defer s.spares.makers.Done()
		sp, err := s.makeSpare(sandbox.DefaultOutputBytes)
		if err != nil {
			s.b.cfg.Log.Debug("No namespace was made ahead", "error", err)
		}
		if !s.spares.made(sp) {
			s.b.spares.Add(-1)
			sp.end()
			return
		}
		s.prepare()
	}()
}

// begin says whether one is to be made, and counts it.
func (p *spares) begin(b *Backend) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ready) >= p.wanted || p.making || p.closed {
		return false
	}
	if b.spares.Add(1) > maxSpares {
		b.spares.Add(-1)
		return false
	}
	p.making = true
	p.makers.Add(1)
	return true
}

// made keeps a spare, if there is one and it is still wanted.
func (p *spares) made(sp *spare) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.making = false
	if sp == nil || p.closed {
		return false
	}
	p.ready = append(p.ready, sp)
	return true
}

// takeSpare gives the spare that waits for longest, if any.
func (s *session) takeSpare() *spare {
	p := &s.spares
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wanted > 0 && time.Since(p.taken) < spareSoon {
		p.wanted = mostSpares
	}
	p.taken = time.Now()
	if len(p.ready) == 0 {
		return nil
	}
	sp := p.ready[0]
	p.ready = p.ready[1:]
	sp.timer.Stop()
	s.b.spares.Add(-1)
	return sp
}

// drop ends a spare that nobody has taken within its time.
func (s *session) drop(sp *spare) {
	p := &s.spares
	p.mu.Lock()
	i := slices.Index(p.ready, sp)
	if i >= 0 {
		p.ready = slices.Delete(p.ready, i, i+1)
		p.wanted = 1
		s.b.spares.Add(-1)
	}
	p.mu.Unlock()
	if i >= 0 {
		sp.end()
	}
}

// endSpares ends what waits, and makes sure that nothing waits any more.
func (s *session) endSpares() {
	s.spares.mu.Lock()
	left := s.spares.ready
	s.spares.ready, s.spares.closed = nil, true
	s.spares.mu.Unlock()
	s.b.spares.Add(-int32(len(left)))
	for _, sp := range left {
		sp.timer.Stop()
		sp.end()
	}
	s.spares.makers.Wait()
}

// end lets the harness go and waits for it. A nil spare has ended.
func (p *spare) end() {
	if p == nil {
		return
	}
	_ = p.claim.Close()
	select {
	case <-p.ended:
	case <-time.After(spareEnd):
	}
	_ = p.told.Close()
}

// makeSpare makes one whose streams may hold so many bytes each.
func (s *session) makeSpare(limit int64) (*spare, error) {
	sp := &spare{
		dir:   filepath.Join(s.dir, "execs", spareMark+random()),
		began: make(chan struct{}), ended: make(chan struct{}), argv: s.spareArgv(),
	}
	for _, dir := range []string{sp.dir, filepath.Join(sp.dir, "run")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, s.storeError("making a record ahead", err)
		}
	}
	for _, name := range []string{"stdout", "stderr", "run/script"} {
		if err := os.WriteFile(filepath.Join(sp.dir, name), nil, 0o600); err != nil {
			return nil, s.storeError("making a record ahead", err)
		}
	}
	path, args := keeper.Command(sp.dir, s.b.harness, limit, sp.argv)
	cmd := detached(path, args)
	_, bounds, err := s.bounds()
	if err != nil {
		return nil, err
	}
	cmd.Env = append(append(cmd.Env, keeper.Environ()...), bounds...)
	if err := sp.start(cmd); err != nil {
		return nil, err
	}
	sp.timer = time.AfterFunc(spareFor, func() { s.drop(sp) })
	return sp, nil
}

// start starts the keeper on its pipes.
func (p *spare) start(cmd *exec.Cmd) error {
	claimed, claim, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe: %w", err)
	}
	defer claimed.Close()
	told, tells, err := os.Pipe()
	if err != nil {
		return errors.Join(fmt.Errorf("making a pipe: %w", err), claim.Close())
	}
	defer tells.Close()
	cmd.ExtraFiles = []*os.File{claimed, tells}
	if err := cmd.Start(); err != nil {
		return errors.Join(fmt.Errorf("starting the exec's keeper: %w: %w", sandbox.ErrUnavailable, err), claim.Close(), told.Close())
	}
	p.claim, p.told = claim, told
	go p.hear()
	go func() { _ = cmd.Wait() }()
	return nil
}

// hear hears what the keeper tells: it may take longer to end than its record.
func (p *spare) hear() {
	defer close(p.ended)
	n, _ := p.told.Read(make([]byte, 1))
	close(p.began)
	for n > 0 {
		n, _ = p.told.Read(make([]byte, 1))
	}
	_ = p.told.Close()
}

// spareArgv is what a spare's harness runs, until it is told more.
func (s *session) spareArgv() []string {
	argv := s.b.bwrapArgs(s.dir, s.root.Name(), insideWorkspace, false, s.networkBinds()...)
	argv = append(argv, s.networkBegin()...)
	return append(argv, "/bin/sh", "-c", s.b.ulimits()+harness.Await)
}

// startSpare runs the exec in the namespace that was made ahead. It is false where
// there is none that will do, or somebody else was faster.
func (s *session) startSpare(ctx context.Context, spec sandbox.ExecSpec, j job) (bool, error) {
	if spec.Stdin || spec.Limits.OutputBytes != sandbox.DefaultOutputBytes || !s.info.Isolated {
		return false, nil
	}
	script, ok := harness.Order{Cwd: j.Cwd, Env: s.env(spec.ID, s.networkEnv(spec.Env)), Argv: s.shellArgv(j.Command)}.Script()
	if !ok {
		return false, nil
	}
	sp := s.takeSpare()
	if sp == nil {
		return false, nil
	}
	select {
	case <-sp.ended:
		return false, nil
	default:
	}
	if !slices.Equal(sp.argv, s.spareArgv()) || s.claim(sp, spec, j, script) != nil {
		go sp.end()
		return false, nil
	}
	return true, s.awaitBegin(ctx, sp, spec.ID)
}

// claim gives the spare's record what it is to run and then, at once and for good,
// the exec's name. From then on it runs, whoever dies.
func (s *session) claim(sp *spare, spec sandbox.ExecSpec, j job, script string) error {
	data, err := j.encode()
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"job.json": data, "run/script": []byte(script), "run/timeout": []byte(harness.Seconds(spec.Limits.Timeout) + "\n"),
	} {
		if err := os.WriteFile(filepath.Join(sp.dir, name), content, 0o600); err != nil {
			return err
		}
	}
	now := time.Now()
	if err := os.Chtimes(filepath.Join(sp.dir, "run", "self"), now, now); err != nil {
		return err // the harness has not come so far
	}
	record := s.record(spec.ID)
	if err := os.Rename(sp.dir, record); err != nil {
		return err
	}
	_, _ = sp.claim.WriteString("\n")
	_ = sp.claim.Close()
	s.follow(spec.ID, sp.ended)
	return nil
}

// awaitBegin returns once the command's shell begins, or never will. What it reads
// holds the command's environment, and keeps no name.
func (s *session) awaitBegin(ctx context.Context, p *spare, id string) error {
	defer os.Remove(filepath.Join(s.record(id), "run", "script"))
	select {
	case <-p.began: // or its record says why it did not
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sweepSpares removes what a machine that went down has left of records that were no
// exec's; where only the worker was killed, their harnesses do.
func (s *session) sweepSpares() {
	entries, _ := os.ReadDir(filepath.Join(s.dir, "execs")) // what is left does no harm
	for _, e := range entries {
		dir := filepath.Join(s.dir, "execs", e.Name())
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), spareMark) && !s.alive(dir, info.ModTime()) {
			_ = removeAll(dir)
		}
	}
}
