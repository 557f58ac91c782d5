package discord

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// ErrRefused: Discord or this adapter refuses the application, and trying again
// changes nothing. The error's text says what to fix.
var ErrRefused = errors.New("discord refuses this application")

// DiscordAPI is the base of Discord's REST API.
const DiscordAPI = "https://discord.com/api/v10"

// Config says how to reach Discord and who may do what there. The zero value of a
// field is its default.
type Config struct {
	// Token is the bot's, without "Bot ".
	Token telemetry.Secret
	// ApplicationID is asked of the API when it is empty.
	ApplicationID string
	// PublicKey, hexadecimal, and Listen, host:port, receive interactions over HTTP;
	// without them they come over the gateway.
	PublicKey string
	Listen    string
	// APIURL is the base of the REST API with its version; empty is Discord's own.
	APIURL string
	// GatewayURL is the gateway to connect to; empty asks the API.
	GatewayURL string
	// NoMessageContent goes without the privileged intent: then only messages that
	// mention the bot, and commands, reach a session.
	NoMessageContent bool
	// MentionsOnly: only messages that mention the bot are messages to a session,
	// though others could be read.
	MentionsOnly bool
	// Guilds are the IDs of the servers that are served; the commands are registered
	// there, at once. Empty serves and registers everywhere.
	Guilds []string
	// Channels are the IDs of channels where sessions may start; empty is all.
	Channels []string
	// Starters are the IDs of people and the IDs or names of roles who may start
	// sessions; empty is everybody.
	Starters []string
	// AllowGuests lets guests, and members who have not passed a server's screening,
	// start and drive sessions. They never count as approvers.
	AllowGuests bool
	// Roots are the roots that `switch local` offers.
	Roots []string
	// Approvers are the approver names of the configuration, for [Doctor].
	Approvers []string
	// Backfill is how far back live threads are read after a start; 0 or less reads
	// nothing. After a lost connection what the gap hid is read.
	Backfill time.Duration
	// Away, if set, is since when this bot has not been able to receive: Backfill is
	// how far back from there is read, 0 or less the gap alone.
	Away time.Time
	// Silence is how long the gateway may leave heartbeats unanswered before the
	// connection counts as dead; 0 is 60 s. Discord asks for one every 41.25 s.
	Silence time.Duration
	// OpenWithin bounds the opening of a connection; 0 is 20 s.
	OpenWithin time.Duration
	// Pace is the time between two calls of the back-fill; 0 is 500 ms.
	Pace time.Duration
}

func (cfg Config) withDefaults() Config {
	if cfg.APIURL == "" {
		cfg.APIURL = DiscordAPI
	}
	cfg.APIURL = strings.TrimSuffix(cfg.APIURL, "/")
	if cfg.Silence == 0 {
		cfg.Silence = time.Minute
	}
	if cfg.OpenWithin == 0 {
		cfg.OpenWithin = 20 * time.Second
	}
	if cfg.Pace == 0 {
		cfg.Pace = pace
	}
	return cfg
}

// Deps are what the adapter works with.
type Deps struct {
	Sessions chat.Sessions
	Views    chat.Views
	Blobs    chat.Blobs
	// Backends are those that can be used here, the default first.
	Backends []string
	// Allow is asked after the adapter's own rules; see [chat.Router.Allow].
	Allow func(ctx context.Context, by workflows.Actor, verb chat.Verb, t workflows.Thread) *chat.Error
	// Workspaces is [chat.Router.Workspaces].
	Workspaces []string
	// Outputs is [chat.Router.Outputs].
	Outputs func(workflowID string) chat.OutputReader
	// Mask is [chat.Router.Mask].
	Mask *mask.Masker
	Log  *slog.Logger
	// Reach is told whether Discord's events arrive.
	Reach chat.Reach
	// HTTP is used for all calls; nil is a client with a time-out of 20 s.
	HTTP *http.Client
}

// App serves one application. Make it with [Connect], run it with [App.Run]; its
// methods are safe for concurrent use.
type App struct {
	cfg  Config
	dep  Deps
	api  *api
	self identity
	log  *slog.Logger

	people *people
	places *memory[channel]
	walls  *memory[channel]
	taken  *memory[taken]
	hinted *memory[bool]
	named  *memory[bool]
	// asked are the tokens of commands that asked for a session, by the request's ID.
	// Another bot that opens the thread does without.
	asked   *memory[string]
	roots   *memory[bool]
	entity  *regexp.Regexp
	flights singleflight.Group
	// restores are of cards that were deleted, by their thread.
	restores chat.Rerun
	work     chan struct{}

	// plain routes clicks and commands outside threads, mention what addresses us
	// and may start a session where it stands, reply what only may be meant for one.
	plain, mention, reply *chat.Router

	filling chat.Backfill
	// away: it was said that the connection is lost.
	away    atomic.Bool
	retries chan struct{}
	waiting *memory[bool]
	token   *chat.TokenWatch
	// closing is closed when the app ends.
	closing chan struct{}
	wg      chat.Tasks
}

// identity is who the token speaks for.
type identity struct {
	App  string
	Bot  string
	Name string
	// Flags are the application's, which say which privileged intents it has.
	Flags int
	// Key is the application's public key.
	Key string
	// Public: anybody may invite the bot to their server.
	Public bool
}

