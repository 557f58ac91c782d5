package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// interaction is what we read of a click, a shortcut or a modal's submission.
type interaction struct {
	Type        string `json:"type"`
	CallbackID  string `json:"callback_id"`
	TriggerID   string `json:"trigger_id"`
	ResponseURL string `json:"response_url"`
	OrgWide     any    `json:"is_enterprise_install"`
	User        struct {
		ID string `json:"id"`
	} `json:"user"`
	Channel struct {
		ID string `json:"id"`
	} `json:"channel"`
	Message   message `json:"message"`
	Container struct {
		Type     string `json:"type"`
		Channel  string `json:"channel_id"`
		TS       string `json:"message_ts"`
		ThreadTS string `json:"thread_ts"`
	} `json:"container"`
	Actions []action `json:"actions"`
	View    view     `json:"view"`
}

type action struct {
	ID       string `json:"action_id"`
	Value    string `json:"value"`
	TS       string `json:"action_ts"`
	Selected struct {
		Value string `json:"value"`
	} `json:"selected_option"`
}

type view struct {
	ID         string `json:"id"`
	Type       string `json:"type"`
	Hash       string `json:"hash"`
	CallbackID string `json:"callback_id"`
	Private    string `json:"private_metadata"`
	Blocks     []struct {
		BlockID string `json:"block_id"`
		Element struct {
			Initial string `json:"initial_value"`
		} `json:"element"`
	} `json:"blocks"`
	State struct {
		Values map[string]map[string]struct {
			Value    string `json:"value"`
			Selected struct {
				Value string `json:"value"`
			} `json:"selected_option"`
		} `json:"values"`
	} `json:"state"`
}

// value is what was typed or chosen in the input of that name.
func (v view) value(name string) string {
	in := v.State.Values[name][name]
	if in.Selected.Value != "" {
		return in.Selected.Value
	}
	return strings.TrimSpace(in.Value)
}

// changed is what was typed in the input of that name, if it is not what stood
// there.
func (v view) changed(name string) string {
	typed := v.State.Values[name][name].Value
	for _, b := range v.Blocks {
		if b.BlockID == name && b.Element.Initial == typed {
			return ""
		}
	}
	return typed
}

// here is the thread that an interaction with a message belongs to.
func (a *App) here(i interaction) workflows.Thread {
	channel := i.Channel.ID
	if channel == "" {
		channel = i.Container.Channel
	}
	for _, ts := range []string{i.Container.ThreadTS, i.Message.ThreadTS, i.Container.TS, i.Message.TS} {
		if ts != "" {
			return a.thread(channel, ts)
		}
	}
	return a.thread(channel, "")
}

// interactive takes what Slack sends once and never again.
func (a *App) interactive(ctx context.Context, data json.RawMessage, ack ack) {
	at := time.Now()
	var i interaction
	if err := json.Unmarshal(data, &i); err != nil {
		a.log.Warn("Interaction cannot be read", telemetry.KeyError, err)
		ack(nil)
		return
	}
	ctx = asking(ctx, i.User.ID, a.here(i).Channel)
	if isTrue(i.OrgWide) {
		ack(nil)
		a.background(ctx, answerWithin, func(ctx context.Context) {
			a.whisper(ctx, a.here(i), i.User.ID, i.ResponseURL, chat.Sentence("Nothing was done: "+orgWide))
		})
		return
	}
	switch i.Type {
	case "block_actions":
		ack(nil)
		switch {
		case len(i.Actions) == 0:
		case i.View.Type == "home":
			a.homePressed(ctx, i, at)
		case i.Container.Type == "view":
			a.pressedInView(ctx, i)
		default:
			a.pressed(ctx, i, at)
		}
	case "message_action":
		ack(nil)
		a.shortcut(ctx, i)
	case "view_submission":
		a.submitted(ctx, i, at, ack)
	default:
		ack(nil)
	}
}

