package workerapp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/countersign/countersign/internal/agent"
	"github.com/countersign/countersign/internal/agent/mcptools"
	"github.com/countersign/countersign/internal/agent/tooloutput"
	"github.com/countersign/countersign/internal/config"
	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/policy"
	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/docker"
	"github.com/countersign/countersign/internal/sandbox/fill"
	"github.com/countersign/countersign/internal/sandbox/local"
	"github.com/countersign/countersign/internal/sandbox/snapshot"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// parts lists what this worker serves, queue by queue.
func (a *App) parts(ctx context.Context) ([]part, error) {
	gate, err := a.gate()
	if err != nil {
		return nil, err
	}
	a.tools = mcptools.New(a.mcpServers(), a.Log)
	models, err := agent.New(agent.Options{
		Blobs: a.store, APIKey: a.Config.OpenAI.APIKey, BaseURL: a.Config.OpenAI.BaseURL,
		Model: a.Config.OpenAI.Model, Stored: a.Config.OpenAI.State == "server", Background: a.Config.OpenAI.Background,
		Windows: a.Config.OpenAI.ModelWindows(), CompactAt: a.Config.OpenAI.CompactAt, Prices: a.prices(),
		MCP: a.tools, Gate: gate, Awaited: a.still.awaited,
		Timeouts: agent.Timeouts{
			Shell: a.Config.Sandbox.Timeout.Shell, Install: a.Config.Sandbox.Timeout.Install, Background: a.Config.Sandbox.Timeout.Background,
		},
		Budgets: agent.Budgets(a.Config.Budget.Limits()), Rules: a.rule,
		Mask: a.masker(), Logger: a.Log,
	})
	if err != nil {
		return nil, err
	}
	boxes, err := a.sandboxes(ctx, gate)
	if err != nil {
		return nil, err
	}
	return []part{
		{queue: workflows.TaskQueueReasoning, workflows: true, most: a.Config.Worker.ModelCalls, register: func(r worker.Registry) {
			a.registerWorkflows(r, sandbox.NewHere(boxes))
			models.Register(r)
		}},
		{queue: workflows.TaskQueueRecords, register: func(r worker.Registry) {
			a.registerRecords(r)
			models.RegisterTranscripts(r)
		}},
		{queue: workflows.TaskQueueSandbox, register: func(r worker.Registry) { r.RegisterActivity(boxes) }},
		{queue: a.hostQueue(), register: func(r worker.Registry) { r.RegisterActivity(boxes) }},
	}, nil
}

// mcpServers are the tool servers of the settings.
func (a *App) mcpServers() []mcptools.Server {
	var all []mcptools.Server
	for _, s := range a.Config.MCP.All() {
		all = append(all, mcptools.Server{Name: s.Name, Command: s.Command, Env: s.Env, URL: s.URL, Token: s.Token, Timeout: s.Timeout})
	}
	return all
}

func (a *App) prices() map[string]agent.Price {
	out := map[string]agent.Price{}
	for model, p := range a.Config.OpenAI.ModelPrices() {
		out[model] = agent.Price(p)
	}
	return out
}

func (a *App) registerWorkflows(r worker.Registry, here workflows.GateHere) {
	session, manager := &workflows.Agent{Settings: a.settings(), Here: here}, &workflows.Manager{Settings: a.settings()}
	r.RegisterWorkflowWithOptions(session.Workflow, workflow.RegisterOptions{Name: workflows.WorkflowTypeAgent})
	r.RegisterWorkflowWithOptions(manager.Workflow, workflow.RegisterOptions{Name: workflows.WorkflowTypeManager})
	r.RegisterWorkflowWithOptions(workflows.Ended, workflow.RegisterOptions{
		Name: workflows.WorkflowTypeEnded, VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade,
	})
}

// registerRecords adds the bookkeeping of sessions and managers.
func (a *App) registerRecords(r worker.Registry) {
	registry := &control.Registry{Store: a.store}
	r.RegisterActivity(&control.Hosts{Queues: a.Client.WorkflowService(), Namespace: a.Config.Temporal.Namespace, Rules: a.rule})
	r.RegisterActivity(&control.Activities{Client: control.New(a.Client, registry), Registry: registry})
}

// LocalConfig is what the settings say of sandboxes on this machine. self is this
// program's path.
func LocalConfig(c *config.Config, dataDir, self string, log *slog.Logger) local.Config {
	l := c.Sandbox.Local
	var hidden []string
	if c.File() != "" {
		hidden = []string{c.File()}
	}
	return local.Config{
		DataDir: dataDir, Hidden: hidden, Forwarder: self, AllowUnisolated: l.Unisolated, NoLandlock: !l.Landlock, Log: log,
		Limits: local.Limits{Memory: int64(max(l.Memory, 0)) << 20, PIDs: max(l.PIDs, 0), CPUs: l.Processors(), Group: l.Group},
	}
}

