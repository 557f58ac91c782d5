// Package workerapp assembles the agent side: workflows, model activities and
// sandbox activities on their task queues. cmd/worker runs it alone, cmd/dev
// beside a bot.
package workerapp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/internal/agent/mcptools"
	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/config"
	"github.com/countersign/countersign/internal/config/datadir"
	"github.com/countersign/countersign/internal/sandbox/docker"
	"github.com/countersign/countersign/internal/sandbox/local"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// heartbeatThrottle bounds how old what the server knows of a running command is.
const heartbeatThrottle = 800 * time.Millisecond

// stickyTimeout is how long the server waits for the worker that has a session in
// memory before another one may take it: what a killed worker costs a click,
// which has to be answered within 3 seconds.
const stickyTimeout = time.Second

// Options are what a worker works with.
type Options struct {
	Config *config.Config
	// Client is connected to the namespace to serve; the caller closes it after
	// Stop.
	Client client.Client
	Dir    *datadir.Dir
	Log    *slog.Logger
	// ForceContinueAsNew, for tests, continues sessions as new after every so
	// many steps; 0 leaves it to Temporal.
	ForceContinueAsNew int
}

// App is a running worker.
type App struct {
	Options
	host    string
	lock    *datadir.Lock
	store   *blob.Store
	workers []worker.Worker
	// tools are the MCP servers.
	tools *mcptools.Hub
	here  *local.Backend
	// engine is the docker backend, where it is offered.
	engine *docker.Backend
	// still tells whether this process stood still.
	still *stillness
	// told are the words for the fencers, by backend.
	told   map[string]*words
	toldMu sync.Mutex
	// stopCleaning ends the look for orphaned sandboxes and unneeded snapshots, and
	// that for standstills.
	stopCleaning func()
	cleaning     sync.WaitGroup
	failed       chan error
}

// Start locks this host's sandboxes, makes sure that the namespace has the
// search attributes, and serves the queues until Stop.
func Start(ctx context.Context, o Options) (*App, error) {
	a := &App{Options: o, failed: make(chan error, 1), still: &stillness{ask: heartbeat}}
	var err error
	if a.lock, err = o.Dir.LockWorker(); err != nil {
		return nil, err
	}
	if err := a.start(ctx); err != nil {
		return nil, errors.Join(err, a.Stop())
	}
	return a, nil
}

func (a *App) start(ctx context.Context) error {
	var err error
	if a.host, err = a.Dir.HostID(); err != nil {
		return err
	}
	if err := ensureSearchAttributes(ctx, a.Client, a.Config.Temporal.Namespace); err != nil {
		return err
	}
	if a.store, err = blob.Open(ctx, a.Config.Blob.URL); err != nil {
		return err
	}
	// The SDK's cache is the process's; a size set later has no effect.
	worker.SetStickyWorkflowCacheSize(a.Config.Worker.CachedSessions)
	parts, err := a.parts(ctx)
	if err != nil {
		return err
	}
	for _, p := range parts {
		w := worker.New(a.Client, p.queue, a.workerOptions(p))
		p.register(w)
		if err := w.Start(); err != nil {
			return fmt.Errorf("starting worker on %s: %w", p.queue, err)
		}
		a.workers = append(a.workers, w)
	}
	a.startCleaning(ctx)
	a.Log.Info("Worker is up", "host", a.host, telemetry.KeyNamespace, a.Config.Temporal.Namespace)
	return nil
}

// startCleaning looks after what is left behind until Stop.
func (a *App) startCleaning(ctx context.Context) {
	ctx, a.stopCleaning = context.WithCancel(context.WithoutCancel(ctx))
	a.cleaning.Go(func() { a.still.watch(ctx) })
	a.cleaning.Go(func() { a.collect(ctx) })
	a.cleaning.Go(func() { a.noteEnded(ctx) })
	a.cleaning.Go(func() { a.fence(ctx, localYard{a.here}) })
	if a.engine != nil {
		a.cleaning.Go(func() { a.fence(ctx, dockerYard{a.engine}) })
		a.cleaning.Go(func() { a.reap(ctx, a.engine) })
		if idle := a.Config.Sandbox.Docker.Idle; idle > 0 {
			a.cleaning.Go(func() { a.rest(ctx, a.engine, idle) })
		}
	}
}

