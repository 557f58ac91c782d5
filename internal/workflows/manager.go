package workflows

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

const (
	// maxAsked bounds the remembered request IDs.
	maxAsked = 300
	// maxOpening bounds what the requests that are being opened may take, in bytes,
	// for a manager to continue as new: more of them have to open first.
	maxOpening = 512 << 10
	// maxJoined bounds the messages that a session is started with, in bytes; more
	// follow by signal.
	maxJoined = 256 << 10

	// quietWithin is how long a run that should end waits for a moment at which nothing
	// is in hand; everybody is heard meanwhile.
	quietWithin = 15 * time.Second
	// drainWithin is how long it waits for what is in hand while it takes no updates
	// any more. What is not done by then is the next run's: people wait for it.
	drainWithin = time.Second
)

// ManagerInput starts a manager, or continues one in a new run.
type ManagerInput struct {
	State *ManagerState `json:"state,omitempty"`
}

// ManagerState is what a manager carries from run to run.
type ManagerState struct {
	// Rows are the newest sessions, oldest first; those before them are in the
	// registry.
	Rows []SessionRow `json:"rows"`
	// Next numbers the next session.
	Next int `json:"next"`
	// Changes of sessions in the registry that it does not have yet.
	Changes []RowChange `json:"changes,omitempty"`
	// Opening are requests whose session has not started yet.
	Opening []*Opening `json:"opening,omitempty"`
	// Asked are the IDs of requests answered lately, with what they gave.
	Asked []Asked `json:"asked,omitempty"`
	// Archive is the registry of older sessions in the blob store.
	Archive string `json:"archive,omitempty"`
	// NotStarted are threads that do not say yet that their session did not start.
	NotStarted []NotStartedInput `json:"not_started,omitempty"`
}

// Opening is a session that is about to start.
type Opening struct {
	Request SessionRequest `json:"request"`
	// Joined are messages for its thread that came before it started.
	Joined []Message `json:"joined,omitempty"`
	Parent string    `json:"parent,omitempty"`

	active bool
	done   bool
	result SessionResult
}

// Asked is a request that was answered.
type Asked struct {
	ID     string        `json:"id"`
	Result SessionResult `json:"result"`
}

// Manager is what a worker registers as SessionManagerWorkflow.
type Manager struct {
	Settings Settings
}

type manager struct {
	id       string
	set      Settings
	st       *ManagerState
	steps    int
	wanted   bool
	draining bool
	// handing: what is in hand is left to the next run.
	handing  bool
	shutdown bool
	busy     int
	// saving counts the oldest rows, sent the first changes that are on their way to
	// the registry.
	saving, sent int
	// restoring: the registry of an earlier manager is being looked for; what is
	// asked meanwhile is taken, so that it is known, and begins afterwards.
	restoring bool
}

// Workflow is SessionManagerWorkflow: it starts the sessions of one team, guild
// or site and lists them.
func (m *Manager) Workflow(ctx workflow.Context, in ManagerInput) error {
	s := &manager{id: workflow.GetInfo(ctx).WorkflowExecution.ID, st: in.State}
	if err := workflow.SideEffect(ctx, func(workflow.Context) any { return m.Settings }).Get(&s.set); err != nil {
		return err
	}
	if s.st == nil {
		s.st = &ManagerState{}
	}
	if err := s.handlers(ctx); err != nil {
		return err
	}
	workflow.Go(ctx, s.receive)
	if in.State == nil {
		if err := s.restore(ctx); err != nil {
			return err
		}
	}
	workflow.Go(ctx, s.keep)
	for _, o := range s.st.Opening {
		s.open(ctx, o)
	}
	for _, in := range s.st.NotStarted {
		s.showNotStarted(ctx, in)
	}
	if err := s.untilEnd(ctx); err != nil {
		return err
	}
	if err := s.drain(ctx); err != nil {
		return err
	}
	if s.shutdown {
		return s.saveAll(ctx)
	}
	if err := s.trim(ctx); err != nil {
		return err
	}
	for s.drainSignals(ctx); s.busy > 0; s.drainSignals(ctx) {
		if err := s.idle(ctx); err != nil { // what they asked to be forwarded
			return err
		}
	}
	return workflow.NewContinueAsNewErrorWithOptions(ctx, toCurrentVersion, WorkflowTypeManager, ManagerInput{State: s.st})
}

