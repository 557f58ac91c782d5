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
	f := fencer{log: slog.New(slog.DiscardHandler), host: "here", yard: localYard{here}, sessions: says, settled: map[box]bool{}}
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

// A sandbox that was its session's is asked about again in its turn: the word to remove
// it did not arrive, as the engine was away.
func TestSandboxesThatSessionsLeaveLater(t *testing.T) {
	t.Parallel()
	says := saying{}
	y := &yardOf{name: "docker"}
	on := func(generation int) workflows.TurnState {
		return workflows.TurnState{Sandbox: &workflows.SandboxRef{Backend: "docker", Host: "here", Generation: generation}}
	}
	for _, id := range []string{"agent/web/main/1", "agent/web/main/2", "agent/web/main/3", "agent/web/main/4", "agent/web/main/5"} {
		y.has = append(y.has, box{id, 2})
		says[id] = on(2)
	}
	f := fencer{log: slog.New(slog.DiscardHandler), host: "here", yard: y, sessions: says, settled: map[box]bool{}}
	for range 4 {
		require.NoError(t, f.look(t.Context()))
	}
	require.Empty(t, y.gone)
	says["agent/web/main/4"] = on(3)
	for range 3 { // five in turns of two
		require.NoError(t, f.look(t.Context()))
	}
	require.Equal(t, []box{{"agent/web/main/4", 2}}, y.gone[:1])
	require.Len(t, f.turns, 4, "each once")
}

// yardOf is a yard of another backend that opens nothing that stays.
type yardOf struct {
	name string
	has  []box
	gone []box
	away bool // it does not answer
}

func (y *yardOf) Name() string { return y.name }
func (y *yardOf) boxes(context.Context) ([]box, error) {
	if y.away {
		return nil, errors.New("away")
	}
	return y.has, nil
}
func (y *yardOf) Open(_ context.Context, spec sandbox.Spec) (sandbox.Session, error) {
	y.gone = append(y.gone, box{spec.ID, spec.Generation})
	return nil, sandbox.ErrGone
}

// Docker's too: the retry of a killed try went to another host, which has one of
// the same generation.
func TestDockerSandboxesThatSessionsHaveLeft(t *testing.T) {
	t.Parallel()
	const id = "agent/web/main/moved"
	on := func(host string) workflows.TurnState {
		return workflows.TurnState{Sandbox: &workflows.SandboxRef{Backend: "docker", Host: host, Generation: 2}}
	}
	for host, leaves := range map[string]bool{"here": false, "there": true} {
		y := &yardOf{name: "docker", has: []box{{id, 2}}}
		f := fencer{log: slog.New(slog.DiscardHandler), host: "here", yard: y, sessions: saying{id: on(host)}, settled: map[box]bool{}}
		require.NoError(t, f.look(t.Context()))
		require.Equal(t, leaves, len(y.gone) == 1, host)
	}
}

// A session that was destroyed while its engine was away does not wait for it: its
// sandbox goes when the engine answers again, not an hour later.
func TestSandboxesThatSessionsHaveLeftMeanwhile(t *testing.T) {
	t.Parallel()
	const id = "agent/web/main/destroyed"
	st := workflows.TurnState{Sandbox: &workflows.SandboxRef{Backend: "docker", Host: "here", Generation: 1}}
	says := saying{id: st}
	y := &yardOf{name: "docker", has: []box{{id, 1}}}
	f := fencer{log: slog.New(slog.DiscardHandler), host: "here", yard: y, sessions: says}
	require.NoError(t, f.round(t.Context()))
	y.away = true
	st.Header.Liveness = workflows.LivenessDestroyed
	says[id] = st
	require.Error(t, f.round(t.Context()))
	require.Empty(t, y.gone)
	y.away = false
	require.NoError(t, f.round(t.Context()))
	require.Equal(t, []box{{id, 1}}, y.gone)
}
