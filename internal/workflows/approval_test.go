package workflows_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/workflows"
)

func TestNobodyMayApprove(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("nobody x")
		require.Contains(t, w.awaitAnswer(1), "state: denied — this needs an approval, and nobody may give one")
		require.Zero(t, w.runs(""))
		_, posted := w.view("approval-1")
		require.False(t, posted, "no card that nobody can answer")
	})
}

func TestRequestChanges(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("risky x")
		id := w.awaitApproval("approval-1")
		out := w.decide(workflows.Decision{ApprovalID: id, Verdict: workflows.VerdictChanges, By: person("grace"), Reason: "use the staging bucket"})
		require.Equal(t, workflows.OutcomeRecorded, out.Outcome)
		require.Contains(t, w.awaitAnswer(1), "state: denied — changes asked for by @grace: use the staging bucket")
		require.Zero(t, w.runs(""))
		w.eventually("the card says so", func() bool {
			v, _ := w.view("approval-1")
			return v.Approval.State == workflows.ApprovalDenied && v.Approval.Text == "use the staging bucket"
		})
	})
}

func TestEditAndApprove(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("critical rm -rf /data")
		id := w.awaitApproval("approval-1")
		require.Equal(t, workflows.OutcomeRecorded, w.click(id, "heidi", workflows.VerdictApprove).Outcome)
		edit := func(who, command string) workflows.Outcome {
			return w.decide(workflows.Decision{ApprovalID: id, Verdict: workflows.VerdictApprove, By: person(who), Edit: command})
		}
		require.Contains(t, edit("grace", "never this").Text, "never allowed")
		require.Equal(t, workflows.OutcomeNotYours, edit("mallory", "ls").Outcome)
		require.Zero(t, w.runs(""))
		// The vote on the old command is void: the critical edit needs two again.
		require.Equal(t, "Recorded: 1 of 2.", edit("grace", "critical rm -rf /data/tmp").Text)
		require.Zero(t, w.runs(""))
		w.eventually("the card shows the change", func() bool {
			v, _ := w.view("approval-1")
			return v.Approval.Command.Text == "critical rm -rf /data/tmp" && v.Approval.Original == "critical rm -rf /data" && len(v.Approval.Votes) == 1
		})
		require.Equal(t, workflows.OutcomeRecorded, w.click(id, "heidi", workflows.VerdictApprove).Outcome)
		require.Equal(t, "call-0-0=ok critical rm -rf /data/tmp", w.awaitAnswer(1))
	})
}

func TestGrantIsForTheExactCommandAndEnds(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("grantable a\ngrantable a\ngrantable b\ngrantable a\ngrantable a")
		id := w.awaitApproval("approval-1")
		v, _ := w.view("approval-1")
		require.Equal(t, workflows.ButtonGrant, v.Buttons[1].ID)
		out := w.decide(workflows.Decision{ApprovalID: id, Verdict: workflows.VerdictApprove, By: person("grace"), GrantFor: time.Hour})
		require.Equal(t, workflows.OutcomeRecorded, out.Outcome)
		// The same command again runs; another one asks.
		second := w.awaitApproval("approval-2")
		require.Equal(t, 2, w.runs(""))
		v, _ = w.view("approval-2")
		require.Equal(t, "grantable b", v.Approval.Command.Text)
		state := w.state(w.id())
		require.Len(t, state.Grants, 1)
		// A newer policy ends it.
		w.mu.Lock()
		w.policy = "p2"
		w.mu.Unlock()
		require.Equal(t, workflows.OutcomeRecorded, w.click(second, "grace", workflows.VerdictDeny).Outcome)
		third := w.awaitApproval("approval-3")
		out = w.decide(workflows.Decision{ApprovalID: third, Verdict: workflows.VerdictApprove, By: person("grace"), GrantFor: time.Hour})
		require.Equal(t, workflows.OutcomeRecorded, out.Outcome)
		w.awaitAnswer(1)
		require.Equal(t, 4, w.runs(""))
		state = w.state(w.id())
		require.Len(t, state.Grants, 1)
		// Revoked, it is asked about again.
		revoked := answered(w, func() (workflows.Outcome, error) {
			return w.control.RevokeGrant(t.Context(), w.id(), workflows.RevokeGrant{GrantID: state.Grants[0].ID, By: person("grace")}, "revoke-1")
		})
		require.Equal(t, workflows.OutcomeRecorded, revoked.Outcome)
		w.awaitTurn(1, workflows.TurnDone)
		w.say("101", "ada", "grantable a")
		w.awaitApproval("approval-4")
	})
}

func TestBreakGlass(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("glass x")
		id := w.awaitApproval("approval-1")
		alone := func(who, why string) workflows.Outcome {
			return w.decide(workflows.Decision{ApprovalID: id, Verdict: workflows.VerdictApprove, By: person(who), BreakGlass: true, Reason: why})
		}
		require.Equal(t, workflows.OutcomeNotYours, alone("grace", "in a hurry").Outcome)
		require.Contains(t, alone("ada", " ").Text, "say why")
		require.Zero(t, w.runs(""))
		require.Equal(t, workflows.OutcomeRecorded, alone("ada", "the site is down").Outcome)
		w.awaitAnswer(1)
		require.Equal(t, 1, w.runs(""))
		w.eventually("the card says so", func() bool { v, _ := w.view("approval-1"); return v.Approval.BrokeGlass })
	})
}