// untilEnd waits until the run should end, then for a while until nothing is in hand.
func (s *manager) untilEnd(ctx workflow.Context) error {
	due := func() bool { return s.shutdown || (s.wanted || s.outdated(ctx)) && s.small() }
	quiet := func() bool { return s.shutdown || s.free(ctx) && !s.busySaving() && s.small() }
	if err := workflow.Await(ctx, due); err != nil || quiet() {
		return err
	}
	if _, err := awaitFor(ctx, quietWithin, quiet); err != nil {
		return err
	}
	return workflow.Await(ctx, due)
}

// small reports that what is carried fits into the next run's input.
func (s *manager) small() bool {
	return s.openingSize() <= maxOpening && !s.over() && len(s.st.Changes) <= maxChanges
}

// drain takes no updates any more, and leaves to the next run what does not end soon.
// A manager that is shut down has none.
func (s *manager) drain(ctx workflow.Context) error {
	s.draining = true
	if !s.shutdown && !s.free(ctx) {
		free, err := awaitFor(ctx, drainWithin, func() bool { return s.free(ctx) })
		if err != nil {
			return err
		}
		s.handing = !free
	}
	return s.idle(ctx)
}

// free reports that nothing is in hand.
func (s *manager) free(ctx workflow.Context) bool {
	return s.busy == 0 && workflow.AllHandlersFinished(ctx)
}

// idle waits until nothing is in hand.
func (s *manager) idle(ctx workflow.Context) error {
	return workflow.Await(ctx, func() bool { return s.free(ctx) })
}

// get waits for an activity, unless what is in hand is left to the next run.
func (s *manager) get(ctx workflow.Context, f workflow.Future, into any) error {
	if err := workflow.Await(ctx, func() bool { return s.handing || f.IsReady() }); err != nil {
		return err
	}
	if !f.IsReady() {
		return errDraining
	}
	return f.Get(ctx, into)
}

// restore finds the registry of an earlier manager under the same ID.
func (s *manager) restore(ctx workflow.Context) error {
	s.restoring = true
	defer func() { s.restoring = false }()
	var res SaveRegistryResult
	err := workflow.ExecuteActivity(recordOptions(ctx), ActivityLoadRegistry, SaveRegistryInput{ManagerID: s.id}).Get(ctx, &res)
	if err != nil {
		return fmt.Errorf("loading the registry: %w", err)
	}
	s.st.Archive, s.st.Next = res.Archive, res.Rows
	return nil
}

func (s *manager) handlers(ctx workflow.Context) error {
	return errors.Join(
		managerUpdate(ctx, s, UpdateCreateSession, s.create),
		managerUpdate(ctx, s, UpdateForkSession, s.fork),
		managerUpdate(ctx, s, UpdateSwitchSession, s.switchBackend),
		managerUpdate(ctx, s, UpdateDestroySession, s.destroy),
		workflow.SetQueryHandler(ctx, QueryListSessions, s.list),
	)
}

func managerUpdate[A, R any](ctx workflow.Context, s *manager, name string, handle func(workflow.Context, A) (R, error)) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, name, handle, workflow.UpdateHandlerOptions{
		Validator: func(_ workflow.Context, _ A) error {
			if s.draining {
				return errDraining
			}
			return nil
		},
	})
}

func (s *manager) step(ctx workflow.Context) {
	s.steps++
	forced := s.set.ForceContinueAsNew > 0 && s.steps >= s.set.ForceContinueAsNew
	if forced || workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
		s.wanted = true
	}
}

