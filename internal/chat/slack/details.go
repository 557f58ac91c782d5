package slack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// Actions of the modals about a turn. The number of a call, or of a page, follows.
const (
	actionOutput = "output:"
	actionPage   = "page:"
	actionFile   = "file"
	actionShare  = "share"
)

const (
	viewDetails = "details"
	viewOutput  = "output"
)

// details opens a turn's details at once and fills them.
func (a *App) details(ctx context.Context, i interaction, r ref) {
	id, err := a.openView(ctx, i.TriggerID, waitingView("Details", "Reading what is on record…"))
	if err != nil {
		a.sorry(ctx, i)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, outcomeWithin)
	defer cancel()
	a.updateView(ctx, id, a.detailsOf(ctx, i.User.ID, r))
}

// detailsOf is the modal with a turn's calls, or with why they are not known.
func (a *App) detailsOf(ctx context.Context, user string, r ref) slack.ModalViewRequest {
	d, err := a.readDetails(ctx, user, r)
	if err != nil {
		return textView("Details", words(err))
	}
	return detailsView(r, d)
}

func (a *App) readDetails(ctx context.Context, user string, r ref) (chat.Details, error) {
	by, err := a.people.actor(ctx, user)
	if err != nil {
		a.log.Warn("Details refused", telemetry.KeyError, err)
		return chat.Details{}, &chat.Error{
			Kind: chat.KindUnavailable, Code: "person_unknown", Message: "Slack did not say who you are, so nothing is shown.", Hint: "Try again in a moment.",
		}
	}
	return a.plain.Details(ctx, by, a.refThread(r), r.Turn, r.trail())
}

// detailsView shows a page of a turn's calls.
func detailsView(r ref, d chat.Details) slack.ModalViewRequest {
	if len(d.Calls) == 0 {
		return textView("Details", chat.NoCalls)
	}
	calls, page, of := d.Page(r.Page, callsShown)
	r.Page = page
	m := newMarkup(nil)
	style := m.style()
	head := fmt.Sprintf("Turn %d · %s", d.Turn, chat.Count(len(d.Calls), "call", "calls"))
	if of > 1 {
		head += fmt.Sprintf(" · page %d of %d", page, of)
	}
	blocks := []slack.Block{slack.NewContextBlock("", plain(head, maxContext))}
	for _, c := range calls {
		blocks = append(blocks, callBlock(m, style, c))
		if c.Exec != "" {
			blocks = append(blocks, slack.NewActionBlock("", slack.NewButtonBlockElement(actionOutput+strconv.Itoa(c.N), "", plain("Output of "+strconv.Itoa(c.N), maxButton))))
		}
	}
	var foot []slack.BlockElement
	button := func(id, label string) {
		foot = append(foot, slack.NewButtonBlockElement(id, "", plain(label, maxButton)))
	}
	if page > 1 {
		button(actionPage+strconv.Itoa(page-1), "Earlier calls")
	}
	if page < of {
		button(actionPage+strconv.Itoa(page+1), "Later calls")
	}
	button(actionFile, "Post all of this as a file in the thread")
	blocks = append(blocks, slack.NewActionBlock("", foot...))
	return modal(viewDetails, "Details", r.encode(), withIDs("details", blocks)...)
}

// callBlock is one call: how it ended, the command, what else is on record.
func callBlock(m *markup, style chat.Style, c chat.CallDetail) slack.Block {
	var r richText
	r.add(rich(m.pieces(strconv.Itoa(c.N)+". "+style.Outcome(c)), bold()))
	command := chat.ShownLines(c.Command)
	if length(command) > commandShown {
		command = cut(command, commandShown) + fmt.Sprintf("\n… %d characters in all: the file has them", length(command))
	}
	if strings.TrimSpace(command) != "" {
		r.box(command)
	}
	for _, l := range style.Facts(c) {
		r.add(rich(m.pieces(cut(l, factShown)), nil))
	}
	return r.block()
}

// trail is where the record of the turn is that a button is about.
func (r ref) trail() workflows.Trail { return workflows.Trail{First: r.First, Last: r.Last} }

// pressedInView takes a click on a button of a modal of ours.
func (a *App) pressedInView(ctx context.Context, i interaction) {
	act := i.Actions[0]
	r, ok := decodeRef(i.View.Private)
	if !ok || !a.taken.first("click/"+i.User.ID+"/"+i.View.ID+"/"+act.ID+"/"+act.TS+i.TriggerID, true) {
		return
	}
	if !a.mayTouch(ctx, a.refThread(r)) {
		a.log.Info("A dialog names a session that is closed to the person", telemetry.KeyActorID, i.User.ID)
		a.updateView(ctx, i.View.ID, textView("Session", unseen().Text()))
		return
	}
	switch {
	case strings.HasPrefix(act.ID, actionPage):
		r.Page, _ = strconv.Atoi(strings.TrimPrefix(act.ID, actionPage)) // 0 is the newest
		ctx, cancel := context.WithTimeout(ctx, outcomeWithin)
		defer cancel()
		a.updateView(ctx, i.View.ID, a.detailsOf(ctx, i.User.ID, r))
	case strings.HasPrefix(act.ID, actionOutput):
		r.Call, _ = strconv.Atoi(strings.TrimPrefix(act.ID, actionOutput)) // 0 is no call's
		a.output(ctx, i, r)
	case strings.HasPrefix(act.ID, chat.ButtonRevoke):
		a.revoked(ctx, i, r)
	case act.ID == actionFile, act.ID == actionShare:
		a.shareFromView(ctx, i, r)
	}
}

