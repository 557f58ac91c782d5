package chat

import (
	"log/slog"
	"sync"
)

// Tasks are what an adapter works on beside its connection: events, clicks, retries.
// One that panics ends alone, with an ERROR: else a message that this program has a
// fault with would end the bot, and be read again after each start.
type Tasks struct {
	Log *slog.Logger
	wg  sync.WaitGroup
}

// Go runs f beside its caller.
func (t *Tasks) Go(f func()) {
	t.wg.Go(func() {
		if err := caught(func() error { f(); return nil }); err != nil {
			t.Log.Error("Something that arrived could not be worked on, by a fault of this program", whatBroke(err)...)
		}
	})
}

// Wait returns when all that was begun has ended.
func (t *Tasks) Wait() { t.wg.Wait() }
