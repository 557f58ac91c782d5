package workflows

import (
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/countersign/countersign/internal/audit"
)

const (
	// maxBackground is how many commands a session may have in the background.
	maxBackground = 8
	// maxEndedBackground is how many of those that have ended it remembers, so that the rest
	// of their output can be read.
	maxEndedBackground = 20
	// endWait is how long a boundary waits for the commands that it ends.
	endWait = 20 * time.Second
)

// Background is a command that goes on without a call that waits for it, or did.
type Background struct {
	// Session is how the model names it, CallID and ExecID are its call's.
	Session string `json:"session"`
	CallID  string `json:"call_id"`
	ExecID  string `json:"exec_id"`
	// Turn is the turn on whose card it stands.
	Turn      int           `json:"turn"`
	Call      ToolCall      `json:"call"`
	Approval  string        `json:"approval,omitempty"`
	Digest    string        `json:"digest"`
	Timeout   time.Duration `json:"timeout"`
	StartedAt time.Time     `json:"started_at"`
	// Wrote: it may change the workspace.
	Wrote bool `json:"wrote,omitempty"`
	// Asked: it was sent text that people had to allow. What it may have started
	// reads what is sent from then on.
	Asked bool `json:"asked,omitempty"`
	// Stdout and Stderr are how much of each stream the model has read.
	Stdout int64 `json:"stdout,omitempty"`
	Stderr int64 `json:"stderr,omitempty"`
	// State is a tool call's: running, then how it ended, at EndedAt.
	State   string    `json:"state"`
	EndedAt time.Time `json:"ended_at,omitzero"`
	// Why says who or what ended it, where we did.
	Why string `json:"why,omitempty"`
	// Told: the model knows that it has ended. Until then News is what it will be told.
	Told bool       `json:"told,omitempty"`
	News *EndedExec `json:"news,omitempty"`

	cancel   workflow.CancelFunc
	patience patience
}

// RunningExec is a command in the background, for the activities that a call to
// it needs.
type RunningExec struct {
	Session string `json:"session"`
	ExecID  string `json:"exec_id"`
	// Call is the shell call that started it.
	Call  ToolCall `json:"call"`
	Asked bool     `json:"asked,omitempty"`
	// Stdout and Stderr are the offsets to read from, Yield how long to wait for
	// more or the end.
	Stdout int64         `json:"stdout,omitempty"`
	Stderr int64         `json:"stderr,omitempty"`
	Yield  time.Duration `json:"yield,omitempty"`
}

// background finds a command by the name that the model has for it.
func (s *session) background(name string) *Background {
	for _, b := range s.st.Background {
		if b.Session == name {
			return b
		}
	}
	return nil
}

// ref is the command for a call to it; nil for any other call.
func (s *session) ref(c *Call) *RunningExec {
	b := s.background(c.Session)
	if b == nil || c.Tool == ToolShell && !c.Yielded {
		return nil
	}
	r := &RunningExec{Session: b.Session, ExecID: b.ExecID, Call: b.Call, Asked: b.Asked, Stdout: b.Stdout, Stderr: b.Stderr}
	if c.Tool == ToolWriteStdin {
		r.Yield = c.Yield
	}
	return r
}

func (b *Background) running() bool { return b.State == CallRunning }

// running are the commands in the background; turn 0 is those of all turns.
func (s *session) running(turn int) []*Background {
	var out []*Background
	for _, b := range s.st.Background {
		if b.running() && (turn == 0 || b.Turn == turn) {
			out = append(out, b)
		}
	}
	return out
}

// inOrder holds a call to a running command until those before it in the step
// have ended: what they send must not overtake each other.
func (s *session) inOrder(ctx workflow.Context, c *Call) {
	if c.Tool != ToolWriteStdin {
		return
	}
	first := func() bool {
		for _, o := range s.st.Turn.Calls {
			if o == c {
				return true
			}
			if o.Tool == ToolWriteStdin && o.Session == c.Session && !o.ended() {
				return false
			}
		}
		return true
	}
	_ = workflow.Await(ctx, func() bool { return first() || s.draining || s.lost || s.st.Turn.Stop != nil })
}

// refuseTalk says why a call cannot be: there is no such command, or there are
// too many.
func (s *session) refuseTalk(c *Call) string {
	switch {
	case c.Tool == ToolWriteStdin && s.background(c.Session) == nil:
		return "There is no session " + cutText(c.Session, 40) + " here. " + s.sessionsText()
	case c.Tool == ToolShell && c.Yield > 0 && !c.Started && len(s.running(0)) >= maxBackground:
		return "There are " + itoa(maxBackground) + " commands in the background already, which is the most. End one first. " + s.sessionsText()
	}
	return ""
}

func (s *session) sessionsText() string {
	var names []string
	for _, b := range s.running(0) {
		names = append(names, b.Session)
	}
	if len(names) == 0 {
		return "No command runs in the background."
	}
	return "In the background: " + strings.Join(names, ", ") + "."
}

