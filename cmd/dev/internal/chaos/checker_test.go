package chaos

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/audit"
	"github.com/countersign/countersign/internal/workflows"
)

// sound is evidence of one session in which ada's message led to one approved
// command.
func sound(t *testing.T) *evidence {
	t.Helper()
	zero := 0
	header := workflows.HeaderView{Title: "a task", Backend: "local", Liveness: "active"}
	shown, err := json.Marshal(header)
	require.NoError(t, err)
	id := "agent/web/main/7"
	command := note("tok_1_1_", "one")
	return &evidence{
		Said:     []said{{Thread: "7", MessageID: "7", By: "ada", Token: "tok_1_1_", Text: "`" + command + "`", At: time.Unix(1, 0), Accepted: true, Commands: []string{"one"}}},
		Clicks:   []decided{{Thread: "7", Message: "9", Approval: "7.a1", Button: "approve", By: "grace", Outcome: "recorded"}},
		Journals: []witnessed{{Host: "h", WorkflowID: id, Generation: 1, Lines: []line{{"tok_1_1_", "one", "7.1.1.x1"}}}},
		Boxes:    []box{{"h", id, 1}},
		Sessions: map[string]*session{"7": {
			Thread: thread{ID: "7", WorkflowID: id, Liveness: "active", Messages: []message{
				{ID: "7", Kind: "user", Text: command},
				{ID: "8", Key: "header", Kind: "header", Header: shown},
				{ID: "10", Key: "turn-1", Kind: "turn", Turn: &turn{Number: 1, State: "done"}, ToolCalls: []toolCall{{ID: "7.1.1", Command: command, State: "completed", ExitCode: &zero}}},
				{ID: "9", Key: "approval-1", Kind: "approval", Approval: &approval{ID: "7.a1", State: "approved", CallID: "7.1.1"}},
				{ID: "11", Key: "answer-1", Kind: "answer", Text: "done"},
			}},
			State:   workflows.TurnState{Header: header, Turns: 1, Sandbox: &workflows.SandboxRef{ID: id, Host: "h", Generation: 1}},
			History: workflows.History{Turns: []workflows.HistoryTurn{{Number: 1, Messages: []string{"`" + command + "`"}, State: "done"}}},
			Entries: []audit.Entry{
				{Kind: audit.KindJudged, ToolCall: "7.1.1", Tier: "risky"},
				{Kind: audit.KindRequested, ToolCall: "7.1.1", Approval: "7.a1"},
				{Kind: audit.KindVote, Approval: "7.a1", Actor: "grace", Outcome: "approve"},
				{Kind: audit.KindDecided, ToolCall: "7.1.1", Approval: "7.a1", Outcome: "approved"},
				{Kind: audit.KindExecStarted, ToolCall: "7.1.1", Exec: "7.1.1.x1"},
				{Kind: audit.KindExecEnded, ToolCall: "7.1.1", Outcome: "completed"},
			},
		}},
	}
}

func TestSoundEvidence(t *testing.T) {
	t.Parallel()
	require.Empty(t, check(sound(t)))
}

