package workerapp

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/docker"
	"github.com/countersign/countersign/internal/sandbox/local"
	"github.com/countersign/countersign/internal/workflows"
)

// talker is a session as a fencer meets it.
type talker struct {
	st workflows.TurnState
	// events is how much has happened in it.
	events string
	// silent is one that does not answer, closed one that runs no more.
	silent, closed bool
}

// saying are sessions by workflow ID, and Temporal.
type saying struct {
	of map[string]*talker
	// away: Temporal tells nothing.
	away bool
	// past are sessions that only their manager knows, as destroyed.
	past map[string]bool
	// queries are the sessions that were asked, in order.
	queries []string
}

func (s *saying) Moment(_ context.Context, id string) (control.Moment, error) {
	switch t := s.of[id]; {
	case s.away:
		return control.Moment{}, workflows.ErrUnavailable
	case t == nil:
		return control.Moment{}, workflows.ErrNoSession
	default:
		return control.Moment{At: "run/" + t.events, Closed: t.closed}, nil
	}
}

func (s *saying) TurnState(_ context.Context, id string) (workflows.TurnState, error) {
	s.queries = append(s.queries, id)
	if s.of[id].silent {
		return workflows.TurnState{}, workflows.ErrUnconfirmed
	}
	return s.of[id].st, nil
}

func (s *saying) Destroyed(_ context.Context, id string) (bool, error) { return s.past[id], nil }

// yardOf is a yard of Docker's name that opens nothing that stays.
type yardOf struct {
	has  []box
	gone []box
	away bool // it does not answer
}

func (y *yardOf) Name() string { return docker.Name }

func (y *yardOf) boxes(context.Context) ([]box, error) {
	if y.away {
		return nil, errors.New("away")
	}
	return slices.Clone(y.has), nil
}

func (y *yardOf) Open(_ context.Context, spec sandbox.Spec) (sandbox.Session, error) {
	if y.away {
		return nil, sandbox.ErrUnavailable
	}
	b := box{spec.ID, spec.Generation}
	y.gone = append(y.gone, b)
	y.has = slices.DeleteFunc(y.has, func(o box) bool { return o == b })
	return nil, sandbox.ErrGone
}

func newFencer(y yard, s *saying) *fencer {
	return &fencer{log: slog.New(slog.DiscardHandler), host: "here", yard: y, sessions: s, words: (&App{}).words(y.Name())}
}

// having is a session with a sandbox.
func having(backend, host string, generation int) *talker {
	return &talker{events: "1", st: workflows.TurnState{Sandbox: &workflows.SandboxRef{Backend: backend, Host: host, Generation: generation}}}
}

// onDocker are sessions with their sandboxes here, of generation 2.
func onDocker(n int) (*saying, *yardOf) {
	s, y := &saying{of: map[string]*talker{}}, &yardOf{}
	for i := range n {
		id := "agent/web/main/" + string(rune('a'+i))
		s.of[id] = having(docker.Name, "here", 2)
		y.has = append(y.has, box{id, 2})
	}
	return s, y
}

// A sandbox goes when its session says that it has another one or none, or runs no
// more, and stays wherever that is not certain.
func TestSandboxesThatSessionsHaveLeft(t *testing.T) {
	t.Parallel()
	here, err := local.New(t.Context(), local.Config{DataDir: t.TempDir(), NoIsolation: true})
	require.NoError(t, err)
	destroyed, ended, silent := having(local.Name, "here", 1), having(local.Name, "here", 1), having(local.Name, "here", 2)
	destroyed.st.Header.Liveness = workflows.LivenessDestroyed
	ended.closed = true
	silent.silent = true
	says := &saying{of: map[string]*talker{
		"agent/web/main/mine":      having(local.Name, "here", 1),
		"agent/web/main/opening":   {events: "1"},
		"agent/web/main/moving":    having(local.Name, "there", 0),
		"agent/web/main/silent":    silent,
		"agent/web/main/elsewhere": having(local.Name, "there", 1),
		"agent/web/main/replaced":  having(local.Name, "here", 2),
		"agent/web/main/destroyed": destroyed,
		"agent/web/main/ended":     ended,
		"agent/web/main/docker":    having(docker.Name, "here", 1),
	}}
	says.past = map[string]bool{"agent/web/main/past": true}
	stays := []string{"agent/web/main/mine", "agent/web/main/moving", "agent/web/main/opening", "agent/web/main/silent", "agent/web/main/unknown", "not a session"}
	for _, id := range append([]string{"agent/web/main/unknown", "agent/web/main/past", "not a session"}, keys(says.of)...) {
		_, err := here.Open(t.Context(), sandbox.Spec{ID: id, Generation: 1})
		require.NoError(t, err)
	}
	require.NoError(t, newFencer(localYard{here}, says).round(t.Context()))
	boxes, err := here.Boxes()
	require.NoError(t, err)
	var left []string
	for _, b := range boxes {
		left = append(left, b.ID)
	}
	require.ElementsMatch(t, stays, left)
}

func keys(of map[string]*talker) (ids []string) {
	for id := range of {
		ids = append(ids, id)
	}
	return ids
}

