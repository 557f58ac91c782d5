package discord

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/chattest"
	"github.com/countersign/countersign/internal/chat/chattest/discordfake"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// People and places of the fake.
const (
	ada     = discordfake.Ada
	grace   = discordfake.Grace
	guild   = discordfake.Guild
	general = discordfake.General
	bot     = "<@" + discordfake.BotUser + ">"
	oncall  = "1000000000000000041"
)

// world is a running adapter in front of a fake Discord and stand-in sessions.
type world struct {
	t        *testing.T
	fake     *discordfake.Server
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
	fake   discordfake.Options
	config func(*Config)
	before func(*world)
	// still does not run the adapter.
	still bool
}

func start(t *testing.T, set setup) *world {
	t.Helper()
	set.fake.NoRates = set.fake.Buckets == nil
	w := &world{
		t: t, fake: discordfake.New(set.fake), blobs: &chattest.Blobs{}, live: map[string]bool{},
		sessions: &stand{Sessions: &chattest.Sessions{}, state: map[string]workflows.TurnState{}},
	}
	t.Cleanup(w.fake.Close)
	w.fake.AddRole(guild, discordfake.Role{ID: oncall, Name: "platform-oncall", Mentionable: true})
	w.sessions.Fail = w.fail
	if set.before != nil {
		set.before(w)
	}
	cfg := Config{
		Token: telemetry.NewSecret(w.fake.Token()), APIURL: w.fake.URL(), GatewayURL: w.fake.GatewayURL(),
		Pace: time.Millisecond,
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
			w.guarded()
		}
	})
	return w
}

// guarded: whatever the test was about, every message that was created or edited,
// answers to interactions too, says itself whom it may ping. Without that Discord
// reads the text again and pings whom it names.
func (w *world) guarded() {
	w.t.Helper()
	type message struct {
		Mentions map[string][]string `json:"allowed_mentions"`
		Flags    int                 `json:"flags"`
	}
	for _, c := range w.fake.Calls("") {
		var m message
		switch c.Route {
		case "POST /channels/{channel}/messages", "PATCH /channels/{channel}/messages/{message}", "POST /webhooks/{app}/{token}", "PATCH /webhooks/{app}/{token}/messages/{message}":
			require.NoError(w.t, json.Unmarshal(c.Body, &m), c.Route)
			if c.Route == "POST /channels/{channel}/messages" {
				require.NotZero(w.t, m.Flags&flagNoPreviews, "links in it make previews: %s", c.Body)
			}
		case "POST /interactions/{interaction}/{token}/callback":
			var first struct {
				Type int     `json:"type"`
				Data message `json:"data"`
			}
			require.NoError(w.t, json.Unmarshal(c.Body, &first), c.Route)
			if first.Type != respondMessage {
				continue
			}
			m = first.Data
		default:
			continue
		}
		parse, given := m.Mentions["parse"]
		require.True(w.t, given && parse != nil && len(parse) == 0, "%s pings whom its text names: %s", c.Route, c.Body)
	}
}

func (w *world) run() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	done, app := make(chan error, 1), w.app
	go func() { done <- app.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		require.NoError(w.t, <-done)
	})
	w.until("a connection", w.fake.Gateway().Ready)
	w.until("commands", func() bool { return len(w.fake.Commands("")) > 0 || len(w.app.cfg.Guilds) > 0 })
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

func (w *world) setDown(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = err
}

func (w *world) refused() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// session makes a live session in a thread that was opened from a message of
// ada's to the bot.
func (w *world) session() workflows.Thread {
	id := w.fake.Quiet(ada, general, bot+" do something")
	w.fake.OpenThread(ada, general, id, "do something")
	return w.sessionIn(general, id)
}

func (w *world) sessionIn(parent, id string) workflows.Thread {
	t := w.app.thread(guild, parent, id)
	w.sessions.set(t, workflows.TurnState{Header: workflows.HeaderView{Title: "do something", Backend: "local", Liveness: workflows.LivenessActive}})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.live[t.WorkflowID()] = true
	return t
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

// toldOnly is the only thing that a person alone was told, once it has come.
func (w *world) toldOnly(user string) string {
	w.t.Helper()
	told := func() []discordfake.Message {
		return slices.DeleteFunc(w.fake.Ephemerals(user), func(m discordfake.Message) bool { return m.Loading() })
	}
	w.until("something is told", func() bool { return len(told()) > 0 })
	all := told()
	require.Len(w.t, all, 1)
	return all[0].Content
}

// last is the newest message of ours in a channel, once there is one.
func (w *world) last(channel string) discordfake.Message {
	w.t.Helper()
	ours := func() []discordfake.Message {
		return slices.DeleteFunc(w.fake.Messages(channel), func(m discordfake.Message) bool { return m.Author != discordfake.BotUser })
	}
	w.until("a message of ours", func() bool { return len(ours()) > 0 })
	all := ours()
	return all[len(all)-1]
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

// approval posts an approval card and returns its ID.
func (w *world) approval(t workflows.Thread, change func(*workflows.MessageView)) string {
	w.t.Helper()
	v := workflows.MessageView{
		Key: "approval-1", Kind: workflows.KindApproval, Version: 1,
		Buttons: []workflows.Button{{ID: workflows.ButtonApprove, Label: "Approve once"}, {ID: workflows.ButtonReview, Label: "Review…"}, {ID: workflows.ButtonDeny, Label: "Deny…"}},
		Approval: &workflows.ApprovalView{
			ID: t.ID + ".a1", State: workflows.ApprovalPending, Tier: "risky", Displayable: true, Editable: true, Backend: "local", Cwd: "/workspace",
			Command: workflows.TextRef{Text: "rm -rf build"}, Reasons: []string{"it deletes"}, Required: 1, Digest: "sha256:0123456789abcdef0123",
			Approvers: []string{"platform-oncall"}, RequestedBy: []workflows.Actor{{ID: ada, Name: "ada"}},
		},
	}
	if change != nil {
		change(&v)
	}
	w.sessions.SetView(v)
	id, err := w.app.Poster().Post(w.t.Context(), chat.Content{WorkflowID: t.WorkflowID(), Thread: t, View: v})
	require.NoError(w.t, err)
	return id
}
