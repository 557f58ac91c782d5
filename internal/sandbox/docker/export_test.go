package docker

import "time"

// What tests reach of the inside.
const (
	OrphanGrace = orphanGrace
	GoneGrace   = goneGrace
)

// Age lets Reap believe that so much time has passed.
func (b *Backend) Age(d time.Duration) {
	b.now = func() time.Time { return time.Now().Add(d + time.Second) }
}
