package workflows_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/workflows"
)

// A file that came with a message is needed until the model was given the message:
// while it waits in the session's state and in the blob store.
func TestNeedsOfMessagesThatWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	needed := func() (n *control.Needed) {
		w.eventually("all have told what they need", func() bool {
			var err error
			n, err = w.control.Needed(t.Context(), time.Now())
			return err == nil
		})
		return n
	}
	w.ask("write a")
	w.awaitRest(1)
	require.Contains(t, needed().Snapshots, "snap-1")
	w.say("101", "ada", "block")
	w.eventually("running", func() bool { return w.runs("") == 2 })
	const all = 12 // together more than waits in a session's state
	var messages []workflows.Message
	for i := range all {
		m := said(fmt.Sprint(110+i), "grace", "# "+strings.Repeat("x", 40<<10))
		m.Attachments = []workflows.Attachment{{ID: fmt.Sprint("uploads/", i), Name: "a.txt", Bytes: 1}}
		messages = append(messages, m)
	}
	w.sayAll(messages)
	stashed := func() bool {
		stored := 0
		for _, err := range w.registry.Store.List(t.Context(), "waiting/"+w.id()+"/") {
			require.NoError(t, err)
			stored++
		}
		return stored > 0
	}
	w.eventually("all wait, some of them in the blob store", func() bool {
		st, err := w.control.TurnState(t.Context(), w.id())
		return err == nil && st.Queued == all && stashed()
	})
	n := needed()
	for i := range all {
		require.True(t, n.Arriving(fmt.Sprint("uploads/", i)), i)
	}
	require.False(t, n.Arriving("uploads/99"))
	require.False(t, n.Over(w.id()))
}
