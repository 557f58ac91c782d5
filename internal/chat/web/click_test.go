package web_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/workflows"
)

// show brings a view into a thread as a session would, and returns the message's
// ID.
func (s *site) show(thread string, v workflows.MessageView) string {
	s.t.Helper()
	t := workflows.Thread{Platform: workflows.PlatformWeb, Team: workflows.WebTeam, Channel: "general", ID: thread}
	ref, err := s.Poster().Post(s.t.Context(), chat.Content{WorkflowID: t.WorkflowID(), Thread: t, View: v, Text: v.Text.Text})
	require.NoError(s.t, err)
	return ref
}

func request(thread string) workflows.MessageView {
	return workflows.MessageView{
		Key: "approval-1", Kind: workflows.KindApproval, Version: 1,
		Buttons: []workflows.Button{{ID: "approve", Label: "Approve once"}, {ID: "review", Label: "Review…"}, {ID: "deny", Label: "Deny…"}},
		Approval: &workflows.ApprovalView{
			ID: thread + ".a1", State: workflows.ApprovalPending, Tier: "risky", Displayable: true, Digest: "d1", CallID: thread + ".1.1",
			Command: workflows.TextRef{Text: "rm -rf build"}, Cwd: "/workspace", Backend: "local", Required: 1,
			Approvers: []string{"*"}, RequestedBy: []workflows.Actor{{ID: "ada", Name: "ada"}},
			Reasons: []string{"`rm -rf` deletes"}, ExpiresAt: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC),
		},
	}
}

type clicked struct {
	Outcome, Text, Digest string
	Review                *chat.Review
}

func (s *site) click(id, body string, change ...func(*http.Request)) clicked {
	s.t.Helper()
	status, data := s.do("POST", "/api/v1/messages/"+id+"/click", body, change...)
	require.Equal(s.t, http.StatusOK, status, string(data))
	return decode[clicked](s.t, data)
}

func TestApprovalIsDecidedByTheSession(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.post(general, text("/agent hello", ""))
	v := request(p.ThreadID)
	v.Approval.Reasons, v.Approval.Asking = append(v.Approval.Reasons, "`cat` only reads"), 1
	id := s.show(p.ThreadID, v)
	m := s.thread(p.ThreadID).Messages[1]
	require.Equal(t, id, m.ID)
	require.Equal(t, "approval", m.Kind)
	require.Equal(t, "pending", m.Approval.State)
	require.Equal(t, "rm -rf build", m.Approval.Command)
	require.Len(t, m.Approval.Reasons, 2)
	require.Equal(t, []string{"`rm -rf` deletes"}, m.Approval.Why)
	require.Len(t, m.Buttons, 3)

	require.Equal(t, "recorded", s.click(id, `{"button":"approve","values":{}}`, as("grace")).Outcome)
	d := s.sessions.Asked("Decide")[0]
	require.Equal(t, "agent/web/main/"+p.ThreadID, d.ID)
	dec := d.Arg.(workflows.Decision)
	require.Equal(t, p.ThreadID+".a1", dec.ApprovalID)
	require.Equal(t, workflows.VerdictApprove, dec.Verdict)
	require.Equal(t, "grace", dec.By.ID)
	require.Empty(t, dec.Digest)
	require.NotEmpty(t, dec.Interaction)
	require.WithinDuration(t, time.Now(), dec.ClickedAt, time.Minute)

	s.click(id, `{"button":"deny","values":{"reason":"not during the freeze"}}`)
	require.Equal(t, "not during the freeze", s.sessions.Asked("Decide")[1].Arg.(workflows.Decision).Reason)

	// The same client_id is the same click.
	s.click(id, `{"button":"deny","client_id":"x"}`)
	s.click(id, `{"button":"deny","client_id":"x"}`)
	asked := s.sessions.Asked("Decide")
	require.Equal(t, asked[2].Arg.(workflows.Decision).Interaction, asked[3].Arg.(workflows.Decision).Interaction)
	require.NotEqual(t, asked[1].Arg.(workflows.Decision).Interaction, asked[2].Arg.(workflows.Decision).Interaction)
	// Another's is another click, whatever they send with it.
	s.click(id, `{"button":"deny","client_id":"x"}`, as("grace"))
	require.NotEqual(t, asked[3].Arg.(workflows.Decision).Interaction, s.sessions.Asked("Decide")[4].Arg.(workflows.Decision).Interaction)
}

