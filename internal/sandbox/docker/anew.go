package docker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/workflows"
)

// errNoStart says that the engine answers, and cannot start a container. It may be for
// good: an engine that was killed in the middle of a start knows that the container does
// not run, while containerd has a task for it ("id already in use"), which no call to the
// engine ends.
var errNoStart = errors.New("the engine cannot start the container")

// anewGrace is how old a container must be that another process makes anew until that
// process counts as dead: longer than making it takes.
const anewGrace = 5 * time.Minute

// renew puts a new container in the place of s, which did not start because of failed.
// It is of the same image and on the same volumes, and s goes only when the new one runs:
// where that does not start either, something else is wrong and all stays as it was.
func (b *Backend) renew(ctx context.Context, s *session, failed error) (*session, error) {
	old, err := b.api.ContainerInspect(ctx, s.id)
	if err != nil {
		return nil, s.gone("looking at the sandbox", err)
	}
	img := old.Image
	if _, err := b.api.ImageInspect(ctx, img); errdefs.IsNotFound(err) { // it was removed by force
		if img, err = b.image(ctx, s.spec); err != nil {
			return nil, errors.Join(failed, err)
		}
	}
	next, err := b.anew(ctx, img, s.name, old.Config.Labels[labelSet], s.spec, func() error { return s.clear(ctx) })
	switch {
	case next != nil:
		b.cfg.Log.WarnContext(ctx, "The Docker engine could not start a sandbox's container; it has been made anew on its volumes. "+
			"What containerd may have left of the old one runs no command", "container", s.name, "id", s.id, "error", failed)
		return next, nil
	case err != nil && !errors.Is(err, errNoStart):
		return nil, err
	}
	return nil, failed
}

// clear removes a container that does not run. One that does after all is not touched.
func (s *session) clear(ctx context.Context) error {
	err := s.b.api.ContainerRemove(ctx, s.id, container.RemoveOptions{})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return s.b.fail("removing the sandbox's container, which does not start", err)
}

// anew makes a container on the volumes of a set, and puts it in its place when vacate has
// made that free. It returns nil for volumes of a container that never had its name.
func (b *Backend) anew(ctx context.Context, img, name, set string, spec sandbox.Spec, vacate func() error) (*session, error) {
	labels := b.labels(name, spec)
	labels[labelSet] = set
	labels[labelAnew] = b.maker
	labels[labelMade] = strconv.FormatInt(time.Now().Unix(), 10)
	s, err := b.createContainer(ctx, img, name, set, labels, spec)
	if errdefs.IsConflict(err) {
		var half bool
		if half, err = b.clearHalf(ctx, name+newMark+set); half || err != nil {
			return nil, err
		}
		s, err = b.createContainer(ctx, img, name, set, labels, spec)
	}
	if err != nil {
		return nil, err
	}
	named, err := s.takeOver(ctx, vacate)
	if named && err == nil {
		return s, nil
	}
	s.hangUp()
	if rerr := b.removeContainer(context.WithoutCancel(ctx), s.id); err == nil {
		err = rerr
	}
	return nil, err
}

// takeOver starts a container on volumes that were there and gives it its name. It tells
// whether they are those of a sandbox that was whole.
func (s *session) takeOver(ctx context.Context, vacate func() error) (named bool, err error) {
	if err = s.start(ctx); err == nil {
		err = s.greet(ctx, false)
	}
	if err == nil {
		named, err = s.hello(ctx, false)
	}
	if !named || err != nil {
		return named, err
	}
	if err = s.alone(ctx); err == nil {
		err = vacate()
	}
	if err == nil {
		err = s.b.place(ctx, s)
	}
	return true, err
}

// alone makes sure that no command runs on the volumes, in a container that the engine
// does not know of. Such a one ends by itself, by its time limit at the latest, and how it
// ended is on record then.
func (s *session) alone(ctx context.Context) error {
	const doing = "starting the sandbox"
	out, err := s.ask(ctx, doing, "strays")
	if ids := strings.Fields(string(out)); err == nil && len(ids) > 0 {
		return sandbox.Unavailable("A command still runs in a container that the Docker engine has lost track of, and nothing is started beside it. "+
			"Wait until it ends, restart the engine's machine"+workflows.OrMove+".",
			fmt.Errorf("%s: commands run in another container on its volumes: %s", doing, strings.Join(ids, ", ")))
	}
	return err
}

// clearHalf removes a container that stands in the way of one that is made anew, if it
// was itself being made so and its maker does not go on. It returns true for one that
// is the half of a sandbox which is being made.
func (b *Backend) clearHalf(ctx context.Context, name string) (half bool, err error) {
	c, err := b.api.ContainerInspect(ctx, name)
	switch {
	case errdefs.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, b.fail("looking for the sandbox", err)
	case c.Config.Labels[labelAnew] == "":
		return true, nil
	}
	made, err := strconv.ParseInt(c.Config.Labels[labelMade], 10, 64)
	// This process makes one at a time.
	if c.Config.Labels[labelAnew] != b.maker && err == nil && b.now().Sub(time.Unix(made, 0)) < anewGrace {
		return false, sandbox.Unavailable("Another worker makes the sandbox's container anew.",
			fmt.Errorf("making a sandbox: the container %s is there", name))
	}
	return false, b.removeContainer(ctx, c.ID)
}
