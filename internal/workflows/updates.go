package workflows

import (
	"errors"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/countersign/countersign/internal/audit"
)

// errDraining rejects an update while the run drains for continue-as-new; the
// bot sends it, with the same update ID, to the next run.
var errDraining = errors.New("draining")

// IsDraining reports whether an update was rejected because the run is about to
// continue as new, given the rejection's message.
func IsDraining(message string) bool { return strings.Contains(message, errDraining.Error()) }

// handlers registers updates and queries.
func (s *session) handlers(ctx workflow.Context) error {
	return errors.Join(
		onUpdate(ctx, UpdateDecideApproval, s.validDecision, s.decide),
		onUpdate(ctx, UpdateCancelTurn, func(_ workflow.Context, c CancelTurn) error { return s.valid(c.By) }, once(s, s.cancelTurn)),
		onUpdate(ctx, UpdatePause, func(_ workflow.Context, p Pause) error { return s.valid(p.By) }, once(s, s.requestPause)),
		onUpdate(ctx, UpdateSetModel, func(_ workflow.Context, m SetModel) error { return s.valid(m.By) }, once(s, s.setModel)),
		onUpdate(ctx, UpdateSwitchBackend, func(_ workflow.Context, b SwitchBackend) error { return s.valid(b.By) }, once(s, s.switchBackend)),
		onUpdate(ctx, UpdateRevokeGrant, func(_ workflow.Context, r RevokeGrant) error { return s.valid(r.By) }, once(s, s.revokeGrant)),
		onUpdate(ctx, UpdateSendFiles, func(_ workflow.Context, f SendFiles) error { return s.valid(f.By) }, once(s, s.sendFiles)),
		workflow.SetQueryHandler(ctx, QueryTurnState, s.turnState),
		workflow.SetQueryHandler(ctx, QueryHistory, func() (History, error) {
			return History{Turns: s.st.Recent, Transcript: s.st.Boundary.Transcript}, nil
		}),
		workflow.SetQueryHandler(ctx, QuerySnapshot, func() (Boundary, error) { return s.boundary(), nil }),
		workflow.SetQueryHandler(ctx, QuerySnapshotID, func() (string, error) { return s.st.Boundary.Snapshot, nil }),
		workflow.SetQueryHandler(ctx, QueryIsPaused, func() (bool, error) { return s.st.Paused, nil }),
		workflow.SetQueryHandler(ctx, QueryMessage, s.message),
		workflow.SetQueryHandler(ctx, QueryToolCall, s.toolCall),
		workflow.SetQueryHandler(ctx, QueryTurnTrail, s.turnTrail),
		workflow.SetQueryHandler(ctx, QueryNeeds, s.needs),
		workflow.SetQueryHandler(ctx, QueryStanding, s.standing),
		workflow.SetQueryHandler(ctx, QueryAuditHead, func() (AuditHead, error) {
			return AuditHead{Chain: s.st.Audit, Unwritten: len(s.st.Unwritten)}, nil
		}),
	)
}

func onUpdate[A any](ctx workflow.Context, name string, valid func(workflow.Context, A) error, handle func(workflow.Context, A) (Outcome, error)) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, name, handle, workflow.UpdateHandlerOptions{Validator: valid})
}

// maxAnswered is how many updates' answers a session remembers: whoever sends one
// again has not had its answer, which is a matter of seconds.
const maxAnswered = 20

// once gives an update that is sent again its first answer. The server does so
// within a run; this does it across runs.
func once[A any](s *session, handle func(workflow.Context, A) (Outcome, error)) func(workflow.Context, A) (Outcome, error) {
	return func(ctx workflow.Context, a A) (Outcome, error) {
		id := workflow.GetCurrentUpdateInfo(ctx).ID
		for _, answered := range s.st.Answered {
			if answered.UpdateID == id {
				return answered.Outcome, nil
			}
		}
		out, err := handle(ctx, a)
		if err == nil {
			s.st.Answered = append(s.st.Answered, Answered{id, out})
			s.st.Answered = s.st.Answered[max(0, len(s.st.Answered)-maxAnswered):]
		}
		return out, err
	}
}

func (s *session) valid(by Actor) error {
	if s.draining {
		return errDraining
	}
	if by.ID == "" {
		return errors.New("who asks is missing")
	}
	return nil
}

// cancelTurn ends the running turn at once.
func (s *session) cancelTurn(ctx workflow.Context, c CancelTurn) (Outcome, error) {
	t := s.st.Turn
	switch {
	case s.stopsBackground(ctx, c):
		return Outcome{OutcomeRecorded, "Ended what ran in the background."}, nil
	case t == nil || t.Card.State != TurnWorking:
		return Outcome{OutcomeRefused, "No turn is running."}, nil
	case c.Turn != 0 && c.Turn != t.Number:
		return Outcome{OutcomeRefused, "That turn has ended."}, nil
	case t.Stop != nil:
		return Outcome{OutcomeRecorded, t.Stop.By.Label() + " has stopped this already."}, nil
	}
	s.stop(ctx, c)
	return Outcome{OutcomeRecorded, "Stopped."}, nil
}

