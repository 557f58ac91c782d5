package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"

	"github.com/countersign/countersign/cmd/internal/botapp"
	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/cmd/internal/workerapp"
	"github.com/countersign/countersign/internal/config/datadir"
	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/workflows"
)

// every is how often a defect strikes: each so manieth time.
const every = 3

// defect is a fault planted in a worker or a bot from outside, between it and its
// Temporal client.
type defect struct {
	part string
	make func() interceptor.ClientInterceptor
	// wallClock leaves out of the connection what keeps this machine's clock out of how
	// long activities may take.
	wallClock bool
}

// defects prove the checker; no other program has them.
var defects = map[string]defect{
	"double-exec":  {part: partWorker, make: func() interceptor.ClientInterceptor { return &doubleExec{} }},
	"lost-message": {part: partBot, make: func() interceptor.ClientInterceptor { return &lostMessage{} }},
	"double-post":  {part: partBot, make: func() interceptor.ClientInterceptor { return &doublePost{} }},
	"stale-save":   {part: partWorker, make: func() interceptor.ClientInterceptor { return &staleSave{} }},
	"wall-clock":   {part: partWorker, wallClock: true},
}

// counter tells each so manieth call.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) strikes() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n%every == 0
}

// defectiveCmd is a worker or bot with a defect.
type defectiveCmd struct {
	process.Flags
	Part   string `arg:"" enum:"worker,bot"`
	Defect string `enum:"double-exec,lost-message,double-post,stale-save,wall-clock" required:""`
}

// Run serves until ctx ends.
func (c *defectiveCmd) Run(ctx context.Context, e *process.Env) error {
	cfg, _, err := c.Load(e, nil)
	if err != nil {
		return err
	}
	log, err := process.Logger(e, cfg)
	if err != nil {
		return err
	}
	dir, err := datadir.Open(cfg.DataDir)
	if err != nil {
		return err
	}
	options, err := cfg.TemporalOptions()
	if err != nil {
		return err
	}
	options.Logger = sdklog.NewStructuredLogger(process.Calm(log))
	d := defects[c.Defect]
	if d.make != nil {
		options.Interceptors = []interceptor.ClientInterceptor{d.make()}
	}
	if !d.wallClock {
		options.ConnectionOptions.DialOptions = append(options.ConnectionOptions.DialOptions, control.OnServerTime())
	}
	t, err := client.NewLazyClient(options)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	defer t.Close()
	if c.Part == partWorker {
		w, err := workerapp.Start(ctx, workerapp.Options{Config: cfg, Client: t, Dir: dir, Log: log})
		if err != nil {
			return err
		}
		return process.Serve(ctx, w)
	}
	token, err := dir.WebToken(cfg.Web.Token)
	if err != nil {
		return err
	}
	b, err := botapp.Start(ctx, botapp.Options{Config: cfg, Client: t, Dir: dir, Log: log, Dev: true, WebToken: token})
	if err != nil {
		return err
	}
	return process.Serve(ctx, b)
}

// doubleExec runs commands again under another name when they have ended.
type doubleExec struct {
	interceptor.InterceptorBase
	counter
}

func (d *doubleExec) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &doubleExecActivity{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, d: d}
}

type doubleExecActivity struct {
	interceptor.ActivityInboundInterceptorBase
	d *doubleExec
}

func (a *doubleExecActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	res, err := a.Next.ExecuteActivity(ctx, in)
	if err != nil || activity.GetInfo(ctx).ActivityType.Name != workflows.ActivityRunTool || !a.d.strikes() {
		return res, err
	}
	if run, ok := in.Args[0].(workflows.RunInput); ok {
		run.ExecID += "-again"
		return a.Next.ExecuteActivity(ctx, &interceptor.ExecuteActivityInput{Args: []any{run}})
	}
	return res, err
}

// staleSave saves nothing at the end of turns, and says that the save before is
// the newest.
type staleSave struct{ interceptor.InterceptorBase }

