package slack

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// fill reads what was written since then while nobody listened: in the threads
// of live sessions, in direct messages, and mentions in the channels that the bot is
// in. Whatever was taken before is recognised by its identity.
func (a *App) fill(ctx context.Context, since time.Time) {
	if !a.filling.Want(since) {
		return
	}
	a.wg.Go(func() {
		if err := a.filling.Run(ctx, a.fillSince); err != nil {
			a.log.Error("Back-fill is given up", telemetry.KeyError, err)
		}
	})
}

// fillMissed reads what was written before this start.
func (a *App) fillMissed(ctx context.Context) {
	if since := chat.Missed(a.cfg.Away, a.cfg.Backfill); !since.IsZero() {
		a.fill(ctx, a.api.gate.clock.When(since).Add(-overlap))
	}
}

func (a *App) fillSince(ctx context.Context, since time.Time) error {
	began := time.Now()
	n, err := a.fillThreads(ctx, since)
	m, cerr := a.fillChannels(ctx, since)
	if err = errors.Join(err, cerr); err != nil && ctx.Err() == nil {
		a.log.Warn("Back-fill is not complete", telemetry.KeyError, err)
	}
	a.log.Info("Back-filled", "since", since.UTC().Format(time.RFC3339), "threads", n, "channels", m, "took", time.Since(began).Round(time.Millisecond).String())
	return err
}

// fillThreads reads the threads of live sessions.
func (a *App) fillThreads(ctx context.Context, since time.Time) (int, error) {
	l, n := workflows.ListSessions{Limit: 200}, 0
	var errs error // one thread's failure is not the others'
	for {
		list, err := a.dep.Sessions.List(ctx, a.thread("", "").ManagerID(), l)
		if errors.Is(err, workflows.ErrNoSession) {
			return n, errs
		}
		if err != nil {
			return n, errors.Join(errs, err)
		}
		for _, row := range list.Sessions {
			if row.Liveness == workflows.LivenessDestroyed || row.Thread.ID == "" {
				continue
			}
			n++
			errs = errors.Join(errs, a.fillThread(ctx, row.Thread, since))
		}
		if list.Next == "" {
			return n, errs
		}
		l.Before = list.Next
	}
}

// fillThread reads one thread. One that is gone is nobody's loss.
func (a *App) fillThread(ctx context.Context, t workflows.Thread, since time.Time) error {
	var missed []inbound
	err := a.readPaced(ctx, "conversations.replies", url.Values{"channel": {t.Channel}, "ts": {t.ID}, "oldest": {stamp(since)}}, func(m message) {
		if a.byPerson(m) && m.TS != t.ID && m.TS >= stamp(since) {
			missed = append(missed, a.missed(t.Channel, m))
		}
	})
	if c := code(err); slices.Contains(threadGone(), c) || c == "not_in_channel" {
		return nil
	}
	a.takeMissed(ctx, missed)
	return err
}

// fillChannels looks for mentions outside threads in the channels that the bot
// is a member of, and for tasks in the direct messages that it has.
func (a *App) fillChannels(ctx context.Context, since time.Time) (int, error) {
	n, err := a.fillKinds(ctx, since, "public_channel", "private_channel", "mpim")
	m, derr := a.fillKinds(ctx, since, "im")
	if code(derr) == "missing_scope" { // of an app that was installed before it was asked for
		a.log.Warn("Direct messages that were missed are not looked for; install the app again with its new manifest", telemetry.KeyError, detail(derr))
		derr = nil
	}
	return n + m, errors.Join(err, derr)
}

// fillKinds reads the conversations of some kinds.
func (a *App) fillKinds(ctx context.Context, since time.Time, kinds ...string) (int, error) {
	params := slack.GetConversationsForUserParameters{ExcludeArchived: true, Limit: 200, Types: kinds}
	n := 0
	var errs error // one channel's failure is not the others'
	for {
		var channels []slack.Channel
		err := a.paced(ctx, func() (err error) {
			channels, params.Cursor, err = a.api.GetConversationsForUserContext(ctx, &params)
			return err
		})
		if err != nil {
			return n, errors.Join(errs, err)
		}
		for _, c := range channels {
			n++
			errs = errors.Join(errs, a.fillChannel(ctx, c.ID, since))
		}
		if params.Cursor == "" {
			return n, errs
		}
	}
}

func (a *App) fillChannel(ctx context.Context, channel string, since time.Time) error {
	var missed []inbound
	err := a.readPaced(ctx, "conversations.history", url.Values{"channel": {channel}, "oldest": {stamp(since)}}, func(m message) {
		forUs := isDirect(channel) || a.mentions(m.Text)
		if a.byPerson(m) && forUs && (m.ThreadTS == "" || m.ThreadTS == m.TS) {
			missed = append(missed, a.missed(channel, m))
		}
	})
	if c := code(err); slices.Contains(threadGone(), c) || c == "not_in_channel" {
		return nil
	}
	slices.Reverse(missed) // history is newest first
	a.takeMissed(ctx, missed)
	return err
}

func (a *App) missed(channel string, m message) inbound {
	in := inbound{message: m, channel: channel, again: true}
	if m.Edited != nil {
		in.edited = m.Edited.TS
	}
	return in
}

// takeMissed hands on tasks and messages. Commands are not carried out late: a
// stop that was meant for another turn would end this one. An edited message is
// handed on as the edit that it is: it corrects the original where that was
// taken, and takes its place where it was not.
func (a *App) takeMissed(ctx context.Context, missed []inbound) {
	for _, in := range missed {
		if ctx.Err() != nil {
			return
		}
		text := a.reader.read(ctx, in.Text)
		if addressed := a.mentions(in.Text) || isDirect(in.channel); addressed && (strings.TrimSpace(text) != "" || len(in.Files) == 0) {
			c, err := chat.Parse(text, chat.KnownBackends())
			if err != nil || c.Verb != chat.VerbRun {
				continue
			}
		}
		if err := a.take(ctx, in); err != nil {
			a.tryAgain(ctx, in)
		}
	}
}

// readPaced reads all pages, each of them paced: a busy channel has many.
func (a *App) readPaced(ctx context.Context, method string, form url.Values, each func(message)) error {
	return a.api.readBy(ctx, method, form, func(m message) bool {
		each(m)
		return true
	}, func(call func() error) error { return a.paced(ctx, call) })
}

// paced makes one call, then waits, so that the back-fill leaves room for
// others; a rate limit is waited for.
func (a *App) paced(ctx context.Context, call func() error) error {
	for {
		err := call()
		wait := a.cfg.Pace
		var limited *slack.RateLimitedError
		if errors.As(err, &limited) {
			wait = limited.RetryAfter
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		if limited == nil {
			return err
		}
	}
}