// pressed takes a click on a button, or a choice in a menu, of a message.
func (a *App) pressed(ctx context.Context, i interaction, at time.Time) {
	act := i.Actions[0]
	id := strings.Join([]string{i.Container.TS, act.ID, act.TS}, "/")
	if act.TS == "" {
		id = strings.Join([]string{i.Container.TS, act.ID, i.TriggerID}, "/")
	} else if t := a.api.gate.clock.Here(timeOf(act.TS)); !t.IsZero() {
		at = t // the time of the click, not of its arrival
	}
	if !a.taken.first("click/"+i.User.ID+"/"+id, true) {
		return
	}
	if act.ID == actionMenu && act.Selected.Value == "" {
		return
	}
	if act.ID == actionMenu {
		a.chosen(ctx, i, chat.Command{Verb: chat.Verb(act.Selected.Value)}, a.here(i), id, at)
		return
	}
	r, ok := decodeRef(act.Value)
	if !ok {
		a.background(ctx, answerWithin, func(ctx context.Context) {
			a.whisper(ctx, a.here(i), i.User.ID, i.ResponseURL, "That button is none of ours any more. Look at the thread.")
		})
		return
	}
	if !a.mayTouch(ctx, a.refThread(r)) {
		a.log.Info("A button names a session that is closed to the person", telemetry.KeyActorID, i.User.ID)
		a.background(ctx, answerWithin, func(ctx context.Context) {
			a.whisper(ctx, a.here(i), i.User.ID, i.ResponseURL, unseen().Text())
		})
		return
	}
	switch act.ID {
	case workflows.ButtonReview:
		a.review(ctx, i, r)
	case workflows.ButtonDetails:
		a.details(ctx, i, r)
	case workflows.ButtonDeny:
		if _, err := a.openView(ctx, i.TriggerID, denyView(r)); err != nil {
			a.sorry(ctx, i)
		}
	default:
		a.click(ctx, i, r, chat.Click{Interaction: id, Button: act.ID, At: at})
	}
}

const notOpened = "Slack did not open the dialog in time. Nothing was recorded; click again."

// sorry: a modal did not open; the click did nothing.
func (a *App) sorry(ctx context.Context, i interaction) {
	a.background(ctx, answerWithin, func(ctx context.Context) {
		a.whisper(ctx, a.here(i), i.User.ID, i.ResponseURL, notOpened)
	})
}

// decide completes a click and brings it to the session. unsure says what could
// not be checked about the clicker.
func (a *App) decide(ctx context.Context, user string, r ref, c chat.Click) (chat.ClickReply, error) {
	by, err := a.people.actor(ctx, user)
	if err != nil {
		a.log.Warn("Click refused", telemetry.KeyError, err)
		return chat.ClickReply{}, &chat.Error{
			Kind: chat.KindUnavailable, Code: "person_unknown", Message: "Slack did not say who you are, so the click did not count.", Hint: "Click again in a moment.",
		}
	}
	groups, gerr := a.people.memberships(ctx, user)
	if gerr != nil {
		a.log.Warn("Groups of a person are not known; none count", telemetry.KeyActorID, user, telemetry.KeyError, gerr)
	}
	by.Groups = groups
	c.Thread, c.ApprovalID, c.Turn, c.Question, c.By = a.refThread(r), r.Approval, r.Turn, r.Question, by
	if approves(c.Button) && r.Approval != "" {
		if c.Digest, err = a.shown(ctx, r); err != nil {
			return chat.ClickReply{}, err
		}
	}
	reply, err := a.plain.Click(ctx, c)
	if err == nil && reply.Outcome.Outcome == workflows.OutcomeNotYours {
		reply.Text += a.whyNobody(ctx, r, gerr)
	}
	return reply, err
}

// whyNobody adds to the answer to a click that does not count what the clicker cannot
// see: that groups were not known, or that the approvers' are gone or empty.
func (a *App) whyNobody(ctx context.Context, r ref, unknown error) string {
	if unknown != nil {
		return " Slack did not say which groups you are in, so none counted; click again in a moment."
	}
	v, err := a.approvalView(ctx, r)
	groups, gerr := a.people.all(ctx)
	if err != nil || gerr != nil || len(v.Approvers) == 0 {
		return ""
	}
	for _, name := range v.Approvers {
		if name == "*" || isUserID(name) {
			return ""
		}
		id, ok := groupID(groups, name)
		if ok && slices.ContainsFunc(groups, func(g group) bool { return g.ID == id && len(g.Users) > 0 }) {
			return ""
		}
	}
	return " At present nobody is in a group that may approve it; `cmd/bot doctor` says which groups Slack does not have."
}

