// Package botapp assembles the chat side: the chat services whose tokens are
// set, and their task queues. cmd/bot runs it alone, cmd/dev beside a worker.
package botapp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/blob/execlog"
	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/chat/web"
	"github.com/countersign/countersign/internal/chat/web/page"
	"github.com/countersign/countersign/internal/config"
	"github.com/countersign/countersign/internal/config/datadir"
	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/workflows"
)

const (
	// heartbeatThrottle is how soon a cancelled edit notices.
	heartbeatThrottle = 500 * time.Millisecond
	// webPolls is how many posts and edits of the web chat are fetched at once; a
	// platform with a rate budget has one poller.
	webPolls = 4
)

// Options are what a bot works with.
type Options struct {
	Config *config.Config
	// Client is connected to the sessions' namespace; the caller closes it after
	// Stop.
	Client client.Client
	Dir    *datadir.Dir
	Log    *slog.Logger
	// Dev serves the web chat under one token, WebToken, that speaks for
	// everybody: cmd/dev's, or a bot on the data directory of one.
	Dev      bool
	WebToken config.Secret
	// RefusedAgain is the longest pause before a chat service that refuses the bot is
	// asked again; 0 is 5 minutes.
	RefusedAgain time.Duration
}

// App is a running bot.
type App struct {
	Options
	store  *blob.Store
	web    *web.Server
	cancel context.CancelFunc
	run    sync.WaitGroup
	failed chan error
	// services is how many chat services there are, the web chat among them.
	services int
	// standings are those of the chat services but the web chat.
	standings []*standing

	mu     sync.Mutex
	queues []worker.Worker
}

// Start serves the chat services until Stop. It waits for none of them but the web chat.
func Start(ctx context.Context, o Options) (*App, error) {
	if o.RefusedAgain == 0 {
		o.RefusedAgain = refusedAgain
	}
	a := &App{Options: o, failed: make(chan error, 4)}
	if err := a.start(ctx); err != nil {
		return nil, errors.Join(err, a.Stop())
	}
	return a, nil
}

func (a *App) start(ctx context.Context) error {
	var err error
	if a.store, err = blob.Open(ctx, a.Config.Blob.URL); err != nil {
		return err
	}
	sessions := control.New(a.Client, &control.Registry{Store: a.store})
	sessions.Namespace = a.Config.Temporal.Namespace
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.cancel = cancel
	var services []service
	if a.Config.Slack.BotToken.IsSet() {
		services = append(services, a.slackService(sessions))
	}
	if a.Config.Discord.Token.IsSet() {
		services = append(services, a.discordService(sessions))
	}
	a.services = len(services)
	if a.Dev || len(a.Config.Web.Tokens) > 0 {
		if err := a.startWeb(run, sessions); err != nil {
			return err
		}
		a.services++
	}
	if a.services == 0 {
		return errors.New("no chat service is set up: set slack.bot_token, discord.token, or web.tokens for the browser chat (cmd/dev serves it without)")
	}
	for _, s := range services {
		a.standings = append(a.standings, &standing{name: s.name, log: a.Log})
	}
	for i, s := range services {
		a.run.Go(func() { a.host(run, sessions, s, a.standings[i]) })
	}
	return nil
}

func (a *App) startWeb(run context.Context, sessions *control.Client) error {
	var err error
	a.web, err = web.New(run, web.Options{
		Dir: a.Dir.Join("web"), Listen: a.Config.Web.Listen, AnyHost: !a.Dev,
		ActAs: a.Dev, Token: a.WebToken, People: a.Config.Web.People(),
		Sessions: sessions, Blobs: a.store,
		Outputs:  a.outputs,
		Allow:    a.allow(sessions),
		Mask:     a.Config.Mask(),
		Backends: backends(a.Config), Workspaces: a.Config.Workspaces.Names(), Models: []string{a.Config.OpenAI.Model}, Offline: a.Config.OpenAI.Offline(),
		Page: page.FS, PagePolicy: page.ContentSecurityPolicy, Log: a.Log,
	})
	if err != nil {
		return err
	}
	delivery := &chat.Delivery{Poster: a.web.Poster(), Views: sessions, Blobs: a.store, Mask: a.Config.Mask(), Log: a.Log}
	thread := workflows.Thread{Platform: workflows.PlatformWeb, Team: workflows.WebTeam}
	if _, err := a.serve(thread.PostQueue(), webPolls, delivery); err != nil {
		return errors.Join(err, a.web.Close())
	}
	a.run.Go(func() {
		if err := a.web.Run(run); err != nil {
			a.fail(fmt.Errorf("web chat: %w", err))
		}
	})
	return nil
}

