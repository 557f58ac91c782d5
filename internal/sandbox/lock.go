package sandbox

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/countersign/countersign/internal/workflows"
)

// noSpace tells that a disk, or what may be had of it, is full.
func noSpace(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// sessionLock keeps a sandbox's starts apart: between the last look at what a
// verdict binds and the start of what it allows, nothing else begins.
type sessionLock struct{ taken chan struct{} }

// lockSession takes a sandbox for this activity. ctx bounds the wait.
func (a *Activities) lockSession(ctx context.Context, ref workflows.SandboxRef) (unlock func(), err error) {
	key := lockKey(ref)
	a.mu.Lock()
	l, ok := a.locks[key]
	if !ok {
		l = &sessionLock{taken: make(chan struct{}, 1)}
		a.locks[key] = l
	}
	a.mu.Unlock()
	select {
	case l.taken <- struct{}{}:
		return func() { <-l.taken }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// alone takes a sandbox for this activity and halts what runs in it: until release
// nothing of the session changes a file.
func (a *Activities) alone(ctx context.Context, s Session, ref workflows.SandboxRef) (release func(), err error) {
	unlock, err := a.lockSession(ctx, ref)
	if err != nil {
		return nil, err
	}
	thaw, err := freezeOthers(ctx, s, "")
	if err != nil {
		unlock()
		return nil, err
	}
	return func() {
		thaw()
		unlock()
	}, nil
}

func (a *Activities) forgetLock(ref workflows.SandboxRef) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.locks, lockKey(ref))
}

func lockKey(ref workflows.SandboxRef) string {
	return fmt.Sprintf("%s\x00%s\x00%d", ref.Backend, ref.ID, ref.Generation)
}

// freezeOthers halts the session's running execs, and returns what lets them go
// on: meanwhile none of them changes a file that is about to be looked at.
func freezeOthers(ctx context.Context, s Session, but string) (thaw func(), err error) {
	ids, err := s.Running(ctx)
	if err != nil {
		return nil, err
	}
	var frozen []string
	thaw = func() {
		for _, id := range frozen {
			_ = s.Signal(context.WithoutCancel(ctx), id, SignalThaw)
		}
	}
	for _, id := range ids {
		if id == but {
			continue
		}
		frozen = append(frozen, id)
		if err := s.Signal(ctx, id, SignalFreeze); err != nil {
			thaw()
			return nil, fmt.Errorf("halting exec %s: %w", id, err)
		}
	}
	return thaw, nil
}
