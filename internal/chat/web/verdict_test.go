package web_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/workflows"
)

func (s *site) lastDecision() workflows.Decision {
	s.t.Helper()
	all := s.sessions.Asked("Decide")
	require.NotEmpty(s.t, all)
	return all[len(all)-1].Arg.(workflows.Decision)
}

func TestEveryVerdictReachesTheSession(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.post(general, text("/agent hello", ""))
	v := request(p.ThreadID)
	v.Buttons = append(v.Buttons, workflows.Button{ID: workflows.ButtonGrant, Label: "Allow this for 1 h"})
	id := s.show(p.ThreadID, v)

	s.click(id, `{"button":"deny","values":{"changes":"use the staging bucket"}}`, as("grace"))
	require.Equal(t, workflows.VerdictChanges, s.lastDecision().Verdict)
	require.Equal(t, "use the staging bucket", s.lastDecision().Reason)

	s.click(id, `{"button":"approve","values":{"digest":"d1","command":"rm -rf build/tmp"}}`)
	require.Equal(t, workflows.VerdictApprove, s.lastDecision().Verdict)
	require.Equal(t, "rm -rf build/tmp", s.lastDecision().Edit)
	require.Equal(t, "d1", s.lastDecision().Digest)

	s.click(id, `{"button":"approve","values":{"break_glass":"the site is down"}}`)
	require.True(t, s.lastDecision().BreakGlass)
	require.Equal(t, "the site is down", s.lastDecision().Reason)

	s.click(id, `{"button":"grant","values":{"digest":"d1"}}`)
	require.Equal(t, workflows.GrantTime, s.lastDecision().GrantFor)
	require.Equal(t, workflows.VerdictApprove, s.lastDecision().Verdict)

	// What the session says about it is what the clicker is told.
	s.sessions.Answer = workflows.Outcome{Outcome: workflows.OutcomeNotYours, Text: "That is never allowed: it destroys the host. The request stands as it was."}
	out := s.click(id, `{"button":"approve","values":{"digest":"d1","command":"rm -rf /"}}`)
	require.Equal(t, s.sessions.Answer, workflows.Outcome{Outcome: out.Outcome, Text: out.Text})
}

// A command that somebody has changed is approved only by its digest: the message
// was another one's before.
func TestAChangedCommandIsApprovedByItsDigest(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.post(general, text("/agent hello", ""))
	v := request(p.ThreadID)
	v.Buttons = append(v.Buttons, workflows.Button{ID: workflows.ButtonGrant, Label: "Allow this for 1 h"})
	v.Approval.EditedBy, v.Approval.Original = &workflows.Actor{ID: "grace"}, "rm -rf ."
	id := s.show(p.ThreadID, v)
	for _, button := range []string{"approve", "grant"} {
		require.Equal(t, "changed", s.click(id, `{"button":"`+button+`"}`).Outcome)
	}
	require.Empty(t, s.sessions.Asked("Decide"))
	require.Equal(t, "recorded", s.click(id, `{"button":"approve","values":{"digest":"d1"}}`).Outcome)
	require.Equal(t, "recorded", s.click(id, `{"button":"deny"}`).Outcome, "nothing runs by that")
}