func (s *manager) receive(ctx workflow.Context) {
	sel := workflow.NewSelector(ctx)
	sel.AddReceive(workflow.GetSignalChannel(ctx, SignalRequestSession), func(c workflow.ReceiveChannel, _ bool) {
		var r SessionRequest
		c.Receive(ctx, &r)
		s.request(ctx, r)
	})
	sel.AddReceive(workflow.GetSignalChannel(ctx, SignalRenameSession), func(c workflow.ReceiveChannel, _ bool) {
		var r RenameSession
		c.Receive(ctx, &r)
		s.rename(ctx, r)
	})
	sel.AddReceive(workflow.GetSignalChannel(ctx, SignalUpdateSnapshotID), func(c workflow.ReceiveChannel, _ bool) {
		var u UpdateSnapshotID
		c.Receive(ctx, &u)
		s.snapshot(ctx, u)
	})
	sel.AddReceive(workflow.GetSignalChannel(ctx, SignalShutdown), func(c workflow.ReceiveChannel, _ bool) {
		c.Receive(ctx, nil)
		s.shutdown = true
	})
	sel.AddReceive(workflow.GetSignalChannel(ctx, SignalCheckVersion), wake(ctx))
	takeAll(ctx, sel, &s.draining)
}

// drainSignals takes what arrived since the last task; what it opens is opened
// by the next run.
func (s *manager) drainSignals(ctx workflow.Context) {
	for {
		var r SessionRequest
		if !workflow.GetSignalChannel(ctx, SignalRequestSession).ReceiveAsync(&r) {
			break
		}
		s.request(ctx, r)
	}
	for {
		var r RenameSession
		if !workflow.GetSignalChannel(ctx, SignalRenameSession).ReceiveAsync(&r) {
			break
		}
		s.rename(ctx, r)
	}
	for {
		var u UpdateSnapshotID
		if !workflow.GetSignalChannel(ctx, SignalUpdateSnapshotID).ReceiveAsync(&u) {
			break
		}
		s.snapshot(ctx, u)
	}
	drainWakes(ctx)
}

// request takes a request from chat: a new session, or a message for one that
// is still opening.
func (s *manager) request(ctx workflow.Context, r SessionRequest) {
	if r.Join {
		s.join(ctx, r)
		return
	}
	if s.asked(r.ID) != nil {
		return
	}
	if s.taken(r) {
		// Two people called the agent into one thread at once: both are heard.
		s.join(ctx, r)
		return
	}
	if s.opening(r) != nil {
		return
	}
	o := &Opening{Request: r}
	s.add(ctx, o)
	s.step(ctx)
}

// add takes a request up.
func (s *manager) add(ctx workflow.Context, o *Opening) {
	if o.Request.Title != "" {
		o.Request.Title = TitleOf(o.Request.Title)
	}
	s.st.Opening = append(s.st.Opening, o)
	s.open(ctx, o)
}

// openingSize is about what the requests that are being opened take, in bytes.
func (s *manager) openingSize() int {
	n := 0
	for _, o := range s.st.Opening {
		n += 512 + o.Request.Task.size()
		for _, m := range o.Joined {
			n += m.size()
		}
	}
	return n
}

// taken reports whether another request has the thread already.
func (s *manager) taken(r SessionRequest) bool {
	if r.Thread.ID == "" {
		return false
	}
	for _, o := range s.st.Opening {
		if o.Request.Thread.same(r.Thread) && o.Request.ID != r.ID {
			return true
		}
	}
	row := s.row(r.Thread.WorkflowID())
	return row != nil && row.Liveness != LivenessDestroyed
}

// join gives a message to the session of its thread, opening or live.
func (s *manager) join(ctx workflow.Context, r SessionRequest) {
	id := r.Thread.WorkflowID()
	for _, o := range s.st.Opening {
		if o.Request.Thread.ID != "" && o.Request.Thread.WorkflowID() == id {
			o.Joined = append(o.Joined, r.Task)
			return
		}
	}
	if row := s.row(id); row == nil || row.Liveness != LivenessDestroyed {
		s.forward(ctx, id, r.Task)
	}
}