func (*staleSave) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &staleSaveActivity{interceptor.ActivityInboundInterceptorBase{Next: next}}
}

type staleSaveActivity struct {
	interceptor.ActivityInboundInterceptorBase
}

func (a *staleSaveActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	if activity.GetInfo(ctx).ActivityType.Name == workflows.ActivityTakeSnapshot {
		if save, ok := in.Args[0].(workflows.SnapshotInput); ok && save.Previous != "" {
			return workflows.SnapshotResult{Snapshot: save.Previous}, nil
		}
	}
	return a.Next.ExecuteActivity(ctx, in)
}

// lostMessage says that a message was taken, and drops it.
type lostMessage struct {
	interceptor.InterceptorBase
	counter
}

func (l *lostMessage) InterceptClient(next interceptor.ClientOutboundInterceptor) interceptor.ClientOutboundInterceptor {
	return &lostMessageClient{ClientOutboundInterceptorBase: interceptor.ClientOutboundInterceptorBase{Next: next}, l: l}
}

type lostMessageClient struct {
	interceptor.ClientOutboundInterceptorBase
	l *lostMessage
}

func (c *lostMessageClient) SignalWorkflow(ctx context.Context, in *interceptor.ClientSignalWorkflowInput) error {
	if in.SignalName == workflows.SignalSendMessage && c.l.strikes() {
		return nil
	}
	return c.Next.SignalWorkflow(ctx, in)
}

// doublePost posts answers again under another key.
type doublePost struct {
	interceptor.InterceptorBase
	counter
}

// againMark marks the key of a message's second copy.
const againMark = "~again"

func (d *doublePost) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &doublePostActivity{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, d: d}
}

func (d *doublePost) InterceptClient(next interceptor.ClientOutboundInterceptor) interceptor.ClientOutboundInterceptor {
	return &doublePostClient{interceptor.ClientOutboundInterceptorBase{Next: next}}
}

type doublePostActivity struct {
	interceptor.ActivityInboundInterceptorBase
	d *doublePost
}

func (a *doublePostActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	res, err := a.Next.ExecuteActivity(ctx, in)
	if err != nil || activity.GetInfo(ctx).ActivityType.Name != workflows.ActivityPostMessage {
		return res, err
	}
	post, ok := in.Args[0].(workflows.PostInput)
	if !ok || !strings.HasPrefix(post.Key, "answer-") || !a.d.strikes() {
		return res, err
	}
	post.Key += againMark
	_, _ = a.Next.ExecuteActivity(ctx, &interceptor.ExecuteActivityInput{Args: []any{post}}) // the defect has struck, or not
	return res, nil
}

// doublePostClient answers for a marked key what the session says of the real
// one.
type doublePostClient struct {
	interceptor.ClientOutboundInterceptorBase
}

func (c *doublePostClient) QueryWorkflow(ctx context.Context, in *interceptor.ClientQueryWorkflowInput) (converter.EncodedValue, error) {
	if in.QueryType != workflows.QueryMessage || len(in.Args) != 1 {
		return c.Next.QueryWorkflow(ctx, in)
	}
	key, ok := in.Args[0].(string)
	if !ok || !strings.HasSuffix(key, againMark) {
		return c.Next.QueryWorkflow(ctx, in)
	}
	real := *in
	real.Args = []any{strings.TrimSuffix(key, againMark)}
	v, err := c.Next.QueryWorkflow(ctx, &real)
	if err != nil {
		return nil, err
	}
	return renamed{v, key}, nil
}

// renamed is a message's view under another key.
type renamed struct {
	converter.EncodedValue
	key string
}

func (r renamed) Get(v any) error {
	if err := r.EncodedValue.Get(v); err != nil {
		return err
	}
	if view, ok := v.(*workflows.MessageView); ok {
		view.Key = r.key
	}
	return nil
}
