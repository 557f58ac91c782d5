package slack

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/slack-go/slack"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// modal is an empty modal of ours.
func modal(callback, title, private string, blocks ...slack.Block) slack.ModalViewRequest {
	return slack.ModalViewRequest{
		Type: slack.VTModal, CallbackID: callback, PrivateMetadata: private,
		Title: plain(title, maxViewTitle), Close: plain("Close", maxViewTitle),
		Blocks: slack.Blocks{BlockSet: blocks},
	}
}

func withSubmit(v slack.ModalViewRequest, label string) slack.ModalViewRequest {
	v.Submit = plain(label, maxViewTitle)
	v.Close = plain("Cancel", maxViewTitle)
	return v
}

func textBlock(s string) slack.Block { return slack.NewSectionBlock(plain(s, maxSection), nil, nil) }

// waitingView is what a modal opens with until its content is known.
func waitingView(title, text string) slack.ModalViewRequest {
	return modal(viewWaiting, title, "", textBlock(text))
}

// textView is a modal that only says something, in Markdown.
func textView(title, markdown string) slack.ModalViewRequest {
	return modal(viewWaiting, title, "", markdownBlocksOf(markdown)...)
}

// markdownBlocksOf shows our Markdown in a modal, which takes no markdown block:
// as mrkdwn, in which code spans are written the same way.
func markdownBlocksOf(markdown string) []slack.Block {
	var blocks []slack.Block
	for _, p := range chat.SplitMarkdown(markdown, maxSection/5, 0) { // escaping may make five characters of one
		p = escape(strings.ReplaceAll(p, "**", "*"))
		blocks = append(blocks, slack.NewSectionBlock(slack.NewTextBlockObject(slack.MarkdownType, p, false, false), nil, nil))
	}
	if len(blocks) == 0 {
		blocks = append(blocks, textBlock(""))
	}
	if len(blocks) > maxViewBlocks {
		blocks = append(blocks[:maxViewBlocks-1], textBlock("…"))
	}
	return blocks
}

// openView opens a modal and returns its ID.
func (a *App) openView(ctx context.Context, trigger string, v slack.ModalViewRequest) (string, error) {
	resp, err := a.api.OpenViewContext(ctx, trigger, v)
	if err != nil {
		a.log.Warn("Modal could not be opened", telemetry.KeyError, detail(err))
		return "", err
	}
	return resp.View.ID, nil
}

// updateView fills a modal. One that was closed meanwhile needs none.
func (a *App) updateView(ctx context.Context, id string, v slack.ModalViewRequest) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
	defer cancel()
	if _, err := a.api.UpdateViewContext(ctx, v, "", "", id); err != nil && code(err) != "not_found" {
		a.log.Warn("Modal could not be filled", telemetry.KeyError, detail(err))
	}
}

// Block and action IDs of our inputs.
const (
	inputSession = "session"
	inputBackend = "backend"
	inputRoot    = "root"
	inputTitle   = "title"
	inputModel   = "model"
	inputReason  = "reason"
	inputVerb    = "verb"
	inputVerdict = "verdict"
	inputCommand = "command"
	inputAlone   = "break_glass"
	inputNote    = "note"
)

func input(id, label string, optional bool, e slack.BlockElement) slack.Block {
	b := slack.NewInputBlock(id, plain(label, 2000), nil, e)
	b.Optional = optional
	return b
}

func textInput(id, label, hint string, optional bool) slack.Block {
	e := slack.NewPlainTextInputBlockElement(plain(hint, 150), id)
	e.MaxLength = 200
	return input(id, label, optional, e)
}

func selectInput(id, label string, optional bool, values, labels []string) slack.Block {
	var options []*slack.OptionBlockObject
	for i, v := range values[:min(len(values), maxOptions)] {
		options = append(options, slack.NewOptionBlockObject(v, plain(labels[i], maxButton), nil))
	}
	return input(id, label, optional, slack.NewOptionsSelectBlockElement(slack.OptTypeStatic, plain("Choose", 150), id, options...))
}

