package chat

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// ErrRefused: the platform takes the message in no form that its poster has for it.
// Trying it again as it is leads nowhere.
var ErrRefused = errors.New("the chat service refuses the message as it is")

// brokeError is a panic: of a poster that cannot render what a message holds, or of what
// works on an event.
type brokeError struct {
	value any
	stack []byte
}

func (e *brokeError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// hopeless reports an error that the same content gives again.
func hopeless(err error) bool {
	var broke *brokeError
	return errors.As(err, &broke) || errors.Is(err, ErrRefused)
}

// caught is what f returns, or its panic as an error.
func caught(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &brokeError{r, debug.Stack()}
		}
	}()
	return f()
}

// whatBroke is an error for the log, of a panic with where it was.
func whatBroke(err error) []any {
	attrs := []any{telemetry.KeyError, err}
	var broke *brokeError
	if errors.As(err, &broke) {
		attrs = append(attrs, "stack", string(broke.stack))
	}
	return attrs
}

// written writes a message, in plainer and plainer forms where it cannot be rendered,
// or is refused, as it is: people see that there is something, and the session goes
// on.
func written(log *slog.Logger, c Content, write func(Content) error) error {
	err := caught(func() error { return write(c) })
	for _, form := range []func(Content) Content{plainer, barest} {
		if !hopeless(err) {
			return err
		}
		log.Error("A message cannot be shown as it is; it is shown in a plainer form", append(whatBroke(err),
			telemetry.KeyWorkflowID, c.WorkflowID, "key", c.View.Key, "kind", c.View.Kind, "version", c.View.Version)...)
		err = caught(func() error { return write(form(c)) })
	}
	return err
}

// notShown is said in the place of what could not be shown.
const notShown = "This could not be shown here as it is."

// How much of a message its plainer form shows, in characters.
const (
	plainText  = 200
	plainLine  = 60
	plainCalls = 4
)

// plainly is the beginning of a text in letters that nothing takes for anything else.
func plainly(s string, n int) string {
	return Cut(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune(" .,-/=", r):
			return r
		}
		return '?'
	}, CutBytes(s, 4*n)), n)
}

// plainer shows the beginnings of what a message says, in plain letters; of a text, that
// it is in a file. A request so shown is decided from Review.
func plainer(c Content) Content {
	switch v := c.View; {
	case v.Header != nil:
		h := plainHeader(*v.Header, plainLine)
		h.Title = plainly(v.Header.Title, plainLine)
		c.View.Header = &h
	case v.Turn != nil:
		t := *v.Turn
		t.Calls = slices.Clone(t.Calls[max(0, len(t.Calls)-plainCalls):])
		t.Folded += len(v.Turn.Calls) - len(t.Calls)
		for i, call := range t.Calls {
			t.Calls[i].Command, t.Calls[i].Tail, t.Calls[i].Note = plainly(call.Command, plainLine), "", ""
		}
		t.By, t.Error, t.Hint, t.Says = plainActor(t.By, plainLine), plainly(t.Error, plainText), notShown, workflows.ModelProgress{}
		c.View.Turn = &t
	case v.Approval != nil:
		a := plainApproval(*v.Approval, plainLine)
		a.Command.Text, a.Cwd = plainly(v.Approval.Command.Text, plainText), plainly(v.Approval.Cwd, plainText)
		c.View.Approval = &a
	default:
		if c.File == nil {
			c.File = &File{Name: FileName(v.Key), Data: []byte(c.Text)}
		}
		c.Text = notShown + " The file has it."
	}
	return c
}

// barest shows that there is something, and the buttons of cards.
func barest(c Content) Content {
	switch v := c.View; {
	case v.Header != nil:
		h := plainHeader(*v.Header, 0)
		h.Title = "Session"
		c.View.Header = &h
	case v.Turn != nil:
		t := *v.Turn
		t.Calls, t.Folded, t.By, t.Error, t.Hint, t.Says = nil, t.Folded+len(t.Calls), plainActor(t.By, 0), "it failed", notShown, workflows.ModelProgress{}
		c.View.Turn = &t
	case v.Approval != nil:
		a := plainApproval(*v.Approval, 0)
		a.Approvers, a.Notify = nil, nil
		a.Command.Text, a.Remark = "(not shown)", notShown
		c.View.Approval = &a
	default:
		c.Text, c.File, c.View.Buttons = notShown+" It is in the session's record: see `history`.", nil, nil
	}
	return c
}

// plainHeader is a header without what comes from outside, but for the beginnings of
// names.
func plainHeader(h workflows.HeaderView, names int) workflows.HeaderView {
	h.Workspace, h.Model, h.By, h.Notice = plainly(h.Workspace, names), plainly(h.Model, names), plainActor(h.By, names), notShown
	return h
}

// plainApproval is a request without what comes from outside, but for the beginnings
// of names.
func plainApproval(a workflows.ApprovalView, names int) workflows.ApprovalView {
	a.Displayable, a.Editable = false, false
	a.Workspace, a.Cwd, a.To, a.Original, a.Text, a.EditedBy = "", "", "", "", "", nil
	a.Reasons, a.Asking, a.Evidence, a.Remark = []string{notShown + " Review has all of it"}, 0, nil, ""
	a.RequestedBy = plainActors(a.RequestedBy, names)
	a.Votes = slices.Clone(a.Votes[max(0, len(a.Votes)-plainCalls):])
	for i := range a.Votes {
		a.Votes[i].By, a.Votes[i].Reason = plainActor(a.Votes[i].By, names), ""
	}
	if a.DecidedBy != nil {
		by := plainActor(*a.DecidedBy, names)
		a.DecidedBy = &by
	}
	return a
}

func plainActors(all []workflows.Actor, names int) []workflows.Actor {
	out := make([]workflows.Actor, min(len(all), plainCalls))
	for i := range out {
		out[i] = plainActor(all[i], names)
	}
	return out
}

func plainActor(a workflows.Actor, names int) workflows.Actor {
	a.Name = plainly(a.Name, names)
	return a
}
