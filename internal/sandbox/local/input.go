package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/harness"
)

// Send sends input to the command; see [sandbox.Execs]. The harness sends it, so
// that this process's end cuts nothing off.
func (s *session) Send(ctx context.Context, id string, in sandbox.Input) error {
	if err := in.Check(); err != nil {
		return err
	}
	sent := filepath.Join(s.record(id), "run", "sent", in.Key)
	if _, err := os.Lstat(filepath.Join(sent, "self")); err != nil {
		if err := s.awaitPipe(ctx, id); err != nil {
			return err
		}
		if err := s.putInput(sent, in); err != nil {
			return err
		}
		if err := s.harnessAlone("feed", s.record(id), in.Key); err != nil {
			return err
		}
	}
	return s.awaitSent(ctx, id, sent)
}

// Sent tells whether something was begun to be sent; see [sandbox.Execs].
func (s *session) Sent(ctx context.Context, id, key string) (bool, error) {
	if _, err := s.Status(ctx, id); err != nil {
		return false, err
	}
	if err := (sandbox.Input{Key: key}).Check(); err != nil {
		return false, err
	}
	_, err := os.Lstat(filepath.Join(s.record(id), "run", "sent", key, "self"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, s.storeError("looking at input", err)
	}
	return err == nil, nil
}

// putInput writes down what is to be sent, whole, unless that stands there.
func (s *session) putInput(sent string, in sandbox.Input) error {
	if err := os.MkdirAll(filepath.Dir(sent), 0o700); err != nil {
		return s.storeError("writing down input", err)
	}
	temp := filepath.Join(filepath.Dir(sent), newMark+random())
	defer os.RemoveAll(temp)
	if err := os.Mkdir(temp, 0o700); err != nil {
		return s.storeError("writing down input", err)
	}
	for name, content := range map[string][]byte{"text": in.Data, "what": harness.What(in.Interrupt, in.EOF)} {
		if err := os.WriteFile(filepath.Join(temp, name), content, 0o600); err != nil {
			return s.storeError("writing down input", err)
		}
	}
	if err := os.Rename(temp, sent); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return s.storeError("writing down input", err)
	}
	return nil
}

// harnessAlone starts a verb of the harness and does not wait for its end.
func (s *session) harnessAlone(args ...string) error {
	cmd := s.command(args...)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the exec harness: %w: %w", sandbox.ErrUnavailable, err)
	}
	go func() { _ = cmd.Wait() }()
	return nil
}

// awaitSent returns once the input is with the command, or never will be.
func (s *session) awaitSent(ctx context.Context, id, sent string) error {
	began := time.Now()
	for {
		data, err := os.ReadFile(filepath.Join(sent, "done"))
		if code, whole := strings.CutSuffix(string(data), "\n"); err == nil && whole {
			if code != "0" {
				return sandbox.ErrExecEnded
			}
			return nil
		}
		if err := s.sending(ctx, id, sent, time.Since(began)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollMin):
		}
	}
}

// sending returns an error where nobody sends the input any more.
func (s *session) sending(ctx context.Context, id, sent string, since time.Duration) error {
	line, err := os.ReadFile(filepath.Join(sent, "self"))
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return s.storeError("looking at input", err)
	case len(line) == 0 && since < startGrace:
		return nil
	case len(line) == 0 && err != nil:
		return fmt.Errorf("sending input: %w: the exec harness did not begin", sandbox.ErrUnavailable)
	case len(line) == 0:
		return sandbox.ErrUnsure
	}
	// Whoever sends notices by itself that the command has ended, unless what kept
	// the record of that was killed.
	if since > startGrace {
		if st, err := s.Status(ctx, id); err != nil || st.Ended() {
			return errors.Join(err, sandbox.ErrExecEnded)
		}
	}
	if who, err := harness.ParseProcess(string(line)); err != nil || !lives(who) {
		if _, err := os.Lstat(filepath.Join(sent, "done")); err == nil {
			return nil // it has written that between the two looks
		}
		return sandbox.ErrUnsure
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