// approves reports the buttons that say yes to what was shown.
func approves(button string) bool {
	return button == workflows.ButtonApprove || button == workflows.ButtonGrant
}

// shown is the digest of what the button's card or modal showed: a card may be older
// than its request. Where it did not show all of the request it has none, and nothing
// is approved from it.
func (a *App) shown(ctx context.Context, r ref) (string, error) {
	if r.Digest != "" {
		return r.Digest, nil
	}
	v, err := a.approvalView(ctx, r)
	if err == nil && v.State == workflows.ApprovalPending && v.Digest != "" {
		return "", &chat.Error{
			Kind: chat.KindConflict, Code: "not_shown", Message: "The card does not show all of this command.", Hint: "Open Review; approve from there.",
		}
	}
	return "", nil // without a digest nothing is bound, and what is decided or gone the session says
}

// click carries out a click on a message and tells the clicker if it did not
// count; what did shows in the thread. A stop is answered as the command is.
func (a *App) click(ctx context.Context, i interaction, r ref, c chat.Click) {
	ctx, cancel := context.WithTimeout(ctx, outcomeWithin)
	defer cancel()
	reply, err := a.decide(ctx, i.User.ID, r, c)
	text := ""
	switch {
	case err != nil:
		text = words(err)
	case reply.Outcome.Outcome != workflows.OutcomeRecorded || c.Button == workflows.ButtonStop:
		text = reply.Text
	}
	a.background(ctx, answerWithin, func(ctx context.Context) {
		if reply.Answered != "" {
			a.settle(ctx, i, r.Question, reply.Answered)
		}
		a.whisper(ctx, a.here(i), i.User.ID, i.ResponseURL, text)
	})
}

// settle puts what was answered in the place of a question's buttons; of the
// list of grants, each of which is answered for itself, in the place of the one.
func (a *App) settle(ctx context.Context, i interaction, question, answered string) {
	var blocks []slack.Block
	for _, b := range i.Message.Blocks {
		var text string
		switch {
		case b.Type == string(slack.MBTMarkdown) && json.Unmarshal(b.Text, &text) == nil:
			blocks = append(blocks, slack.NewMarkdownBlock("", text))
		case b.Type == string(slack.MBTContext):
			blocks = append(blocks, earlier(b.Elements)...)
		case b.Type == string(slack.MBTAction) && question == chat.QuestionGrants:
			blocks = append(blocks, otherButtons(b.Elements, i.Actions[0].ID)...)
		}
	}
	blocks = append(blocks, slack.NewContextBlock("", plain(answered, maxContext)))
	r := rendered{text: plainFallback(unescape(i.Message.Text) + "\n" + answered), blocks: withIDs("settled", blocks)}
	if _, _, _, err := a.api.UpdateMessageContext(ctx, a.here(i).Channel, i.Container.TS, r.options()...); err != nil {
		a.log.Warn("Question could not be settled", telemetry.KeyError, detail(err))
	}
}

// earlier keeps the answers that stand under a question already.
func earlier(raw json.RawMessage) []slack.Block {
	var elements []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &elements) != nil || len(elements) == 0 {
		return nil
	}
	return []slack.Block{slack.NewContextBlock("", plain(elements[0].Text, maxContext))}
}

// otherButtons are a row's buttons without the one that was clicked.
func otherButtons(raw json.RawMessage, clicked string) []slack.Block {
	var elements []struct {
		ID    string `json:"action_id"`
		Value string `json:"value"`
		Text  struct {
			Text string `json:"text"`
		} `json:"text"`
	}
	if json.Unmarshal(raw, &elements) != nil {
		return nil
	}
	var buttons []slack.BlockElement
	for _, e := range elements {
		if e.ID != clicked && e.ID != "" {
			buttons = append(buttons, slack.NewButtonBlockElement(e.ID, e.Value, plain(e.Text.Text, maxButton)))
		}
	}
	if len(buttons) == 0 {
		return nil
	}
	return []slack.Block{slack.NewActionBlock("", buttons...)}
}

