package docker_test

import (
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/volume"
	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/docker"
)

// What a worker that was killed had half made goes with the next worker's start;
// what is whole, and what this one is making, stays.
func TestSweepRemovesWhatDeadWorkersLeftHalfMade(t *testing.T) {
	t.Parallel()
	dead := newRig(t)
	next := rigOn(t, dead.host, func(c *docker.Config) { c.Owner = dead.owner })
	_, err := dead.Open(t.Context(), sandbox.Spec{ID: "half", Generation: 2})
	require.NoError(t, err)
	boxes, err := next.Boxes(t.Context())
	require.NoError(t, err)
	require.Equal(t, []docker.Box{{ID: "half", Generation: 2}}, boxes)
	require.NoError(t, next.Sweep(t.Context()))
	require.Len(t, dead.volumes(t), 3, "it is whole")

	c := dead.container(t)
	api := newClient(t, dead.host)
	require.NoError(t, api.ContainerRename(t.Context(), c.ID, c.Name+".new-"+c.Config.Labels["countersign.set"]))
	boxes, err = next.Boxes(t.Context())
	require.NoError(t, err)
	require.Empty(t, boxes, "it is not in place")
	require.NoError(t, dead.Sweep(t.Context()))
	require.Len(t, dead.volumes(t), 3, "who makes it may be at it")
	require.NoError(t, next.Sweep(t.Context()))
	require.Empty(t, dead.volumes(t))
	_, err = api.ContainerInspect(t.Context(), c.ID)
	require.Error(t, err)
}

// A removal that was cut short between the word that the sandbox is destroyed and the
// end of it, as by the engine's end, goes on when it is asked for again.
func TestARemovalCutShortGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.Open(t.Context(), sandbox.Spec{ID: "left", Generation: 2})
	require.NoError(t, err)
	c := r.container(t)
	api := newClient(t, r.host)
	_, err = api.VolumeCreate(t.Context(), volume.CreateOptions{Name: c.Config.Labels["countersign.sandbox"] + ".gone", Labels: map[string]string{
		"countersign.owner": r.owner, "countersign.sandbox": c.Config.Labels["countersign.sandbox"], "countersign.part": "gone",
	}})
	require.NoError(t, err)
	next := rigOn(t, r.host, func(c *docker.Config) { c.Owner = r.owner })
	_, err = next.Open(t.Context(), sandbox.Spec{ID: "left", Generation: 2, Existing: true})
	require.ErrorIs(t, err, sandbox.ErrGone)
	boxes, err := next.Boxes(t.Context())
	require.NoError(t, err)
	require.Empty(t, boxes)
	list, err := api.ContainerList(t.Context(), container.ListOptions{All: true})
	require.NoError(t, err)
	for _, other := range list {
		require.NotEqual(t, c.ID, other.ID)
	}
	require.Empty(t, r.volumes(t))
}
