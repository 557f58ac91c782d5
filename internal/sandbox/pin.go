package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// pinned are scripts that a command is about to read from files that nobody else has
// open. A shell reads a script while it runs it, so what the session's other commands
// add to it meanwhile would run, too, and nobody has been shown it.
type pinned struct {
	s     Session
	files []pinnedFile
}

type pinnedFile struct {
	path string
	data []byte
}

// pin puts the command's scripts anew where they are, as they were judged, if other
// commands run: those may have them open. They are halted until release has been
// called. Longer ones than a file tool writes stay as they are.
func (r *run) pin(ctx context.Context, c act) (pinned, error) {
	p := pinned{s: r.s}
	if len(c.verdict.Scripts) == 0 {
		return p, nil
	}
	if ids, err := r.s.Running(ctx); err != nil || len(ids) == 0 {
		return p, err
	}
	for _, f := range c.binding.Runs {
		if f.Digest == "" || !slices.Contains(c.verdict.Scripts, f.Path) {
			continue
		}
		at, err := r.s.Stat(ctx, f.Path)
		if err != nil {
			return p, err
		}
		if !at.Mode.IsRegular() || at.Size > maxWrite {
			continue
		}
		data, _, err := r.s.ReadFile(ctx, at.Resolved, maxWrite)
		if err != nil {
			return p, err
		}
		if bytes.IndexByte(data, 0) < 0 && digestOf(data) == f.Digest { // a program is read otherwise
			p.files = append(p.files, pinnedFile{at.Resolved, data})
		}
	}
	err := p.write(ctx)
	if errors.Is(err, fs.ErrPermission) {
		err = Refuse("The script cannot be kept apart from the commands in the background, which may change it while it runs. End them first.")
	}
	return p, err
}

// release leaves the command with the files that it has opened: what is written to
// their names from now on is in others.
func (p pinned) release(ctx context.Context) error { return p.write(context.WithoutCancel(ctx)) }

func (p pinned) write(ctx context.Context) error {
	for _, f := range p.files {
		if err := p.s.WriteFile(ctx, f.path, f.data); err != nil {
			return fmt.Errorf("keeping %s apart: %w", f.path, err)
		}
	}
	return nil
}
