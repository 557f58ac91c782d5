package chat

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestABackfillThatFailsIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b Backfill
		early, late := time.Now().Add(-time.Hour), time.Now()
		require.True(t, b.Want(late))
		require.False(t, b.Want(early), "one runs at a time")
		var read []time.Time
		require.NoError(t, b.Run(t.Context(), func(_ context.Context, since time.Time) error {
			switch read = append(read, since); len(read) {
			case 1, 2:
				return errors.New("away")
			case 3:
				panic("a message that there is a fault with")
			}
			return nil
		}))
		require.Equal(t, []time.Time{early, early, early, early}, read)
		require.Equal(t, 7*time.Second, time.Since(late), "ever more slowly")
		require.True(t, b.Idle())
		require.NoError(t, b.Run(t.Context(), nil), "nothing is wanted")
	})
}

func TestABackfillIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b Backfill
		require.True(t, b.Want(time.Now()))
		away := errors.New("away")
		require.ErrorIs(t, b.Run(t.Context(), func(context.Context, time.Time) error { return away }), away)

		ctx, cancel := context.WithCancel(t.Context())
		require.True(t, b.Want(time.Now()))
		require.NoError(t, b.Run(ctx, func(context.Context, time.Time) error { cancel(); return away }), "the end is no failure")
		require.True(t, b.Idle())
	})
}
