package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
	"github.com/slack-go/slack/socketmode"

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
	var wg sync.WaitGroup
	for i := range a.cfg.Sockets {
		wg.Go(func() {
			if err := a.hold(ctx, i, work); err != nil {
				cancel(err)
			}
		})
	}
	if a.cfg.Backfill > 0 {
		a.fill(ctx, a.api.gate.clock.Now().Add(-a.cfg.Backfill))
	}
	wg.Wait()
	if err := context.Cause(ctx); errors.Is(err, ErrRefused) {
		return err
	}
	return nil
}

// fatal are the codes that say that the app token itself is refused.
func fatal() []string {
	return []string{"invalid_auth", "account_inactive", "not_authed", "token_revoked", "not_allowed_token_type"}
}

// hold keeps one connection, again and again.
func (a *App) hold(ctx context.Context, i int, work chan struct{}) error {
	delay := time.Second
	for ctx.Err() == nil {
		began := time.Now()
		err := a.connection(ctx, i, work)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && slices.Contains(fatal(), err.Error()):
			return fmt.Errorf("%w: slack.app_token is not valid (%s): make an app-level token, xapp-…, with the scope connections:write under “Basic Information”", ErrRefused, err)
		}
		a.log.Warn("Connection to Slack ended", telemetry.KeyError, err, "socket", i)
		if time.Since(began) > time.Minute {
			delay = time.Second
		}
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
		delay = min(2*delay, time.Minute)
	}
	return nil
}

// connection runs one client of slack-go, which renews its connection itself.
// Its watchdog counts Slack's pings; ours, below it, every byte: a connection
// whose other end has gone is noticed by the one that looks first.
func (a *App) connection(ctx context.Context, i int, work chan struct{}) error {
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
	var connected *watched
	for {
		select {
		case err := <-done:
			return err
		case e := <-client.Events:
			if e.Type == socketmode.EventTypeConnected {
				a.log.Info("Connected to Slack", "socket", i)
				// What the connection before it has not heard: the attempts between
				// them, and this one's own beginning, brought no events.
				if connected != nil {
					a.fill(ctx, a.api.gate.clock.When(*connected.heard.Load()).Add(-overlap))
				}
				connected = dialled.Load()
			}
			a.event(ctx, client, e, work)
		}
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
	case socketmode.EventTypeConnectionError, socketmode.EventTypeIncomingError:
		a.log.Warn("Connection to Slack failed", "event", string(e.Type))
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
