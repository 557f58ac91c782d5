package slack

import (
	"context"
	"fmt"
	"strings"

	"github.com/slack-go/slack"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/workflows"
)

// Action IDs of a home's buttons, beside those of cards and the names of commands.
const (
	actionRefresh = "home_refresh"
	actionOpen    = "open"
)

// shownInHome bounds a command in a home.
const shownInHome = 300

// homeTab collects a home's blocks.
type homeTab struct {
	app    *App
	blocks []slack.Block
}

func (h *homeTab) add(b ...slack.Block) { h.blocks = append(h.blocks, b...) }

// view is the home: at most the 100 blocks that Slack takes.
func (h *homeTab) view() slack.HomeTabViewRequest {
	refresh := slack.NewActionBlock("", slack.NewButtonBlockElement(actionRefresh, "refresh", plain("Refresh", maxButton)))
	blocks := h.blocks[:min(len(h.blocks), maxViewBlocks-1)]
	return slack.HomeTabViewRequest{Type: slack.VTHomeTab, CallbackID: "home", Blocks: slack.Blocks{BlockSet: append(blocks, refresh)}}
}

// waiting shows the requests that wait for the person.
func (h *homeTab) waiting(waits []homeWait, more bool) {
	h.add(slack.NewHeaderBlock(plain("Waiting for you", maxHeader)))
	if len(waits) == 0 {
		h.add(textBlock("No request waits for your decision."))
	}
	for _, w := range waits {
		var r richText
		r.box(cut(chat.ApprovalCommand(w.approval), shownInHome))
		line := h.link(w.homeRow) + " · " + escape(w.approval.Tier) + " · in " + escape(chat.Where(w.approval))
		h.add(mrkdwnLine(line), r.block(), h.decide(w))
	}
	if more {
		h.add(textBlock("More requests wait than are shown here."))
	}
}

// decide are a request's buttons. It is approved from Review, which shows all that
// it covers.
func (h *homeTab) decide(w homeWait) slack.Block {
	at := refOf(w.Thread)
	at.Workflow, at.Approval, at.Key = w.WorkflowID, w.approval.ID, w.key
	var elements []slack.BlockElement
	if !w.approval.UnknownRun && w.approval.Tier != workflows.TierBudget && w.approval.Tier != workflows.TierHost {
		elements = append(elements,
			slack.NewButtonBlockElement(workflows.ButtonReview, at.encode(), plain("Review…", maxButton)),
			slack.NewButtonBlockElement(workflows.ButtonDeny, at.encode(), plain("Deny…", maxButton)))
	}
	return slack.NewActionBlock("", append(elements, h.open(w.homeRow))...)
}

// sessions shows a person's sessions as a tree.
func (h *homeTab) sessions(ctx context.Context, by workflows.Actor, rows []homeRow) {
	h.add(slack.NewHeaderBlock(plain("Your sessions", maxHeader)))
	if len(rows) == 0 {
		h.add(textBlock("You have no session that has not ended. `/agent <task>` in a channel starts one."))
	}
	for _, r := range rows[:min(len(rows), homeSessions)] {
		standing := h.app.plain.Style.Liveness(workflows.HeaderView{Liveness: r.Liveness, Waiting: r.waiting})
		line := strings.Repeat("      ", min(r.depth, 8))
		if r.depth > 0 {
			line += "↳ "
		}
		line += h.link(r) + " · " + escape(r.Backend) + " · " + escape(standing)
		if r.By.ID != by.ID {
			line += " · by " + escape(chat.Shown(r.By.Label()))
		}
		h.add(mrkdwnLine(line), h.commands(ctx, by, r))
	}
	if n := len(rows) - homeSessions; n > 0 {
		h.add(textBlock(fmt.Sprintf("And %s; `list` names them all.", chat.Count(n, "older one", "older ones"))))
	}
}

// commands are the buttons of a session: what the person may do with it.
func (h *homeTab) commands(ctx context.Context, by workflows.Actor, r homeRow) slack.Block {
	at := refOf(r.Thread)
	at.Workflow = r.WorkflowID
	elements := []slack.BlockElement{h.open(r)}
	offer := func(v chat.Verb, label string) {
		if h.app.allow(ctx, by, v, r.Thread) == nil {
			elements = append(elements, slack.NewButtonBlockElement(string(v), at.encode(), plain(label, maxButton)))
		}
	}
	switch r.Liveness {
	case workflows.LivenessWaiting:
		offer(chat.VerbStop, "Stop")
	case workflows.LivenessActive:
		offer(chat.VerbStop, "Stop")
		offer(chat.VerbPause, "Pause")
	}
	return slack.NewActionBlock("", elements...)
}

// open is the link to a session's thread.
func (h *homeTab) open(r homeRow) slack.BlockElement {
	e := slack.NewButtonBlockElement(actionOpen, "", plain("Open thread", maxButton))
	e.URL = h.app.link(r.Thread)
	return e
}

// link is a session's title as a link to its thread.
func (h *homeTab) link(r homeRow) string {
	title := escape(cut(chat.Shown(h.app.dep.Mask.Text(r.Title)), 200))
	if title == "" {
		title = "Untitled"
	}
	if to := h.app.link(r.Thread); to != "" {
		return "*<" + to + "|" + strings.ReplaceAll(title, "|", "¦") + ">*"
	}
	return "*" + title + "*"
}

// mrkdwnLine is one composed line of mrkdwn, in which nothing is parsed but our own
// links.
func mrkdwnLine(mrkdwn string) slack.Block {
	return slack.NewSectionBlock(slack.NewTextBlockObject(slack.MarkdownType, cut(mrkdwn, maxSection), false, true), nil, nil)
}
