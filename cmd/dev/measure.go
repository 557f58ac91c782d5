package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/internal/config"
	"github.com/countersign/countersign/internal/devserver"
	"github.com/countersign/countersign/internal/policy"
	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/local"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// benchActivities is how many no-op activities make a yardstick.
	benchActivities = 200
	// benchCalls is how many tool calls and approvals are measured.
	benchCalls = 40
	// answerPoll is how often a thread is looked at for an answer whose time is not
	// measured: looking is work that the measured calls would wait for.
	answerPoll = 500 * time.Millisecond
	// benchWarm is how many first samples are thrown away: caches fill.
	benchWarm  = 3
	benchQueue = "bench"
)

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// benchNoop compares a no-op activity on the file-backed server with one on a
// server in memory.
func benchNoop(ctx context.Context, e *process.Env) (samples, yardstick []float64, what string, err error) {
	dir, err := os.MkdirTemp("", "countersign-bench-")
	if err != nil {
		return nil, nil, "", fmt.Errorf("making a directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if yardstick, err = noopOn(ctx, devserver.Options{InMemory: true}); err != nil {
		return nil, nil, "", err
	}
	samples, err = noopOn(ctx, devserver.Options{DataDir: dir})
	return samples, yardstick, "in_memory_server", err
}

func noopOn(ctx context.Context, o devserver.Options) (samples []float64, err error) {
	s, err := devserver.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	c, err := s.Dial(ctx, "")
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return noops(ctx, c)
}

// noops measures no-op activities, one after the other, from scheduled to
// completed as history has it.
func noops(ctx context.Context, c client.Client) ([]float64, error) {
	w := worker.New(c, benchQueue, worker.Options{})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context, n int) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		for range n {
			if err := workflow.ExecuteActivity(ctx, "Noop").Get(ctx, nil); err != nil {
				return err
			}
		}
		return nil
	}, workflow.RegisterOptions{Name: "Noops"})
	w.RegisterActivityWithOptions(func(context.Context) error { return nil }, activity.RegisterOptions{Name: "Noop"})
	if err := w.Start(); err != nil {
		return nil, fmt.Errorf("starting a worker: %w", err)
	}
	defer w.Stop()
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: benchQueue}, "Noops", benchActivities+benchWarm)
	if err != nil {
		return nil, fmt.Errorf("starting the no-op workflow: %w", err)
	}
	if err := run.Get(ctx, nil); err != nil {
		return nil, err
	}
	var samples []float64
	var last time.Time
	err = events(ctx, c, run.GetID(), func(ev *historypb.HistoryEvent) {
		if ev.GetEventType() == enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED {
			if at := ev.GetEventTime().AsTime(); !last.IsZero() {
				samples = append(samples, milliseconds(at.Sub(last)))
			}
			last = ev.GetEventTime().AsTime()
		}
	})
	return samples[min(benchWarm, len(samples)):], err
}

// events reads a workflow's history, of the newest run and those before it.
func events(ctx context.Context, c client.Client, id string, each func(*historypb.HistoryEvent)) error {
	it := c.GetWorkflowHistory(ctx, id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		ev, err := it.Next()
		if err != nil {
			return fmt.Errorf("reading history: %w", err)
		}
		each(ev)
	}
	return nil
}

// stack is everything in this process, on a directory of its own.
type stack struct {
	*dev
	temp string
	// alive is an error when something that is measured has ended; nil where all is
	// in this process.
	alive func() error
}

