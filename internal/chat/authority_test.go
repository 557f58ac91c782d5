package chat_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/workflows"
)

var linus = workflows.Actor{ID: "linus", Name: "linus"}

// adasRoom is a session that ada started, where grace and the on-call approve.
func adasRoom() (*chat.Authority, *chattest.Sessions) {
	s := &chattest.Sessions{State: map[string]workflows.TurnState{room.WorkflowID(): {Header: workflows.HeaderView{By: ada}}}}
	named := []string{"grace", "platform-oncall"}
	return &chat.Authority{Approvers: chat.InSet(named), Named: named, Sessions: s, Style: plain}, s
}

func TestWhoMayDriveASession(t *testing.T) {
	t.Parallel()
	a, _ := adasRoom()
	oncall := linus
	oncall.Groups = []string{"platform-oncall"}
	guest := workflows.Actor{ID: "grace", Guest: true}
	for _, verb := range []chat.Verb{chat.VerbRun, chat.VerbStop, chat.VerbFork, chat.VerbStatus, chat.VerbTitle, chat.VerbModel, chat.VerbPause, chat.VerbGrants, chat.VerbDone, chat.VerbNew} {
		require.Nil(t, a.Allow(t.Context(), linus, verb, room), verb)
	}
	for verb, want := range map[chat.Verb]string{
		chat.VerbSwitch:  "Only @ada (who started the session), @grace or @platform-oncall may move this session to another backend.",
		chat.VerbDestroy: "Only @ada (who started the session), @grace or @platform-oncall may destroy this session.",
		chat.VerbRevoke:  "Only @ada (who started the session), @grace or @platform-oncall may revoke this session's permissions.",
	} {
		for _, by := range []workflows.Actor{ada, grace, oncall} {
			require.Nil(t, a.Allow(t.Context(), by, verb, room), verb)
		}
		for _, by := range []workflows.Actor{linus, guest, {}} {
			e := a.Allow(t.Context(), by, verb, room)
			require.NotNil(t, e, verb)
			require.Equal(t, chat.KindForbidden, e.Kind)
			require.Equal(t, want, e.Message)
		}
	}
	a.Approvers, a.Named = nil, nil
	require.Equal(t, "Only @ada (who started the session) may destroy this session.", a.Allow(t.Context(), grace, chat.VerbDestroy, room).Message)
	require.Nil(t, a.Allow(t.Context(), ada, chat.VerbDestroy, room))
}

func TestRulesOfAuthority(t *testing.T) {
	t.Parallel()
	a, _ := adasRoom()
	a.Rules = map[chat.Verb][]string{
		chat.VerbRun: {"team"}, chat.VerbStop: {chat.WhoStarter}, chat.VerbDestroy: {chat.WhoApprovers}, chat.VerbFork: {}, chat.VerbSwitch: {"*"},
	}
	member := linus
	member.Groups = []string{"team"}
	require.Nil(t, a.Allow(t.Context(), member, chat.VerbRun, room))
	require.Equal(t, "Only @team may give this session tasks.", a.Allow(t.Context(), linus, chat.VerbRun, room).Message)
	require.Nil(t, a.Allow(t.Context(), ada, chat.VerbStop, room))
	require.Equal(t, "Only @ada (who started the session) may stop this session.", a.Allow(t.Context(), grace, chat.VerbStop, room).Message)
	require.Equal(t, "Only @grace or @platform-oncall may destroy this session.", a.Allow(t.Context(), ada, chat.VerbDestroy, room).Message)
	require.Equal(t, "Nobody may copy this session.", a.Allow(t.Context(), ada, chat.VerbFork, room).Message)
	require.Nil(t, a.Allow(t.Context(), linus, chat.VerbSwitch, room))
	require.NotNil(t, a.Allow(t.Context(), workflows.Actor{ID: "b", Bot: true}, chat.VerbSwitch, room))
}

// Who started a session that nobody can look at is not guessed.
func TestAuthorityFailsClosed(t *testing.T) {
	t.Parallel()
	a, s := adasRoom()
	s.Fail = func(chattest.Call) error { return errors.New("down") }
	e := a.Allow(t.Context(), ada, chat.VerbDestroy, room)
	require.NotNil(t, e)
	require.Equal(t, chat.KindUnavailable, e.Kind)
	require.Nil(t, a.Allow(t.Context(), grace, chat.VerbDestroy, room), "an approver needs no look")
	s.Fail = func(chattest.Call) error { return workflows.ErrNoSession }
	require.Nil(t, a.Allow(t.Context(), linus, chat.VerbDestroy, room), "there is nothing to destroy, which the command says")
	require.Nil(t, a.Allow(t.Context(), linus, chat.VerbDestroy, workflows.Thread{Platform: room.Platform, Team: room.Team}))
}

func TestARefusedClickNamesWhoMay(t *testing.T) {
	t.Parallel()
	a, s := adasRoom()
	r := &chat.Router{Sessions: s, Blobs: &chattest.Blobs{}, Backends: []string{"local"}, Style: plain, Allow: a.Allow}
	reply, err := r.Click(t.Context(), chat.Click{Interaction: "i", Thread: room, Button: "revoke:g1", Question: chat.QuestionGrants, By: linus})
	require.NoError(t, err)
	require.Equal(t, workflows.OutcomeNotYours, reply.Outcome.Outcome)
	require.Contains(t, reply.Text, "Only @ada (who started the session), @grace or @platform-oncall may revoke")
	_, err = r.Command(t.Context(), inRoom("grants revoke g1"))
	require.NoError(t, err, "ada started it")
	require.Len(t, s.Asked("RevokeGrant"), 1)
}