func TestWideningWhenNobodyAnswers(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("widen late\nwiden soon")
		id := w.awaitApproval("approval-1")
		require.Equal(t, workflows.OutcomeNotYours, w.click(id, "heidi", workflows.VerdictApprove).Outcome)
		require.Equal(t, workflows.OutcomeRecorded, w.click(id, "grace", workflows.VerdictDeny).Outcome)
		id = w.awaitApproval("approval-2")
		w.eventually("widened", func() bool { v, _ := w.view("approval-2"); return v.Approval.Widened })
		require.Equal(t, workflows.OutcomeRecorded, w.click(id, "heidi", workflows.VerdictApprove).Outcome)
		require.Contains(t, w.awaitAnswer(1), "ok widen soon")
	})
}

func TestWhatTheCardCannotShowIsApprovedFromReviewOnly(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("opaque x")
		id := w.awaitApproval("approval-1")
		v, _ := w.view("approval-1")
		require.Equal(t, workflows.ButtonReview, v.Buttons[0].ID)
		require.Equal(t, workflows.OutcomeNotYours, w.click(id, "grace", workflows.VerdictApprove).Outcome)
		reviewed := workflows.Decision{ApprovalID: id, Verdict: workflows.VerdictApprove, By: person("grace"), Digest: "another"}
		require.Equal(t, workflows.OutcomeChanged, w.decide(reviewed).Outcome)
		reviewed.Digest = v.Approval.Digest
		require.Equal(t, workflows.OutcomeRecorded, w.decide(reviewed).Outcome)
		w.awaitAnswer(1)
	})
}

// Membership is looked at again when the last vote falls: somebody who has left
// the group meanwhile does not count.
func TestMembershipWhenTheLastVoteFalls(t *testing.T) {
	t.Parallel()
	acrossRuns(t, func(t *testing.T, w *world) {
		w.ask("critical x")
		id := w.awaitApproval("approval-1")
		w.mu.Lock()
		w.groups = map[string][]string{"kim": {"oncall"}, "lee": {"oncall"}}
		w.mu.Unlock()
		vote := func(who string) workflows.Outcome {
			by := person(who)
			by.Groups = []string{"oncall"}
			return w.decide(workflows.Decision{ApprovalID: id, Verdict: workflows.VerdictApprove, By: by})
		}
		require.Equal(t, "Recorded: 1 of 2.", vote("mo").Text)
		vote("kim") // mo is not in the group any more
		w.eventually("one vote stays", func() bool {
			v, _ := w.view("approval-1")
			return v.Approval.Remark != "" && len(v.Approval.Votes) == 1 && v.Approval.Votes[0].By.ID == "kim"
		})
		require.Zero(t, w.runs(""))
		require.Equal(t, workflows.OutcomeRecorded, vote("lee").Outcome)
		w.awaitAnswer(1)
		require.Equal(t, 1, w.runs(""))
	})
}

// So are the settings: where nobody may approve any more, nobody does.
func TestSettingsWhenTheLastVoteFalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.ask("risky x")
	id := w.awaitApproval("approval-1")
	now := func(r workflows.ApprovalRule) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.rule = r
	}
	now(workflows.ApprovalRule{Required: 1, TTL: time.Hour})
	w.decide(workflows.Decision{ApprovalID: id, Verdict: workflows.VerdictApprove, By: person("grace")})
	w.eventually("the vote does not count", func() bool {
		v, _ := w.view("approval-1")
		return v.Approval.Remark != "" && v.Approval.State == workflows.ApprovalPending && len(v.Approval.Votes) == 0
	})
	require.Zero(t, w.runs(""))
	require.Equal(t, workflows.OutcomeNotYours, w.decide(workflows.Decision{ApprovalID: id, Verdict: workflows.VerdictApprove, By: person("grace")}).Outcome)
	w.checkAudit()
}

func TestBotsGuestsAndOutsidersNeverCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.ask("risky x")
	id := w.awaitApproval("approval-1")
	for _, by := range []workflows.Actor{{ID: "grace", Bot: true}, {ID: "grace", Guest: true}, {ID: "grace", External: true}} {
		for _, verdict := range []string{workflows.VerdictApprove, workflows.VerdictDeny} {
			require.Equal(t, workflows.OutcomeNotYours, w.decide(workflows.Decision{ApprovalID: id, Verdict: verdict, By: by}).Outcome)
		}
	}
	for name, clock := range map[string]time.Duration{"old": -time.Minute, "from a clock that has jumped ahead": time.Minute} {
		out := answered(w, func() (workflows.Outcome, error) {
			return w.control.Decide(t.Context(), w.id(), workflows.Decision{
				ApprovalID: id, Verdict: workflows.VerdictApprove, By: person("grace"), Interaction: name, ClickedAt: time.Now().Add(clock),
			})
		})
		require.Equal(t, workflows.OutcomeUnconfirmed, out.Outcome, name)
	}
	var err error
	w.eventually("an answer", func() bool {
		_, err = w.control.Decide(t.Context(), w.id(), workflows.Decision{ApprovalID: "another.a1", Verdict: workflows.VerdictApprove, By: person("grace"), Interaction: "x", ClickedAt: time.Now()})
		return !errors.Is(err, workflows.ErrUnconfirmed)
	})
	require.ErrorContains(t, err, "no approval")
	require.Zero(t, w.runs(""))
	w.checkAudit()
}
