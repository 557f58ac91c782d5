package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/countersign/countersign/internal/sandbox/snapshot"
	"github.com/countersign/countersign/internal/workflows"
)

// TakeSnapshot stores the workspace's content. Background execs are halted
// meanwhile. Content that has not changed keeps its reference.
func (a *Activities) TakeSnapshot(ctx context.Context, in workflows.SnapshotInput) (workflows.SnapshotResult, error) {
	defer a.beat(ctx)()
	res, err := a.takeSnapshot(ctx, in)
	return res, activityError(ctx, err)
}

func (a *Activities) takeSnapshot(ctx context.Context, in workflows.SnapshotInput) (workflows.SnapshotResult, error) {
	s, err := a.open(ctx, in.Sandbox)
	if err != nil {
		return workflows.SnapshotResult{}, err
	}
	release, err := a.alone(ctx, s, in.Sandbox)
	if err != nil {
		return workflows.SnapshotResult{}, err
	}
	defer release()
	took, err := a.snapshots.Take(ctx, lockKey(in.Sandbox), s)
	if errors.Is(err, snapshot.ErrIgnoreFile) {
		err = Refuse(fmt.Sprintf("%v; make it shorter.", err))
	}
	res := workflows.SnapshotResult{Snapshot: took.Ref, Files: took.Files, Bytes: took.Bytes}
	if err == nil {
		res.Work = takeWork(ctx, s)
	}
	return res, err
}

// snapshotSeed fills a new sandbox from a snapshot, and notes that it holds that.
// When the note fails its next snapshot is a whole one, and nothing else is the
// matter.
func (a *Activities) snapshotSeed(in workflows.OpenInput, backend string) Seed {
	key := lockKey(workflows.SandboxRef{Backend: backend, ID: in.WorkflowID, Generation: in.Generation})
	return Seed{
		Snapshot: func(ctx context.Context) (io.ReadCloser, error) {
			r, err := a.snapshots.Open(ctx, in.Snapshot)
			if err != nil {
				return nil, snapshotError(err)
			}
			return snapshotReader{r}, nil
		},
		Filled: func(ctx context.Context, tree snapshot.Tree) {
			if err := a.snapshots.Seeded(ctx, key, in.Snapshot, tree); err != nil {
				a.cfg.Log.WarnContext(ctx, "The next snapshot of a restored sandbox will be a whole one", "snapshot", in.Snapshot, "error", err)
			}
		},
	}
}

// snapshotReader gives the errors of a snapshot's stream as sentences.
type snapshotReader struct{ io.ReadCloser }

func (r snapshotReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	return n, snapshotError(err)
}

// snapshotError makes a sentence of what trying again does not help.
func snapshotError(err error) error {
	switch {
	case errors.Is(err, snapshot.ErrBadReference):
		return Refuse(fmt.Sprintf("There is no such snapshot: %v.", err))
	case errors.Is(err, snapshot.ErrNotKept):
		return Refuse("The snapshot is not kept any more.")
	case errors.Is(err, snapshot.ErrDamaged):
		return Refuse("The snapshot is damaged: its content is not what was stored.")
	}
	return err
}
