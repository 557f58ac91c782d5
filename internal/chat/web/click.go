package web

import (
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"context"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/workflows"
)

type clickBody struct {
	Button string         `json:"button"`
	Values map[string]any `json:"values"`
	// ClientID makes a repeated request the same click.
	ClientID string `json:"client_id"`
}

type clickAnswer struct {
	Outcome string       `json:"outcome"`
	Text    string       `json:"text"`
	Digest  string       `json:"digest,omitempty"`
	Review  *chat.Review `json:"review,omitempty"`
	// Details are a turn's calls.
	Details []callDetail `json:"details,omitempty"`
}

// callDetail is a call of a turn with all that is on record about it.
type callDetail struct {
	N       int    `json:"n"`
	ID      string `json:"id"`
	Command string `json:"command"`
	// Outcome and Facts are sentences, with times as RFC 3339 in UTC.
	Outcome string   `json:"outcome"`
	Facts   []string `json:"facts"`
	// Ran says that there may be an output.
	Ran bool `json:"ran"`
}

// value is a text that came with a click.
func (b clickBody) value(name string) string {
	v, _ := b.Values[name].(string)
	return v
}

// texts are the values that a click may carry.
var texts = []string{"reason", "changes", "digest", "command", "break_glass"}

func readClick(w http.ResponseWriter, r *http.Request) (clickBody, error) {
	var b clickBody
	if err := decode(w, r, &b); err != nil {
		return b, err
	}
	bad := func(code, message, hint string) (clickBody, error) {
		return b, refuse(&apiError{http.StatusBadRequest, code, message, hint})
	}
	if b.Button == "" {
		return bad("no_button", "The click names no button.", "Send {\"button\": \"approve\"}.")
	}
	if len(b.ClientID) > maxClientID {
		return bad("bad_value", "A value of the click cannot be taken.", "client_id has up to 200 bytes.")
	}
	for _, name := range texts {
		v, given := b.Values[name]
		text, isText := v.(string)
		switch {
		case !given || v == nil:
		case !isText:
			return bad("bad_value", "The value “"+name+"” is not a text.", "Send it as a JSON string.")
		case name != "reason" && name != "digest" && strings.TrimSpace(text) == "":
			return bad("empty_value", "The value “"+name+"” is empty.", "Say what it should be, or leave it out.")
		}
	}
	return b, nil
}

func (s *Server) postClick(w http.ResponseWriter, r *http.Request, by workflows.Actor) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), forwardTimeout)
	defer cancel()
	at := time.Now()
	m, err := s.store.message(ctx, r.PathValue("message"))
	if errors.Is(err, errNotFound) || (err == nil && m.pending()) {
		return refuse(notFound("message"))
	}
	if err != nil {
		return err
	}
	b, err := readClick(w, r)
	if err != nil {
		return err
	}
	if err := m.clickable(b); err != nil {
		return err
	}
	if b.Button == workflows.ButtonReview {
		return s.review(ctx, w, m)
	}
	if m.unseen(b) {
		answer(w, http.StatusOK, clickAnswer{Outcome: workflows.OutcomeChanged, Text: "Somebody has changed the command, and the click does not say which one it is for. Look at it again."})
		return nil
	}
	if turn, trail, ok := m.turn(); ok && b.Button == workflows.ButtonDetails {
		return s.details(ctx, w, m, by, turn, trail)
	}
	if m.question != "" {
		unlock := s.locks.lock(m.id)
		defer unlock()
		if m, err = s.store.message(ctx, m.id); err != nil {
			return err
		}
		if len(m.buttons) == 0 {
			answer(w, http.StatusOK, clickAnswer{Outcome: workflows.OutcomeAlreadyDecided, Text: "This has been answered already."})
			return nil
		}
	}
	reply, err := s.router.Click(ctx, m.click(b, by, at))
	if err != nil {
		return err
	}
	if reply.Answered != "" {
		if err := s.settle(ctx, m, b.Button, reply.Answered); err != nil {
			return err
		}
	}
	answer(w, http.StatusOK, clickAnswer{Outcome: apiOutcome(reply.Outcome.Outcome), Text: reply.Text})
	return nil
}

// settle shows on a question what was answered. One that offers to revoke keeps
// its other buttons.
func (s *Server) settle(ctx context.Context, m row, button, answered string) error {
	var left []workflows.Button
	if m.question == chat.QuestionGrants {
		left = slices.DeleteFunc(slices.Clone(m.buttons), func(b workflows.Button) bool { return b.ID == button })
	}
	_, err := s.store.settle(ctx, m.id, answered, left)
	return err
}

