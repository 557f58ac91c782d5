package workerapp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/blob/owned"
	"github.com/countersign/countersign/internal/config/datadir"
	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/sandbox/snapshot"
	"github.com/countersign/countersign/internal/telemetry"
)

const (
	// collectEvery is how often snapshots that nobody needs are looked for, the
	// first time after collectFirst: a worker that is started again and again does
	// not ask every session each time.
	collectEvery = 6 * time.Hour
	collectFirst = 10 * time.Minute
	// collectWithin bounds one such look.
	collectWithin = 30 * time.Minute

	// CollectGrace is how old a blob is before it may be removed: longer than
	// anything takes from the making of a snapshot to its reference on record, such
	// as a fork that waits for a chat service.
	CollectGrace = 24 * time.Hour

	// forgetAfter is how long a sandbox's index is kept that no snapshot has
	// renewed. Without it the next one is a whole one.
	forgetAfter = 30 * 24 * time.Hour
)

// ownerKey names the namespace whose snapshots are in a store: another one's must
// not be removed because this one does not need them.
const ownerKey = snapshot.Prefix + "owner"

func stateDir(d *datadir.Dir) string { return d.Join("snapshots") }

// collect removes snapshots that nobody needs until ctx ends.
func (a *App) collect(ctx context.Context) {
	store := &snapshot.Store{Blobs: a.store, State: stateDir(a.Dir)}
	wait := time.NewTimer(collectFirst)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wait.C:
			wait.Reset(collectEvery)
		}
		if err := store.ForgetOld(time.Now().Add(-forgetAfter)); err != nil {
			a.Log.Warn("Old indexes of sandboxes were not removed", telemetry.KeyError, err)
		}
		done, err := Collect(ctx, a.Client, a.Config.Temporal.Namespace, a.store, CollectGrace, false)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			a.Log.Warn("Blobs that nobody needs were not removed", telemetry.KeyError, err)
		case done.Blobs > 0:
			a.Log.Info("Blobs that nobody needs were removed", "blobs", done.Blobs, "bytes", done.Bytes, "kept", done.Kept)
		}
	}
}

// Collect removes from a store what no session needs: snapshots, uploads, and all that
// is kept of sessions that are over, but for what is on record about them. What was
// written within grace stays. With dry it only tells what it would remove.
func Collect(ctx context.Context, c client.Client, namespace string, store *blob.Store, grace time.Duration, dry bool) (snapshot.Collected, error) {
	ctx, cancel := context.WithTimeout(ctx, collectWithin)
	defer cancel()
	if err := own(ctx, c, namespace, store); err != nil {
		return snapshot.Collected{}, err
	}
	sessions := control.New(c, &control.Registry{Store: store})
	now, err := store.Now(ctx)
	if err != nil {
		return snapshot.Collected{}, err
	}
	// Whichever clock is behind: what is kept for too long costs nothing.
	now = earlier(now, time.Now())
	old := now.Add(-grace)
	needed := sync.OnceValues(func() (*control.Needed, error) { return sessions.Needed(ctx, now) })
	files, kept, err := owned.Candidates(ctx, store, old)
	if err != nil {
		return snapshot.Collected{}, err
	}
	s := &snapshot.Store{Blobs: store}
	res, err := s.Collect(ctx, old, dry, func(context.Context) ([]string, error) {
		n, err := needed()
		if err != nil {
			return nil, err
		}
		return n.Snapshots, nil
	})
	res.Kept += kept
	if err != nil {
		return res, err
	}
	n, err := needed()
	if err != nil {
		return res, err
	}
	more, err := owned.Remove(ctx, store, files, old, dry, n)
	res.Blobs, res.Bytes, res.Kept = res.Blobs+more.Blobs, res.Bytes+more.Bytes, res.Kept+more.Kept
	if err != nil || dry {
		return res, err
	}
	for _, id := range n.Ended { // from now on their blobs are kept for a while
		if _, err := sessions.TellEnded(ctx, id); err != nil {
			return res, fmt.Errorf("telling that %s has ended: %w", id, err)
		}
	}
	return res, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// own makes sure that the snapshots in a store are of this namespace's sessions.
func own(ctx context.Context, c client.Client, namespace string, store *blob.Store) error {
	ns, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	if err != nil {
		return fmt.Errorf("looking at namespace %s: %w", namespace, err)
	}
	id := ns.GetNamespaceInfo().GetId()
	err = store.PutNew(ctx, ownerKey, []byte(id))
	if !errors.Is(err, blob.ErrExists) {
		return err
	}
	have, err := store.Get(ctx, ownerKey)
	if err != nil {
		return fmt.Errorf("reading whose snapshots these are: %w", err)
	}
	if string(have) != id {
		return fmt.Errorf("the snapshots in this blob store belong to the Temporal namespace %s and this is %s (%s): nothing is removed; "+
			"when that one is gone, remove the blob %s", have, id, namespace, ownerKey)
	}
	return nil
}