// approvalView reads the newest state of a request.
func (a *App) approvalView(ctx context.Context, r ref) (workflows.ApprovalView, error) {
	v, err := a.dep.Views.Message(ctx, a.refThread(r).WorkflowID(), r.Key)
	if err != nil {
		return workflows.ApprovalView{}, err
	}
	if v.Approval == nil || v.Approval.ID != r.Approval {
		return workflows.ApprovalView{}, fmt.Errorf("message %s shows no request %s", r.Key, r.Approval)
	}
	return *v.Approval, nil
}

// review opens the review of a request at once and fills it.
func (a *App) review(ctx context.Context, i interaction, r ref) {
	id, err := a.openView(ctx, i.TriggerID, waitingView("Review", "Reading what this request covers…"))
	if err != nil {
		a.sorry(ctx, i)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, outcomeWithin)
	defer cancel()
	av, err := a.approvalView(ctx, r)
	if err != nil {
		a.log.Info("Request cannot be reviewed", telemetry.KeyApprovalID, r.Approval, telemetry.KeyError, err)
		a.updateView(ctx, id, textView("Review", "This request is not open any more, or the server did not answer in time. The card in the thread shows how it stands."))
		return
	}
	whole, err := a.plain.Review(ctx, av)
	if err != nil {
		a.updateView(ctx, id, textView("Review", words(err)))
		return
	}
	v := reviewView(r, av, whole)
	if reviewFits(v, whole) {
		a.updateView(ctx, id, v)
		return
	}
	a.updateView(ctx, id, a.reviewFile(ctx, r, av, whole))
}

// reviewFile shares a review that no modal can hold as a file in the thread. The
// digest ties the approval to what the file says.
func (a *App) reviewFile(ctx context.Context, r ref, av workflows.ApprovalView, whole chat.Review) slack.ModalViewRequest {
	// A request whose command was changed has another digest, and so another file.
	digest := whole.Digest[strings.LastIndexByte(whole.Digest, ':')+1:]
	name := "review-" + chat.FileName(strings.ReplaceAll(r.Approval, ".", "-")+"-"+digest[:min(len(digest), 8)])
	p := &poster{app: a}
	t := a.refThread(r)
	found, err := p.parts(ctx, t, "", time.Time{})
	if err == nil && !found.has("", name) {
		err = p.upload(ctx, t, name, whole.Text())
	}
	if err != nil {
		a.log.Error("Review could not be shared as a file", telemetry.KeyError, err)
		return textView("Review", "This is longer than a dialog may be, and Slack did not take it as a file. Nothing was approved; try again in a moment.")
	}
	at := r
	at.Digest = whole.Digest
	blocks := []slack.Block{textBlock("This is longer than a dialog may be. All of it is in the file " + name + " in the thread; read it before you approve. It begins:")}
	blocks = append(blocks, boxes(cut(chat.ShownLines(whole.Command), shownBeginning))...)
	for _, l := range []string{cut(chat.Reasons(av), reasonsShown), cut(chat.Evidence(whole.Evidence), evidenceShown)} {
		if l != "" {
			blocks = append(blocks, textBlock(l))
		}
	}
	v := modal(viewReview, "Review", at.encode(), append(blocks, textBlock("Digest: "+whole.Digest))...)
	if av.State == workflows.ApprovalPending && !av.UnknownRun {
		v = withSubmit(v, "Approve once")
	}
	return v
}

// shortcut opens the command picker for the thread of a message.
func (a *App) shortcut(ctx context.Context, i interaction) {
	t := a.here(i)
	id, err := a.openView(ctx, i.TriggerID, waitingView("Session", "Looking for this thread's session…"))
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, outcomeWithin)
	defer cancel()
	st, err := a.dep.Sessions.TurnState(ctx, t.WorkflowID())
	switch {
	case errors.Is(err, workflows.ErrNoSession):
		a.updateView(ctx, id, textView("Session", "No session runs in this thread. Mention the bot here to start one."))
	case err != nil:
		a.updateView(ctx, id, textView("Session", words(chatError(err))))
	default:
		a.updateView(ctx, id, menuView(t, st))
	}
}

