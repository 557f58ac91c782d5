package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
)

// envelope is what comes over the socket. We decode payloads ourselves: an
// unknown block in a message must not keep its text from us.
type envelope struct {
	Type    string          `json:"type"`
	ID      string          `json:"envelope_id"`
	Payload json.RawMessage `json:"payload"`
	Attempt int             `json:"retry_attempt"`
	Reason  string          `json:"retry_reason"`
}

// ack answers an envelope, with a payload where Slack takes one.
type ack func(payload any)

// handlers bounds the envelopes that are worked on at a time.
const handlers = 256

// receive holds the connections until ctx ends or Slack refuses the app token.
func (a *App) receive(ctx context.Context) error {
	if !a.cfg.AppToken.IsSet() {
		return fmt.Errorf("%w: slack.app_token is not set; Socket Mode needs an app-level token, xapp-…, with the scope connections:write", ErrRefused)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan struct{}, handlers)
	began := time.Now()
	var wg sync.WaitGroup
	for i := range a.cfg.Sockets {
		wg.Go(func() {
			if err := a.hold(ctx, &socket{n: i, log: a.log, heard: began}, work); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); errors.Is(err, ErrRefused) {
		return err
	}
	return nil
}

// fatal are the codes that say that the app token itself is refused
// (docs.slack.dev/reference/methods/apps.connections.open).
func fatal() []string {
	return append(badToken(), "not_allowed_token_type", "missing_scope", "no_permission")
}

// sockets says of all connections together whether Slack's events arrive.
type sockets struct {
	first sync.Once
	mu    sync.Mutex
	open  int
}

// change takes note that a socket was opened (1), did not open (0) or was lost (-1).
func (s *sockets) change(by int, reach chat.Reach, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open += by
	switch {
	case by > 0:
		reach.Tell(nil)
	case s.open == 0:
		reach.Tell(err)
	}
}

// socket is one of the connections, over all clients that keep it.
type socket struct {
	n   int
	log *slog.Logger
	// heard is until when it has missed nothing, and open whether it is connected.
	heard time.Time
	open  bool
	// warned: it was said that it is lost.
	warned bool
}

// lost takes note that a socket is not connected, or not any more.
func (a *App) lost(s *socket, err error) {
	by := 0
	if s.open {
		by, s.open = -1, false
	}
	a.sockets.change(by, a.dep.Reach, err)
	level := slog.LevelDebug
	if !errors.Is(err, errRenewed) && !s.warned { // it is tried again for as long as Slack is away
		level, s.warned = slog.LevelWarn, true
	}
	s.log.Log(context.Background(), level, "No connection to Slack", telemetry.KeyError, err, "socket", s.n)
}

// connected reads what was missed before the start, once events arrive, and what the
// socket has missed since its end, or since the start where that took a while: the
// attempts in between, and its own beginning, brought no events.
func (a *App) connected(ctx context.Context, s *socket, again bool) {
	s.log.Info("Connected to Slack", "socket", s.n)
	s.open, s.warned = true, false
	a.sockets.change(1, a.dep.Reach, nil)
	a.sockets.first.Do(func() { a.fillMissed(ctx) })
	if again || time.Since(s.heard) > overlap {
		a.fill(ctx, a.api.gate.clock.When(s.heard).Add(-overlap))
	}
}

// hold keeps one connection, again and again.
func (a *App) hold(ctx context.Context, s *socket, work chan struct{}) error {
	pause := chat.Backoff{First: time.Second, Most: time.Minute}
	again := false
	for {
		began := time.Now()
		was, err := a.connection(ctx, s, again, work)
		again = again || was
		if ctx.Err() != nil {
			return nil
		}
		if slices.Contains(fatal(), code(err)) {
			return fmt.Errorf("%w: slack.app_token is not valid (%s): make an app-level token, xapp-…, with the scope connections:write under “Basic Information”", ErrRefused, err)
		}
		a.lost(s, err)
		if was && time.Since(began) > time.Minute {
			pause.Reset()
		}
		wait := pause.Next()
		if limited := (*slack.RateLimitedError)(nil); errors.As(err, &limited) {
			wait = max(wait, limited.RetryAfter)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// connection runs one client of slack-go, which renews its connection itself. It ends
// with the first attempt to connect that fails, for slack-go would go on ever more
// slowly, up to a try in five minutes; and with a connection that did not last, for
// slack-go would open the next one at once. Its watchdog counts Slack's pings; ours, below it, every
// byte: a connection whose other end has gone is noticed by the one that looks first.
// It reports whether it ever was connected.
func (a *App) connection(ctx context.Context, s *socket, again bool, work chan struct{}) (was bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var dialled atomic.Pointer[watched]
	dialer := &websocket.Dialer{
		Proxy: http.ProxyFromEnvironment, HandshakeTimeout: 15 * time.Second,
		WriteBufferSize: 32 << 10, // Slack takes no fragmented frames; see slack-go
		NetDialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{Timeout: 15 * time.Second}).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			w := &watched{Conn: c, silence: a.cfg.Silence + a.cfg.Silence/2}
			w.hear()
			dialled.Store(w)
			return w, nil
		},
	}
	client := socketmode.New(a.api.Client, socketmode.OptionDialer(dialer), socketmode.OptionPingInterval(a.cfg.Silence))
	done := make(chan error, 1)
	go func() { done <- client.RunContext(ctx) }()
	var conn *watched
	var opened time.Time
	for {
		select {
		case err := <-done:
			s.hears(conn)
			return was, err
		case e := <-client.Events:
			switch e.Type {
			case socketmode.EventTypeConnecting:
				if s.hears(conn); s.open {
					a.lost(s, errRenewed)
				}
				if conn != nil && time.Since(opened) < lasted {
					return was, errSoon
				}
				conn = nil
			case socketmode.EventTypeConnectionError:
				if failed, ok := e.Data.(*slack.ConnectionErrorEvent); ok {
					return was, failed.ErrorObj
				}
			case socketmode.EventTypeConnected:
				a.connected(ctx, s, again || was)
				was, conn, opened = true, dialled.Load(), time.Now()
			}
			a.event(ctx, client, e, work)
		}
	}
}

// errRenewed: the connection ended, by Slack's wish or not, and another one is opened.
var errRenewed = errors.New("the connection ended")

// errSoon is what an app is told with that has too many connections, for one.
var errSoon = errors.New("the connection ended soon after it was opened; has the app more than ten of them?")

// hears takes note of what a connection that has ended heard last.
func (s *socket) hears(c *watched) {
	if c != nil {
		s.heard = *c.heard.Load()
	}
}

// event takes one event of the client. Envelopes are worked on side by side: the
// sessions order messages by their own identity.
func (a *App) event(ctx context.Context, client *socketmode.Client, e socketmode.Event, work chan struct{}) {
	env, ok := a.open(e)
	if !ok {
		return
	}
	select {
	case work <- struct{}{}:
	case <-ctx.Done():
		return
	}
	a.wg.Go(func() {
		defer func() { <-work }()
		var once sync.Once
		a.handle(context.WithoutCancel(ctx), env, func(payload any) {
			once.Do(func() {
				actx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ackWithin)
				defer cancel()
				if err := client.AckCtx(actx, env.ID, payload); err != nil {
					a.log.Warn("Envelope could not be acknowledged", telemetry.KeyError, err, "envelope", env.ID)
				}
			})
		})
	})
}

// open finds the envelope in an event. slack-go gives none for a payload that it
// cannot decode; the raw message has it.
func (a *App) open(e socketmode.Event) (envelope, bool) {
	switch e.Type {
	case socketmode.EventTypeEventsAPI, socketmode.EventTypeSlashCommand, socketmode.EventTypeInteractive:
		r := e.Request
		return envelope{Type: r.Type, ID: r.EnvelopeID, Payload: r.Payload, Attempt: r.RetryAttempt, Reason: r.RetryReason}, true
	case socketmode.EventTypeErrorBadMessage:
		bad, _ := e.Data.(*socketmode.ErrorBadMessage)
		var env envelope
		if bad == nil || json.Unmarshal(bad.Message, &env) != nil || env.ID == "" {
			a.log.Warn("Message from Slack cannot be read")
			return env, false
		}
		return env, true
	case socketmode.EventTypeErrorWriteFailed:
		a.log.Warn("Acknowledgement was not sent; Slack repeats the event")
	}
	return envelope{}, false
}

// watched is a connection that ends when it has been silent for too long.
type watched struct {
	net.Conn
	silence time.Duration
	// heard is when the last byte came.
	heard atomic.Pointer[time.Time]
}

func (w *watched) hear() {
	now := time.Now()
	w.heard.Store(&now)
}

func (w *watched) Read(b []byte) (int, error) {
	if err := w.SetReadDeadline(time.Now().Add(w.silence)); err != nil {
		return 0, err
	}
	n, err := w.Conn.Read(b)
	if n > 0 {
		w.hear()
	}
	return n, err
}

// handle takes an envelope to the sessions.
func (a *App) handle(ctx context.Context, env envelope, ack ack) {
	switch env.Type {
	case "events_api":
		a.eventsAPI(ctx, env, ack)
	case "slash_commands":
		a.slash(ctx, env.Payload, ack)
	case "interactive":
		a.interactive(ctx, env.Payload, ack)
	default:
		a.log.Warn("Envelope of an unknown type", "type", env.Type)
		ack(nil)
	}
}