// Sessions at rest are not asked again, however often and however thoroughly their
// sandboxes are looked at; one in which something has happened is, when its turn comes.
func TestSessionsAtRestAreNotAsked(t *testing.T) {
	t.Parallel()
	says, y := onDocker(5)
	says.of["agent/web/main/z"] = &talker{events: "1"} // it is opening one
	y.has = append(y.has, box{"agent/web/main/z", 1})
	f := newFencer(y, says)
	require.NoError(t, f.round(t.Context()))
	require.ElementsMatch(t, keys(says.of), says.queries)
	says.queries = nil
	for range 12 {
		require.NoError(t, f.round(t.Context()))
	}
	f.all = time.Now().Add(-2 * lookAtAll)
	require.NoError(t, f.round(t.Context()))
	require.Empty(t, says.queries)

	says.of["agent/web/main/d"].events = "2"
	for range 5 {
		require.NoError(t, f.round(t.Context()))
	}
	require.Equal(t, []string{"agent/web/main/d"}, says.queries)
	require.Empty(t, y.gone)

	k := keeping{sessions: says}
	for range 3 {
		k.before, k.known = k.known, map[box]kept{}
		is, err := k.kept(t.Context(), "agent/web/main/d", 2)
		require.NoError(t, err)
		require.True(t, is)
	}
	require.Equal(t, []string{"agent/web/main/d", "agent/web/main/d"}, says.queries)
}

// What a session has left while this host was away is found in the first look
// afterwards: while its engine or Temporal did not answer, or it stood still itself.
func TestSandboxesThatSessionsHaveLeftMeanwhile(t *testing.T) {
	t.Parallel()
	for what, away := range map[string]func(f *fencer, y *yardOf, s *saying, is bool){
		"the engine": func(_ *fencer, y *yardOf, _ *saying, is bool) { y.away = is },
		"Temporal":   func(_ *fencer, _ *yardOf, s *saying, is bool) { s.away = is },
		"the host":   func(f *fencer, _ *yardOf, _ *saying, _ bool) { f.heard = f.heard.Add(-time.Minute) },
	} {
		says, y := onDocker(9)
		f := newFencer(y, says)
		require.NoError(t, f.round(t.Context()), what)
		require.Empty(t, y.gone, what)
		away(f, y, says, true)
		for id, to := range map[string]*talker{"agent/web/main/c": having(docker.Name, "there", 3), "agent/web/main/h": having(docker.Name, "there", 2)} {
			to.events = "2"
			says.of[id] = to
		}
		if what != "the host" {
			require.Error(t, f.round(t.Context()), what)
			require.Empty(t, y.gone, what)
		}
		away(f, y, says, false)
		require.NoError(t, f.round(t.Context()), what)
		require.ElementsMatch(t, []box{{"agent/web/main/c", 2}, {"agent/web/main/h", 2}}, y.gone, what)
		require.Len(t, says.queries, 9+2, "%s: those at rest were not asked again", what)
	}
}

// A removal that failed here is done later, also of a sandbox that its session might
// still be about to take, for all that it says; not at once, for the session tries again.
func TestARemovalThatFailedIsDoneLater(t *testing.T) {
	t.Parallel()
	says, y := onDocker(2)
	f := newFencer(y, says)
	a := &App{told: map[string]*words{docker.Name: f.words}}
	y.has = append(y.has, box{"agent/web/main/b", 3}) // a move there was given up
	require.NoError(t, f.round(t.Context()))
	a.notRemoved(workflows.SandboxRef{Backend: docker.Name, ID: "agent/web/main/b", Generation: 3})
	require.NoError(t, f.round(t.Context()))
	require.Empty(t, y.gone)

	f.words.left[box{"agent/web/main/b", 3}] = time.Now()
	y.away = true
	require.Error(t, f.round(t.Context()))
	require.Empty(t, y.gone)
	y.away = false
	require.NoError(t, f.round(t.Context()))
	require.Equal(t, []box{{"agent/web/main/b", 3}}, y.gone)
	require.NoError(t, f.round(t.Context()))
	require.Len(t, y.gone, 1, "once")
}

// One that cannot be removed does not keep others from it, and is tried again.
func TestOneThatCannotBeRemoved(t *testing.T) {
	t.Parallel()
	says, y := onDocker(3)
	stubborn := &stubbornYard{yardOf: y, not: "agent/web/main/a"}
	f := newFencer(stubborn, says)
	for _, s := range says.of {
		s.closed = true
	}
	require.Error(t, f.round(t.Context()))
	require.ElementsMatch(t, []box{{"agent/web/main/b", 2}, {"agent/web/main/c", 2}}, y.gone)
	stubborn.not = ""
	require.NoError(t, f.round(t.Context()))
	require.Empty(t, y.has)
}

// stubbornYard cannot open one of its sandboxes.
type stubbornYard struct {
	*yardOf
	not string
}

func (y *stubbornYard) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Session, error) {
	if spec.ID == y.not {
		return nil, sandbox.ErrUnavailable
	}
	return y.yardOf.Open(ctx, spec)
}

// Docker's too: the retry of a killed try went to another host, which has one of
// the same generation.
func TestDockerSandboxesThatSessionsHaveLeft(t *testing.T) {
	t.Parallel()
	const id = "agent/web/main/moved"
	for host, leaves := range map[string]bool{"here": false, "there": true} {
		y := &yardOf{has: []box{{id, 2}}}
		f := newFencer(y, &saying{of: map[string]*talker{id: having(docker.Name, host, 2)}})
		require.NoError(t, f.round(t.Context()))
		require.Equal(t, leaves, len(y.gone) == 1, host)
	}
}
