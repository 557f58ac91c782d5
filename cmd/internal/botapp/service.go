package botapp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"

	"github.com/countersign/countersign/cmd/internal/process"
	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/control"
	"github.com/countersign/countersign/internal/telemetry"
)

const (
	// retryFirst and retryMost bound the pause before a chat service that is away is
	// tried again; an attempt that lasted for retrySettled was no failure.
	retryFirst   = time.Second
	retryMost    = time.Minute
	retrySettled = time.Minute
	// refusedAgain is the longest pause before one that refuses the bot is asked again:
	// the token of this process stays the same, but a switch may be set, an account or
	// an address be let in again.
	refusedAgain = 5 * time.Minute
	// temporalPause is the time between two attempts to serve a queue.
	temporalPause = 5 * time.Second
)

// service is a chat service that the bot serves with a token.
type service struct {
	// name is what people call it.
	name string
	// connect asks the chat service who the token speaks for. What was written since
	// it is away, if it is, is read when its events arrive; reach is told whether they do.
	connect func(ctx context.Context, away time.Time, reach chat.Reach) (connection, error)
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

// endsError is one after which the bot does not go on.
type endsError struct{ error }

func (e endsError) Unwrap() error { return e.error }

// host serves a chat service beside others, again and again until the bot stops: one
// that does not answer, or that refuses the bot, leaves the others alone.
func (a *App) host(run context.Context, sessions *control.Client, s service, st *standing) {
	pause := chat.Backoff{First: retryFirst, Most: retryMost}
	for {
		began := time.Now()
		err := a.serveService(run, sessions, s, st)
		if run.Err() != nil {
			return
		}
		if time.Since(began) > retrySettled {
			pause.Reset()
		}
		var wait time.Duration
		var limited *chat.RateLimitedError
		switch ends := (endsError{}); {
		case errors.As(err, &ends):
			a.fail(fmt.Errorf("%s: %w", s.name, err))
			return
		case errors.Is(err, s.refused):
			st.refuse(err)
			if all := a.allRefuse(); all != nil {
				a.fail(all)
				return
			}
			st.sayRefused()
			wait = (&chat.Backoff{First: a.RefusedAgain, Most: a.RefusedAgain}).Next()
		case errors.As(err, &limited):
			st.lost(slog.LevelWarn, err)
			wait = max(pause.Next(), limited.RetryAfter)
		default:
			st.lost(slog.LevelWarn, err)
			wait = pause.Next()
		}
		select {
		case <-run.Done():
			return
		case <-time.After(wait):
		}
	}
}

// serveService connects, and serves until ctx ends or the service is lost.
func (a *App) serveService(ctx context.Context, sessions *control.Client, s service, st *standing) error {
	c, err := s.connect(ctx, st.away(), st.reach)
	if err != nil {
		return err
	}
	delivery := &chat.Delivery{Poster: c.poster, Views: sessions, Blobs: a.store, Mask: a.Config.Mask(), Log: a.Log}
	var queues []worker.Worker
	defer func() { a.unserve(queues) }()
	for _, q := range c.queues {
		a.pace(ctx, sessions, q)
		w, err := a.insist(ctx, q.name, delivery)
		if err != nil {
			return endsError{err}
		}
		queues = append(queues, w)
	}
	err = c.run(ctx)
	switch {
	case err == nil && ctx.Err() == nil:
		return errors.New("it is not received from any more")
	case err != nil && !errors.Is(err, s.refused) && a.services == 1:
		return endsError{err} // an address of ours, which nobody but its setting mends
	}
	return err
}

// queue is the worker of a chat queue. It may be stopped more than once: with its chat
// service, and with the bot.
type queue struct {
	worker.Worker
	stop func()
}

func newQueue(w worker.Worker) *queue { return &queue{Worker: w, stop: sync.OnceFunc(w.Stop)} }

// Stop implements [worker.Worker].
func (q *queue) Stop() { q.stop() }

// insist serves a queue, again and again while Temporal is away.
func (a *App) insist(ctx context.Context, name string, delivery *chat.Delivery) (worker.Worker, error) {
	for {
		w, err := a.serve(name, 1, delivery)
		if err == nil || !process.Away(err) {
			return w, err
		}
		a.Log.Warn("Temporal went away during the start", telemetry.KeyError, err)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(temporalPause):
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

// allRefuse is what the chat services say when every one of them refuses the bot: then
// it ends, because the next one may be given other tokens.
func (a *App) allRefuse() error {
	var all []error
	for _, st := range a.standings {
		all = append(all, st.refusal())
	}
	if len(all) < a.services || slices.Contains(all, nil) {
		return nil
	}
	return errors.Join(all...)
}
