package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"golang.org/x/sync/errgroup"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// benchTalkers is how many sessions take turns at once, benchTurnsEach how many
	// turns each takes.
	benchTalkers   = 8
	benchTurnsEach = 12
	// benchCardTurns is how many turns' cards are watched.
	benchCardTurns = 20
	// benchActiveSessions is how many sessions are weighed in full use.
	benchActiveSessions = 100
	// benchWaked is how many parked sessions are woken; benchSmallCache lets none
	// of them stay in memory.
	benchWaked      = 20
	benchSmallCache = 2
	// benchRestPoll is how often it is looked how many sessions are at rest, in a list
	// of all.
	benchRestPoll = time.Second
)

// say sends a message to a thread and waits for its answer, the nth of the thread.
func (s *stack) say(ctx context.Context, thread, text string, nth int) error {
	if err := s.send(ctx, thread, text); err != nil {
		return err
	}
	return s.answers(ctx, thread, nth)
}

// send sends a message to a thread.
func (s *stack) send(ctx context.Context, thread, text string) error {
	return s.chat().call(ctx, "POST", "/threads/"+thread+"/messages", map[string]string{
		"text": text, "client_id": strconv.FormatInt(time.Now().UnixNano(), 36) + thread,
	}, &struct{}{})
}

// answers waits until a thread has n answers.
func (s *stack) answers(ctx context.Context, thread string, n int) error {
	return s.watchThread(ctx, thread, func(t benchThread) bool {
		have := 0
		for _, m := range t.Messages {
			if m.Kind == workflows.KindAnswer {
				have++
			}
		}
		return have >= n
	})
}

// open starts a session with one command and waits for its answer.
func (s *stack) open(ctx context.Context) (string, error) {
	thread, err := s.ask(ctx, "`true`")
	if err != nil {
		return "", err
	}
	return thread, s.answers(ctx, thread, 1)
}

