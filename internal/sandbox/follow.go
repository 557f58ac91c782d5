package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/countersign/countersign/internal/blob/execlog"
	"github.com/countersign/countersign/internal/blob/owned"
	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// flushEvery is how old output may be before it is in the blob store, and how
	// often the heartbeat tells the tail.
	flushEvery = 500 * time.Millisecond
	// tailKeep is how much of the newest output is kept for the tail: control
	// sequences take room, too.
	tailKeep = 8 << 10
)

// follower carries an exec's output to the blob store while it runs. Its memory
// does not grow with the output: a chunk a stream, and a tail.
type follower struct {
	*run
	log *execlog.Log
	// cover hides the workspace's secrets in what is stored, people what they read.
	cover, people *mask.Masker
	// tell passes the live tail on; a heartbeat does.
	tell func(workflows.ExecProgress)

	mu    sync.Mutex
	tail  []byte
	bytes [2]int64 // what is known of each stream
}

func newFollower(r *run) *follower {
	secrets := r.a.secrets(r.in.Sandbox.Workspace)
	return &follower{
		run: r, log: execlog.New(r.a.cfg.Blobs, r.in.WorkflowID),
		cover: mask.New(secrets...), people: r.a.cfg.Mask.With(secrets...),
	}
}

// follow returns when the exec has ended and all its output is stored.
func (f *follower) follow(ctx context.Context) (ExecStatus, error) {
	g, gctx := errgroup.WithContext(ctx)
	stop := f.report(ctx)
	for i, stream := range []Stream{Stdout, Stderr} {
		g.Go(func() error { return f.stream(gctx, i, stream) })
	}
	err := g.Wait()
	stop()
	if err != nil {
		return ExecStatus{}, err
	}
	return f.s.Status(ctx, f.in.ExecID)
}

// report heartbeats with the live tail until the returned function is called.
func (f *follower) report(ctx context.Context) func() {
	return repeat(flushEvery, func() {
		if f.tell != nil {
			f.tell(f.progress())
		} else {
			f.a.heartbeat(ctx, f.progress())
		}
	})
}

func (f *follower) progress() workflows.ExecProgress {
	f.mu.Lock()
	defer f.mu.Unlock()
	return workflows.ExecProgress{
		ExecID: f.in.ExecID, Tail: tailText(f.tail, f.people), StdoutBytes: f.bytes[0], StderrBytes: f.bytes[1],
	}
}

// stream carries one stream, from where an earlier attempt stopped. What it
// stored last is read again, for the tail.
func (f *follower) stream(ctx context.Context, i int, stream Stream) error {
	stored, err := f.stored(ctx, stream)
	if err != nil {
		return err
	}
	from := max(0, stored-tailKeep)
	up := uploader{f: f, i: i, stream: string(stream), stored: stored, skip: stored - from}
	f.mu.Lock()
	f.bytes[i] = from
	f.mu.Unlock()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := up.flushLoop(ctx); err != nil {
			cancel()
		}
	})
	err = f.s.Attach(ctx, f.in.ExecID, stream, from, &up)
	cancel()
	wg.Wait()
	if up.failed != nil {
		return up.failed
	}
	if err != nil {
		return err
	}
	up.ended()
	return up.flush(context.WithoutCancel(ctx))
}

// stored is how much of a stream an earlier attempt has stored.
func (f *follower) stored(ctx context.Context, stream Stream) (int64, error) {
	if f.first {
		return 0, nil
	}
	return f.log.Size(ctx, f.in.ExecID, string(stream))
}

// seen notes new output.
func (f *follower) seen(i int, p []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bytes[i] += int64(len(p))
	f.tail = append(f.tail, p[max(0, len(p)-tailKeep):]...)
	if over := len(f.tail) - tailKeep; over > 0 {
		f.tail = append(f.tail[:0], f.tail[over:]...)
	}
}

// uploader stores one stream in chunks.
type uploader struct {
	f      *follower
	i      int
	stream string

	mu     sync.Mutex
	buf    []byte
	stored int64
	skip   int64 // bytes to come that are stored already
	failed error
	over   bool // nothing more comes
}

// ended says that nothing more comes: what looked like the beginning of a secret
// is none.
func (u *uploader) ended() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.over = true
}

