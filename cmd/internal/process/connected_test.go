package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
)

type nothing struct{}

func (nothing) Failed() <-chan error { return nil }
func (nothing) Stop() error          { return nil }

// A worker that starts while Temporal goes away does not end: it starts when the
// server is back. What is wrong with the worker itself ends it.
func TestStartOutlastsTemporal(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	tries := 0
	s, err := started(t.Context(), log, func(context.Context) (Service, error) {
		tries++
		if tries == 1 {
			return nil, fmt.Errorf("starting worker on agent-reasoning: failed reaching server: %w", context.DeadlineExceeded)
		}
		return nothing{}, nil
	})
	require.NoError(t, err)
	require.Equal(t, nothing{}, s)
	require.Equal(t, 2, tries)

	broken := errors.New("the lock is held")
	_, err = started(t.Context(), log, func(context.Context) (Service, error) { return nil, broken })
	require.ErrorIs(t, err, broken)

	ctx, cancel := context.WithCancel(t.Context())
	_, err = started(ctx, log, func(context.Context) (Service, error) {
		cancel()
		return nil, serviceerror.NewUnavailable("no")
	})
	require.ErrorContains(t, err, "no")
}