// sandboxes are the activities of the backends that this worker has.
func (a *App) sandboxes(ctx context.Context, gate *policy.Policy) (*sandbox.Activities, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	here, err := local.New(ctx, LocalConfig(a.Config, a.Dir.Path(), self, a.Log))
	if err != nil {
		return nil, err
	}
	for _, f := range here.Facts() {
		a.Log.Info("Local sandboxes", "about", f.Name, "held", f.OK, "text", f.Text)
	}
	if err := here.Sweep(ctx); err != nil {
		return nil, err
	}
	a.here = here
	if why := here.Refuses(); why != "" && a.Config.Sandbox.Backend == local.Name {
		return nil, errors.New(why)
	}
	offers := []sandbox.Offer{{Backend: here, Queue: a.hostQueue(), Host: a.host}}
	if a.Config.Sandbox.Docker.Image != "" {
		engine, err := a.docker(here, self)
		if err != nil {
			return nil, err
		}
		a.engine = engine
		offers = append(offers, sandbox.Offer{Backend: engine, Queue: a.hostQueue(), Host: a.host})
	}
	temp, err := a.tempDir()
	if err != nil {
		return nil, err
	}
	return sandbox.NewActivities(sandbox.Config{
		Offers:  offers,
		Default: a.Config.Sandbox.Backend, Blobs: a.store, Gate: gate,
		Format: func(o sandbox.Output) string { return tooloutput.Format(tooloutput.Output(o)) },
		Rules:  a.rule,
		Timeouts: sandbox.Timeouts{
			Read: a.Config.Sandbox.Timeout.Read, Shell: a.Config.Sandbox.Timeout.Shell, Install: a.Config.Sandbox.Timeout.Install,
			Background: a.Config.Sandbox.Timeout.Background,
		},
		Workspace:  a.Config.Sandbox.Workspace,
		Workspaces: a.Config.Workspaces,
		Roots:      a.Config.Sandbox.Local.Roots,
		Fill:       fill.Filler{Getenv: os.Getenv, CopyDir: here.CopyDir}.Fill,
		Getenv:     os.Getenv,
		TempDir:    temp,
		StateDir:   stateDir(a.Dir),
		Awaited:    a.still.awaited,
		NotRemoved: a.notRemoved,
		Mask:       a.masker(),
		Log:        a.Log,
	}), nil
}

// masker masks the settings' secrets and those of the workspaces' manifests, as
// they are now; what a manifest names and this worker lacks is warned of.
func (a *App) masker() *mask.Masker {
	var values []string
	for _, name := range a.Config.Workspaces.Names() {
		for _, ref := range a.Config.Workspaces[name].References() {
			v, err := ref.Value(os.Getenv)
			if err != nil {
				a.Log.Warn("A workspace's secret is missing", "workspace", name, telemetry.KeyError, err)
				continue
			}
			values = append(values, v)
		}
	}
	return a.Config.Mask(values...)
}

// docker is the backend on this host's engine: its sandboxes, like local ones,
// stay with the host.
func (a *App) docker(here *local.Backend, self string) (*docker.Backend, error) {
	d := a.Config.Sandbox.Docker
	var images []string
	for _, w := range a.Config.Workspaces {
		if w.Image != "" {
			images = append(images, w.Image)
		}
	}
	return docker.New(docker.Config{
		Host: d.Host, Owner: a.host, Image: d.Image, Runtime: d.Runtime,
		Memory: int64(d.Memory) << 20, Disk: int64(d.Disk) << 20, PIDs: int64(d.PIDs), CPUs: d.Processors(), Temp: int64(d.Temp) << 20,
		Images: images, Forwarder: self,
		PackSeed: func(ctx context.Context, seed sandbox.Seed, w io.Writer) error { return packSeed(ctx, here, seed, w) },
		Log:      a.Log,
	})
}

// packSeed writes what a local workspace made from the seed would hold.
func packSeed(ctx context.Context, here *local.Backend, seed sandbox.Seed, w io.Writer) (err error) {
	s, err := here.Open(ctx, sandbox.Spec{ID: local.ScratchID("seed"), Generation: 1, Seed: seed})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Destroy(context.WithoutCancel(ctx))) }()
	_, err = snapshot.Flat(ctx, s, w)
	return err
}

// tempDir is an empty directory for snapshots in the making; what a killed
// worker left in it is removed.
func (a *App) tempDir() (string, error) {
	dir := a.Dir.Join("tmp")
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("clearing %s: %w", dir, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("making %s: %w", dir, err)
	}
	return dir, nil
}

// gate is the policy of the settings, or the built-in one.
func (a *App) gate() (*policy.Policy, error) {
	file := a.Config.Policy.File
	if file == "" {
		return policy.Default(), nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("policy.file: %w", err)
	}
	p, warnings, err := policy.Load(data, file)
	if err != nil {
		return nil, fmt.Errorf("policy.file: %w", err)
	}
	for _, w := range warnings {
		a.Log.Warn("Policy rule", "file", file, "warning", fmt.Sprint(w))
	}
	return p, nil
}

// rule is what an approval of a tier takes in a channel, by the settings.
func (a *App) rule(tier, channel string) workflows.ApprovalRule {
	r := a.Config.Approvals.For(tier, channel)
	return workflows.ApprovalRule{
		Required: r.Required, RequesterMayApprove: r.RequesterMayApprove, Approvers: r.Approvers, TTL: r.TTL,
		BreakGlass: r.BreakGlass, WidenAfter: r.WidenAfter, WidenTo: r.WidenTo, Notify: r.Notify,
	}
}