func startStack(ctx context.Context, e *process.Env, without ...string) (*stack, error) {
	temp, err := os.MkdirTemp("", "countersign-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	s := &stack{temp: temp}
	workspace := filepath.Join(temp, "workspace")
	if err := os.Mkdir(workspace, 0o755); err != nil {
		return nil, errors.Join(fmt.Errorf("making the workspace: %w", err), s.stop())
	}
	cfg, err := config.Load(config.Sources{Embedded: true, Defaults: devDefaults(workspace), Flags: map[string]string{
		"data_dir": filepath.Join(temp, "data"), "openai.model": config.ModelOffline, "log.level": "error",
		"web.listen": "127.0.0.1:0",
	}})
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	s.dev = &dev{config: cfg, env: e, without: map[string]bool{}}
	for _, part := range without {
		s.without[part] = true
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func (s *stack) stop() error {
	var err error
	if s.dev != nil {
		err = s.Stop()
	}
	return errors.Join(err, os.RemoveAll(s.temp))
}

// ask sends a task, or another command that opens a session, and returns the
// thread's ID. What is not confirmed in time is sent again, under the same client_id.
func (s *stack) ask(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	var reply struct {
		ThreadID string `json:"thread_id"`
		Text     string `json:"text"` // what the asker alone is told: why it was not done
	}
	in := map[string]string{"text": "/agent " + command, "client_id": strconv.FormatInt(time.Now().UnixNano(), 36)}
	for {
		err := s.chat().call(ctx, "POST", "/channels/general/messages", in, &reply)
		var no *refused
		if err == nil && reply.Text != "" {
			err = fmt.Errorf("%q was answered: %s", command, reply.Text)
		}
		if !errors.As(err, &no) || no.code != http.StatusServiceUnavailable {
			return reply.ThreadID, err
		}
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(time.Second):
		}
		if err := s.check(); err != nil {
			return "", err
		}
	}
}

// benchToolCall measures a tool call from the model's answer recorded to the
// output recorded: the offline model answers at once and `true` ends at once.
func benchToolCall(ctx context.Context, e *process.Env) (samples, yardstick []float64, what string, err error) {
	s, err := startStack(ctx, e)
	if err != nil {
		return nil, nil, "", err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if yardstick, err = noops(ctx, s.client); err != nil {
		return nil, nil, "", err
	}
	thread, err := s.ask(ctx, strings.Repeat("`true` ", benchCalls+benchWarm))
	if err != nil {
		return nil, nil, "", err
	}
	if _, err := s.answer(ctx, thread); err != nil {
		return nil, nil, "", err
	}
	types := map[int64]string{}
	var asked time.Time
	err = events(ctx, s.client, "agent/web/main/"+thread, func(ev *historypb.HistoryEvent) {
		switch ev.GetEventType() {
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
			types[ev.GetEventId()] = ev.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName()
		case enumspb.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
			switch at := ev.GetEventTime().AsTime(); types[ev.GetActivityTaskCompletedEventAttributes().GetScheduledEventId()] {
			case workflows.ActivityCallModel:
				asked = at
			case workflows.ActivityRunTool:
				samples = append(samples, milliseconds(at.Sub(asked)))
			}
		}
	})
	if len(samples) <= benchWarm {
		return nil, nil, "", errors.Join(err, errors.New("the session ran no commands"))
	}
	return samples[benchWarm:], yardstick, "noop_activity", err
}

// answer waits for a thread's first answer.
func (s *stack) answer(ctx context.Context, thread string) (string, error) {
	var text string
	err := s.watchThreadEvery(ctx, answerPoll, thread, func(t benchThread) bool {
		for _, m := range t.Messages {
			if m.Kind == "answer" {
				text = m.Text
			}
		}
		return text != ""
	})
	return text, err
}

// benchThread is what the measurements look at of a thread.
type benchThread struct {
	Title    string `json:"title"`
	Liveness string `json:"liveness"`
	Messages []struct {
		ID       string `json:"id"`
		Kind     string `json:"kind"`
		Text     string `json:"text"`
		Approval *struct {
			State string `json:"state"`
		} `json:"approval"`
	} `json:"messages"`
}

func (s *stack) watchThread(ctx context.Context, thread string, done func(benchThread) bool) error {
	return s.watchThreadEvery(ctx, smokePoll, thread, done)
}

func (s *stack) watchThreadEvery(ctx context.Context, every time.Duration, thread string, done func(benchThread) bool) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		var t benchThread
		if err := s.chat().call(ctx, "GET", "/threads/"+thread, nil, &t); err != nil {
			return err
		}
		if done(t) {
			return nil
		}
		if err := s.check(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}

// check is an error when something that is measured has ended.
func (s *stack) check() error {
	if s.alive == nil {
		return nil
	}
	return s.alive()
}

// approvedCommand asks, and when it runs says so at once, in nanoseconds: by the shell's
// own clock (bash 5), as starting a program to tell the time would be measured, too.
const approvedCommand = "echo ${EPOCHREALTIME/./}000; rm -rf build"

// benchApproval measures from the approval sent to the exec's first byte, which
// is the time that the command itself printed.
func benchApproval(ctx context.Context, e *process.Env) (samples, yardstick []float64, what string, err error) {
	s, err := startStack(ctx, e)
	if err != nil {
		return nil, nil, "", err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if yardstick, err = noops(ctx, s.client); err != nil {
		return nil, nil, "", err
	}
	thread, err := s.ask(ctx, strings.Repeat("`"+approvedCommand+"` ", benchCalls+benchWarm))
	if err != nil {
		return nil, nil, "", err
	}
	var sent []time.Time
	for range benchCalls + benchWarm {
		at, err := s.approveNext(ctx, thread)
		if err != nil {
			return nil, nil, "", err
		}
		sent = append(sent, at)
	}
	text, err := s.answer(ctx, thread)
	if err != nil {
		return nil, nil, "", err
	}
	for _, line := range strings.Fields(text) {
		ns, perr := strconv.ParseInt(line, 10, 64)
		if perr != nil || len(line) != 19 || len(samples) == len(sent) {
			continue
		}
		samples = append(samples, milliseconds(time.Unix(0, ns).Sub(sent[len(samples)])))
	}
	if len(samples) != len(sent) {
		return nil, nil, "", fmt.Errorf("%d approvals gave %d times", len(sent), len(samples))
	}
	return samples[benchWarm:], yardstick, "noop_activity", nil
}

// approveNext waits for a pending request and approves it.
func (s *stack) approveNext(ctx context.Context, thread string) (time.Time, error) {
	var card string
	err := s.watchThread(ctx, thread, func(t benchThread) bool {
		for _, m := range t.Messages {
			if m.Approval != nil && m.Approval.State == workflows.ApprovalPending {
				card = m.ID
			}
		}
		return card != ""
	})
	if err != nil {
		return time.Time{}, err
	}
	at := time.Now()
	var out struct {
		Outcome string `json:"outcome"`
	}
	err = s.chat().call(ctx, "POST", "/messages/"+card+"/click", map[string]any{"button": "approve", "values": map[string]any{}}, &out)
	if err == nil && out.Outcome != workflows.OutcomeRecorded {
		err = fmt.Errorf("an approval was answered %s", out.Outcome)
	}
	return at, s.settled(ctx, thread, card, err)
}

// settled waits until a card is no longer pending, so that the next one is
// another.
func (s *stack) settled(ctx context.Context, thread, card string, err error) error {
	if err != nil {
		return err
	}
	return s.watchThread(ctx, thread, func(t benchThread) bool {
		for _, m := range t.Messages {
			if m.ID == card {
				return m.Approval.State != workflows.ApprovalPending
			}
		}
		return false
	})
}

// benchThought is less than any model takes to answer: what is made ahead of the
// next command is made within it.
const benchThought = 100 * time.Millisecond

// benchLocalExec compares `true` in a local sandbox with a bare fork and exec.
func benchLocalExec(ctx context.Context, _ *process.Env) (samples, yardstick []float64, what string, err error) {
	dir, err := os.MkdirTemp("", "countersign-bench-")
	if err != nil {
		return nil, nil, "", fmt.Errorf("making a directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	backend, err := local.New(ctx, local.Config{DataDir: dir})
	if err != nil {
		return nil, nil, "", err
	}
	session, err := backend.Open(ctx, sandbox.Spec{ID: "bench", Generation: 1})
	if err != nil {
		return nil, nil, "", err
	}
	defer func() { err = errors.Join(err, session.Destroy(context.WithoutCancel(ctx))) }()
	session.(sandbox.Preparer).Prepare()
	for i := range benchCalls + benchWarm {
		time.Sleep(benchThought)
		began := time.Now()
		id := "x" + strconv.Itoa(i)
		if err := session.Start(ctx, sandbox.ExecSpec{ID: id, Command: "true", Limits: sandbox.Limits{Timeout: time.Minute}}); err != nil {
			return nil, nil, "", err
		}
		if err := session.Attach(ctx, id, sandbox.Stdout, 0, discard{}); err != nil {
			return nil, nil, "", err
		}
		samples = append(samples, milliseconds(time.Since(began)))
		began = time.Now()
		if err := exec.CommandContext(ctx, "true").Run(); err != nil {
			return nil, nil, "", fmt.Errorf("running true: %w", err)
		}
		yardstick = append(yardstick, milliseconds(time.Since(began)))
	}
	return samples[benchWarm:], yardstick[benchWarm:], "fork_and_exec", nil
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// benchPolicy measures the gate's verdict on typical commands, in microseconds.
func benchPolicy(context.Context, *process.Env) (samples, yardstick []float64, what string, err error) {
	p := policy.Default()
	env := policy.Env{Isolated: true, Shell: policy.ShellBash, Cwd: "/workspace", Home: "/home/agent", Workspace: "/workspace"}
	typical := []string{
		"ls -la", "cat README.md", "git status", "git diff HEAD~1 -- internal", "go test ./...", "rg -n TODO src | head -20",
		"cd web && npm test", "sed -n '1,80p' main.go", "find . -name '*.go' | xargs grep -l context", "rm -rf build",
	}
	const rounds = 200
	for range rounds {
		for _, c := range typical {
			began := time.Now()
			p.Judge(c, env, policy.Facts{})
			samples = append(samples, float64(time.Since(began).Nanoseconds())/1000)
		}
	}
	return samples, nil, "", nil
}
