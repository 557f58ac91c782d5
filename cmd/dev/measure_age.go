package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// benchYoung is how many turns a young session comes to. It is about as many as
	// one run holds: so young and old are looked at over a run's whole length.
	benchYoung = 20
	// benchSettled is longer than what is still done after a turn's answer takes: the
	// snapshot, the record, the last edits.
	benchSettled = 500 * time.Millisecond
	// benchOthers is how many sessions drive one out of the worker's memory.
	benchOthers = benchSmallCache + 1
)

// benchReplayAge compares what it costs to read an old session from history with
// what a young one costs: a query to a worker that does not have it in memory,
// after each of the last turns of the old and each of the young, by turns.
func benchReplayAge(ctx context.Context, e *process.Env, o benchOptions) (m measurement, err error) {
	if o.turns < 2*benchYoung {
		return m, fmt.Errorf("--turns must be at least %d", 2*benchYoung)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a, err := startApart(ctx, e, "--set", "worker.cached_sessions="+strconv.Itoa(benchSmallCache))
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	g := &ageing{apart: a}
	if g.news, err = a.listen(ctx); err != nil {
		return m, err
	}
	for range benchOthers {
		other, err := g.begin(ctx)
		if err != nil {
			return m, err
		}
		g.others = append(g.others, other.thread)
	}
	old, err := g.begin(ctx)
	if err != nil {
		return m, err
	}
	for old.turns < o.turns-benchYoung {
		if err := g.turn(ctx, old); err != nil {
			return m, err
		}
	}
	young := &aged{}
	for young.turns < benchYoung {
		if err := g.turn(ctx, old); err != nil {
			return m, err
		}
		if err := g.turn(ctx, young); err != nil {
			return m, err
		}
		time.Sleep(benchSettled)
		order := []*aged{old, young}
		if young.turns%2 == 0 { // whoever is first finds more still going on
			order = []*aged{young, old}
		}
		for _, x := range order {
			if err := g.replay(ctx, x); err != nil {
				return m, err
			}
		}
	}
	m.samples, m.yardstick = old.samples, young.samples
	m.what = fmt.Sprintf("%d turns", benchYoung)
	m.note = fmt.Sprintf("the last %d of %d turns; the old one's runs have %.0f events then, the young one's %.0f, at the median",
		benchYoung, o.turns, percentile(old.events, 50), percentile(young.events, 50))
	return m, nil
}

// ageing lets sessions grow old.
type ageing struct {
	*apart
	news   *news
	others []string
}

// aged is a session and what was seen of it.
type aged struct {
	thread          string
	turns           int
	samples, events []float64
}

func (g *ageing) begin(ctx context.Context) (*aged, error) {
	x := &aged{}
	return x, g.turn(ctx, x)
}

// turn lets a session take one turn, the first of which starts it.
func (g *ageing) turn(ctx context.Context, x *aged) (err error) {
	if x.thread == "" {
		x.thread, err = g.ask(ctx, "`true`")
	} else {
		err = g.send(ctx, x.thread, "`true`")
	}
	if err != nil {
		return err
	}
	x.turns++
	return g.news.await(ctx, x.thread, x.turns)
}

// replay drives a session out of the worker's memory, asks it how it stands, and
// looks how long its history is.
func (g *ageing) replay(ctx context.Context, x *aged) error {
	for _, other := range g.others {
		if err := g.rename(ctx, other, strconv.FormatInt(time.Now().UnixNano(), 36)); err != nil {
			return err
		}
	}
	took, err := g.query(ctx, x.thread)
	if err != nil {
		return err
	}
	d, err := g.client.DescribeWorkflowExecution(ctx, "agent/web/main/"+x.thread, "")
	if err != nil {
		return fmt.Errorf("describing the session: %w", err)
	}
	x.samples = append(x.samples, milliseconds(took))
	x.events = append(x.events, float64(d.GetWorkflowExecutionInfo().GetHistoryLength()))
	return nil
}

// rename gives a session another title: a change, so that the worker takes it into
// memory.
func (a *apart) rename(ctx context.Context, thread, title string) error {
	var reply struct{}
	err := a.chat().call(ctx, "POST", "/threads/"+thread+"/messages", map[string]string{
		"text": fmt.Sprintf("/agent title %q", title), "client_id": title + thread,
	}, &reply)
	if err != nil {
		return err
	}
	return a.watchThread(ctx, thread, func(t benchThread) bool { return t.Title == title })
}

func (a *apart) query(ctx context.Context, thread string) (time.Duration, error) {
	began := time.Now()
	v, err := a.client.QueryWorkflow(ctx, "agent/web/main/"+thread, "", workflows.QueryTurnState)
	if err != nil {
		return 0, fmt.Errorf("asking a session: %w", err)
	}
	took := time.Since(began)
	if !v.HasValue() {
		return 0, errors.New("a session gave no state")
	}
	return took, nil
}
