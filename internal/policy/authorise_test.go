package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/countersign/countersign/internal/policy"
)

var (
	ada   = policy.Person{ID: "ada"}
	grace = policy.Person{ID: "grace", Groups: []string{"platform-oncall"}}
	linus = policy.Person{ID: "linus", Groups: []string{"@platform-oncall", "dev"}}
	mary  = policy.Person{ID: "mary"}
)

func approve(p policy.Person) policy.Vote { return policy.Vote{By: p} }
func deny(p policy.Person) policy.Vote    { return policy.Vote{By: p, Deny: true} }

func TestAuthoriseOnePerson(t *testing.T) {
	t.Parallel()
	rule := policy.Rule{Required: 1, Approvers: []string{"@platform-oncall", "mary"}}
	for name, tc := range map[string]struct {
		rule    policy.Rule
		by      policy.Person
		asked   []string
		votes   []policy.Vote
		refusal policy.Refusal
		text    string
	}{
		"by group":           {rule, grace, []string{"ada"}, nil, "", ""},
		"by name":            {rule, mary, []string{"ada"}, nil, "", ""},
		"nobody listed":      {rule, ada, nil, nil, policy.RefusalNotApprover, "This needs @platform-oncall or @mary."},
		"the requester":      {rule, grace, []string{"ada", "grace"}, nil, policy.RefusalRequester, "Your messages are part of this turn, so somebody else must approve. This needs @platform-oncall or @mary."},
		"requester allowed":  {policy.Rule{Approvers: []string{"*"}, RequesterMayApprove: true}, ada, []string{"ada"}, nil, "", ""},
		"everybody":          {policy.Rule{Approvers: []string{"*"}}, ada, []string{"mary"}, nil, "", ""},
		"no approvers":       {policy.Rule{}, ada, nil, nil, policy.RefusalNoApprovers, "Nobody may approve here: no approvers are set. Set approvals.approvers, and ask again."},
		"a bot":              {policy.Rule{Approvers: []string{"*"}}, policy.Person{ID: "b", Bot: true}, nil, nil, policy.RefusalBot, "Bots may not decide requests."},
		"a listed bot":       {policy.Rule{Approvers: []string{"b"}}, policy.Person{ID: "b", Bot: true}, nil, nil, policy.RefusalBot, "Bots may not decide requests."},
		"a guest":            {policy.Rule{Approvers: []string{"*"}}, policy.Person{ID: "g", Guest: true}, nil, nil, policy.RefusalGuest, "Guests may not decide requests. This needs anybody here."},
		"an outsider":        {policy.Rule{Approvers: []string{"x"}}, policy.Person{ID: "x", External: true}, nil, nil, policy.RefusalExternal, "People of other organisations may not decide requests. This needs @x."},
		"an unknown person":  {policy.Rule{Approvers: []string{"*"}}, policy.Person{}, nil, nil, policy.RefusalNotApprover, "This needs anybody here."},
		"approved already":   {rule, mary, nil, []policy.Vote{approve(grace)}, policy.RefusalDecided, "@grace already approved this."},
		"denied already":     {rule, mary, nil, []policy.Vote{deny(grace)}, policy.RefusalDecided, "@grace already denied this."},
		"decided, outsiders": {rule, ada, nil, []policy.Vote{deny(grace)}, policy.RefusalNotApprover, "This needs @platform-oncall or @mary."},
		"voted already":      {policy.Rule{Required: 2, Approvers: []string{"*"}}, mary, nil, []policy.Vote{approve(mary)}, policy.RefusalAlreadyVoted, "You have approved this already: 1 of 2."},
		"an empty name":      {policy.Rule{Approvers: []string{""}}, policy.Person{ID: "x", Groups: []string{""}}, nil, nil, policy.RefusalNotApprover, "This needs nobody."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := policy.Authorise(tc.rule, tc.by, tc.asked, tc.votes)
			require.Equal(t, tc.refusal, o.Refusal)
			require.Equal(t, tc.text, o.Text)
			require.Equal(t, tc.refusal == policy.RefusalNone, o.MayApprove)
		})
	}
}

