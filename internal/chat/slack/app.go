package slack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slack-go/slack"
	"golang.org/x/sync/singleflight"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// ErrRefused: Slack or this adapter refuses the installation, and trying again
// changes nothing. The error's text says what to fix.
var ErrRefused = errors.New("slack refuses this installation")

// Config says how to reach Slack and who may do what there. The zero value of a
// field is its default.
type Config struct {
	BotToken telemetry.Secret
	AppToken telemetry.Secret
	// Mode is "socket", the default, or [ModeHTTP], which needs SigningSecret and
	// Listen, host:port.
	Mode          string
	SigningSecret telemetry.Secret
	Listen        string
	// APIURL is the Web API's base and ends in /api/; empty is Slack's own.
	APIURL string
	// MentionsOnly: in channels only messages that mention the bot are messages to
	// a session. By default all replies in its thread are.
	MentionsOnly bool
	// Channels are the IDs of channels where sessions may start; empty is all.
	// Direct messages are not restricted by it.
	Channels []string
	// Starters are the IDs of people and the IDs or handles of groups who may
	// start sessions; empty is everybody.
	Starters []string
	// AllowGuests and AllowExternal let guests, and people from other
	// organisations in shared channels, start and drive sessions. They never count
	// as approvers.
	AllowGuests   bool
	AllowExternal bool
	// Roots are the roots that `switch local` offers.
	Roots []string
	// Approvers are the approver names of the configuration, for [Doctor].
	Approvers []string
	// Backfill is how far back live threads are read after a start; 0 or less reads
	// nothing. After a reconnect what the gap hid is read.
	Backfill time.Duration
	// Away, if set, is since when this bot has not been able to receive: Backfill is
	// how far back from there is read, 0 or less the gap alone.
	Away time.Time
	// Sockets is how many connections a bot holds, so that one that Slack renews
	// leaves no gap; 0 is 2. Slack allows an app 10.
	Sockets int
	// Silence is how long a connection may be silent before it counts as dead; 0
	// is 30 seconds. Slack pings more often.
	Silence time.Duration
	// Earlier is how many messages of a thread are read that stood there before a
	// mention called the bot into it; 0 reads none.
	Earlier int
	// StatusPace is the time between two settings of an agent session's status; 0 is
	// 1.5 s.
	StatusPace time.Duration
	// Pace is the time between two calls of the back-fill; 0 is 1.5 s, which
	// leaves others half of what Slack allows.
	Pace time.Duration
}

func (cfg Config) withDefaults() Config {
	if cfg.APIURL == "" {
		cfg.APIURL = SlackAPI
	}
	if cfg.Sockets == 0 {
		cfg.Sockets = 2
	}
	if cfg.Silence == 0 {
		cfg.Silence = 30 * time.Second
	}
	if cfg.Pace == 0 {
		cfg.Pace = pace
	}
	if cfg.StatusPace == 0 {
		cfg.StatusPace = statusPace
	}
	return cfg
}

// SlackAPI is the base of Slack's Web API.
const SlackAPI = slack.APIURL

// Deps are what the adapter works with.
type Deps struct {
	Sessions chat.Sessions
	Views    chat.Views
	Blobs    chat.Blobs
	// Board may be nil; then the App Home knows less about what waits.
	Board Board
	// Backends are those that can be used here, the default first.
	Backends []string
	// Workspaces is [chat.Router.Workspaces].
	Workspaces []string
	// Allow is asked after the adapter's own rules; see [chat.Router.Allow].
	Allow func(ctx context.Context, by workflows.Actor, verb chat.Verb, t workflows.Thread) *chat.Error
	// Outputs is [chat.Router.Outputs].
	Outputs func(workflowID string) chat.OutputReader
	// Mask is [chat.Router.Mask].
	Mask *mask.Masker
	Log  *slog.Logger
	// Reach is told whether Slack's events arrive.
	Reach chat.Reach
	// HTTP is used for all calls; nil is a client with a time-out of 20 s.
	HTTP *http.Client
}

// App serves one installation. Make it with [Connect], run it with [App.Run];
// its methods are safe for concurrent use.
type App struct {
	cfg  Config
	dep  Deps
	api  *api
	self identity
	log  *slog.Logger

	people  *people
	reader  reader
	taken   *memory[string, bool]
	flights singleflight.Group
	// restores are of cards that were deleted, by their thread.
	restores chat.Rerun
	roots    *memory[string, bool]
	// opened are the threads whose root this bot posted.
	opened  *memory[string, bool]
	members *memory[string, bool]
	// answers are the response_urls of commands that asked for a session, by the
	// request's ID. Another bot that opens the thread does without.
	answers *memory[string, string]

	// plain routes commands and clicks, mention what addresses us and may start a
	// session where it stands, reply what only may be meant for one.
	plain, mention, reply *chat.Router

	agents *agents
	homes  homes
	// shared are the channels that somebody is in with the bot.
	shared *memory[string, map[string]bool]

	filling chat.Backfill
	sockets sockets
	// waiting are the events that wait for another try, retries how many.
	waiting *memory[string, bool]
	retries chan struct{}
	token   *chat.TokenWatch
	// closing is closed when the app ends.
	closing chan struct{}
	wg      chat.Tasks
}

// identity is who the bot token speaks for.
type identity struct {
	Team       string `json:"team_id"`
	TeamName   string `json:"team"`
	User       string `json:"user_id"`
	UserName   string `json:"user"`
	Bot        string `json:"bot_id"`
	URL        string `json:"url"`
	Enterprise string `json:"enterprise_id"`
	OrgWide    bool   `json:"is_enterprise_install"`
}

