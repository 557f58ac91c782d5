package slack

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/chat/chattest/slackfake"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// People and places of the fake.
const (
	ada     = "U0ADA00001"
	grace   = "U0GRACE001"
	general = "C0GENERAL1"
	bot     = "<@" + slackfake.BotUser + ">"
)

// world is a running adapter in front of a fake Slack and stand-in sessions.
type world struct {
	t        *testing.T
	fake     *slackfake.Server
	app      *App
	sessions *stand
	blobs    *chattest.Blobs
	outputs  chattest.Outputs

	mu   sync.Mutex
	live map[string]bool
	down error
	// failed counts what was asked while Temporal was down.
	failed int
}

func (w *world) refused() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// stand are the stand-in sessions, with states that may change while they are
// asked.
type stand struct {
	*chattest.Sessions
	mu    sync.Mutex
	state map[string]workflows.TurnState
	rows  []workflows.SessionRow
	held  chan struct{} // what decisions wait for, if any
}

func (s *stand) set(t workflows.Thread, st workflows.TurnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state[t.WorkflowID()] = st
	s.rows = append(s.rows, workflows.SessionRow{
		WorkflowID: t.WorkflowID(), Thread: t, Title: st.Header.Title, Backend: st.Header.Backend, Liveness: st.Header.Liveness,
	})
}

// hold keeps decisions from being made until release is called.
func (s *stand) hold() (release func()) {
	held := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = held
	return func() { close(held) }
}

func (s *stand) Decide(ctx context.Context, id string, d workflows.Decision) (workflows.Outcome, error) {
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	if held != nil {
		<-held
	}
	return s.Sessions.Decide(ctx, id, d)
}

func (s *stand) TurnState(ctx context.Context, id string) (workflows.TurnState, error) {
	if _, err := s.Sessions.TurnState(ctx, id); !errors.Is(err, workflows.ErrNoSession) {
		return workflows.TurnState{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st, ok := s.state[id]
	if !ok {
		return st, workflows.ErrNoSession
	}
	return st, nil
}

func (s *stand) List(ctx context.Context, id string, l workflows.ListSessions) (workflows.SessionList, error) {
	list, err := s.Sessions.List(ctx, id, l)
	s.mu.Lock()
	defer s.mu.Unlock()
	from, _ := strconv.Atoi(l.Before) // of the first page there is none
	to := min(from+l.Size(), len(s.rows))
	list.Sessions = slices.Clone(s.rows[from:to])
	if to < len(s.rows) {
		list.Next = strconv.Itoa(to)
	}
	return list, err
}

// setup changes a world before it starts.
type setup struct {
	fake   slackfake.Options
	config func(*Config)
	before func(*world)
	// still does not run the adapter.
	still bool
}

func start(t *testing.T, set setup) *world {
	t.Helper()
	if set.fake.AckWithin == 0 {
		set.fake.AckWithin = 4 * time.Second
	}
	if set.fake.RetryAfter == nil {
		set.fake.RetryAfter = []time.Duration{20 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond}
	}
	if set.fake.PingEvery == 0 {
		set.fake.PingEvery = 100 * time.Millisecond
	}
	set.fake.NoTiers = true
	w := &world{t: t, fake: slackfake.New(set.fake), sessions: &stand{Sessions: &chattest.Sessions{}, state: map[string]workflows.TurnState{}}, blobs: &chattest.Blobs{}, live: map[string]bool{}}
	t.Cleanup(w.fake.Close)
	w.sessions.Fail = w.fail
	if set.before != nil {
		set.before(w)
	}
	cfg := Config{
		BotToken: telemetry.NewSecret("xoxb-fake"), AppToken: telemetry.NewSecret("xapp-fake"), APIURL: w.fake.URL(),
		Pace: time.Millisecond, Silence: 5 * time.Second,
	}
	if set.config != nil {
		set.config(&cfg)
	}
	app, err := Connect(t.Context(), cfg, Deps{
		Sessions: w.sessions, Views: w.sessions, Blobs: w.blobs, Backends: []string{"local", "docker"}, Workspaces: []string{"api", "site"},
		Outputs: func(string) chat.OutputReader { return w.outputs }, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	require.NoError(t, err)
	w.app = app
	if !set.still {
		w.run()
	}
	t.Cleanup(func() {
		if !t.Failed() {
			require.Empty(t, w.fake.Complaints())
		}
	})
	return w
}

func (w *world) run() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	done := make(chan error, 1)
	go func() { done <- w.app.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		require.NoError(w.t, <-done)
	})
	w.until("two connections", func() bool { return w.fake.Connections() == 2 })
}

// fail is what Temporal says: no session but the live ones, or nothing at all.
func (w *world) fail(c chattest.Call) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down != nil {
		w.failed++
		return w.down
	}
	if c.Method == "SendMessage" && !w.live[c.ID] {
		return workflows.ErrNoSession
	}
	return nil
}

// session makes a live session in a thread whose root ada wrote to the bot.
func (w *world) session() workflows.Thread {
	ts := w.fake.Quiet(ada, general, "", bot+" do something")
	return w.sessionIn(general, ts)
}

func (w *world) sessionIn(channel, ts string) workflows.Thread {
	t := w.app.thread(channel, ts)
	w.sessions.set(t, workflows.TurnState{Header: workflows.HeaderView{Title: "do something", Backend: "local", Liveness: workflows.LivenessActive}})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.live[t.WorkflowID()] = true
	return t
}

func (w *world) setDown(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = err
}

// until polls for something that is about to be so.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	require.Eventually(w.t, ok, time.Minute, 5*time.Millisecond, what)
}

