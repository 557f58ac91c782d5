package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/countersign/countersign/internal/sandbox"
)

const (
	// Polling grows from pollMin to pollMax while nothing happens.
	pollMin = 5 * time.Millisecond
	pollMax = 200 * time.Millisecond
	// probeEvery is how often a silent exec's harness is looked at.
	probeEvery = time.Second
	// stopGrace is how long a stop may take before the container is killed to
	// bring it about: longer than its two polite seconds under load.
	stopGrace = 15 * time.Second

	blockSize   = 64 << 10 // 64 KiB: what dd in container.sh counts in
	blocksAsked = 16       // 1 MiB an answer
)

// Attach follows a stream; see [sandbox.Execs].
func (s *session) Attach(ctx context.Context, id string, stream sandbox.Stream, offset int64, w io.Writer) error {
	if stream != sandbox.Stdout && stream != sandbox.Stderr {
		return fmt.Errorf("an exec has no stream %q", stream)
	}
	if validID(id) != nil {
		return fmt.Errorf("%w: %q", sandbox.ErrNoExec, id)
	}
	if offset < 0 {
		return fmt.Errorf("reading output at offset %d: it is negative", offset)
	}
	wait, looked := pollMin, time.Now()
	var buf bytes.Buffer
	for {
		probe := ""
		if time.Since(looked) > probeEvery {
			probe, looked = "probe", time.Now()
		}
		data, ended, err := s.output(ctx, &buf, id, stream, offset, probe)
		if err != nil {
			return err
		}
		if len(data) > 0 {
			if _, err := w.Write(data); err != nil {
				return err
			}
			offset += int64(len(data))
			wait = pollMin
			continue
		}
		if ended {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
			wait = min(wait*3/2+1, pollMax)
		}
	}
}

// output returns what a stream holds from offset on, up to about 1 MiB in buf,
// and whether it had ended before that was read.
func (s *session) output(
	ctx context.Context, buf *bytes.Buffer, id string, stream sandbox.Stream, offset int64, probe string,
) ([]byte, bool, error) {
	out, code, err := s.callInto(ctx, buf, "reading output", "output",
		id, string(stream), strconv.FormatInt(offset/blockSize, 10), strconv.Itoa(blocksAsked), probe)
	if err != nil {
		return nil, false, err
	}
	if code == codeNoExec {
		return nil, false, fmt.Errorf("%w: %s", sandbox.ErrNoExec, id)
	}
	more, data, ok := bytes.Cut(out, []byte("\n"))
	if !ok || code != 0 {
		return nil, false, badAnswer("reading output", code)
	}
	data = data[min(offset%blockSize, int64(len(data))):]
	return data, string(more) == "ended", nil
}

// Signal reaches everything that the exec started; see [sandbox.Execs]. A stop
// goes on when ctx or this process ends.
func (s *session) Signal(ctx context.Context, id string, sig sandbox.Signal) error {
	switch sig {
	case sandbox.SignalInterrupt, sandbox.SignalTerminate, sandbox.SignalFreeze, sandbox.SignalThaw:
		return s.send(ctx, id, sig)
	case sandbox.SignalStop, sandbox.SignalKill:
		return s.stop(ctx, id, sig)
	}
	return fmt.Errorf("there is no signal %q", sig)
}

// validID refuses what no record can be called.
func validID(id string) error {
	return sandbox.ExecSpec{ID: id, Command: "-"}.Check()
}

func (s *session) send(ctx context.Context, id string, sig sandbox.Signal) error {
	if err := validID(id); err != nil {
		return err
	}
	_, code, err := s.call(ctx, "signalling a command", "send", id, string(sig))
	if err == nil && code == codeNoExec {
		return fmt.Errorf("%w: %s", sandbox.ErrNoExec, id)
	}
	if err == nil && code != 0 {
		return badAnswer("signalling a command", code)
	}
	return err
}

// stop returns when the exec has ended. A container in which nothing can be
// started any more, for want of processes or memory, is killed for it.
func (s *session) stop(ctx context.Context, id string, sig sandbox.Signal) error {
	patient, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	err := s.send(patient, id, sig)
	for wait := pollMin; err == nil; wait = min(2*wait, pollMax) {
		var st sandbox.ExecStatus
		if st, err = s.Status(patient, id); err == nil && st.Ended() {
			return nil
		}
		select {
		case <-patient.Done():
			err = patient.Err()
		case <-time.After(wait):
		}
	}
	if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, sandbox.ErrUnavailable) {
		return err
	}
	s.b.cfg.Log.WarnContext(ctx, "Killing a container to end a command", "container", s.name, "exec_id", id, "error", err)
	return s.force(ctx, id)
}

// force ends everything in the container, and records that the exec was
// cancelled. What else ran there ends as unknown.
func (s *session) force(ctx context.Context, id string) error {
	s.hangUp()
	s.stuck.Store(nil) // whatever it was that did not answer is over
	err := s.b.api.ContainerKill(ctx, s.id, "KILL")
	if err != nil && !errdefs.IsConflict(err) {
		return s.gone("ending a command", err)
	}
	_, err = s.ask(ctx, "ending a command", "settle", id, "cancelled")
	return err
}

// feed runs a program in the container with data as its standard input, and
// returns its exit code. When ctx ends the program sees the end of its input.
func (b *Backend) feed(ctx context.Context, id string, data []byte, opts container.ExecOptions) (int, error) {
	opts.AttachStdin, opts.AttachStdout, opts.AttachStderr = true, true, true
	ctx, end := b.api.watch(ctx, 0)
	defer end()
	conn, exec, err := b.exec(ctx, id, opts)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, conn.Close)
	defer stop()
	// What fails to be written shows in the exit code, or in ctx.
	if _, err = conn.Conn.Write(data); err == nil {
		err = conn.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, conn.Reader)
	if ctx.Err() != nil {
		return 0, why(ctx, ctx.Err())
	}
	e, ierr := b.api.ContainerExecInspect(ctx, exec)
	if ierr != nil {
		return 0, ierr
	}
	if e.Running {
		return 0, fmt.Errorf("the connection to a program in the container has ended: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	return e.ExitCode, nil
}
