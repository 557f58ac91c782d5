package workflows

import (
	"strings"
	"time"
	"unicode/utf8"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

// Agent is what a worker registers as AgentWorkflow.
type Agent struct {
	// Settings are this worker's; each run records them once.
	Settings Settings
	// Here is asked before the queue of a sandbox; nil answers nothing.
	Here GateHere
}

// session is one run of AgentWorkflow.
type session struct {
	id  string
	set Settings
	st  *State
	// clock is workflow time.
	clock func() time.Time
	// here is never nil.
	here GateHere

	// steps counts since the run began; wanted asks for a continue-as-new at the
	// main coroutine's next safe point; draining then stops everything else.
	steps    int
	wanted   bool
	draining bool
	// posting is true while a post is in flight; calls counts the coroutines that
	// a continue-as-new waits for.
	posting bool
	calls   int
	// sending is true while files are read for the thread.
	sending bool
	// following counts the coroutines of commands in the background, which a
	// continue-as-new waits for, too.
	following int
	// watching: it is looked whether what is away is back.
	watching bool
	// asking is true while a switch is judged or waits for an approval.
	asking bool
	// moving is the switch that is being carried out.
	moving *Move
	// opened is true once the sandbox was opened or looked at in this turn.
	opened bool
	// flush asks for the audit entries to be written.
	flush bool
	// cancelModel ends the model call in flight.
	cancelModel workflow.CancelFunc
	// thinking is true while a model call is in flight.
	thinking bool
	// soon: the turn's card is to be brought up to date in a moment.
	soon bool
	// tidying: messages are on their way to the blob store or looked up there.
	tidying bool
	// unstashed are messages that have come from the blob store, on their way into
	// the turn.
	unstashed []Message
	// lost: the sandbox's host is dead, and the step's calls have stopped for it.
	lost bool
	// asked: somebody waits for what is done with the sandbox. noHost: meanwhile, or
	// since the session is being destroyed, its host did not take a task up; what is
	// left to do is done without it.
	asked, noHost bool
	// late: a message that came after the receipt was answered.
	late bool
	// refusals counts refused clicks by person, to bound them.
	refusals map[string]int
}

// Workflow is AgentWorkflow: the session of one thread.
func (a *Agent) Workflow(ctx workflow.Context, in AgentInput) error {
	s := &session{id: workflow.GetInfo(ctx).WorkflowExecution.ID, refusals: map[string]int{}, here: a.Here}
	s.clock = func() time.Time { return workflow.Now(ctx) }
	if s.here == nil {
		s.here = nobodyHere{}
	}
	if err := workflow.SideEffect(ctx, func(workflow.Context) any { return a.Settings }).Get(&s.set); err != nil {
		return err
	}
	s.st = in.State
	fresh := s.st == nil
	if fresh {
		s.st = s.begin(ctx, in)
	}
	if err := s.handlers(ctx); err != nil {
		return err
	}
	if fresh {
		s.show(MessageView{Key: HeaderKey, Kind: KindHeader, ReplyTo: s.st.Thread.ID})
		if b := in.Request.From; b != nil {
			s.notice(fromText(b))
		}
		if e := in.Request.Task.Earlier; e != nil {
			s.notice(earlierNotice(e))
		}
	}
	s.header()
	s.liveness(ctx)
	workflow.Go(ctx, s.receive)
	workflow.Go(ctx, s.switching)
	s.flush = true
	workflow.Go(ctx, s.auditLoop)
	workflow.Go(ctx, s.filesLoop)
	workflow.Go(ctx, s.tidy)
	s.project(ctx)
	s.followAll(ctx)
	s.watchAway(ctx)
	s.stopAllLate(ctx)
	return s.run(ctx, in)
}

// begin makes the first run's state from what the manager asked for.
func (s *session) begin(ctx workflow.Context, in AgentInput) *State {
	r := in.Request
	st := &State{
		Thread: r.Thread, ManagerID: in.ManagerID, Title: r.Title, By: r.By,
		StartedAt: workflow.Now(ctx),
		Backend:   r.Backend, Workspace: r.Workspace, Model: r.Model,
	}
	if st.Model == "" {
		st.Model = s.set.Model
	}
	if b := r.From; b != nil {
		st.Parent = b.WorkflowID
		st.Boundary = Boundary{Snapshot: b.Snapshot, Transcript: b.Transcript}
		if r.Workspace == "" {
			st.Workspace = b.Workspace
		}
		if r.Model == "" && b.Model != "" {
			st.Model = b.Model
		}
	}
	if st.Backend == "" {
		st.Backend = s.set.Workspaces[st.Workspace]
	}
	if st.Backend == "" {
		st.Backend = s.set.Backend
	}
	st.Boundary.WorkflowID, st.Boundary.At = s.id, st.StartedAt
	if st.Title == "" {
		st.Title = TitleOf(r.Task.Text.Text)
	}
	for _, m := range append([]Message{r.Task}, in.Joined...) {
		if m.Text.Text != "" && st.Seen.add(m) {
			st.Queue = append(st.Queue, m)
		}
	}
	return st
}

// earlierNotice says that talk of others was read.
func earlierNotice(e *Earlier) string {
	what := "The message before the mention in this thread was"
	if e.Messages > 1 {
		what = "The " + itoa(e.Messages) + " messages before the mention in this thread were"
	}
	return what + " read: as talk of others, not as a task."
}

func fromText(b *Boundary) string {
	what := "its beginning"
	if b.Turn > 0 {
		what = "the end of turn " + itoa(b.Turn)
	}
	return "Copied from “" + b.Title + "”, as of " + what + ": workspace and conversation. Permissions given there do not count here."
}

// maxTitle is how long a title may be, in characters.
const maxTitle = 80

// TitleOf makes a title of a task: its first line, at most 80 characters.
func TitleOf(task string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(task), "\n")
	line = strings.Join(strings.Fields(line), " ")
	if utf8.RuneCountInString(line) > maxTitle {
		r := []rune(line)
		line = strings.TrimSpace(string(r[:maxTitle-1])) + "…"
	}
	if line == "" {
		return "Untitled"
	}
	return line
}

