package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// pressed takes a click on a button, or a choice in the header's menu.
func (c *call) pressed(ctx context.Context) {
	if thread, ok := strings.CutPrefix(c.i.Data.CustomID, idMenu+"|"); ok && len(c.i.Data.Values) > 0 {
		t := c.clicked()
		t.ID = thread
		if !c.reaches(ctx, thread) {
			c.say(ctx, unseen().Text())
			return
		}
		c.chosen(ctx, chat.Verb(c.i.Data.Values[0]), t)
		return
	}
	r, ok := decodeRef(c.i.Data.CustomID)
	if !ok {
		c.say(ctx, "That button is none of ours any more. Look at the thread.")
		return
	}
	switch {
	case r.Button == workflows.ButtonReview:
		c.review(ctx, r)
	case r.Button == workflows.ButtonDetails, r.Button == buttonPage:
		c.details(ctx, r)
	case r.Button == buttonOutput:
		c.output(ctx, r)
	case r.Button == buttonShare:
		c.share(ctx, r)
	case r.Button == buttonEdit:
		c.editModal(ctx, r)
	case r.Button == buttonNote:
		c.first(ctx, response{Type: respondModal, Data: noteModal(r)})
	case r.Button == buttonAlone:
		c.first(ctx, response{Type: respondModal, Data: aloneModal(r)})
	case r.Button == workflows.ButtonDeny:
		c.first(ctx, response{Type: respondModal, Data: denyModal(r)})
	default:
		if c.deferUpdate(ctx) {
			c.click(ctx, r, chat.Click{Button: r.Button})
		}
	}
}

// reaches reports whether a thread that a custom ID names is the one where that was
// used, or one that the person sees: what a client sends counts for nothing by
// itself.
func (c *call) reaches(ctx context.Context, thread string) bool {
	if thread == c.thread().ID || c.i.Message != nil && c.i.Message.ID == thread {
		return true
	}
	if !isID(thread) {
		return false
	}
	ctx, cancel := limit(ctx, lookWithin)
	defer cancel()
	return c.app.seesThread(within(ctx, c.i.In), asker{c.i.Guild, c.i.who()}, thread)
}

// Buttons of a review, beside those of the card.
const (
	buttonEdit  = "edit"
	buttonAlone = "alone"
	buttonNote  = "note"
)

// errChanged: what was shown is not what stands there now.
var errChanged = &chat.Error{
	Kind: chat.KindConflict, Code: "changed", Message: "The command has changed since.", Hint: "Look at the card again.",
}

// click completes a click, brings it to the session, and tells the clicker if it
// did not count; what did shows in the thread. A stop is answered as the command
// is.
func (c *call) click(ctx context.Context, r ref, k chat.Click) {
	octx, cancel := limit(ctx, outcomeWithin)
	defer cancel()
	reply, err := c.decide(octx, r, k)
	text := ""
	switch {
	case err != nil:
		text = words(err)
	case reply.Outcome.Outcome != workflows.OutcomeRecorded || k.Button == workflows.ButtonStop:
		text = reply.Text
	}
	if reply.Answered != "" {
		c.settle(ctx, r, reply.Answered)
	}
	c.tell(ctx, private{text: text})
}

func (c *call) decide(ctx context.Context, r ref, k chat.Click) (chat.ClickReply, error) {
	by, unsure := c.actor(ctx)
	k.Thread, k.ApprovalID, k.Turn, k.Question = c.clicked(), r.Approval, r.Turn, r.Question
	k.Interaction, k.By, k.At = c.i.ID, by, c.app.api.clock.Here(c.i.at())
	if r.Approval != "" && r.Digest != "" && k.Button != workflows.ButtonWithdraw && k.Button != workflows.ButtonDeny {
		// What is approved is what was shown: a card may be older than its request.
		now, err := c.app.standing(ctx, k.Thread, r)
		switch {
		case errors.Is(err, workflows.ErrUnconfirmed), errors.Is(err, workflows.ErrUnavailable):
			return chat.ClickReply{}, err
		case err == nil && now.State == workflows.ApprovalPending && short(now.Digest) != r.Digest:
			return chat.ClickReply{}, errChanged
		case err == nil && !r.Reviewed && !now.Displayable:
			// No card offers this: the session says that it has to be reviewed.
		case err == nil:
			k.Digest = now.Digest
		default:
			// It is decided, or not there any more: the beginning of a digest is none,
			// so the session answers how it stands, and takes it for nothing else.
			k.Digest = r.Digest
		}
	}
	reply, err := c.app.plain.Click(ctx, k)
	if err == nil && reply.Outcome.Outcome == workflows.OutcomeNotYours {
		reply.Text += c.whyNobody(ctx, k.Thread, r, unsure)
	}
	return reply, err
}