func TestValuesThatCannotBeTaken(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.post(general, text("/agent hello", ""))
	id := s.show(p.ThreadID, request(p.ThreadID))
	url := "/api/v1/messages/" + id + "/click"
	long, err := json.Marshal(strings.Repeat("x", workflows.MaxEdit+1))
	require.NoError(t, err)
	for _, body := range []string{
		`{"button":"deny","values":{"changes":5}}`, `{"button":"deny","values":{"reason":["x"]}}`, `{"button":"deny","values":{"changes":""}}`,
		`{"button":"deny","values":{"changes":" \n"}}`, `{"button":"deny","values":{"reason":"x","changes":"y"}}`,
		`{"button":"approve","values":{"changes":"y"}}`, `{"button":"approve","values":{"command":"ls"}}`,
		`{"button":"approve","values":{"command":"","digest":"d1"}}`, `{"button":"approve","values":{"digest":"d1","command":` + string(long) + `}}`,
		`{"button":"approve","values":{"break_glass":""}}`, `{"button":"approve","values":{"break_glass":true}}`, `{"button":"approve","values":{"digest":1}}`,
		`{"button":"approve","values":{"digest":"d1","command":"a\u0000b"}}`, `{"button":"deny","values":{"break_glass":"x"}}`, `{"button":"approve","values":[]}`,
	} {
		s.refused(http.StatusBadRequest, "POST", url, body)
	}
	require.Equal(t, "no_such_button", s.refused(http.StatusConflict, "POST", url, `{"button":"grant"}`), "the card offers none")
	require.Empty(t, s.sessions.Asked("Decide"))
	s.click(id, `{"button":"approve","values":{"digest":null,"other":7}}`)
}

func TestTheCardTellsWhoCounts(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.post(general, text("/agent hello", ""))
	v := request(p.ThreadID)
	grace := workflows.Actor{ID: "grace", Name: "grace"}
	v.Approval.BreakGlass, v.Approval.Original, v.Approval.EditedBy = []string{"ada"}, "rm -rf .", &grace
	v.Approval.Widened, v.Approval.Remark = true, "A vote does not count any more."
	id := s.show(p.ThreadID, v)
	type shown struct {
		Messages []struct {
			ID       string
			Text     string
			Approval map[string]any
		}
	}
	read := func() map[string]any {
		_, data := s.do("GET", "/api/v1/threads/"+p.ThreadID, "")
		for _, m := range decode[shown](t, data).Messages {
			if m.ID == id {
				return m.Approval
			}
		}
		return nil
	}
	a := read()
	require.Equal(t, false, a["requester_may_approve"])
	require.Equal(t, []any{"ada"}, a["break_glass"])
	require.Equal(t, "rm -rf .", a["original"])
	require.Equal(t, "grace", a["edited_by"])
	require.Equal(t, true, a["widened"])
	require.Equal(t, "A vote does not count any more.", a["remark"])
	r := s.click(id, `{"button":"review"}`)
	require.Equal(t, "rm -rf .", r.Review.Original)
	require.Equal(t, "@grace", r.Review.EditedBy)

	v.Version, v.Buttons = 2, nil
	v.Approval.State, v.Approval.DecidedAt = workflows.ApprovalApproved, time.Date(2026, 11, 29, 15, 7, 0, 0, time.UTC)
	v.Approval.GrantedUntil, v.Approval.RequesterMayApprove = v.Approval.DecidedAt.Add(time.Hour), true
	v.Approval.Votes = []workflows.Vote{{By: grace, Verdict: workflows.VerdictApprove}}
	s.show(p.ThreadID, v)
	a = read()
	require.Equal(t, true, a["requester_may_approve"])
	require.Equal(t, "2026-11-29T16:07:00Z", a["granted_until"])
	require.Equal(t, "✎ Approved with a change by @grace (see Review) at 2026-11-29T15:07:00Z\nAllowed until 2026-11-29T16:07:00Z in this thread, unless revoked.", a["outcome"])
	require.Equal(t, "d1", s.click(id, `{"button":"review"}`).Digest, "Review shows the change afterwards too")
}