// outputs opens the outputs of a session.
func (a *App) outputs(workflowID string) chat.OutputReader { return execlog.New(a.store, workflowID) }

// allow says who may drive sessions, by the settings.
func (a *App) allow(sessions *control.Client) func(context.Context, workflows.Actor, chat.Verb, workflows.Thread) *chat.Error {
	rules := map[chat.Verb][]string{}
	for verb, who := range a.Config.Approvals.AccessRules() {
		rules[chat.Verb(verb)] = who
	}
	named := a.Config.Approvals.All()
	return (&chat.Authority{Approvers: chat.InSet(named), Named: named, Rules: rules, Sessions: sessions, Style: chat.PlainStyle(time.UTC)}).Allow
}

// serve polls one chat queue, until the bot stops or the worker is stopped before.
func (a *App) serve(name string, polls int, delivery *chat.Delivery) (worker.Worker, error) {
	w := newQueue(worker.New(a.Client, name, worker.Options{
		DisableWorkflowWorker:            true,
		MaxConcurrentActivityTaskPollers: polls,
		MaxHeartbeatThrottleInterval:     heartbeatThrottle,
		DefaultHeartbeatThrottleInterval: heartbeatThrottle,
		WorkerStopTimeout:                a.Config.Drain.Within,
		Interceptors:                     []interceptor.WorkerInterceptor{process.Drain(a.Config.Drain.Within / 2)},
		OnFatalError:                     func(err error) { a.fail(fmt.Errorf("queue %s: %w", name, err)) },
	}))
	w.RegisterActivity(delivery)
	if err := w.Start(); err != nil {
		return nil, fmt.Errorf("serving queue %s: %w", name, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queues = append(a.queues, w)
	return w, nil
}

// unserve stops workers of queues.
func (a *App) unserve(queues []worker.Worker) {
	process.StopAll(queues)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queues = slices.DeleteFunc(a.queues, func(w worker.Worker) bool { return slices.Contains(queues, w) })
}

func (a *App) fail(err error) {
	select {
	case a.failed <- err:
	default:
	}
}

// backends are those of this installation, the default first.
func backends(c *config.Config) []web.Backend {
	out := []web.Backend{{Name: c.Sandbox.Backend}}
	for _, name := range c.Backends() {
		if name != c.Sandbox.Backend {
			out = append(out, web.Backend{Name: name})
		}
	}
	return out
}

func (a *App) backendNames() []string {
	var names []string
	for _, b := range backends(a.Config) {
		names = append(names, b.Name)
	}
	return names
}

// WebURL is the web chat's base address, empty when it is not served.
func (a *App) WebURL() string {
	if a.web == nil {
		return ""
	}
	return a.web.URL()
}

// Link is the address that opens the web chat signed in, empty when it is not
// served.
func (a *App) Link() string {
	if a.web == nil {
		return ""
	}
	return a.web.Link()
}

// Failed gives the error after which the bot serves no longer. A chat service that
// refuses it is one only when no other is left.
func (a *App) Failed() <-chan error { return a.failed }

// Stop ends the bot. Nothing is lost: what it had not finished another one
// takes up.
func (a *App) Stop() error {
	a.mu.Lock()
	queues := slices.Clone(a.queues)
	a.mu.Unlock()
	process.StopAll(queues)
	if a.cancel != nil {
		a.cancel()
	}
	a.run.Wait()
	if a.store != nil {
		return a.store.Close()
	}
	return nil
}
