package devserver

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

// logger passes the server's warnings and errors on to slog and drops the
// rest, which is hundreds of lines at each start. While the server stops, its
// parts miss each other one by one: stopping drops those warnings too. Until it
// is ready it answers that it is not: whoever starts it asks again.
type logger struct {
	out             *slog.Logger
	ready, stopping *atomic.Bool
}

// unwanted begins a warning of each start about a feature that is not used.
const unwanted = "HTTP API port has not been set"

var (
	_ log.Logger     = logger{}
	_ log.WithLogger = logger{}
)

func (l logger) With(tags ...tag.Tag) log.Logger {
	return logger{out: l.out.With(attributes(tags)...), ready: l.ready, stopping: l.stopping}
}

func (l logger) Debug(string, ...tag.Tag) {}
func (l logger) Info(string, ...tag.Tag)  {}

func (l logger) Warn(msg string, tags ...tag.Tag) {
	if l.stopping.Load() || strings.HasPrefix(msg, unwanted) {
		return
	}
	l.write(slog.LevelWarn, msg, tags)
}

// Error drops what only says that a client has gone: every stopping worker
// leaves its polls behind.
func (l logger) Error(msg string, tags ...tag.Tag) {
	for _, t := range tags {
		if err, ok := t.Value().(error); ok && (clientGone(err) || !l.ready.Load() && notYet(err)) {
			return
		}
	}
	l.write(slog.LevelError, msg, tags)
}

func clientGone(err error) bool {
	var canceled *serviceerror.Canceled
	return errors.Is(err, context.Canceled) || errors.As(err, &canceled)
}

func notYet(err error) bool {
	var unavailable *serviceerror.Unavailable
	return errors.As(err, &unavailable)
}

func (l logger) DPanic(msg string, tags ...tag.Tag) { l.write(slog.LevelError, msg, tags) }

// Panic must not return, by the interface's contract.
func (l logger) Panic(msg string, tags ...tag.Tag) {
	l.write(slog.LevelError, msg, tags)
	panic("embedded Temporal server: " + msg)
}

// Fatal must not return either. The server calls it where it cannot go on, on
// goroutines of its own: a panic there would print their stack and no more.
func (l logger) Fatal(msg string, tags ...tag.Tag) {
	l.write(slog.LevelError, msg, tags)
	os.Exit(1)
}

func (l logger) write(level slog.Level, msg string, tags []tag.Tag) {
	l.out.Log(context.Background(), level, msg, attributes(tags)...)
}

func attributes(tags []tag.Tag) []any {
	out := make([]any, 0, len(tags))
	for _, t := range tags {
		out = append(out, slog.Any(t.Key(), t.Value()))
	}
	return out
}
