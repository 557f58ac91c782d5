package workflows

import (
	"errors"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

const (
	// maxShownCalls is how many calls a turn card keeps; older ones are counted.
	maxShownCalls = 40
	// maxRecent is how many turns get_history answers in short.
	maxRecent = 20
	// maxShort bounds the texts of get_history, in bytes.
	maxShort = 300
	// maxShortLines bounds the messages and commands of a turn in get_history.
	maxShortLines = 20
	// maxTaken bounds the texts of messages that one model call takes, in bytes: what
	// a model call is given must stay below the 2 MiB that an activity's input may
	// have, beside its calls' outputs.
	maxTaken = 512 << 10
	// defaultMaxSteps bounds the model calls of a turn.
	defaultMaxSteps = 200
)

// beginTurn opens a turn with its card.
func (s *session) beginTurn(ctx workflow.Context) {
	s.st.Turns++
	s.st.Paused = false
	now := workflow.Now(ctx)
	t := &Turn{Number: s.st.Turns, StartedAt: now}
	t.Card = TurnView{Number: t.Number, State: TurnWorking, StartedAt: now, Trail: Trail{First: s.st.Audit.Seq + 1}}
	s.st.Turn = t
	s.opened = false
	s.takeQueue(ctx)
	s.show(MessageView{Key: turnKey(t), Kind: KindTurn, Turn: &t.Card, Buttons: workingButtons})
	s.liveness(ctx)
}

var (
	workingButtons = []Button{{ID: ButtonStop, Label: "Stop"}, {ID: ButtonDetails, Label: "Details"}}
	endedButtons   = []Button{{ID: ButtonDetails, Label: "Details"}}
)

func turnKey(t *Turn) string { return "turn-" + itoa(t.Number) }

// takeQueue moves the waiting messages into the turn, in the order in which they
// were written: one that came by way of the manager, while the session opened,
// may have been overtaken. What is too much for one model call waits for the next.
func (s *session) takeQueue(ctx workflow.Context) {
	t := s.st.Turn
	_ = workflow.Await(ctx, func() bool { return !s.tidying })
	for _, m := range s.unstash(ctx, t.taken()) {
		s.hear(m)
	}
	s.unstashed = nil
	if len(s.st.Stashed) == 0 {
		byTime(s.st.Queue)
		n := s.fitting()
		for _, m := range s.st.Queue[:n] {
			s.hear(m)
		}
		s.st.Queue = slices.Delete(s.st.Queue, 0, n)
	}
	s.queued()
}

func byTime(all []Message) {
	slices.SortStableFunc(all, func(a, b Message) int { return a.At.Compare(b.At) })
}

// hear makes a message part of the turn.
func (s *session) hear(m Message) {
	t := s.st.Turn
	t.Append = append(t.Append, Item{Message: &m})
	if len(t.Messages) < maxShortLines {
		t.Messages = append(t.Messages, short(m.Text.Text))
	}
	if !slices.ContainsFunc(t.Requesters, func(a Actor) bool { return a.ID == m.Author.ID }) {
		t.Requesters = append(t.Requesters, m.Author)
	}
	if len(s.st.Speakers) < 2 && !slices.Contains(s.st.Speakers, m.Author.ID) {
		s.st.Speakers = append(s.st.Speakers, m.Author.ID)
	}
}

// taken is what the messages of the next model call have, in bytes.
func (t *Turn) taken() int {
	size := 0
	for _, it := range t.Append {
		if it.Message != nil {
			size += it.Message.size()
		}
	}
	return size
}

// fitting is how many of the waiting messages fit into the next model call,
// beside those that it has already. One alone always does.
func (s *session) fitting() int {
	taken := s.st.Turn.taken()
	for i := range s.st.Queue {
		before := taken
		if taken += s.st.Queue[i].size(); taken > maxTaken && before > 0 {
			return i
		}
	}
	return len(s.st.Queue)
}

func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return cutText(text, maxShort)
}

// cutText cuts at a rune's border and marks the cut.
func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	n := limit
	for n > 0 && text[n]&0xC0 == 0x80 {
		n--
	}
	return text[:n] + "…"
}

// turn goes on with the turn until it ends or the run drains.
func (s *session) turn(ctx workflow.Context) {
	t := s.st.Turn
	for {
		s.runCalls(ctx)
		if s.wanted || s.st.Turn == nil {
			return
		}
		if t.BudgetAsk != "" && !s.awaitBudget(ctx) {
			return
		}
		s.collect()
		if t.Stop != nil {
			s.stopped(ctx)
			return
		}
		if t.Step >= s.maxSteps() {
			s.failed(ctx, "The turn has made "+itoa(t.Step)+" model calls, its limit.", "Say how to go on, and a new turn starts.")
			return
		}
		s.takeQueue(ctx)
		s.prepare(ctx)
		if !s.bringFiles(ctx) || t.Stop != nil {
			s.stopped(ctx)
			return
		}
		s.tell()
		res, err := s.callModel(ctx)
		if err != nil {
			s.modelFailed(ctx, err)
			return
		}
		if res.Over != nil {
			if !s.raiseBudget(ctx, res.Over) {
				return
			}
			continue
		}
		s.answered(ctx, res)
		if len(res.Calls) == 0 {
			s.done(ctx, res)
			return
		}
		s.step(ctx)
		if s.wanted {
			return
		}
	}
}