// stopsBackground ends what a turn that is over has left in the background: of
// the turn that is named or, where none runs, of all.
func (s *session) stopsBackground(ctx workflow.Context, c CancelTurn) bool {
	if t := s.st.Turn; t != nil && (c.Turn == 0 || c.Turn == t.Number) {
		return false
	}
	return len(s.endBackground(ctx, c.Turn, "stopped by "+c.By.Label())) > 0
}

// stop ends the running turn, and with it all that runs in the background.
func (s *session) stop(ctx workflow.Context, c CancelTurn) {
	c.At = workflow.Now(ctx)
	s.st.Turn.Stop = &c
	s.endBackground(ctx, 0, "stopped by "+c.By.Label())
	s.audit(ctx, audit.Entry{Kind: audit.KindStopped, Actor: c.By.ID, Outcome: "turn " + itoa(s.st.Turn.Number)})
	s.flush = true
	if s.cancelModel != nil {
		s.cancelModel()
	}
	s.step(ctx)
}

// requestPause asks for the sandbox's release at the turn's boundary.
func (s *session) requestPause(_ workflow.Context, p Pause) (Outcome, error) {
	if s.st.Destroy != nil {
		return Outcome{OutcomeRefused, "This session is being destroyed."}, nil
	}
	if s.st.Paused {
		return Outcome{OutcomeRecorded, "Paused already. The next message resumes it."}, nil
	}
	s.st.PauseBy = &p.By
	switch {
	case s.waiting() > 0:
		return Outcome{OutcomeRecorded, "It pauses when the messages that wait have been answered."}, nil
	case s.st.Turn != nil:
		return Outcome{OutcomeRecorded, "It pauses when this turn has ended."}, nil
	}
	return Outcome{OutcomeRecorded, "Pausing. The next message resumes it."}, nil
}

func (s *session) setModel(ctx workflow.Context, m SetModel) (Outcome, error) {
	name := strings.TrimSpace(m.Model)
	if name == "" || len(name) > 100 || strings.ContainsAny(name, " \t\n") {
		return Outcome{OutcomeRefused, "Name one model, such as `model gpt-5.6-mini`."}, nil
	}
	s.st.Model = name
	s.header()
	s.step(ctx)
	text := "From the next turn on: " + name + "."
	if s.set.OnlyModel && name != s.set.Model {
		text += " No key is set on the worker, so until then the " + s.set.Model + " model answers."
	}
	return Outcome{OutcomeRecorded, text}, nil
}

func (s *session) turnState() (TurnState, error) {
	st := TurnState{WorkflowID: s.id, Queued: s.waiting(), Turns: s.st.Turns, Sandbox: s.st.Sandbox, StartedAt: s.st.StartedAt, Grants: s.st.Grants, Work: s.st.Work}
	if p := s.post(HeaderKey); p != nil && p.View.Header != nil {
		st.Header = *p.View.Header
	}
	if s.st.Turn != nil {
		card := s.st.Turn.Card
		st.Turn = &card
	}
	for _, a := range s.st.Pending {
		st.Approvals = append(st.Approvals, a.ID)
	}
	return st, nil
}

// boundary is what a fork copies.
func (s *session) boundary() Boundary {
	b := s.st.Boundary
	b.WorkflowID, b.Title, b.Backend = s.id, s.st.Title, s.st.Backend
	b.Workspace, b.Model = s.st.Workspace, s.st.Model
	return b
}

// turnTrail answers [QueryTurnTrail].
func (s *session) turnTrail(turn int) (TurnTrail, error) {
	trail := TurnTrail{Head: s.st.Audit.Seq, Unwritten: s.st.Unwritten}
	if t := s.st.Turn; t != nil && t.Number == turn {
		trail.Running = &t.Card
	}
	return trail, nil
}

func (s *session) toolCall(id string) (ToolCallInfo, error) {
	if t := s.st.Turn; t != nil {
		for _, c := range t.Calls {
			if c.ID == id {
				return ToolCallInfo{ID: id, ExecID: c.execID(), Ended: c.ended() && !c.Yielded}, nil
			}
		}
	}
	for _, b := range s.st.Background {
		if b.CallID == id {
			return ToolCallInfo{ID: id, ExecID: b.ExecID, Ended: !b.running()}, nil
		}
	}
	return ToolCallInfo{}, errors.New("no tool call " + id + " is running")
}