// Write takes output in; it blocks while a full chunk is stored.
func (u *uploader) Write(p []byte) (int, error) {
	u.f.seen(u.i, p)
	n := len(p)
	u.mu.Lock()
	defer u.mu.Unlock()
	drop := min(u.skip, int64(n))
	u.skip -= drop
	p = p[drop:]
	for len(p) > 0 {
		take := min(len(p), execlog.MaxChunk-len(u.buf))
		u.buf = append(u.buf, p[:take]...)
		p = p[take:]
		if len(u.buf) == execlog.MaxChunk {
			if err := u.store(context.Background()); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (u *uploader) flushLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(flushEvery):
		}
		if err := u.flush(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func (u *uploader) flush(ctx context.Context) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.failed != nil {
		return u.failed
	}
	return u.store(ctx)
}

// store appends the buffer to the log. Where another attempt has appended more,
// that stays: the bytes are the same.
func (u *uploader) store(ctx context.Context) error {
	for {
		ready := len(u.buf) - u.f.cover.Hide(u.buf)
		if u.over {
			ready = len(u.buf)
		}
		if ready == 0 {
			return nil
		}
		err := u.f.log.Append(ctx, u.f.in.ExecID, u.stream, u.stored, u.buf[:ready])
		if err == nil {
			u.stored += int64(ready)
			u.buf = append(u.buf[:0], u.buf[ready:]...)
			return nil
		}
		if !errors.Is(err, execlog.ErrMoved) {
			u.failed = fmt.Errorf("storing output: %w", err)
			return u.failed
		}
		size, err := u.f.log.Size(ctx, u.f.in.ExecID, u.stream)
		if err != nil || size <= u.stored {
			u.failed = fmt.Errorf("storing output at %d, where the log ends at %d: %w", u.stored, size, errors.Join(err, execlog.ErrMoved))
			return u.failed
		}
		ahead := size - u.stored
		here := min(ahead, int64(len(u.buf)))
		u.buf = append(u.buf[:0], u.buf[here:]...)
		u.skip = ahead - here
		u.stored = size
	}
}

// result is what the workflow and the model get of an exec that has ended.
func (f *follower) result(ctx context.Context, st ExecStatus) (workflows.ToolResult, error) {
	o, res := outcome(st, f.in.Timeout)
	res.Tail, res.StdoutBytes, res.StderrBytes = f.progress().Tail, st.StdoutBytes, st.StderrBytes
	res.StartedAt, res.EndedAt = st.StartedAt.UTC(), st.EndedAt.UTC()
	if st.EndedAt.IsZero() {
		res.EndedAt = time.Time{}
	}
	if st.State == StateFailed {
		res.Error = f.whyFailed(ctx)
		o.Note = res.Error
	}
	var err error
	if why := f.refused(); why != "" {
		res.Error = strings.TrimSpace(res.Error + " " + why)
		o.Note = strings.TrimSpace(o.Note + " " + why)
	}
	if o.Stdout, o.StdoutTail, err = f.part(ctx, f.in.ExecID, execlog.Stdout, 0, st.StdoutBytes); err != nil {
		return res, err
	}
	if o.Stderr, o.StderrTail, err = f.part(ctx, f.in.ExecID, execlog.Stderr, 0, st.StderrBytes); err != nil {
		return res, err
	}
	o.StdoutBytes, o.StderrBytes = st.StdoutBytes, st.StderrBytes
	if f.onTerminal(ctx) {
		o.onScreen(f.cover)
	}
	res.Output, err = f.a.putLong(ctx, owned.Prefix(owned.Outputs, f.in.WorkflowID), f.a.cfg.Format(o), f.in.Inline)
	return res, err
}

// guarded is a session that knows which hosts its commands were refused since a
// moment, as ends of sentences.
type guarded interface {
	Refused(since time.Time) []string
}

// What is said of refused hosts stays short: it is in history.
const (
	maxRefusals = 3
	maxRefusal  = 150 // bytes
)

// refused says which hosts were refused while the command was followed, to it or to
// another of the session's: most programs tell only that something was.
func (f *follower) refused() string {
	s, ok := f.s.(guarded)
	if !ok {
		return ""
	}
	all := s.Refused(f.began)
	if len(all) == 0 {
		return ""
	}
	more := ""
	if over := len(all) - maxRefusals; over > 0 {
		all, more = all[:maxRefusals], fmt.Sprintf("; and %d more", over)
	}
	for i, why := range all {
		all[i] = cutText(f.people.Text(clean(why)), maxRefusal)
	}
	return "A connection was refused: " + strings.Join(all, "; ") + more + "."
}

// outcome is how an exec has ended, for the model and for the workflow.
func outcome(st ExecStatus, timeout time.Duration) (Output, workflows.ToolResult) {
	res := workflows.ToolResult{State: workflows.CallCompleted}
	o := Output{}
	switch st.State {
	case StateExited:
		res.ExitCode = &st.ExitCode
	case StateTimedOut:
		res.TimedOut = true
		o.Note = "ended after " + timeout.String() + ", its time-out"
	case StateOutputLimit:
		res.Error = "It was ended: it wrote more than can be kept."
	case StateOutputLost:
		res.Error = "It was ended: what it wrote could not be kept. The disk that holds this session's files is full, or fails; free some space on it."
	case StateCancelled:
		res.State = workflows.CallCancelled
		res.Error = "It was stopped while it ran."
	case StateFailed:
		res.State = workflows.CallFailed
		res.Error = "It could not be started."
	default:
		res.State = workflows.CallUnknown
		res.Error = "The command's processes were ended from outside; it may have finished."
	}
	o.State, o.ExitCode, o.TimedOut = res.State, res.ExitCode, res.TimedOut
	if o.Note == "" {
		o.Note = res.Error
	}
	return o, res
}

// part reads what a stream holds between two offsets: its beginning and, where
// it is long, its end.
func (f *follower) part(ctx context.Context, exec, stream string, from, to int64) (head, tail string, err error) {
	const room = MaxStreamBytes
	if to <= from {
		return "", "", nil
	}
	data, err := f.log.ReadAt(ctx, exec, stream, from, int(min(room, to-from)))
	if err != nil || to-from <= room {
		return string(data), "", err
	}
	end, err := f.log.ReadAt(ctx, exec, stream, to-room/2, room/2)
	return string(data[:min(len(data), room/2)]), string(end), err
}

// whyFailed reads what the sandbox said when it could not start the command.
func (f *follower) whyFailed(ctx context.Context) string {
	var out bytes.Buffer
	_ = f.s.Attach(ctx, f.in.ExecID, Stderr, 0, &limitedBuffer{&out, 1 << 10})
	if line := firstLine(clean(out.String())); line != "" {
		return "It could not be started: " + f.people.Text(line) + "."
	}
	return "It could not be started."
}

// limitedBuffer keeps the first bytes written to it.
type limitedBuffer struct {
	w    io.Writer
	room int
}

func (l *limitedBuffer) Write(p []byte) (int, error) {
	keep := p[:min(len(p), l.room)]
	l.room -= len(keep)
	_, err := l.w.Write(keep)
	return len(p), err
}
