package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"

	"github.com/countersign/countersign/internal/sandbox"
)

// What commands see.
const (
	insideWorkspace = "/workspace"
	insideHome      = "/home/agent"
	insideRoot      = "/countersign" // records; closed to commands
	insideUser      = 1000
)

// session is one open sandbox. What it holds itself is a connection and what it
// learnt when it was opened; all else is in the container.
type session struct {
	b        *Backend
	name, id string // of the container
	image    string // by the name that people know
	spec     sandbox.Spec
	shell    string
	tool     string
	imageEnv []string
	// proven: the image has what a sandbox needs. What fails as if it lacked that is then
	// short of processes or memory.
	proven atomic.Bool

	line  chan struct{}             // holds a token; who has it may make a request
	stuck atomic.Pointer[time.Time] // when a request was not answered in time
	agent atomic.Pointer[agent]
	// shut are the modes of what the newest listing found closed to its owner.
	shut atomic.Pointer[map[string]uint32]

	network network
	usage   usage

	closing sync.Mutex
	closed  atomic.Bool // released or destroyed: the container is not started again
	// down: the engine could not start the container the last time. The next Open may put
	// another in its place.
	down atomic.Bool
}

var _ sandbox.Session = (*session)(nil)

func (b *Backend) newSession(name, id string, spec sandbox.Spec) *session {
	spec.Seed, spec.Progress = sandbox.Seed{}, nil
	s := &session{b: b, name: name, id: id, image: b.imageName(spec), spec: spec, line: make(chan struct{}, 1)}
	s.line <- struct{}{}
	return s
}

// Info returns what the sandbox is like.
func (s *session) Info() sandbox.Info {
	return sandbox.Info{Workspace: insideWorkspace, Home: insideHome, Shell: s.shell, Isolated: true, Network: s.network.on()}
}

// greet learns what the container is like. With named it notes that the
// container has its name, so that its volumes may be adopted from now on.
func (s *session) greet(ctx context.Context, named bool) error {
	_, err := s.hello(ctx, named)
	if err != nil {
		return err
	}
	c, err := s.b.api.ContainerInspect(ctx, s.id)
	if err != nil {
		return s.gone("looking at the sandbox", err)
	}
	s.imageEnv = imageEnv(c.Config.Env)
	return nil
}

// hello tells whether the volumes belong to a container that had its name.
func (s *session) hello(ctx context.Context, named bool) (bool, error) {
	arg := ""
	if named {
		arg = "named"
	}
	out, err := s.ask(ctx, "starting the sandbox", "hello", arg)
	if err != nil {
		return false, err
	}
	var was string
	if _, err := fmt.Sscan(string(out), &s.tool, &s.shell, &was); err != nil {
		return false, fmt.Errorf("starting the sandbox: it answers %q", out)
	}
	if s.tool == "none" {
		return false, s.lacks("none of setpriv, su-exec, gosu and su, and commands must not run as root")
	}
	s.proven.Store(true)
	return was == "yes", nil
}

// lacks is for an image that seems to have not what a sandbox needs.
func (s *session) lacks(what string) error {
	if s.proven.Load() {
		return noRoom("reaching the sandbox", "nothing more can be started in it")
	}
	return unusable(s.image, "it has "+what)
}

// ask makes a request that may be repeated, and returns an error for any exit
// code but 0.
func (s *session) ask(ctx context.Context, doing, verb string, args ...string) ([]byte, error) {
	data, code, err := s.call(ctx, doing, verb, args...)
	if err == nil && code != 0 {
		err = badAnswer(doing, code)
	}
	return data, err
}

// badAnswer is for an exit code that a request does not have unless the container
// is out of processes, memory or disk.
func badAnswer(doing string, code int) error {
	return noRoom(doing, fmt.Sprintf("it has no room left to answer (exit code %d)", code))
}

// noRoom is for a sandbox that cannot do what it always can.
func noRoom(doing, why string) error {
	return sandbox.Unavailable("The Docker sandbox has no room left: the engine's disk is full, or the sandbox is out of processes or memory. "+
		"Free some space on the engine, or stop what runs in the sandbox.", fmt.Errorf("%s: %s", doing, why))
}

