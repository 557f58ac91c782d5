package chat

import (
	"context"
	"slices"

	"github.com/countersign/countersign/internal/workflows"
)

// Visible are the sessions as one person sees them: those in channels that are
// closed to them are not listed to them, nor copied for them.
type Visible struct {
	Sessions
	// Rows tells which rows of a list whoever asks sees; nil sees all.
	Rows func(context.Context) func(workflows.SessionRow) bool
	// Source reports whether whoever asks for a copy sees what is copied.
	Source func(ctx context.Context, f workflows.ForkSession, source workflows.Thread) bool
	// Unseen is said of a source that is closed to somebody; see [Unseen].
	Unseen *Error
}

// List leaves out what the one who asks cannot see.
func (v Visible) List(ctx context.Context, managerID string, l workflows.ListSessions) (workflows.SessionList, error) {
	list, err := v.Sessions.List(ctx, managerID, l)
	if err != nil {
		return list, err
	}
	sees := v.Rows(ctx)
	if sees == nil {
		return list, nil
	}
	list.Sessions = slices.DeleteFunc(slices.Clone(list.Sessions), func(row workflows.SessionRow) bool { return !sees(row) })
	return list, nil
}

// Fork copies what the one who asks can see.
func (v Visible) Fork(ctx context.Context, managerID string, f workflows.ForkSession) (workflows.SessionResult, error) {
	source, err := workflows.ParseWorkflowID(f.Source)
	if err != nil || !v.Source(ctx, f, source) {
		return workflows.SessionResult{}, v.Unseen
	}
	return v.Sessions.Fork(ctx, managerID, f)
}

// Unseen is what is said of a session that is closed to somebody: as of one that
// does not exist. list is how sessions are listed.
func Unseen(list string) *Error {
	return &Error{
		Kind: KindForbidden, Code: "unknown_session", Message: "That names no session that you can see here.",
		Hint: "See `" + list + "` for the sessions and their names.",
	}
}