func TestGrantsAreListedAndRevoked(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.post(general, text("/agent hello", ""))
	wf := "agent/web/main/" + p.ThreadID
	grace := workflows.Actor{ID: "grace", Name: "grace"}
	until := time.Now().Add(time.Hour)
	s.sessions.State = map[string]workflows.TurnState{wf: {Grants: []workflows.Grant{
		{ID: "g1", Command: "rm -rf build", By: grace, Until: until}, {ID: "g2", Command: "rm x", By: grace, Until: time.Now().Add(-time.Second)},
		{ID: "g3", Command: "rm -rf dist", By: grace, Until: until},
	}}}
	status, data := s.do("GET", "/api/v1/threads/"+p.ThreadID+"/grants", "")
	require.Equal(t, http.StatusOK, status)
	got := decode[[]map[string]any](t, data)
	require.Len(t, got, 2, "what has ended is not listed")
	require.Equal(t, "g1", got[0]["id"])
	require.Equal(t, "grace", got[0]["by"])
	s.refused(http.StatusNotFound, "GET", "/api/v1/threads/0000000000000001/grants", "")

	in := "/api/v1/threads/" + p.ThreadID + "/messages"
	s.post(in, text("/agent grants", ""))
	msgs := s.thread(p.ThreadID).Messages
	q := msgs[len(msgs)-1]
	require.Contains(t, q.Text, "`g1` · `rm -rf build` · by @grace")
	require.Len(t, q.Buttons, 2)
	require.Equal(t, "recorded", s.click(q.ID, `{"button":"revoke:g1"}`, as("grace")).Outcome)
	require.Equal(t, workflows.RevokeGrant{GrantID: "g1", By: grace}, s.sessions.Asked("RevokeGrant")[0].Arg)
	msgs = s.thread(p.ThreadID).Messages
	q = msgs[len(msgs)-1]
	require.Contains(t, q.Text, "g1 revoked by @grace")
	require.Len(t, q.Buttons, 1, "the other one can still be revoked")
	s.sessions.Answer = workflows.Outcome{Outcome: workflows.OutcomeRefused, Text: "No permission g1 stands in this session."}
	require.Equal(t, clicked{Outcome: "expired", Text: s.sessions.Answer.Text}, s.click(q.ID, `{"button":"revoke:g1"}`))
	s.sessions.Answer = workflows.Outcome{}
	s.click(q.ID, `{"button":"revoke:g3"}`)
	require.Equal(t, "already_decided", s.click(q.ID, `{"button":"revoke:g3"}`).Outcome)
	s.refused(http.StatusConflict, "POST", "/api/v1/messages/"+q.ID+"/click", `{"button":"approve"}`)

	require.Equal(t, "Recorded.", s.post(in, text("/agent grants revoke g3", "")).Text)
}

// A copy that was removed goes from every reader's screen.
func TestRemovedMessagesAreToldInEvents(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.post(general, text("/agent hello", ""))
	th := workflows.Thread{Platform: workflows.PlatformWeb, Team: workflows.WebTeam, Channel: "general", ID: p.ThreadID}
	note := workflows.MessageView{Key: "notice-1", Kind: workflows.KindNotice, Version: 1, Text: workflows.TextRef{Text: "hello"}}
	id := s.show(p.ThreadID, note)
	ev := s.events("0")
	require.Equal(t, p.MessageID, next(t, ev).m.ID)
	shown := next(t, ev)
	require.Equal(t, id, shown.m.ID)
	require.False(t, shown.m.Deleted)
	require.NoError(t, s.Poster().Delete(t.Context(), th, id))
	gone := next(t, ev)
	require.Equal(t, id, gone.m.ID)
	require.True(t, gone.m.Deleted)
	require.Greater(t, gone.m.Version, shown.m.Version)
	require.Equal(t, p.ThreadID, gone.m.ThreadID)
	require.Empty(t, gone.m.Text)
	require.Len(t, s.thread(p.ThreadID).Messages, 1)
	s.refused(http.StatusNotFound, "POST", "/api/v1/messages/"+id+"/click", `{"button":"approve"}`)

	// The key is free again; the header, which is the root, cannot go.
	require.NotEqual(t, id, s.show(p.ThreadID, note))
	require.NoError(t, s.Poster().Delete(t.Context(), th, p.ThreadID))
	require.Len(t, s.thread(p.ThreadID).Messages, 2)
	found, err := s.Poster().Find(t.Context(), th, "notice-1", time.Time{})
	require.NoError(t, err)
	require.Len(t, found, 1)
	var _ chat.Members = s.Poster().(chat.Members)
}
