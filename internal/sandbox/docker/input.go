package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/harness"
)

// Send sends input to the command; see [sandbox.Execs]. The harness in the
// container sends it, so that this process's end cuts nothing off.
func (s *session) Send(ctx context.Context, id string, in sandbox.Input) error {
	if err := in.Check(); err != nil {
		return err
	}
	if err := validID(id); err != nil {
		return fmt.Errorf("%w: %q", sandbox.ErrNoExec, id)
	}
	const doing = "writing to a command"
	state, err := s.sent(ctx, id, in.Key)
	if err == nil && state == "none" {
		if err = s.awaitInput(ctx, id); err == nil {
			what := strings.TrimSpace(string(harness.What(in.Interrupt, in.EOF)))
			_, err = s.ask(ctx, doing, "put", id, in.Key, octal(string(in.Data)), what)
		}
	}
	if err != nil {
		return err
	}
	return s.awaitSent(ctx, id, in.Key)
}

// Sent tells whether something was begun to be sent; see [sandbox.Execs].
func (s *session) Sent(ctx context.Context, id, key string) (bool, error) {
	if err := (sandbox.Input{Key: key}).Check(); err != nil {
		return false, err
	}
	if err := validID(id); err != nil {
		return false, fmt.Errorf("%w: %q", sandbox.ErrNoExec, id)
	}
	state, err := s.sent(ctx, id, key)
	return state != "none", err
}

func (s *session) sent(ctx context.Context, id, key string) (string, error) {
	out, code, err := s.call(ctx, "looking at input", "sent", id, key)
	switch {
	case err != nil:
		return "", err
	case code == codeNoExec:
		return "", fmt.Errorf("%w: %s", sandbox.ErrNoExec, id)
	case code != 0:
		return "", badAnswer("looking at input", code)
	}
	return strings.TrimSpace(string(out)), nil
}

// awaitSent returns once the input is with the command, or never will be.
func (s *session) awaitSent(ctx context.Context, id, key string) error {
	began := time.Now()
	for wait := pollMin; ; wait = min(2*wait, pollMax) {
		state, err := s.sent(ctx, id, key)
		switch {
		case err != nil:
			return err
		case state == "done 0":
			return nil
		case strings.HasPrefix(state, "done"):
			return sandbox.ErrExecEnded
		case state == "lost":
			return sandbox.ErrUnsure
		case state == "none" && time.Since(began) > startGrace:
			return fmt.Errorf("writing to a command: %w: the harness did not begin", sandbox.ErrUnavailable)
		}
		// Whoever sends notices by itself that the command has ended, unless what
		// kept the record of that was killed.
		if time.Since(began) > startGrace {
			if st, err := s.Status(ctx, id); err != nil || st.Ended() {
				return errors.Join(err, sandbox.ErrExecEnded)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// awaitInput returns once the command's standard input can be written to.
func (s *session) awaitInput(ctx context.Context, id string) error {
	for {
		st, err := s.Status(ctx, id)
		if err != nil {
			return err
		}
		if st.Ended() {
			return sandbox.ErrExecEnded
		}
		out, err := s.ask(ctx, "looking at a command", "input", id)
		if err != nil {
			return err
		}
		switch strings.TrimSpace(string(out)) {
		case "ready":
			return nil
		case "none":
			return sandbox.Refuse("The command was started without a standard input.")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollMin):
		}
	}
}
