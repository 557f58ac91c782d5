package workflows_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/countersign/countersign/internal/audit"
	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/devserver/devservertest"
	"github.com/countersign/countersign/internal/workflows"
)

func TestMain(m *testing.M) {
	os.Exit(devservertest.Main(m, map[string]enumspb.IndexedValueType{
		workflows.SearchAttributeLiveness: enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		workflows.SearchAttributeWaiting:  enumspb.INDEXED_VALUE_TYPE_INT,
		workflows.SearchAttributePlatform: enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	}))
}

// world is everything around the workflows: a chat that holds what was posted, a
// model that asks for the commands it is told, a sandbox that notes what ran.
// The Temporal server is real.
type world struct {
	t       *testing.T
	env     devservertest.Env
	control *control.Client
	// registry is where the manager keeps older sessions.
	registry *control.Registry
	thread   workflows.Thread

	mu sync.Mutex
	// posts holds the newest view of each message that stands in the thread.
	posts map[string]workflows.MessageView
	order []string
	// transcript is what the model was given, by reference.
	transcripts map[string][]entry
	// ran counts starts of each exec.
	ran map[string]int
	// stops are execs that were signalled.
	stops map[string]bool
	// told is what was sent to commands in the background.
	told []string
	// release lets a blocking command end.
	release map[string]chan struct{}
	clicks  int
	// content is what `changes` verdicts depend on.
	content string
	// modelErr, when set, fails the next model call for good.
	modelErr error
	// budget, when set, is what a turn may cost; a model call costs 100.
	budget int64
	// atOver, when set, is called before the model says that it is used up.
	atOver func()
	audit  map[string]map[int]audit.Entry
	// groups are what people belong to when they are asked about again; policy is
	// the version of the rules.
	groups map[string][]string
	// rule is what the settings say when what an approval binds is looked at again.
	rule    workflows.ApprovalRule
	policy  string
	openErr error
	// opening, when set, is what an opening sandbox waits for.
	opening   chan struct{}
	inOpen    bool
	opened    []string
	snapshots int
	// atSnapshot, when set before the session is asked for, is called while one is
	// taken.
	atSnapshot func(turn int)
	destroyed  int
	// host, when set, is where a new sandbox is made, hosts those that are there.
	host  string
	hosts map[string]worker.Worker
	// looks counts looks at whether a host is dead, which take minutes.
	looks int
	// looking, when set before the session is asked for, is what such a look waits for.
	looking chan struct{}
	// on are the starts of execs by host and generation.
	on map[string][]string
	// near sandboxes are of the host that runs the workflow.
	near bool
	// away, when set, is how every verdict and command fails, also one that runs, and
	// every look whether the sandbox is back.
	away error
	// bare is the backend that does not isolate; cannot refuses every switch.
	bare, cannot string
	// movers may approve a switch to less isolation, within moveTTL.
	movers  []string
	moveTTL time.Duration
	failing bool // snapshots
}

// entry is one line of a transcript: a message, a call or an output.
type entry struct {
	Kind, ID, Text string
	Calls          []workflows.ToolCall
}

func newWorld(t *testing.T, forceCAN int) *world { return newWorldOf(t, forceCAN, 0) }

