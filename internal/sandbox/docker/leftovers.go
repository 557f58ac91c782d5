package docker

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
)

// Box names a sandbox that is in the engine.
type Box struct {
	ID         string
	Generation int
}

// Boxes lists this installation's sandboxes that are whole.
func (b *Backend) Boxes(ctx context.Context) ([]Box, error) {
	list, err := b.own(ctx)
	if err != nil {
		return nil, err
	}
	var all []Box
	for _, c := range list {
		if box, ok := boxOf(c); ok {
			all = append(all, box)
		}
	}
	return all, nil
}

// boxOf is the sandbox that a container is; none where it is a half of one.
func boxOf(c container.Summary) (Box, bool) {
	generation, err := strconv.Atoi(c.Labels[labelGeneration])
	return Box{c.Labels[labelSession], generation}, err == nil && len(c.Names) > 0 && c.Names[0] == "/"+c.Labels[labelSandbox]
}

// Sweep removes what other processes of this installation have left half made, and
// what this one could not remove while the engine was away. It must not run while
// another process makes sandboxes for the same owner. The volumes of a whole sandbox,
// on which a container was being made anew, stay.
func (b *Backend) Sweep(ctx context.Context) error {
	list, err := b.own(ctx)
	if err != nil {
		return err
	}
	for _, c := range list {
		half := len(c.Names) > 0 && strings.Contains(c.Names[0], newMark)
		if maker := c.Labels[labelMaker]; half && maker != "" && maker != b.maker {
			b.discard(ctx, c.Labels[labelSandbox], c.Labels[labelSet])
		} else if maker := c.Labels[labelAnew]; half && maker != "" && maker != b.maker {
			if err := b.removeContainer(ctx, c.ID); err != nil {
				return err
			}
		}
	}
	b.mu.Lock()
	halves := slices.Collect(maps.Keys(b.halves))
	b.mu.Unlock()
	for _, h := range halves {
		b.discard(ctx, h[0], h[1])
	}
	return nil
}

// own are the installation's containers for sandboxes.
func (b *Backend) own(ctx context.Context) ([]container.Summary, error) {
	list, err := b.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("label", labelOwner+"="+b.cfg.Owner), filters.Arg("label", labelSandbox))})
	return list, b.fail("listing sandboxes", err)
}
