package workerapp

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/local"
	"github.com/countersign/countersign/internal/workflows"
)

// saying are sessions by workflow ID; one that is not there does not answer.
type saying map[string]workflows.TurnState

func (s saying) TurnState(_ context.Context, id string) (workflows.TurnState, error) {
	if st, ok := s[id]; ok {
		return st, nil
	}
	return workflows.TurnState{}, errors.New("no answer")
}

// A sandbox goes when its session says that it has another one or none, and
// stays wherever that is not certain.
func TestSandboxesThatSessionsHaveLeft(t *testing.T) {
	t.Parallel()
	here, err := local.New(t.Context(), local.Config{DataDir: t.TempDir(), NoIsolation: true})
	require.NoError(t, err)
	on := func(host string, generation int) workflows.TurnState {
		return workflows.TurnState{Sandbox: &workflows.SandboxRef{Backend: local.Name, Host: host, Generation: generation}}
	}
	destroyed := on("here", 1)
	destroyed.Header.Liveness = workflows.LivenessDestroyed
	docker := on("here", 1)
	docker.Sandbox.Backend = "docker"
	cases := map[string]struct {
		says  workflows.TurnState
		stays bool
	}{
		"agent/web/main/mine":      {on("here", 1), true},
		"agent/web/main/opening":   {workflows.TurnState{}, true},
		"agent/web/main/moving":    {on("there", 0), true},
		"agent/web/main/elsewhere": {on("there", 1), false},
		"agent/web/main/replaced":  {on("here", 2), false},
		"agent/web/main/destroyed": {destroyed, false},
		"agent/web/main/docker":    {docker, false},
	}
	says := saying{}
	for id, c := range cases {
		says[id] = c.says
		_, err := here.Open(t.Context(), sandbox.Spec{ID: id, Generation: 1})
		require.NoError(t, err)
	}
	for _, id := range []string{"agent/web/main/silent", "not a session"} {
		_, err := here.Open(t.Context(), sandbox.Spec{ID: id, Generation: 1})
		require.NoError(t, err)
	}
	f := fencer{log: slog.New(slog.DiscardHandler), host: "here", here: here, sessions: says, settled: map[local.Box]bool{}}
	require.NoError(t, f.look(t.Context()))
	boxes, err := here.Boxes()
	require.NoError(t, err)
	is := func(id string) bool { return slices.ContainsFunc(boxes, func(b local.Box) bool { return b.ID == id }) }
	for id, c := range cases {
		require.Equal(t, c.stays, is(id), id)
	}
	require.True(t, is("agent/web/main/silent"))
	require.True(t, is("not a session"))
}
