package control_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/workflows"
)

// A session whose workflow was ended from outside is told of to its manager, once, with
// its last boundary, or what the manager knows where the session cannot say any more;
// one that runs, or that nobody answers for just now, is not.
func TestTellEnded(t *testing.T) {
	t.Parallel()
	terminated := func(age time.Duration) *told {
		s := &told{run: "r1", events: 7, status: enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, closed: time.Now().Add(-age)}
		return s
	}
	ended, broken, silent, long, destroyed := terminated(0), terminated(0), terminated(0), terminated(workflows.KeepFor+time.Minute), terminated(0)
	ended.boundary = workflows.Boundary{WorkflowID: webID(1), Turn: 5, Snapshot: "newest"}
	unseen := terminated(0)
	broken.broken, silent.silent, long.silent, unseen.unseen = true, true, true, true
	f := &telling{sessions: map[string]*told{
		webID(0): {run: "r1", events: 7, status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}, webID(1): ended, webID(2): broken, webID(3): silent,
		webID(4): long, webID(6): destroyed, webID(7): unseen, webID(8): terminated(0),
	}}
	for n := range 8 { // 5 is one that Temporal has no more; nobody knows 8
		live := workflows.LivenessActive
		if n == 6 {
			live = workflows.LivenessDestroyed
		}
		f.list.Sessions = append(f.list.Sessions, workflows.SessionRow{Row: n, WorkflowID: webID(n), Liveness: live, Turn: 2, Snapshot: "older"})
	}
	c := control.New(f, nil)
	for n, want := range map[int]string{0: "", 1: "newest", 2: "older", 3: "", 4: "older", 5: "older", 6: "", 7: "older", 8: ""} {
		f.signals = nil
		known, err := c.Destroyed(t.Context(), webID(n))
		require.NoError(t, err)
		require.Equal(t, n == 6, known, n)
		is, err := c.TellEnded(t.Context(), webID(n))
		if n == 3 {
			require.ErrorIs(t, err, workflows.ErrUnconfirmed)
		} else {
			require.NoError(t, err, n)
		}
		require.Equal(t, want != "", is, n)
		if want == "" {
			require.Empty(t, f.signals, n)
			continue
		}
		require.Len(t, f.signals, 1)
		u := f.signals[0]
		require.Equal(t, webID(n), u.Boundary.WorkflowID)
		require.Equal(t, want, u.Boundary.Snapshot, n)
		require.True(t, u.Destroyed)
		require.Equal(t, workflows.LivenessDestroyed, u.Liveness)
	}
}

// The thread of a session that was ended from outside is seen to once, with what the
// session says of it; where it cannot say, the header is, as far as the manager knows it.
func TestShowEnded(t *testing.T) {
	t.Parallel()
	terminated := func() *told {
		return &told{run: "r1", status: enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, closed: time.Now()}
	}
	says, nothing, broken, silent, unseen, destroyed := terminated(), terminated(), terminated(), terminated(), terminated(), terminated()
	says.standing = workflows.EndedInput{Messages: []workflows.Standing{{Key: "turn-1", Ref: "17"}}}
	broken.broken, silent.silent, unseen.unseen, destroyed.status = true, true, true, enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	f := &telling{seen: map[string]workflows.EndedInput{}, sessions: map[string]*told{
		webID(0): says, webID(1): nothing, webID(2): broken, webID(3): silent, webID(4): unseen, webID(5): destroyed,
		webID(6): {run: "r1", status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING},
	}}
	began := time.Now().UTC()
	thread := workflows.Thread{Platform: workflows.PlatformWeb, Team: workflows.WebTeam, Channel: "general"}
	for n := range 7 {
		f.list.Sessions = append(f.list.Sessions, workflows.SessionRow{WorkflowID: webID(n), Thread: thread, Title: "Known", StartedAt: began})
	}
	c := control.New(f, nil)
	for range 2 {
		for n := range 8 {
			err := c.ShowEnded(t.Context(), webID(n))
			require.Equal(t, n == 3, errors.Is(err, workflows.ErrUnconfirmed), "%d: %v", n, err)
		}
		says.standing.Messages[0].Key = "turn-2"
	}
	header := workflows.EndedInput{Thread: thread, Messages: []workflows.Standing{{Key: workflows.HeaderKey, First: began}}}
	require.Equal(t, map[string]workflows.EndedInput{
		workflows.EndedID(webID(0), "r1"): {Messages: []workflows.Standing{{Key: "turn-1", Ref: "17"}}},
		workflows.EndedID(webID(2), "r1"): header, workflows.EndedID(webID(4), "r1"): header,
	}, f.seen)

	v, err := c.Message(t.Context(), webID(2), workflows.HeaderKey)
	require.NoError(t, err)
	require.Equal(t, "Known", v.Header.Title)
	require.Equal(t, workflows.LivenessDestroyed, v.Header.Liveness)
	require.True(t, v.Over)
	_, err = c.Message(t.Context(), webID(2), "turn-1")
	require.Error(t, err)
}

// What was cut short is dealt with once, again where that failed, and not where it runs
// again.
func TestCutShort(t *testing.T) {
	t.Parallel()
	f := &telling{sessions: map[string]*told{
		webID(0): {run: "r1", status: enumspb.WORKFLOW_EXECUTION_STATUS_FAILED},
		webID(1): {run: "r1", status: enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED},
		webID(2): {run: "r2", status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}, // it was reset
	}}
	found := control.CutShort{Client: control.New(f, nil)}
	var dealt []string
	away := errors.New("away")
	var fails error
	look := func() error {
		dealt = nil
		return found.Look(t.Context(), func(_ context.Context, id string) error {
			dealt = append(dealt, id)
			if id == webID(1) {
				return fails
			}
			return nil
		})
	}
	fails = away
	require.ErrorIs(t, look(), away)
	require.ElementsMatch(t, []string{webID(0), webID(1)}, dealt)
	fails = nil
	require.NoError(t, look())
	require.Equal(t, []string{webID(1)}, dealt)
	require.NoError(t, look())
	require.Empty(t, dealt)
}
