package local

import "github.com/countersign/countersign/internal/sandbox"

// HasSpare tells whether a namespace waits for the session's next command.
func HasSpare(s sandbox.Session) bool {
	p := &s.(*session).spares
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready != nil
}
