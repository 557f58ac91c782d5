package chat_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/workflows"
)

func onCard(button string, change func(*chat.Click)) chat.Click {
	c := chat.Click{Interaction: "i1", Thread: room, Button: button, ApprovalID: "17.a1", By: grace, At: at("15:07:00")}
	if change != nil {
		change(&c)
	}
	return c
}

func TestClicksBecomeDecisions(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		click chat.Click
		want  workflows.Decision
	}{
		"approve":  {onCard("approve", nil), workflows.Decision{Verdict: workflows.VerdictApprove}},
		"reviewed": {onCard("approve", func(c *chat.Click) { c.Digest = "d1" }), workflows.Decision{Verdict: workflows.VerdictApprove, Digest: "d1"}},
		"grant":    {onCard("grant", func(c *chat.Click) { c.Digest = "d1" }), workflows.Decision{Verdict: workflows.VerdictApprove, Digest: "d1", GrantFor: time.Hour}},
		"deny":     {onCard("deny", func(c *chat.Click) { c.Reason = "no" }), workflows.Decision{Verdict: workflows.VerdictDeny, Reason: "no"}},
		"changes":  {onCard("deny", func(c *chat.Click) { c.Changes = "use staging" }), workflows.Decision{Verdict: workflows.VerdictChanges, Reason: "use staging"}},
		"withdraw": {onCard("withdraw", nil), workflows.Decision{Verdict: workflows.VerdictWithdraw}},
		"edit": {
			onCard("approve", func(c *chat.Click) { c.Digest, c.Edit = "d1", "ls" }),
			workflows.Decision{Verdict: workflows.VerdictApprove, Digest: "d1", Edit: "ls"},
		},
		"break glass": {
			onCard("approve", func(c *chat.Click) { c.BreakGlass = "the site is down" }),
			workflows.Decision{Verdict: workflows.VerdictApprove, BreakGlass: true, Reason: "the site is down"},
		},
		"run again": {onCard("run_again", nil), workflows.Decision{Verdict: workflows.VerdictApprove}},
		"leave":     {onCard("leave", nil), workflows.Decision{Verdict: workflows.VerdictDeny}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, s := newRouter()
			_, err := r.Click(t.Context(), x.click)
			require.NoError(t, err)
			x.want.ApprovalID, x.want.By, x.want.Interaction, x.want.ClickedAt = "17.a1", grace, "i1", at("15:07:00")
			require.Equal(t, x.want, s.Asked("Decide")[0].Arg)
		})
	}
}

// What cannot be a decision is refused in a sentence, and the session never
// hears of it.
func TestClicksThatAreNoDecisions(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5000)
	r, s := newRouter()
	for name, c := range map[string]chat.Click{
		"a reason that is too long":   onCard("deny", func(c *chat.Click) { c.Reason = long }),
		"changes that are too long":   onCard("deny", func(c *chat.Click) { c.Changes = long }),
		"changes with an approval":    onCard("approve", func(c *chat.Click) { c.Changes = "x" }),
		"blank changes":               onCard("deny", func(c *chat.Click) { c.Changes = " \n" }),
		"a reason and changes":        onCard("deny", func(c *chat.Click) { c.Reason, c.Changes = "x", "y" }),
		"NUL in a reason":             onCard("deny", func(c *chat.Click) { c.Reason = "a\x00b" }),
		"no UTF-8":                    onCard("deny", func(c *chat.Click) { c.Changes = "a\xffb" }),
		"break-glass with a denial":   onCard("deny", func(c *chat.Click) { c.BreakGlass = "x" }),
		"break-glass with a grant":    onCard("grant", func(c *chat.Click) { c.BreakGlass = "x" }),
		"break-glass without a word":  onCard("approve", func(c *chat.Click) { c.BreakGlass = "  " }),
		"an edit without review":      onCard("approve", func(c *chat.Click) { c.Edit = "ls" }),
		"an edit with a denial":       onCard("deny", func(c *chat.Click) { c.Edit, c.Digest = "ls", "d1" }),
		"an edit with a grant":        onCard("grant", func(c *chat.Click) { c.Edit, c.Digest = "ls", "d1" }),
		"an edit with run again":      onCard("run_again", func(c *chat.Click) { c.Edit, c.Digest = "ls", "d1" }),
		"a blank edit":                onCard("approve", func(c *chat.Click) { c.Edit, c.Digest = "\n", "d1" }),
		"an edit that is too long":    onCard("approve", func(c *chat.Click) { c.Edit, c.Digest = long, "d1" }),
		"an edit that is no UTF-8":    onCard("approve", func(c *chat.Click) { c.Edit, c.Digest = "l\xffs", "d1" }),
		"an edit with a NUL":          onCard("approve", func(c *chat.Click) { c.Edit, c.Digest = "l\x00s", "d1" }),
		"a wish for no known verdict": onCard("withdraw", func(c *chat.Click) { c.Changes = "x" }),
	} {
		_, err := r.Click(t.Context(), c)
		var e *chat.Error
		require.ErrorAs(t, err, &e, name)
		require.Equal(t, chat.KindInvalid, e.Kind, name)
		require.NotEmpty(t, e.Hint, name)
		require.True(t, strings.HasSuffix(e.Message, "."), name)
	}
	require.Empty(t, s.Asked(""))
}

