package slack

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slack-go/slack"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/workflows"
)

// drawing renders one message.
type drawing struct {
	m     *markup
	style chat.Style
	c     chat.Content
	// pings lets the fallback text mention approvers: when a card is posted.
	pings bool
}

func draw(c chat.Content, groups []group, pings bool) drawing {
	m := newMarkup(groups)
	if c.View.Approval != nil {
		m.pings = c.View.Approval.Notify
	}
	return drawing{m: m, style: m.style(), c: c, pings: pings}
}

// card renders the messages that fit into one: header, turn card, approval card.
func (d drawing) card() rendered {
	var blocks []slack.Block
	switch v := d.c.View; {
	case v.Header != nil:
		blocks = d.header(*v.Header)
	case v.Turn != nil:
		blocks = d.turn(*v.Turn)
	case v.Approval != nil:
		blocks = d.approval(*v.Approval)
	}
	return rendered{text: d.fallback(d.style.Text(d.c.View, d.c.Text) + d.others()), blocks: withIDs(d.c.View.Key, blocks)}
}

// others mentions, beside the text, those whom a new card is to notify though
// they are no approvers by name.
func (d drawing) others() string {
	if d.c.View.Approval == nil || !d.pings {
		return ""
	}
	text := ""
	for _, n := range d.c.View.Approval.Notify {
		if n != "*" && !slices.Contains(d.c.View.Approval.Approvers, n) {
			text += " " + d.style.Approver(n)
		}
	}
	return text
}

// fallback is a text beside blocks. Escaping may make five characters of one, so
// it is cut again until it fits chat.update.
func (d drawing) fallback(s string) string {
	pieces := d.m.pieces(s)
	for n := fallbackText; ; n /= 2 {
		if out := mrkdwn(pieces, n, d.pings); len(out) <= maxText-100 || n < 100 {
			return out
		}
	}
}

// line is one composed line as rich text.
func (d drawing) line(s string, style *slack.RichTextSectionTextStyle) []slack.RichTextSectionElement {
	return rich(d.m.pieces(s), style)
}

// menu are the commands of the header's menu. Slack's overflow menu holds five
// items, so it is a select.
func menu() []chat.Verb {
	return []chat.Verb{
		chat.VerbStop, chat.VerbStatus, chat.VerbHistory, chat.VerbSwitch, chat.VerbFork, chat.VerbTitle, chat.VerbModel,
		chat.VerbPause, chat.VerbGrants, chat.VerbFiles, chat.VerbDone, chat.VerbDestroy,
	}
}

func menuLabel(v chat.Verb) string {
	switch v {
	case chat.VerbStop:
		return "Stop the running turn"
	case chat.VerbStatus:
		return "Status"
	case chat.VerbHistory:
		return "History"
	case chat.VerbSwitch:
		return "Switch backend…"
	case chat.VerbFork:
		return "Fork…"
	case chat.VerbTitle:
		return "Change title…"
	case chat.VerbModel:
		return "Change model…"
	case chat.VerbPause:
		return "Pause"
	case chat.VerbGrants:
		return "Grants"
	case chat.VerbFiles:
		return "Files"
	case chat.VerbDone:
		return "Done…"
	case chat.VerbDestroy:
		return "Destroy…"
	}
	return string(v)
}

func menuSelect(placeholder string, action string) *slack.SelectBlockElement {
	var options []*slack.OptionBlockObject
	for _, v := range menu() {
		options = append(options, slack.NewOptionBlockObject(string(v), plain(menuLabel(v), maxButton), nil))
	}
	return slack.NewOptionsSelectBlockElement(slack.OptTypeStatic, plain(placeholder, 150), action, options...)
}

func (d drawing) header(h workflows.HeaderView) []slack.Block {
	blocks := []slack.Block{slack.NewHeaderBlock(plain(chat.Shown(h.Title), maxHeader))}
	line := d.style.HeaderLine(h)
	if h.Liveness == workflows.LivenessDestroyed {
		var r richText
		r.add(d.line(line, nil))
		blocks = append(blocks, r.block())
	} else {
		// Alive, the line holds no time, so it can be literal beside the menu.
		blocks = append(blocks, slack.NewSectionBlock(plain(line, maxSection), nil,
			slack.NewAccessory(menuSelect("Session…", actionMenu))))
	}
	if notice := chat.Shown(h.Notice); notice != "" {
		blocks = append(blocks, slack.NewContextBlock("", plain(notice, maxContext)))
	}
	return blocks
}

