package workflows

import (
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/countersign/countersign/internal/audit"
)

// maxRejudged is how often a call is judged again because something it binds
// keeps changing.
const maxRejudged = 5

// runCalls brings every call of the step to its end, each as soon as its own
// verdict is in, or to a safe point when the run drains.
func (s *session) runCalls(ctx workflow.Context) {
	t := s.st.Turn
	open := 0
	for _, c := range t.Calls {
		if !c.ended() {
			open++
		}
	}
	if open == 0 {
		return
	}
	if t.needsSandbox() && !s.openSandbox(ctx) {
		return
	}
	for _, c := range t.Calls {
		if c.ended() {
			continue
		}
		s.calls++
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer func() { s.calls-- }()
			s.runCall(ctx, c)
		})
	}
	_ = workflow.Await(ctx, func() bool { return s.calls == 0 || s.wanted })
	if s.lost && !s.wanted {
		// What to do is asked on the way back to an open sandbox.
		s.lost, s.opened = false, false
		s.runCalls(ctx)
		return
	}
	if s.wanted {
		s.drain()
		_ = workflow.Await(ctx, func() bool { return s.calls == 0 })
	}
}

// openSandbox makes sure that the session has its sandbox, once a turn. Where it
// cannot, every open call fails with the reason, and the model is told.
func (s *session) openSandbox(ctx workflow.Context) bool {
	if s.opened {
		return true
	}
	if s.st.Turn.HostAsk != "" {
		return s.awaitHost(ctx) && s.openSandbox(ctx)
	}
	err := s.open(ctx, openAttempts)
	switch {
	case err == nil && s.st.Turn.Stop != nil:
		s.cancelCalls(ctx)
	case err == nil:
		return true
	case notTakenUp(err):
		return s.replaceHost(ctx) && s.openSandbox(ctx)
	default:
		s.sandboxFailed(ctx, err)
	}
	return false
}

// prepare opens the sandbox before the session's first model call, so that the
// model knows from the beginning what it works in and what the workspace's guides
// say. Where that fails the model is asked all the same: it may not need it, and
// its first tool call says what is wrong.
func (s *session) prepare(ctx workflow.Context) {
	t := s.st.Turn
	if s.st.Prepared {
		return
	}
	s.st.Prepared = true
	if s.opened {
		return
	}
	if err := s.open(ctx, prepareAttempts); err != nil {
		workflow.GetLogger(ctx).Warn("Sandbox is not open yet", "error", err)
	}
	var guides []Item
	for i := range t.Guides {
		guides = append(guides, Item{Guide: &t.Guides[i]})
	}
	t.Append, t.Guides = append(guides, t.Append...), nil
}

// open opens the sandbox. A stop ends it, without an error.
func (s *session) open(ctx workflow.Context, attempts int32) error {
	in := OpenInput{
		WorkflowID: s.id, Backend: s.st.Backend, Workspace: s.st.Workspace, Root: s.st.Root,
		Generation: s.st.Gen, Snapshot: s.st.Boundary.Snapshot, Current: s.st.Sandbox,
	}
	queue := TaskQueueSandbox
	if s.st.Sandbox != nil {
		queue, in.Generation = s.st.Sandbox.Queue, s.st.Sandbox.Generation
	} else {
		in.Generation = s.st.Gen + 1
		in.ExecID = s.st.Thread.ID + ".open." + itoa(s.st.Turn.Number)
	}
	s.opening(ctx, in)
	octx, cancel := workflow.WithCancel(s.onHost(openOptions(ctx, queue, attempts), queue))
	defer cancel()
	f := workflow.ExecuteActivity(octx, ActivityOpenSandbox, in)
	_ = workflow.Await(ctx, func() bool { return f.IsReady() || s.st.Turn.Stop != nil })
	var res OpenResult
	if s.st.Turn.Stop != nil {
		s.openingEnded(ctx, in, CallCancelled, nil)
		// What it has made by then is known, and so is removed with the session.
		cancel()
		_, _ = awaitFor(ctx, openCancelWait, f.IsReady)
		if f.IsReady() && f.Get(ctx, &res) == nil {
			s.st.Sandbox, s.st.Gen = &res.SandboxRef, max(s.st.Gen, res.Generation)
		}
		return nil
	}
	if err := f.Get(ctx, &res); err != nil {
		if !notTakenUp(err) {
			s.openingEnded(ctx, in, CallFailed, nil)
		}
		return err
	}
	s.st.Sandbox, s.st.Gen, s.opened = &res.SandboxRef, max(s.st.Gen, res.Generation), true
	s.back()
	s.st.Turn.Opened = true
	s.openingEnded(ctx, in, CallCompleted, res.Setup)
	s.guides(res.Guides)
	s.header()
	return nil
}