// pickerView asks which session a command is for.
func pickerView(c command, parsed chat.Command, rows []workflows.SessionRow) slack.ModalViewRequest {
	var values, labels []string
	for _, r := range rows {
		values = append(values, r.Thread.Channel+"/"+r.Thread.ID)
		labels = append(labels, cut(chat.Shown(r.Title), 50)+" · "+r.Backend)
	}
	at := ref{Thread: c.Channel + "/", Command: encodeCommand(parsed)}
	v := modal(viewPicker, title(parsed.Verb), at.encode(), selectInput(inputSession, "Session", false, values, labels))
	return withSubmit(v, "Go on")
}

// encodeCommand keeps a parsed command in a modal; what fits no modal is cut by
// Slack's own limit on what can be typed.
func encodeCommand(c chat.Command) string {
	data, err := json.Marshal(c)
	if err != nil {
		return ""
	}
	return string(data)
}

// hasForm reports the commands that ask for more before they are carried out.
func hasForm(c chat.Command) bool {
	switch c.Verb {
	case chat.VerbSwitch:
		return c.Backend == ""
	case chat.VerbFork:
		return c.Title == "" && c.Backend == ""
	case chat.VerbTitle:
		return c.Title == ""
	case chat.VerbModel:
		return c.Model == ""
	case chat.VerbDone, chat.VerbDestroy, chat.VerbGrants:
		return true
	}
	return false
}

// form is the modal that asks for what a command needs. Where a session has
// nothing to choose from, it says so and has no button.
func (a *App) form(t workflows.Thread, verb chat.Verb, st workflows.TurnState) slack.ModalViewRequest {
	at := refOf(t)
	at.Command = encodeCommand(chat.Command{Verb: verb})
	var blocks []slack.Block
	if st.Header.Title != "" {
		blocks = append(blocks, textBlock(chat.Shown(st.Header.Title)+" · "+st.Header.Backend))
	}
	submit := title(verb)
	switch verb {
	case chat.VerbSwitch:
		others := without(a.dep.Backends, st.Header.Backend)
		if len(others) == 0 && len(a.cfg.Roots) == 0 {
			return textView(title(verb), "This session runs on "+st.Header.Backend+", the only backend that is available here.")
		}
		if len(others) == 0 {
			others = a.dep.Backends
		}
		blocks = append(blocks, selectInput(inputBackend, "Backend", false, others, others))
		if len(a.cfg.Roots) > 0 {
			blocks = append(blocks, selectInput(inputRoot, "Root (local only)", true, a.cfg.Roots, a.cfg.Roots))
		}
	case chat.VerbFork:
		blocks = append(blocks, textInput(inputTitle, "Title", "Title of the new session", true),
			selectInput(inputBackend, "Backend", true, a.dep.Backends, a.dep.Backends))
	case chat.VerbTitle:
		blocks = append(blocks, textInput(inputTitle, "New title", "fix the flaky test", false))
		submit = "Rename"
	case chat.VerbModel:
		blocks = append(blocks, textInput(inputModel, "Model", "The model's name", false))
	}
	return withSubmit(modal(viewForm, title(verb), at.encode(), blocks...), submit)
}

func without(list []string, s string) []string {
	var out []string
	for _, l := range list {
		if l != s {
			out = append(out, l)
		}
	}
	return out
}

// menuView is the message shortcut's: which command to give to a session.
func menuView(t workflows.Thread, st workflows.TurnState) slack.ModalViewRequest {
	var values, labels []string
	for _, v := range menu() {
		values, labels = append(values, string(v)), append(labels, menuLabel(v))
	}
	return withSubmit(modal(viewMenu, "Session", refOf(t).encode(),
		textBlock(chat.Shown(st.Header.Title)), selectInput(inputVerb, "Command", false, values, labels)), "Go on")
}

// Verdicts of the deny modal.
const (
	verdictDeny    = "deny"
	verdictChanges = "changes"
)

// denyView asks why, and whether the agent is to try another way.
func denyView(at ref) slack.ModalViewRequest {
	e := slack.NewPlainTextInputBlockElement(plain("What should be done instead?", 150), inputReason)
	e.Multiline, e.MaxLength = true, maxTyped
	choice := slack.NewOptionsSelectBlockElement(slack.OptTypeStatic, plain("Choose", 150), inputVerdict,
		slack.NewOptionBlockObject(verdictDeny, plain("Deny", maxButton), nil),
		slack.NewOptionBlockObject(verdictChanges, plain("Ask for changes", maxButton), nil))
	choice.InitialOption = choice.Options[0]
	return withSubmit(modal(viewDeny, "Deny", at.encode(),
		textBlock("The command will not run. The agent is told why and goes on."),
		input(inputVerdict, "Verdict", false, choice),
		input(inputReason, "Reason, or what should change", true, e)), "Deny")
}

