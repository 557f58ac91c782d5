package slack

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slack-go/slack"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// statusPace is the time between two calls of agents.sessions.setStatus, which
	// is tier 3: 50 a minute.
	statusPace = 1500 * time.Millisecond
	// statusWaiting bounds the threads whose status waits to be set.
	statusWaiting = 500
	// statusOff is for how long nothing is tried after Slack refused the first call:
	// an app that is no agent has no such sessions.
	statusOff = time.Hour
	// maxSessionTitle is what Slack takes as a session's title.
	maxSessionTitle = 200
)

// agents sets the status that Slack shows of sessions beside their messages, with
// its own stop button while one is processing: the newest of each thread, one
// after the other. What it does is an extra: no message waits for it, and where the app has
// no agent sessions it ends at the first refusal.
type agents struct {
	app  *App
	wake chan struct{}

	mu      sync.Mutex
	want    map[workflows.Thread]string
	order   []workflows.Thread
	set     *memory[workflows.Thread, string]
	titles  *memory[workflows.Thread, string]
	worked  bool
	offTill time.Time
}

func newAgents(a *App) *agents {
	return &agents{app: a, wake: make(chan struct{}, 1), want: map[workflows.Thread]string{}, set: newMemory[workflows.Thread, string](), titles: newMemory[workflows.Thread, string]()}
}

// shown notes the status that follows from a message that was just shown.
func (g *agents) shown(c chat.Content) {
	if h := c.View.Header; h != nil {
		g.titles.put(c.Thread, cut(chat.Shown(h.Title), maxSessionTitle))
	}
	status, ok := statusOf(c.View)
	if !ok {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if now, known := g.set.get(c.Thread, rememberFor); known && now == status || time.Now().Before(g.offTill) {
		delete(g.want, c.Thread)
		return
	}
	_, waits := g.want[c.Thread]
	if !waits && len(g.want) >= statusWaiting {
		return
	}
	g.want[c.Thread] = status
	if !waits {
		g.order = append(g.order, c.Thread)
	}
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// statusOf is the status that a message says; false where it says none.
func statusOf(v workflows.MessageView) (string, bool) {
	switch {
	case v.Header != nil && v.Header.Liveness == workflows.LivenessDestroyed:
		return slack.AgentSessionStatusClosed, true
	case v.Approval != nil && v.Approval.State == workflows.ApprovalPending:
		return slack.AgentSessionStatusSuspended, true
	case v.Turn == nil:
		return "", false
	case v.Turn.State != workflows.TurnWorking:
		return slack.AgentSessionStatusActive, true
	}
	waits := false
	for _, c := range v.Turn.Calls {
		if c.State == workflows.CallRunning {
			waits = false
			break
		}
		waits = waits || c.State == workflows.CallAwaiting
	}
	if waits {
		return slack.AgentSessionStatusSuspended, true
	}
	return slack.AgentSessionStatusProcessing, true
}

// run sets what is wanted until ctx ends.
func (g *agents) run(ctx context.Context) {
	for {
		t, s, ok := g.next()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-g.wake:
			}
			continue
		}
		wait := g.tell(ctx, t, s)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (g *agents) next() (workflows.Thread, string, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.order) > 0 {
		t := g.order[0]
		g.order = g.order[1:]
		if s, ok := g.want[t]; ok {
			delete(g.want, t)
			return t, s, true
		}
	}
	return workflows.Thread{}, "", false
}

// tell sets one status and returns how long to wait before the next.
func (g *agents) tell(ctx context.Context, t workflows.Thread, status string) time.Duration {
	title, _ := g.titles.get(t, rememberFor)
	_, err := g.app.api.SetAgentSessionStatusContext(ctx, slack.AgentSessionSetStatusParameters{
		Status: status, ChannelID: t.Channel, ThreadTS: t.ID, Title: title,
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	var limited *slack.RateLimitedError
	switch {
	case err == nil:
		g.worked = true
		g.set.put(t, status)
	case errors.As(err, &limited):
		if _, newer := g.want[t]; !newer {
			g.want[t] = status
			g.order = append(g.order, t)
		}
		return limited.RetryAfter
	case code(err) != "" && !g.worked:
		g.offTill = time.Now().Add(statusOff)
		clear(g.want)
		g.order = nil
		g.app.log.Info("Slack shows no agent status for this app", telemetry.KeyError, detail(err))
	case ctx.Err() == nil:
		g.app.log.Info("An agent session's status was not set", telemetry.KeyThreadID, t.ID, telemetry.KeyError, detail(err))
	}
	return g.app.cfg.StatusPace
}

// stoppedBySlack takes agent_session_stopped, Slack's own stop button: the same as
// `stop` in the thread, under the same rules. Slack repeats the event until it is
// acknowledged, and its time names it.
func (a *App) stoppedBySlack(ctx context.Context, e besideEvent, ack ack) {
	if e.Channel == "" || e.ThreadTS == "" || e.User == "" {
		ack(nil)
		return
	}
	key := "stopped/" + e.Channel + "/" + e.ThreadTS + "/" + e.TS
	if _, done := a.taken.get(key, rememberFor); done {
		ack(nil)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, ackWithin)
	defer cancel()
	t := a.thread(e.Channel, e.ThreadTS)
	by, err := a.people.actor(ctx, e.User)
	var reply chat.Reply
	if err == nil {
		reply, err = a.plain.Do(ctx, chat.Event{ID: key, Thread: t, New: a.thread(t.Channel, ""), By: by, At: a.api.gate.clock.Here(timeOf(e.TS))}, chat.Command{Verb: chat.VerbStop})
	}
	var refused *chat.Error
	if err != nil && (!errors.As(err, &refused) || refused.Kind == chat.KindUnavailable || refused.Kind == chat.KindUnconfirmed) {
		a.log.Warn("A stop was not taken; Slack repeats it", telemetry.KeyThreadID, t.ID, telemetry.KeyError, err)
		return
	}
	a.taken.put(key, true)
	ack(nil)
	a.agents.set.forget(t) // Slack waits for a status after its button
	text := ""
	if refused != nil {
		text = refused.Text()
	} else if !reply.Private {
		text = reply.Text
	}
	a.background(ctx, answerWithin, func(ctx context.Context) { a.whisper(ctx, t, e.User, "", text) })
}
