package workflows

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/countersign/countersign/internal/audit"
)

// Move is a switch that is carried out at the turn's boundary.
type Move struct {
	SwitchBackend
	// LessIsolated: people have agreed to less isolation than there is now.
	LessIsolated bool `json:"less_isolated,omitempty"`
}

// AskedSwitch is a switch that is not decided yet.
type AskedSwitch struct {
	SwitchBackend
	// Approval is the request that holds it; empty until it is judged.
	Approval string `json:"approval,omitempty"`
}

// SwitchInput asks whether a switch leads to less isolation, and for what else it
// cannot be.
type SwitchInput struct {
	WorkflowID string `json:"workflow_id"`
	Backend    string `json:"backend"`
	Root       string `json:"root,omitempty"`
	// From is the backend that the session is on, and Current its sandbox, if it has
	// one.
	From    string      `json:"from"`
	Current *SandboxRef `json:"current,omitempty"`
	// Channel is where the session's thread is: approvers may differ there.
	Channel string `json:"channel,omitempty"`
}

// SwitchVerdict answers [SwitchInput].
type SwitchVerdict struct {
	// Less: commands are confined less on the other backend. Reasons are sentences
	// about it, and Rule is what an approval of that takes.
	Less    bool         `json:"less,omitempty"`
	Reasons []string     `json:"reasons,omitempty"`
	Rule    ApprovalRule `json:"rule,omitzero"`
}

// maxSwitchWait is how long the answer to a switch waits for its verdict: whoever
// asked is told at once where it must be approved.
const maxSwitchWait = settleWait

// switchBackend refuses what cannot be: a backend that no worker here has, the
// one the session is on, a root that is not offered.
func (s *session) switchBackend(ctx workflow.Context, b SwitchBackend) (Outcome, error) {
	if why := s.cannotSwitch(b); why != "" {
		return Outcome{OutcomeRefused, why}, nil
	}
	s.st.Asked = &AskedSwitch{SwitchBackend: b}
	defer s.step(ctx) // a new run waits until this is answered
	_, _ = awaitFor(ctx, maxSwitchWait, func() bool {
		return s.draining || s.st.Asked == nil || s.st.Asked.Approval != ""
	})
	switch {
	case s.st.Asked != nil && s.st.Asked.Approval != "":
		return Outcome{OutcomeRecorded, "On " + b.Backend + " commands are not isolated, so the move waits for an approval: see the card."}, nil
	case s.st.Asked == nil && s.st.Switch == nil && s.moving == nil && s.st.Backend != b.Backend:
		return Outcome{OutcomeRefused, "The session stays on " + s.st.Backend + "; the thread says why."}, nil
	case s.st.Asked != nil:
		return Outcome{OutcomeRecorded, "Asked for; the thread shows what comes of it."}, nil
	case s.st.Turn != nil:
		return Outcome{OutcomeRecorded, "It moves to " + b.Backend + " when this turn has ended."}, nil
	}
	return Outcome{OutcomeRecorded, "Moving to " + b.Backend + "."}, nil
}

// cannotSwitch is a sentence about a switch that cannot be; empty where it can.
func (s *session) cannotSwitch(b SwitchBackend) string {
	switch {
	case !slices.Contains(s.set.Backends, b.Backend):
		return b.Backend + " is not available here. There is: " + strings.Join(s.set.Backends, ", ") + ". The session stays on " + s.st.Backend + "."
	case b.Root != "" && !s.rootOffered(b):
		return s.noRoot(b)
	case s.st.Destroy != nil:
		return "This session is being destroyed."
	case s.st.Asked != nil:
		return "A move to " + s.st.Asked.Backend + " has been asked for by " + s.st.Asked.By.Label() + " and is not decided yet."
	case s.moving != nil && b.Backend == s.moving.Backend && b.Root == s.moving.Root:
		return "The session is moving to " + b.Backend + " already."
	case b.Backend == s.st.Backend && b.Root == s.st.Root && s.st.Switch == nil && s.moving == nil:
		return "The session is on " + b.Backend + " already."
	case s.st.Boundary.Failed != "":
		return "The files could not be saved at the last turn's end, so they cannot be moved: " + s.st.Boundary.Failed +
			" They can be once a save succeeds, by `pause` or at a turn's end."
	}
	return ""
}

