package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/gorilla/websocket"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
)

// fatal are the close codes after which connecting again is useless (Gateway
// Close Event Codes), with what to do.
func fatal() map[int]string {
	return map[int]string{
		4004: "discord.token is not valid: copy it from the application's page “Bot”",
		4010: "the shard is wrong",
		4011: "the bot is in too many servers for one connection; sharding is not supported",
		4012: "the gateway's version is not supported any more",
		4013: "the intents are invalid",
		4014: "the application lacks an intent: switch on “Message Content Intent” on its page “Bot”, or set discord.message_content to false",
	}
}

const (
	// backoffMost is the longest pause between two connections: identifying stays
	// below the 1,000 a day that Discord allows before it resets the token.
	backoffMost = 2 * time.Minute
	// unreachedMost is the longest pause while no connection is made at all.
	unreachedMost = time.Minute
	// startsLeft is how many sessions a day are left for others: people who look for
	// what is wrong, and other bots of the application.
	startsLeft = 20
	// startsAgain is the longest time between two looks whether one may be begun.
	startsAgain = 10 * time.Minute
	// settled is how long a connection must have lasted to be taken for a good one.
	settled = time.Minute
	// unstick is how long a connection that was cut may take to notice.
	unstick = 3 * time.Second
)

// receive holds the connection until ctx ends or Discord refuses it.
func (a *App) receive(ctx context.Context) error {
	pause, start := chat.Backoff{First: time.Second, Most: backoffMost}, time.Now()
	heard := chat.Missed(a.cfg.Away, a.cfg.Backfill)
	for {
		if a.awaitStart(ctx) != nil {
			return nil
		}
		l, err := a.newLink(ctx, heard)
		if err != nil {
			return err
		}
		began := time.Now()
		err = l.hold(ctx)
		if heard = l.since(); heard.IsZero() {
			heard = start // there is a gap now
		}
		if errors.Is(err, ErrRefused) {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		a.lost(err)
		if time.Since(began) > settled {
			pause.Reset()
		}
		wait := pause.Next()
		if !l.conns.ever() {
			wait = min(wait, unreachedMost)
		}
		if limited := (*chat.RateLimitedError)(nil); errors.As(err, &limited) {
			wait = max(wait, limited.RetryAfter)
		}
		if sleep(ctx, wait) != nil {
			return nil
		}
	}
}

// lost takes note that Discord's events do not arrive. That is said once, and once more
// after a connection that was one: it is tried again for as long as Discord is away.
func (a *App) lost(err error) {
	a.dep.Reach.Tell(err)
	level := slog.LevelWarn
	if a.away.Swap(true) {
		level = slog.LevelDebug
	}
	a.log.Log(context.Background(), level, "No connection to Discord", telemetry.KeyError, err)
}

func (a *App) reached() {
	a.away.Store(false)
	a.dep.Reach.Tell(nil)
}

// awaitStart waits while the application has begun so many sessions today that another
// one may cost it its token. What cannot be asked is not waited for.
func (a *App) awaitStart(ctx context.Context) error {
	for {
		var g struct {
			Limit *struct {
				Remaining int   `json:"remaining"`
				Reset     int64 `json:"reset_after"` // milliseconds
			} `json:"session_start_limit"`
		}
		err := a.api.call(ctx, http.MethodGet, "/gateway/bot", nil, &g)
		if err != nil || g.Limit == nil || g.Limit.Remaining > startsLeft {
			return ctx.Err()
		}
		again := time.Duration(g.Limit.Reset) * time.Millisecond
		a.lost(fmt.Errorf("only %d more connections may be opened in the next %s; does a bot restart again and again?", g.Limit.Remaining, again.Round(time.Second)))
		if err := sleep(ctx, min(max(again, time.Second), startsAgain)); err != nil {
			return err
		}
	}
}

// link is one gateway session of discordgo's, resumed over as many connections
// as it lasts. When it is stuck it is left behind and another one begins.
type link struct {
	app     *App
	session *discordgo.Session
	conns   conns
	ended   chan struct{}
	// heard is when the last event came; before the first one from stands for it.
	heard atomic.Pointer[time.Time]
	from  time.Time
}

func (a *App) newLink(ctx context.Context, heard time.Time) (*link, error) {
	l := &link{app: a, ended: make(chan struct{}, 1), from: heard}
	s, err := discordgo.New("Bot " + strings.TrimPrefix(a.cfg.Token.Reveal(), "Bot "))
	if err != nil {
		return nil, fmt.Errorf("making a Discord client: %w", err)
	}
	s.LogLevel, s.UserAgent = quiet, userAgent
	s.StateEnabled, s.SyncEvents, s.ShouldReconnectOnError, s.ShouldReconnectVoiceOnSessionError = false, true, false, false
	s.ShouldRetryOnRateLimit, s.MaxRestRetries = false, 0
	s.Client = &http.Client{Timeout: callTimeout, Transport: gatewayAddress{a}}
	s.Dialer = &websocket.Dialer{Proxy: http.ProxyFromEnvironment, HandshakeTimeout: a.cfg.OpenWithin, NetDialContext: l.conns.dial}
	s.Identify.Intents = discordgo.IntentsGuilds | discordgo.IntentsGuildMessages | discordgo.IntentsDirectMessages
	if !a.cfg.NoMessageContent {
		s.Identify.Intents |= discordgo.IntentsMessageContent
	}
	s.AddHandler(func(_ *discordgo.Session, e *discordgo.Event) { l.event(ctx, e) })
	s.AddHandler(func(*discordgo.Session, *discordgo.Disconnect) {
		select {
		case l.ended <- struct{}{}:
		default:
		}
	})
	l.session = s
	return l, nil
}

// hold opens the connection, and again after each end, until it is stuck, refused
// or ctx ends.
func (l *link) hold(ctx context.Context) error {
	failures, pause := 0, time.Duration(0)
	for {
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		began := time.Now()
		err := l.open(ctx)
		switch {
		case ctx.Err() != nil:
			l.close()
			return ctx.Err()
		case err != nil && (failures > 1 || !errors.Is(err, errTryAgain)):
			l.conns.cut()
			return err
		case err != nil:
			failures++
			pause = time.Second
			continue
		}
		failures = 0
		if err := l.watch(ctx); err != nil {
			return err
		}
		l.app.dep.Reach.Tell(errEnded)
		if time.Since(began) > settled {
			pause = 0
		} else {
			pause = min(2*pause+time.Second/4, backoffMost)
		}
	}
}

// errTryAgain: the connection did not open, but its session may still be resumed.
var errTryAgain = errors.New("the connection did not open")

// errEnded: the connection ended, by Discord's wish or not, and is resumed.
var errEnded = errors.New("the connection ended")

// open opens a connection. discordgo may block in it for ever: when the server
// asks for a reconnect in the middle, or says nothing.
func (l *link) open(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- l.session.Open() }()
	timer := time.NewTimer(l.app.cfg.OpenWithin)
	defer timer.Stop()
	var err error
	select {
	case err = <-done:
	case <-timer.C:
		return l.stuck(done, fmt.Errorf("the connection did not open within %s", l.app.cfg.OpenWithin))
	case <-ctx.Done():
		return l.stuck(done, ctx.Err())
	}
	var closed *websocket.CloseError
	switch {
	case err == nil, errors.Is(err, discordgo.ErrWSAlreadyOpen):
		return nil
	case errors.As(err, &closed) && fatal()[closed.Code] != "":
		return fmt.Errorf("%w (%d): %s", ErrRefused, closed.Code, fatal()[closed.Code])
	}
	return fmt.Errorf("%w: %w", errTryAgain, err)
}

