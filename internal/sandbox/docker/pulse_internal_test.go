package docker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// halting is an engine whose pings are answered, or not, as a test says.
type halting struct {
	halted atomic.Bool
	pings  atomic.Int64
}

func (h *halting) ping(ctx context.Context) error {
	h.pings.Add(1)
	if h.halted.Load() {
		<-ctx.Done()
	}
	return ctx.Err()
}

// waits makes a call that comes to no end by itself, and says what ended it.
func waits(p *pulse, limit time.Duration) error {
	ctx, end := p.watch(context.Background(), limit)
	defer end()
	<-ctx.Done()
	return why(ctx, ctx.Err())
}

func TestPulse(t *testing.T) {
	t.Parallel()
	const bound = askAfter + mostAsks*askWithin
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		defer close(done)
		var h halting
		p := newPulse(done, h.ping)

		// Calls that end soon ask nothing.
		for range 1000 {
			_, end := p.watch(t.Context(), lookLimit)
			end()
		}
		time.Sleep(time.Minute)
		require.Zero(t, h.pings.Load())

		// A long one goes on while the engine lives, for as long as it may.
		began := time.Now()
		require.ErrorIs(t, waits(p, 10*time.Minute), errStuck)
		require.Equal(t, 10*time.Minute, time.Since(began))
		require.NotZero(t, h.pings.Swap(0))
		time.Sleep(time.Minute)
		require.LessOrEqual(t, h.pings.Load(), int64(1), "and then nobody is asked any more")

		// One that has gone silent ends calls within the bound, and fails new ones at once.
		h.halted.Store(true)
		began = time.Now()
		require.ErrorIs(t, waits(p, 0), errSilent)
		require.Equal(t, bound, time.Since(began))
		for range 100 {
			require.ErrorIs(t, waits(p, 0), errSilent)
		}
		require.Equal(t, bound, time.Since(began))

		// Who gives up by itself is told so, whatever the engine does.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		ctx, end := p.watch(ctx, 0)
		require.ErrorIs(t, why(ctx, ctx.Err()), context.Canceled)
		end()

		// It answers again: calls are made.
		h.halted.Store(false)
		time.Sleep(bound + time.Second)
		ctx, end = p.watch(t.Context(), lookLimit)
		require.NoError(t, ctx.Err())
		end()
	})
}

// That an engine cannot be reached is for its calls to say: it is not silent.
func TestPulseOfADeadEngine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		defer close(done)
		p := newPulse(done, func(context.Context) error { return errors.New("connection refused") })
		began := time.Now()
		require.ErrorIs(t, waits(p, time.Minute), errStuck)
		require.Equal(t, time.Minute, time.Since(began))
	})
}

// A worker that was itself halted for a while takes no engine for silent.
func TestPulseOfAHaltedWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		defer close(done)
		first := true
		p := newPulse(done, func(ctx context.Context) error {
			if first { // its time passes while nothing runs
				first = false
				<-ctx.Done()
			}
			return ctx.Err()
		})
		require.ErrorIs(t, waits(p, time.Minute), errStuck)
	})
}