// toBackground lets a call's command go on by itself. What follows it until its
// end is the activity that runs it.
func (s *session) toBackground(ctx workflow.Context, c *Call, f workflow.Future, cancel workflow.CancelFunc) {
	b := &Background{
		Session: c.Session, CallID: c.ID, ExecID: c.execID(), Turn: s.st.Turn.Number, Call: c.ToolCall, Approval: c.Approval,
		Digest: c.Judgement.Digest, Timeout: c.Judgement.Timeout, StartedAt: s.callView(c).StartedAt,
		Wrote: c.Judgement.Tier != "safe", State: CallRunning, cancel: cancel,
	}
	c.Yielded = true
	s.st.Background = append(s.st.Background, b)
	s.follow(ctx, b, f)
	s.callView(c).Note = "in the background, session " + b.Session
	s.cardChanged()
}

// attach follows a running command anew. It waits for the sandbox's host as long
// as that takes: a turn that needs the host asks about it.
func (s *session) attach(ctx workflow.Context, b *Background) workflow.Future {
	fctx, cancel := workflow.WithCancel(runOptions(ctx, s.st.Sandbox.Queue, b.Timeout, b.patience.attempts()))
	b.cancel = cancel
	return workflow.ExecuteActivity(fctx, ActivityRunTool, RunInput{
		WorkflowID: s.id, Sandbox: *s.st.Sandbox, Call: b.Call, ExecID: b.ExecID, Digest: b.Digest, Timeout: b.Timeout, Attach: true,
	})
}

// follow notes the command's end, or leaves it running for the next run.
func (s *session) follow(ctx workflow.Context, b *Background, f workflow.Future) {
	s.following++
	on := s.st.Sandbox.Generation
	workflow.Go(ctx, func(ctx workflow.Context) {
		defer func() { s.following-- }()
		for {
			_ = workflow.Await(ctx, func() bool { return f.IsReady() || s.draining })
			if !f.IsReady() {
				return
			}
			var res ToolResult
			err := f.Get(ctx, &res)
			if outOfAttempts(err) {
				s.waitFor(ctx, err, &b.patience, func() bool { return b.Why == "" && !s.draining })
				if s.draining {
					return
				}
				b.patience.forGood = b.patience.forGood || b.Why != ""
			}
			// Elsewhere it would be run again.
			if sb := s.st.Sandbox; (notTakenUp(err) || outOfAttempts(err)) && sb != nil && sb.Generation == on {
				f = s.attach(ctx, b)
				continue
			}
			if err != nil {
				res = ToolResult{State: CallUnknown, Error: sentenceOf(err)}
			}
			s.backgroundEnded(ctx, b, res)
			return
		}
	})
}

// tell gives the next model call the ends of commands of which the model does not
// know: once, and before what people say.
func (s *session) tell() {
	t := s.st.Turn
	at := slices.IndexFunc(t.Append, func(it Item) bool { return it.Message != nil })
	if at < 0 {
		at = len(t.Append)
	}
	var news []Item
	for _, b := range s.st.Background {
		if b.News != nil {
			news = append(news, Item{Ended: b.News})
			b.known()
		}
	}
	t.Append = slices.Insert(t.Append, at, news...)
}

// heard notes what the model has read of the command.
func (b *Background) heard(res ToolResult) {
	b.Stdout, b.Stderr = res.StdoutBytes, res.StderrBytes
	if res.Over {
		b.known()
	}
}

// known notes that the model knows of the command's end, or is about to.
func (b *Background) known() { b.Told, b.News = true, nil }

// followAll takes up, in a new run, what the one before it left running.
func (s *session) followAll(ctx workflow.Context) {
	for _, b := range s.running(0) {
		s.follow(ctx, b, s.attach(ctx, b))
	}
}

// backgroundEnded shows how a command in the background has ended.
func (s *session) backgroundEnded(ctx workflow.Context, b *Background, res ToolResult) {
	note := res.Error
	switch {
	case res.State == ResultChanged:
		res.State = CallFailed
	case res.TimedOut:
		note = "timed out after " + Duration(b.Timeout)
	case b.Why != "":
		note = b.Why
	}
	b.State, b.EndedAt, b.cancel = res.State, workflow.Now(ctx), nil
	s.st.Unsaved = s.st.Unsaved || b.Wrote
	if !b.Told {
		b.News = &EndedExec{Session: b.Session, State: b.State, ExitCode: res.ExitCode, Note: cutText(note, maxShort), Tail: res.Tail}
	}
	if !res.EndedAt.IsZero() {
		b.EndedAt = res.EndedAt
	}
	if v := s.backgroundView(b); v != nil {
		v.State, v.ExitCode, v.Tail, v.EndedAt = b.State, res.ExitCode, res.Tail, b.EndedAt
		v.Note = cutText(strings.TrimSpace("in the background "+note), maxShort)
	}
	s.audit(ctx, audit.Entry{
		Kind: audit.KindExecEnded, ToolCall: b.CallID, Exec: b.ExecID, Digest: b.Digest, Approval: b.Approval, Outcome: b.State, Text: cutText(note, maxShort),
	})
	s.flush = true
	if p := s.approvalPost(b.Approval); p != nil {
		v := p.View.Approval
		v.CallState, v.ExitCode, v.Duration = b.State, res.ExitCode, duration(b.StartedAt, b.EndedAt)
		p.Final = !s.gives(v.ID)
		s.changed(p)
	}
	if b.State == CallUnknown {
		s.notice("What became of " + shownCommand(b) + ", which ran in the background, is not known: " + strings.TrimSuffix(note, ".") + ". It is not run again.")
	}
	s.showBackground(b.Turn)
	s.forgetEnded()
	s.step(ctx)
}