// toolSandbox is the tool of the turn card's lines about the sandbox itself.
const toolSandbox = "sandbox"

// opening shows on the card that a new sandbox is made, where that may take long:
// an image is pulled, a workspace filled and set up.
func (s *session) opening(ctx workflow.Context, in OpenInput) {
	if in.ExecID == "" || in.Backend == "local" && in.Workspace == "" {
		return
	}
	what := "Prepare the sandbox: " + in.Backend
	if in.Workspace != "" {
		what += ", workspace " + in.Workspace
	}
	t := s.st.Turn
	if v := s.openingView(in); v != nil {
		v.State, v.StartedAt, v.EndedAt, v.ExecID = CallRunning, workflow.Now(ctx), time.Time{}, in.ExecID
	} else {
		t.Card.Calls = append(t.Card.Calls, CallView{})
		// Before the calls that wait for it.
		at := len(t.Card.Calls) - 1
		for ; at > 0 && t.Card.Calls[at-1].State == CallPending; at-- {
			t.Card.Calls[at] = t.Card.Calls[at-1]
		}
		t.Card.Calls[at] = CallView{ID: in.ExecID, Tool: toolSandbox, Command: what, State: CallRunning, StartedAt: workflow.Now(ctx), ExecID: in.ExecID}
	}
	s.cardChanged()
}

func (s *session) openingView(in OpenInput) *CallView {
	calls := s.st.Turn.Card.Calls
	for i := range calls {
		if in.ExecID != "" && calls[i].ID == in.ExecID {
			return &calls[i]
		}
	}
	return nil
}

// openingEnded shows how it ended, and the set-up commands that were run.
func (s *session) openingEnded(ctx workflow.Context, in OpenInput, state string, setup []SetupRun) {
	v := s.openingView(in)
	if v == nil {
		return
	}
	v.State, v.EndedAt, v.Tail, v.ExecID = state, workflow.Now(ctx), "", ""
	calls := s.st.Turn.Card.Calls
	at := slices.IndexFunc(calls, func(c CallView) bool { return c.ID == in.ExecID }) + 1
	if over := len(setup) - maxShownCalls/2; over > 0 {
		setup = setup[over:]
	}
	for _, run := range setup {
		code := run.ExitCode
		calls = slices.Insert(calls, at, CallView{
			ID: run.ExecID, Tool: toolSandbox, Command: run.Command, State: CallCompleted, ExitCode: &code,
			StartedAt: run.StartedAt, EndedAt: run.EndedAt, ExecID: run.ExecID, Note: "set-up",
		})
		at++
	}
	s.st.Turn.Card.Calls = calls
	s.cardChanged()
}

// guides notes what of the workspace's guides is new to the model: it gets that
// with the outputs of the step.
func (s *session) guides(found []Guide) {
	for i := range found {
		g := found[i]
		if s.st.Guides[g.Path] == g.Digest {
			continue
		}
		if s.st.Guides == nil {
			s.st.Guides = map[string]string{}
		}
		s.st.Guides[g.Path] = g.Digest
		s.st.Turn.Guides = append(s.st.Turn.Guides, g)
	}
}

// giveUp answers every open call, whose sandbox is not there, with why.
func (s *session) giveUp(ctx workflow.Context, why string) {
	for _, c := range s.st.Turn.Calls {
		switch {
		case c.ended():
		case c.begun():
			s.lostWith(ctx, c, why)
		default:
			s.finish(ctx, c, CallFailed, why, modelText("failed", why))
		}
	}
	s.collect()
}

func (s *session) sandboxFailed(ctx workflow.Context, err error) {
	sentence := sentenceOf(err)
	hint := "The session and its files are safe. Send a message to try again."
	if isErrType(err, ErrTypeSandboxGone) {
		hint = "What was saved at the last turn's end is safe: `fork` opens it in a new thread."
	}
	s.giveUp(ctx, sentence)
	s.failed(ctx, sentence, hint)
}