// Each rule is broken by what breaks it.
func TestEveryRuleBreaks(t *testing.T) {
	t.Parallel()
	drop := func(s *session, kind string) {
		s.Entries = slices.DeleteFunc(s.Entries, func(e audit.Entry) bool { return e.Kind == kind })
	}
	cases := map[string]func(*evidence, *session){
		RuleMessageLost: func(_ *evidence, s *session) { s.History.Turns[0].Messages = nil },
		RuleMessageTwice: func(_ *evidence, s *session) {
			s.Thread.Messages[2].ToolCalls = slices.Repeat(s.Thread.Messages[2].ToolCalls, 2)
		},
		RuleExecTwice:    func(e *evidence, _ *session) { e.Journals[0].Lines = slices.Repeat(e.Journals[0].Lines, 2) },
		RuleExecLost:     func(e *evidence, _ *session) { e.Journals[0].Lines = nil },
		RuleNoVerdict:    func(_ *evidence, s *session) { drop(s, audit.KindJudged) },
		RuleDeniedRan:    func(_ *evidence, s *session) { s.Thread.Messages[2].ToolCalls[0].State = "denied" },
		RuleVoteLost:     func(_ *evidence, s *session) { drop(s, audit.KindVote) },
		RuleDecidedTwice: func(_ *evidence, s *session) { s.Entries = append(s.Entries, s.Entries[3]) },
		RuleTooEarly:     func(_ *evidence, s *session) { s.Thread.Messages[3].Approval.State = "expired" },
		RulePostTwice: func(_ *evidence, s *session) {
			s.Thread.Messages = append(s.Thread.Messages, message{ID: "12", Key: "answer-1~", Kind: "answer", Text: "done"})
		},
		RuleProjection: func(_ *evidence, s *session) { s.State.Header.Title = "another" },
		RuleTurnFailed: func(_ *evidence, s *session) {
			s.History.Turns[0].State, s.Thread.Messages[2].Turn.State = "failed", "failed"
		},
		RuleMoveLost: func(e *evidence, _ *session) { e.Moves = []moved{{Thread: "7", To: "docker", At: time.Unix(2, 0)}} },
		RuleWorkLost: func(e *evidence, s *session) {
			s.State.Sandbox.Generation = 2
			e.Boxes[0].Generation = 2
			e.Journals = append(e.Journals, witnessed{Host: "h", WorkflowID: "agent/web/main/7", Generation: 2})
		},
		RuleStuck:         func(_ *evidence, s *session) { s.State.Queued = 1 },
		RuleAudit:         func(_ *evidence, s *session) { s.Head.Unwritten = 1 },
		RuleOrphanProcess: func(e *evidence, _ *session) { e.Strays = []string{"sleep 300"} },
		RuleOrphanSandbox: func(e *evidence, _ *session) { e.Boxes = append(e.Boxes, box{"other", "agent/web/main/7", 1}) },
	}
	for _, rule := range Rules() {
		require.Contains(t, cases, rule, "a rule without a case")
	}
	for rule, breaks := range cases {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			e := sound(t)
			breaks(e, e.Sessions["7"])
			found := check(e)
			require.True(t, slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == rule }), "%+v", found)
		})
	}
}

// What is no violation: a fork's journal begins with its source's lines, and a
// message that came after the end is told on the receipt.
func TestWhatIsNoViolation(t *testing.T) {
	t.Parallel()
	e := sound(t)
	e.Journals = append(e.Journals, witnessed{Host: "h", WorkflowID: "agent/web/main/20", Generation: 1, Lines: slices.Clone(e.Journals[0].Lines)})
	s := e.Sessions["7"]
	s.Thread.Messages = append(s.Thread.Messages, message{ID: "13", Kind: "user"}, message{ID: "14", Key: "notice-1", Kind: "notice", Text: "Destroyed. Not taken any more: 1 message."})
	e.Said = append(e.Said, said{Thread: "7", MessageID: "13", Token: "tok_1_2_", Accepted: true, Commands: []string{"one"}})
	s.State.Header.Liveness, s.Thread.Liveness = "destroyed", "destroyed"
	shown, err := json.Marshal(s.State.Header)
	require.NoError(t, err)
	s.Thread.Messages[1].Header = shown
	e.Boxes = nil
	require.Empty(t, check(e))
}

// Nor a move that was made, or that the thread tells of, and what an approval that
// holds no call has allowed.
func TestWhatIsNoViolationOfMoves(t *testing.T) {
	t.Parallel()
	e := sound(t)
	s := e.Sessions["7"]
	e.Moves = []moved{{Thread: "7", To: "docker", At: time.Unix(2, 0)}, {Thread: "7", To: "local", At: time.Unix(3, 0)}}
	s.Entries = append(s.Entries, audit.Entry{Kind: audit.KindDecided, Approval: "7.a2", Outcome: "approved"})
	require.Empty(t, check(e))
	e.Moves[1].Unsure = true
	require.Empty(t, check(e), "the way back was asked for, and was taken without an answer")
	e.Moves = e.Moves[:1]
	s.Thread.Messages = append(s.Thread.Messages, message{ID: "15", Key: "notice-2", Kind: "notice", Text: "The session stays on local, with all its files: no."})
	require.Empty(t, check(e))
}

func TestLinesOfAJournal(t *testing.T) {
	t.Parallel()
	require.Equal(t, line{"tok_1_1_", "one", "7.1.1.x1"}, parseLine("tok_1_1_ one 7.1.1.x1\n"))
	require.Equal(t, line{"tok_1_1_", "one", "7.1.1.x1"}, parseLine("tok_1_1_ one /data/sandboxes/x-g1/execs/7.1.1.x1;\n"))
	require.Equal(t, line{Token: "tok"}, parseLine("tok"))
}
