package chattest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/workflows"
)

// Live is a platform's adapter that receives what people do.
type Live struct {
	// Sessions is what it asks.
	Sessions *Sessions
	// Is makes the platform's thread that of a live session, with this state.
	Is func(workflows.TurnState)
	// Say writes a person's message in the thread.
	Say func(text string) (ref string)
	// Remove has each way in which the author or a moderator deletes a message there.
	Remove []func(ref string)
	// Approve clicks a card's approve button, as one of the approvers.
	Approve func(t *testing.T, ref string)
}

// patience bounds what a test waits for.
const patience = time.Minute

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, patience, 5*time.Millisecond, what)
}

// restoresCards: a request that waits must not be lost with its card. The card comes
// back without notifying anybody, it can be decided, and the session's next edit finds
// it. What is decided does not come back.
func restoresCards(t *testing.T, p Platform) {
	if p.Live == nil {
		t.Skip("nobody can delete a message")
	}
	live := p.Live()
	id := p.Thread.ID + ".a1"
	live.Is(workflows.TurnState{
		Turn: &workflows.TurnView{Number: 1, State: workflows.TurnWorking, StartedAt: time.Now()}, Approvals: []string{id},
	})
	v := workflows.MessageView{
		Key: workflows.ApprovalKey(id), Kind: workflows.KindApproval, Version: 1,
		Buttons: []workflows.Button{{ID: workflows.ButtonApprove, Label: "Approve once"}, {ID: workflows.ButtonDeny, Label: "Deny…"}},
		Approval: &workflows.ApprovalView{
			ID: id, State: workflows.ApprovalPending, Tier: "risky", Displayable: true, Backend: "local", Cwd: "/workspace", Digest: "sha256:0123456789abcdef0123",
			Command: workflows.TextRef{Text: "rm -rf build"}, Reasons: []string{"it deletes"}, Required: 1, Approvers: []string{"platform-oncall"},
		},
	}
	live.Sessions.SetView(v)
	d := delivery(p.Poster, live.Sessions)
	card, err := Deliver(t, d, workflows.ActivityPostMessage, postOf(p.Thread, v.Key))
	require.NoError(t, err)
	first := p.Read(t, p.Thread)
	require.Len(t, first, 1)
	require.NotEmpty(t, first[0].Pings)

	again := first[0]
	for _, remove := range live.Remove {
		remove(live.Say("not a card"))
		gone := again.Ref
		remove(gone)
		until(t, "the card stands again", func() bool {
			all := p.Read(t, p.Thread)
			if len(all) != 1 || all[0].Ref == gone {
				return false
			}
			again = all[0]
			return true
		})
		require.Equal(t, first[0].Text, again.Text)
		require.Equal(t, first[0].Buttons, again.Buttons)
		require.Empty(t, again.Pings, "its approvers were notified")
	}
	live.Approve(t, again.Ref)
	until(t, "the click is taken", func() bool { return len(live.Sessions.Asked("Decide")) > 0 })
	require.Equal(t, id, live.Sessions.Asked("Decide")[0].Arg.(workflows.Decision).ApprovalID)

	decided := *v.Approval
	decided.State, v.Version, v.Approval, v.Buttons = workflows.ApprovalDenied, 2, &decided, nil
	live.Sessions.SetView(v)
	res, err := Deliver(t, d, workflows.ActivityEditMessage, editOf(p.Thread, v.Key, card.Ref))
	require.NoError(t, err)
	require.Equal(t, again.Ref, res.Ref)
	now := p.Read(t, p.Thread)
	require.Len(t, now, 1)
	require.Contains(t, now[0].Text, "Denied")

	live.Remove[0](again.Ref)
	live.Say("go on")
	until(t, "the message is taken", func() bool {
		for _, c := range live.Sessions.Asked("SendMessage") {
			if c.Arg.(workflows.Message).Text.Text == "go on" {
				return true
			}
		}
		return false
	})
	require.Empty(t, p.Read(t, p.Thread), "what is decided is not posted again")
}