// whyNobody adds to the answer to a click that does not count what the clicker cannot
// see: that roles' names were not known, or that the approvers' roles are gone.
func (c *call) whyNobody(ctx context.Context, t workflows.Thread, r ref, unknown error) string {
	if unknown != nil {
		return " Discord did not say what your roles are called, so only their IDs counted; click again in a moment."
	}
	v, err := c.app.approvalView(ctx, t, r)
	all, rerr := c.app.people.guildRoles(ctx, t.Team)
	if err != nil || rerr != nil || len(v.Approvers) == 0 {
		return ""
	}
	for _, name := range v.Approvers {
		if _, ok := roleID(all, name); ok || name == "*" {
			return ""
		}
		if isID(name) { // of a person, or of a role that is gone
			if _, ok, err := c.app.people.member(ctx, t.Team, name); ok || err != nil {
				return ""
			}
		}
	}
	return " This server has none of the roles and people who may approve it; `cmd/bot doctor` says which."
}

// standing is approvalView for who can wait: the first look after a worker has died
// goes to the dead one.
func (a *App) standing(ctx context.Context, t workflows.Thread, r ref) (v workflows.ApprovalView, err error) {
	for {
		if v, err = a.approvalView(ctx, t, r); !errors.Is(err, workflows.ErrUnconfirmed) {
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, err
		case <-time.After(lookAgain):
		}
	}
}

// approvalView reads the newest state of a request.
func (a *App) approvalView(ctx context.Context, t workflows.Thread, r ref) (workflows.ApprovalView, error) {
	v, err := a.dep.Views.Message(ctx, t.WorkflowID(), r.Key)
	if err != nil {
		return workflows.ApprovalView{}, err
	}
	if v.Approval == nil || v.Approval.ID != r.Approval {
		return workflows.ApprovalView{}, fmt.Errorf("message %s shows no request %s", r.Key, r.Approval)
	}
	return *v.Approval, nil
}

// settle puts what was answered in the place of a question's buttons; of the list
// of grants, each of which is answered for itself, in the place of the one.
func (c *call) settle(ctx context.Context, r ref, answered string) {
	if c.i.Message == nil {
		return
	}
	text, sign, _ := strings.Cut(c.i.Message.Content, string(markSign))
	if sign != "" {
		sign = string(markSign) + sign
	}
	e := edit{Mentions: noMentions(), Flags: flagNoPreviews, Components: []component{}}
	e.Content = cut(text, shownText-size(answered)-10) + "\n-# " + answered + sign
	if r.Question == chat.QuestionGrants {
		e.Components = without(c.i.Message.Components, c.i.Data.CustomID)
	}
	ctx, cancel := limit(ctx, tellWithin)
	defer cancel()
	if err := c.app.api.call(ctx, http.MethodPatch, "/channels/"+c.i.Message.Channel+"/messages/"+c.i.Message.ID, e, nil); err != nil {
		c.app.log.Warn("Question could not be settled", telemetry.KeyError, err)
	}
}

// without are a message's rows of buttons without the one that was clicked.
func without(raw json.RawMessage, clicked string) []component {
	var rows []component
	if json.Unmarshal(raw, &rows) != nil {
		return []component{}
	}
	out := []component{}
	for _, row := range rows {
		var kept []component
		for _, b := range row.Components {
			if b.Type == componentButton && b.CustomID != clicked {
				kept = append(kept, component{Type: b.Type, CustomID: b.CustomID, Style: b.Style, Label: b.Label})
			}
		}
		if len(kept) > 0 {
			out = append(out, component{Type: componentRow, Components: kept})
		}
	}
	return out
}