const (
	// answerLimit bounds one answer, beginLimit that to a start, for which the
	// container itself waits up to 10 s, walkLimit one for which files are walked or
	// read, and abandonLimit one that nobody waits for any more: an agent that is cut
	// off in the middle of an answer is lost, and a new one takes as long as a hundred
	// answers.
	answerLimit  = 10 * time.Second
	beginLimit   = 40 * time.Second
	walkLimit    = 5 * time.Minute
	abandonLimit = 5 * time.Second
	// stuckFor is how long a container that did not answer twice is not asked again:
	// whoever tries again meanwhile does not wait for each attempt's end.
	stuckFor = 15 * time.Second
)

// limitOf bounds the answer to a request.
func limitOf(verb string) time.Duration {
	switch verb {
	case "begin":
		return beginLimit
	case "entries", "listing", "names", "modes", "digest":
		return walkLimit
	}
	return answerLimit
}

type answer struct {
	data []byte
	code int
	err  error
}

// call makes a request that may be repeated, in a container that is started if
// it must be: an engine that was restarted has stopped it.
func (s *session) call(ctx context.Context, doing, verb string, args ...string) ([]byte, int, error) {
	return s.callInto(ctx, new(bytes.Buffer), doing, verb, args...)
}

// callInto is call with the answer in buf. After an error buf is not the
// caller's any more.
func (s *session) callInto(ctx context.Context, buf *bytes.Buffer, doing, verb string, args ...string) ([]byte, int, error) {
	used, err := s.usage.use(ctx)
	if err != nil {
		return nil, 0, err
	}
	select {
	case <-s.line:
	case <-ctx.Done():
		used()
		return nil, 0, ctx.Err()
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan answer, 1)
	go func() {
		a := s.exchange(work, buf, doing, request(verb, args...), limitOf(verb))
		cancel()
		used()
		s.line <- struct{}{}
		done <- a
	}()
	select {
	case a := <-done:
		return a.data, a.code, a.err
	case <-ctx.Done():
		time.AfterFunc(abandonLimit, cancel)
		return nil, 0, ctx.Err()
	}
}

// exchange makes a request. A container that has just failed to answer one is not
// asked.
func (s *session) exchange(ctx context.Context, buf *bytes.Buffer, doing, text string, limit time.Duration) answer {
	if at := s.stuck.Load(); at != nil && time.Since(*at) < stuckFor {
		return answer{err: s.b.fail(doing, errStuck)}
	}
	a := s.tryExchange(ctx, buf, doing, text, limit)
	if errors.Is(a.err, errStuck) {
		now := time.Now()
		s.stuck.Store(&now)
	}
	return a
}

func (s *session) tryExchange(ctx context.Context, buf *bytes.Buffer, doing, text string, limit time.Duration) answer {
	for tries := 0; ; tries++ {
		a, err := s.connect(ctx, doing)
		if err != nil {
			return answer{err: err}
		}
		data, code, err := s.b.answer(ctx, a, buf, text, limit)
		if err == nil {
			return answer{data: data, code: code}
		}
		if errors.Is(err, errStuck) && tries == 0 {
			continue // a new agent may answer, and a paused container goes on for it
		}
		if ctx.Err() == nil && s.b.mute(ctx, a) && !s.stopped(ctx) {
			return answer{err: s.lacks("no sh")}
		}
		if ctx.Err() != nil || tries == 2 || !errors.Is(err, errAgentLost) {
			return answer{err: s.b.lost(doing, err)}
		}
	}
}

// answer is what an agent answers to a request.
func (b *Backend) answer(ctx context.Context, a *agent, buf *bytes.Buffer, text string, limit time.Duration) ([]byte, int, error) {
	ctx, end := b.api.watch(ctx, limit)
	defer end()
	data, code, err := a.call(ctx, buf, text)
	return data, code, why(ctx, err)
}

func (b *Backend) lost(doing string, err error) error {
	if errors.Is(err, errAgentLost) {
		return fmt.Errorf("%s: %w: %v", doing, sandbox.ErrUnavailable, err)
	}
	return b.fail(doing, err)
}