func TestReviewShowsEverything(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.post(general, text("/agent hello", ""))
	whole := "cat <<'EOF'\n" + strings.Repeat("x\n", 9000) + "EOF"
	ref, err := chat.PutText(t.Context(), s.blobs, whole)
	require.NoError(t, err)
	detail, err := json.Marshal(chat.Review{Env: []string{"A=1"}, Files: []chat.ReviewFile{{Path: "s.sh", Text: "rm -rf build\n"}}})
	require.NoError(t, err)
	v := request(p.ThreadID)
	v.Buttons = v.Buttons[1:] // too long for an approve button
	v.Approval.Command = ref
	v.Approval.Detail, err = s.blobs.Put(t.Context(), "reviews", detail)
	require.NoError(t, err)
	id := s.show(p.ThreadID, v)

	require.Equal(t, "no_such_button", s.refused(409, "POST", "/api/v1/messages/"+id+"/click", `{"button":"approve"}`))
	r := s.click(id, `{"button":"review"}`)
	require.Contains(t, r.Text, whole)
	require.Contains(t, r.Text, "rm -rf build\n")
	require.Equal(t, whole, r.Review.Command)
	require.Equal(t, []string{"A=1"}, r.Review.Env)
	require.Equal(t, "s.sh", r.Review.Files[0].Path)
	require.Equal(t, "d1", r.Digest)
	s.click(id, `{"button":"approve","values":{"digest":"d1"}}`)
	require.Equal(t, "d1", s.sessions.Asked("Decide")[0].Arg.(workflows.Decision).Digest)
}

func TestLateAndWrongClicks(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.post(general, text("/agent hello", ""))
	v := request(p.ThreadID)
	id := s.show(p.ThreadID, v)
	url := "/api/v1/messages/" + id + "/click"
	s.refused(409, "POST", url, `{"button":"stop"}`)
	s.refused(409, "POST", url, `{"button":"withdraw"}`)
	s.refused(400, "POST", url, `{}`)
	s.refused(400, "POST", url, `{"button":"deny","values":{"reason":"`+strings.Repeat("x", 5000)+`"}}`)
	s.refused(400, "POST", url, `{"button":`)
	s.refused(409, "POST", "/api/v1/messages/"+p.MessageID+"/click", `{"button":"approve"}`)
	s.refused(404, "POST", "/api/v1/messages/0000000000000001/click", `{"button":"approve"}`)
	s.refused(404, "POST", "/api/v1/messages/x/click", `{"button":"approve"}`)

	// Decided meanwhile: the session says how.
	v.Version, v.Buttons, v.Approval.State = 2, nil, workflows.ApprovalDenied
	s.show(p.ThreadID, v)
	s.sessions.Answer = workflows.Outcome{Outcome: workflows.OutcomeAlreadyDecided, Text: "@grace already denied this at 15:07."}
	require.Equal(t, "already_decided", s.click(id, `{"button":"approve"}`).Outcome)
	s.refused(409, "POST", url, `{"button":"stop"}`)

	for err, want := range map[error]string{workflows.ErrUnconfirmed: "unconfirmed", workflows.ErrUnavailable: "unconfirmed", workflows.ErrNoSession: "expired"} {
		s.sessions.Fail = func(chattest.Call) error { return err }
		require.Equal(t, want, s.click(id, `{"button":"approve"}`).Outcome)
	}
}