// chosen carries out a command from the header's menu; one that needs more asks
// for it in a modal.
func (c *call) chosen(ctx context.Context, verb chat.Verb, t workflows.Thread) {
	if hasForm(verb) {
		c.ask(ctx, verb, t)
		return
	}
	if c.deferAlone(ctx) {
		c.tell(ctx, private{text: c.carryOut(ctx, chat.Command{Verb: verb}, t, c.app.plain)})
	}
}

// ask opens the modal that asks for what a command needs. The session's state is
// looked at, bounded; without it everything is offered.
func (c *call) ask(ctx context.Context, verb chat.Verb, t workflows.Thread) {
	lctx, cancel := limit(ctx, lookWithin)
	defer cancel()
	st, err := c.app.dep.Sessions.TurnState(lctx, t.WorkflowID())
	if errors.Is(err, workflows.ErrNoSession) {
		c.say(ctx, "No session runs in this thread.")
		return
	}
	m, problem := c.app.form(verb, t, st)
	if problem != "" {
		c.say(ctx, problem)
		return
	}
	c.first(ctx, response{Type: respondModal, Data: m})
}

// review shows everything that a request covers, to one person: the whole text as
// a file, and what can be done about it.
func (c *call) review(ctx context.Context, r ref) {
	if !c.deferAlone(ctx) {
		return
	}
	octx, cancel := limit(ctx, outcomeWithin)
	defer cancel()
	t := c.clicked()
	av, err := c.app.approvalView(octx, t, r)
	if err != nil {
		c.app.log.Info("Request cannot be reviewed", telemetry.KeyApprovalID, r.Approval, telemetry.KeyError, err)
		c.tell(ctx, private{text: "This request is not open any more, or the server did not answer in time. The card in the thread shows how it stands."})
		return
	}
	whole, err := c.app.plain.Review(octx, av)
	if err != nil {
		c.tell(ctx, private{text: words(err)})
		return
	}
	c.tell(ctx, reviewed(r, av, whole, c.i.FileLimit))
}

// reviewed is the answer to Review. Only a pending request whose text is all
// there can be approved from it.
func reviewed(r ref, av workflows.ApprovalView, whole chat.Review, fileLimit int) private {
	text := whole.Text()
	if fileLimit <= 0 {
		fileLimit = maxFile
	}
	if len(text) > fileLimit {
		return private{text: "This is longer than the files that Discord takes, so it can be read neither here nor approved from here. Deny it, or ask for a shorter command."}
	}
	p := private{files: []file{{name: "review-" + chat.FileName(strings.ReplaceAll(r.Approval, ".", "-")), text: text}}}
	head := "**Review** · " + escape(whole.Tier) + " · " + escape(whole.Backend)
	if cwd := span(chat.ShownExactly(whole.Cwd)); size(cwd) <= lineShown {
		head += ", directory " + cwd
	} else {
		head += "; the directory is in the file"
	}
	tail := "All that this covers is in the file. What the files that it runs load in turn is not covered."
	if whole.EditedBy != "" {
		tail = "Changed by " + escape(whole.EditedBy) + ". " + tail
	}
	if e := chat.Evidence(whole.Evidence); e != "" {
		tail = escape(cut(e, evidenceShown)) + "\n" + tail
	}
	if why := chat.Reasons(workflows.ApprovalView{Reasons: whole.Reasons}); why != "" {
		tail = escape(cut(why, reasonsShown)) + "\n" + tail
	}
	shown := chat.ShownLines(whole.Command)
	if room := shownText - size(head+tail) - 60; size(fence(shown)) > room {
		shown = cut(shown, room-80) + "\n… the file has all of it"
	}
	p.text = head + "\n" + fence(shown) + "\n" + tail + "\n-# Digest " + span(whole.Digest)
	if av.State != workflows.ApprovalPending || av.UnknownRun {
		return p
	}
	at := ref{Approval: av.ID, Key: r.Key, Version: r.Version, Digest: short(whole.Digest), Reviewed: true}
	buttons := []workflows.Button{{ID: workflows.ButtonApprove, Label: "Approve once"}}
	buttons = append(buttons, workflows.Button{ID: buttonNote, Label: "Approve with a note…"})
	if editable(av, whole.Command) {
		buttons = append(buttons, workflows.Button{ID: buttonEdit, Label: "Change the command…"})
	}
	if len(av.BreakGlass) > 0 {
		buttons = append(buttons, workflows.Button{ID: buttonAlone, Label: "Approve alone…"})
	}
	p.rows = rows(buttons, at)
	return p
}

