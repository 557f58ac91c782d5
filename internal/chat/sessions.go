package chat

import (
	"context"

	"github.com/countersign/countersign/internal/blob/owned"
	"github.com/countersign/countersign/internal/workflows"
)

// Signals reach sessions without waiting for a worker. Their errors wrap
// [workflows.ErrNoSession], [workflows.ErrUnavailable] (nothing was recorded) or
// [workflows.ErrUnconfirmed] (it may have been).
type Signals interface {
	RequestSession(ctx context.Context, r workflows.SessionRequest) error
	SendMessage(ctx context.Context, workflowID string, m workflows.Message) error
	SetTitle(ctx context.Context, workflowID string, t workflows.SetTitle) error
}

// Updates are asked of a session and answered by it. The same update ID gets the
// first answer again. Errors are as with [Signals].
type Updates interface {
	Decide(ctx context.Context, workflowID string, d workflows.Decision) (workflows.Outcome, error)
	CancelTurn(ctx context.Context, workflowID string, c workflows.CancelTurn, updateID string) (workflows.Outcome, error)
	Pause(ctx context.Context, workflowID string, p workflows.Pause, updateID string) (workflows.Outcome, error)
	SetModel(ctx context.Context, workflowID string, m workflows.SetModel, updateID string) (workflows.Outcome, error)
	RevokeGrant(ctx context.Context, workflowID string, r workflows.RevokeGrant, updateID string) (workflows.Outcome, error)
	SendFiles(ctx context.Context, workflowID string, f workflows.SendFiles, updateID string) (workflows.Outcome, error)
}

// Manager is what the manager of a team, guild or site does.
type Manager interface {
	SwitchBackend(ctx context.Context, managerID string, s workflows.SwitchSession, updateID string) (workflows.Outcome, error)
	Destroy(ctx context.Context, managerID string, d workflows.DestroySession, updateID string) (workflows.Outcome, error)
	Fork(ctx context.Context, managerID string, f workflows.ForkSession) (workflows.SessionResult, error)
	List(ctx context.Context, managerID string, l workflows.ListSessions) (workflows.SessionList, error)
}

// Queries read a session's state.
type Queries interface {
	TurnState(ctx context.Context, workflowID string) (workflows.TurnState, error)
	History(ctx context.Context, workflowID string) (workflows.History, error)
	TurnTrail(ctx context.Context, workflowID string, turn int) (workflows.TurnTrail, error)
}

// Sessions is all that a [Router] asks of Temporal.
type Sessions interface {
	Signals
	Updates
	Manager
	Queries
}

// Views is what a [Delivery] asks of Temporal: what a message should show now,
// and what moves on its cards: the tails of running execs, the model's words.
type Views interface {
	Message(ctx context.Context, workflowID, key string) (workflows.MessageView, error)
	Tails(ctx context.Context, workflowID string) (workflows.Tails, error)
}

// Blobs keeps texts that are too long for history. [blob.Store] is one.
type Blobs interface {
	// Put stores data under a key that follows from prefix and content.
	Put(ctx context.Context, prefix string, data []byte) (key string, err error)
	Get(ctx context.Context, key string) ([]byte, error)
}

// PutText makes a person's text fit to travel: a long one goes into the blob store, and
// its beginning with the reference on.
func PutText(ctx context.Context, b Blobs, text string) (workflows.TextRef, error) {
	ref := workflows.TextRef{Text: text, Bytes: len(text)}
	if len(text) <= workflows.MaxInlineMessage {
		return ref, nil
	}
	key, err := b.Put(ctx, owned.Messages, []byte(text))
	if err != nil {
		return workflows.TextRef{}, err
	}
	ref.Ref, ref.Text = key, CutBytes(text, workflows.MaxInlineMessage)
	return ref, nil
}

// GetText returns the whole text.
func GetText(ctx context.Context, b Blobs, ref workflows.TextRef) (string, error) {
	if ref.Ref == "" {
		return ref.Text, nil
	}
	data, err := b.Get(ctx, ref.Ref)
	return string(data), err
}