func (s *manager) forward(ctx workflow.Context, id string, m Message) {
	f := workflow.SignalExternalWorkflow(ctx, id, "", SignalSendMessage, m)
	s.busy++
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { s.busy-- }()
		if err := f.Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Warn("Message reached no session", "workflow_id", id, "error", err)
		}
	})
}

func (s *manager) asked(id string) *SessionResult {
	for i := range s.st.Asked {
		if s.st.Asked[i].ID == id {
			return &s.st.Asked[i].Result
		}
	}
	return nil
}

func (s *manager) opening(r SessionRequest) *Opening {
	for _, o := range s.st.Opening {
		if o.Request.ID == r.ID || o.Request.Thread.same(r.Thread) {
			return o
		}
	}
	return nil
}

// open brings a request to its session; while the run drains it is left to the next
// one.
func (s *manager) open(ctx workflow.Context, o *Opening) {
	if !s.draining {
		s.openNow(ctx, o)
	}
}

// openNow does so in a coroutine of its own, also while the run drains: for those
// who wait for it in this run.
func (s *manager) openNow(ctx workflow.Context, o *Opening) {
	if o.active || s.restoring || s.handing {
		return
	}
	o.active = true
	s.busy++
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { s.busy--; o.active = false }()
		s.start(ctx, o)
	})
}

// start posts the thread's root and starts the session under the thread's ID.
func (s *manager) start(ctx workflow.Context, o *Opening) {
	r := &o.Request
	var thread Thread
	f := workflow.ExecuteActivity(postOptions(ctx, r.Thread.PostQueue(), priorityAnswer, r.Thread.postKey()), ActivityOpenThread, OpenThreadInput{
		Thread: r.Thread, Key: "root-" + r.ID, Title: r.Title, By: r.By, Parent: o.Parent,
	})
	err := s.get(ctx, f, &thread)
	if errors.Is(err, errDraining) {
		return // the next run looks for what this one may have posted
	}
	if err != nil {
		s.answer(ctx, o, SessionResult{Outcome: Outcome{OutcomeRefused, o.failed() + sentenceOf(err)}})
		return
	}
	r.Thread = thread
	id := thread.WorkflowID()
	cctx := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: id, TaskQueue: TaskQueueReasoning, WorkflowTaskTimeout: TaskTimeout,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
	})
	taken := o.fitting()
	child := workflow.ExecuteChildWorkflow(cctx, WorkflowTypeAgent, AgentInput{
		Request: *r, ManagerID: s.id, Joined: slices.Clone(o.Joined[:taken]),
	})
	err = child.GetChildWorkflowExecution().Get(ctx, nil)
	started := temporal.IsWorkflowExecutionAlreadyStartedError(err)
	if err != nil && !started {
		workflow.GetLogger(ctx).Error("Session could not be started", "workflow_id", id, "error", err)
		s.answer(ctx, o, SessionResult{Outcome: Outcome{OutcomeRefused, o.failed() + notStarted}})
		in := r.notStarted()
		s.st.NotStarted = append(s.st.NotStarted, in)
		s.showNotStarted(ctx, in)
		return
	}
	if started {
		taken = 0 // it was started before, perhaps without them
		s.forward(ctx, id, r.Task)
	}
	for _, m := range o.Joined[taken:] {
		s.forward(ctx, id, m)
	}
	s.started(ctx, o, started)
}

// fitting is how many of the messages that came meanwhile the session may be
// started with.
func (o *Opening) fitting() int {
	size := 0
	for i, m := range o.Joined {
		if size += m.size(); size > maxJoined {
			return i
		}
	}
	return len(o.Joined)
}

// failed begins the sentence that a request gets whose session does not start.
func (o *Opening) failed() string {
	if o.Parent != "" {
		return "The fork was not made. "
	}
	return "The session was not started. "
}

// notStarted is said where Temporal did not start a session.
const notStarted = "Nothing has run. Ask again; if it fails again, tell whoever runs Countersign."

// showWithin bounds the attempts to say in a thread that its session did not start.
const showWithin = 10 * time.Minute