// clickable refuses a button that the message does not have. A decided request
// has none any more, but a click on it was made on what another reader's screen
// still shows: the session answers it.
func (m row) clickable(b clickBody) error {
	has := slices.ContainsFunc(m.buttons, func(x workflows.Button) bool { return x.ID == b.Button })
	if !has && m.view != nil && m.view.Approval != nil {
		switch a := m.view.Approval; {
		case a.State != workflows.ApprovalPending:
			has = slices.Contains(approvalButtons, b.Button)
		case b.Button == workflows.ButtonApprove && !a.UnknownRun:
			has = b.value("digest") != "" // from Review
		}
	}
	if !has && m.question == chat.QuestionGrants {
		has = strings.HasPrefix(b.Button, chat.ButtonRevoke)
	}
	if !has && m.question != "" && len(m.buttons) == 0 {
		has = b.Button == workflows.ButtonKeep || b.Button == workflows.ButtonDestroy || strings.HasPrefix(b.Button, chat.ButtonSwitch)
	}
	if has {
		return nil
	}
	return refuse(&apiError{http.StatusConflict, "no_such_button", "That message has no button “" + chat.Cut(chat.Shown(b.Button), 40) + "”.",
		"It may have changed; look at it again."})
}

// unseen reports whether a click would approve a command that a person has put in
// the place of another, and does not say by its digest that it is for that one: the
// message was the other's before.
func (m row) unseen(b clickBody) bool {
	if b.Button != workflows.ButtonApprove && b.Button != workflows.ButtonGrant || m.view == nil || m.view.Approval == nil {
		return false
	}
	a := m.view.Approval
	return a.State == workflows.ApprovalPending && a.EditedBy != nil && b.value("digest") == ""
}

var approvalButtons = []string{
	workflows.ButtonApprove, workflows.ButtonDeny, workflows.ButtonReview, workflows.ButtonWithdraw,
	workflows.ButtonGrant, workflows.ButtonRunAgain, workflows.ButtonLeave,
}

// click is the neutral form of a click on this message.
func (m row) click(b clickBody, by workflows.Actor, at time.Time) chat.Click {
	c := chat.Click{
		Interaction: m.id + "/" + rand.Text(), Button: b.Button, Question: m.question,
		Thread: thread{id: m.thread, channel: m.channel}.workflow(),
		Reason: b.value("reason"), Digest: b.value("digest"), Changes: b.value("changes"),
		Edit: b.value("command"), BreakGlass: b.value("break_glass"), By: by, At: at,
	}
	if b.ClientID != "" {
		c.Interaction = m.id + "/" + by.ID + "/" + b.ClientID // of nobody else
	}
	if m.view != nil && m.view.Approval != nil {
		c.ApprovalID = m.view.Approval.ID
	}
	if m.view != nil && m.view.Turn != nil {
		c.Turn = m.view.Turn.Number
	}
	return c
}

// apiOutcome: the API knows no refused command; what was refused because its
// time has passed is expired.
func apiOutcome(o string) string {
	if o == workflows.OutcomeRefused {
		return workflows.OutcomeExpired
	}
	return o
}

// review answers everything that an approval covers.
func (s *Server) review(ctx context.Context, w http.ResponseWriter, m row) error {
	v, err := s.router.Review(ctx, *m.view.Approval)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, clickAnswer{Outcome: workflows.OutcomeRecorded, Text: v.Text(), Digest: v.Digest, Review: &v})
	return nil
}

// turn is the one that a message's details are about: a turn card's, or that of the
// call whose outcome a card asks about.
func (m row) turn() (number int, trail workflows.Trail, ok bool) {
	switch {
	case m.view == nil:
	case m.view.Turn != nil:
		return m.view.Turn.Number, m.view.Turn.Trail, true
	case m.view.Approval != nil && m.view.Approval.UnknownRun:
		number = chat.CallTurn(m.view.Approval.CallID)
		return number, trail, number > 0
	}
	return 0, trail, false
}

// details answers all that is on record about a turn's calls.
func (s *Server) details(ctx context.Context, w http.ResponseWriter, m row, by workflows.Actor, turn int, trail workflows.Trail) error {
	d, err := s.router.Details(ctx, by, thread{id: m.thread, channel: m.channel}.workflow(), turn, trail)
	if err != nil {
		return err
	}
	a := clickAnswer{Outcome: workflows.OutcomeRecorded, Text: chat.NoCalls}
	if len(d.Calls) > 0 {
		a.Text = d.Text(style)
	}
	for _, c := range d.Calls {
		a.Details = append(a.Details, callDetail{
			N: c.N, ID: c.ID, Command: c.Command, Outcome: style.Outcome(c), Facts: style.Facts(c), Ran: c.Exec != "",
		})
	}
	answer(w, http.StatusOK, a)
	return nil
}