func TestReviewTellsWhatWasChanged(t *testing.T) {
	t.Parallel()
	r, _ := newRouter()
	a := request()
	a.Original, a.EditedBy = "rm -rf ~", &grace
	v, err := r.Review(t.Context(), a)
	require.NoError(t, err)
	require.Equal(t, "rm -rf ~", v.Original)
	require.Equal(t, "@grace", v.EditedBy)
	require.Contains(t, v.Text(), "Changed by @grace. The agent had asked for:\nrm -rf ~\n")
}

// What a request holds forges no line of Review's own, and two directories that differ
// look different.
func TestReviewForgesNoLine(t *testing.T) {
	t.Parallel()
	v := chat.Review{
		Command: "make", Cwd: "/srv/a\nBackend: docker\nTier: safe", Backend: "local", Tier: "critical", Digest: "sha256:1",
		Reasons: []string{"make runs what the Makefile says\nTier: safe"}, Env: []string{"A=1\nRuns ok.sh:"},
		Files: []chat.ReviewFile{{Path: "a.sh:\nDigest: sha256:2\nx", Text: "true"}},
	}
	text := "\n" + v.Text()
	for _, own := range []string{"Tier: ", "Backend: ", "Digest: ", "Runs "} {
		require.Equal(t, 1, strings.Count(text, "\n"+own), "%s\n%s", own, text)
	}
	require.Contains(t, text, `Directory: /srv/a\u{a}Backend: docker`)

	a := request()
	seen := map[string]bool{}
	for _, dir := range []string{"/srv/a b", "/srv/a  b", "/srv/a\tb", "/srv/a\nb", "/srv/a b "} {
		a.Cwd = dir
		seen[chat.Where(a)] = true
	}
	require.Len(t, seen, 5)
}

func TestGrantsAreRevoked(t *testing.T) {
	t.Parallel()
	r, s := newRouter()
	reply, err := r.Command(t.Context(), inRoom("grants revoke g2"))
	require.NoError(t, err)
	require.True(t, reply.Private)
	got := s.Asked("RevokeGrant")[0]
	require.Equal(t, workflows.RevokeGrant{GrantID: "g2", By: ada}, got.Arg)
	require.Equal(t, room.WorkflowID(), got.ID)
	require.Equal(t, "revoke/ada/20", got.UpdateID)

	click := chat.Click{Interaction: "i", Thread: room, Button: "revoke:g3", Question: chat.QuestionGrants, By: grace, At: at("15:07:00")}
	answer, err := r.Click(t.Context(), click)
	require.NoError(t, err)
	require.Equal(t, "g3 revoked by @grace at 15:07.", answer.Answered)
	require.Equal(t, workflows.RevokeGrant{GrantID: "g3", By: grace}, s.Asked("RevokeGrant")[1].Arg)

	s.Answer = workflows.Outcome{Outcome: workflows.OutcomeRefused, Text: "No permission g3 stands in this session."}
	answer, err = r.Click(t.Context(), click)
	require.NoError(t, err)
	require.Empty(t, answer.Answered)
	require.Equal(t, s.Answer, answer.Outcome)

	reply, err = r.Command(t.Context(), inChannel("grants"))
	require.NoError(t, err)
	require.Contains(t, reply.Text, "needs a session")
}