// notStarted is what is said in the thread of a request whose session did not start.
func (r *SessionRequest) notStarted() NotStartedInput {
	title := r.Title
	if title == "" {
		title = TitleOf(r.Task.Text.Text)
	}
	return NotStartedInput{Thread: r.Thread, Title: title, By: r.By, Text: "This session could not be started. " + notStarted}
}

// showNotStarted says in a thread that was opened that its session did not start:
// else its root would say for ever that it is opening.
func (s *manager) showNotStarted(ctx workflow.Context, in NotStartedInput) {
	ctx = postOptions(ctx, in.Thread.PostQueue(), priorityApproval, in.Thread.postKey())
	ctx = workflow.WithScheduleToCloseTimeout(ctx, showWithin)
	f := workflow.ExecuteActivity(ctx, ActivityShowNotStarted, in)
	s.busy++
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { s.busy-- }()
		err := s.get(ctx, f, nil)
		if errors.Is(err, errDraining) {
			return
		}
		if err != nil {
			workflow.GetLogger(ctx).Error("Thread does not say that its session did not start", "error", err)
		}
		s.st.NotStarted = slices.DeleteFunc(s.st.NotStarted, func(other NotStartedInput) bool { return other.Thread.same(in.Thread) })
	})
}

// started records a session that runs; before says that it did so already.
func (s *manager) started(ctx workflow.Context, o *Opening, before bool) {
	r := o.Request
	id := r.Thread.WorkflowID()
	turn := 0
	if r.From != nil {
		turn = r.From.Turn
	}
	known := s.row(id) != nil
	if before && !known {
		row, err := s.find(ctx, id)
		if errors.Is(err, errDraining) {
			return // the next run does this again
		}
		known = err != nil || row != nil
	}
	if !known {
		s.addRow(ctx, o)
	}
	s.answer(ctx, o, SessionResult{
		Outcome: Outcome{OutcomeRecorded, "Opened."}, WorkflowID: id, Thread: r.Thread, Turn: turn,
	})
}

// answer ends an opening and remembers what its request gave.
func (s *manager) answer(ctx workflow.Context, o *Opening, res SessionResult) {
	res.Text = cutText(res.Text, maxField)
	o.result, o.done = res, true
	s.st.Opening = slices.DeleteFunc(s.st.Opening, func(p *Opening) bool { return p == o })
	s.st.Asked = append(s.st.Asked, Asked{ID: o.Request.ID, Result: res})
	if over := len(s.st.Asked) - maxAsked; over > 0 {
		s.st.Asked = slices.Delete(s.st.Asked, 0, over)
	}
	s.step(ctx)
}

// create answers [UpdateCreateSession].
func (s *manager) create(ctx workflow.Context, r SessionRequest) (SessionResult, error) {
	return s.begin(ctx, &Opening{Request: r})
}

func (s *manager) begin(ctx workflow.Context, o *Opening) (SessionResult, error) {
	if res := s.asked(o.Request.ID); res != nil {
		return *res, nil
	}
	if twin := s.opening(o.Request); twin != nil {
		o = twin
	} else {
		s.add(ctx, o)
	}
	s.openNow(ctx, o)
	err := workflow.Await(ctx, func() bool { return o.done || s.handing })
	if err == nil && !o.done {
		err = errDraining // who asks again finds it under its ID
	}
	return o.result, err
}

