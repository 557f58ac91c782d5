package docker

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/volume"
)

const (
	// orphanGrace is how old what belongs to no session must be before it is
	// reaped: longer than making a sandbox can take, pull included.
	orphanGrace = time.Hour
	// goneGrace is how long word of a destroyed sandbox is kept: longer than any
	// activity of its session can be late.
	goneGrace = 30 * 24 * time.Hour
)

// Reaped counts what [Backend.Reap] removed.
type Reaped struct {
	Sandboxes, Volumes, Images int
}

// Reap removes what this installation left in the engine: sandboxes that keep
// does not want (it is asked with the session's ID and the generation), halves
// of sandboxes whose making was cut short, word of those destroyed a month ago,
// and prepared images that nothing uses. What is younger than an hour stays. An
// error of keep ends it: nothing is removed on a guess.
func (b *Backend) Reap(ctx context.Context, keep func(ctx context.Context, session string, generation int) (bool, error)) (Reaped, error) {
	r := reaper{b: b, keep: keep, now: b.now(), known: map[string]bool{}}
	for _, step := range []func(context.Context) error{r.containers, r.volumes, r.images} {
		if err := step(ctx); err != nil {
			return r.done, err
		}
	}
	return r.done, nil
}

type reaper struct {
	b     *Backend
	keep  func(ctx context.Context, session string, generation int) (bool, error)
	now   time.Time
	known map[string]bool // sandboxes by name: whether they are kept
	done  Reaped
}

func (r *reaper) mine() filters.Args {
	return filters.NewArgs(filters.Arg("label", labelOwner+"="+r.b.cfg.Owner))
}

func (r *reaper) old(labels map[string]string, grace time.Duration) bool {
	made, err := strconv.ParseInt(labels[labelMade], 10, 64)
	return err == nil && r.now.Sub(time.Unix(made, 0)) > grace
}

// wanted asks once for each sandbox.
func (r *reaper) wanted(ctx context.Context, labels map[string]string) (bool, error) {
	name := labels[labelSandbox]
	if kept, ok := r.known[name]; ok {
		return kept, nil
	}
	generation, err := strconv.Atoi(labels[labelGeneration])
	if err != nil {
		return true, nil // not ours to judge
	}
	kept, err := r.keep(ctx, labels[labelSession], generation)
	if err == nil {
		r.known[name] = kept
	}
	return kept, err
}

func (r *reaper) containers(ctx context.Context) error {
	list, err := r.b.api.ContainerList(ctx, container.ListOptions{All: true, Filters: r.mine()})
	if err != nil {
		return r.b.fail("listing sandboxes", err)
	}
	for _, c := range list {
		helper := c.Labels[labelSandbox] == "" // of prepare; labels of images are inherited
		switch {
		case helper && r.now.Sub(time.Unix(c.Created, 0)) > orphanGrace:
			if err := r.b.removeContainer(ctx, c.ID); err != nil {
				return err
			}
			continue
		case helper || !r.old(c.Labels, orphanGrace) || r.b.busy(c.Labels[labelSandbox]):
			continue // what is being made may look old, where the clock was set meanwhile
		}
		half := len(c.Names) > 0 && strings.Contains(c.Names[0], newMark)
		if !half {
			if kept, err := r.wanted(ctx, c.Labels); err != nil || kept {
				if err != nil {
					return err
				}
				continue
			}
		}
		// Its volumes follow, where nobody else wants them.
		if err := r.b.removeContainer(ctx, c.ID); err != nil {
			return err
		}
		r.done.Sandboxes++
		r.b.cfg.Log.InfoContext(ctx, "Removed an orphaned sandbox", "container", c.Names, "session", c.Labels[labelSession])
	}
	return nil
}

func (r *reaper) volumes(ctx context.Context) error {
	list, err := r.b.api.VolumeList(ctx, volume.ListOptions{Filters: r.mine()})
	if err != nil {
		return r.b.fail("listing volumes", err)
	}
	used, err := r.sets(ctx)
	if err != nil {
		return err
	}
	for _, v := range list.Volumes {
		if v.Labels[labelPart] == partGone {
			if !r.old(v.Labels, goneGrace) {
				continue
			}
		} else if used[v.Labels[labelSet]] || !r.old(v.Labels, orphanGrace) || r.b.busy(v.Labels[labelSandbox]) {
			continue
		} else if kept, err := r.wanted(ctx, v.Labels); err != nil || kept {
			if err != nil {
				return err
			}
			continue // a container for it is made when it is opened
		}
		if err := r.b.api.VolumeRemove(ctx, v.Name, false); err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
			return r.b.fail("removing a volume", err)
		}
		r.done.Volumes++
	}
	return nil
}

// sets are those whose volumes a container uses.
func (r *reaper) sets(ctx context.Context) (map[string]bool, error) {
	list, err := r.b.api.ContainerList(ctx, container.ListOptions{All: true, Filters: r.mine()})
	if err != nil {
		return nil, r.b.fail("listing sandboxes", err)
	}
	used := map[string]bool{}
	for _, c := range list {
		used[c.Labels[labelSet]] = true
	}
	return used, nil
}

func (r *reaper) images(ctx context.Context) error {
	list, err := r.b.api.ImageList(ctx, image.ListOptions{Filters: r.mine()})
	if err != nil {
		return r.b.fail("listing images", err)
	}
	current := map[string]bool{}
	for _, name := range append([]string{r.b.cfg.Image}, r.b.cfg.Images...) {
		if base, err := r.b.api.ImageInspect(ctx, name); err == nil {
			current[base.ID] = true
		}
	}
	for _, i := range list {
		if current[i.Labels[labelImage]] || r.now.Sub(time.Unix(i.Created, 0)) < orphanGrace {
			continue
		}
		// The engine refuses to remove one that a container uses.
		_, err := r.b.api.ImageRemove(ctx, i.ID, image.RemoveOptions{PruneChildren: true})
		switch {
		case err == nil:
			r.done.Images++
		case !errdefs.IsConflict(err) && !errdefs.IsNotFound(err):
			return r.b.fail("removing an image", err)
		}
	}
	return nil
}
