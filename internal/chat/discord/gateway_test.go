package discord

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/chat/chattest/discordfake"
	"github.com/countersign/countersign/internal/workflows"
)

// taken are the texts that sessions were given.
func (w *world) texts() []string {
	var out []string
	for _, c := range w.sessions.Asked("SendMessage") {
		if m, ok := c.Arg.(workflows.Message); ok {
			out = append(out, m.Text.Text)
		}
	}
	return out
}

// TestNothingIsLost: whatever happens to the connection, a message that is written
// meanwhile reaches its session, once.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault func(*discordfake.Gateway)
		// fresh is true where the session cannot be resumed.
		fresh bool
	}{
		"cut":                   {fault: (*discordfake.Gateway).Cut},
		"asked to reconnect":    {fault: (*discordfake.Gateway).Reconnect},
		"closed":                {fault: func(g *discordfake.Gateway) { g.CloseWith(4000) }},
		"closed, no resume":     {fault: func(g *discordfake.Gateway) { g.RefuseResume(false); g.CloseWith(4009) }, fresh: true},
		"invalid session":       {fault: func(g *discordfake.Gateway) { g.Invalidate(false) }, fresh: true},
		"forgotten":             {fault: func(g *discordfake.Gateway) { g.Forget(); g.Cut() }, fresh: true},
		"op 7 while opening":    {fault: func(g *discordfake.Gateway) { g.NextReconnects(1); g.Cut() }, fresh: true},
		"op 9 while opening":    {fault: func(g *discordfake.Gateway) { g.NextInvalid(1); g.Cut() }, fresh: true},
		"closed while opening":  {fault: func(g *discordfake.Gateway) { g.NextCloses(1, 4000); g.Cut() }},
		"dropped while opening": {fault: func(g *discordfake.Gateway) { g.NextDrops(2); g.Cut() }},
		"no heartbeat acks":     {fault: func(g *discordfake.Gateway) { g.Mute(true) }},
		"frozen":                {fault: (*discordfake.Gateway).Freeze},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{
				fake:   discordfake.Options{Heartbeat: 400 * time.Millisecond},
				config: func(c *Config) { c.Silence, c.OpenWithin = 1200*time.Millisecond, 3*time.Second },
			})
			s := w.session()
			w.fake.Say(ada, s.ID, "before")
			w.until("the first message", func() bool { return len(w.texts()) == 1 })
			g := w.fake.Gateway()
			opened := g.Opened()
			c.fault(g)
			w.fake.Say(ada, s.ID, "meanwhile")
			w.until("another connection", func() bool { return name == "invalid session" || g.Opened() > opened })
			g.Mute(false)
			w.fake.Say(ada, s.ID, "after")
			w.until("all messages", func() bool { return len(w.texts()) >= 3 })
			w.filled()
			require.ElementsMatch(t, []string{"before", "meanwhile", "after"}, w.texts())
			if c.fresh {
				require.Greater(t, g.Identifies(), 1)
			} else {
				require.Equal(t, 1, g.Identifies(), "the session is resumed")
			}
		})
	}
}

func TestEventsThatComeTwice(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	s := w.session()
	w.fake.Gateway().Duplicate(true)
	w.fake.Say(ada, s.ID, "once")
	i := w.use(ada, general, "agent run", map[string]any{"task": "fix the test"})
	w.fake.Redeliver(i)
	require.Contains(t, w.said(i), "Accepted")
	w.fake.Say(ada, s.ID, "and again")
	w.until("both messages", func() bool { return len(w.texts()) >= 2 })
	require.ElementsMatch(t, []string{"once", "and again"}, w.texts())
	require.Len(t, w.sessions.Asked("RequestSession"), 1)
}

func TestBackfillAfterAStart(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true, config: func(c *Config) { c.Backfill, c.Channels = time.Hour, []string{general} }})
	s := w.session()
	for i := range 120 {
		w.fake.Quiet(ada, s.ID, fmt.Sprint("message ", i))
	}
	w.fake.Quiet(ada, s.ID, bot+" stop")
	missed := w.fake.Quiet(grace, general, bot+" and this task")
	w.run()
	w.until("all messages", func() bool { return len(w.texts()) == 120 })
	w.until("the task", func() bool { return len(w.sessions.Asked("RequestSession")) >= 1 })
	w.filled()
	require.Empty(t, w.sessions.Asked("CancelTurn"), "commands are not carried out late")
	var ids []string
	for _, c := range w.sessions.Asked("RequestSession") {
		ids = append(ids, c.Arg.(workflows.SessionRequest).ID)
	}
	require.Contains(t, ids, missed)
}

func TestRefusedForGood(t *testing.T) {
	t.Parallel()
	w := start(t, setup{still: true, fake: discordfake.Options{NoMessageContent: true}})
	err := w.app.Run(t.Context())
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "Message Content Intent")
	require.Equal(t, 1, w.fake.Gateway().Opened(), "it is not tried again")

	cfg := w.app.cfg
	cfg.ApplicationID = "1000000000000000099"
	_, err = Connect(t.Context(), cfg, w.app.dep)
	require.ErrorIs(t, err, ErrRefused)
	cfg.ApplicationID, cfg.Token = "", secret("another")
	_, err = Connect(t.Context(), cfg, w.app.dep)
	require.ErrorIs(t, err, ErrRefused)
	require.ErrorContains(t, err, "discord.token")
	require.False(t, errors.Is(errors.New("x"), ErrRefused))
}

// TestATokenThatIsReset: the bot ends with a sentence, whether it hears of it by a call
// or by its connection, after few refused calls: those count towards a ban.
func TestATokenThatIsReset(t *testing.T) {
	t.Parallel()
	for name, notice := range map[string]func(*world){
		"by a call":       func(w *world) { _, _ = w.app.lookUpPlace(t.Context(), general) },
		"by a connection": func(w *world) { w.fake.Gateway().Cut() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{still: true})
			ended := make(chan error, 1)
			go func() { ended <- w.app.Run(t.Context()) }()
			w.until("a connection", w.fake.Gateway().Ready)
			w.until("commands", func() bool { return len(w.fake.Commands("")) > 0 })
			w.fake.ResetToken()
			notice(w)
			select {
			case err := <-ended:
				require.ErrorIs(t, err, ErrRefused)
				require.ErrorContains(t, err, "discord.token is not valid")
			case <-time.After(30 * time.Second):
				t.Fatal("the bot goes on")
			}
			require.LessOrEqual(t, w.fake.Invalid(), 5)
		})
	}
}

// TestSessionStartsThatAreLeft: with few left today the bot begins no session, because
// Discord resets the token of who begins too many; it says so.
func TestSessionStartsThatAreLeft(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var told []error
	w := start(t, setup{still: true})
	w.app.dep.Reach = func(err error) { mu.Lock(); defer mu.Unlock(); told = append(told, err) }
	heard := func() []error { mu.Lock(); defer mu.Unlock(); return slices.Clone(told) }
	g := w.fake.Gateway()
	g.Spend(1000 - startsLeft)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.app.Run(ctx) }()
	w.until("it says why", func() bool { return len(heard()) == 1 })
	require.ErrorContains(t, heard()[0], "only 20 more connections")
	require.Zero(t, g.Opened())
	cancel()
	require.NoError(t, <-done)
}