// newWorldOf is a world whose hosts are dead after so long; 0 is what it is by
// default.
func newWorldOf(t *testing.T, forceCAN int, hostDeadAfter time.Duration) *world {
	t.Helper()
	env := devservertest.New(t)
	store, err := blob.Open(t.Context(), "mem://")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	registry := &control.Registry{Store: store}
	w := &world{
		t: t, env: env, control: control.New(env.Client, registry), registry: registry,
		thread: workflows.Thread{Platform: workflows.PlatformWeb, Team: workflows.WebTeam, Channel: "general", ID: "100"},
		posts:  map[string]workflows.MessageView{}, transcripts: map[string][]entry{}, ran: map[string]int{},
		audit: map[string]map[int]audit.Entry{}, stops: map[string]bool{}, release: map[string]chan struct{}{}, content: "one", groups: map[string][]string{}, policy: "p1",
		near:   forceCAN%2 == 1,
		movers: []string{"grace"}, moveTTL: time.Hour,
		hosts: map[string]worker.Worker{}, on: map[string][]string{},
	}
	set := workflows.Settings{
		Model: "test", Backend: "local", Backends: []string{"local", "docker"},
		Roots: map[string][]string{"local": {"/srv/agents"}}, ForceContinueAsNew: forceCAN, MaxSteps: 50,
		HostDeadAfter: hostDeadAfter,
	}
	w.serve(workflows.TaskQueueReasoning, func(k worker.Worker) {
		k.RegisterWorkflowWithOptions((&workflows.Agent{Settings: set, Here: hereOf{w}}).Workflow, workflow.RegisterOptions{Name: workflows.WorkflowTypeAgent})
		k.RegisterWorkflowWithOptions((&workflows.Manager{Settings: set}).Workflow, workflow.RegisterOptions{Name: workflows.WorkflowTypeManager})
		k.RegisterWorkflowWithOptions(workflows.Ended, workflow.RegisterOptions{Name: workflows.WorkflowTypeEnded})
		w.activity(k, workflows.ActivityCallModel, w.callModel)
	})
	w.serve(workflows.TaskQueueRecords, func(k worker.Worker) {
		w.activity(k, workflows.ActivityCallModel, w.callModel)
		w.activity(k, workflows.ActivityRecordAudit, w.recordAudit)
		a := &control.Activities{Client: w.control, Registry: registry}
		w.activity(k, workflows.ActivityLoadRegistry, a.LoadRegistry)
		w.activity(k, workflows.ActivitySaveRegistry, a.SaveRegistry)
		w.activity(k, workflows.ActivityFindSession, a.FindSession)
		w.activity(k, workflows.ActivityQuerySession, a.QuerySession)
		w.activity(k, workflows.ActivityUpdateSession, a.UpdateSession)
		w.activity(k, workflows.ActivityStashMessages, a.StashMessages)
		w.activity(k, workflows.ActivityUnstashMessages, a.UnstashMessages)
		w.activity(k, workflows.ActivityRecordSeen, a.RecordSeen)
		w.activity(k, workflows.ActivityFindSeen, a.FindSeen)
		w.activity(k, workflows.ActivityCheckHost, w.checkHost)
		w.activity(k, workflows.ActivityAwaitHost, w.awaitHost)
	})
	w.serve("chat/web", func(k worker.Worker) {
		w.activity(k, workflows.ActivityOpenThread, w.openThread)
		w.activity(k, workflows.ActivityPostMessage, w.postMessage)
		w.activity(k, workflows.ActivityEditMessage, w.editMessage)
		w.activity(k, workflows.ActivityCheckMembership, w.checkMembership)
	})
	w.serve(workflows.TaskQueueSandbox, w.sandboxes)
	return w
}

func (w *world) sandboxes(k worker.Worker) {
	w.activity(k, workflows.ActivityOpenSandbox, w.openSandbox)
	w.activity(k, workflows.ActivityJudgeToolCall, w.judge)
	w.activity(k, workflows.ActivityCheckBinding, w.checkBinding)
	w.activity(k, workflows.ActivityRunTool, w.runTool)
	w.activity(k, workflows.ActivitySignalExec, w.signalExec)
	w.activity(k, workflows.ActivityTakeSnapshot, w.takeSnapshot)
	w.activity(k, workflows.ActivityReleaseSandbox, func(context.Context, workflows.ReleaseInput) error { return nil })
	w.activity(k, workflows.ActivityDestroySandbox, w.destroySandbox)
	w.activity(k, workflows.ActivityJudgeSwitch, w.judgeSwitch)
}

