package agent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/agent"
	"github.com/countersign/countersign/internal/agent/agenttest"
	"github.com/countersign/countersign/internal/workflows"
)

// A call is made only while every budget has something left. A person's day counts
// over all sessions of the same place, and no others.
func TestBudgets(t *testing.T) {
	t.Parallel()
	s := agenttest.New(t, agenttest.Answer{Output: []any{agenttest.Says("fine")}, InputTokens: 1000, OutputTokens: 100})
	b := strictly(t, s, agent.Options{
		Prices:  map[string]agent.Price{"gpt-test": {Input: 1_000_000, Cached: 1_000_000, Output: 10_000_000}},
		Budgets: agent.Budgets{Turn: 10_000, Session: 50_000, PersonDay: 5000},
		Rules: func(tier, channel string) workflows.ApprovalRule {
			return workflows.ApprovalRule{Required: 1, Approvers: []string{tier + "@" + channel}}
		},
	})
	in := func(sp workflows.Spending) workflows.ModelInput {
		sp.Payer, sp.Date = "ada", "2026-11-30"
		return workflows.ModelInput{Append: []workflows.Item{message("hi")}, Spent: sp, Channel: "C1"}
	}
	require.Nil(t, b.must(in(workflows.Spending{})).Over)
	got := b.must(in(workflows.Spending{Turn: 10_000})).Over
	require.Equal(t, &workflows.OverBudget{
		Budget: "turn", Spent: 10_000, Limit: 10_000, Next: 20_000,
		Rule: workflows.ApprovalRule{Required: 1, Approvers: []string{"risky@C1"}},
	}, got)
	require.Nil(t, b.must(in(workflows.Spending{Turn: 10_000, Raised: map[string]int64{"turn": 20_000}})).Over)
	got = b.must(in(workflows.Spending{Turn: 7000, Session: 120_000})).Over
	require.Equal(t, "session", got.Budget)
	require.EqualValues(t, 150_000, got.Next)

	// 2,000 a call, and 1,000 before: calls in two sessions use the day up for a third.
	for _, id := range []string{"agent/web/main/other", "agent/slack/T1/C1/1.2"} {
		other := in(workflows.Spending{Day: workflows.Usage{Micros: 1000}})
		other.WorkflowID = id
		require.Nil(t, b.must(other).Over, id)
	}
	third := in(workflows.Spending{})
	third.WorkflowID = "agent/web/main/third"
	got = b.must(third).Over
	require.Equal(t, "person_day", got.Budget)
	require.EqualValues(t, 5000, got.Spent, "what was spent on this site")
	elsewhere := third
	elsewhere.Spent.Date = "2026-12-01"
	require.Nil(t, b.must(elsewhere).Over, "a new day")

	spent, err := agent.SpentOn(t.Context(), b.blobs, "2026-11-30")
	require.NoError(t, err)
	require.Len(t, spent, 3)
	require.Equal(t, "ada", spent[0].Person)

	n := len(s.Requests())
	_, err = b.call(workflows.ModelInput{Model: "gpt-unpriced", Append: []workflows.Item{message("hi")}})
	require.Contains(t, applicationError(t, err).Message(), "has no price")
	require.Len(t, s.Requests(), n, "nothing is asked of a model that cannot be counted")
}