// fork answers [UpdateForkSession]: a new session from the source's last
// boundary, whatever the source is doing.
func (s *manager) fork(ctx workflow.Context, f ForkSession) (SessionResult, error) {
	if err := workflow.Await(ctx, func() bool { return !s.restoring }); err != nil {
		return SessionResult{}, err
	}
	if res := s.asked(f.ID); res != nil {
		return *res, nil
	}
	if i := slices.IndexFunc(s.st.Opening, func(o *Opening) bool { return o.Request.ID == f.ID }); i >= 0 {
		return s.begin(ctx, s.st.Opening[i])
	}
	if f.Backend != "" && !slices.Contains(s.set.Backends, f.Backend) {
		return refusal(f.Backend + " is not available here. There is: " + strings.Join(s.set.Backends, ", ") + "."), nil
	}
	// The source may be starting this moment.
	if err := workflow.Await(ctx, func() bool { return s.handing || !s.starting(f.Source) }); err != nil {
		return SessionResult{}, err
	}
	row, err := s.find(ctx, f.Source)
	switch {
	case errors.Is(err, errDraining):
		return SessionResult{}, err
	case err != nil:
		return refusal("The list of sessions cannot be read now. Try again."), nil
	}
	b, refused, err := s.source(ctx, f, row)
	if err != nil {
		return SessionResult{}, err
	}
	if refused != "" {
		return refusal(refused), nil
	}
	if b.Failed != "" {
		return refusal("The source's files could not be saved at its last turn's end (" + b.Failed + "), so there is nothing whole to copy. Try again after its next turn."), nil
	}
	title := s.forkTitle(ctx, b.Title, row)
	if f.Title != "" {
		title = f.Title
	}
	return s.begin(ctx, &Opening{Parent: f.Source, Request: SessionRequest{
		ID: f.ID, Thread: f.Thread, Title: title, Task: f.Task, Backend: f.Backend,
		Workspace: b.Workspace, Model: b.Model, By: f.By, From: &b,
	}})
}

// forkTitle counts a fork of row, whose title this is, and names it: "(fork #2)" behind
// the title that the first of the family had. Forks of forks are counted there, too, so
// that no two of them are called the same.
func (s *manager) forkTitle(ctx workflow.Context, title string, row *SessionRow) string {
	of, base := row, baseTitle(title)
	for baseTitle(title) != title && of.Parent != "" {
		parent, err := s.find(ctx, of.Parent)
		if err != nil || parent == nil {
			break // counted where it is known
		}
		of, title = parent, parent.Title
	}
	return forkOf(base, s.forked(of.WorkflowID, of.Forks))
}

// forkOf is the title of a family's fork number n. A long one loses its end, not what
// tells the fork from the others.
func forkOf(base string, n int) string {
	mark := forkMark + strconv.Itoa(n) + ")"
	if r := []rune(base); len(r)+len(mark) > maxTitle {
		base = strings.TrimRight(string(r[:maxTitle-len(mark)-1]), " …") + "…"
	}
	return base + mark
}

// forkMark is what tells a fork's title from that of its source, before a number and ")".
const forkMark = " (fork #"

// baseTitle is a title without what makes it a fork's.
func baseTitle(title string) string {
	for {
		at := strings.LastIndex(title, forkMark)
		n, ok := strings.CutSuffix(title[max(at, 0):], ")")
		if at < 0 || !ok {
			return title
		}
		if _, err := strconv.ParseUint(n[len(forkMark):], 10, 32); err != nil {
			return title
		}
		title = title[:at]
	}
}

// starting reports whether a session is being opened.
func (s *manager) starting(id string) bool {
	return slices.ContainsFunc(s.st.Opening, func(o *Opening) bool {
		return o.active && o.Request.Thread.ID != "" && o.Request.Thread.WorkflowID() == id
	})
}

// source asks the session for its boundary; a closed one's is in its row. Else it
// returns why there is none.
func (s *manager) source(ctx workflow.Context, f ForkSession, row *SessionRow) (b Boundary, refused string, err error) {
	switch {
	case row == nil:
		return b, "No session " + f.Source + " is known here. `list` shows those that are.", nil
	case row.Liveness != LivenessDestroyed:
		asked := workflow.ExecuteActivity(lookOptions(ctx), ActivityQuerySession, QuerySessionInput{WorkflowID: f.Source})
		err := s.get(ctx, asked, &b)
		switch {
		case errors.Is(err, errDraining):
			return b, "", err
		case err != nil:
			return b, "The source session did not answer. Try again.", nil
		}
		return b, "", nil
	case !row.EndedAt.IsZero() && !workflow.Now(ctx).Before(row.EndedAt.Add(KeepFor)):
		return b, "That session was destroyed, and its files were kept until " + row.EndedAt.Add(KeepFor).UTC().Format("2 Jan") + ".", nil
	case !f.OfClosed:
		return b, "That session was destroyed. Start anew from its files: `new --from " + f.Source + "`.", nil
	}
	return Boundary{
		WorkflowID: row.WorkflowID, Turn: row.Turn, Snapshot: row.Snapshot, Transcript: row.Transcript,
		Title: row.Title, Backend: row.Backend, Workspace: row.Workspace, Model: row.Model,
	}, "", nil
}