// Connect asks Discord who the token speaks for. An error that wraps [ErrRefused]
// stays until somebody changes something; others pass, and one that wraps a
// [chat.RateLimitedError] says when to ask again.
func Connect(ctx context.Context, cfg Config, dep Deps) (*App, error) {
	cfg = cfg.withDefaults()
	if dep.Log == nil {
		dep.Log = slog.New(slog.DiscardHandler)
	}
	client, err := newAPI(cfg.APIURL, cfg.Token, dep.HTTP)
	if err != nil {
		return nil, err
	}
	a := &App{
		cfg: cfg, dep: dep, api: client, log: dep.Log.With(telemetry.KeyPlatform, workflows.PlatformDiscord),
		places: newMemory[channel](), walls: newMemory[channel](), taken: newMemory[taken](), hinted: newMemory[bool](), named: newMemory[bool](), asked: newMemory[string](), roots: newMemory[bool](),
		work: make(chan struct{}, handlers), waiting: newMemory[bool](), retries: make(chan struct{}, maxWaiting),
		closing: make(chan struct{}), entity: regexp.MustCompile(entityPattern),
	}
	a.wg.Log = a.log
	if a.self, err = client.identify(ctx); err != nil {
		return nil, err
	}
	if cfg.ApplicationID != "" && cfg.ApplicationID != a.self.App {
		return nil, fmt.Errorf("%w: discord.application_id is %s, but the token is that of application %s", ErrRefused, cfg.ApplicationID, a.self.App)
	}
	a.token = chat.NewTokenWatch(callTimeout, a.tokenRefused)
	client.refused = a.token.Look
	a.people = newPeople(client)
	a.routers()
	return a, nil
}

// identify asks who the token speaks for.
func (a *api) identify(ctx context.Context) (identity, error) {
	var app struct {
		ID    string `json:"id"`
		Flags int    `json:"flags"`
		Key   string `json:"verify_key"`
		// Public is absent in answers of other servers.
		Public bool `json:"bot_public"`
	}
	err := a.call(ctx, http.MethodGet, "/applications/@me", nil, &app)
	if status(err) == http.StatusUnauthorized {
		return identity{}, fmt.Errorf("%w: discord.token is not valid: copy the token from the application's page “Bot”, or reset it there", ErrRefused)
	}
	if err != nil {
		return identity{}, fmt.Errorf("asking Discord which application the token is of: %w", err)
	}
	var me user
	if err := a.call(ctx, http.MethodGet, "/users/@me", nil, &me); err != nil {
		return identity{}, fmt.Errorf("asking Discord who the token speaks for: %w", err)
	}
	if app.ID == "" || me.ID == "" || !me.Bot {
		return identity{}, fmt.Errorf("%w: discord.token is no bot's token", ErrRefused)
	}
	return identity{App: app.ID, Bot: me.ID, Name: me.Name, Flags: app.Flags, Key: app.Key, Public: app.Public}, nil
}

// Application is the application's ID, which names the chat queue.
func (a *App) Application() string { return a.self.App }

// Queue is the task queue to serve with a [chat.Delivery] over [App.Poster].
func (a *App) Queue() string {
	return workflows.Thread{Platform: workflows.PlatformDiscord, App: a.self.App}.PostQueue()
}

// Poster is what the sessions' messages are delivered through.
func (a *App) Poster() chat.Poster { return &poster{app: a} }

// Run receives until ctx ends, then lets what it is working on finish. It may be
// called once. An error means that Discord refuses the token, now or after a while,
// or an intent, or that discord.listen cannot be listened on.
func (a *App) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.wg.Go(func() { a.registerAll(ctx) })
	a.wg.Go(func() {
		select {
		case err := <-a.token.Refused():
			cancel(err)
		case <-a.closing:
		}
	})
	err := a.both(ctx)
	if refused := context.Cause(ctx); err == nil && errors.Is(refused, ErrRefused) {
		err = refused
	}
	close(a.closing)
	a.wg.Wait()
	return err
}

// tokenRefused asks Discord who the bot's token speaks for. The error says that it is not
// valid any more.
func (a *App) tokenRefused(ctx context.Context) error {
	_, err := a.api.identify(ctx)
	if errors.Is(err, ErrRefused) {
		return err
	}
	return nil
}

// thread is a thread, or a channel when it has no ID, of a guild.
func (a *App) thread(guild, parent, id string) workflows.Thread {
	return workflows.Thread{Platform: workflows.PlatformDiscord, Team: guild, Channel: parent, ID: id, App: a.self.App}
}

// link is the address of a thread.
func (a *App) link(t workflows.Thread) string {
	if t.Team == "" || t.ID == "" {
		return ""
	}
	return "https://discord.com/channels/" + t.Team + "/" + t.ID
}

// background runs what outlives the event that asked for it.
func (a *App) background(ctx context.Context, within time.Duration, f func(context.Context)) {
	a.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
		defer cancel()
		f(ctx)
	})
}

// limit is the context of a call that Discord must answer within d.
func limit(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), d)
}