// cancelCalls answers every open call that a stop came before, and stops those that
// had begun.
func (s *session) cancelCalls(ctx workflow.Context) {
	for _, c := range s.st.Turn.Calls {
		switch {
		case c.ended():
		case c.begun() && s.st.Sandbox == nil:
			s.lostWith(ctx, c, hostSentence) // which the session has left
		case c.begun():
			s.runCall(ctx, c)
		default:
			s.cancelCall(ctx, c)
		}
	}
}

// ask runs one of the gate's activities until it ends, or until it is not wanted
// any more: then it is given up, which is an error. What is away is waited for, and
// the thread says so; a run that drains leaves that to the next one.
func (s *session) ask(ctx workflow.Context, queue, name string, in, out any, wanted func() bool) error {
	err := s.askOnce(ctx, queue, name, in, out, gateAttempts, wanted)
	if outOfAttempts(err) && wanted() {
		s.away(ctx, err)
		err = s.askOnce(ctx, queue, name, in, out, 0, func() bool { return wanted() && !s.draining })
	}
	if err == nil {
		s.back()
	}
	return err
}

func (s *session) askOnce(ctx workflow.Context, queue, name string, in, out any, attempts int32, wanted func() bool) error {
	actx, cancel := workflow.WithCancel(s.onHost(gateOptions(ctx, queue, attempts), queue))
	defer cancel()
	f := workflow.ExecuteActivity(actx, name, in)
	_ = workflow.Await(ctx, func() bool { return f.IsReady() || !wanted() })
	if !f.IsReady() {
		cancel()
	}
	return f.Get(ctx, out)
}

func (s *session) notStopped() bool { return s.st.Turn != nil && s.st.Turn.Stop == nil }

// runCall is one call's way: judged, perhaps held for approval, run.
func (s *session) runCall(ctx workflow.Context, c *Call) {
	for s.inOrder(ctx, c); !c.ended() && !s.draining && !s.lost; {
		if s.st.Turn.Stop != nil && c.State != CallRunning {
			s.cancelCall(ctx, c)
			return
		}
		switch c.State {
		case CallPending:
			s.judge(ctx, c)
		case CallAwaiting:
			s.await(ctx, c)
		case CallRunning:
			if c.MCP != nil {
				s.runMCP(ctx, c)
			} else {
				s.runTool(ctx, c)
			}
		}
	}
}

// cancelCall answers a call that a stop came before.
func (s *session) cancelCall(ctx workflow.Context, c *Call) {
	if a := s.pending(c.Approval); a != nil {
		s.settle(ctx, a, ApprovalWithdrawn, s.st.Turn.Stop.By)
	}
	s.finish(ctx, c, CallCancelled, "", modelText("cancelled", "stopped by "+s.st.Turn.Stop.By.Label()+" before it ran"))
	s.step(ctx)
}

// maxInlineStep bounds the outputs of one step's calls that are carried inline, in
// bytes, and likewise the commands: a turn of many calls at once must stay, with
// both, below the 2 MiB that an activity's and a run's input may have.
const maxInlineStep = 256 << 10

// inline is each call's share; 0 where they are so few that each may have all.
func (t *Turn) inline() int {
	if share := maxInlineStep / max(len(t.Calls), 1); share < MaxInlineText {
		return share
	}
	return 0
}