// rootOffered compares texts; the worker that opens the sandbox also follows
// symbolic links.
func (s *session) rootOffered(b SwitchBackend) bool {
	return slices.ContainsFunc(s.set.Roots[b.Backend], func(root string) bool {
		root = path.Clean(root)
		at := path.Clean(b.Root)
		return path.IsAbs(b.Root) && (at == root || strings.HasPrefix(at, strings.TrimSuffix(root, "/")+"/"))
	})
}

func (s *session) noRoot(b SwitchBackend) string {
	stays := " The session stays where it is."
	roots := s.set.Roots[b.Backend]
	switch {
	case len(roots) > 0:
		return "That root is not offered. A root is one of these or below one: " + strings.Join(roots, ", ") + "." + stays
	case b.Backend == "local":
		return "No roots are offered here: sandbox.local.roots lists none." + stays
	}
	return "A root can be named for local only." + stays
}

// switching judges what is asked for, and holds it where it must be approved. The
// session goes on meanwhile.
func (s *session) switching(ctx workflow.Context) {
	for {
		_ = workflow.Await(ctx, func() bool { return s.draining || s.st.Asked != nil })
		if s.draining || ctx.Err() != nil {
			return
		}
		s.asking = true
		s.judgeSwitch(ctx)
		s.asking = false
	}
}

func (s *session) judgeSwitch(ctx workflow.Context) {
	asked := s.st.Asked
	if asked.Approval == "" && !s.holdSwitch(ctx, asked) {
		return
	}
	// A request that is not pending was decided while the run before this one drained.
	if a := s.pending(asked.Approval); a != nil && !s.awaitOwn(ctx, a, func() bool { return s.st.Destroy != nil }) {
		return
	}
	d := s.decided(asked.Approval)
	switch to := asked.SwitchBackend; {
	case s.st.Destroy != nil:
		s.st.Asked = nil
	case d == nil:
		s.stays(ctx, "what became of the request is not known any more.")
	case d.State == ApprovalApproved:
		s.moves(ctx, Move{SwitchBackend: to, LessIsolated: true})
	case d.State == ApprovalDenied && d.Reason != "":
		s.stays(ctx, d.By+" has denied the move to "+to.Backend+": "+d.Reason)
	case d.State == ApprovalDenied:
		s.stays(ctx, d.By+" has denied the move to "+to.Backend+".")
	case d.State == ApprovalWithdrawn:
		s.stays(ctx, d.By+" has withdrawn the move to "+to.Backend+".")
	case d.State == ApprovalExpired:
		s.stays(ctx, "nobody has decided about the move to "+to.Backend+" in time.")
	default:
		s.stays(ctx, "what was agreed to has changed; ask again.")
	}
}

// holdSwitch judges a switch. It is true where a request holds it now; else it is
// on its way, refused, or judged again by the next run.
func (s *session) holdSwitch(ctx workflow.Context, asked *AskedSwitch) bool {
	to := asked.SwitchBackend
	v, why, ok := s.checkSwitch(ctx, to)
	switch {
	case s.st.Destroy != nil:
		s.st.Asked = nil
	case !ok:
	case why != "":
		s.stays(ctx, why)
	case !v.Less:
		s.moves(ctx, Move{SwitchBackend: to})
	case len(v.Rule.Approvers) == 0:
		s.stays(ctx, "commands are not isolated on "+to.Backend+", so the move needs an approval, and nobody may give one: no approvers are set (approvals.approvers).")
	default:
		asked.Approval = s.requestSwitch(ctx, to, v)
		return true
	}
	return false
}

// moves leaves a switch to the main coroutine, for the turn's boundary.
func (s *session) moves(ctx workflow.Context, m Move) {
	if m.Backend == s.st.Backend && m.Root == s.st.Root {
		s.st.Switch = nil // an earlier one, which was not carried out yet
		s.stays(ctx, m.By.Label()+" has chosen "+m.Backend+" again.")
		return
	}
	s.st.Asked, s.st.Switch = nil, &m
	s.step(ctx)
}