// chosen carries out a command from the header's menu; one that needs more asks
// for it in a modal.
func (a *App) chosen(ctx context.Context, i interaction, c chat.Command, t workflows.Thread, id string, at time.Time) {
	if hasForm(c) {
		vid, err := a.openView(ctx, i.TriggerID, waitingView(title(c.Verb), "Looking at the session…"))
		if err != nil {
			a.sorry(ctx, i)
			return
		}
		ctx, cancel := context.WithTimeout(ctx, outcomeWithin)
		defer cancel()
		a.updateView(ctx, vid, a.filledForm(ctx, i.User.ID, t, c.Verb, id, at))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, outcomeWithin)
	defer cancel()
	text := a.carryOut(ctx, i.User.ID, c, t, id, at)
	a.background(ctx, answerWithin, func(ctx context.Context) { a.whisper(ctx, t, i.User.ID, i.ResponseURL, text) })
}

// filledForm is what a command asks, or, for the list of grants, shows.
func (a *App) filledForm(ctx context.Context, user string, t workflows.Thread, verb chat.Verb, id string, at time.Time) slack.ModalViewRequest {
	if asks(verb) {
		return a.question(ctx, user, t, verb, id, at, "")
	}
	st, err := a.dep.Sessions.TurnState(ctx, t.WorkflowID())
	switch {
	case errors.Is(err, workflows.ErrNoSession):
		return textView(title(verb), "No session runs in this thread.")
	case err != nil:
		return textView(title(verb), words(chatError(err)))
	}
	return a.form(t, verb, st)
}

// carryOut gives a command to a thread's session. What everybody may see goes
// into the thread; the text that is returned is for the asker alone.
func (a *App) carryOut(ctx context.Context, user string, c chat.Command, t workflows.Thread, id string, at time.Time) string {
	by, err := a.people.actor(ctx, user)
	if err != nil {
		a.log.Warn("Command refused", telemetry.KeyError, err)
		return "Slack did not say who you are. Nothing was done; try again in a moment."
	}
	ev := chat.Event{ID: id, Thread: t, New: a.thread(t.Channel, ""), By: by, At: at}
	reply, err := a.plain.Do(ctx, ev, c)
	if err != nil {
		return words(err)
	}
	if reply.Private || reply.Text == "" {
		return reply.Text
	}
	p := &poster{app: a}
	key := "reply-" + id
	if _, err := p.postText(ctx, t, a.replyContent(key, t, reply), payload{Key: key}); err != nil {
		a.log.Error("Reply could not be posted", telemetry.KeyChannelID, t.Channel, telemetry.KeyThreadID, t.ID, telemetry.KeyError, err)
		return reply.Text
	}
	return ""
}

// submitted takes a modal's submission. The answer to Slack says what became of
// it, or, when that takes longer, that it is being recorded.
func (a *App) submitted(ctx context.Context, i interaction, at time.Time, ack ack) {
	r, ok := decodeRef(i.View.Private)
	if !ok || !a.taken.first("view/"+i.User.ID+"/"+i.View.ID+"/"+i.View.Hash, true) {
		ack(nil)
		return
	}
	id := i.View.ID + "/" + i.View.Hash
	defer a.refreshHome(ctx, i.User.ID)
	ctx, cancel := context.WithTimeout(ctx, outcomeWithin)
	defer cancel()
	done := make(chan *slack.ModalViewRequest, 1)
	a.wg.Go(func() { done <- a.outcome(ctx, i, r, id, at) })
	timer := time.NewTimer(viewAnswer)
	defer timer.Stop()
	text := "Recording…"
	select {
	case v := <-done:
		if answer := respond(v); fitsAnswer(answer) {
			ack(answer)
			return
		}
		text = "One moment…"
		done <- v
	case <-timer.C:
	}
	ack(slack.NewUpdateViewSubmissionResponse(ptr(waitingView("Countersign", text))))
	settles := time.After(answerSettles)
	v := <-done
	if v == nil {
		v = ptr(textView("Countersign", "Recorded."))
	}
	select { // what the answer says Slack does when it has it, on another way than the update
	case <-ctx.Done():
	case <-settles:
	}
	a.updateView(ctx, i.View.ID, *v)
}