// run is the session's life: turns, one after the other, until it is destroyed.
func (s *session) run(ctx workflow.Context, in AgentInput) error {
	for {
		err := workflow.Await(ctx, func() bool {
			return s.wanted || s.aged(ctx) || s.outdated(ctx) || s.st.Destroy != nil || s.st.PauseBy != nil || s.st.Switch != nil || s.st.Turn != nil || s.waiting() > 0 ||
				(len(s.st.Files) > 0 && !s.sending)
		})
		if err != nil {
			return err
		}
		switch {
		case s.wanted, s.aged(ctx), s.outdated(ctx):
			return s.continueAsNew(ctx, in)
		case s.st.Turn != nil:
			s.turn(ctx)
		case s.sending: // since the turn that has ended
			if err := workflow.Await(ctx, func() bool { return !s.sending }); err != nil {
				return err
			}
		case s.st.Destroy != nil:
			return s.end(ctx)
		case len(s.st.Files) > 0:
			s.sendNext(ctx)
		case s.st.Switch != nil:
			s.move(ctx)
		case s.st.PauseBy != nil && s.waiting() == 0:
			// Messages that wait would resume it at once.
			s.pause(ctx)
		default:
			s.beginTurn(ctx)
		}
	}
}

// step counts a step and decides whether the run ends at this boundary. A session
// that is being destroyed ends anyway.
func (s *session) step(ctx workflow.Context) {
	s.steps++
	forced := s.set.ForceContinueAsNew > 0 && s.steps >= s.set.ForceContinueAsNew
	if s.st.Destroy == nil && (forced || workflow.GetInfo(ctx).GetContinueAsNewSuggested()) {
		s.wanted = true
	}
}

// runEvents is how long a run's history grows before a session at rest begins a
// new one: some 15 turns of one command. A worker that does not have the session
// in memory replays what a run holds, at 20,000 events a second and more, so that
// waking it costs the same however old it is. Temporal's own suggestion comes at
// 4,096 events and counts within a turn.
const runEvents = 1200

