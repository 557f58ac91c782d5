package chat

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/workflows"
)

// maxRevokeButtons is how many permissions get a button of their own; a Slack
// message's row holds 25, a Discord one's 5 rows of 5.
const maxRevokeButtons = 10

// grants lists a session's standing permissions, with a button to end each.
func (r *Router) grants(ctx context.Context, ev Event) (Reply, error) {
	all, err := r.Grants(ctx, ev.Thread)
	if err != nil {
		return Reply{}, err
	}
	if len(all) == 0 {
		return Reply{Text: "There are no standing permissions: every risky command is asked about."}, nil
	}
	lines := []string{"Standing permissions in this thread, each for this exact command:", ""}
	var buttons []workflows.Button
	for i, g := range all {
		lines = append(lines, strings.Join([]string{
			"- " + Code(g.ID), Code(Cut(g.Command, 200)), "by " + Escape(r.Style.Person(g.By)), "until " + r.Style.Clock(g.Until),
		}, " · "))
		if i < maxRevokeButtons {
			buttons = append(buttons, workflows.Button{ID: ButtonRevoke + g.ID, Label: "Revoke " + g.ID})
		}
	}
	if len(all) > maxRevokeButtons {
		lines = append(lines, "", "`grants revoke <id>` ends any of them.")
	}
	return Reply{Text: strings.Join(lines, "\n"), Question: QuestionGrants, Buttons: buttons}, nil
}

// Grants are the permissions that stand in a thread now, oldest first. The error
// is an [*Error].
func (r *Router) Grants(ctx context.Context, t workflows.Thread) ([]workflows.Grant, error) {
	st, err := r.Sessions.TurnState(ctx, t.WorkflowID())
	if err != nil {
		return nil, failure(err)
	}
	return standing(st.Grants), nil
}

// standing leaves out permissions whose time is over: a session drops them only
// when it next looks.
func standing(all []workflows.Grant) []workflows.Grant {
	return slices.DeleteFunc(slices.Clone(all), func(g workflows.Grant) bool { return !time.Now().Before(g.Until) })
}
