package discord

import (
	"errors"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/workflows"
)

// replyContent renders a reply: its text, and the buttons of a question.
func replyContent(key string, reply chat.Reply) content {
	c := textContent(key, reply.Text)
	if len(reply.Buttons) > 0 {
		c.rows = rows(reply.Buttons, ref{Question: reply.Question})
	}
	return c
}

// words is an error as a sentence for a person.
func words(err error) string {
	var e *chat.Error
	if errors.As(err, &e) {
		return e.Text()
	}
	return "Not confirmed: the server did not answer in time. It may have been recorded; trying again is harmless."
}

// chatError puts what went wrong on the way to Temporal into words.
func chatError(err error) error {
	if errors.Is(err, workflows.ErrUnavailable) {
		return &chat.Error{
			Kind: chat.KindUnavailable, Code: "server_unavailable", Message: "The server that keeps the sessions cannot be reached.",
			Hint: "Nothing was recorded; try again in a moment.", Err: err,
		}
	}
	return err
}