// aged reports that this is a good moment for a new run: nothing is being done,
// waits, or is still to be shown.
func (s *session) aged(ctx workflow.Context) bool {
	return workflow.GetInfo(ctx).GetCurrentHistoryLength() > runEvents &&
		s.st.Turn == nil && s.st.Destroy == nil && s.st.Switch == nil && s.st.PauseBy == nil && s.waiting() == 0 && len(s.st.Files) == 0 && !s.sending && s.settled()
}

// drain stops everything at its next safe point. Edits are cancelled: the next
// run does them again.
func (s *session) drain() {
	s.draining = true
	for _, p := range s.st.Posts {
		if p.edit.begun() {
			p.edit.cancel()
		}
	}
}

// continueAsNew carries the state into a new run, when nothing is in flight that
// only this run could finish.
func (s *session) continueAsNew(ctx workflow.Context, in AgentInput) error {
	s.drain()
	for quiet := false; !quiet; {
		err := workflow.Await(ctx, func() bool {
			return !s.posting && !s.sending && !s.asking && s.calls == 0 && s.following == 0 && !s.editing() && workflow.AllHandlersFinished(ctx)
		})
		if err != nil {
			return err
		}
		s.drainSignals(ctx)
		quiet = s.calls == 0 && s.following == 0 && !s.untidy()
		if s.calls == 0 && s.untidy() {
			if err := s.tidyOnce(ctx); err != nil {
				return err
			}
		}
	}
	s.drop()
	in.State = s.st
	in.Request.Task.Text, in.Request.Task.Earlier, in.Joined = TextRef{}, nil, nil
	if s.st.Turn != nil {
		s.st.Outdated = s.st.Outdated || workflow.GetInfo(ctx).GetTargetWorkerDeploymentVersionChanged()
		return workflow.NewContinueAsNewError(ctx, WorkflowTypeAgent, in)
	}
	s.st.Outdated = false
	return workflow.NewContinueAsNewErrorWithOptions(ctx, toCurrentVersion, WorkflowTypeAgent, in)
}

func (s *session) editing() bool {
	for _, p := range s.st.Posts {
		if p.edit.active {
			return true
		}
	}
	return false
}

// receive takes signals as they come.
func (s *session) receive(ctx workflow.Context) {
	sel := workflow.NewSelector(ctx)
	sel.AddReceive(workflow.GetSignalChannel(ctx, SignalSendMessage), func(c workflow.ReceiveChannel, _ bool) {
		var m Message
		c.Receive(ctx, &m)
		s.take(ctx, m)
	})
	sel.AddReceive(workflow.GetSignalChannel(ctx, SignalSetTitle), func(c workflow.ReceiveChannel, _ bool) {
		var t SetTitle
		c.Receive(ctx, &t)
		s.setTitle(ctx, t)
	})
	sel.AddReceive(workflow.GetSignalChannel(ctx, SignalDestroy), func(c workflow.ReceiveChannel, _ bool) {
		var d Destroy
		c.Receive(ctx, &d)
		s.destroy(ctx, d)
	})
	sel.AddReceive(workflow.GetSignalChannel(ctx, SignalCheckVersion), wake(ctx))
	takeAll(ctx, sel, &s.draining)
}

// takeAll serves a selector of signals until the run drains. It never blocks in
// Select: a blocked Select is handed a signal before its coroutine runs, where a
// run that ends in the same task, which goes first, would not find it.
func takeAll(ctx workflow.Context, sel workflow.Selector, draining *bool) {
	for {
		_ = workflow.Await(ctx, func() bool { return *draining || sel.HasPending() })
		if ctx.Err() != nil || *draining {
			return
		}
		sel.Select(ctx)
	}
}

// drainSignals takes what arrived since the last task, so that no signal is left
// behind in the closed run.
func (s *session) drainSignals(ctx workflow.Context) {
	for {
		var m Message
		if !workflow.GetSignalChannel(ctx, SignalSendMessage).ReceiveAsync(&m) {
			break
		}
		s.take(ctx, m)
	}
	for {
		var t SetTitle
		if !workflow.GetSignalChannel(ctx, SignalSetTitle).ReceiveAsync(&t) {
			break
		}
		s.setTitle(ctx, t)
	}
	for {
		var d Destroy
		if !workflow.GetSignalChannel(ctx, SignalDestroy).ReceiveAsync(&d) {
			break
		}
		s.destroy(ctx, d)
	}
	drainWakes(ctx)
}

