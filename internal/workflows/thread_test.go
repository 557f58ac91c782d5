package workflows

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThreadNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		thread              Thread
		id, post, edit, key string
		fromID              bool
	}{
		{Thread{Platform: PlatformSlack, Team: "T1", Channel: "C1", ID: "1.2"}, "agent/slack/T1/C1/1.2", "chat/slack/T1/post", "chat/slack/T1/edit", "C1", true},
		{Thread{Platform: PlatformDiscord, Team: "10", Channel: "11", ID: "12", App: "13"}, "agent/discord/10/12", "chat/discord/13", "chat/discord/13", "agent/discord/10/12", true},
		{Thread{Platform: PlatformDiscord, Team: "10", Channel: "11", App: "13"}, "agent/discord/10/", "chat/discord/13", "chat/discord/13", "11", false},
		{Thread{Platform: PlatformWeb, Team: WebTeam, Channel: "general", ID: "t1"}, "agent/web/main/t1", "chat/web", "chat/web", "general", true},
	} {
		require.Equal(t, c.id, c.thread.WorkflowID())
		require.Equal(t, c.post, c.thread.PostQueue())
		require.Equal(t, c.edit, c.thread.EditQueue())
		require.Equal(t, c.key, c.thread.postKey())
		got, err := ParseWorkflowID(c.id)
		if !c.fromID {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err)
		require.True(t, c.thread.same(got), "what is known beside the identity does not count")
	}
	require.False(t, Thread{Platform: PlatformWeb, Team: WebTeam}.same(Thread{Platform: PlatformWeb, Team: WebTeam}), "threads that are not open yet are not one")
}