// editable reports a command that a text input can hold and gives back as it was
// shown.
func editable(av workflows.ApprovalView, command string) bool {
	return command != "" && length(command) <= maxInput && len(command) <= workflows.MaxEdit && chat.ShownLines(command) == command &&
		strings.TrimSpace(command) == command && av.Editable
}

// editModal opens the box to change a command in, with the command in it.
func (c *call) editModal(ctx context.Context, r ref) {
	lctx, cancel := limit(ctx, lookWithin)
	defer cancel()
	av, err := c.app.approvalView(lctx, c.clicked(), r)
	if err == nil && (av.State != workflows.ApprovalPending || short(av.Digest) != r.Digest) {
		c.say(ctx, words(errChanged))
		return
	}
	var whole chat.Review
	if err == nil {
		whole, err = c.app.plain.Review(lctx, av)
	}
	switch {
	case err != nil:
		c.say(ctx, "What is behind this request could not be read in time. Nothing was recorded; click again.")
	case !editable(av, whole.Command):
		c.say(ctx, "This command cannot be changed here. Ask for changes with “Deny…” instead.")
	default:
		c.first(ctx, response{Type: respondModal, Data: commandModal(r, whole.Command)})
	}
}

// submitted takes a modal's submission.
func (c *call) submitted(ctx context.Context) {
	in := inputs(c.i.Data.Components)
	kind, rest, _ := strings.Cut(strings.TrimPrefix(c.i.Data.CustomID, idModal+"|"), "|")
	if r, ok := decodeRef(rest); ok {
		if c.deferUpdate(ctx) {
			c.verdict(ctx, kind, r, in)
		}
		return
	}
	verb := chat.Verb(kind)
	if !hasForm(verb) || !isID(rest) {
		c.say(ctx, "That form is none of ours any more.")
		return
	}
	if !c.reaches(ctx, rest) {
		c.say(ctx, unseen().Text())
		return
	}
	if !c.deferAlone(ctx) {
		return
	}
	t := c.app.parented(ctx, c.app.thread(c.i.Guild, c.thread().Channel, rest))
	cmd := chat.Command{Verb: verb, Backend: in[optionBackend], Root: in[optionRoot], Title: in[optionTitle], Model: in[optionModel]}
	c.tell(ctx, private{text: c.carryOut(ctx, cmd, t, c.app.plain)})
}

// verdict carries out what a form about a request said.
func (c *call) verdict(ctx context.Context, kind string, r ref, in map[string]string) {
	k := chat.Click{Button: workflows.ButtonDeny}
	switch kind {
	case modalDeny:
		r.Reviewed = false
		if in[inputVerdict] == workflows.VerdictChanges {
			k.Changes = in[inputReason]
			if k.Changes == "" {
				k.Changes = " " // it is refused with a sentence
			}
		} else {
			k.Reason = in[inputReason]
		}
	case modalEdit:
		k.Button, k.Edit, k.Reason = workflows.ButtonApprove, in[inputCommand], in[inputReason]
	case modalNote:
		k.Button, k.Reason = workflows.ButtonApprove, in[inputReason]
	case modalAlone:
		k.Button, k.BreakGlass = workflows.ButtonApprove, in[inputReason]
	}
	c.click(ctx, r, k)
}
