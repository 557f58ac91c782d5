package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A view that changes between the moment its edit is due and the moment the edit
// begins is read by that edit: there is nothing to cancel, and a session must not
// fail for it.
func TestAViewChangesBeforeItsEditBegins(t *testing.T) {
	t.Parallel()
	running := MessageView{Key: "turn-1", Kind: KindTurn, Running: []string{"x1"}}
	for _, refreshing := range []bool{false, true} {
		p := &Post{View: running, edit: edit{active: true, refreshing: refreshing}}
		(&session{}).changed(p)
		require.Equal(t, 1, p.View.Version)
		require.False(t, p.edit.superseded)
	}
	cancelled := false
	p := &Post{View: running, First: time.Unix(1, 0), edit: edit{active: true, refreshing: true, cancel: func() { cancelled = true }}}
	(&session{}).changed(p)
	require.True(t, cancelled, "one that repeats is")
	require.True(t, p.edit.superseded)
}