// fitsAnswer reports whether Slack takes that much as an answer to an envelope.
func fitsAnswer(answer any) bool {
	data, err := json.Marshal(answer)
	return err == nil && len(data) <= maxAnswer
}

func ptr[T any](v T) *T { return &v }

// respond closes the modal, or shows the next one.
func respond(v *slack.ModalViewRequest) any {
	if v == nil {
		return slack.NewClearViewSubmissionResponse()
	}
	return slack.NewUpdateViewSubmissionResponse(v)
}

// outcome carries out a submission and returns what the modal shows next; nil
// closes it.
func (a *App) outcome(ctx context.Context, i interaction, r ref, id string, at time.Time) *slack.ModalViewRequest {
	t := a.refThread(r)
	if i.View.CallbackID == viewPicker {
		channel, ts, _ := strings.Cut(i.View.value(inputSession), "/")
		t = a.thread(channel, ts)
	}
	if t.ID == "" || !a.mayTouch(ctx, t) {
		a.log.Info("A dialog names a session that is closed to the person", telemetry.KeyActorID, i.User.ID)
		return said("Session", unseen().Text())
	}
	switch i.View.CallbackID {
	case viewDeny:
		c := chat.Click{Interaction: id, Button: workflows.ButtonDeny, Reason: i.View.value(inputReason), At: at}
		if i.View.value(inputVerdict) == verdictChanges {
			c.Changes, c.Reason = cmp.Or(c.Reason, " "), ""
		}
		return a.decided(ctx, i, r, c)
	case viewReview:
		c := chat.Click{
			Interaction: id, Button: workflows.ButtonApprove, BreakGlass: i.View.value(inputAlone), Edit: i.View.changed(inputCommand), At: at,
		}
		if note := i.View.value(inputNote); c.BreakGlass == "" {
			c.Reason = note
		} else if note != "" {
			c.BreakGlass += "\n" + note // one text goes on record
		}
		return a.decided(ctx, i, r, c)
	case viewPicker:
		c, ok := decodeCommand(r.Command)
		if !ok {
			return nil
		}
		return a.next(ctx, i, t, c, id, at)
	case viewMenu:
		return a.next(ctx, i, t, chat.Command{Verb: chat.Verb(i.View.value(inputVerb))}, id, at)
	case viewForm:
		c, ok := decodeCommand(r.Command)
		if !ok {
			return nil
		}
		c.Backend, c.Root, c.Model = i.View.value(inputBackend), i.View.value(inputRoot), i.View.value(inputModel)
		c.Title = i.View.value(inputTitle)
		if asks(c.Verb) {
			return a.ends(ctx, i, r, id, at)
		}
		return said(title(c.Verb), a.carryOut(ctx, i.User.ID, c, t, id, at))
	}
	return nil
}

// next goes on with a command whose session is known now: to its form, or to its
// end.
func (a *App) next(ctx context.Context, i interaction, t workflows.Thread, c chat.Command, id string, at time.Time) *slack.ModalViewRequest {
	if hasForm(c) {
		return ptr(a.filledForm(ctx, i.User.ID, t, c.Verb, id, at))
	}
	return said(title(c.Verb), a.carryOut(ctx, i.User.ID, c, t, id, at))
}

func decodeCommand(s string) (chat.Command, bool) {
	var c chat.Command
	err := json.Unmarshal([]byte(s), &c)
	return c, err == nil && c.Verb != ""
}

// said shows a text; nothing to say closes the modal.
func said(title, text string) *slack.ModalViewRequest {
	if text == "" {
		return nil
	}
	return ptr(textView(title, text))
}

func (a *App) decided(ctx context.Context, i interaction, r ref, c chat.Click) *slack.ModalViewRequest {
	reply, err := a.decide(ctx, i.User.ID, r, c)
	switch {
	case err != nil:
		return said(title(chat.Verb(i.View.CallbackID)), words(err))
	case reply.Outcome.Outcome != workflows.OutcomeRecorded:
		return said(title(chat.Verb(i.View.CallbackID)), reply.Text)
	}
	return nil
}
