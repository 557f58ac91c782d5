package workflows_test

import (
	"errors"
	"fmt"
	"strings"
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
			m, err := said(fmt.Sprint(101+i), "ada", "ls"), error(nil)
			for again := true; again; again = errors.Is(err, workflows.ErrUnconfirmed) {
				err = w.control.SendMessage(t.Context(), w.id(), m)
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	errs := make([][]error, 3)
	for k := range errs {
		all.Go(func() {
			for i := range each {
				var err error
				for again := true; again; again = errors.Is(err, workflows.ErrUnconfirmed) { // by a server with much to do
					_, err = w.control.CancelTurn(t.Context(), w.id(), workflows.CancelTurn{By: person("ada")}, fmt.Sprintf("stop-%d-%d", k, i))
				}
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

// Messages that are too much for one model call come in several, each once.
func TestManyLongMessagesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.ask("block")
	w.eventually("running", func() bool { return w.runs("") == 1 })
	const many = 320
	var long []workflows.Message
	for i := range many {
		// What begins so asks the model for nothing.
		long = append(long, said(fmt.Sprint(101+i), "ada", strings.Repeat("#", workflows.MaxInlineText)))
	}
	w.sayAll(long)
	w.patiently("they wait", func() bool { return w.state(w.id()).Queued == many })
	answered(w, func() (workflows.Outcome, error) {
		return w.control.CancelTurn(t.Context(), w.id(), workflows.CancelTurn{By: person("bob")}, "stop-1")
	})
	w.patiently("all are taken", func() bool { st := w.state(w.id()); return st.Queued == 0 && st.Turn == nil })
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := map[string]int{}
	for _, e := range w.transcripts[fmt.Sprintf("t%d", len(w.transcripts))] {
		if e.Kind == "message" {
			seen[e.ID]++
		}
	}
	for i := range many {
		require.Equal(t, 1, seen[fmt.Sprint(101+i)], "message %d", i)
	}
}
