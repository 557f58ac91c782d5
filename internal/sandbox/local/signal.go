package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/harness"
)

// Signal reaches everything that the exec started; see [sandbox.Execs]. Once
// begun it goes on when ctx or this process ends.
func (s *session) Signal(ctx context.Context, id string, sig sandbox.Signal) error {
	switch sig {
	case sandbox.SignalStop, sandbox.SignalKill, sandbox.SignalInterrupt, sandbox.SignalTerminate, sandbox.SignalFreeze, sandbox.SignalThaw:
	default:
		return fmt.Errorf("there is no signal %q", sig)
	}
	_, err := s.Status(ctx, id)
	if errors.Is(err, sandbox.ErrNoExec) && (sig == sandbox.SignalStop || sig == sandbox.SignalKill) {
		var forbidden bool
		if forbidden, err = s.forbid(id); forbidden {
			return nil
		}
	}
	if err != nil {
		return err
	}
	return s.harness(ctx, "signal", s.record(id), string(sig))
}

// forbid takes the lock of an exec that was not started, and records that it was
// cancelled. It says false when somebody starts it at this moment.
func (s *session) forbid(id string) (bool, error) {
	if err := (sandbox.ExecSpec{ID: id, Command: "-"}).Check(); err != nil {
		return false, err
	}
	if err := s.publish(id, job{Forbidden: true}); err != nil {
		return false, err
	}
	record := s.record(id)
	lock, err := os.OpenFile(filepath.Join(record, "run", "lock"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, s.storeError("forbidding an exec", err)
	}
	if err := lock.Close(); err != nil {
		return false, s.storeError("forbidding an exec", err)
	}
	temp := filepath.Join(record, "run", "exit")
	if err := os.WriteFile(temp, harness.Exit{Reason: harness.ReasonCancelled}.Encode(), 0o600); err != nil {
		return false, s.storeError("forbidding an exec", err)
	}
	if err := os.Rename(temp, filepath.Join(record, "exit")); err != nil {
		return false, s.storeError("forbidding an exec", err)
	}
	return true, nil
}

func (s *session) harness(ctx context.Context, args ...string) error {
	cmd := s.command(args...)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the exec harness: %w: %w", sandbox.ErrUnavailable, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			return fmt.Errorf("running the exec harness's %s: %w", args[0], err)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