func (s *session) maxSteps() int {
	if s.set.MaxSteps > 0 {
		return s.set.MaxSteps
	}
	return defaultMaxSteps
}

// callModel gives the model what is new and returns its answer. A stop cancels it.
func (s *session) callModel(ctx workflow.Context) (ModelResult, error) {
	t := s.st.Turn
	mctx, cancel := workflow.WithCancel(modelOptions(ctx))
	s.cancelModel, s.thinking = cancel, true
	s.cardChanged()
	defer func() { s.cancelModel, s.thinking = nil, false; cancel() }()
	var res ModelResult
	err := workflow.ExecuteActivity(mctx, ActivityCallModel, ModelInput{
		WorkflowID: s.id, Model: s.st.Model, Transcript: s.st.Boundary.Transcript, Append: t.Append,
		Turn: t.Number, Step: t.Step, Sandbox: s.st.Sandbox, Shared: len(s.st.Speakers) > 1,
		Spent: s.spending(ctx), Channel: s.st.Thread.Channel,
	}).Get(mctx, &res)
	return res, err
}

// answered records a model's answer: its calls become the turn's next step.
func (s *session) answered(ctx workflow.Context, res ModelResult) {
	t := s.st.Turn
	t.Step++
	t.Append = nil
	t.Calls = nil
	s.st.Boundary.Transcript = res.Transcript
	if res.Condensed {
		t.Card.Condensed = true
		// The guides may be lost: they are brought again.
		s.st.Guides, s.st.Prepared, s.opened = nil, false, false
	}
	s.spent(res.Usage)
	for _, tc := range res.Calls {
		t.Made++
		c := &Call{ToolCall: tc, State: CallPending, Attempt: 1, ID: s.st.Thread.ID + "." + itoa(t.Number) + "." + itoa(t.Made)}
		if c.Tool == ToolShell {
			c.Session = itoa(t.Number) + "." + itoa(t.Made)
		}
		t.Calls = append(t.Calls, c)
		t.Card.Calls = append(t.Card.Calls, CallView{ID: c.ID, Tool: c.Tool, Command: c.Shown, State: CallPending})
		if len(t.Commands) < maxShortLines {
			t.Commands = append(t.Commands, short(c.Shown))
		}
	}
	for over := len(t.Card.Calls) - maxShownCalls; over > 0; over-- {
		t.Card.Calls = slices.Delete(t.Card.Calls, 0, 1)
		t.Card.Folded++
	}
	s.cardSoon(ctx)
}

// collect turns ended calls into what the next model call adds: every call gets
// an output.
func (s *session) collect() {
	t := s.st.Turn
	for _, c := range t.Calls {
		it := Item{CallID: c.CallID, Output: c.Output}
		if c.EditedBy != nil {
			it.EditedBy, it.Args = c.EditedBy.Label(), c.Args
		}
		if c.Result != nil {
			it.Image = c.Result.Image
		}
		t.Append = append(t.Append, it)
	}
	t.Calls = nil
	for i := range t.Guides {
		t.Append = append(t.Append, Item{Guide: &t.Guides[i]})
	}
	t.Guides = nil
}

// cardChanged brings the turn card's view up to date with the turn, and the card
// to it.
func (s *session) cardChanged() { s.changed(s.cardView()) }

// cardSoon is cardChanged for what may be over in a moment, such as a command that
// begins: then one edit shows both. What else such a command changes waits with it, as
// everything that is scheduled with a command is in its way.
func (s *session) cardSoon(ctx workflow.Context) {
	p := s.cardView()
	if p == nil {
		s.liveness(ctx)
		return
	}
	if s.soon {
		return
	}
	// An edit under way may see it already.
	p.edit.refreshing = p.edit.refreshing || p.edit.begun() && p.View.Live()
	version := p.View.Version
	s.soon = true
	workflow.Go(ctx, func(ctx workflow.Context) {
		_, _ = awaitFor(ctx, cardWait, func() bool { return s.draining || p.View.Version != version })
		s.soon = false
		if p.View.Version == version {
			s.changed(p)
		}
		s.liveness(ctx)
	})
}