// one is the only call of a method, once it has come.
func one[T any](w *world, method string) T {
	w.t.Helper()
	w.until(method+" is called", func() bool { return len(w.sessions.Asked(method)) > 0 })
	calls := w.sessions.Asked(method)
	require.Len(w.t, calls, 1)
	arg, ok := calls[0].Arg.(T)
	require.True(w.t, ok)
	return arg
}

// settled waits until every delivery is done.
func settled(w *world, ds ...*slackfake.Delivery) {
	w.t.Helper()
	for _, d := range ds {
		acked, _ := d.Wait()
		require.True(w.t, acked, "an event was not acknowledged")
	}
}

// toldOnly is the only thing that a person alone was told, once it has come.
func (w *world) toldOnly(user string) string {
	w.t.Helper()
	w.until("something is told", func() bool { return len(w.fake.Ephemerals(user)) > 0 })
	all := w.fake.Ephemerals(user)
	require.Len(w.t, all, 1)
	return all[0].Text
}

// filled waits until no back-fill runs.
func (w *world) filled() {
	w.t.Helper()
	w.until("the back-fill ends", w.app.filling.Idle)
}

// turn posts the card of an ended turn with that many calls and what is on record
// about them, and returns its ID.
func (w *world) turn(t workflows.Thread, calls int) string {
	w.t.Helper()
	trail, err := chattest.RecordTurn(w.t.Context(), w.blobs, t, 2, calls-5, grace, ada)
	require.NoError(w.t, err)
	v := workflows.MessageView{
		Key: "turn-2", Kind: workflows.KindTurn, Version: 1, Buttons: []workflows.Button{{ID: workflows.ButtonDetails, Label: "Details"}},
		Turn: &workflows.TurnView{Number: 2, State: workflows.TurnDone, Commands: calls, Trail: trail},
	}
	id, err := w.app.Poster().Post(w.t.Context(), chat.Content{WorkflowID: t.WorkflowID(), Thread: t, View: v})
	require.NoError(w.t, err)
	return id
}

// approval posts an approval card and returns its timestamp.
func (w *world) approval(t workflows.Thread, change func(*workflows.MessageView)) string {
	w.t.Helper()
	v := workflows.MessageView{
		Key: "approval-1", Kind: workflows.KindApproval, Version: 1,
		Buttons: []workflows.Button{{ID: workflows.ButtonApprove, Label: "Approve once"}, {ID: workflows.ButtonReview, Label: "Review…"}, {ID: workflows.ButtonDeny, Label: "Deny…"}},
		Approval: &workflows.ApprovalView{
			ID: t.ID + ".a1", State: workflows.ApprovalPending, Tier: "risky", Displayable: true, Editable: true, Backend: "local", Cwd: "/workspace",
			Command: workflows.TextRef{Text: "rm -rf build"}, Reasons: []string{"it deletes"}, Required: 1, Digest: "sha256:1",
			Approvers: []string{"platform-oncall"}, RequestedBy: []workflows.Actor{{ID: ada, Name: "ada"}},
		},
	}
	if change != nil {
		change(&v)
	}
	w.sessions.SetView(v)
	ts, err := w.app.Poster().Post(w.t.Context(), chat.Content{WorkflowID: t.WorkflowID(), Thread: t, View: v})
	require.NoError(w.t, err)
	return ts
}

// texts is all text in blocks, and strings of them.
func blockText(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return ""
	}
	var b strings.Builder
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if s, ok := v["text"].(string); ok {
				b.WriteString(s)
			}
			if s, ok := v["fallback"].(string); ok {
				b.WriteString(s)
			}
			for _, k := range []string{"text", "elements", "accessory", "element", "label"} {
				if _, isText := v[k].(string); !isText {
					walk(v[k])
				}
			}
			if v["type"] != "text" && v["type"] != "date" {
				b.WriteString("\n")
			}
		}
	}
	walk(v)
	return b.String()
}

// labels are the labels of the buttons in blocks.
func labels(raw json.RawMessage) []string {
	var list []struct {
		Type     string
		Elements []struct {
			Type string
			Text struct{ Text string }
		}
	}
	_ = json.Unmarshal(raw, &list)
	var out []string
	for _, b := range list {
		for _, e := range b.Elements {
			if b.Type == "actions" && e.Type == "button" {
				out = append(out, e.Text.Text)
			}
		}
	}
	return out
}

// mentioned are the people, groups and places that a text mentions.
func mentioned(text string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`<(?:@|!subteam\^|!)(channel|here|everyone|[US][A-Z0-9]+)`).FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// pings are the mentions in a message's text and blocks.
func pings(m slackfake.Message) []string {
	out := mentioned(m.Text)
	blocks := string(m.Blocks)
	for _, p := range []string{`"type":"user"`, `"type":"usergroup"`, `"type":"broadcast"`} {
		if strings.Contains(blocks, p) {
			out = append(out, p)
		}
	}
	if strings.Contains(blocks, `"type":"markdown"`) || strings.Contains(blocks, `"type":"mrkdwn"`) {
		out = append(out, mentioned(blockText(m.Blocks))...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
