package control_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/workflows"
)

const managerID = "session-manager/web/main"

// sessions makes n rows; every second session has ended.
func sessions(from, n int) []workflows.SessionRow {
	rows := make([]workflows.SessionRow, n)
	for i := range rows {
		th := workflows.Thread{Platform: workflows.PlatformWeb, Team: workflows.WebTeam, Channel: "general", ID: fmt.Sprint(1796018462000000 + from + i)}
		rows[i] = workflows.SessionRow{
			Row: from + i, WorkflowID: th.WorkflowID(), Thread: th, Title: fmt.Sprint("a session's title of the usual length, number ", from+i),
			Backend: "local", Liveness: workflows.LivenessPaused, By: workflows.Actor{ID: "ada", Name: "ada"},
			StartedAt: time.Unix(1796018462, 0).UTC(), Turn: 7,
			Snapshot: "snapshots/" + fmt.Sprintf("%064d", from+i), Transcript: "transcripts/" + fmt.Sprintf("%064d", from+i),
		}
		if (from+i)%2 == 0 {
			rows[i].Liveness, rows[i].EndedAt = workflows.LivenessDestroyed, time.Unix(1796018962, 0).UTC()
		}
	}
	return rows
}

func openStore(t *testing.T) *blob.Store {
	t.Helper()
	store, err := blob.Open(t.Context(), "file://"+t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

// save adds rows and changes to what a manager has, as a manager does.
func save(t *testing.T, r *control.Registry, archive string, rows []workflows.SessionRow, changes ...workflows.RowChange) workflows.SaveRegistryResult {
	t.Helper()
	in := workflows.SaveRegistryInput{ManagerID: managerID, Archive: archive, Rows: rows, Changes: changes}
	res, err := r.Save(t.Context(), in)
	require.NoError(t, err)
	again, err := r.Save(t.Context(), in)
	require.NoError(t, err, "a retry whose first attempt had succeeded")
	require.Equal(t, res, again)
	return res
}

func find(t *testing.T, r *control.Registry, archive, id string) workflows.FindSessionResult {
	t.Helper()
	res, err := r.Find(t.Context(), workflows.FindSessionInput{Archive: archive, WorkflowID: id})
	require.NoError(t, err)
	return res
}

// In a registry of 20,000 sessions a save writes what it touches, and each session
// is found in three reads, whatever its age.
func TestRegistryOfManySessions(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	r := &control.Registry{Store: store}
	const all = 20_000
	archive := ""
	var took []time.Duration
	for n := 0; n < all; n += workflows.RegistryPage {
		began := time.Now()
		res, err := r.Save(t.Context(), workflows.SaveRegistryInput{ManagerID: managerID, Archive: archive, Rows: sessions(n, workflows.RegistryPage)})
		require.NoError(t, err)
		archive, took = res.Archive, append(took, time.Since(began))
		require.Equal(t, n+workflows.RegistryPage, res.Rows)
	}
	head, err := r.Load(t.Context(), workflows.SaveRegistryInput{ManagerID: managerID})
	require.NoError(t, err)
	require.Equal(t, workflows.SaveRegistryResult{Archive: archive, Rows: all}, head)

	count, size := 0, int64(0)
	for o, err := range store.List(t.Context(), "registry/") {
		require.NoError(t, err)
		count++
		size += o.Size
	}
	require.Less(t, count, 2*(all/workflows.RegistryPage), "what saves replace is removed")

	began := time.Now()
	for _, n := range []int{0, all / 2, all - 1} {
		found := find(t, r, archive, sessions(n, 1)[0].WorkflowID)
		require.True(t, found.Found)
		require.Equal(t, sessions(n, 1)[0], found.Row)
	}
	require.False(t, find(t, r, archive, "agent/web/main/1").Found)
	looked := time.Since(began) / 4

	began = time.Now()
	old := sessions(3, 1)[0]
	res := save(t, r, archive, nil, workflows.RowChange{WorkflowID: old.WorkflowID, Title: "another"})
	changed := time.Since(began) / 2
	require.Equal(t, "another", find(t, r, res.Archive, old.WorkflowID).Row.Title)
	require.Equal(t, old.Title, find(t, r, archive, old.WorkflowID).Row.Title, "whoever reads the one before still can")

	data, err := json.Marshal(old)
	require.NoError(t, err)
	t.Logf("%d bytes a row; %d blobs of %d kB together; a page saved in %v as the first, %v as the last; one session found in %v, changed in %v",
		len(data), count, size/1000, took[0], took[len(took)-1], looked, changed)
	require.Less(t, looked, 20*time.Second, "a person waits for it")
}

// Whatever a save adds and changes is there, in pages that are full or not.
func TestRegistrySaves(t *testing.T) {
	t.Parallel()
	r := &control.Registry{Store: openStore(t)}
	res := save(t, r, "", sessions(0, 57))
	ended := time.Unix(1796019000, 0).UTC()
	res = save(t, r, res.Archive, sessions(57, 100),
		workflows.RowChange{WorkflowID: sessions(3, 1)[0].WorkflowID, Forks: 2, DestroyedBy: "@grace"},
		workflows.RowChange{WorkflowID: sessions(60, 1)[0].WorkflowID, Liveness: workflows.LivenessDestroyed, EndedAt: ended,
			Boundary: &workflows.Boundary{Snapshot: "s", Transcript: "t", Turn: 9}},
		workflows.RowChange{WorkflowID: "agent/web/main/unknown", Title: "nobody's"})
	require.Equal(t, 157, res.Rows)
	want := sessions(0, 157)
	want[3].Forks, want[3].DestroyedBy = 2, "@grace"
	want[60].Liveness, want[60].EndedAt = workflows.LivenessDestroyed, ended
	want[60].Snapshot, want[60].Transcript, want[60].Turn = "s", "t", 9
	for _, row := range want {
		require.Equal(t, row, find(t, r, res.Archive, row.WorkflowID).Row)
	}
	_, err := r.Save(t.Context(), workflows.SaveRegistryInput{ManagerID: managerID, Archive: res.Archive, Rows: sessions(160, 1)})
	require.Error(t, err, "a gap")
}

// Who looks in a registry that was replaced twice since is told so at once: it does not
// come back, and there is a newer one.
func TestARegistryThatWasReplaced(t *testing.T) {
	t.Parallel()
	r := &control.Registry{Store: openStore(t)}
	a := &control.Activities{Registry: r}
	id := sessions(1, 1)[0].WorkflowID
	look := func(archive string) error {
		_, err := a.FindSession(t.Context(), workflows.FindSessionInput{Archive: archive, WorkflowID: id})
		return err
	}
	first := save(t, r, "", sessions(0, 100))
	second := save(t, r, first.Archive, nil, workflows.RowChange{WorkflowID: id, Forks: 1})
	require.NoError(t, look(first.Archive), "the manager may not have heard of the second yet")
	third := save(t, r, second.Archive, nil, workflows.RowChange{WorkflowID: id, Forks: 2})
	require.NoError(t, look(third.Archive))
	var app *temporal.ApplicationError
	require.ErrorAs(t, look(first.Archive), &app)
	require.True(t, app.NonRetryable())
}
