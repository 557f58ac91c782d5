package docker_test

import (
	"testing"

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
