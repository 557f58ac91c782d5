package chattest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/audit"
	"github.com/countersign/countersign/internal/workflows"
)

// LongCommand is a command that a record keeps the beginning of only: three
// thousand characters and more.
func LongCommand() string {
	return "cat <<'E' > notes.txt\n" + strings.Repeat("0123456789 ", 300) + "\nE"
}

// RecordTurn writes the audit entries of a turn to b, as a session would, and
// returns where they are: a command that failed; one that two people voted on; one
// that was denied; a long one that ran by a standing permission; one that was not
// judged. by and second are the IDs of people. Of n more calls each lists files.
func RecordTurn(ctx context.Context, b *Blobs, t workflows.Thread, turn, more int, by, second string) (workflows.Trail, error) {
	r := recorder{chain: audit.Chain{}, thread: t, turn: turn, at: time.Date(2026, 11, 29, 15, 4, 10, 0, time.UTC)}
	code := func(n int) *int { return &n }
	r.add(1, audit.Entry{Kind: audit.KindJudged, Tier: "safe", Command: "go test ./internal/router -run TestFlaky -count=20", Reasons: []string{"reads and builds inside the workspace"}})
	r.ran(1, audit.Entry{Outcome: workflows.CallCompleted, ExitCode: code(1), Millis: 3100})
	r.add(2, audit.Entry{Kind: audit.KindJudged, Tier: "critical", Command: "git push --force origin main", Reasons: []string{"`git push --force` rewrites what others have", "it needs the network"}, Digest: "sha256:0011"})
	r.add(2, audit.Entry{Kind: audit.KindRequested, Approval: t.ID + ".a1"})
	r.add(0, audit.Entry{Kind: audit.KindVote, Approval: t.ID + ".a1", Actor: by, Outcome: workflows.VerdictApprove})
	r.add(0, audit.Entry{Kind: audit.KindVote, Approval: t.ID + ".a1", Actor: second, Outcome: workflows.VerdictApprove, Text: "agreed in the stand-up"})
	r.add(2, audit.Entry{Kind: audit.KindDecided, Approval: t.ID + ".a1", Actor: second, Outcome: workflows.ApprovalApproved})
	r.ran(2, audit.Entry{Outcome: workflows.CallCompleted, ExitCode: code(0), Millis: 400})
	r.add(3, audit.Entry{Kind: audit.KindJudged, Tier: "risky", Command: "rm -rf ~/.cache/go-build <@U0GRACE001>", Reasons: []string{"deletes outside the workspace"}})
	r.add(3, audit.Entry{Kind: audit.KindRequested, Approval: t.ID + ".a2"})
	r.add(0, audit.Entry{Kind: audit.KindVote, Approval: t.ID + ".a2", Actor: by, Outcome: workflows.VerdictDeny, Text: "not during the <!channel> freeze"})
	r.add(3, audit.Entry{Kind: audit.KindDecided, Approval: t.ID + ".a2", Actor: by, Outcome: workflows.ApprovalDenied})
	r.add(3, audit.Entry{Kind: audit.KindExecEnded, Outcome: workflows.CallDenied, Text: "denied"})
	whole, err := b.Put(ctx, "commands", []byte(LongCommand()))
	if err != nil {
		return workflows.Trail{}, err
	}
	r.add(4, audit.Entry{Kind: audit.KindJudged, Tier: "risky", Command: LongCommand()[:workflows.MaxShownCommand], Whole: whole})
	r.add(4, audit.Entry{Kind: audit.KindGranted, Actor: by, Text: "runs by g1"})
	r.ran(4, audit.Entry{Outcome: workflows.CallCompleted, ExitCode: code(0), Millis: 20})
	r.add(5, audit.Entry{Kind: audit.KindExecEnded, Outcome: workflows.CallFailed, Command: "browse", Text: "There is no tool \"browse\"."})
	for n := 6; n < 6+more; n++ {
		r.add(n, audit.Entry{Kind: audit.KindJudged, Tier: "safe", Command: fmt.Sprintf("ls -la dir-%d", n)})
		r.ran(n, audit.Entry{Outcome: workflows.CallCompleted, ExitCode: code(0), Millis: 30})
	}
	return workflows.Trail{First: 1, Last: len(r.entries)}, audit.Record(ctx, b, r.entries)
}

type recorder struct {
	chain   audit.Chain
	entries []audit.Entry
	thread  workflows.Thread
	turn    int
	at      time.Time
}

// add adds an entry about the call of that number in the turn; 0 is none.
func (r *recorder) add(call int, e audit.Entry) {
	r.at = r.at.Add(time.Second)
	e.At, e.WorkflowID, e.PolicyVersion = r.at, r.thread.WorkflowID(), "p1"
	if call > 0 {
		e.ToolCall = fmt.Sprintf("%s.%d.%d", r.thread.ID, r.turn, call)
	}
	r.entries = append(r.entries, r.chain.Add(e))
}

// ran adds an exec's start and its end.
func (r *recorder) ran(call int, end audit.Entry) {
	end.Kind = audit.KindExecEnded
	r.add(call, audit.Entry{Kind: audit.KindExecStarted, Exec: fmt.Sprintf("%s.%d.%d.x1", r.thread.ID, r.turn, call)})
	r.add(call, end)
}

// Outputs are the outputs of execs in memory, by "exec/stream".
type Outputs map[string]string

// ReadAt implements [chat.OutputReader].
func (o Outputs) ReadAt(_ context.Context, exec, stream string, offset int64, limit int) ([]byte, error) {
	s := o[exec+"/"+stream]
	if offset >= int64(len(s)) {
		return nil, nil
	}
	s = s[offset:]
	return []byte(s[:min(len(s), limit)]), nil
}
