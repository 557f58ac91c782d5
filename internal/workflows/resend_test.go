package workflows_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/workflows"
)

// A new run is refused when a signal arrives with the task that asks for it, and
// an update in that task comes back unheard: it is sent again, nobody is told.
func TestUpdatesAmongSignalsAndNewRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.ask("ls")
	w.awaitAnswer(1)
	const each = 60
	var all sync.WaitGroup
	all.Go(func() {
		for i := range each {
			if err := w.control.SendMessage(t.Context(), w.id(), said(fmt.Sprint(101+i), "ada", "ls")); err != nil {
				t.Error(err)
			}
		}
	})
	errs := make([][]error, 3)
	for k := range errs {
		all.Go(func() {
			for i := range each {
				_, err := w.control.CancelTurn(t.Context(), w.id(), workflows.CancelTurn{By: person("ada")}, fmt.Sprintf("stop-%d-%d", k, i))
				if err != nil {
					errs[k] = append(errs[k], err)
				}
			}
		})
	}
	all.Wait()
	for _, e := range errs {
		require.Empty(t, e)
	}
}
