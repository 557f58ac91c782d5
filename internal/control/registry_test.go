package control_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/workflows"
)

// sessions makes n rows as they are when their sessions have ended.
func sessions(from, n int) []workflows.SessionRow {
	rows := make([]workflows.SessionRow, n)
	for i := range rows {
		th := workflows.Thread{Platform: workflows.PlatformWeb, Team: workflows.WebTeam, Channel: "general", ID: fmt.Sprint(1796018462000000 + from + i)}
		rows[i] = workflows.SessionRow{
			WorkflowID: th.WorkflowID(), Thread: th, Title: fmt.Sprint("a session's title of the usual length, number ", from+i),
			Backend: "local", Liveness: workflows.LivenessDestroyed, By: workflows.Actor{ID: "ada", Name: "ada"},
			StartedAt: time.Unix(1796018462, 0).UTC(), EndedAt: time.Unix(1796018962, 0).UTC(), Turn: 7,
			Snapshot: "snapshots/" + fmt.Sprintf("%064d", from+i), Transcript: "transcripts/" + fmt.Sprintf("%064d", from+i),
		}
	}
	return rows
}

// A registry of 20,000 sessions: a page costs what one in a small registry does,
// all pages hold each session once, newest first, and the oldest is found in time.
func TestRegistryOfManySessions(t *testing.T) {
	t.Parallel()
	store, err := blob.Open(t.Context(), "file://"+t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	r := &control.Registry{Store: store}
	const all, perPage = 20_000, 100
	var first, last string
	for n := 0; n < all; n += perPage {
		res, err := r.Save(t.Context(), workflows.SaveRegistryInput{ManagerID: "manager/web/main", Archive: last, Rows: sessions(n, perPage)})
		require.NoError(t, err)
		if last = res.Archive; first == "" {
			first = last
		}
	}
	head, err := r.Load(t.Context(), workflows.SaveRegistryInput{ManagerID: "manager/web/main"})
	require.NoError(t, err)
	require.Equal(t, last, head.Archive)

	c := control.New(nil, r)
	seen := 0
	began := time.Now()
	slowest := time.Duration(0)
	for cursor := "archive:" + head.Archive; cursor != ""; {
		at := time.Now()
		page, err := c.List(t.Context(), "manager/web/main", workflows.ListSessions{Before: cursor})
		require.NoError(t, err)
		slowest = max(slowest, time.Since(at))
		for _, row := range page.Sessions {
			seen++
			require.Equal(t, sessions(all-seen, 1)[0].WorkflowID, row.WorkflowID)
		}
		cursor = page.Next
	}
	require.Equal(t, all, seen)
	listed := time.Since(began)
	began = time.Now()
	found, err := r.Find(t.Context(), workflows.FindSessionInput{Archive: head.Archive, WorkflowID: sessions(0, 1)[0].WorkflowID})
	require.NoError(t, err)
	require.True(t, found.Found)
	data, err := json.Marshal(sessions(0, 1)[0])
	require.NoError(t, err)
	t.Logf("%d bytes a row; all %d pages %v, the slowest %v; the oldest found in %v", len(data), all/perPage, listed, slowest, time.Since(began))
	require.Less(t, time.Since(began), 10*time.Second, "an attempt to find one has so long")
}