// part is what one task queue serves.
type part struct {
	queue string
	// workflows is false for a queue of activities only.
	workflows bool
	// most bounds the activities at once; 0 leaves it to the SDK, which allows 1,000.
	most     int
	register func(worker.Registry)
}

func (a *App) workerOptions(p part) worker.Options {
	return worker.Options{
		DeploymentOptions:                  a.version(p),
		DisableWorkflowWorker:              !p.workflows,
		MaxConcurrentActivityExecutionSize: p.most,
		WorkerStopTimeout:                  a.Config.Drain.Within,
		Interceptors:                       []interceptor.WorkerInterceptor{process.Drain(a.Config.Drain.Within / 2)},
		StickyScheduleToStartTimeout:       stickyTimeout,
		// A stop arrives within a second, and a live tail is at most that old
		// (measured: constraints of Temporal's heartbeats, docs/architecture.md).
		MaxHeartbeatThrottleInterval:     heartbeatThrottle,
		DefaultHeartbeatThrottleInterval: heartbeatThrottle,
		OnFatalError: func(err error) {
			select {
			case a.failed <- fmt.Errorf("worker on %s: %w", p.queue, err):
			default:
			}
		},
	}
}

// version is the worker's version where sessions are pinned to one: on the queue of
// workflows. Sandboxes are served by whoever reaches them.
func (a *App) version(p part) worker.DeploymentOptions {
	if a.Config.Worker.BuildID == "" || !p.workflows {
		return worker.DeploymentOptions{}
	}
	return worker.DeploymentOptions{
		UseVersioning:             true,
		Version:                   worker.WorkerDeploymentVersion{DeploymentName: workflows.Deployment, BuildID: a.Config.Worker.BuildID},
		DefaultVersioningBehavior: workflow.VersioningBehaviorPinned,
	}
}

// settings are what this worker brings to the workflows it runs.
func (a *App) settings() workflows.Settings {
	model := a.Config.OpenAI.Model
	if a.Config.OpenAI.Offline() {
		model = config.ModelOffline
	}
	workspaces := map[string]string{}
	for name, w := range a.Config.Workspaces {
		workspaces[name] = w.Backend
	}
	return workflows.Settings{
		Workspaces: workspaces,
		Model:      model, OnlyModel: a.Config.OpenAI.Offline(), Backend: a.Config.Sandbox.Backend,
		Backends: a.Config.Backends(), Roots: map[string][]string{local.Name: a.Config.Sandbox.Local.Roots}, ForceContinueAsNew: a.ForceContinueAsNew,
		HostDeadAfter: a.Config.Sandbox.HostDeadAfter,
		MaxSteps:      a.Config.Budget.TurnSteps,
	}
}

// hostQueue is the queue of sandboxes that only this host reaches.
func (a *App) hostQueue() string { return workflows.TaskQueueSandbox + "/" + a.host }

// Failed gives the error after which the worker serves no longer.
func (a *App) Failed() <-chan error { return a.failed }

// Stop lets activities end that are quick, hands over the rest and gives the host
// back, within drain.within. Commands that run go on.
func (a *App) Stop() error {
	process.StopAll(a.workers)
	if a.tools != nil {
		a.tools.Close()
	}
	if a.stopCleaning != nil {
		a.stopCleaning()
		a.cleaning.Wait()
	}
	var err error
	if a.engine != nil {
		err = a.engine.Close()
	}
	if a.store != nil {
		err = errors.Join(err, a.store.Close())
	}
	return errors.Join(err, a.lock.Release())
}
