package workflows

import (
	"errors"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/countersign/countersign/internal/audit"
)

// TierHost is what an approval card says in a tier's place when a session is to go
// on on another host, from what was saved.
const TierHost = "host"

// askedWait is how long a host has to take a task up for somebody who waits for what
// comes of it: a pause, a stop, a move, files, a receipt. One that is there needs
// milliseconds.
const askedWait = 5 * time.Second

// defaultHostDeadAfter is how long nobody may serve a host's queue before the host
// counts as dead, where the worker's settings say nothing.
const defaultHostDeadAfter = 2 * time.Minute

// CheckHostInput asks whether a host is dead: whether nobody has served its queue
// for DeadAfter. A host that is busy or slow is not.
type CheckHostInput struct {
	Queue     string        `json:"queue"`
	DeadAfter time.Duration `json:"dead_after"`
	// Since is when the session began to wonder, by the server's clock: a host that has
	// asked for tasks after it is there, however often this is asked again.
	Since time.Time `json:"since"`
	// Channel is where the session's thread is: approvers may differ there.
	Channel string `json:"channel,omitempty"`
}

// CheckHostResult answers [CheckHostInput], as soon as it is certain.
type CheckHostResult struct {
	Dead bool `json:"dead"`
	// Seen is when the queue was last served, as far as the server knows.
	Seen time.Time `json:"seen,omitzero"`
	// Rule says who may let the session go on elsewhere.
	Rule ApprovalRule `json:"rule,omitzero"`
}

// AwaitHostInput waits until a host's queue is served again.
type AwaitHostInput struct {
	Queue string    `json:"queue"`
	Since time.Time `json:"since"`
}

// LostHost is why an approval asks to go on on another host.
type LostHost struct {
	Host string    `json:"host"`
	Seen time.Time `json:"seen,omitzero"`
}

// hostStart bounds how long a task for one host's sandboxes waits to be taken up
// before the host is looked at. 0, no bound, where any worker can take it.
func (s *session) hostStart(queue string) time.Duration {
	if !strings.HasPrefix(queue, TaskQueueSandbox+"/") {
		return 0
	}
	most := 20 * time.Second
	if s.asked || s.st.Destroy != nil {
		most = askedWait
	}
	return min(max(s.hostDeadAfter()/6, 2*time.Second), most)
}

func (s *session) hostDeadAfter() time.Duration {
	if s.set.HostDeadAfter > 0 {
		return s.set.HostDeadAfter
	}
	return defaultHostDeadAfter
}

// onHost bounds the wait of an activity for the sandbox's host.
func (s *session) onHost(ctx workflow.Context, queue string) workflow.Context {
	o := workflow.GetActivityOptions(ctx)
	o.ScheduleToStartTimeout = s.hostStart(queue)
	return workflow.WithActivityOptions(ctx, o)
}

// promptly bounds it as for somebody who waits.
func (s *session) promptly(ctx workflow.Context, queue string) workflow.Context {
	o := workflow.GetActivityOptions(ctx)
	o.ScheduleToStartTimeout = min(s.hostStart(queue), askedWait)
	return workflow.WithActivityOptions(ctx, o)
}

// notTakenUp reports that nobody has taken a task up in time.
func notTakenUp(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
}

// askHost says that somebody waits for what is done with the sandbox, until answered
// is called: a host that is not there is not waited for.
func (s *session) askHost() (answered func()) {
	s.asked = true
	return func() { s.asked, s.noHost = false, s.noHost && s.st.Destroy != nil }
}

// missing reports that the host has not taken a task up, while somebody waits.
func (s *session) missing(err error) bool {
	s.noHost = s.noHost || (s.asked || s.st.Destroy != nil) && notTakenUp(err)
	return s.noHost
}

// checkHost looks whether the sandbox's host is dead. It returns early, with no
// answer, where the turn is stopped or the run drains. What the turn has done so far
// goes on record: it may wait long for its end.
func (s *session) checkHost(ctx workflow.Context) (res CheckHostResult, answered bool) {
	s.flush = true
	cctx, cancel := workflow.WithCancel(hostOptions(ctx, s.hostDeadAfter()))
	defer cancel()
	f := workflow.ExecuteActivity(cctx, ActivityCheckHost, CheckHostInput{
		Queue: s.st.Sandbox.Queue, DeadAfter: s.hostDeadAfter(), Since: workflow.Now(ctx), Channel: s.st.Thread.Channel,
	})
	_ = workflow.Await(ctx, func() bool { return f.IsReady() || s.draining || s.wanted || s.stopping() })
	if !f.IsReady() {
		return res, false
	}
	return res, f.Get(ctx, &res) == nil
}

func (s *session) stopping() bool { return s.st.Turn == nil || s.st.Turn.Stop != nil }

// hostLost reports, from within a call, that the host is dead: the step's calls
// end where they are, and the turn asks what to do.
func (s *session) hostLost(ctx workflow.Context) bool {
	if !s.lost {
		res, answered := s.checkHost(ctx)
		s.lost = s.lost || answered && res.Dead
	}
	return s.lost
}

// replaceHost holds the turn while the sandbox's host is dead, until it is back or
// somebody lets the session go on elsewhere. It reports whether the sandbox may be
// opened again; the turn has ended where not, unless it is stopped or drains.
func (s *session) replaceHost(ctx workflow.Context) bool {
	res, answered := s.checkHost(ctx)
	if !answered {
		if s.st.Turn.Stop != nil {
			s.cancelCalls(ctx)
		}
		return false
	}
	if !res.Dead {
		return true
	}
	s.st.Turn.HostAsk = s.requestHost(ctx, res).ID
	return s.awaitHost(ctx)
}

