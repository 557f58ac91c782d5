package process

import (
	"context"
	"errors"
	"log/slog"

	"go.temporal.io/sdk/temporal"
)

// Calm returns what the Temporal SDK is to log to. An activity that is cancelled is the
// ordinary end of an edit that a newer view replaces: the SDK reports it as an error,
// which would call somebody for nothing, and here it is for debugging.
func Calm(log *slog.Logger) *slog.Logger { return slog.New(calm{log.Handler()}) }

// calm lowers records about something cancelled to debug.
type calm struct{ slog.Handler }

func (c calm) Handle(ctx context.Context, r slog.Record) error {
	if r.Level > slog.LevelDebug && aboutCancelled(r) {
		r.Level = slog.LevelDebug
		if !c.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return c.Handler.Handle(ctx, r)
}

func (c calm) WithAttrs(attrs []slog.Attr) slog.Handler { return calm{c.Handler.WithAttrs(attrs)} }

func (c calm) WithGroup(name string) slog.Handler { return calm{c.Handler.WithGroup(name)} }

// aboutCancelled reports whether a record is the SDK's about an activity whose context
// was cancelled. A poll or a call that is cancelled says so in other words.
func aboutCancelled(r slog.Record) bool {
	if r.Message != "Activity error." && r.Message != "RecordActivityHeartbeat with error" {
		return false
	}
	cancelled := false
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			cancelled = temporal.IsCanceledError(err) || errors.Is(err, context.Canceled)
		}
		return !cancelled
	})
	return cancelled
}