func (w *world) serve(queue string, register func(worker.Worker)) worker.Worker {
	k := worker.New(w.env.Client, queue, worker.Options{
		MaxHeartbeatThrottleInterval: 200 * time.Millisecond, DefaultHeartbeatThrottleInterval: 200 * time.Millisecond,
		WorkflowPanicPolicy: worker.FailWorkflow,
	})
	register(k)
	require.NoError(w.t, k.Start())
	w.t.Cleanup(sync.OnceFunc(k.Stop))
	return k
}

func (w *world) activity(k worker.Worker, name string, fn any) {
	k.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: name})
}

// The chat.

func (w *world) openThread(_ context.Context, in workflows.OpenThreadInput) (workflows.Thread, error) {
	if in.Thread.ID == "" {
		in.Thread.ID = "9" + fmt.Sprint(len(in.Key)) // a fork's thread
	}
	return in.Thread, nil
}

func (w *world) postMessage(ctx context.Context, in workflows.PostInput) (workflows.PostResult, error) {
	v, err := w.control.Message(ctx, in.WorkflowID, in.Key)
	if err != nil {
		return workflows.PostResult{}, err
	}
	var after *workflows.MessageView
	if n, is := strings.CutPrefix(in.Key, "answer-"); is {
		// A card that is shown whole is no part of the state any more.
		if card, err := w.control.Message(ctx, in.WorkflowID, "turn-"+n); err == nil {
			after = &card
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	key := in.WorkflowID + "#" + in.Key
	if _, ok := w.posts[key]; !ok {
		w.order = append(w.order, key)
	}
	if after != nil && !after.Live() && w.posts[in.WorkflowID+"#"+after.Key].Turn.State != after.Turn.State {
		w.t.Errorf("%s stands before its turn's card shows the end", key)
	}
	w.posts[key] = v
	return workflows.PostResult{Ref: "ref-" + key, Version: v.Version}, nil
}

func (w *world) editMessage(ctx context.Context, in workflows.EditInput) (workflows.PostResult, error) {
	v, err := w.control.Message(ctx, in.WorkflowID, in.Key)
	if err != nil {
		return workflows.PostResult{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	key := in.WorkflowID + "#" + in.Key
	if a := v.Approval; a != nil && in.Gather != 0 && a.State != workflows.ApprovalApproved && a.State != workflows.ApprovalChanged {
		w.t.Errorf("the edit of %s waits for %s", key, in.Gather)
	}
	if w.posts[key].Version > v.Version {
		w.t.Errorf("%s went back from version %d to %d", key, w.posts[key].Version, v.Version)
	}
	w.posts[key] = v
	if v.Live() {
		return workflows.PostResult{}, temporal.NewApplicationErrorWithOptions("running", workflows.ErrTypeRefresh,
			temporal.ApplicationErrorOptions{NextRetryDelay: 300 * time.Millisecond})
	}
	return workflows.PostResult{Ref: in.Ref, Version: v.Version}, nil
}

func (w *world) checkMembership(_ context.Context, in workflows.MembershipInput) (workflows.MembershipResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var res workflows.MembershipResult
	for _, p := range in.People {
		p.Groups = w.groups[p.ID]
		res.People = append(res.People, p)
	}
	return res, nil
}

// The model: each message is a list of commands, one a line; a line that starts
// with "&" goes into the same response as the one before.

func (w *world) callModel(ctx context.Context, in workflows.ModelInput) (workflows.ModelResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := slices.Clone(w.transcripts[in.Transcript])
	for _, it := range in.Append {
		switch {
		case it.Message != nil:
			t = append(t, entry{Kind: "message", ID: it.Message.ID, Text: it.Message.Text.Text})
		case it.Ended != nil:
			t = append(t, entry{Kind: "ended", ID: it.Ended.Session, Text: it.Ended.State + " " + it.Ended.Note + it.Ended.Tail})
		default:
			t = append(t, entry{Kind: "output", ID: it.CallID, Text: it.Output.Text})
		}
	}
	if err := w.modelErr; err != nil && !in.NoCall {
		w.modelErr = nil
		return workflows.ModelResult{}, err
	}
	if limit := max(w.budget, in.Spent.Raised[workflows.BudgetTurn]); w.budget > 0 && !in.NoCall && in.Spent.Turn >= limit {
		if w.atOver != nil {
			w.mu.Unlock()
			w.atOver()
			w.mu.Lock()
		}
		return workflows.ModelResult{Over: &workflows.OverBudget{
			Budget: workflows.BudgetTurn, Spent: in.Spent.Turn, Limit: limit, Next: limit + w.budget,
			Rule: workflows.ApprovalRule{Required: 1, Approvers: []string{"grace"}, TTL: time.Hour},
		}}, nil
	}
	res := workflows.ModelResult{Model: "test", Usage: workflows.Usage{Input: 10, Output: 5, Calls: 1}}
	if !in.NoCall {
		if w.budget > 0 {
			res.Usage.Micros = 100
		}
		res.Calls = nextCalls(t)
		if len(res.Calls) > 0 {
			t = append(t, entry{Kind: "calls", Calls: res.Calls})
		} else {
			text := answerOf(t)
			t = append(t, entry{Kind: "answer", Text: text})
			res.Answer = workflows.TextRef{Text: text}
		}
	}
	w.checkOutputs(t)
	res.Transcript = fmt.Sprintf("t%d", len(w.transcripts)+1)
	w.transcripts[res.Transcript] = t
	return res, nil
}

// checkOutputs refuses what the Responses API refuses: an output without its
// call, a second output for one.
func (w *world) checkOutputs(t []entry) {
	open := map[string]bool{}
	for _, e := range t {
		switch e.Kind {
		case "calls":
			for _, c := range e.Calls {
				open[c.CallID] = true
			}
		case "output":
			if !open[e.ID] {
				w.t.Errorf("output for call %s that is not open", e.ID)
			}
			delete(open, e.ID)
		}
	}
}

// nextCalls derives from the transcript alone what the model asks for next.
func nextCalls(t []entry) []workflows.ToolCall {
	var groups [][]string
	made := 0
	for _, e := range t {
		switch e.Kind {
		case "message":
			for line := range strings.SplitSeq(e.Text, "\n") {
				if rest, ok := strings.CutPrefix(line, "&"); ok && len(groups) > 0 {
					groups[len(groups)-1] = append(groups[len(groups)-1], rest)
				} else if line != "" && !strings.HasPrefix(line, "#") {
					groups = append(groups, []string{line})
				}
			}
		case "calls":
			made++
		}
	}
	if made >= len(groups) {
		return nil
	}
	var calls []workflows.ToolCall
	for i, cmd := range groups[made] {
		calls = append(calls, callOf(fmt.Sprintf("call-%d-%d", made, i), cmd))
	}
	return calls
}

// callOf is the call for a line: "bg COMMAND" may go to the background after a
// moment, "tell SESSION TEXT" talks to what did.
func callOf(id, line string) workflows.ToolCall {
	c := workflows.ToolCall{CallID: id, Tool: workflows.ToolShell, Shown: line}
	var args any = workflows.ShellArgs{Command: line}
	verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch verb {
	case "bg":
		c.Yield, c.Shown = 300*time.Millisecond, rest
		args = workflows.ShellArgs{Command: rest, YieldTimeMS: 300}
	case "tell":
		session, text, _ := strings.Cut(rest, " ")
		c.Tool, c.Session, c.Yield = workflows.ToolWriteStdin, session, 100*time.Millisecond
		args = workflows.WriteStdinArgs{SessionID: session, Chars: text}
	}
	data, _ := json.Marshal(args)
	c.Args = workflows.TextRef{Text: string(data)}
	return c
}

func answerOf(t []entry) string {
	var out []string
	for _, e := range t {
		if e.Kind == "output" {
			out = append(out, e.ID+"="+e.Text)
		}
	}
	return strings.Join(out, "; ")
}

// recordAudit keeps the entries by number; two under one number are a defect.
func (w *world) recordAudit(_ context.Context, in workflows.RecordAuditInput) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range in.Entries {
		if have, ok := w.audit[e.WorkflowID][e.Seq]; ok && have.Hash != e.Hash {
			w.t.Errorf("two audit entries %d of %s", e.Seq, e.WorkflowID)
		}
		if w.audit[e.WorkflowID] == nil {
			w.audit[e.WorkflowID] = map[int]audit.Entry{}
		}
		w.audit[e.WorkflowID][e.Seq] = e
	}
	return nil
}

// checkAudit holds the record against what ran: every exec has a verdict that
// allows it, before it; the chain is whole up to the head in state.
func (w *world) checkAudit() {
	w.t.Helper()
	var head workflows.AuditHead
	w.eventually("the audit chain is written", func() bool {
		v, err := w.env.Client.QueryWorkflow(w.t.Context(), w.id(), "", workflows.QueryAuditHead)
		return err == nil && v.Get(&head) == nil && head.Unwritten == 0
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	entries := w.audit[w.id()]
	require.Len(w.t, entries, head.Chain.Seq)
	prev, judged, approved := "", map[string]string{}, map[string]bool{}
	for seq := 1; seq <= head.Chain.Seq; seq++ {
		e := entries[seq]
		require.Equal(w.t, prev, e.Prev)
		require.Equal(w.t, e.Sum(), e.Hash)
		prev = e.Hash
		switch e.Kind {
		case audit.KindJudged:
			judged[e.ToolCall] = e.Tier
		case audit.KindDecided:
			approved[e.ToolCall] = e.Outcome == workflows.ApprovalApproved
		case audit.KindGranted:
			if e.ToolCall != "" {
				approved[e.ToolCall] = true // by a grant, which the entry names
			}
		case audit.KindExecStarted:
			tier := judged[e.ToolCall]
			require.True(w.t, tier == "safe" || tier == "write" || approved[e.ToolCall], "exec %s ran without a verdict (%s)", e.Exec, tier)
		}
	}
	require.Equal(w.t, head.Chain.Hash, prev)
}

// People.

func (w *world) id() string { return w.thread.WorkflowID() }

func person(id string) workflows.Actor { return workflows.Actor{ID: id, Name: id} }

func said(id, who, text string) workflows.Message {
	return workflows.Message{ID: id, Author: person(who), Text: workflows.TextRef{Text: text}, At: time.Now()}
}

func (w *world) ask(text string) {
	w.request(workflows.SessionRequest{ID: "100", Thread: w.thread, Task: said("100", "ada", text), By: person("ada")})
}

// request asks for a session until the server has it: the same request asks once.
func (w *world) request(r workflows.SessionRequest) {
	w.eventually("ask for "+r.ID, func() bool { return w.control.RequestSession(w.t.Context(), r) == nil })
}

func (w *world) say(id, who, text string) {
	w.eventually("send "+id, func() bool { return w.control.SendMessage(w.t.Context(), w.id(), said(id, who, text)) == nil })
}

func (w *world) click(approval, who, verdict string) workflows.Outcome {
	w.t.Helper()
	return w.decide(workflows.Decision{ApprovalID: approval, Verdict: verdict, By: person(who), Reason: "because"})
}

func (w *world) decide(d workflows.Decision) workflows.Outcome {
	w.t.Helper()
	for {
		w.mu.Lock()
		w.clicks++
		d.Interaction = fmt.Sprint("click-", w.clicks)
		w.mu.Unlock()
		out := answered(w, func() (workflows.Outcome, error) {
			d.ClickedAt = time.Now()
			return w.control.Decide(w.t.Context(), w.id(), d)
		})
		if out.Outcome != workflows.OutcomeUnconfirmed {
			return out
		} // it came too late to count: then people click again
	}
}

// move asks for a switch; id names the request.
func (w *world) move(id, who, backend, root string) workflows.Outcome {
	w.t.Helper()
	return answered(w, func() (workflows.Outcome, error) {
		return w.control.SwitchBackend(w.t.Context(), w.thread.ManagerID(), workflows.SwitchSession{
			WorkflowID: w.id(), SwitchBackend: workflows.SwitchBackend{Backend: backend, Root: root, By: person(who)},
		}, id)
	})
}

// stop stops a turn; id names the request.
func (w *world) stop(id string, c workflows.CancelTurn) workflows.Outcome {
	w.t.Helper()
	return answered(w, func() (workflows.Outcome, error) { return w.control.CancelTurn(w.t.Context(), w.id(), c, id) })
}

// noticed waits for a notice with this text.
func (w *world) noticed(text string) {
	w.t.Helper()
	w.eventually("a notice: "+text, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, v := range w.posts {
			if v.Kind == workflows.KindNotice && strings.Contains(v.Text.Text, text) {
				return true
			}
		}
		return false
	})
}

func (w *world) state(id string) workflows.TurnState {
	w.t.Helper()
	var st workflows.TurnState
	w.eventually("the session answers", func() bool {
		var err error
		st, err = w.control.TurnState(w.t.Context(), id)
		return err == nil
	})
	return st
}

// view returns what the thread shows under a key.
func (w *world) view(key string) (workflows.MessageView, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, ok := w.posts[w.id()+"#"+key]
	return v, ok
}

func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(4 * time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			w.mu.Lock()
			data, _ := json.MarshalIndent(w.posts, "", " ")
			w.mu.Unlock()
			w.t.Fatalf("never came: %s\n%s", what, data)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// answered repeats a request until the server answers it, as people do: it goes under one
// ID, so that it counts once.
func answered[T any](w *world, ask func() (T, error)) (out T) {
	w.t.Helper()
	w.eventually("an answer", func() bool {
		var err error
		out, err = ask()
		require.True(w.t, err == nil || errors.Is(err, workflows.ErrUnconfirmed), err)
		return err == nil
	})
	return out
}

// awaitApproval waits for a pending approval card and returns its ID.
func (w *world) awaitApproval(key string) string {
	w.t.Helper()
	var id string
	w.eventually("approval "+key, func() bool {
		v, ok := w.view(key)
		if ok && v.Approval.State == workflows.ApprovalPending {
			id = v.Approval.ID
		}
		return id != ""
	})
	return id
}

// awaitRequest waits for an approval card, however it stands by then, and returns its
// ID: one that soon expires may be posted when it has.
func (w *world) awaitRequest(key string) (id string) {
	w.t.Helper()
	w.eventually("a request "+key, func() bool {
		if v, ok := w.view(key); ok {
			id = v.Approval.ID
		}
		return id != ""
	})
	return id
}

func (w *world) awaitAnswer(turn int) string {
	w.t.Helper()
	var text string
	w.eventually(fmt.Sprintf("answer %d", turn), func() bool {
		v, ok := w.view(fmt.Sprintf("answer-%d", turn))
		text = v.Text.Text
		return ok
	})
	return text
}

func (w *world) awaitTurn(turn int, state string) workflows.TurnView {
	w.t.Helper()
	var card workflows.TurnView
	w.eventually(fmt.Sprintf("turn %d %s", turn, state), func() bool {
		v, ok := w.view(fmt.Sprintf("turn-%d", turn))
		if ok {
			card = *v.Turn
		}
		return ok && v.Turn.State == state
	})
	return card
}

func (w *world) runs(suffix string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for id, k := range w.ran {
		if strings.HasSuffix(id, suffix) {
			n += k
		}
	}
	return n
}

func (w *world) let(cmd string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.release[cmd] == nil {
		w.release[cmd] = make(chan struct{})
	}
	close(w.release[cmd])
}
