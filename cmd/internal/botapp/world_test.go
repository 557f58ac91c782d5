package botapp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/countersign/countersign/cmd/internal/botapp"
	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
	"github.com/countersign/countersign/internal/config"
	"github.com/countersign/countersign/internal/config/datadir"
	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/devserver/devservertest"
	"github.com/countersign/countersign/internal/workflows"
)

const ada, grace = "U0ADA00001", "U0GRACE001"

func TestMain(m *testing.M) {
	os.Exit(devservertest.Main(m, map[string]enumspb.IndexedValueType{
		workflows.SearchAttributeLiveness: enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		workflows.SearchAttributeWaiting:  enumspb.INDEXED_VALUE_TYPE_INT,
		workflows.SearchAttributePlatform: enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	}))
}

// paced is a bot in front of a Slack that enforces its limits, and the agent side
// with a stand-in for model and sandbox: a hundred sandboxes would measure the
// machine, not the pacing.
type paced struct {
	t     *testing.T
	env   devservertest.Env
	fake  *slackfake.Server
	agent *agent
	// app is the newest bot; stop stops the first.
	app  *botapp.App
	stop func()
	log  *slog.Logger
	// refusedAgain is [botapp.Options.RefusedAgain].
	refusedAgain time.Duration
}

// startPaced starts it all; the bot has settings beside those for Slack.
func startPaced(t *testing.T, settings ...string) *paced {
	t.Helper()
	w := newPaced(t)
	w.stop = w.bot(t, settings...)
	w.until("the bot is connected", func() bool { return w.fake.Connections() == 2 })
	return w
}

// newPaced is all but the bot.
func newPaced(t *testing.T) *paced {
	t.Helper()
	w := &paced{t: t, env: devservertest.New(t), fake: slackfake.New(slackfake.Options{}), agent: &agent{busy: map[string]bool{}}, log: slog.New(slog.DiscardHandler)}
	t.Cleanup(w.fake.Close)
	members := []string{slackfake.BotUser, ada, grace}
	for n := range busySessions / busyPer {
		w.fake.AddChannel(slackfake.Channel{ID: busyChannel(n), Name: "busy", Members: members})
	}
	for n := range quietChannels {
		w.fake.AddChannel(slackfake.Channel{ID: quietChannel(n), Name: "quiet", Members: members})
	}
	w.agent.serve(t, w.env)
	return w
}

// bot starts a bot; the function that it returns stops it.
func (w *paced) bot(t *testing.T, settings ...string) (stop func()) {
	t.Helper()
	dir, err := datadir.Open(t.TempDir())
	require.NoError(t, err)
	c, err := config.Load(config.Sources{Environ: append(settings,
		"COUNTERSIGN_DATA_DIR="+dir.Path(), "COUNTERSIGN_APPROVALS_APPROVERS="+grace,
		"COUNTERSIGN_SLACK_BOT_TOKEN=xoxb-fake", "COUNTERSIGN_SLACK_APP_TOKEN=xapp-fake", "COUNTERSIGN_SLACK_API_URL="+w.fake.URL(),
		"TEMPORAL_ADDRESS="+w.env.Address, "TEMPORAL_NAMESPACE="+w.env.Namespace,
	)})
	require.NoError(t, err)
	bot, err := botapp.Start(t.Context(), botapp.Options{Config: c, Client: w.env.Client, Dir: dir, Log: w.log, RefusedAgain: w.refusedAgain})
	require.NoError(t, err)
	w.app, stop = bot, sync.OnceFunc(func() { require.NoError(t, bot.Stop()) })
	t.Cleanup(stop)
	return stop
}

func (w *paced) until(what string, ok func() bool) {
	w.t.Helper()
	require.Eventually(w.t, ok, 3*time.Minute, 50*time.Millisecond, what)
}

// asked is when a session scheduled the post of its first request.
func (w *paced) asked(channel, thread string) time.Time {
	w.t.Helper()
	id := workflows.Thread{Platform: workflows.PlatformSlack, Team: slackfake.Team, Channel: channel, ID: thread}.WorkflowID()
	events := w.env.Client.GetWorkflowHistory(w.t.Context(), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		require.NoError(w.t, err)
		a := e.GetActivityTaskScheduledEventAttributes()
		if a.GetActivityType().GetName() != workflows.ActivityPostMessage {
			continue
		}
		var post workflows.PostInput
		require.NoError(w.t, converter.GetDefaultDataConverter().FromPayloads(a.GetInput(), &post))
		if strings.HasPrefix(post.Key, "approval") {
			return e.GetEventTime().AsTime()
		}
	}
	require.Fail(w.t, "no request was posted by "+id)
	return time.Time{}
}

// agent is the agent side: the workflows, a model that runs each task as one
// command, and a sandbox in which commands that begin with rm or echo end at once
// and all others never, printing a line now and then.
type agent struct {
	mu   sync.Mutex
	busy map[string]bool
}

// running is how many commands that never end run.
func (a *agent) running() int { a.mu.Lock(); defer a.mu.Unlock(); return len(a.busy) }

