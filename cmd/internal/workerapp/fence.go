package workerapp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/docker"
	"github.com/countersign/countersign/internal/sandbox/local"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// lookEvery is how often this host's sandboxes are looked through for those that
	// are not known to be their sessions'; lookAtAll how often all are, as after a start.
	lookEvery = 5 * time.Second
	lookAtAll = time.Hour
	// tellWithin is how soon Temporal has to tell about a session for the look to count:
	// while this host is away for longer than its tasks wait, sessions do without it.
	tellWithin = lookEvery / 2
	// lookPause keeps the looks of a worker with thousands of sandboxes apart.
	lookPause = 20 * time.Millisecond
	// retryWithin is longer than a session pauses between two tries to have a sandbox
	// removed. Its own try is the better one: the receipt says what was in it.
	retryWithin = 15 * time.Second
)

// fence removes sandboxes of this host that their sessions have left, until ctx ends.
// So an old generation does nothing any more once its host is back.
func (a *App) fence(ctx context.Context, y yard) {
	f := fencer{log: a.Log, host: a.host, yard: y, sessions: control.New(a.Client, &control.Registry{Store: a.store}), words: a.words(y.Name())}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	failing := false
	for {
		err := f.round(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			a.Log.Warn("Sandboxes without a session were not looked for; it is tried again until they are",
				telemetry.KeyBackend, y.Name(), telemetry.KeyError, err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// box is a sandbox of this host.
type box struct {
	ID         string
	Generation int
}

// yard is where a backend keeps this host's sandboxes.
type yard interface {
	Name() string
	Open(ctx context.Context, spec sandbox.Spec) (sandbox.Session, error)
	// boxes lists them.
	boxes(ctx context.Context) ([]box, error)
}

type localYard struct{ *local.Backend }

func (y localYard) boxes(context.Context) ([]box, error) {
	there, err := y.Boxes()
	var all []box
	for _, b := range there {
		all = append(all, box{b.ID, b.Generation})
	}
	return all, err
}

// dockerYard is the engine's. What was left half made goes as well.
type dockerYard struct{ *docker.Backend }

func (y dockerYard) boxes(ctx context.Context) ([]box, error) {
	if err := y.Sweep(ctx); err != nil {
		return nil, err
	}
	there, err := y.Boxes(ctx)
	var all []box
	for _, b := range there {
		all = append(all, box(b))
	}
	return all, err
}

// words are what a backend's fencer is told.
type words struct {
	mu sync.Mutex
	// left are sandboxes to be removed, whatever their session says, and from when on.
	left map[box]time.Time
	// doubted are sessions to be looked at anew.
	doubted map[string]bool
}

// words are those of a backend.
func (a *App) words(backend string) *words {
	a.toldMu.Lock()
	defer a.toldMu.Unlock()
	if a.told == nil {
		a.told = map[string]*words{}
	}
	if a.told[backend] == nil {
		a.told[backend] = &words{left: map[box]time.Time{}, doubted: map[string]bool{}}
	}
	return a.told[backend]
}

// notRemoved takes note of a sandbox that its session wanted removed for good, and
// that could not be.
func (a *App) notRemoved(ref workflows.SandboxRef) {
	a.words(ref.Backend).leave(box{ref.ID, ref.Generation}, time.Now().Add(retryWithin))
}

func (w *words) leave(b box, from time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left[b] = from
}

func (w *words) removed(b box) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.left, b)
}

// due are those to be removed now.
func (w *words) due() []box {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []box
	for b, from := range w.left {
		if !time.Now().Before(from) {
			all = append(all, b)
		}
	}
	return all
}

func (w *words) doubt(workflowID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.doubted[workflowID] = true
}

// doubts hands over what is doubted.
func (w *words) doubts() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.doubted
	w.doubted = map[string]bool{}
	return all
}

// asked is what a fencer asks about sessions: Temporal how far they have come, which
// costs little, and them what they have.
type asked interface {
	Moment(ctx context.Context, workflowID string) (control.Moment, error)
	TurnState(ctx context.Context, workflowID string) (workflows.TurnState, error)
	// Destroyed is what managers know of sessions that Temporal has no more.
	Destroyed(ctx context.Context, workflowID string) (bool, error)
}

// fencer finds what sessions have left. There are two ways in which one leaves a
// sandbox behind. Its word to remove it came here and could not be followed: then the
// sandbox is named, and removed as soon as that can be. Or no word came, because this
// host was away, from Temporal or altogether, or made a sandbox that another host's
// replaced: then a look finds it. A look that failed is repeated, for all.
type fencer struct {
	log interface {
		Info(msg string, args ...any)
	}
	host     string
	yard     yard
	sessions asked
	words    *words
	// known is what the sessions of sandboxes have said, and at which moment; settled
	// are those that need no look until the next one at all, of which one is looked at
	// each time all the same: next is where the last one was.
	known   map[box]said
	settled map[box]bool
	next    int
	// all is when all were looked at, and heard when a look has ended well.
	all, heard time.Time
}

// said is what a session has said of a sandbox.
type said struct {
	at       string
	standing standing
}

// round looks once, and removes what is left.
func (f *fencer) round(ctx context.Context) error {
	return errors.Join(f.look(ctx), f.remove(ctx))
}

// look looks at sandboxes that are not settled, and at one that is: were this host
// away from Temporal, it would show.
func (f *fencer) look(ctx context.Context) error {
	now := time.Now()
	if passed(f.all, now) > lookAtAll || passed(f.heard, now) > lookEvery+tellWithin {
		f.all, f.settled = now, map[box]bool{}
	}
	err := f.lookAt(ctx)
	if err != nil {
		f.all = time.Time{}
		return err
	}
	f.heard = time.Now()
	return nil
}

func (f *fencer) lookAt(ctx context.Context) error {
	doubts := f.words.doubts()
	boxes, err := f.yard.boxes(ctx)
	if err != nil {
		return err
	}
	f.keep(boxes)
	turn := f.turn(boxes)
	for _, b := range boxes {
		if f.settled[b] && b != turn && !doubts[b.ID] {
			continue
		}
		if _, err := workflows.ParseWorkflowID(b.ID); err != nil {
			continue // not a session's
		}
		if err := f.ask(ctx, b); err != nil {
			return fmt.Errorf("asking about %s: %w", b.ID, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookPause):
		}
	}
	return nil
}

// keep forgets what is not there any more.
func (f *fencer) keep(boxes []box) {
	there := map[box]bool{}
	for _, b := range boxes {
		there[b] = true
	}
	maps.DeleteFunc(f.known, func(b box, _ said) bool { return !there[b] })
	maps.DeleteFunc(f.settled, func(b box, _ bool) bool { return !there[b] })
}

// turn is the next one of those that are settled; none where none is.
func (f *fencer) turn(boxes []box) box {
	for range boxes {
		f.next = (f.next + 1) % len(boxes)
		if b := boxes[f.next]; f.settled[b] {
			return b
		}
	}
	return box{}
}

// ask finds out how a sandbox stands, from its session only where something has
// happened in it since it was asked last. It fails where Temporal tells nothing.
func (f *fencer) ask(ctx context.Context, b box) error {
	delete(f.settled, b)
	mctx, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	m, err := f.sessions.Moment(mctx, b.ID)
	switch {
	case errors.Is(err, workflows.ErrNoSession):
		return f.askManager(ctx, b)
	case err != nil:
		return err
	}
	s := f.known[b]
	switch {
	case m.Closed:
		s = said{m.At, left}
	case s.at != m.At:
		st, err := f.sessions.TurnState(ctx, b.ID)
		if err != nil {
			return nil // it is asked again
		}
		s = said{m.At, f.standing(b, st)}
	}
	f.note(b, s)
	return nil
}

// askManager finds out about a sandbox whose session Temporal does not have. It may be
// long over; or the worker was pointed at another server: nothing is removed on a guess.
func (f *fencer) askManager(ctx context.Context, b box) error {
	over, err := f.sessions.Destroyed(ctx, b.ID)
	switch {
	case err != nil: // it is asked again
	case over:
		f.words.leave(b, time.Time{})
	default:
		f.settled[b] = true
	}
	return nil
}

func (f *fencer) note(b box, s said) {
	if f.known == nil {
		f.known = map[box]said{}
	}
	f.known[b] = s
	switch s.standing {
	case mine:
		f.settled[b] = true
	case left:
		f.words.leave(b, time.Time{})
	}
}

// standing is what a sandbox is to its session.
type standing int

const (
	undecided standing = iota // it may become the session's
	mine
	left
)

func (f *fencer) standing(b box, st workflows.TurnState) standing {
	sb := st.Sandbox
	switch {
	case st.Header.Liveness == workflows.LivenessDestroyed:
		return left
	case sb == nil || b.Generation > sb.Generation:
		return undecided
	case b.Generation == sb.Generation && sb.Backend == f.yard.Name() && sb.Host == f.host:
		return mine
	}
	return left
}

// remove removes what is left, as far as that can be done now.
func (f *fencer) remove(ctx context.Context) error {
	var failed []error
	for _, b := range f.words.due() {
		if err := f.removeBox(ctx, b); err != nil {
			failed = append(failed, fmt.Errorf("removing generation %d of %s: %w", b.Generation, b.ID, err))
			continue
		}
		f.words.removed(b)
	}
	return errors.Join(failed...)
}

func (f *fencer) removeBox(ctx context.Context, b box) error {
	s, err := f.yard.Open(ctx, sandbox.Spec{ID: b.ID, Generation: b.Generation, Existing: true})
	if errors.Is(err, sandbox.ErrGone) {
		return nil
	}
	if err == nil {
		err = s.Destroy(ctx)
	}
	if err == nil {
		f.log.Info("Removed a sandbox that its session has left", telemetry.KeyWorkflowID, b.ID, "generation", b.Generation)
	}
	return err
}