// output opens a call's output above the details, at once, and fills it.
func (a *App) output(ctx context.Context, i interaction, r ref) {
	resp, err := a.api.PushViewContext(ctx, i.TriggerID, waitingView("Output", "Reading the output…"))
	if err != nil {
		a.log.Warn("Modal could not be opened", telemetry.KeyError, detail(err))
		a.background(ctx, answerWithin, func(ctx context.Context) {
			a.whisper(ctx, a.refThread(r), i.User.ID, "", notOpened)
		})
		return
	}
	ctx, cancel := context.WithTimeout(ctx, outcomeWithin)
	defer cancel()
	c, files, err := a.readOutput(ctx, i.User.ID, r)
	if err != nil {
		a.updateView(ctx, resp.View.ID, textView("Output", words(err)))
		return
	}
	a.updateView(ctx, resp.View.ID, outputView(r, c, files))
}

func (a *App) readOutput(ctx context.Context, user string, r ref) (chat.CallDetail, []chat.OutputFile, error) {
	d, err := a.readDetails(ctx, user, r)
	if err != nil {
		return chat.CallDetail{}, nil, err
	}
	c, ok := d.Call(r.Call)
	if !ok {
		return c, nil, &chat.Error{Kind: chat.KindNotFound, Code: "unknown_call", Message: "That call is not on record any more."}
	}
	by, err := a.people.actor(ctx, user)
	if err != nil {
		return c, nil, err
	}
	files, err := a.plain.Output(ctx, by, a.refThread(r), r.Turn, c, maxUpload)
	return c, files, err
}

// outputView shows the end of a call's output.
func outputView(r ref, c chat.CallDetail, files []chat.OutputFile) slack.ModalViewRequest {
	style := chat.PlainStyle(time.UTC)
	blocks := []slack.Block{textBlock(strconv.Itoa(c.N) + ". " + cut(chat.Shown(c.Command), shownLine)), textBlock(style.Outcome(c))}
	if len(files) == 0 {
		return modal(viewOutput, "Output", r.encode(), append(blocks, textBlock(chat.OutputSays(c)))...)
	}
	for _, f := range files {
		text := chat.Tail(f.Text, len(f.Text))
		label := f.Stream
		if over := length(text) - outputShown; over > 0 {
			text = string([]rune(text)[over:])
			label += fmt.Sprintf(", the last %d characters of %s", outputShown, chat.Size(f.Bytes))
		}
		blocks = append(blocks, textBlock(label+":"))
		blocks = append(blocks, boxes(text)...)
	}
	blocks = append(blocks, slack.NewActionBlock("", slack.NewButtonBlockElement(actionShare, "", plain("Post the whole output as a file in the thread", maxButton))))
	return modal(viewOutput, "Output", r.encode(), withIDs("output", blocks)...)
}

// boxes are a text as preformatted blocks of a length that Slack takes.
func boxes(text string) []slack.Block {
	var out []slack.Block
	for rest := []rune(text); len(rest) > 0; {
		n := min(len(rest), maxSection)
		var b richText
		b.box(string(rest[:n]))
		out = append(out, b.block())
		rest = rest[n:]
	}
	return out
}

// shareFromView posts what a modal is about as files in the thread, once, and says
// so in the modal.
func (a *App) shareFromView(ctx context.Context, i interaction, r ref) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shareWithin)
	defer cancel()
	title := "Output"
	var files []chat.OutputFile
	again := false
	d, err := a.readDetails(ctx, i.User.ID, r)
	switch {
	case err != nil:
	case i.View.CallbackID == viewDetails:
		title = "Details"
		style := a.plain.Style
		style.Approver = func(id string) string {
			if who, err := a.people.actor(ctx, id); err == nil {
				return chat.Shown(who.Label())
			}
			return "@" + chat.Shown(id)
		}
		files = []chat.OutputFile{{Name: fmt.Sprintf("turn-%d-details.txt", r.Turn), Text: d.Text(style)}}
		again = slices.ContainsFunc(d.Calls, unended)
	default:
		var c chat.CallDetail
		c, files, err = a.readOutput(ctx, i.User.ID, r)
		again = unended(c)
	}
	if err == nil {
		err = a.share(ctx, a.refThread(r), files, again)
	}
	if err != nil {
		a.log.Warn("Files could not be shared", telemetry.KeyError, err)
		text := "Slack did not take it as a file (" + cmp.Or(code(err), "no answer") + "). Try again in a moment."
		var refused *chat.Error
		if errors.As(err, &refused) {
			text = refused.Text()
		}
		a.updateView(ctx, i.View.ID, textView(title, text))
		return
	}
	a.updateView(ctx, i.View.ID, textView(title, "Posted as a file in the thread."))
}

func unended(c chat.CallDetail) bool {
	return c.State == workflows.CallRunning || c.State == workflows.CallAwaiting || c.State == workflows.CallPending
}

// share uploads files to a thread, but for those that are there already, unless
// they may have grown since.
func (a *App) share(ctx context.Context, t workflows.Thread, files []chat.OutputFile, again bool) error {
	p := &poster{app: a}
	var there parts
	if !again {
		var err error
		if there, err = p.parts(ctx, t, "", time.Time{}); err != nil {
			return err
		}
	}
	for _, f := range files {
		if there.has("", f.Name) {
			continue
		}
		if err := p.upload(ctx, t, f.Name, f.Text); err != nil {
			return err
		}
	}
	return nil
}