// cardView brings the turn card's view up to date; nil where there is no card.
func (s *session) cardView() *Post {
	t := s.st.Turn
	if t == nil {
		return nil
	}
	p := s.post(turnKey(t))
	if p == nil {
		return nil
	}
	p.View.Turn, p.View.Thinking = &t.Card, s.thinking
	p.View.Running = nil
	for _, c := range t.Calls {
		if c.State == CallRunning {
			p.View.Running = append(p.View.Running, c.execID())
		}
	}
	for _, b := range s.running(t.Number) {
		if !slices.Contains(p.View.Running, b.ExecID) {
			p.View.Running = append(p.View.Running, b.ExecID)
		}
	}
	for _, v := range t.Card.Calls {
		if v.Tool == toolSandbox && v.State == CallRunning {
			p.View.Running = append(p.View.Running, v.ExecID)
		}
	}
	return p
}

// done ends a turn with its answer; then the workspace is snapshotted.
func (s *session) done(ctx workflow.Context, res ModelResult) {
	t := s.st.Turn
	text := res.Answer
	if res.Incomplete != "" && text.Text == "" {
		s.failed(ctx, res.Incomplete+" The session and its files are safe.", "Ask again in other words, or for less at once.")
		return
	}
	if text.Text == "" {
		text = TextRef{Text: "The model ended its turn without an answer."}
	}
	if res.Incomplete != "" {
		s.notice(res.Incomplete)
	}
	p := s.show(MessageView{Key: "answer-" + itoa(t.Number), Kind: KindAnswer, Text: text})
	p.Final, p.After = true, turnKey(t)
	s.endTurn(ctx, TurnDone, short(text.Text))
}

// stopped ends a turn that a person ended. What the model asked for and got, and
// the messages it has not seen, stay in the transcript.
func (s *session) stopped(ctx workflow.Context) {
	t := s.st.Turn
	t.Card.By = t.Stop.By
	s.record(ctx)
	s.endTurn(ctx, TurnStopped, "stopped by "+t.Stop.By.Label())
}

func (s *session) failed(ctx workflow.Context, sentence, hint string) {
	t := s.st.Turn
	t.Card.Error, t.Card.Hint = sentence, hint
	s.record(ctx)
	s.endTurn(ctx, TurnFailed, sentence)
}

func (s *session) modelFailed(ctx workflow.Context, err error) {
	s.unanswered(err)
	if temporal.IsCanceledError(err) && s.st.Turn.Stop != nil {
		s.stopped(ctx)
		return
	}
	sentence, hint := "The model's server did not answer.", "Send a message to try again; nothing is lost."
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		sentence = app.Message()
		switch app.Type() {
		case ErrTypeQuota:
			hint = "Raise the quota or change the key, then send a message to go on."
		case ErrTypeAuth:
			hint = "Set a valid OPENAI_API_KEY on the worker, then send a message to go on."
		case ErrTypeBadRequest:
			hint = "Change the model with `model <name>`, or send another message."
		}
		var better string
		if app.HasDetails() && app.Details(&better) == nil && better != "" {
			hint = better
		}
	}
	s.failed(ctx, sentence, hint)
}

// unanswered counts the requests of a model call that came to nothing, as far as
// they may have been billed.
func (s *session) unanswered(err error) {
	var p ModelProgress
	var app *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	var canceled *temporal.CanceledError
	var hint string
	switch {
	case errors.As(err, &app) && app.HasDetails():
		_ = app.Details(&hint, &p.Unsure) // of another version: nothing is known
	case errors.As(err, &timeout) && timeout.HasLastHeartbeatDetails():
		_ = timeout.LastHeartbeatDetails(&p)
	case errors.As(err, &canceled):
		p.Unsure = 1 // what a stop ended had begun
	}
	if p.Unsure > 0 {
		s.spent(Usage{Calls: p.Unsure, Unsure: p.Unsure})
	}
}

// record appends what the model has not seen yet to the transcript, without
// calling it: every call_id gets its output, every message is kept.
func (s *session) record(ctx workflow.Context) {
	t := s.st.Turn
	if len(t.Append) == 0 {
		return
	}
	var res ModelResult
	err := workflow.ExecuteActivity(transcriptOptions(ctx), ActivityCallModel, ModelInput{
		WorkflowID: s.id, Model: s.st.Model, Transcript: s.st.Boundary.Transcript, Append: t.Append,
		Turn: t.Number, Step: t.Step, Sandbox: s.st.Sandbox, Shared: len(s.st.Speakers) > 1, NoCall: true,
	}).Get(ctx, &res)
	if err != nil {
		workflow.GetLogger(ctx).Error("Turn was not recorded in the transcript", "error", err)
		return
	}
	t.Append = nil
	s.st.Boundary.Transcript = res.Transcript
}