// judge asks the gate. Nothing acts before its verdict is in history.
func (s *session) judge(ctx workflow.Context, c *Call) {
	if c.Bad != "" {
		s.finish(ctx, c, CallFailed, c.Bad, modelText("failed", c.Bad))
		s.step(ctx)
		return
	}
	if why := s.refuseTalk(c); why != "" {
		s.finish(ctx, c, CallFailed, why, modelText("failed", why))
		s.step(ctx)
		return
	}
	queue, sb, judge, _ := s.gate(c)
	in := JudgeInput{WorkflowID: s.id, Sandbox: sb, Call: c.ToolCall, Running: s.ref(c), Channel: s.st.Thread.Channel, Inline: s.st.Turn.inline()}
	j, err := askHere(ctx, sb, s.here.JudgeHere, in), error(nil)
	if j == nil {
		j = &Judgement{}
		err = s.ask(ctx, queue, judge, in, j, s.notStopped)
	}
	if !s.notStopped() {
		return
	}
	if notTakenUp(err) {
		s.hostLost(ctx) // it is judged again, there or elsewhere
		return
	}
	if s.draining && temporal.IsCanceledError(err) {
		return // likewise, by the next run
	}
	if err != nil {
		sentence := sentenceOf(err)
		s.finish(ctx, c, CallFailed, sentence, modelText("failed", sentence))
		s.step(ctx)
		return
	}
	c.Judgement = j
	s.auditCall(ctx, audit.KindJudged, c, audit.Entry{Command: cutText(j.Command.Text, MaxShownCommand), Whole: j.Stored, Reasons: j.Reasons, Text: j.Bad})
	s.judged(ctx, c)
}

func (s *session) judged(ctx workflow.Context, c *Call) {
	j := c.Judgement
	switch {
	case j.To != "":
		s.callView(c).Command = cutText("to "+c.Session+": "+j.Command.Text, MaxShownCommand)
	case j.Command.Text != "":
		s.callView(c).Command = cutText(j.Command.Text, MaxShownCommand)
	}
	switch {
	case j.Bad != "":
		s.finish(ctx, c, CallFailed, j.Bad, modelText("failed", j.Bad))
		s.step(ctx)
	case j.Tier == "safe" || j.Tier == "write":
		s.start(ctx, c)
	case j.Tier != "risky" && j.Tier != "critical":
		why := "by policy: " + strings.Join(j.Why(), "; ")
		s.finish(ctx, c, CallDenied, why, modelText("denied", why+". This is never allowed; do not try again in another form."))
		s.step(ctx)
	case s.granted(ctx, j) != nil:
		g := s.granted(ctx, j)
		s.audit(ctx, audit.Entry{Kind: audit.KindGranted, ToolCall: c.ID, Digest: j.Digest, Actor: g.By.ID, Text: "runs by " + g.ID})
		s.callView(c).Note = "allowed by " + g.By.Label() + " until " + g.Until.UTC().Format("15:04 UTC")
		s.start(ctx, c)
	case len(j.Rule.Approvers) == 0:
		why := "this needs an approval, and nobody may give one: no approvers are set (approvals.approvers)"
		s.finish(ctx, c, CallDenied, why, modelText("denied", why))
		s.step(ctx)
	default:
		s.request(ctx, c)
	}
}

// start marks a call as running; the exec begins with the activity.
func (s *session) start(ctx workflow.Context, c *Call) {
	c.State = CallRunning
	s.auditCall(ctx, audit.KindExecStarted, c, audit.Entry{Exec: c.execID()})
	v := s.callView(c)
	v.State, v.StartedAt, v.ExecID = CallRunning, workflow.Now(ctx), c.execID()
	s.cardSoon(ctx)
}

