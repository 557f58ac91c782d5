package workflows_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"github.com/countersign/countersign/internal/workflows"
)

// What does not answer is waited for, and the thread says so, once; when it is
// back the turn goes on by itself, and nothing ran twice.
func TestBackendAway(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		if w.near {
			t.Skip("a verdict on the own host is not asked for")
		}
		w.mu.Lock()
		w.away = temporal.NewApplicationError("Docker is not reachable on the worker. Start Docker.", workflows.ErrTypeSandboxUnavailable)
		w.mu.Unlock()
		w.ask("ls\n& pwd")
		w.noticed("Docker is not reachable on the worker. Start Docker. The session and its files are safe. It goes on by itself")
		require.Equal(t, 0, w.runs(""))
		w.mu.Lock()
		w.away = nil
		w.mu.Unlock()
		require.Contains(t, w.awaitAnswer(1), "ok ls")
		w.noticed("The sandbox answers again; the turn goes on.")
		w.mu.Lock()
		defer w.mu.Unlock()
		n := 0
		for _, v := range w.posts {
			if v.Kind == workflows.KindNotice {
				n++
			}
		}
		require.Equal(t, 2, n, "said once, though two calls wait")
	})
}
