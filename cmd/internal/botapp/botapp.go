// Package botapp assembles the chat side: the chat services whose tokens are
// set, and their task queues. cmd/bot runs it alone, cmd/dev beside a worker.
package botapp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
}

// App is a running bot.
type App struct {
	Options
	store  *blob.Store
	web    *web.Server
	cancel context.CancelFunc
	run    sync.WaitGroup
	queues []worker.Worker
	failed chan error
}

// Start serves the chat services until Stop.
func Start(ctx context.Context, o Options) (*App, error) {
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
	served := false
	if a.Dev || len(a.Config.Web.Tokens) > 0 {
		if err := a.startWeb(run, sessions); err != nil {
			return err
		}
		served = true
	}
	if a.Config.Slack.BotToken.IsSet() {
		if err := a.startSlack(ctx, run, sessions); err != nil {
			return err
		}
		served = true
	}
	if a.Config.Discord.Token.IsSet() {
		if err := a.startDiscord(ctx, run, sessions); err != nil {
			return err
		}
		served = true
	}
	if !served {
		return errors.New("no chat service is set up: set slack.bot_token, discord.token, or web.tokens for the browser chat (cmd/dev serves it without)")
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
	if err := a.serve(thread.PostQueue(), webPolls, delivery); err != nil {
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

// serve polls one chat queue.
func (a *App) serve(queue string, polls int, delivery *chat.Delivery) error {
	w := worker.New(a.Client, queue, worker.Options{
		DisableWorkflowWorker:            true,
		MaxConcurrentActivityTaskPollers: polls,
		MaxHeartbeatThrottleInterval:     heartbeatThrottle,
		DefaultHeartbeatThrottleInterval: heartbeatThrottle,
		WorkerStopTimeout:                a.Config.Drain.Within,
		Interceptors:                     []interceptor.WorkerInterceptor{process.Drain(a.Config.Drain.Within / 2)},
		OnFatalError:                     func(err error) { a.fail(fmt.Errorf("queue %s: %w", queue, err)) },
	})
	w.RegisterActivity(delivery)
	if err := w.Start(); err != nil {
		return fmt.Errorf("serving queue %s: %w", queue, err)
	}
	a.queues = append(a.queues, w)
	return nil
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

// Failed gives the error after which the bot serves no longer.
func (a *App) Failed() <-chan error { return a.failed }

// Stop ends the bot. Nothing is lost: what it had not finished another one
// takes up.
func (a *App) Stop() error {
	process.StopAll(a.queues)
	if a.cancel != nil {
		a.cancel()
	}
	a.run.Wait()
	if a.store != nil {
		return a.store.Close()
	}
	return nil
}
