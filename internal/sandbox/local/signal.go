package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

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

// Stdin writes to the command; see [sandbox.Execs].
func (s *session) Stdin(ctx context.Context, id string, data []byte, eof bool) error {
	record := s.record(id)
	if err := s.awaitPipe(ctx, id); err != nil {
		return err
	}
	if len(data) > 0 {
		if err := writePipe(ctx, filepath.Join(record, "run", "in"), data); err != nil {
			return err
		}
	}
	if eof {
		return s.harness(ctx, "eof", record)
	}
	return nil
}

// awaitPipe returns once the command's standard input can be written to.
func (s *session) awaitPipe(ctx context.Context, id string) error {
	for {
		st, err := s.Status(ctx, id)
		if err != nil {
			return err
		}
		if st.Ended() {
			return sandbox.ErrExecEnded
		}
		data, err := os.ReadFile(filepath.Join(s.record(id), "job.json"))
		if err != nil {
			return s.storeError("reading an exec's record", err)
		}
		var j job
		if err := json.Unmarshal(data, &j); err != nil || !j.Stdin {
			return sandbox.Refuse("The command was started without a standard input.")
		}
		// The harness has just been started.
		if _, err := os.Lstat(filepath.Join(s.record(id), "run", "holder")); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollMin):
		}
	}
}

func writePipe(ctx context.Context, path string, data []byte) error {
	// Without waiting: a pipe that nobody reads says so.
	f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) || errors.Is(err, fs.ErrNotExist) {
		return sandbox.ErrExecEnded
	}
	if err != nil {
		return fmt.Errorf("opening the command's standard input: %w", err)
	}
	defer f.Close()
	stop := context.AfterFunc(ctx, func() { _ = f.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := f.Write(data); err != nil {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, syscall.EPIPE):
			return sandbox.ErrExecEnded
		}
		return fmt.Errorf("writing to the command's standard input: %w", err)
	}
	return nil
}
