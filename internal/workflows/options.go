package workflows

import (
	"strconv"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

func itoa(n int) string { return strconv.Itoa(n) }

// TaskTimeout bounds one workflow task of a session or manager: what was in hand
// when a worker was killed is done again after it. A task takes milliseconds, the
// replay of a whole run well under a second.
const TaskTimeout = 5 * time.Second

// mostPause bounds the growing pause between attempts at what stands between a
// session and its thread or its record. Each attempt that was lost with a killed
// bot or worker counts, so it is also what a thread may be late by once all are
// back.
const mostPause = 10 * time.Second

// forever retries until the activity succeeds or fails for good: the other side
// is only away.
func forever(first, most time.Duration) *temporal.RetryPolicy {
	return attempted(0, first, 2, most)
}

// attempted retries so often; 0 is for ever.
func attempted(attempts int32, first time.Duration, grow float64, most time.Duration) *temporal.RetryPolicy {
	return &temporal.RetryPolicy{InitialInterval: first, BackoffCoefficient: grow, MaximumInterval: most, MaximumAttempts: attempts}
}

// postOptions: a post waits for a bot as long as it takes; one attempt is bounded
// so that a hung connection is tried again. Tasks of one fairness key take turns
// with those of others, and a queue may have a rate for each key.
func postOptions(ctx workflow.Context, queue string, priority int, key string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           queue,
		StartToCloseTimeout: 60 * time.Second,
		HeartbeatTimeout:    10 * time.Second,
		WaitForCancellation: true,
		RetryPolicy:         forever(500*time.Millisecond, mostPause),
		Priority:            temporal.Priority{PriorityKey: priority, FairnessKey: fairnessKey(key)},
	})
}

// fairnessKey cuts a key to what the server takes: 64 bytes, of which the end
// tells threads apart.
func fairnessKey(key string) string { return key[max(0, len(key)-64):] }

// modelOptions: a model may think for minutes; its server may be away for some.
// After ten minutes of failures the turn ends with a sentence.
func modelOptions(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              TaskQueueReasoning,
		StartToCloseTimeout:    15 * time.Minute,
		ScheduleToCloseTimeout: 30 * time.Minute,
		HeartbeatTimeout:       10 * time.Second,
		RetryPolicy:            attempted(20, time.Second, 2, 30*time.Second),
	})
}

// recordOptions: small bookkeeping in the blob store, done in a moment; what a
// killed worker had in hand is done again soon.
func recordOptions(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           TaskQueueRecords,
		StartToCloseTimeout: 10 * time.Second,
		RetryPolicy:         forever(500*time.Millisecond, mostPause),
	})
}

// lookOptions: a look into the blob store, or a question to a session, that a person
// waits for.
func lookOptions(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              TaskQueueRecords,
		StartToCloseTimeout:    5 * time.Second,
		ScheduleToCloseTimeout: 20 * time.Second,
		RetryPolicy:            forever(200*time.Millisecond, 5*time.Second),
	})
}

// transcriptOptions: a transcript is written without a model; it may be long, so
// the heartbeat tells whether its worker lives.
func transcriptOptions(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           TaskQueueRecords,
		StartToCloseTimeout: 2 * time.Minute,
		HeartbeatTimeout:    10 * time.Second,
		RetryPolicy:         forever(500*time.Millisecond, mostPause),
	})
}

// hostOptions: a look at a host's queue, which takes as long as it must be watched.
func hostOptions(ctx workflow.Context, within time.Duration) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           TaskQueueRecords,
		StartToCloseTimeout: within + time.Minute,
		HeartbeatTimeout:    10 * time.Second,
		RetryPolicy:         forever(500*time.Millisecond, mostPause),
	})
}

// openOptions: a backend may pull an image; a seed may be large. What stays
// unavailable for two minutes is said in the thread.
func openOptions(ctx workflow.Context, queue string, attempts int32) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              queue,
		StartToCloseTimeout:    10 * time.Minute,
		ScheduleToCloseTimeout: 15 * time.Minute,
		HeartbeatTimeout:       10 * time.Second,
		WaitForCancellation:    true,
		RetryPolicy:            attempted(attempts, 500*time.Millisecond, 2, 10*time.Second),
	})
}

// How often a sandbox is tried to be opened: for calls that wait for it, and for a
// model that may not need it.
const (
	openAttempts    = 8
	prepareAttempts = 2
)

