package chat

import (
	"slices"

	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/workflows"
)

// masked is c without secrets. Views are copied: they may be others' too.
func masked(m *mask.Masker, c Content) Content {
	c.Text = m.Text(c.Text)
	c.View.Text.Text = m.Text(c.View.Text.Text)
	if c.View.Header != nil {
		h := *c.View.Header
		h.Title, h.Notice = m.Text(h.Title), m.Text(h.Notice)
		c.View.Header = &h
	}
	if c.View.Turn != nil {
		c.View.Turn = maskedTurn(m, *c.View.Turn)
	}
	if c.View.Approval != nil {
		c.View.Approval = maskedApproval(m, *c.View.Approval)
	}
	return c
}

func maskedTurn(m *mask.Masker, t workflows.TurnView) *workflows.TurnView {
	t.Error, t.Hint = m.Text(t.Error), m.Text(t.Hint)
	t.Says.Thought, t.Says.Text = m.Text(t.Says.Thought), m.Text(t.Says.Text)
	t.Calls = slices.Clone(t.Calls)
	for i := range t.Calls {
		c := &t.Calls[i]
		c.Command, c.Tail, c.Note = m.Text(c.Command), m.Text(c.Tail), m.Text(c.Note)
	}
	return &t
}

func maskedApproval(m *mask.Masker, a workflows.ApprovalView) *workflows.ApprovalView {
	a.Command.Text = m.Text(a.Command.Text)
	a.Reasons, a.Evidence = m.Texts(a.Reasons), m.Texts(a.Evidence)
	a.Text, a.Original, a.Remark = m.Text(a.Text), m.Text(a.Original), m.Text(a.Remark)
	a.Votes = slices.Clone(a.Votes)
	for i := range a.Votes {
		a.Votes[i].Reason = m.Text(a.Votes[i].Reason)
	}
	return &a
}