func shownCommand(b *Background) string {
	return "`" + strings.ReplaceAll(short(b.Call.Shown), "`", "'") + "`"
}

func (s *session) forgetEnded() {
	over := len(s.st.Background) - len(s.running(0)) - maxEndedBackground
	s.st.Background = slices.DeleteFunc(s.st.Background, func(b *Background) bool {
		drop := !b.running() && over > 0
		if drop {
			over--
		}
		return drop
	})
}

// backgroundView finds a command on its turn's card, also after the turn.
func (s *session) backgroundView(b *Background) *CallView {
	p := s.post("turn-" + itoa(b.Turn))
	card := (*TurnView)(nil)
	if t := s.st.Turn; t != nil && t.Number == b.Turn {
		card = &t.Card
	} else if p != nil {
		card = p.View.Turn
	}
	if card == nil {
		return nil
	}
	for i := range card.Calls {
		if card.Calls[i].ID == b.CallID {
			return &card.Calls[i]
		}
	}
	return nil
}

// showBackground brings the card of a turn to what still runs of it.
func (s *session) showBackground(turn int) {
	if t := s.st.Turn; t != nil && t.Number == turn {
		s.cardChanged()
		return
	}
	p := s.post("turn-" + itoa(turn))
	if p == nil {
		return
	}
	s.afterTurn(p, turn)
	s.changed(p)
}

// afterTurn keeps the card of a turn that has ended alive while commands of it run.
func (s *session) afterTurn(p *Post, turn int) {
	p.View.Running, p.View.Buttons, p.Final = nil, endedButtons, true
	for _, b := range s.running(turn) {
		p.View.Running = append(p.View.Running, b.ExecID)
		p.View.Buttons, p.Final = workingButtons, false
	}
}

// endBackground asks the commands of a turn, or with 0 all, to end, and returns
// how people know them.
func (s *session) endBackground(ctx workflow.Context, turn int, why string) []string {
	var ended []string
	sb := s.st.Sandbox
	for _, b := range s.running(turn) {
		ended = append(ended, shownCommand(b))
		if b.Why != "" || sb == nil {
			continue
		}
		b.Why = why
		s.following++
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer func() { s.following-- }()
			s.signal(ctx, *sb, b.ExecID, "stop", b.Timeout)
		})
	}
	return ended
}

// endAllBackground ends all commands, waits for that, and returns a sentence.
func (s *session) endAllBackground(ctx workflow.Context, why string) string {
	ended := s.endBackground(ctx, 0, why)
	if len(ended) == 0 {
		return ""
	}
	_, _ = awaitFor(ctx, endWait, func() bool { return s.noHost || len(s.running(0)) == 0 })
	if s.noHost {
		return "" // they may still run
	}
	return " Ended in the background: " + strings.Join(ended, ", ") + "."
}

// loseBackground gives up what ran in a sandbox that is gone.
func (s *session) loseBackground(why string) {
	for _, b := range s.running(0) {
		b.Why = why
		if b.cancel != nil {
			b.cancel()
		}
	}
}

// backgroundWrote reports whether a command in the background may have changed
// files that are not saved.
func (s *session) backgroundWrote() bool {
	return s.st.Unsaved || slices.ContainsFunc(s.st.Background, func(b *Background) bool { return b.Wrote && b.running() })
}

// backgroundHolds reports whether a request's command runs in the background.
func (s *session) backgroundHolds(approval string) bool {
	return slices.ContainsFunc(s.st.Background, func(b *Background) bool { return b.running() && b.Approval == approval })
}

// yielded ends a call whose command goes on: the model has what it printed so far.
func (s *session) yielded(ctx workflow.Context, c *Call, res ToolResult) {
	b := s.background(c.Session)
	if b != nil && res.State == CallCompleted {
		b.heard(res)
	}
	if res.Output.Text == "" && res.Output.Ref == "" {
		res.Output = modelText("running", "its output cannot be read now: "+res.Error+" It goes on in the background; try "+ToolWriteStdin+" with session_id "+c.Session)
	}
	c.State, c.Output = CallCompleted, res.Output
	s.st.Stats.Commands++
	s.st.Turn.Card.Commands++
	if p := s.approvalPost(c.Approval); p != nil && b != nil && b.running() {
		p.View.Approval.CallState = CallRunning
		s.changed(p)
	}
	s.cardChanged()
	s.step(ctx)
}
