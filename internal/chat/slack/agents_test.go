package slack

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
	"github.com/countersign/countersign/internal/workflows"
)

// turnCard posts a turn card.
func (w *world) turnCard(t workflows.Thread, turn workflows.TurnView) {
	w.t.Helper()
	_, err := w.app.Poster().Post(w.t.Context(), chat.Content{WorkflowID: t.WorkflowID(), Thread: t, View: workflows.MessageView{
		Key: "turn-1", Kind: workflows.KindTurn, Version: 1, Turn: &turn,
	}})
	require.NoError(w.t, err)
}

func quick(c *Config) { c.StatusPace = time.Millisecond }

// TestAgentStatusFollowsTheCards: Slack's own status is what the cards say.
func TestAgentStatusFollowsTheCards(t *testing.T) {
	t.Parallel()
	w := start(t, setup{config: quick})
	s := w.session()
	is := func(status string) {
		t.Helper()
		w.until("the status is "+status, func() bool { return w.fake.Agent(s.Channel, s.ID).Status == status })
	}
	working := workflows.TurnView{Number: 1, State: workflows.TurnWorking, StartedAt: time.Now()}
	w.turnCard(s, working)
	is("processing")
	w.approval(s, nil)
	is("suspended")
	working.Calls = []workflows.CallView{{State: workflows.CallAwaiting, Command: "rm"}, {State: workflows.CallRunning, Command: "ls"}}
	w.turnCard(s, working)
	is("processing")
	working.State = workflows.TurnDone
	w.turnCard(s, working)
	is("active")
}

// TestAgentStatusEndsWhereTheAppIsNoAgent: the first refusal is the last call, and
// the cards are posted all the same.
func TestAgentStatusEndsWhereTheAppIsNoAgent(t *testing.T) {
	t.Parallel()
	var scopes []string
	for _, s := range slackfake.AllScopes() {
		if s != "assistant:write" {
			scopes = append(scopes, s)
		}
	}
	w := start(t, setup{config: quick, fake: slackfake.Options{Scopes: scopes}})
	s := w.session()
	for range 5 {
		w.turnCard(s, workflows.TurnView{Number: 1, State: workflows.TurnWorking, StartedAt: time.Now()})
		w.until("it is off", func() bool {
			w.app.agents.mu.Lock()
			defer w.app.agents.mu.Unlock()
			return !w.app.agents.offTill.IsZero()
		})
	}
	require.Len(t, w.fake.Calls("agents.sessions.setStatus"), 1)
	require.Len(t, w.fake.Thread(s.Channel, s.ID), 6)
}

// TestSlacksOwnStop: Slack's stop button is `stop`, once, under the same rules.
func TestSlacksOwnStop(t *testing.T) {
	t.Parallel()
	w := start(t, setup{config: quick, fake: slackfake.Options{}, before: func(w *world) {
		w.fake.AddUser(slackfake.User{ID: "U0GUEST001", Name: "guest", Restricted: true})
		w.fake.AddChannel(slackfake.Channel{ID: general, Members: []string{slackfake.BotUser, ada, grace, "U0GUEST001"}})
	}})
	s := w.session()
	w.fake.Duplicate(true)
	settled(w, w.fake.StopAgent(ada, s.Channel, s.ID))
	w.fake.Duplicate(false)
	calls := w.sessions.Asked("CancelTurn")
	require.NotEmpty(t, calls)
	for _, c := range calls { // both under one update ID: the session stops once
		require.Equal(t, calls[0].UpdateID, c.UpdateID)
		require.Equal(t, s.WorkflowID(), c.ID)
	}
	settled(w, w.fake.StopAgent("U0GUEST001", s.Channel, s.ID))
	require.Len(t, w.sessions.Asked("CancelTurn"), len(calls), "a guest does not drive")
	require.Contains(t, w.toldOnly("U0GUEST001"), "uest")
}
