package botapp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/telemetry"
)

// retryPause is the time between two attempts to begin serving a chat service.
const retryPause = 5 * time.Second

// service is a chat service that the bot serves with a token.
type service struct {
	// name is what people call it.
	name string
	// connect asks the chat service who the token speaks for.
	connect func(context.Context) (connection, error)
	// refused is wrapped by an error that stays until somebody changes something.
	refused error
}

// connection is a chat service that has taken the token.
type connection struct {
	poster chat.Poster
	queues []pacedQueue
	// run receives until its context ends, or the chat service refuses the bot.
	run func(context.Context) error
}

// pacedQueue is a chat queue of a service, and its rate.
type pacedQueue struct {
	name string
	pace control.Pace
}

// backfill is an adapter's value of the setting: its zero is its default.
func backfill(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// host serves a chat service beside others until the bot stops: one that does not
// answer, or that refuses the bot, leaves the others alone.
func (a *App) host(run context.Context, sessions *control.Client, s service) {
	a.run.Go(func() {
		err := a.serveService(run, sessions, s)
		switch {
		case err == nil || run.Err() != nil:
		case errors.Is(err, s.refused):
			a.lose(s, err)
		default:
			a.fail(fmt.Errorf("%s: %w", s.name, err))
		}
	})
}

// serveService connects, and serves until ctx ends or an error does not pass.
func (a *App) serveService(ctx context.Context, sessions *control.Client, s service) error {
	var c connection
	err := a.insist(ctx, s.name+" does not answer yet", func(err error) bool { return !errors.Is(err, s.refused) }, func() (err error) {
		c, err = s.connect(ctx)
		return err
	})
	if err != nil {
		return err
	}
	delivery := &chat.Delivery{Poster: c.poster, Views: sessions, Blobs: a.store, Mask: a.Config.Mask(), Log: a.Log}
	var queues []worker.Worker
	defer func() { process.StopAll(queues) }()
	for _, q := range c.queues {
		a.pace(ctx, sessions, q)
		err := a.insist(ctx, "Temporal went away during the start", process.Away, func() error {
			w, err := a.serve(q.name, 1, delivery)
			if err == nil {
				queues = append(queues, w)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return c.run(ctx)
}

// queue is the worker of a chat queue. It may be stopped more than once: with its chat
// service, and with the bot.
type queue struct {
	worker.Worker
	stop func()
}

func newQueue(w worker.Worker) queue { return queue{Worker: w, stop: sync.OnceFunc(w.Stop)} }

// Stop implements [worker.Worker].
func (q queue) Stop() { q.stop() }

// insist tries until it succeeds, an error does not pass by itself, or ctx ends.
func (a *App) insist(ctx context.Context, said string, passes func(error) bool, try func() error) error {
	for {
		err := try()
		if err == nil || !passes(err) {
			return err
		}
		a.Log.Warn(said, telemetry.KeyError, err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryPause):
		}
	}
}

// pace sets a queue's rate. Without it the chat service's own answers pace the
// bot, which is slower and less fair.
func (a *App) pace(ctx context.Context, sessions *control.Client, q pacedQueue) {
	if err := sessions.SetPace(ctx, a.Config.Temporal.Namespace, q.name, q.pace); err != nil {
		a.Log.Warn("The server cannot pace a chat queue", telemetry.KeyTaskQueue, q.name, telemetry.KeyError, err)
	}
}

// lose notes that a chat service refuses the bot. The last one that is lost ends it.
func (a *App) lose(s service, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lost = append(a.lost, err)
	if len(a.lost) == a.services {
		a.fail(errors.Join(a.lost...))
		return
	}
	a.Log.Error(s.name+" refuses this bot and is not served any more; the other chat services are. "+
		"Mend what the error names, then start the bot again; “bot doctor” says whether it is mended", telemetry.KeyError, err)
}
