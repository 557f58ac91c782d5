package chat_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/audit"
	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/workflows"
)

func detailed(t *testing.T) (*chat.Router, *chattest.Sessions, *chattest.Blobs, workflows.Thread) {
	s, b := &chattest.Sessions{}, &chattest.Blobs{}
	th := workflows.Thread{Platform: workflows.PlatformSlack, Team: "T1", Channel: "C1", ID: "1764428650.000100"}
	return &chat.Router{Sessions: s, Blobs: b, Style: chat.PlainStyle(time.UTC)}, s, b, th
}

// Of a turn that has ended all is read from the record: no session is asked.
func TestDetailsOfATurnThatEnded(t *testing.T) {
	t.Parallel()
	r, s, b, th := detailed(t)
	trail, err := chattest.RecordTurn(t.Context(), b, th, 2, 0, "grace", "heidi")
	require.NoError(t, err)
	d, err := r.Details(t.Context(), workflows.Actor{ID: "ada"}, th, 2, trail)
	require.NoError(t, err)
	require.Empty(t, s.Asked("TurnTrail"))
	require.Len(t, d.Calls, 5)
	require.Equal(t, 1, *d.Calls[0].ExitCode)
	require.Equal(t, 3100*time.Millisecond, d.Calls[0].Duration)
	require.Equal(t, th.ID+".2.1.x1", d.Calls[0].Exec)
	require.Equal(t, chattest.LongCommand(), d.Calls[3].Command, "whole")
	text := d.Text(r.Style)
	for _, want := range []string{
		"1. ✓ exit 1 · 3.1 s", "Verdict: safe: reads and builds inside the workspace.", "Needed no approval.",
		"Approved by @grace at 15:04.", "Approved by @heidi at 15:04: agreed in the stand-up.", "digest sha256:0011", "request " + th.ID + ".a1",
		"Verdict: critical: `git push --force` rewrites what others have; it needs the network.",
		"3. ⊘ denied", "Denied by @grace at 15:04: not during the <!channel> freeze.",
		"Allowed by a standing permission of @grace.", "5. ✕ failed to start", "exec " + th.ID + ".2.4.x1",
	} {
		require.Contains(t, text, want)
	}
}

// While it runs, what is not written yet comes from the session, and what no
// verdict is in for from its card.
func TestDetailsOfARunningTurn(t *testing.T) {
	t.Parallel()
	r, s, b, th := detailed(t)
	var c audit.Chain
	entry := func(call string, e audit.Entry) audit.Entry {
		e.WorkflowID, e.ToolCall, e.At = th.WorkflowID(), call, time.Unix(1764428650, 0)
		return c.Add(e)
	}
	first, second, third := th.ID+".3.1", th.ID+".3.2", th.ID+".3.3"
	written := []audit.Entry{
		entry(th.ID+".2.9", audit.Entry{Kind: audit.KindExecEnded, Outcome: workflows.CallCompleted}),
		entry(first, audit.Entry{Kind: audit.KindJudged, Tier: "safe", Command: "ls"}),
	}
	require.NoError(t, audit.Record(t.Context(), b, written))
	s.Trails = map[int]workflows.TurnTrail{3: {
		Head: 4, Unwritten: []audit.Entry{
			entry(first, audit.Entry{Kind: audit.KindExecStarted, Exec: first + ".x1"}),
			entry(second, audit.Entry{Kind: audit.KindJudged, Tier: "risky", Command: "rm x"}),
		},
		Running: &workflows.TurnView{Number: 3, Trail: workflows.Trail{First: 2}, Calls: []workflows.CallView{
			{ID: first, Command: "ls"}, {ID: second, Command: "rm x"}, {ID: third, Command: "make", State: workflows.CallPending},
		}},
	}}
	d, err := r.Details(t.Context(), workflows.Actor{ID: "ada"}, th, 3, workflows.Trail{First: 2})
	require.NoError(t, err)
	require.Len(t, d.Calls, 3)
	require.Equal(t, workflows.CallRunning, d.Calls[0].State)
	require.Equal(t, "rm x", d.Calls[1].Command)
	require.Equal(t, workflows.CallPending, d.Calls[2].State)
}

