package control

import (
	"context"
	"errors"

	"go.temporal.io/sdk/temporal"

	"github.com/countersign/countersign/internal/audit"
	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/workflows"
)

// Activities are what managers call to reach a session and the registry.
type Activities struct {
	Client   *Client
	Registry *Registry
}

// QuerySession asks a session for its last boundary.
func (a *Activities) QuerySession(ctx context.Context, in workflows.QuerySessionInput) (workflows.Boundary, error) {
	b, err := a.Client.Boundary(ctx, in.WorkflowID)
	return b, final(err)
}

// UpdateSession hands an update to a session and returns its answer.
func (a *Activities) UpdateSession(ctx context.Context, in workflows.UpdateSessionInput) (workflows.Outcome, error) {
	if in.Switch == nil {
		return workflows.Outcome{}, temporal.NewNonRetryableApplicationError("no update was named", workflows.ErrTypeNotFound, nil)
	}
	out, err := update[workflows.Outcome](ctx, a.Client, in.WorkflowID, workflows.UpdateSwitchBackend, in.UpdateID, *in.Switch)
	return out, final(err)
}

// SaveRegistry moves rows into the registry.
func (a *Activities) SaveRegistry(ctx context.Context, in workflows.SaveRegistryInput) (workflows.SaveRegistryResult, error) {
	return a.Registry.Save(ctx, in)
}

// LoadRegistry finds what an earlier manager saved.
func (a *Activities) LoadRegistry(ctx context.Context, in workflows.SaveRegistryInput) (workflows.SaveRegistryResult, error) {
	return a.Registry.Load(ctx, in)
}

// FindSession looks a session up that its manager does not have any more. A registry
// that was replaced twice meanwhile is gone: the manager has a newer one to look in.
func (a *Activities) FindSession(ctx context.Context, in workflows.FindSessionInput) (workflows.FindSessionResult, error) {
	res, err := a.Registry.Find(ctx, in)
	if errors.Is(err, blob.ErrNotFound) {
		err = temporal.NewNonRetryableApplicationError(err.Error(), workflows.ErrTypeNotFound, err)
	}
	return res, err
}

// final marks what a retry cannot mend.
func final(err error) error {
	if errors.Is(err, workflows.ErrNoSession) {
		return temporal.NewNonRetryableApplicationError(err.Error(), workflows.ErrTypeNotFound, err)
	}
	return err
}

// RecordAudit writes entries of a session's audit chain. An entry that stands
// already with other content is refused for good.
func (a *Activities) RecordAudit(ctx context.Context, in workflows.RecordAuditInput) error {
	err := audit.Record(ctx, a.Registry.Store, in.Entries)
	if errors.Is(err, audit.ErrConflict) {
		return temporal.NewNonRetryableApplicationError(err.Error(), workflows.ErrTypeConflict, err)
	}
	return err
}
