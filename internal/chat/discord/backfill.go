package discord

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"

	"github.com/countersign/countersign/internal/chat"
	"github.com/countersign/countersign/internal/telemetry"
	"github.com/countersign/countersign/internal/workflows"
)

// fill reads what was written since then while nobody listened: in the threads of
// live sessions, and mentions in the channels where sessions may start, if those
// are named. Whatever was taken before is recognised by its identity.
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

func (a *App) fillSince(ctx context.Context, since time.Time) error {
	began := time.Now()
	n, err := a.fillGuilds(ctx, since)
	for _, id := range a.cfg.Channels {
		err = errors.Join(err, a.fillPlace(ctx, id, since, true))
	}
	if err != nil && ctx.Err() == nil {
		a.log.Warn("Back-fill is not complete", telemetry.KeyError, err)
	}
	a.log.Info("Back-filled", "since", since.UTC().Format(time.RFC3339), "threads", n, "channels", len(a.cfg.Channels), "took", time.Since(began).Round(time.Millisecond).String())
	return err
}

// fillGuilds reads the live threads of all servers that the bot is in.
func (a *App) fillGuilds(ctx context.Context, since time.Time) (int, error) {
	n, after := 0, "0"
	var errs error
	for {
		var guilds []struct {
			ID string `json:"id"`
		}
		q := url.Values{"limit": {"200"}, "after": {after}}
		err := a.paced(ctx, func() error { return a.api.call(ctx, http.MethodGet, "/users/@me/guilds?"+q.Encode(), nil, &guilds) })
		if err != nil {
			return n, errors.Join(errs, err)
		}
		for _, g := range guilds {
			m, err := a.fillThreads(ctx, g.ID, since)
			n += m
			errs = errors.Join(errs, err)
		}
		if len(guilds) < 200 {
			return n, errs
		}
		after = guilds[len(guilds)-1].ID
	}
}

// fillThreads reads the threads of a guild's live sessions.
func (a *App) fillThreads(ctx context.Context, guild string, since time.Time) (int, error) {
	l, n := workflows.ListSessions{Limit: 200}, 0
	var errs error // one thread's failure is not the others'
	for {
		list, err := a.dep.Sessions.List(ctx, a.thread(guild, "", "").ManagerID(), l)
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
			errs = errors.Join(errs, a.fillPlace(ctx, row.Thread.ID, since, false))
		}
		if list.Next == "" {
			return n, errs
		}
		l.Before = list.Next
	}
}

// fillPlace reads one thread, or of a channel the mentions. One that is gone or
// closed to us is nobody's loss.
func (a *App) fillPlace(ctx context.Context, id string, since time.Time, mentionsOnly bool) error {
	var missed []inbound
	place, err := a.place(ctx, id)
	if err != nil || place.ID == "" {
		return a.unlessClosed(err)
	}
	err = a.history(ctx, id, since, func(m message) {
		m.Guild = place.Guild
		if m.byPerson() && (!mentionsOnly || a.mentions(ctx, m)) {
			missed = append(missed, inbound{message: normalised(m), again: true})
		}
	})
	a.takeMissed(ctx, missed)
	return a.unlessClosed(err)
}

func (a *App) unlessClosed(err error) error {
	if is(err, discordgo.ErrCodeUnknownChannel, discordgo.ErrCodeMissingAccess, discordgo.ErrCodeMissingPermissions) {
		return nil
	}
	return err
}

// history reads a channel's messages since a time, oldest first, a page at a
// time, with pauses.
func (a *App) history(ctx context.Context, id string, since time.Time, each func(message)) error {
	after := snowflake(since)
	for {
		var page []message
		err := a.paced(ctx, func() error {
			page = nil
			return a.api.messagesAfter(ctx, id, after, &page)
		})
		if err != nil {
			return err
		}
		for _, m := range page {
			after = m.ID
			each(m)
		}
		if len(page) < maxPage {
			return nil
		}
	}
}

// messagesAfter reads the page of messages after an ID, oldest first.
func (a *api) messagesAfter(ctx context.Context, channel, after string, page *[]message) error {
	q := url.Values{"limit": {strconv.Itoa(maxPage)}, "after": {after}}
	if err := a.call(ctx, http.MethodGet, "/channels/"+channel+"/messages?"+q.Encode(), nil, page); err != nil {
		return err
	}
	slices.SortFunc(*page, func(x, y message) int { return older(x.ID, y.ID) })
	return nil
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
		text := a.read(in.message)
		if a.mentions(ctx, in.message) && (strings.TrimSpace(text) != "" || len(in.Attachments) == 0) {
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

// paced makes one call, then waits, so that the back-fill leaves room for others;
// a rate limit is waited for.
func (a *App) paced(ctx context.Context, call func() error) error {
	for {
		err := call()
		wait := a.cfg.Pace
		var limited *chat.RateLimitedError
		if errors.As(err, &limited) {
			wait = limited.RetryAfter
		}
		if serr := sleep(ctx, wait); serr != nil {
			return serr
		}
		if limited == nil {
			return err
		}
	}
}
