package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/countersign/countersign/cmd/dev/internal/chaos/wallclock"
	"github.com/countersign/countersign/internal/config"
	"github.com/countersign/countersign/internal/config/datadir"
	"github.com/countersign/countersign/internal/sandbox/docker/ownengine"
)

// Programs are the command lines that the parts are started by; each takes the
// flags of the program of its name.
type Programs struct{ Dev, Worker, Bot []string }

const (
	// startWithin bounds the start of a part on a busy machine.
	startWithin = 60 * time.Second
	// startAgainAfter is how long a part that has ended by itself stays down.
	startAgainAfter = 500 * time.Millisecond
	// pollEvery is how often something is looked at that does not tell.
	pollEvery = 150 * time.Millisecond
)

// part is one process of the installation, which is killed and started again.
type part struct {
	name string
	argv []string
	dir  string
	// supervised parts are started again when they end by themselves, as a service
	// manager does.
	supervised bool
	// clocked parts have a wall clock of their own.
	clocked bool

	mu    sync.Mutex
	up    bool // whether it should be
	cmd   *exec.Cmd
	ended chan struct{}
	kills int
	clock *wallclock.Clock // nil where it is the machine's
	ahead time.Duration    // by how much it is
}

func (p *part) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up = true
	return p.startLocked()
}

func (p *part) startLocked() error {
	log, err := os.OpenFile(filepath.Join(p.dir, "logs", p.name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", p.name, err)
	}
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, log, log
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "TMPDIR=" + os.TempDir()}
	// As from a shell: Ctrl-C reaches this program, and it stops the parts.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.launch(cmd); err != nil {
		return errors.Join(fmt.Errorf("starting %s: %w", p.name, err), log.Close())
	}
	ended, clock := make(chan struct{}), p.clock
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		_ = log.Close()
		clock.Close()
		close(ended)
		if p.supervised {
			p.again(cmd)
		}
	}()
	p.cmd, p.ended = cmd, ended
	return nil
}

// again starts a part that has ended by itself.
func (p *part) again(ended *exec.Cmd) {
	time.Sleep(startAgainAfter)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.up && p.cmd == ended {
		_ = p.startLocked() // what does not start is missed by who waits for it
	}
}

// bounce kills the part and starts it again after d, or when ctx ends.
func (p *part) bounce(ctx context.Context, d time.Duration) error {
	p.kill()
	_ = pause(ctx, d) // what is down comes up, whatever else ends
	return p.start()
}

// freeze stops the process for d, or until ctx ends.
func (p *part) freeze(ctx context.Context, d time.Duration) error {
	p.mu.Lock()
	process := p.cmd.Process
	p.mu.Unlock()
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		if p.supervised {
			return nil // it has ended and is started again
		}
		return fmt.Errorf("stopping process %d: %w", process.Pid, err)
	}
	_ = pause(ctx, d) // what is stopped goes on, whatever else ends
	if err := process.Signal(syscall.SIGCONT); err != nil && !p.supervised {
		return fmt.Errorf("letting process %d go on: %w", process.Pid, err)
	}
	return nil
}

// kill is kill -9; it returns when the process is gone. What the process has
// started goes on.
func (p *part) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up = false
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
	p.kills++
}

func (p *part) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}

// gone reports a part that ended by itself.
func (p *part) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// site is the installation: one server, one bot, two workers on two data
// directories, and, where one can be started, a Docker engine that both use.
type site struct {
	dir     string
	data    []string // data directories, the first shared by server, bot and first worker
	server  *part
	bot     *part
	workers []*part
	// links lead from bot and first worker, and from the second worker, to the
	// server.
	links []*link
	// engine is nil where there is none, for the reason in noEngine.
	engine   *engine
	noEngine string
	// noClocks is why workers and bot have the machine's clock.
	noClocks string
	web      web
	temporal,
	namespace string
	blobs string // blob.url
}

func (s *site) parts() []*part {
	all := append([]*part{s.server, s.bot}, s.workers...)
	if s.engine != nil {
		all = append(all, s.engine.part)
	}
	return all
}

// clocked are those that may be on machines of their own, with clocks of their own.
func (s *site) clocked() []*part { return append([]*part{s.bot}, s.workers...) }