// openCancelWait is how long a stop waits for an opening sandbox to say that it
// is given up: its worker hears of it with the next heartbeat.
const openCancelWait = 10 * time.Second

// gateOptions: looking at files and judging is quick; a worker that dies at it
// is noticed by the short bound.
func gateOptions(ctx workflow.Context, queue string, attempts int32) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           queue,
		StartToCloseTimeout: 30 * time.Second,
		HeartbeatTimeout:    10 * time.Second,
		RetryPolicy:         attempted(attempts, 200*time.Millisecond, 2, mostPause),
	})
}

// gateAttempts are those before the thread is told that something is away: some 15 seconds of
// refused connections. Afterwards it is tried for as long as it takes, which is no
// event in history.
const gateAttempts = 7

// hereOptions: a local activity holds up its workflow task, so it is tried once
// and given little time; who may take more is asked after it.
func hereOptions(ctx workflow.Context) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: time.Second,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
	})
}

// runAttempts are those of a command's activity before the thread is told that
// something is away: some 13 seconds of refused connections.
const runAttempts = 16

// runOptions: the harness enforces the command's own time-out, so the bound here
// only has to exceed it. The heartbeat time-out is what a dead worker costs; the
// interval does not grow with the workers that died.
func runOptions(ctx workflow.Context, queue string, timeout time.Duration, attempts int32) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           queue,
		StartToCloseTimeout: timeout + 10*time.Minute,
		HeartbeatTimeout:    5 * time.Second,
		RetryPolicy:         attempted(attempts, 200*time.Millisecond, 1.5, time.Second),
	})
}

// probeOptions: a look whether a sandbox that was away answers, for as long as it
// takes.
func probeOptions(ctx workflow.Context, queue string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           queue,
		StartToCloseTimeout: time.Minute,
		HeartbeatTimeout:    10 * time.Second,
		RetryPolicy:         forever(200*time.Millisecond, 5*time.Second),
	})
}

// probeShort is less than a sandbox that was away takes to answer.
const probeShort = 5 * time.Second

// stopOptions: a stop is tried for a quarter of a minute; then the call's outcome
// is unknown.
func stopOptions(ctx workflow.Context, queue string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              queue,
		StartToCloseTimeout:    10 * time.Second,
		ScheduleToCloseTimeout: 15 * time.Second,
		RetryPolicy:            forever(200*time.Millisecond, 2*time.Second),
	})
}

// lateOptions: a stop that waits for its host.
func lateOptions(ctx workflow.Context, queue string, within time.Duration) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              queue,
		StartToCloseTimeout:    10 * time.Second,
		ScheduleToCloseTimeout: within,
		RetryPolicy:            forever(time.Second, mostPause),
	})
}

// snapshotOptions: a large workspace takes minutes; a snapshot that fails five
// times is shown as failed.
func snapshotOptions(ctx workflow.Context, queue string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              queue,
		StartToCloseTimeout:    30 * time.Minute,
		ScheduleToCloseTimeout: 2 * time.Hour,
		HeartbeatTimeout:       10 * time.Second,
		RetryPolicy:            attempted(5, time.Second, 2, 30*time.Second),
	})
}

// filesOptions: a sandbox may have to be started first.
func filesOptions(ctx workflow.Context, queue string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              queue,
		StartToCloseTimeout:    2 * time.Minute,
		ScheduleToCloseTimeout: 5 * time.Minute,
		HeartbeatTimeout:       10 * time.Second,
		WaitForCancellation:    true,
		RetryPolicy:            attempted(5, 500*time.Millisecond, 2, 10*time.Second),
	})
}

// fetchOptions: a bot asks its platform for a file, which may be slow or away.
func fetchOptions(ctx workflow.Context, queue, key string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              queue,
		StartToCloseTimeout:    2 * time.Minute,
		ScheduleToCloseTimeout: 10 * time.Minute,
		HeartbeatTimeout:       10 * time.Second,
		WaitForCancellation:    true,
		RetryPolicy:            attempted(6, time.Second, 2, 30*time.Second),
		Priority:               temporal.Priority{PriorityKey: priorityAnswer, FairnessKey: fairnessKey(key)},
	})
}

// switchOptions: a look at settings; without any worker the session stays where it
// is.
func switchOptions(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              TaskQueueSandbox,
		StartToCloseTimeout:    20 * time.Second,
		ScheduleToCloseTimeout: 2 * time.Minute,
		RetryPolicy:            attempted(8, 200*time.Millisecond, 2, 5*time.Second),
	})
}