// A card that was drawn while the turn ran, of a session that is gone: the record
// ends where another turn begins.
func TestDetailsFromAnOldCard(t *testing.T) {
	t.Parallel()
	r, _, b, th := detailed(t)
	trail, err := chattest.RecordTurn(t.Context(), b, th, 1, 3, "grace", "heidi")
	require.NoError(t, err)
	next := audit.Entry{Seq: trail.Last + 1, WorkflowID: th.WorkflowID(), Kind: audit.KindJudged, ToolCall: th.ID + ".2.1", Command: "other"}
	data, err := json.Marshal(next)
	require.NoError(t, err)
	require.NoError(t, b.PutNew(t.Context(), audit.Key(th.WorkflowID(), next.Seq), data))
	d, err := r.Details(t.Context(), workflows.Actor{ID: "ada"}, th, 1, workflows.Trail{First: 1})
	require.NoError(t, err)
	require.Len(t, d.Calls, 8)
	_, err = r.Details(t.Context(), workflows.Actor{ID: "ada"}, th, 1, workflows.Trail{})
	require.Error(t, err, "nothing says where the record begins")
}

func TestDetailsAreForThoseWhoMaySeeTheHistory(t *testing.T) {
	t.Parallel()
	r, _, b, th := detailed(t)
	trail, err := chattest.RecordTurn(t.Context(), b, th, 1, 0, "grace", "heidi")
	require.NoError(t, err)
	r.Allow = (&chat.Authority{Rules: map[chat.Verb][]string{chat.VerbHistory: {"grace"}}}).Allow
	_, err = r.Details(t.Context(), workflows.Actor{ID: "mallory"}, th, 1, trail)
	require.ErrorContains(t, err, "Only @grace may")
	_, err = r.Output(t.Context(), workflows.Actor{ID: "mallory"}, th, 1, chat.CallDetail{Exec: "x"}, 100)
	require.ErrorContains(t, err, "Only @grace may")
}

// An output is masked, also where a secret spans what is read at once, and of a
// long one the middle is left out.
func TestOutputWhole(t *testing.T) {
	t.Parallel()
	r, _, _, th := detailed(t)
	secret := "gh" + "p_" + "k9Xq2LmT7vRz4WbN8cJd5YhF3sGe6PuA1oKi"
	long := strings.Repeat("x", chat.OutputChunk-10) + " " + secret + " " + strings.Repeat("y", chat.OutputChunk)
	out := chattest.Outputs{"e/stdout": long, "e/stderr": "a warning\n"}
	r.Outputs = func(id string) chat.OutputReader {
		require.Equal(t, th.WorkflowID(), id)
		return out
	}
	c := chat.CallDetail{N: 4, Exec: "e", State: workflows.CallCompleted}
	files, err := r.Output(t.Context(), workflows.Actor{ID: "ada"}, th, 2, c, 10<<20)
	require.NoError(t, err)
	require.Len(t, files, 2)
	require.Equal(t, "turn-2-call-4-stdout.txt", files[0].Name)
	require.Len(t, files[0].Text, len(long))
	require.False(t, strings.Contains(files[0].Text, secret[20:]), "the secret is shown")
	require.True(t, strings.Contains(files[0].Text, strings.Repeat("*", 10)), "it is covered")
	require.Equal(t, "a warning\n", files[1].Text)
	files, err = r.Output(t.Context(), workflows.Actor{ID: "ada"}, th, 2, c, 1000)
	require.NoError(t, err)
	require.Less(t, len(files[0].Text), 1100)
	require.Contains(t, files[0].Text, "bytes are left out here")
	require.True(t, strings.HasSuffix(files[0].Text, "y"))
	require.Equal(t, int64(len(long)), files[0].Bytes)
}
