package chat

import (
	"context"
	"sync/atomic"
	"time"
)

// tokenPause is the time between two looks whether a bot's token is still valid.
const tokenPause = 10 * time.Second

// TokenWatch finds out that a platform does not take the bot's token any more. Without
// it nothing works, and every further call is one too many: the adapter's Run ends.
type TokenWatch struct {
	within time.Duration
	ask    func(context.Context) error

	asked   atomic.Int64
	refused chan error
}

// NewTokenWatch watches over a token. Ask looks, within so long: its error says that
// the token is not valid; what else goes wrong is none.
func NewTokenWatch(within time.Duration, ask func(context.Context) error) *TokenWatch {
	return &TokenWatch{within: within, ask: ask, refused: make(chan error, 1)}
}

// Look asks whether the token is still valid, beside its caller, because a call was
// refused as if it were not. Soon after another look it does nothing.
func (w *TokenWatch) Look() {
	last, now := w.asked.Load(), time.Now().UnixNano()
	if now-last < int64(tokenPause) || !w.asked.CompareAndSwap(last, now) {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), w.within)
		defer cancel()
		err := w.ask(ctx)
		if err == nil {
			return
		}
		select {
		case w.refused <- err:
		default: // it is known already
		}
	}()
}

// Refused gives the error of a look that found the token not valid.
func (w *TokenWatch) Refused() <-chan error { return w.refused }
