package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/countersign/countersign/internal/audit"
	"github.com/countersign/countersign/internal/mask"
)

// auditBatch is how many entries wait before they are written even though
// nothing asks for it.
const auditBatch = 20

// RecordAuditInput writes entries of a session's audit chain.
type RecordAuditInput struct {
	Entries []audit.Entry `json:"entries"`
}

// AuditHead answers [QueryAuditHead].
type AuditHead struct {
	Chain audit.Chain `json:"chain"`
	// Unwritten are entries that are in state and not in the blob store yet.
	Unwritten int `json:"unwritten"`
}

// audit adds an entry to the session's chain. It is written when flush asks for
// it, or when enough wait.
func (s *session) audit(ctx workflow.Context, e audit.Entry) {
	info := workflow.GetInfo(ctx)
	e.At = workflow.Now(ctx)
	e.WorkflowID, e.RunID, e.EventID = s.id, info.WorkflowExecution.RunID, info.GetCurrentHistoryLength()
	s.st.Unwritten = append(s.st.Unwritten, s.st.Audit.Add(e))
	if len(s.st.Unwritten) >= auditBatch {
		s.flush = true
	}
}

// maskedText is what a person typed without secrets of known shapes, for card and
// record. The bot has masked the values that it knows; other clients have not.
// The result is recorded: rules for secrets change, a record must not.
func maskedText(ctx workflow.Context, text string) string {
	if text == "" {
		return ""
	}
	var out string
	err := workflow.SideEffect(ctx, func(workflow.Context) any { return mask.New().Text(text) }).Get(&out)
	if err != nil {
		return mask.Mark
	}
	return out
}

// auditCall is an entry about a tool call and its verdict.
func (s *session) auditCall(ctx workflow.Context, kind string, c *Call, e audit.Entry) {
	e.Kind, e.ToolCall, e.Approval = kind, c.ID, c.Approval
	if j := c.Judgement; j != nil {
		e.Tier, e.Digest, e.PolicyVersion = j.Tier, j.Digest, j.PolicyVersion
	}
	s.audit(ctx, e)
}

// aboutToRun reports whether an approved call is about to run: its vote, its decision and
// its start are written together, and behind it, where that takes no longer than a
// look on the worker's own host.
func (s *session) aboutToRun() bool {
	if s.draining || s.lost || !s.notStopped() {
		return false
	}
	return slices.ContainsFunc(s.st.Pending, func(a *Approval) bool {
		return a.Quorum && !a.looked && !a.UnknownRun && s.call(a.CallID) != nil
	})
}

// auditLoop writes entries in order until the run drains.
func (s *session) auditLoop(ctx workflow.Context) {
	for {
		_ = workflow.Await(ctx, func() bool { return s.draining || (s.flush && len(s.st.Unwritten) > 0 && !s.soon && !s.aboutToRun()) })
		if ctx.Err() != nil || s.draining {
			return
		}
		s.flush = false
		s.calls++
		batch := slices.Clone(s.st.Unwritten)
		err := workflow.ExecuteActivity(recordOptions(ctx), ActivityRecordAudit, RecordAuditInput{Entries: batch}).Get(ctx, nil)
		s.calls--
		if err != nil {
			// Retried for ever by its policy, so this is a refusal: another entry
			// stands under the number. Verification finds it.
			workflow.GetLogger(ctx).Error("Audit entries were not written", "first", batch[0].Seq, "error", err)
		}
		s.st.Unwritten = slices.Delete(s.st.Unwritten, 0, len(batch))
	}
}
