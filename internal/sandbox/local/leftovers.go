package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// scratchPrefix begins the directory names of sandboxes that only the process
// which made them uses.
const scratchPrefix = "scratch_"

// ScratchID is the ID of a sandbox that nobody opens again: its maker destroys it,
// and where the maker was killed, [Backend.Sweep] does.
func ScratchID(what string) string { return "scratch " + what + " " + random() }

// Box is one sandbox that is there.
type Box struct {
	ID         string
	Generation int
	CreatedAt  time.Time
}

// Boxes lists the sandboxes that are there. One whose record cannot be read is left
// out, which is logged once.
func (b *Backend) Boxes() ([]Box, error) {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return nil, fmt.Errorf("listing sandboxes: %w", err)
	}
	var all []Box
	unread := map[string]error{}
	for _, e := range entries {
		if !e.IsDir() || strings.Contains(e.Name(), newMark) || strings.Contains(e.Name(), trashMark) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(b.dir, e.Name(), recordFile))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile
		}
		var r record
		if err == nil {
			err = json.Unmarshal(data, &r)
		}
		if err != nil {
			unread[e.Name()] = err
			continue
		}
		all = append(all, Box(r))
	}
	b.sayUnread(unread)
	return all, nil
}

// sayUnread logs records that could not be read this time and could the last time.
func (b *Backend) sayUnread(unread map[string]error) {
	b.mu.Lock()
	before := b.unread
	b.unread = unread
	b.mu.Unlock()
	for name, err := range unread {
		if before[name] == nil {
			b.cfg.Log.Error("The record of a sandbox cannot be read, so nobody finds out whether its session still has it; it stays as it is",
				"directory", filepath.Join(b.dir, name), "error", err)
		}
	}
}

// Sweep removes what a killed worker left half made or half removed, and what it
// had for itself alone. Only the worker that holds the host's lock may call it,
// before it opens anything.
func (b *Backend) Sweep(ctx context.Context) error {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return fmt.Errorf("looking for leftovers: %w", err)
	}
	b.groups.sweep()
	for _, e := range entries {
		name := e.Name()
		switch {
		case strings.Contains(name, newMark), strings.Contains(name, trashMark):
			err = removeSandbox(filepath.Join(b.dir, name))
		case strings.HasPrefix(name, scratchPrefix):
			err = b.removeScratch(ctx, name)
		}
		if err != nil {
			return fmt.Errorf("removing leftovers: %w", err)
		}
	}
	return nil
}

// removeScratch ends what runs in a scratch sandbox, too.
func (b *Backend) removeScratch(ctx context.Context, name string) error {
	s, err := b.newSession(name)
	if err != nil {
		return removeSandbox(filepath.Join(b.dir, name)) // it is not whole
	}
	return s.remove(ctx, false)
}