// connect makes sure of an agent.
func (s *session) connect(ctx context.Context, doing string) (*agent, error) {
	if a := s.agent.Load(); a != nil && !a.lost.Load() {
		return a, nil
	}
	for tries := 0; ; tries++ {
		if s.closed.Load() {
			return nil, s.closedError(ctx, doing)
		}
		if err := s.settle(ctx, doing); err != nil {
			return nil, err
		}
		a, err := s.b.dial(ctx, s.id)
		switch {
		case err == nil:
			s.agent.Store(a)
			return a, nil
		case errors.Is(err, errNoShell):
			return nil, s.lacks("no sh")
		case tries == 3 || !errdefs.IsConflict(err) && !s.stopped(ctx):
			return nil, s.unanswered(doing, err)
		}
		// It is not running, or it is paused.
		if err := s.start(ctx); err != nil {
			return nil, err
		}
	}
}

// stopped tells whether the container does not run; it may have ended just now.
func (s *session) stopped(ctx context.Context) bool {
	c, err := s.b.api.ContainerInspect(ctx, s.id)
	return err == nil && !c.State.Running
}

// unanswered is for an exec that the engine could not start: the container may
// be out of processes or memory.
func (s *session) unanswered(doing string, err error) error {
	if err = s.gone(doing, err); errors.Is(err, sandbox.ErrGone) || errors.Is(err, sandbox.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", sandbox.ErrUnavailable, err)
}

func unusable(image, why string) error {
	return sandbox.Refuse(fmt.Sprintf("The image %s cannot be used: %s.", image, why))
}

func (s *session) closedError(ctx context.Context, doing string) error {
	if _, err := s.b.api.ContainerInspect(ctx, s.id); err != nil {
		return s.gone(doing, err)
	}
	return fmt.Errorf("%s: the sandbox was released", doing)
}

// start brings the container up.
func (s *session) start(ctx context.Context) error {
	c, err := s.b.api.ContainerInspect(ctx, s.id)
	switch {
	case err != nil:
		return s.gone("looking at the sandbox", err)
	case c.State.Paused:
		return s.gone("starting the sandbox", unlessConflict(s.b.api.ContainerUnpause(ctx, s.id)))
	case c.State.Dead:
		err = sandbox.Unavailable("The Docker engine has half removed the sandbox's container.", fmt.Errorf("starting the sandbox: %w", errNoStart))
	case !c.State.Running && c.State.ExitCode == codeNotFound:
		return unusable(s.image, "it has no sleep")
	case !c.State.Running:
		err = s.startError(unlessConflict(s.b.api.ContainerStart(ctx, s.id)))
	}
	s.down.Store(errors.Is(err, errNoStart))
	return err
}

// unlessConflict is the error of a call after which the container is, or is about to be,
// as somebody else has it.
func unlessConflict(err error) error {
	if errdefs.IsConflict(err) {
		return nil
	}
	return err
}

// startError says what people can do about a container that does not start.
func (s *session) startError(err error) error {
	if err != nil && strings.Contains(err.Error(), "docker-init") {
		return sandbox.Refuse("The Docker engine has no docker-init program; install it (Debian's package is called tini).")
	}
	failed := s.gone("starting the sandbox", err)
	if errdefs.IsInternal(err) || errdefs.IsUnknown(err) {
		return fmt.Errorf("%w: %w", errNoStart, failed)
	}
	return failed
}

// gone is [Backend.gone] for this container. Once it did not start, another may have
// taken its place, which is for Open to find out.
func (s *session) gone(doing string, err error) error {
	if errdefs.IsNotFound(err) && s.down.Load() {
		return sandbox.Unavailable("The sandbox's container is made anew.", fmt.Errorf("%s: %w", doing, err))
	}
	return s.b.gone(doing, err)
}

// check tells whether the sandbox is still there.
func (s *session) check(ctx context.Context) error {
	_, err := s.b.api.ContainerInspect(ctx, s.id)
	if err != nil {
		err = s.gone("looking for the sandbox", err)
		if errors.Is(err, sandbox.ErrGone) {
			s.forget()
		}
	}
	return err
}

// hangUp ends the connection into the container; a request that is being
// answered ends with it.
func (s *session) hangUp() {
	s.network.hangUp()
	if a := s.agent.Swap(nil); a != nil {
		a.close()
	}
}

func (s *session) forget() {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.b.sessions[s.name] == s {
		delete(s.b.sessions, s.name)
	}
}

// Release ends running execs and stops the container.
func (s *session) Release(ctx context.Context) error {
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.closed.Load() {
		return nil
	}
	if err := s.endAll(ctx); err != nil && !errors.Is(err, sandbox.ErrUnavailable) {
		return fmt.Errorf("releasing the sandbox: %w", err)
	}
	s.closed.Store(true)
	s.forget()
	s.hangUp()
	return s.halt(ctx)
}

// endAll stops what runs. A container that does not run is left alone.
func (s *session) endAll(ctx context.Context) error {
	c, err := s.b.api.ContainerInspect(ctx, s.id)
	if err != nil {
		return s.gone("looking at the sandbox", err)
	}
	if !c.State.Running {
		return nil
	}
	ids, err := s.Running(ctx)
	if err != nil {
		return err
	}
	errs := make([]error, len(ids))
	var wg sync.WaitGroup
	for i, id := range ids {
		wg.Go(func() { errs[i] = s.Signal(ctx, id, sandbox.SignalStop) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *session) thawAll(ctx context.Context) error {
	ids, err := s.Running(ctx)
	for _, id := range ids {
		if err == nil {
			err = s.Signal(ctx, id, sandbox.SignalThaw)
		}
	}
	return err
}

// Destroy removes the container and its volumes, and leaves word that they were
// there: an empty volume that Reap removes after a month.
func (s *session) Destroy(ctx context.Context) error {
	s.closing.Lock()
	defer s.closing.Unlock()
	s.closed.Store(true)
	s.forget()
	s.hangUp()
	if err := s.b.remember(ctx, s.name); err != nil {
		return err
	}
	s.b.mu.Lock()
	delete(s.b.halting, s.name)
	s.b.mu.Unlock()
	return s.b.remove(ctx, s.name, s.id)
}

// partGone is the part of a volume that says that its sandbox was destroyed.
const partGone = "gone"

func (b *Backend) remember(ctx context.Context, name string) error {
	_, err := b.api.VolumeCreate(ctx, volume.CreateOptions{Name: name + ".gone", Labels: map[string]string{
		labelOwner: b.cfg.Owner, labelSandbox: name, labelPart: partGone, labelMade: strconv.FormatInt(time.Now().Unix(), 10),
	}})
	return b.fail("destroying the sandbox", err)
}

func (b *Backend) checkGone(ctx context.Context, name string) error {
	_, err := b.api.VolumeInspect(ctx, name+".gone")
	switch {
	case err == nil:
		return fmt.Errorf("%w: it was destroyed", sandbox.ErrGone)
	case errdefs.IsNotFound(err):
		return nil
	}
	return b.fail("looking for the sandbox", err)
}

// remove removes a container, then all volumes of the sandbox called name.
func (b *Backend) remove(ctx context.Context, name, id string) error {
	if err := b.removeContainer(ctx, id); err != nil {
		return err
	}
	vols, err := b.api.VolumeList(ctx, volume.ListOptions{Filters: filters.NewArgs(filters.Arg("label", labelSandbox+"="+name))})
	if err != nil {
		return b.fail("removing the sandbox's volumes", err)
	}
	for _, v := range vols.Volumes {
		if v.Labels[labelPart] == partGone {
			continue
		}
		if err := b.api.VolumeRemove(ctx, v.Name, true); err != nil && !errdefs.IsNotFound(err) {
			return b.fail("removing the sandbox's volumes", err)
		}
	}
	return nil
}

// removeContainer returns when the container is not there any more, whoever
// removes it.
func (b *Backend) removeContainer(ctx context.Context, id string) error {
	wait := 10 * time.Millisecond
	for {
		err := b.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
		if err == nil || errdefs.IsNotFound(err) {
			return nil
		}
		if !errdefs.IsConflict(err) {
			return b.fail("removing the sandbox's container", err)
		}
		select {
		case <-ctx.Done():
			return b.fail("removing the sandbox's container", ctx.Err())
		case <-time.After(wait):
			wait = min(2*wait, time.Second)
		}
	}
}

// ownEnv are variables that are the sandbox's affair, not the image's.
var ownEnv = [...]string{"HOME", "TMPDIR", "USER", "LOGNAME", "TERM", "HOSTNAME", "PWD", "COUNTERSIGN_EXEC"}

// imageEnv is what of the image's environment commands see.
func imageEnv(env []string) []string {
	out := []string{}
	for _, kv := range env {
		k, _, _ := strings.Cut(kv, "=")
		own := false
		for _, name := range ownEnv {
			own = own || k == name
		}
		if !own {
			out = append(out, kv)
		}
	}
	return out
}