// awaitHost waits for the answer to the turn's request to go on elsewhere, which
// may have been given between two runs, or for the host.
func (s *session) awaitHost(ctx workflow.Context) bool {
	bctx, cancel := workflow.WithCancel(hostOptions(ctx, time.Minute))
	defer cancel()
	back := workflow.ExecuteActivity(bctx, ActivityAwaitHost, AwaitHostInput{Queue: s.st.Sandbox.Queue, Since: workflow.Now(ctx)})
	a := s.pending(s.st.Turn.HostAsk)
	if a != nil && !s.awaitOwn(ctx, a, back.IsReady) {
		return false
	}
	d := s.decided(s.st.Turn.HostAsk)
	if d == nil {
		d = &DecidedApproval{State: ApprovalExpired}
	}
	s.st.Turn.HostAsk = ""
	switch {
	case a != nil && a.State == ApprovalApproved:
		s.leaveHost(ctx, a)
		return true
	case s.stopping():
		s.cancelCalls(ctx)
		return false
	case d.State == ApprovalWithdrawn && d.By == "":
		s.notice("The host of this session's sandbox is back; the session goes on there, with all its files.")
		return true
	}
	s.giveUp(ctx, hostSentence)
	s.failed(ctx, hostSentence, "Send a message to ask again; when the host is back, the session goes on there.")
	return false
}

const hostSentence = "The host of this session's sandbox is not there."

// leaveHost gives the dead host's sandbox up: the next one is opened from what was
// saved. The host removes the old generation when it is back.
func (s *session) leaveHost(ctx workflow.Context, a *Approval) {
	s.audit(ctx, audit.Entry{Kind: audit.KindHostLeft, Approval: a.ID, Text: a.Lost.Host})
	s.notice("The session goes on on another host, from its " + s.savedText() + " " + s.sinceText())
	s.loseBackground("its host is gone")
	s.st.Sandbox, s.st.Root, s.opened = nil, "", false
	s.step(ctx)
}

// requestHost asks by a card of its own.
func (s *session) requestHost(ctx workflow.Context, res CheckHostResult) *Approval {
	rule := res.Rule
	rule.Required = 1
	if rule.TTL == 0 {
		rule.TTL = 24 * time.Hour
	}
	if len(rule.Approvers) == 0 {
		rule.RequesterMayApprove = true
		for _, r := range s.st.Turn.Requesters {
			rule.Approvers = append(rule.Approvers, r.ID)
		}
	}
	s.st.Requests++
	n := itoa(s.st.Requests)
	a := &Approval{
		ID: s.st.Thread.ID + approvalMark + n, Key: approvalMessage + n, Rule: rule, CreatedAt: workflow.Now(ctx),
		State: ApprovalPending, Lost: &LostHost{Host: s.st.Sandbox.Host, Seen: res.Seen},
	}
	s.st.Pending = append(s.st.Pending, a)
	text := "Go on on another host, from the " + s.savedText()
	since := ""
	if !res.Seen.IsZero() {
		since = " since " + res.Seen.UTC().Format("15:04 UTC")
	}
	v := &ApprovalView{
		ID: a.ID, State: ApprovalPending, Tier: TierHost, Displayable: true, Command: TextRef{Text: text, Bytes: len(text)},
		Reasons: []string{
			"The host of this session's sandbox has not been there" + since + ". If it comes back, the session goes on there, with all its files.",
			s.sinceText(),
		},
		RequestedBy: s.st.Turn.Requesters, ExpiresAt: a.CreatedAt.Add(rule.TTL), Queued: s.waiting(),
	}
	v.takes(a.Rule)
	s.audit(ctx, audit.Entry{Kind: audit.KindRequested, Approval: a.ID, Tier: TierHost, Command: text, Reasons: v.Reasons})
	s.flush = true
	s.show(MessageView{Key: a.Key, Kind: KindApproval, Approval: v, Buttons: s.approvalButtons(a, v)})
	s.liveness(ctx)
	s.step(ctx)
	return a
}

func hostButtons(v *ApprovalView) []Button {
	b := []Button{{ID: ButtonApprove, Label: "Go on elsewhere"}, {ID: ButtonDeny, Label: "End the turn…"}}
	if v.Queued > 0 {
		b = append(b, Button{ID: ButtonWithdraw, Label: "Withdraw and end the turn"})
	}
	return b
}

// savedText names what a session would go on from.
func (s *session) savedText() string {
	switch {
	case s.st.Boundary.Snapshot == "":
		return "files as they were at the start: nothing was saved since."
	case s.st.SavedTurn == 0:
		return "files as they were copied when the session began."
	}
	return "files as saved at the end of turn " + itoa(s.st.SavedTurn) + ", " + s.st.SavedAt.UTC().Format("15:04 UTC") + "."
}

// sinceText says what is lost since.
func (s *session) sinceText() string {
	n := s.st.Turn.Card.Commands
	for _, c := range s.st.Turn.Calls {
		if c.State == CallUnknown {
			n++
		}
	}
	var parts []string
	if s.st.Boundary.Failed != "" {
		parts = append(parts, "what the turns before this one changed after that save")
	}
	if n > 0 {
		parts = append(parts, "what "+plural(n, "command")+" of this turn changed")
	}
	if len(parts) == 0 {
		return "Nothing has run since, so nothing is lost."
	}
	return "Lost since then: " + strings.Join(parts, ", and ") + "."
}
