package local

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/sandbox"
)

// patience is how long tests wait for what a busy machine takes its time for.
const patience = 2 * time.Minute

// HasSpare tells whether a namespace waits for the session's next command.
func HasSpare(s sandbox.Session) bool {
	p := &s.(*session).spares
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready != nil
}

// Groups are the control groups of sandboxes that are there.
func Groups(b *Backend) []string {
	var all []string
	for _, h := range b.groups.in {
		entries, _ := os.ReadDir(h.dir)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), b.groups.prefix) {
				all = append(all, filepath.Join(h.dir, e.Name()))
			}
		}
	}
	return all
}