// stuck cuts the connection under an opening that does not end.
func (l *link) stuck(done <-chan error, err error) error {
	l.conns.cut()
	select {
	case <-done:
	case <-time.After(unstick):
		l.app.log.Warn("A connection to Discord is stuck and left behind")
	}
	return err
}

// watch waits until the connection ends, or ends it: when heartbeats stay
// unanswered, or when ctx does. The connection is cut without a closing frame,
// which would end the session too.
func (l *link) watch(ctx context.Context) error {
	tick := time.NewTicker(max(l.app.cfg.Silence/10, 10*time.Millisecond))
	defer tick.Stop()
	locked, heard, ack := time.Now(), time.Now(), time.Time{}
	for {
		select {
		case <-l.ended:
			return nil
		case <-ctx.Done():
			l.close()
			return ctx.Err()
		case <-tick.C:
		}
		last := locked
		if l.session.TryRLock() {
			locked = time.Now()
			// Its own time is the wall clock's, which may be set meanwhile.
			if now := l.session.LastHeartbeatAck; !now.Equal(ack) {
				ack, heard = now, locked
			}
			l.session.RUnlock()
			last = heard
		}
		if time.Since(last) < l.app.cfg.Silence {
			continue
		}
		l.app.log.Warn("Discord answers no heartbeat", "since", last.UTC().Format(time.RFC3339))
		l.conns.cut()
		select {
		case <-l.ended:
			return nil
		case <-time.After(unstick):
			return errors.New("a connection that was cut did not end")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// close ends the session for good; it is not waited for when it is stuck.
func (l *link) close() {
	done := make(chan struct{})
	go func() {
		_ = l.session.Close() // the connection is given up either way
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(unstick):
	}
	l.conns.cut()
}

// since is when the last event came.
func (l *link) since() time.Time {
	if at := l.heard.Load(); at != nil {
		return *at
	}
	return l.from
}

// event takes a dispatch of the gateway. discordgo calls it in order, one at a
// time; the work is done beside it.
func (l *link) event(ctx context.Context, e *discordgo.Event) {
	before, now := l.since(), time.Now()
	l.heard.Store(&now)
	a := l.app
	data := slices.Clone(e.RawData)
	switch e.Type {
	case "READY":
		a.log.Info("Connected to Discord")
		a.reached()
		if !before.IsZero() {
			a.fill(ctx, a.api.clock.When(before).Add(-overlap))
		}
		return
	case "RESUMED":
		a.log.Info("Connection to Discord resumed")
		a.reached()
		return
	}
	handle := a.handler(e.Type)
	if handle == nil {
		return
	}
	select {
	case a.work <- struct{}{}:
	case <-a.closing:
		return
	}
	a.wg.Go(func() {
		defer func() { <-a.work }()
		handle(context.WithoutCancel(ctx), data)
	})
}

// overlap is how much further back than the last event the back-fill reads.
const overlap = 10 * time.Second

// handler is what takes an event; nil for one that is nothing to us.
func (a *App) handler(name string) func(context.Context, json.RawMessage) {
	switch name {
	case "INTERACTION_CREATE":
		return a.interactionEvent
	case "MESSAGE_CREATE":
		return a.messageCreated
	case "MESSAGE_UPDATE":
		return a.messageEdited
	case "MESSAGE_DELETE":
		return a.messageDeleted
	case "MESSAGE_DELETE_BULK":
		return a.messagesDeleted
	case "GUILD_CREATE":
		return a.guildCreated
	case "GUILD_DELETE":
		return a.guildLeft
	case "CHANNEL_CREATE", "CHANNEL_UPDATE", "THREAD_CREATE", "THREAD_UPDATE":
		return a.placeChanged
	case "GUILD_ROLE_CREATE", "GUILD_ROLE_UPDATE", "GUILD_ROLE_DELETE":
		return a.rolesChanged
	}
	return nil
}

// gatewayAddress answers discordgo's question for the gateway's address: with
// what the configuration names, or what our API says.
type gatewayAddress struct{ app *App }

// RoundTrip implements [http.RoundTripper].
func (g gatewayAddress) RoundTrip(req *http.Request) (*http.Response, error) {
	answer := struct {
		URL string `json:"url"`
	}{g.app.cfg.GatewayURL}
	if answer.URL == "" {
		if err := g.app.api.call(req.Context(), http.MethodGet, "/gateway", nil, &answer); err != nil {
			return nil, err
		}
	}
	data, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(data))),
	}, nil
}

// conns are the connections that were dialled for a link: cutting them ends them
// without a word to the server.
type conns struct {
	mu   sync.Mutex
	open []net.Conn
	made bool
}

// ever reports whether the server was reached.
func (c *conns) ever() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made
}

func (c *conns) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: callTimeout}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made = true
	c.open = append(c.open[max(0, len(c.open)-1):], conn) // older ones are closed
	return conn, nil
}

func (c *conns) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		_ = conn.Close() // it may be closed already
	}
	c.open = nil
}