func (d drawing) turn(t workflows.TurnView) []slack.Block {
	var r richText
	r.upTo(summaryShown, d.line(d.style.TurnSummary(t), bold()))
	calls, folded := chat.VisibleCalls(t)
	switch {
	case folded > 0 && t.State == workflows.TurnWorking:
		r.add(texts(fmt.Sprintf("… %d earlier", folded), nil))
	case folded > 0 && len(calls) > 0:
		r.add(texts(fmt.Sprintf("… %d more", folded), nil))
	}
	running := 0
	for _, c := range calls {
		if c.State == workflows.CallRunning {
			running++
		}
	}
	for _, c := range calls {
		r.add(d.call(c))
		if tail := tailOf(c, max(2, 10/max(running, 1))); tail != "" {
			r.box(tail)
		}
	}
	if note := chat.Remark(t); note != "" {
		r.add(texts(note, nil))
	}
	if what, tail := chat.ModelSays(t); what != "" {
		r.add(texts(what, nil))
		r.box(tail)
	}
	if t.Queued > 0 && t.State == workflows.TurnWorking {
		r.add(texts(chat.Count(t.Queued, "message is", "messages are")+" queued.", nil))
	}
	blocks := []slack.Block{r.block()}
	if len(d.c.View.Buttons) > 0 {
		at := refOf(d.c.Thread)
		at.Turn, at.First, at.Last = t.Number, t.Trail.First, t.Trail.Last
		blocks = append(blocks, actions(d.c.View.Buttons, at))
	}
	return blocks
}

// call is a tool call's line.
func (d drawing) call(c workflows.CallView) []slack.RichTextSectionElement {
	command, more, _ := strings.Cut(chat.ShownLines(c.Command), "\n")
	if more != "" {
		command += " …"
	}
	if command == "" {
		command = c.Tool
	}
	line := texts(chat.CallMark(c.State)+" ", nil)
	line = append(line, texts(cut(command, shownLine), inCode())...)
	state := richText{}
	return append(line, state.fit(d.line("  "+d.style.CallState(c), nil), stateShown)...)
}

// tailOf is the last lines of a running command's output.
func tailOf(c workflows.CallView, lines int) string {
	if c.State != workflows.CallRunning || c.Tail == "" {
		return ""
	}
	var out []string
	for l := range strings.SplitSeq(chat.Tail(c.Tail, lines), "\n") {
		out = append(out, cut(l, tailLine))
	}
	return strings.TrimRight(strings.Join(out, "\n"), "\n")
}

func (d drawing) approval(a workflows.ApprovalView) []slack.Block {
	command := chat.ApprovalCommand(a)
	whole := length(command) <= shownCommand
	if !whole {
		command = cut(command, shownCommand) + "\nReview shows the whole command."
	}
	var r richText
	r.upTo(titleShown, d.line(d.style.ApprovalTitle(a), bold()))
	if where := chat.Where(a); where != "" {
		r.add(texts(cut("In "+where+":", whereShown), nil))
		if length("In "+where+":") > whereShown {
			whole = false
			command += "\n… Review shows the whole directory."
		}
	}
	r.box(command)
	for _, l := range []string{cut(chat.Reasons(a), reasonsShown), cut(chat.Evidence(a.Evidence), evidenceShown)} {
		if l != "" {
			r.add(rich([]piece{{text: l}}, nil))
		}
	}
	if a.State == workflows.ApprovalPending {
		r.upTo(askedShown, d.line(d.style.AskedFor(a), nil))
		if a.Queued > 0 {
			r.add(texts(chat.Count(a.Queued, "message waits", "messages wait")+" behind this request.", nil))
		}
	}
	if out := d.style.ApprovalOutcome(a); out != "" {
		r.upTo(outcomeShown, d.line(out, bold()))
	}
	blocks := []slack.Block{r.block()}
	buttons := d.c.View.Buttons
	if !whole || !chat.Faithful(a) {
		buttons = slices.DeleteFunc(slices.Clone(buttons), func(b workflows.Button) bool { return approves(b.ID) })
	}
	if len(buttons) > 0 {
		at := refOf(d.c.Thread)
		at.Approval, at.Key = a.ID, d.c.View.Key
		if a.UnknownRun { // where its output is
			at.Turn = chat.CallTurn(a.CallID)
		}
		if whole && chat.Faithful(a) {
			at.Digest = a.Digest
		}
		blocks = append(blocks, actions(buttons, at))
	}
	return blocks
}
