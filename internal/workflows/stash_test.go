package workflows_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/countersign/countersign/internal/workflows"
)

// sayAll sends messages, several at once, each until the server has it.
func (w *world) sayAll(all []workflows.Message) {
	w.t.Helper()
	next := make(chan workflows.Message)
	var senders sync.WaitGroup
	for range 16 {
		senders.Go(func() {
			for m := range next {
				for w.control.SendMessage(w.t.Context(), w.id(), m) != nil && w.t.Context().Err() == nil {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	for _, m := range all {
		next <- m
	}
	close(next)
	senders.Wait()
}

// inputSizes are those of all the session's runs.
func (w *world) inputSizes() (sizes []int) {
	w.t.Helper()
	res, err := w.env.Client.ListWorkflow(w.t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: "WorkflowId = '" + w.id() + "'"})
	require.NoError(w.t, err)
	for _, e := range res.GetExecutions() {
		first, err := w.env.Client.GetWorkflowHistory(w.t.Context(), w.id(), e.GetExecution().GetRunId(), false, 0).Next()
		require.NoError(w.t, err)
		sizes = append(sizes, first.GetWorkflowExecutionStartedEventAttributes().GetInput().Size())
	}
	return sizes
}

// patiently waits for what many messages take.
func (w *world) patiently(what string, ok func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(10 * time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		require.True(w.t, time.Now().Before(deadline), "never came: %s", what)
	}
}

// heard counts how often each message is in the conversation, and gives them in
// order.
func (w *world) heard() (ids []string, times map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	times = map[string]int{}
	for _, e := range w.transcripts[fmt.Sprintf("t%d", len(w.transcripts))] {
		if e.Kind == "message" {
			ids = append(ids, e.ID)
			times[e.ID]++
		}
	}
	return ids, times
}

// inputSize is what the session's run was started with, in bytes, and which run it is.
func (w *world) inputSize() (size int, run string) {
	w.t.Helper()
	d, err := w.env.Client.DescribeWorkflowExecution(w.t.Context(), w.id(), "")
	require.NoError(w.t, err)
	run = d.GetWorkflowExecutionInfo().GetExecution().GetRunId()
	it := w.env.Client.GetWorkflowHistory(w.t.Context(), w.id(), run, false, 0)
	first, err := it.Next()
	require.NoError(w.t, err)
	return first.GetWorkflowExecutionStartedEventAttributes().GetInput().Size(), run
}

// 20 MB of messages wait over new runs while a command runs; then each is taken
// once.
func TestManyMessagesWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.ask("block")
	w.eventually("running", func() bool { return w.runs("") == 1 })
	_, first := w.inputSize()
	const many = 5_000
	all := make([]workflows.Message, many)
	begun := time.Now()
	for i := range all {
		// What begins so asks the model for nothing.
		all[i] = said(fmt.Sprint(1000+i), "ada", strings.Repeat("#", 4096))
		all[i].At = begun.Add(time.Duration(i) * time.Millisecond)
	}
	w.sayAll(all)
	w.patiently("they wait", func() bool { return w.state(w.id()).Queued == many })
	t.Logf("%d messages sent and waiting after %v", many, time.Since(begun))
	w.patiently("a new run", func() bool { _, run := w.inputSize(); return run != first })
	size, _ := w.inputSize()
	t.Logf("a run began with %d bytes", size)
	require.Less(t, size, 1<<20)
	answered(w, func() (workflows.Outcome, error) {
		return w.control.CancelTurn(t.Context(), w.id(), workflows.CancelTurn{By: person("bob")}, "stop-1")
	})
	w.patiently("all are taken", func() bool {
		st := w.state(w.id())
		require.NotEqual(t, workflows.LivenessDestroyed, st.Header.Liveness, "a run goes over into the next one")
		return st.Queued == 0 && st.Turn == nil
	})
	ids, times := w.heard()
	require.Len(t, ids, many+1)
	for i := range many {
		require.Equal(t, 1, times[fmt.Sprint(1000+i)], "message %d", i)
	}
}

// Back-fill brings what an outage held back after any number of newer messages:
// each is taken once, and what was taken before is not taken again.
func TestOldMessagesAfterManyNewer(t *testing.T) {
	t.Parallel()
	for _, every := range []int{0, 50} {
		t.Run(fmt.Sprintf("continue-as-new every %d", every), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, every)
			w.ask("write first")
			w.awaitAnswer(1)
			const many = 2_300
			var newer, old []workflows.Message
			for i := range many {
				m := said(fmt.Sprint(1000+i), "ada", "#")
				if i%100 == 7 {
					m.Text.Text = fmt.Sprintf("echo %d", i)
					old = append(old, m)
				} else {
					newer = append(newer, m)
				}
			}
			w.sayAll(newer)
			w.patiently("all are taken", func() bool { st := w.state(w.id()); return st.Queued == 0 && st.Turn == nil })
			w.sayAll(append(append(old, newer[:700]...), old...))
			w.say("100", "ada", "write first")
			w.say("9999", "ada", "echo last")
			ran := 1 + len(old) + 1
			w.patiently("each old one has run", func() bool { return w.runs("") >= ran })
			w.patiently("at rest", func() bool { st := w.state(w.id()); return st.Queued == 0 && st.Turn == nil })
			require.Equal(t, ran, w.runs(""))
			ids, times := w.heard()
			require.Len(t, ids, 1+many+1)
			for id, n := range times {
				require.Equal(t, 1, n, "message %s", id)
			}
		})
	}
}

// More calls at once than a model may ask for, with outputs as long as they may be,
// over new runs.
func TestManyLongOutputsAtOnce(t *testing.T) {
	t.Parallel()
	const calls = 100
	w := newWorld(t, 20)
	var task strings.Builder
	for i := range calls {
		fmt.Fprintf(&task, "&shout %d\n", i)
	}
	w.ask(strings.TrimPrefix(task.String(), "&"))
	w.patiently("the answer", func() bool { _, ok := w.view("answer-1"); return ok })
	require.Equal(t, calls, w.runs(""))
	sizes := w.inputSizes()
	require.Greater(t, len(sizes), 2)
	t.Logf("%d runs, of which the largest began with %d bytes", len(sizes), slices.Max(sizes))
	require.Less(t, slices.Max(sizes), 1<<20)
}