func TestStopFromTheTurnCard(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.post(general, text("/agent hello", ""))
	id := s.show(p.ThreadID, workflows.MessageView{
		Key: "turn-3", Kind: workflows.KindTurn, Version: 1, Buttons: []workflows.Button{{ID: "stop", Label: "Stop"}},
		Turn: &workflows.TurnView{Number: 3, State: workflows.TurnWorking},
	})
	require.Equal(t, "recorded", s.click(id, `{"button":"stop"}`).Outcome)
	require.Equal(t, 3, s.sessions.Asked("CancelTurn")[0].Arg.(workflows.CancelTurn).Turn)
	s.sessions.Answer = workflows.Outcome{Outcome: workflows.OutcomeRefused, Text: "That turn has ended."}
	require.Equal(t, clicked{Outcome: "expired", Text: "That turn has ended."}, s.click(id, `{"button":"stop"}`))
}

func TestDetailsOfATurn(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.post(general, text("/agent hello", ""))
	th := workflows.Thread{Platform: workflows.PlatformWeb, Team: workflows.WebTeam, ID: p.ThreadID}
	trail, err := chattest.RecordTurn(t.Context(), s.blobs, th, 2, 0, "grace", "ada")
	require.NoError(t, err)
	id := s.show(p.ThreadID, workflows.MessageView{
		Key: "turn-2", Kind: workflows.KindTurn, Version: 1, Buttons: []workflows.Button{{ID: "details", Label: "Details"}},
		Turn: &workflows.TurnView{Number: 2, State: workflows.TurnDone, Trail: trail},
	})
	status, data := s.do("POST", "/api/v1/messages/"+id+"/click", `{"button":"details"}`)
	require.Equal(t, http.StatusOK, status, string(data))
	type answer struct {
		Outcome, Text string
		Details       []struct {
			N           int
			ID, Outcome string
			Command     string
			Facts       []string
			Ran         bool
		}
	}
	a := decode[answer](t, data)
	require.Equal(t, "recorded", a.Outcome)
	require.Contains(t, a.Text, "Approved by @grace at 2026-11-29T15:04:")
	require.Len(t, a.Details, 5)
	require.Equal(t, chattest.LongCommand(), a.Details[3].Command)
	require.True(t, a.Details[0].Ran)
	require.False(t, a.Details[2].Ran)
}

func TestDestroyAsksFirstAndIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	s := open(t)
	p := s.post(general, text("/agent hello", ""))
	wf := "agent/web/main/" + p.ThreadID
	s.sessions.State = map[string]workflows.TurnState{wf: {
		Header:  workflows.HeaderView{Title: "hello", Backend: "local", Liveness: workflows.LivenessActive},
		Sandbox: &workflows.SandboxRef{}, Turns: 3, Queued: 1, Approvals: []string{"a"},
	}}
	in := "/api/v1/threads/" + p.ThreadID + "/messages"
	s.post(in, text("/agent destroy", ""))
	msgs := s.thread(p.ThreadID).Messages
	q := msgs[len(msgs)-1]
	require.Contains(t, q.Text, "1 request that waits for approval")
	require.Contains(t, q.Text, "1 queued message")
	require.Contains(t, q.Text, "3 turns")
	require.Len(t, q.Buttons, 2)
	require.Empty(t, s.sessions.Asked("Destroy"))

	var wg sync.WaitGroup
	outcomes := make([]string, 4)
	for i := range outcomes {
		wg.Go(func() { outcomes[i] = s.click(q.ID, `{"button":"destroy"}`).Outcome })
	}
	wg.Wait()
	require.Len(t, s.sessions.Asked("Destroy"), 1)
	require.Equal(t, wf, s.sessions.Asked("Destroy")[0].Arg.(workflows.DestroySession).WorkflowID)
	counts := map[string]int{}
	for _, o := range outcomes {
		counts[o]++
	}
	require.Equal(t, map[string]int{"recorded": 1, "already_decided": 3}, counts)
	msgs = s.thread(p.ThreadID).Messages
	require.Empty(t, msgs[len(msgs)-1].Buttons)
	require.Contains(t, msgs[len(msgs)-1].Text, "Destroy confirmed by @ada")

	s.post(in, text("/agent done", ""))
	msgs = s.thread(p.ThreadID).Messages
	require.Equal(t, "recorded", s.click(msgs[len(msgs)-1].ID, `{"button":"keep"}`).Outcome)
	require.Len(t, s.sessions.Asked("Pause"), 1)
}