// benchTurns measures how many turns of one command a second this machine takes
// when several sessions ask at once, and what is busy then.
func benchTurns(ctx context.Context, e *process.Env, _ benchOptions) (m measurement, err error) {
	s, err := startStack(ctx, e)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	began, busy := time.Now(), cpuTime()
	var mu sync.Mutex
	var ends []time.Time
	g, gctx := errgroup.WithContext(ctx)
	for range benchTalkers {
		g.Go(func() error {
			thread, err := s.open(gctx)
			for turn := 2; err == nil && turn <= benchTurnsEach; turn++ {
				err = s.say(gctx, thread, "`true`", turn)
				mu.Lock()
				ends = append(ends, time.Now())
				mu.Unlock()
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return m, err
	}
	took := time.Since(began)
	// One figure for each quarter of the turns, in the order of their ends.
	part := len(ends) / 4
	from := began
	for i := part; i <= len(ends); i += part {
		m.samples = append(m.samples, float64(part)/ends[i-1].Sub(from).Seconds())
		from = ends[i-1]
	}
	used := (cpuTime() - busy).Seconds() / took.Seconds()
	what := "the server's and chat's round trips, one after the other"
	if used > 0.8*float64(runtime.NumCPU()) {
		what = "processor time"
	}
	m.note = fmt.Sprintf("bottleneck: %s; %.1f of %d processors busy, %.0f ms of processor time a turn, %d sessions at once",
		what, used, runtime.NumCPU(), used*took.Seconds()*1000/float64(benchTalkers*benchTurnsEach), benchTalkers)
	return m, nil
}

// cpuTime is what this process and its children that ended have used.
func cpuTime() time.Duration {
	var sum time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}

// benchCards measures from a command's end in history to the thread showing it.
func benchCards(ctx context.Context, e *process.Env, _ benchOptions) (m measurement, err error) {
	s, err := startStack(ctx, e)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	// Long enough apart that each end has an edit of its own.
	thread, err := s.ask(ctx, strings.Repeat("`sleep 0.3` ", benchCardTurns+benchWarm))
	if err != nil {
		return m, err
	}
	var shown []time.Time
	for len(shown) < benchCardTurns+benchWarm {
		n, err := s.endedCalls(ctx, thread)
		if err != nil {
			return m, err
		}
		for now := time.Now(); len(shown) < n; {
			shown = append(shown, now)
		}
		time.Sleep(2 * time.Millisecond)
	}
	var ended []time.Time
	types := map[int64]string{}
	err = events(ctx, s.client, "agent/web/main/"+thread, func(ev *historypb.HistoryEvent) {
		switch ev.GetEventType() {
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			types[ev.GetEventId()] = ev.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName()
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
			if types[ev.GetActivityTaskCompletedEventAttributes().GetScheduledEventId()] == workflows.ActivityRunTool {
				ended = append(ended, ev.GetEventTime().AsTime())
			}
		}
	})
	for i := benchWarm; i < min(len(ended), len(shown)); i++ {
		m.samples = append(m.samples, milliseconds(shown[i].Sub(ended[i])))
	}
	m.note = "from a command's end in history to its line in the browser chat"
	return m, err
}

// endedCalls counts a thread's calls that are shown as ended. Old ones are folded,
// so it counts the folded too.
func (s *stack) endedCalls(ctx context.Context, thread string) (int, error) {
	var t struct {
		Messages []struct {
			ToolCalls []struct {
				State string `json:"state"`
			} `json:"tool_calls"`
		} `json:"messages"`
	}
	if err := s.chat().call(ctx, "GET", "/threads/"+thread, nil, &t); err != nil {
		return 0, err
	}
	n := 0
	for _, m := range t.Messages {
		for _, c := range m.ToolCalls {
			if c.State == workflows.CallCompleted {
				n++
			}
		}
	}
	return n, nil
}

// benchActive weighs a worker by sessions that it has in memory, sandboxes open.
func benchActive(ctx context.Context, e *process.Env, _ benchOptions) (m measurement, err error) {
	a, err := startApart(ctx, e)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	for range 5 { // what the first sessions load is everybody's
		if _, err := a.open(ctx); err != nil {
			return m, err
		}
	}
	before, err := residentKB(a.worker)
	if err != nil {
		return m, err
	}
	for range benchActiveSessions {
		if _, err := a.open(ctx); err != nil {
			return m, err
		}
	}
	after, err := residentKB(a.worker)
	m.samples = []float64{(after - before) / benchActiveSessions}
	m.note = fmt.Sprintf("the worker's resident memory a session of one turn; %.0f MB with %d", after/1000, benchActiveSessions)
	return m, err
}

// benchParked weighs worker and bot by sessions at rest, beyond those that the
// worker's cache holds.
func benchParked(ctx context.Context, e *process.Env, o benchOptions) (m measurement, err error) {
	a, err := startApart(ctx, e)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	source, err := a.open(ctx)
	if err != nil {
		return m, err
	}
	cached := a.config.Worker.CachedSessions
	if o.parked <= cached {
		return m, fmt.Errorf("--parked must be more than the %d sessions that a worker caches", cached)
	}
	if err := a.park(ctx, source, cached); err != nil {
		return m, err
	}
	began := time.Now()
	worker, bot, err := a.weigh()
	if err != nil {
		return m, err
	}
	if err := a.park(ctx, source, o.parked); err != nil {
		return m, err
	}
	opened := time.Since(began)
	worker2, bot2, err := a.weigh()
	if err != nil {
		return m, err
	}
	first, again, err := a.needed(ctx)
	beyond := float64(o.parked - cached)
	m.samples = []float64{(worker2 - worker) / beyond}
	m.note = fmt.Sprintf("the worker's resident memory a session beyond the %d in its cache: worker %.0f MB with %d, %.0f MB with %d; bot %.0f and %.0f MB; they were opened at %.1f a second; all were asked what they need of the blob store in %.1f s, and in %.1f s once more",
		cached, worker/1000, cached, worker2/1000, o.parked, bot/1000, bot2/1000, beyond/opened.Seconds(), first.Seconds(), again.Seconds())
	return m, err
}

// needed is how long it takes to ask all sessions what must not be removed from the
// blob store, for the first time and when nothing has happened since.
func (a *apart) needed(ctx context.Context) (first, again time.Duration, err error) {
	store, err := blob.Open(ctx, a.config.Blob.URL)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	sessions := control.New(a.client, &control.Registry{Store: store})
	for _, took := range []*time.Duration{&first, &again} {
		began := time.Now()
		if _, err := sessions.Needed(ctx, began); err != nil {
			return 0, 0, err
		}
		*took = time.Since(began)
	}
	return first, again, nil
}

func (a *apart) weigh() (worker, bot float64, err error) {
	if worker, err = residentKB(a.worker); err != nil {
		return 0, 0, err
	}
	bot, err = residentKB(a.bot)
	return worker, bot, err
}

// park opens sessions from another's files, until there are so many; they take no
// turn. It returns when all are at rest.
func (a *apart) park(ctx context.Context, source string, until int) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(benchTalkers)
	have, err := a.resting(ctx)
	for range until - have {
		g.Go(func() error {
			_, err := a.ask(gctx, "new --from "+source)
			return err
		})
	}
	if err := errors.Join(err, g.Wait()); err != nil {
		return err
	}
	return a.poll(ctx, answerWithin, "all sessions are at rest", func() (bool, error) {
		time.Sleep(benchRestPoll)
		have, err := a.resting(ctx)
		return have >= until, errors.Join(err, a.alive())
	})
}

// resting is how many sessions show in their threads that they have started.
func (a *apart) resting(ctx context.Context) (int, error) {
	var threads []benchThread
	err := a.chat().call(ctx, "GET", "/channels/general/threads", nil, &threads)
	return len(slices.DeleteFunc(threads, func(t benchThread) bool { return t.Liveness == "" })), err
}

// benchWakeup compares a message to a session at rest, which the worker has to
// read again from history, with one to a session that it has in memory.
func benchWakeup(ctx context.Context, e *process.Env, _ benchOptions) (m measurement, err error) {
	a, err := startApart(ctx, e, "--set", "worker.cached_sessions="+strconv.Itoa(benchSmallCache))
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	var threads []string
	for range benchWaked {
		thread, err := a.open(ctx)
		if err != nil {
			return m, err
		}
		threads = append(threads, thread)
	}
	for _, thread := range threads {
		began := time.Now()
		if err := a.say(ctx, thread, "`true`", 2); err != nil {
			return m, err
		}
		m.samples = append(m.samples, milliseconds(time.Since(began)))
	}
	last := threads[len(threads)-1]
	for i := range benchWaked {
		began := time.Now()
		if err := a.say(ctx, last, "`true`", 3+i); err != nil {
			return m, err
		}
		m.yardstick = append(m.yardstick, milliseconds(time.Since(began)))
	}
	m.what = "a session in memory"
	m.note = "from the message to the answer of a turn of one command"
	return m, nil
}
