package chat_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/workflows"
)

// A command with files is the command, not a task of its words; who gave it is told
// that the files go nowhere.
func TestACommandWithFilesIsACommand(t *testing.T) {
	t.Parallel()
	small := workflows.Attachment{ID: "F1", Name: "a`b`.log", Bytes: 10}
	for name, file := range map[string]workflows.Attachment{"one that is taken": small, "one that is too large": {ID: "F2", Name: "big", Bytes: 1 << 40}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, s := newRouter()
			ev := inRoom("stop")
			chat.Attach(&ev, []workflows.Attachment{file})
			reply, err := r.Command(t.Context(), ev)
			require.NoError(t, err)
			require.Len(t, s.Asked("CancelTurn"), 1)
			require.Empty(t, s.Asked("SendMessage"))
			require.Equal(t, "Recorded.\n\nThe attached files were not used: a command takes none. Send them with a message to the agent.", reply.Text)
			require.True(t, reply.Private)

			ev = inRoom(`title "Another"`)
			chat.Attach(&ev, []workflows.Attachment{file})
			reply, err = r.Command(t.Context(), ev)
			require.NoError(t, err)
			require.Len(t, s.Asked("SetTitle"), 1)
			require.Contains(t, reply.Text, "not used")
			require.True(t, reply.Private, "the session itself shows its title")
		})
	}
}

// Files without a text are a task, or a message; what is left out is said with the text.
func TestFilesAreATask(t *testing.T) {
	t.Parallel()
	r, s := newRouter()
	ev := inChannel("")
	chat.Attach(&ev, []workflows.Attachment{{ID: "F1", Name: "a.log", Bytes: 10}, {ID: "F2", Name: "b`x", Bytes: 1 << 40}})
	reply, err := r.Command(t.Context(), ev)
	require.NoError(t, err)
	require.True(t, reply.Opens)
	asked, ok := s.Asked("RequestSession")[0].Arg.(workflows.SessionRequest)
	require.True(t, ok)
	require.Equal(t, "Attached: a.log", asked.Title)
	require.Contains(t, asked.Task.Text.Text, "(Files without a text.)\n\n(Attached and not passed on: \"\"b\"x\"\" (")
	require.Len(t, asked.Task.Attachments, 1)

	ev = inRoom("")
	require.True(t, ev.Empty())
	chat.Attach(&ev, []workflows.Attachment{{ID: "F1", Name: "a.log", Bytes: 10}})
	require.False(t, ev.Empty())
	_, err = r.Message(t.Context(), ev)
	require.NoError(t, err)
	sent, ok := s.Asked("SendMessage")[0].Arg.(workflows.Message)
	require.True(t, ok)
	require.Equal(t, "(Files without a text.)", sent.Text.Text)
}
