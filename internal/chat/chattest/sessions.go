package chattest

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/countersign/countersign/internal/workflows"
)

// Sessions stands in for Temporal where a test is about a chat's side only: it
// records what it is asked and answers what the test has set. The zero value
// knows no session. It is safe for concurrent use.
type Sessions struct {
	mu    sync.Mutex
	calls []Call
	// Fail, when it returns an error for a call, is what the call gives.
	Fail func(Call) error
	// Answer is the outcome of updates; empty is "recorded".
	Answer workflows.Outcome
	State  map[string]workflows.TurnState
	Past   workflows.History
	Rows   []workflows.SessionRow
	Forked workflows.SessionResult
	Views  map[string]workflows.MessageView // by key
	Execs  map[string]workflows.ExecProgress
	Says   workflows.ModelProgress
	Calls  map[string]workflows.ToolCallInfo
	Trails map[int]workflows.TurnTrail // by turn
}

// Call is one thing that was asked: which method, of which workflow, with what.
type Call struct {
	Method, ID string
	UpdateID   string
	Arg        any
}

func (s *Sessions) record(c Call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Fail != nil {
		if err := s.Fail(c); err != nil {
			return err
		}
	}
	s.calls = append(s.calls, c)
	return nil
}

// Asked returns the calls of a method that were taken, in order; of all methods
// when it is empty.
func (s *Sessions) Asked(method string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Call
	for _, c := range s.calls {
		if method == "" || c.Method == method {
			out = append(out, c)
		}
	}
	return out
}

// SetView sets what a message should show.
func (s *Sessions) SetView(v workflows.MessageView) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Views == nil {
		s.Views = map[string]workflows.MessageView{}
	}
	s.Views[v.Key] = v
}

// SetTail sets the live tail of an exec.
func (s *Sessions) SetTail(exec, tail string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Execs == nil {
		s.Execs = map[string]workflows.ExecProgress{}
	}
	s.Execs[exec] = workflows.ExecProgress{ExecID: exec, Tail: tail}
}

// RequestSession implements [chat.Signals].
func (s *Sessions) RequestSession(_ context.Context, r workflows.SessionRequest) error {
	return s.record(Call{Method: "RequestSession", ID: r.Thread.ManagerID(), Arg: r})
}

// SendMessage implements [chat.Signals].
func (s *Sessions) SendMessage(_ context.Context, id string, m workflows.Message) error {
	return s.record(Call{Method: "SendMessage", ID: id, Arg: m})
}

// SetTitle implements [chat.Signals].
func (s *Sessions) SetTitle(_ context.Context, id string, t workflows.SetTitle) error {
	return s.record(Call{Method: "SetTitle", ID: id, Arg: t})
}

func (s *Sessions) update(c Call) (workflows.Outcome, error) {
	if err := s.record(c); err != nil {
		return workflows.Outcome{}, err
	}
	if s.Answer.Outcome == "" {
		return workflows.Outcome{Outcome: workflows.OutcomeRecorded, Text: "Recorded."}, nil
	}
	return s.Answer, nil
}

// Decide implements [chat.Updates].
func (s *Sessions) Decide(_ context.Context, id string, d workflows.Decision) (workflows.Outcome, error) {
	return s.update(Call{Method: "Decide", ID: id, Arg: d})
}

// CancelTurn implements [chat.Updates].
func (s *Sessions) CancelTurn(_ context.Context, id string, c workflows.CancelTurn, updateID string) (workflows.Outcome, error) {
	return s.update(Call{"CancelTurn", id, updateID, c})
}

// Pause implements [chat.Updates].
func (s *Sessions) Pause(_ context.Context, id string, p workflows.Pause, updateID string) (workflows.Outcome, error) {
	return s.update(Call{"Pause", id, updateID, p})
}

// SetModel implements [chat.Updates].
func (s *Sessions) SetModel(_ context.Context, id string, m workflows.SetModel, updateID string) (workflows.Outcome, error) {
	return s.update(Call{"SetModel", id, updateID, m})
}