// endTurn shows the turn's end, takes the boundary and forgets the turn.
func (s *session) endTurn(ctx workflow.Context, state, answer string) {
	t := s.st.Turn
	t.Card.State, t.Card.EndedAt, t.Card.Trail.Last = state, workflow.Now(ctx), s.st.Audit.Seq
	card := t.Card
	if p := s.post(turnKey(t)); p != nil {
		p.View.Turn, p.View.Thinking = &card, false
		s.afterTurn(p, t.Number)
		s.changed(p)
	}
	for _, a := range s.st.Posts {
		if v := a.View.Approval; v != nil && v.State != ApprovalPending {
			a.Final = !s.gives(v.ID) && !s.backgroundHolds(v.ID)
		}
	}
	s.flush = true
	s.remember(t, state, answer)
	if s.unsaved(t) && s.st.Destroy == nil {
		s.saveTurn(ctx, t)
	}
	s.st.Boundary.Turn, s.st.Boundary.At = t.Number, workflow.Now(ctx)
	s.st.Turn = nil
	s.liveness(ctx)
	s.step(ctx)
}

// unsaved reports whether the turn has left files to save, or those that could not
// be saved before.
func (s *session) unsaved(t *Turn) bool {
	return t.Wrote || s.backgroundWrote() || t.Opened && s.st.Boundary.Failed != ""
}

// saveTurn takes the snapshot of the turn's end.
func (s *session) saveTurn(ctx workflow.Context, t *Turn) {
	if t.Stop != nil {
		defer s.askHost()()
	}
	s.snapshot(ctx)
}

func (s *session) remember(t *Turn, state, answer string) {
	s.st.Recent = append(s.st.Recent, HistoryTurn{
		Number: t.Number, At: t.StartedAt, Messages: t.Messages, Commands: t.Commands, Answer: answer, State: state,
	})
	if over := len(s.st.Recent) - maxRecent; over > 0 {
		s.st.Recent = slices.Delete(s.st.Recent, 0, over)
	}
}

// snapshot takes the boundary's workspace. A failed one is shown; fork and
// switch are refused until one succeeds.
func (s *session) snapshot(ctx workflow.Context) {
	if s.st.Sandbox == nil {
		return
	}
	var res SnapshotResult
	queue := s.st.Sandbox.Queue
	take := func() error {
		return workflow.ExecuteActivity(s.onHost(snapshotOptions(ctx, queue), queue), ActivityTakeSnapshot, SnapshotInput{
			WorkflowID: s.id, Sandbox: *s.st.Sandbox, Turn: s.st.Turns, Previous: s.st.Boundary.Snapshot,
		}).Get(ctx, &res)
	}
	unsaved := s.st.Unsaved
	s.st.Unsaved = false
	err := take()
	for !s.missing(err) && notTakenUp(err) {
		if look, answered := s.checkHost(ctx); !answered || look.Dead {
			break
		}
		err = take()
	}
	if err != nil {
		s.st.Unsaved = s.st.Unsaved || unsaved
		s.st.Boundary.Failed = stayingText(err)
		switch {
		case s.noHost && s.st.Turn == nil: // whoever asked says so
		case notTakenUp(err):
			s.notice("The files could not be saved at the end of this turn: " + s.st.Boundary.Failed +
				" They are there when the host is back; fork and switch wait until a later turn's save succeeds.")
		default:
			s.notice("The files could not be saved at the end of this turn: " + s.st.Boundary.Failed +
				" The session and its files are there; fork and switch wait until a later turn's save succeeds.")
		}
		return
	}
	s.st.Boundary.Failed, s.st.Work = "", res.Work
	s.st.SavedTurn, s.st.SavedAt = s.st.Turns, workflow.Now(ctx)
	if res.Snapshot != s.st.Boundary.Snapshot {
		s.st.Boundary.Previous, s.st.Boundary.Snapshot = s.st.Boundary.Snapshot, res.Snapshot
	}
}

// sentenceOf is what people are told of an activity's error.
func sentenceOf(err error) string {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return app.Message()
	}
	var timeout *temporal.TimeoutError
	if notTakenUp(err) {
		return hostSilentText
	}
	if errors.As(err, &timeout) {
		return "The worker did not answer in time."
	}
	return "The worker could not do it."
}

// OrMove stands at the end of a backend's advice where moving the session away from it
// would help, too.
const OrMove = ", or move the session: `switch local`"

// stayingText is sentenceOf for a session that cannot move now, or does not yet stand
// where it failed.
func stayingText(err error) string { return strings.Replace(sentenceOf(err), OrMove, "", 1) }

// duration cuts a duration to what a card shows.
func duration(from, to time.Time) time.Duration { return to.Sub(from).Round(time.Millisecond) }