// newSite makes directories and brings everything up.
func newSite(ctx context.Context, dir string, p Programs, port int, docker bool) (*site, error) {
	s := &site{dir: dir, data: []string{filepath.Join(dir, "data"), filepath.Join(dir, "data-2")}}
	workspace := filepath.Join(dir, "project")
	for _, d := range []string{filepath.Join(dir, "logs"), workspace} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, fmt.Errorf("making a directory: %w", err)
		}
	}
	// Commands append to the journal; it is there from the start, so that a
	// witness can hold it before the first one.
	for name, text := range map[string]string{journal: "", "README.md": "A project.\n"} {
		if err := os.WriteFile(filepath.Join(workspace, name), []byte(text), 0o644); err != nil {
			return nil, fmt.Errorf("making the workspace: %w", err)
		}
	}
	for _, name := range []string{"link-1", "link-2"} {
		l, err := newLink(name, s.serverAddress)
		if err != nil {
			return s, err
		}
		s.links = append(s.links, l)
	}
	if docker {
		if err := s.startEngine(ctx); err != nil {
			return s, err
		}
	}
	s.server = &part{name: "server", dir: dir, argv: append(slices.Clone(p.Dev),
		"--data-dir", s.data[0], "--workspace", workspace, "--web-listen", "127.0.0.1:"+strconv.Itoa(port),
		"--model", "offline", "--without", "worker,bot", "--behind", s.links[0].address())}
	if s.engine != nil {
		s.server.argv = append(s.server.argv, "--set", "sandbox.docker.host="+s.engine.Host(), "--set", "sandbox.docker.image="+engineImage)
	}
	if err := s.server.start(); err != nil {
		return s, err
	}
	if err := s.awaitServer(ctx); err != nil {
		return s, err
	}
	second, err := s.secondHost()
	if err != nil {
		return s, err
	}
	s.bot = &part{name: "bot", dir: dir, argv: append(slices.Clone(p.Bot), "--data-dir", s.data[0])}
	s.workers = []*part{
		{name: "worker-1", dir: dir, argv: append(slices.Clone(p.Worker), "--data-dir", s.data[0])},
		{name: "worker-2", dir: dir, argv: append(slices.Clone(p.Worker), second...)},
	}
	s.noClocks = wallclock.Cannot()
	for _, p := range s.clocked() {
		p.clocked = s.noClocks == ""
		if err := p.start(); err != nil {
			return s, err
		}
	}
	return s, s.awaitBot(ctx)
}

// startEngine brings a Docker engine up where one can be started.
func (s *site) startEngine(ctx context.Context) error {
	if s.noEngine = ownengine.Cannot(); s.noEngine != "" {
		return nil
	}
	var err error
	s.engine, err = startEngine(ctx, s.dir)
	return err
}

// dev is what the server has published; ok is false while it has not.
func (s *site) dev() (d datadir.Dev, ok bool) {
	data, err := os.ReadFile(filepath.Join(s.data[0], "dev.json"))
	return d, err == nil && json.Unmarshal(data, &d) == nil
}

// serverAddress is the server's own, behind the links.
func (s *site) serverAddress() string {
	d, _ := s.dev()
	return d.TemporalAddress
}

// awaitServer waits until the server has published itself.
func (s *site) awaitServer(ctx context.Context) error {
	return until(ctx, startWithin, "the server is up", func() (bool, error) {
		if s.server.gone() {
			return false, errors.New("the server ended; see logs/server")
		}
		d, ok := s.dev()
		if !ok || d.PID != s.server.pid() {
			return false, nil
		}
		s.web = web{url: d.WebURL, token: d.Token}
		s.temporal, s.namespace = d.TemporalAddress, d.Namespace
		return true, nil
	})
}

// awaitAll waits until all answer.
func (s *site) awaitAll(ctx context.Context) error {
	if err := s.awaitServer(ctx); err != nil {
		return err
	}
	if s.engine != nil {
		if err := s.engine.await(ctx); err != nil {
			return err
		}
	}
	return s.awaitBot(ctx)
}

func (s *site) awaitBot(ctx context.Context) error {
	return until(ctx, startWithin, "the bot answers", func() (bool, error) {
		if s.bot.gone() {
			return false, errors.New("the bot ended; see logs/bot")
		}
		var meta struct{}
		return s.web.call(ctx, "recorder", http.MethodGet, "/meta", nil, &meta) == nil, nil
	})
}

// secondHost are the flags of a worker on the second data directory, with the
// settings of the first.
func (s *site) secondHost() ([]string, error) {
	data, err := os.ReadFile(filepath.Join(s.data[0], "settings.json"))
	if err != nil {
		return nil, fmt.Errorf("reading the server's settings: %w", err)
	}
	snapshot, err := config.ParseSnapshot(data)
	if err != nil {
		return nil, fmt.Errorf("reading the server's settings: %w", err)
	}
	flags := []string{
		"--data-dir", s.data[1],
		"--set", "temporal.address=" + s.links[1].address(), "--set", "temporal.namespace=" + snapshot.Namespace,
	}
	for key, items := range snapshot.Settings {
		if text := strings.Join(items, ","); text != "" && key != "web.listen" {
			flags = append(flags, "--set", key+"="+text)
		}
		if key == "blob.url" {
			s.blobs = strings.Join(items, ",")
		}
	}
	return flags, nil
}

// stop ends all that the run has started.
func (s *site) stop() {
	for _, p := range append([]*part{s.server, s.bot}, s.workers...) {
		if p != nil {
			p.kill()
		}
	}
	for _, l := range s.links {
		l.close()
	}
	s.engine.stop()
	for _, pid := range s.strays() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
}

// strays are processes that work in the run's directory and are no part of it:
// running commands and what watches them.
func (s *site) strays() []int {
	mine := map[int]bool{os.Getpid(): true}
	for _, p := range s.parts() {
		if p != nil && p.cmd != nil {
			mine[p.pid()] = true
		}
	}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is well formed
	var found []int
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil || !strings.Contains(string(data), s.dir+string(filepath.Separator)) {
			continue
		}
		pid, err := strconv.Atoi(strings.Split(f, "/")[2])
		if err == nil && !mine[pid] {
			found = append(found, pid)
		}
	}
	return found
}

// until waits for ok.
func until(ctx context.Context, within time.Duration, what string, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		if done, err := ok(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, ctx.Err())
		case <-time.After(pollEvery):
		}
	}
}
