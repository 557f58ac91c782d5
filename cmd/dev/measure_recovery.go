package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	benchKills = 20
	// benchCounts prints the numbers up to benchCount, one each 20 ms, and writes
	// each to a file too, so that a second run would show.
	benchCount  = 12_000
	benchCounts = "for i in $(seq 12000); do echo $i; sleep 0.02; done"
	// benchKillLimit is what a kill may cost until output streams again: the
	// heartbeat's time-out of 5 s and 2 s.
	benchKillLimit = 7 * time.Second
)

// benchRecovery kills the worker in the middle of a command, again and again, and
// measures from the retry's dispatch to the next streamed byte.
func benchRecovery(ctx context.Context, e *process.Env, _ benchOptions) (m measurement, err error) {
	a, err := startApart(ctx, e, "--set", "sandbox.timeout.shell=20m")
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	thread, err := a.ask(ctx, "`"+benchCounts+"`")
	if err != nil {
		return m, err
	}
	call, err := a.running(ctx, thread)
	if err != nil {
		return m, err
	}
	var fromKill []float64
	for range benchKills {
		r, err := a.killOnce(ctx, thread, call)
		if err != nil {
			return m, err
		}
		m.samples = append(m.samples, milliseconds(r.streamed.Sub(r.dispatched)))
		fromKill = append(fromKill, milliseconds(r.streamed.Sub(r.killed)))
	}
	repeats, err := a.repeats(ctx, call)
	if err != nil {
		return m, err
	}
	slowest := percentile(fromKill, 100)
	m.broken = repeats > 0 || slowest > milliseconds(benchKillLimit)
	m.note = fmt.Sprintf("from the kill to the next streamed byte p50 %.0f ms, at most %.0f ms (budget %d ms); %d lines repeated or missing (budget 0) after %d kills",
		percentile(fromKill, 50), slowest, benchKillLimit.Milliseconds(), repeats, benchKills)
	return m, nil
}

// running waits for the command to have printed something and returns its call's ID.
func (a *apart) running(ctx context.Context, thread string) (string, error) {
	var id string
	err := a.poll(ctx, apartWithin, "the command prints", func() (bool, error) {
		var t struct {
			Messages []struct {
				ToolCalls []struct {
					ID    string `json:"id"`
					State string `json:"state"`
				} `json:"tool_calls"`
			} `json:"messages"`
		}
		if err := a.chat().call(ctx, "GET", "/threads/"+thread, nil, &t); err != nil {
			return false, err
		}
		for _, m := range t.Messages {
			for _, c := range m.ToolCalls {
				if c.State == workflows.CallRunning {
					id = c.ID
				}
			}
		}
		if id == "" {
			return false, nil
		}
		out, err := a.output(ctx, id)
		return len(out) > 0, err
	})
	return id, err
}

func (a *apart) output(ctx context.Context, call string) (string, error) {
	return a.chat().text(ctx, "/tool_calls/"+call+"/output?stream=stdout")
}

// recovered is one kill's story.
type recovered struct{ killed, dispatched, streamed time.Time }

// killOnce kills the worker, starts it again, and waits for output newer than the
// kill.
func (a *apart) killOnce(ctx context.Context, thread, call string) (r recovered, err error) {
	time.Sleep(time.Second) // into the middle of the stream
	attempt, _, err := a.attempt(ctx, thread)
	if err != nil {
		return r, err
	}
	r.killed = time.Now()
	a.worker.kill()
	before, err := a.output(ctx, call)
	if err != nil {
		return r, err
	}
	if err := a.startWorker(); err != nil {
		return r, err
	}
	err = a.poll(ctx, apartWithin, "output streams again", func() (bool, error) {
		now, err := a.output(ctx, call)
		if err != nil || len(now) <= len(before) {
			return false, err
		}
		r.streamed = time.Now()
		return true, nil
	})
	if err != nil {
		return r, err
	}
	again, at, err := a.attempt(ctx, thread)
	if err != nil {
		return r, err
	}
	if again <= attempt {
		return r, fmt.Errorf("the command's activity is at attempt %d after a kill, and was at %d before", again, attempt)
	}
	r.dispatched = at
	return r, nil
}

// attempt tells which attempt of the command's activity runs, and since when.
func (a *apart) attempt(ctx context.Context, thread string) (int32, time.Time, error) {
	d, err := a.client.DescribeWorkflowExecution(ctx, "agent/web/main/"+thread, "")
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("describing the session: %w", err)
	}
	for _, p := range d.GetPendingActivities() {
		if p.GetActivityType().GetName() == workflows.ActivityRunTool {
			return p.GetAttempt(), p.GetLastStartedTime().AsTime(), nil
		}
	}
	return 0, time.Time{}, errors.New("the command is no longer running")
}

// repeats counts the lines of the output so far that are not the next number.
func (a *apart) repeats(ctx context.Context, call string) (int, error) {
	out, err := a.output(ctx, call)
	if err != nil {
		return 0, err
	}
	whole := out[:strings.LastIndexByte(out, '\n')+1]
	wrong, want := 0, 1
	for line := range strings.Lines(whole) {
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil || n != want {
			wrong++
		}
		want = n + 1
	}
	if want > benchCount {
		return wrong, errors.New("the command ended before its worker was killed often enough")
	}
	return wrong, nil
}
