package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A view that changes before its edit has begun, or while the edit waits for more, is
// read by that edit: there is nothing to cancel, and a session must not fail for it.
func TestAViewChangesBeforeItsEditBegins(t *testing.T) {
	t.Parallel()
	running := MessageView{Key: "turn-1", Kind: KindTurn, Running: []string{"x1"}}
	now := time.Unix(100, 0)
	for name, c := range map[string]struct {
		edit      edit
		cancelled bool
	}{
		"due":                {edit: edit{active: true}},
		"due, and repeats":   {edit: edit{active: true, refreshing: true}},
		"waits":              {edit: edit{active: true, refreshing: true, until: now.Add(time.Nanosecond)}},
		"has read it":        {edit: edit{active: true, refreshing: true, until: now}, cancelled: true},
		"has read it, alone": {edit: edit{active: true, until: now}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cancelled := false
			p := &Post{View: running, First: time.Unix(1, 0), edit: c.edit}
			if !p.edit.until.IsZero() {
				p.edit.cancel = func() { cancelled = true }
			}
			(&session{clock: func() time.Time { return now }}).changed(p)
			require.Equal(t, 1, p.View.Version)
			require.Equal(t, c.cancelled, cancelled)
			require.Equal(t, c.cancelled, p.edit.superseded)
		})
	}
}