// runTool runs the call's exec, or attaches to it, until it ends, a stop ends
// it, or the run drains: then the exec is left running for the next run.
func (s *session) runTool(ctx workflow.Context, c *Call) {
	sb, j := *s.st.Sandbox, c.Judgement
	if c.Started && c.On != 0 && c.On != sb.Generation {
		s.lostWith(ctx, c, "The sandbox that it began in is gone.")
		return
	}
	c.On = sb.Generation
	in := RunInput{
		WorkflowID: s.id, Sandbox: sb, Call: c.ToolCall, ExecID: c.execID(),
		Digest: j.Digest, Timeout: j.Timeout, Attach: c.Started, Running: s.ref(c), Inline: s.st.Turn.inline(),
	}
	yields := c.Tool == ToolShell && c.Yield > 0 && !c.Yielded
	if yields && c.YieldAt.IsZero() {
		c.YieldAt = workflow.Now(ctx).Add(c.Yield)
	}
	c.Started = true
	s.st.Turn.Wrote = s.st.Turn.Wrote || j.Tier != "safe"
	rctx, cancel := workflow.WithCancel(s.onHost(runOptions(ctx, sb.Queue, j.Timeout, c.patience.attempts()), sb.Queue))
	f := workflow.ExecuteActivity(rctx, ActivityRunTool, in)
	stop := func() bool { return s.st.Turn.Stop != nil }
	done := func() bool { return f.IsReady() || s.draining || stop() }
	if !yields {
		_ = workflow.Await(ctx, done)
	} else if ok, _ := awaitFor(ctx, max(time.Millisecond, c.YieldAt.Sub(workflow.Now(ctx))), done); !ok {
		s.toBackground(ctx, c, f, cancel)
		return // what it has printed is read next
	}
	defer cancel()
	signalled := !f.IsReady() && stop()
	if signalled {
		s.stopExec(ctx, c, f)
	}
	if !f.IsReady() {
		if !s.draining {
			s.unknown(ctx, c, unheardText)
		}
		return
	}
	var res ToolResult
	switch err := f.Get(ctx, &res); {
	case stop() && (notTakenUp(err) || outOfAttempts(err)):
		if !signalled {
			s.stopLate(ctx, sb, c.execID(), j.Timeout)
		}
		s.unknown(ctx, c, unheardText)
	case notTakenUp(err):
		if s.hostLost(ctx) {
			s.lostWith(ctx, c, hostSentence)
		} // else it is attached to when the host has time for it
	case outOfAttempts(err):
		// Likewise, when the sandbox answers.
		s.waitFor(ctx, err, &c.patience, func() bool { return s.notStopped() && !s.draining })
	case err != nil:
		s.unknown(ctx, c, sentenceOf(err))
	default:
		s.back()
		s.ran(ctx, c, res)
	}
}

const unheardText = "The worker did not answer the stop. The command may still be running; it is ended when the worker is back."

// lostWith ends a call that had started when its sandbox was lost, and says why.
func (s *session) lostWith(ctx workflow.Context, c *Call, why string) {
	if why += " The command may have run."; c.Yielded {
		s.yielded(ctx, c, ToolResult{State: CallUnknown, Error: why})
	} else {
		s.finish(ctx, c, CallUnknown, why, modelText("unknown", why))
		s.step(ctx)
	}
}

// stopExec ends the exec's process group and waits for the activity to say so.
func (s *session) stopExec(ctx workflow.Context, c *Call, f workflow.Future) {
	if c.Tool == ToolWriteStdin || c.Yielded {
		// The command itself is ended with all that runs in the background.
		_, _ = awaitFor(ctx, 10*time.Second, f.IsReady)
		return
	}
	why := "stop"
	if s.st.Destroy != nil {
		why = "destroy"
	}
	if s.signal(ctx, *s.st.Sandbox, c.execID(), why, c.Judgement.Timeout) {
		_, _ = awaitFor(ctx, 10*time.Second, f.IsReady)
	}
}

// signal ends an exec's process group and reports whether that was heard. A host
// that does not answer gets word of it when it is back.
func (s *session) signal(ctx workflow.Context, sb SandboxRef, execID, why string, timeout time.Duration) bool {
	err := workflow.ExecuteActivity(s.promptly(stopOptions(ctx, sb.Queue), sb.Queue), ActivitySignalExec, SignalExecInput{
		WorkflowID: s.id, Sandbox: sb, ExecID: execID, Why: why,
	}).Get(ctx, nil)
	if err == nil {
		return true
	}
	workflow.GetLogger(ctx).Warn("Exec was not signalled", "exec_id", execID, "error", err)
	s.missing(err)
	s.stopLate(ctx, sb, execID, timeout)
	return false
}

// ran takes an exec's result.
func (s *session) ran(ctx workflow.Context, c *Call, res ToolResult) {
	if c.Yielded {
		s.yielded(ctx, c, res)
		return
	}
	switch res.State {
	case ResultChanged:
		s.rejudge(ctx, c, res.Error)
		return
	case CallUnknown:
		s.unknown(ctx, c, res.Error)
		return
	}
	if b := s.background(c.Session); b != nil && c.Tool == ToolWriteStdin && res.State == CallCompleted {
		b.heard(res)
	}
	if c.Tool == ToolShell && res.State != CallFailed {
		s.st.Stats.Commands++
		s.st.Turn.Card.Commands++
	}
	out := res.Output
	res.Output = TextRef{} // it is the call's
	c.Result = &res
	v := s.callView(c)
	v.ExitCode, v.Tail = res.ExitCode, res.Tail
	if !res.StartedAt.IsZero() {
		v.StartedAt = res.StartedAt
	}
	note := res.Error
	if c.EditedBy != nil {
		note = strings.TrimSpace("changed by " + c.EditedBy.Label() + " " + note)
	}
	if res.TimedOut {
		note = "timed out after " + Duration(c.Judgement.Timeout)
	}
	s.finish(ctx, c, res.State, note, out)
	if !res.EndedAt.IsZero() {
		v.EndedAt = res.EndedAt
	}
	s.approvedEnded(c)
	s.step(ctx)
}