// Connect asks Slack who the token speaks for. An error that wraps [ErrRefused]
// stays until somebody changes something; others pass, and one that wraps a
// [chat.RateLimitedError] says when to ask again.
func Connect(ctx context.Context, cfg Config, dep Deps) (*App, error) {
	cfg = cfg.withDefaults()
	if dep.Log == nil {
		dep.Log = slog.New(slog.DiscardHandler)
	}
	if !strings.HasSuffix(cfg.APIURL, "/api/") {
		return nil, fmt.Errorf("%w: slack.api_url %q does not end in /api/", ErrRefused, cfg.APIURL)
	}
	a := &App{
		cfg: cfg, dep: dep, api: newAPI(cfg, dep.HTTP), log: dep.Log.With(telemetry.KeyPlatform, workflows.PlatformSlack),
		taken: newMemory[string, bool](), roots: newMemory[string, bool](), opened: newMemory[string, bool](), members: newMemory[string, bool](), answers: newMemory[string, string](), shared: newMemory[string, map[string]bool](),
		waiting: newMemory[string, bool](), retries: make(chan struct{}, maxWaiting), closing: make(chan struct{}),
	}
	a.wg.Log = a.log
	id, _, err := a.api.identify(ctx)
	if err != nil {
		return nil, err
	}
	a.self = id
	a.token = chat.NewTokenWatch(callTimeout, a.tokenRefused)
	a.api.gate.refused = a.token.Look
	a.agents = newAgents(a)
	a.people = newPeople(a.api, id)
	a.reader = a.newReader()
	a.routers()
	return a, nil
}

func newAPI(cfg Config, client *http.Client) *api {
	g := newGate(cfg.APIURL, client)
	return &api{
		Client: slack.New(cfg.BotToken.Reveal(), slack.OptionAppLevelToken(cfg.AppToken.Reveal()),
			slack.OptionAPIURL(cfg.APIURL), slack.OptionHTTPClient(g)),
		gate: g, token: cfg.BotToken.Reveal(),
	}
}

// orgWide is said about an installation for a whole organisation.
const orgWide = "this app is installed for a whole organisation (Enterprise Grid); Countersign serves single workspaces for now. " +
	"Install it to the workspace itself and use that installation's bot token"

// identify asks who the bot token speaks for, and returns the answer's headers,
// which name the token's scopes.
func (a *api) identify(ctx context.Context) (identity, http.Header, error) {
	var id identity
	header, err := a.call(ctx, "auth.test", url.Values{}, &id)
	switch c := code(err); {
	case slices.Contains(badToken(), c):
		return id, header, fmt.Errorf("%w: slack.bot_token is not valid (%s): copy the Bot User OAuth Token, xoxb-…, from the app's page “OAuth & Permissions”", ErrRefused, c)
	case err != nil:
		return id, header, fmt.Errorf("asking Slack who the bot token speaks for: %w", mapped(err))
	case id.OrgWide || strings.HasPrefix(id.Team, "E"):
		return id, header, fmt.Errorf("%w: %s", ErrRefused, orgWide)
	case id.Team == "" || id.User == "":
		return id, header, fmt.Errorf("%w: the token names no workspace; is it a bot token, xoxb-…?", ErrRefused)
	}
	return id, header, nil
}

// Team is the installation's team, which names the chat queues:
// [workflows.Thread.PostQueue] and [workflows.Thread.EditQueue] of [App.Queues].
func (a *App) Team() string { return a.self.Team }

// Queues are the task queues to serve with a [chat.Delivery] over
// [App.Poster]: posts and edits.
func (a *App) Queues() (post, edit string) {
	t := workflows.Thread{Platform: workflows.PlatformSlack, Team: a.self.Team}
	return t.PostQueue(), t.EditQueue()
}

// Poster is what the sessions' messages are delivered through.
func (a *App) Poster() chat.Poster { return &poster{app: a} }

// Run receives until ctx ends, then lets what it is working on finish. It may be
// called once. An error means that Slack refuses one of the tokens, now or after a
// while, or, in HTTP mode, that the port cannot be listened on.
func (a *App) Run(ctx context.Context) error {
	receive := a.receive
	if a.cfg.Mode == ModeHTTP {
		receive = a.serve
	}
	actx, cancel := context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { a.agents.run(actx) })
	beside.Go(func() {
		select {
		case err := <-a.token.Refused():
			cancel(err)
		case <-actx.Done():
		}
	})
	err := receive(actx)
	cancel(nil)
	beside.Wait()
	if refused := context.Cause(actx); err == nil && errors.Is(refused, ErrRefused) {
		err = refused
	}
	close(a.closing)
	a.wg.Wait()
	return err
}

// tokenRefused asks Slack who the bot's token speaks for. The error says that it is not
// valid any more.
func (a *App) tokenRefused(ctx context.Context) error {
	_, _, err := a.api.identify(ctx)
	if errors.Is(err, ErrRefused) {
		return err
	}
	return nil
}

// thread is a thread of the installation.
func (a *App) thread(channel, ts string) workflows.Thread {
	return workflows.Thread{Platform: workflows.PlatformSlack, Team: a.self.Team, Channel: channel, ID: ts}
}

// link is the address of a thread.
func (a *App) link(t workflows.Thread) string {
	if a.self.URL == "" || t.Channel == "" || t.ID == "" {
		return ""
	}
	return strings.TrimSuffix(a.self.URL, "/") + "/archives/" + t.Channel + "/p" + strings.ReplaceAll(t.ID, ".", "")
}

// background runs what outlives the event that asked for it.
func (a *App) background(ctx context.Context, within time.Duration, f func(context.Context)) {
	a.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
		defer cancel()
		f(ctx)
	})
}
