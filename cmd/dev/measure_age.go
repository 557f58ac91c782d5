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
	// benchYoung is how many turns the session has that an old one is compared with.
	benchYoung = 20
	// benchReplays is how many last turns of each age are looked at.
	benchReplays = 10
	// benchOthers is how many sessions drive one out of the worker's memory.
	benchOthers = benchSmallCache + 1
)

// benchReplayAge compares what it costs to read an old session from history with
// what a young one costs: a query to a worker that does not have it in memory.
func benchReplayAge(ctx context.Context, e *process.Env, o benchOptions) (m measurement, err error) {
	if o.turns < 2*benchYoung {
		return m, fmt.Errorf("--turns must be at least %d", 2*benchYoung)
	}
	a, err := startApart(ctx, e, "--set", "worker.cached_sessions="+strconv.Itoa(benchSmallCache))
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	var others []string
	for range benchOthers {
		thread, err := a.open(ctx)
		if err != nil {
			return m, err
		}
		others = append(others, thread)
	}
	thread, err := a.open(ctx)
	if err != nil {
		return m, err
	}
	var size [2]int64
	for turn := 2; turn <= o.turns; turn++ {
		if err := a.say(ctx, thread, "`true`", turn); err != nil {
			return m, err
		}
		switch {
		case turn > benchYoung-benchReplays && turn <= benchYoung:
			size[0], err = a.replay(ctx, thread, others, &m.yardstick)
		case turn > o.turns-benchReplays:
			size[1], err = a.replay(ctx, thread, others, &m.samples)
		}
		if err != nil {
			return m, err
		}
	}
	m.what = fmt.Sprintf("%d turns", benchYoung)
	m.note = fmt.Sprintf("%d turns; the run's history has %d events, the young one's %d", o.turns, size[1], size[0])
	return m, nil
}

// replay drives a session out of the worker's memory, asks it how it stands, and
// returns how long its history is.
func (a *apart) replay(ctx context.Context, thread string, others []string, samples *[]float64) (int64, error) {
	for _, other := range others {
		if err := a.rename(ctx, other, strconv.FormatInt(time.Now().UnixNano(), 36)); err != nil {
			return 0, err
		}
	}
	took, err := a.query(ctx, thread)
	if err != nil {
		return 0, err
	}
	*samples = append(*samples, milliseconds(took))
	d, err := a.client.DescribeWorkflowExecution(ctx, "agent/web/main/"+thread, "")
	if err != nil {
		return 0, fmt.Errorf("describing the session: %w", err)
	}
	return d.GetWorkflowExecutionInfo().GetHistoryLength(), nil
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