// rejudge voids the verdict of a call whose binding has changed: it is judged
// again, and asks again where it still must.
func (s *session) rejudge(ctx workflow.Context, c *Call, what string) {
	if p := s.approvalPost(c.Approval); p != nil && p.View.Approval.State == ApprovalApproved {
		p.View.Approval.State = ApprovalChanged
		s.changed(p)
		for i := range s.st.Decided {
			if s.st.Decided[i].ID == c.Approval {
				s.st.Decided[i].State = ApprovalChanged
			}
		}
	}
	c.Rejudged++
	if c.Rejudged >= maxRejudged {
		why := "not run: what it depends on keeps changing (" + what + ")"
		s.finish(ctx, c, CallFailed, why, modelText("failed", why))
		s.step(ctx)
		return
	}
	c.State, c.Judgement, c.Approval, c.Started, c.YieldAt = CallPending, nil, "", false, time.Time{}
	c.Attempt++
	v := s.callView(c)
	v.State, v.ExecID, v.StartedAt = CallPending, "", time.Time{}
	s.cardChanged()
}

// unknown: the exec may have run. A person is asked before anything runs again;
// after a stop there is nothing to ask.
func (s *session) unknown(ctx workflow.Context, c *Call, why string) {
	s.mayHaveSent(c)
	if c.Yielded {
		s.yielded(ctx, c, ToolResult{State: CallUnknown, Error: why})
		return
	}
	if s.st.Turn.Stop != nil {
		s.finish(ctx, c, CallUnknown, why, modelText("unknown", why))
		s.step(ctx)
		return
	}
	s.requestUnknown(ctx, c, why)
}

// mayHaveSent notes that a running command has got text that people had to allow,
// or a part of it: whatever the call came to.
func (s *session) mayHaveSent(c *Call) {
	b, j := s.background(c.Session), c.Judgement
	if b != nil && j != nil && c.Tool == ToolWriteStdin && c.Started && j.Tier != "safe" && j.Tier != "write" {
		b.Asked = true
	}
}

// finish ends a call with its output for the model.
func (s *session) finish(ctx workflow.Context, c *Call, state, note string, out TextRef) {
	s.mayHaveSent(c)
	c.State, c.Output = state, out
	// The turn's end, which writes the record, may be hours away.
	s.flush = s.flush || len(s.st.Pending) > 0
	s.auditCall(ctx, audit.KindExecEnded, c, c.ending(state, note))
	v := s.callView(c)
	v.State, v.Note, v.EndedAt = state, cutText(note, maxShort), workflow.Now(ctx)
	s.cardChanged()
	s.liveness(ctx)
}

// ending is the audit entry about a call's end.
func (c *Call) ending(state, note string) audit.Entry {
	e := audit.Entry{Outcome: state, Text: cutText(note, maxShort)}
	if c.Judgement == nil {
		e.Command = cutText(c.Shown, MaxShownCommand) // nothing else on record says what it was
	}
	if r := c.Result; r != nil {
		e.ExitCode, e.Millis = r.ExitCode, r.EndedAt.Sub(r.StartedAt).Milliseconds()
	}
	return e
}

// callView finds the call on the turn card; one that was folded away gets a
// view that nobody sees.
func (s *session) callView(c *Call) *CallView {
	card := &s.st.Turn.Card
	for i := range card.Calls {
		if card.Calls[i].ID == c.ID {
			return &card.Calls[i]
		}
	}
	return &CallView{}
}

// modelText is the output of a call that did not run to its end.
func modelText(state, why string) TextRef {
	text := "state: " + state
	if why != "" {
		text += " — " + why
	}
	text = cutText(text, MaxInlineText)
	return TextRef{Text: text, Bytes: len(text)}
}