// SendFiles implements [chat.Updates].
func (s *Sessions) SendFiles(_ context.Context, id string, f workflows.SendFiles, updateID string) (workflows.Outcome, error) {
	return s.update(Call{"SendFiles", id, updateID, f})
}

// RevokeGrant implements [chat.Updates].
func (s *Sessions) RevokeGrant(_ context.Context, id string, r workflows.RevokeGrant, updateID string) (workflows.Outcome, error) {
	return s.update(Call{"RevokeGrant", id, updateID, r})
}

// SwitchBackend implements [chat.Manager].
func (s *Sessions) SwitchBackend(_ context.Context, id string, b workflows.SwitchSession, updateID string) (workflows.Outcome, error) {
	return s.update(Call{"SwitchBackend", id, updateID, b})
}

// Destroy implements [chat.Manager].
func (s *Sessions) Destroy(_ context.Context, id string, d workflows.DestroySession, updateID string) (workflows.Outcome, error) {
	return s.update(Call{"Destroy", id, updateID, d})
}

// Fork implements [chat.Manager]: it gives Forked, or a session in the thread
// that was asked for.
func (s *Sessions) Fork(_ context.Context, id string, f workflows.ForkSession) (workflows.SessionResult, error) {
	if err := s.record(Call{Method: "Fork", ID: id, Arg: f}); err != nil {
		return workflows.SessionResult{}, err
	}
	if s.Forked.Outcome.Outcome != "" {
		return s.Forked, nil
	}
	return workflows.SessionResult{
		Outcome:    workflows.Outcome{Outcome: workflows.OutcomeRecorded},
		WorkflowID: f.Thread.WorkflowID(), Thread: f.Thread,
	}, nil
}

// List implements [chat.Manager].
func (s *Sessions) List(_ context.Context, id string, l workflows.ListSessions) (workflows.SessionList, error) {
	err := s.record(Call{Method: "List", ID: id, Arg: l})
	return workflows.SessionList{Sessions: s.Rows}, err
}

// TurnState implements [chat.Queries].
func (s *Sessions) TurnState(_ context.Context, id string) (workflows.TurnState, error) {
	if err := s.record(Call{Method: "TurnState", ID: id}); err != nil {
		return workflows.TurnState{}, err
	}
	st, ok := s.State[id]
	if !ok {
		return st, workflows.ErrNoSession
	}
	return st, nil
}

// History implements [chat.Queries].
func (s *Sessions) History(_ context.Context, id string) (workflows.History, error) {
	return s.Past, s.record(Call{Method: "History", ID: id})
}

// Message implements [chat.Views].
func (s *Sessions) Message(_ context.Context, id, key string) (workflows.MessageView, error) {
	if err := s.record(Call{Method: "Message", ID: id, Arg: key}); err != nil {
		return workflows.MessageView{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.Views[key]
	if !ok {
		return v, fmt.Errorf("no message %s: %w", key, workflows.ErrNoSession)
	}
	return v, nil
}

// Tails implements [chat.Views].
func (s *Sessions) Tails(_ context.Context, id string) (workflows.Tails, error) {
	if err := s.record(Call{Method: "Tails", ID: id}); err != nil {
		return workflows.Tails{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return workflows.Tails{Execs: maps.Clone(s.Execs), Model: s.Says}, nil
}

// TurnTrail implements [chat.Queries].
func (s *Sessions) TurnTrail(_ context.Context, id string, turn int) (workflows.TurnTrail, error) {
	if err := s.record(Call{Method: "TurnTrail", ID: id, Arg: turn}); err != nil {
		return workflows.TurnTrail{}, err
	}
	trail, ok := s.Trails[turn]
	if !ok {
		return trail, workflows.ErrNoSession
	}
	return trail, nil
}

// ToolCall answers a running tool call by its ID.
func (s *Sessions) ToolCall(_ context.Context, id, call string) (workflows.ToolCallInfo, error) {
	if err := s.record(Call{Method: "ToolCall", ID: id, Arg: call}); err != nil {
		return workflows.ToolCallInfo{}, err
	}
	info, ok := s.Calls[call]
	if !ok {
		return info, workflows.ErrNoSession
	}
	return info, nil
}