// reviewView shows everything that an approval covers. Only a pending request
// that is shown whole can be approved from it.
func reviewView(at ref, a workflows.ApprovalView, r chat.Review) slack.ModalViewRequest {
	var blocks []slack.Block
	box := func(label, text string) {
		blocks = append(blocks, textBlock(label))
		for rest := []rune(chat.ShownLines(text)); len(rest) > 0; {
			n := min(len(rest), maxSection)
			var b richText
			b.box(string(rest[:n]))
			blocks = append(blocks, b.block())
			rest = rest[n:]
		}
	}
	box("The whole command, in "+r.Backend+", directory "+chat.ShownExactly(r.Cwd)+", tier "+r.Tier+":", r.Command)
	for _, reason := range r.Reasons {
		blocks = append(blocks, textBlock("Why: "+chat.Sentence(chat.Shown(reason))))
	}
	if e := chat.Evidence(r.Evidence); e != "" {
		blocks = append(blocks, textBlock(e))
	}
	if len(r.Env) > 0 {
		box("Environment changes:", r.Environment())
	}
	for _, f := range r.Files {
		box("Runs "+chat.ShownExactly(f.Path)+":", f.Text)
	}
	for _, n := range r.Notes {
		blocks = append(blocks, markdownBlocksOf(chat.ShownLines(n))...)
	}
	if r.EditedBy != "" {
		box("Changed by "+r.EditedBy+". The agent had asked for:", r.Original)
	}
	blocks = append(blocks, textBlock("What these files load in turn is not covered.\nDigest: "+r.Digest))
	at.Digest = r.Digest
	if a.State != workflows.ApprovalPending || a.UnknownRun {
		return modal(viewReview, "Review", at.encode(), blocks...)
	}
	if e, ok := editable(a, r); ok {
		blocks = append(blocks, e)
	}
	note := slack.NewPlainTextInputBlockElement(plain("Why this may run", 150), inputNote)
	note.MaxLength = maxTyped
	blocks = append(blocks, input(inputNote, "Note to the approval, on the record and on the card", true, note))
	if len(a.BreakGlass) > 0 {
		e := slack.NewPlainTextInputBlockElement(plain("Why this cannot wait for others", 150), inputAlone)
		e.MaxLength = maxTyped
		blocks = append(blocks, input(inputAlone, "Approve alone (break-glass), on the record", true, e))
	}
	return withSubmit(modal(viewReview, "Review", at.encode(), blocks...), "Approve once")
}

// editable is the box to change a command in. Slack's inputs hold 3,000
// characters and their text must come back as it was shown: other commands
// cannot be edited here.
func editable(a workflows.ApprovalView, r chat.Review) (slack.Block, bool) {
	if length(r.Command) > maxInput || len(r.Command) > workflows.MaxEdit || chat.ShownLines(r.Command) != r.Command ||
		strings.TrimSpace(r.Command) != r.Command || r.Command == "" || !a.Editable {
		return nil, false
	}
	e := slack.NewPlainTextInputBlockElement(nil, inputCommand)
	e.Multiline, e.MaxLength, e.InitialValue = true, maxInput, r.Command
	return input(inputCommand, "Change the command, to approve it changed", true, e), true
}

// reviewFits reports whether a modal can show a review. A command that no input
// holds is shown as a file.
func reviewFits(v slack.ModalViewRequest, r chat.Review) bool {
	return len(v.Blocks.BlockSet) <= maxViewBlocks && length(r.Text()) <= reviewText && length(r.Command) <= maxInput && labelsFit(r)
}

// labelsFit reports whether what stands above a box, or in a section, is not cut there.
func labelsFit(r chat.Review) bool {
	lines := append([]string{chat.ShownExactly(r.Cwd)}, r.Reasons...)
	for _, f := range r.Files {
		lines = append(lines, chat.ShownExactly(f.Path))
	}
	return !slices.ContainsFunc(lines, func(l string) bool { return length(l) > maxSection-200 })
}
