package local

import (
	"context"
	"os"
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
	// spareFor is how long a spare waits for a command. It costs a keeper,
	// bubblewrap's two processes and a shell, which sleep; who has thought for longer
	// does not notice a start.
	spareFor = 15 * time.Second
	// maxSpares bounds how many a backend keeps, with keepers that serve none.
	maxSpares = 16
	// spareAfter is when the next one is made while a command still runs.
	spareAfter = 200 * time.Millisecond
	// A session has one, and mostSpares when its commands come sooner after each other
	// than spareSoon: making one takes some 10 ms, and longer on a busy machine.
	spareSoon  = 500 * time.Millisecond
	mostSpares = 2
)

// spare is a namespace that was made ahead for a session's next command: fresh like
// every other, with nothing in it but a shell that waits. It is claimed by the name
// that its record gets, and ends by itself when this process does.
type spare struct {
	dir string
	// argv is what made it: one that would be made otherwise now is not used.
	argv   []string
	keeper *keeping
	began  chan struct{} // closed when the command begins, and when it never will
	ended  chan struct{} // closed when nothing more comes of it
	timer  *time.Timer
}

// spares are a session's: those that wait, the oldest first, one that is being made,
// and keepers that serve none.
type spares struct {
	mu     sync.Mutex
	ready  []*spare
	idle   []*keeping
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
	k, ok := s.spares.begin(s.b)
	if !ok {
		return
	}
	go func() {
		defer s.spares.makers.Done()
		sp, err := s.makeSpare(k, sandbox.DefaultOutputBytes)
		if err != nil {
			s.b.cfg.Log.Debug("No namespace was made ahead", "error", err)
			k.giveUp()
		}
		if !s.spares.made(sp) {
			s.b.spares.Add(-1)
			sp.end()
			return
		}
		s.prepare()
	}()
}

// begin says whether one is to be made, and counts it. The keeper is one that served
// another, if any waits.
func (p *spares) begin(b *Backend) (*keeping, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ready) >= p.wanted || p.making || p.closed {
		return nil, false
	}
	k := p.pop()
	if k == nil && !b.countSpare() {
		return nil, false
	}
	p.making = true
	p.makers.Add(1)
	return k, true
}

// countSpare counts one more, unless there are too many.
func (b *Backend) countSpare() bool {
	if b.spares.Add(1) <= maxSpares {
		return true
	}
	b.spares.Add(-1)
	return false
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
	left, idle := s.spares.ready, s.spares.idle
	s.spares.ready, s.spares.idle, s.spares.closed = nil, nil, true
	s.spares.mu.Unlock()
	s.b.spares.Add(-int32(len(left) + len(idle)))
	for _, sp := range left {
		sp.timer.Stop()
		sp.end()
	}
	for _, k := range idle {
		k.timer.Stop()
		k.end()
	}
	s.spares.makers.Wait()
}

// end ends a spare that was not claimed, with its keeper. A nil one has ended.
func (p *spare) end() {
	if p != nil {
		p.keeper.end()
	}
}

// over says that nothing more comes of the spare.
func (p *spare) over() {
	p.begins()
	close(p.ended)
}

// begins says that its command begins, or never will.
func (p *spare) begins() {
	select {
	case <-p.began:
	default:
		close(p.began)
	}
}

// discard removes a record that nobody keeps any more, unless it is an exec's.
func (p *spare) discard() {
	gone := p.dir + goneSuffix
	_ = os.Rename(p.dir, gone) // whoever gives it a name at this moment succeeds, or does not
	_ = removeAll(gone)
}

// makeSpare makes one whose streams may hold so many bytes each, for this keeper or,
// where it is nil or has ended, for another.
func (s *session) makeSpare(k *keeping, limit int64) (*spare, error) {
	sp := &spare{
		dir:   filepath.Join(s.dir, "execs", spareMark+random()),
		began: make(chan struct{}), ended: make(chan struct{}), argv: s.spareArgv(),
	}
	_, bounds, err := s.bounds()
	if err == nil {
		err = s.makeRecord(sp.dir)
	}
	if err == nil {
		order := keeper.Order{Record: sp.dir, Script: s.b.harness, Limit: limit, Bounds: bounds, Argv: sp.argv}
		err = s.serve(k, sp, order)
	}
	if err != nil {
		sp.discard()
		return nil, err
	}
	sp.timer = time.AfterFunc(spareFor, func() { s.drop(sp) })
	return sp, nil
}

// makeRecord makes the record of a spare.
func (s *session) makeRecord(at string) error {
	for _, dir := range []string{at, filepath.Join(at, "run")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return s.storeError("making a record ahead", err)
		}
	}
	for _, name := range []string{"stdout", "stderr", "run/script"} {
		if err := os.WriteFile(filepath.Join(at, name), nil, 0o600); err != nil {
			return s.storeError("making a record ahead", err)
		}
	}
	return nil
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
	sp.keeper.claim(sp)
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