// take queues a message, once.
func (s *session) take(ctx workflow.Context, m Message) {
	seen, unsure := s.st.Seen.has(m)
	switch {
	case seen:
	case unsure:
		s.st.Doubtful = append(s.st.Doubtful, m)
	default:
		s.admit(ctx, m)
	}
}

// admit queues a message that was not taken before.
func (s *session) admit(ctx workflow.Context, m Message) {
	if !s.st.Seen.add(m) {
		return
	}
	if !s.st.DestroyAt.IsZero() {
		s.notTaken()
		return
	}
	s.st.Queue = append(s.st.Queue, m)
	s.queued()
	s.step(ctx)
}

// queued shows on the cards that messages wait.
func (s *session) queued() {
	n := s.waiting()
	for _, a := range s.st.Pending {
		p := s.post(a.Key)
		if p == nil || p.View.Approval.Queued == n {
			continue
		}
		p.View.Approval.Queued = n
		p.View.Buttons = s.approvalButtons(a, p.View.Approval)
		s.changed(p)
	}
	if t := s.st.Turn; t != nil && t.Card.Queued != n {
		t.Card.Queued = n
		s.cardChanged()
	}
}

func (s *session) setTitle(ctx workflow.Context, t SetTitle) {
	title := TitleOf(t.Title)
	if title == s.st.Title {
		return
	}
	s.st.Title = title
	s.header()
	s.tellManager(ctx, SignalRenameSession, RenameSession{WorkflowID: s.id, Title: title})
	s.step(ctx)
}

// tellManager signals the manager; a manager that is gone does not matter.
func (s *session) tellManager(ctx workflow.Context, signal string, arg any) {
	if s.st.ManagerID == "" {
		return
	}
	f := workflow.SignalExternalWorkflow(ctx, s.st.ManagerID, "", signal, arg)
	s.calls++
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { s.calls-- }()
		if err := f.Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Warn("Manager was not told", "signal", signal, "error", err)
		}
	})
}

// header brings the header's view up to date.
func (s *session) header() {
	p := s.post(HeaderKey)
	if p == nil {
		return
	}
	h := &HeaderView{
		Title: s.st.Title, Backend: s.st.Backend, Workspace: s.st.Workspace, Model: s.st.Model,
		By: s.st.By, Liveness: s.now(), Waiting: len(s.st.Pending), Parent: s.st.Parent,
		Usage: s.st.Usage, DestroyedAt: s.st.DestroyAt,
	}
	if sb := s.st.Sandbox; sb != nil {
		h.Isolated, h.WorkspacePath, h.Notice = sb.Isolated, sb.WorkspacePath, sb.Notice
	}
	if p.View.Header != nil && p.View.Header.same(h) {
		return
	}
	p.View.Header = h
	s.changed(p)
}

// now is the session's liveness.
func (s *session) now() string {
	switch {
	case !s.st.DestroyAt.IsZero():
		return LivenessDestroyed
	case len(s.st.Pending) > 0:
		return LivenessWaiting
	case s.st.Paused:
		return LivenessPaused
	}
	return LivenessActive
}

// liveness keeps the search attributes and the header current.
func (s *session) liveness(ctx workflow.Context) {
	s.header()
	now, waiting := s.now(), len(s.st.Pending)
	if now == s.st.Liveness && waiting == s.st.Waiting {
		return
	}
	s.st.Liveness, s.st.Waiting = now, waiting
	err := workflow.UpsertTypedSearchAttributes(ctx,
		temporal.NewSearchAttributeKeyKeyword(SearchAttributeLiveness).ValueSet(now),
		temporal.NewSearchAttributeKeyInt64(SearchAttributeWaiting).ValueSet(int64(waiting)),
		temporal.NewSearchAttributeKeyKeyword(SearchAttributePlatform).ValueSet(s.st.Thread.Platform),
	)
	if err != nil {
		workflow.GetLogger(ctx).Error("Search attributes were not set", "error", err)
	}
}