// stays ends a switch with its sentence.
func (s *session) stays(ctx workflow.Context, why string) {
	s.st.Asked = nil
	s.notice("The session stays on " + s.st.Backend + ", with all its files: " + why)
	s.step(ctx)
}

// checkSwitch asks a worker; why is a sentence about a switch that cannot be. It is
// false where the run drains or the session is destroyed.
func (s *session) checkSwitch(ctx workflow.Context, to SwitchBackend) (v SwitchVerdict, why string, ok bool) {
	cctx, cancel := workflow.WithCancel(switchOptions(ctx))
	defer cancel()
	f := workflow.ExecuteActivity(cctx, ActivityJudgeSwitch, SwitchInput{
		WorkflowID: s.id, Backend: to.Backend, Root: to.Root, From: s.st.Backend, Current: s.st.Sandbox, Channel: s.st.Thread.Channel,
	})
	_ = workflow.Await(ctx, func() bool { return f.IsReady() || s.draining || s.st.Destroy != nil })
	if !f.IsReady() {
		return v, "", false
	}
	if err := f.Get(ctx, &v); err != nil {
		return v, sentenceOf(err), true
	}
	return v, "", true
}

// requestSwitch asks by a card of its own.
func (s *session) requestSwitch(ctx workflow.Context, to SwitchBackend, v SwitchVerdict) string {
	s.st.Requests++
	n := itoa(s.st.Requests)
	text := "Move this session from " + s.st.Backend + " to " + to.Backend
	if to.Root != "" {
		text += ", below " + to.Root
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{s.id, strconv.Itoa(s.st.Gen), s.st.Backend, to.Backend, to.Root}, "\x00")))
	a := &Approval{
		ID: s.st.Thread.ID + ".a" + n, Key: "approval-" + n, Rule: v.Rule, CreatedAt: workflow.Now(ctx),
		State: ApprovalPending, Switch: &to, Digest: hex.EncodeToString(sum[:]),
	}
	s.st.Pending = append(s.st.Pending, a)
	view := &ApprovalView{
		ID: a.ID, State: ApprovalPending, Tier: tierRisky, Displayable: true, Command: TextRef{Text: text, Bytes: len(text)},
		Reasons: v.Reasons, Digest: a.Digest, RequestedBy: []Actor{to.By}, ExpiresAt: a.CreatedAt.Add(a.Rule.TTL), Queued: len(s.st.Queue),
	}
	view.takes(a.Rule)
	s.audit(ctx, audit.Entry{Kind: audit.KindRequested, Approval: a.ID, Actor: to.By.ID, Tier: tierRisky, Command: text, Reasons: v.Reasons})
	s.flush = true
	s.show(MessageView{Key: a.Key, Kind: KindApproval, Approval: view, Buttons: s.approvalButtons(a, view)})
	s.liveness(ctx)
	s.step(ctx)
	return a.ID
}

const tierRisky = "risky"

var switchButtons = []Button{
	{ID: ButtonApprove, Label: "Approve the move"}, {ID: ButtonDeny, Label: "Deny…"}, {ID: ButtonWithdraw, Label: "Withdraw"},
}

// ruleNow is what the request takes by the settings of this moment, as far as they
// are asked for. It is false where the run drains, or where the request has ended,
// because what it asks for cannot be any more.
func (s *session) ruleNow(ctx workflow.Context, a *Approval) (ApprovalRule, bool) {
	if a.Switch == nil {
		return a.Rule, true
	}
	v, why, ok := s.checkSwitch(ctx, *a.Switch)
	switch {
	case s.st.Destroy != nil:
		s.settle(ctx, a, ApprovalWithdrawn, s.st.Destroy.By)
		return a.Rule, false
	case !ok:
		return a.Rule, false
	case why != "":
		s.settle(ctx, a, ApprovalChanged, Actor{})
		return a.Rule, false
	case !v.Less:
		return a.Rule, true // it asks for less than was agreed to
	}
	return v.Rule, true
}