func refusal(text string) SessionResult {
	return SessionResult{Outcome: Outcome{OutcomeRefused, text}}
}

// switchBackend hands a switch to the session and returns its answer.
func (s *manager) switchBackend(ctx workflow.Context, w SwitchSession) (Outcome, error) {
	const none = "No session runs in this thread."
	if row := s.row(w.WorkflowID); row != nil && row.Liveness == LivenessDestroyed {
		return Outcome{OutcomeRefused, none}, nil
	}
	var out Outcome
	f := workflow.ExecuteActivity(lookOptions(ctx), ActivityUpdateSession, UpdateSessionInput{
		WorkflowID: w.WorkflowID, UpdateID: workflow.GetCurrentUpdateInfo(ctx).ID, Switch: &w.SwitchBackend,
	})
	err := s.get(ctx, f, &out)
	var app *temporal.ApplicationError
	switch {
	case errors.Is(err, errDraining):
		return Outcome{}, err // sent again, it is the same update for the session
	case errors.As(err, &app) && app.Type() == ErrTypeNotFound:
		return Outcome{OutcomeRefused, none}, nil
	case err != nil:
		return Outcome{OutcomeRefused, "The session did not answer in time. Try again, unless its thread shows that it moves."}, nil
	}
	s.step(ctx)
	return out, nil
}

// destroy signals the session; it ends by itself, with a receipt.
func (s *manager) destroy(ctx workflow.Context, d DestroySession) (Outcome, error) {
	row, err := s.find(ctx, d.WorkflowID)
	switch {
	case errors.Is(err, errDraining):
		return Outcome{}, err
	case err != nil:
		return Outcome{OutcomeRefused, "The list of sessions cannot be read now; nothing was destroyed. Try again."}, nil
	case row == nil:
		return Outcome{OutcomeRefused, "No session runs in this thread; nothing was destroyed."}, nil
	case row.DestroyedBy == d.By.Label() && row.Liveness != LivenessDestroyed:
		return Outcome{OutcomeRecorded, "Being destroyed; the receipt follows."}, nil
	case row.DestroyedBy != "":
		return Outcome{OutcomeAlreadyDecided, row.DestroyedBy + " has destroyed this session already."}, nil
	case row.Liveness == LivenessDestroyed:
		return Outcome{OutcomeAlreadyDecided, "This session is destroyed already."}, nil
	}
	s.change(RowChange{WorkflowID: d.WorkflowID, DestroyedBy: d.By.Label()})
	err = workflow.SignalExternalWorkflow(ctx, d.WorkflowID, "", SignalDestroy, Destroy{By: d.By, At: d.At}).Get(ctx, nil)
	if err != nil {
		return Outcome{OutcomeAlreadyDecided, "The session has ended already."}, nil
	}
	s.step(ctx)
	return Outcome{OutcomeRecorded, "Being destroyed; the receipt follows."}, nil
}

func (s *manager) rename(ctx workflow.Context, r RenameSession) {
	s.change(RowChange{WorkflowID: r.WorkflowID, Title: TitleOf(r.Title)})
	s.step(ctx)
}

func (s *manager) snapshot(ctx workflow.Context, u UpdateSnapshotID) {
	c := RowChange{WorkflowID: u.Boundary.WorkflowID, Boundary: &u.Boundary, Liveness: u.Liveness}
	if u.Destroyed {
		c.Liveness, c.EndedAt = LivenessDestroyed, workflow.Now(ctx)
	}
	s.change(c)
	s.step(ctx)
}