func (a *agent) serve(t *testing.T, env devservertest.Env) {
	t.Helper()
	sessions := &control.Activities{Client: control.New(env.Client, nil)}
	set := workflows.Settings{Model: "test", Backend: "local", Backends: []string{"local"}, MaxSteps: 50}
	k := worker.New(env.Client, workflows.TaskQueueReasoning, worker.Options{})
	k.RegisterWorkflowWithOptions((&workflows.Agent{Settings: set}).Workflow, workflow.RegisterOptions{Name: workflows.WorkflowTypeAgent})
	k.RegisterWorkflowWithOptions((&workflows.Manager{Settings: set}).Workflow, workflow.RegisterOptions{Name: workflows.WorkflowTypeManager})
	k.RegisterWorkflowWithOptions(workflows.Ended, workflow.RegisterOptions{Name: workflows.WorkflowTypeEnded})
	register(k, map[string]any{workflows.ActivityCallModel: a.callModel})
	require.NoError(t, k.Start())
	t.Cleanup(k.Stop)
	records := worker.New(env.Client, workflows.TaskQueueRecords, worker.Options{DisableWorkflowWorker: true})
	register(records, map[string]any{
		workflows.ActivityCallModel:     a.callModel,
		workflows.ActivityRecordAudit:   func(context.Context, workflows.RecordAuditInput) error { return nil },
		workflows.ActivityQuerySession:  sessions.QuerySession,
		workflows.ActivityUpdateSession: sessions.UpdateSession,
		workflows.ActivityLoadRegistry: func(context.Context, workflows.SaveRegistryInput) (workflows.SaveRegistryResult, error) {
			return workflows.SaveRegistryResult{}, nil
		},
	})
	require.NoError(t, records.Start())
	t.Cleanup(records.Stop)
	s := worker.New(env.Client, workflows.TaskQueueSandbox, worker.Options{
		DisableWorkflowWorker: true, MaxHeartbeatThrottleInterval: 3 * time.Second, DefaultHeartbeatThrottleInterval: 3 * time.Second,
	})
	register(s, map[string]any{
		workflows.ActivityOpenSandbox:   openSandbox,
		workflows.ActivityJudgeToolCall: judge,
		workflows.ActivityCheckBinding: func(context.Context, workflows.BindingInput) (workflows.BindingResult, error) {
			return workflows.BindingResult{}, nil
		},
		workflows.ActivityRunTool:      a.runTool,
		workflows.ActivitySignalExec:   func(context.Context, workflows.SignalExecInput) error { return nil },
		workflows.ActivityTakeSnapshot: takeSnapshot,
		workflows.ActivityReleaseSandbox: func(context.Context, workflows.ReleaseInput) error {
			return nil
		},
	})
	require.NoError(t, s.Start())
	t.Cleanup(s.Stop)
}

func register(k worker.Worker, activities map[string]any) {
	for name, fn := range activities {
		k.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: name})
	}
}

func (a *agent) callModel(_ context.Context, in workflows.ModelInput) (workflows.ModelResult, error) {
	res := workflows.ModelResult{Model: "test", Transcript: fmt.Sprintf("%s-%d-%d", in.WorkflowID, in.Turn, in.Step), Usage: workflows.Usage{Input: 10, Output: 5, Calls: 1}}
	for _, it := range in.Append {
		if it.Message == nil {
			continue
		}
		args, err := json.Marshal(workflows.ShellArgs{Command: it.Message.Text.Text})
		if err != nil {
			return res, err
		}
		res.Calls = append(res.Calls, workflows.ToolCall{
			CallID: "c-" + it.Message.ID, Tool: workflows.ToolShell, Args: workflows.TextRef{Text: string(args)}, Shown: it.Message.Text.Text,
		})
	}
	if len(res.Calls) == 0 {
		res.Answer = workflows.TextRef{Text: "Done."}
	}
	return res, nil
}

func openSandbox(_ context.Context, in workflows.OpenInput) (workflows.OpenResult, error) {
	return workflows.OpenResult{SandboxRef: workflows.SandboxRef{
		Backend: in.Backend, ID: "sb", Generation: in.Generation, Queue: workflows.TaskQueueSandbox, Root: "/workspace", Shell: "bash", Isolated: true,
	}}, nil
}

func takeSnapshot(_ context.Context, in workflows.SnapshotInput) (workflows.SnapshotResult, error) {
	return workflows.SnapshotResult{Snapshot: fmt.Sprintf("snap-%d", in.Turn)}, nil
}

func judge(_ context.Context, in workflows.JudgeInput) (workflows.Judgement, error) {
	j := workflows.Judgement{
		Tier: "safe", Digest: in.Call.Shown, Command: workflows.TextRef{Text: in.Call.Shown}, Displayable: true, Cwd: "/workspace", Timeout: time.Hour,
		Rule: workflows.ApprovalRule{Required: 1, Approvers: []string{grace}, TTL: time.Hour},
	}
	if strings.HasPrefix(in.Call.Shown, "rm") {
		j.Tier, j.Reasons = "risky", []string{"it deletes"}
	}
	return j, nil
}

func (a *agent) runTool(ctx context.Context, in workflows.RunInput) (workflows.ToolResult, error) {
	zero, began := 0, time.Now()
	if strings.HasPrefix(in.Call.Shown, "rm") || strings.HasPrefix(in.Call.Shown, "echo") {
		return workflows.ToolResult{State: workflows.CallCompleted, ExitCode: &zero, StartedAt: began, EndedAt: time.Now()}, nil
	}
	a.mu.Lock()
	a.busy[in.ExecID+in.WorkflowID] = true
	a.mu.Unlock()
	for n := 0; ; n++ {
		activity.RecordHeartbeat(ctx, workflows.ExecProgress{ExecID: in.ExecID, Tail: fmt.Sprintf("line %d\n", n)})
		select {
		case <-ctx.Done():
			return workflows.ToolResult{}, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}
