package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Two people side by side: both write, the agent is told who speaks, and a
// critical command takes two others.
func TestTwoPeopleAndACriticalCommand(t *testing.T) {
	t.Parallel()
	d := sharedDev(t)
	ada, grace, linus := d.as("ada"), d.as("grace"), d.as("linus")
	id := ada.opens(t, "`git push --force origin main`")
	th := grace.sees(t, id, "the request", waiting)
	m := th.pending()[0]
	require.Equal(t, "critical", m.Approval.Tier)
	require.Contains(t, m.Text, "0 of 2")

	mine := ada.click(t, m, "approve", nil)
	require.Equal(t, "not_yours", mine.Outcome)
	require.NotEmpty(t, mine.Text)
	require.Equal(t, "recorded", grace.click(t, m, "approve", nil).Outcome)
	th = ada.sees(t, id, "the first vote on the card", func(th thread) bool { return waiting(th) && len(th.pending()[0].Approval.Votes) == 1 })
	require.Equal(t, "grace", th.pending()[0].Approval.Votes[0].By)
	require.Contains(t, th.pending()[0].Text, "1 of 2")
	require.Equal(t, "already_decided", grace.click(t, m, "approve", nil).Outcome, "one person, one vote")
	require.Len(t, ada.thread(t, id).pending(), 1, "it still waits")
	require.Equal(t, "recorded", linus.click(t, m, "approve", nil).Outcome)
	th = ada.sees(t, id, "the answer", answered(1))
	require.Equal(t, "completed", th.calls(1)[0].State, "it ran, though there is nothing to push")

	grace.says(t, id, "and `echo from grace`")
	th = ada.sees(t, id, "grace is answered", answered(2))
	require.Contains(t, th.answer(2).Text, "from grace")
	var authors []string
	for _, m := range th.all("user") {
		authors = append(authors, m.Author)
	}
	require.Equal(t, []string{"ada", "grace"}, authors)
}

// Somebody who has written in the turn has asked for its commands too.
func TestEveryRequesterCounts(t *testing.T) {
	t.Parallel()
	d := sharedDev(t)
	ada, grace, linus := d.as("ada"), d.as("grace"), d.as("linus")
	id := ada.opens(t, "`"+untilGo+"`")
	th := ada.sees(t, id, "the command runs", running(1))
	grace.says(t, id, "then `git push --force origin main`")
	th.letGo(t)
	m := ada.sees(t, id, "the request", waiting).pending()[0]
	require.Equal(t, "not_yours", ada.click(t, m, "approve", nil).Outcome)
	require.Equal(t, "not_yours", grace.click(t, m, "approve", nil).Outcome)
	require.Equal(t, "recorded", linus.click(t, m, "deny", nil).Outcome)
	th = ada.sees(t, id, "the answer", answered(1))
	require.Equal(t, "denied", th.calls(1)[1].State)
}