func TestQuorum(t *testing.T) {
	t.Parallel()
	rule := policy.Rule{Required: 2, Approvers: []string{"*"}}
	tally := func(votes ...policy.Vote) policy.Outcome { return policy.Tally(rule, []string{"ada"}, votes) }
	require.Equal(t, policy.StatePending, tally().State)
	require.Equal(t, policy.StatePending, tally(approve(grace)).State)
	require.Equal(t, policy.StatePending, tally(approve(grace), approve(grace)).State, "distinct people")
	require.Equal(t, policy.StatePending, tally(approve(grace), approve(ada)).State, "the requester does not count")
	at := time.Unix(100, 0)
	o := tally(approve(grace), policy.Vote{By: mary, At: at})
	require.Equal(t, policy.StateApproved, o.State)
	require.Equal(t, "mary", o.DecidedBy)
	require.Equal(t, at, o.DecidedAt)
	require.Equal(t, []string{"grace", "mary"}, o.Approvals)
	require.Equal(t, policy.StateDenied, tally(approve(grace), deny(linus), approve(mary)).State, "one denial ends it")
	require.Equal(t, policy.StateDenied, tally(deny(ada)).State, "an approver who asked may still say no")
	require.Equal(t, policy.StatePending, policy.Tally(policy.Rule{Approvers: []string{"grace"}}, nil, []policy.Vote{deny(mary)}).State, "a stranger's denial is nothing")
	gone := grace
	gone.Groups = nil
	oncall := policy.Rule{Required: 2, Approvers: []string{"platform-oncall"}}
	require.Equal(t, policy.StatePending, policy.Tally(oncall, nil, []policy.Vote{approve(gone), approve(linus)}).State, "membership as it is at the last vote")
	require.Equal(t, policy.StateApproved, policy.Tally(oncall, nil, []policy.Vote{approve(grace), approve(linus)}).State)
}

// TestNoQuorumWithoutEnoughPeople: whatever the votes, an approval rests on
// Required distinct people, none of them a bot, guest, outsider or requester.
func TestNoQuorumWithoutEnoughPeople(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		person := rapid.Custom(func(t *rapid.T) policy.Person {
			return policy.Person{
				ID: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "id"), Groups: rapid.SliceOfN(rapid.SampledFrom([]string{"g", "h"}), 0, 2).Draw(t, "groups"),
				Bot: rapid.IntRange(0, 5).Draw(t, "bot") == 0, Guest: rapid.IntRange(0, 5).Draw(t, "guest") == 0, External: rapid.IntRange(0, 5).Draw(t, "external") == 0,
			}
		})
		rule := policy.Rule{
			Required: rapid.IntRange(0, 3).Draw(t, "required"), RequesterMayApprove: rapid.Bool().Draw(t, "self"),
			Approvers: rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "g", "*"}), 0, 3).Draw(t, "approvers"),
		}
		requesters := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 2).Draw(t, "requesters")
		votes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) policy.Vote {
			return policy.Vote{By: person.Draw(t, "by"), Deny: rapid.IntRange(0, 6).Draw(t, "deny") == 0}
		}), 0, 8).Draw(t, "votes")
		o := policy.Tally(rule, requesters, votes)
		good := map[string]bool{}
		for _, v := range votes {
			if !v.Deny && policy.Authorise(rule, v.By, requesters, nil).MayApprove {
				good[v.By.ID] = true
			}
		}
		if o.State == policy.StateApproved && len(good) < max(1, rule.Required) {
			t.Fatalf("approved by %v of %+v", good, votes)
		}
		for _, id := range o.Approvals {
			if !good[id] {
				t.Fatalf("%s counts in %+v", id, votes)
			}
		}
	})
}

func TestMayAct(t *testing.T) {
	t.Parallel()
	guest := policy.Person{ID: "guest", Guest: true}
	for _, tc := range []struct {
		action    policy.Action
		by        policy.Person
		allowed   []string
		approvers []string
		want      bool
		text      string
	}{
		{policy.ActionMessage, mary, nil, nil, true, ""},
		{policy.ActionStop, guest, nil, nil, true, ""},
		{policy.ActionFork, mary, nil, nil, true, ""},
		{policy.ActionDestroy, ada, nil, nil, true, ""},
		{policy.ActionDestroy, mary, nil, nil, false, "This needs @ada, who started the session."},
		{policy.ActionSwitch, grace, nil, []string{"platform-oncall"}, true, ""},
		{policy.ActionSwitch, mary, nil, []string{"platform-oncall"}, false, "This needs @ada, who started the session, or an approver: @platform-oncall."},
		{policy.ActionSwitch, guest, nil, []string{"*"}, false, "This needs @ada, who started the session, or an approver: anybody here."},
		{policy.ActionMessage, mary, []string{"grace"}, nil, false, "This needs @grace."},
		{policy.ActionRevoke, grace, []string{"grace"}, nil, true, ""},
		{policy.ActionMessage, policy.Person{ID: "b", Bot: true}, nil, nil, false, "Bots and people of other organisations may not act on this session."},
		{policy.ActionMessage, policy.Person{ID: "x", External: true}, []string{"*"}, nil, false, "Bots and people of other organisations may not act on this session."},
	} {
		ok, text := policy.MayAct(tc.action, tc.by, "ada", tc.allowed, tc.approvers)
		require.Equal(t, tc.want, ok, "%s by %s", tc.action, tc.by.ID)
		require.Equal(t, tc.text, text)
	}
}
