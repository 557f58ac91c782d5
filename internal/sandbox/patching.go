package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/sandbox/patch"
	"github.com/countersign/countersign/internal/workflows"
)

// patch changes what was judged. One that was cut off before, and its retry, do
// the rest: what was judged says what each file holds before and after.
func (r *run) patch(ctx context.Context) (workflows.ToolResult, error) {
	started := time.Now().UTC()
	release, err := r.a.alone(ctx, r.s, r.in.Sandbox)
	if err != nil {
		return workflows.ToolResult{}, err
	}
	defer release()
	changes, what, err := r.todo(ctx)
	if err != nil {
		return workflows.ToolResult{}, err
	}
	if what != "" {
		return r.ended(ctx, workflows.ResultChanged, what)
	}
	if err := r.s.Change(ctx, changes); err != nil {
		if ctx.Err() != nil || errors.Is(err, ErrGone) || errors.Is(err, ErrUnavailable) || noSpace(err) {
			return workflows.ToolResult{}, err
		}
		return r.ended(ctx, workflows.CallFailed, "The patch was not applied, no file was changed: the workspace does not take it ("+unfit(err)+").")
	}
	var note strings.Builder
	note.WriteString("applied:")
	for _, c := range changes {
		if c.Remove {
			note.WriteString("\nD " + c.Path)
		} else {
			fmt.Fprintf(&note, "\nW %s, %d bytes", c.Path, len(c.Data))
		}
	}
	return r.done(ctx, started, Output{Stdout: clean(note.String()) + "\n", StdoutBytes: int64(note.Len()) + 1}, 0)
}

// todo returns the changes to make, or what is no longer as it was judged. After
// an attempt that was cut off some files may be changed already.
func (r *run) todo(ctx context.Context) ([]Change, string, error) {
	if !r.first {
		changes, ok, err := r.begun(ctx)
		if err != nil || ok {
			return changes, "", err
		}
	}
	c, what, err := r.asJudged(ctx)
	var bad badCall
	if errors.As(err, &bad) {
		return nil, string(bad), nil
	}
	return c.changes, what, err
}

// begun returns all changes of a patch of which some, perhaps all, were made: where
// each file holds what it did when it was judged, or what it shall hold.
func (r *run) begun(ctx context.Context) ([]Change, bool, error) {
	data, err := r.a.cfg.Blobs.Get(ctx, bindingKey(r.in.WorkflowID, r.in.Digest))
	if errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrBadKey) {
		return nil, false, nil
	}
	var was binding
	if err != nil || json.Unmarshal(data, &was) != nil {
		return nil, false, err
	}
	args, err := r.a.getText(ctx, r.in.Call.Args)
	if err != nil {
		return nil, false, err
	}
	var in workflows.ApplyPatchArgs
	if err := decode(args, &in); err != nil || digestOf([]byte(in.Patch)) != was.Content {
		return nil, false, nil
	}
	files, err := patch.Parse(in.Patch)
	if err != nil {
		return nil, false, nil
	}
	made := 0
	old := map[string][]byte{}
	for _, b := range was.Changes {
		now, err := r.holds(ctx, b.Path)
		if err != nil {
			return nil, false, err
		}
		have := ""
		if now != nil {
			have = digestOf(now)
		}
		switch have {
		case b.After:
			made++
		case b.Before:
		default:
			return nil, false, nil
		}
		old[b.Path] = now
	}
	if made == 0 {
		return nil, false, nil
	}
	changes, ok := redo(was.Changes, files, old)
	return changes, ok, nil
}

// holds reads a file; nil where none is.
func (r *run) holds(ctx context.Context, p string) ([]byte, error) {
	data, _, err := r.s.ReadFile(ctx, p, maxWrite+1)
	switch {
	case err != nil && !fatal(ctx, err) && ofPath(err):
		return nil, nil
	case err == nil && data == nil:
		data = []byte{}
	}
	return data, err
}

// redo works the changes out again, of files of which some hold the new content.
func redo(bound []boundChange, files []patch.File, now map[string][]byte) ([]Change, bool) {
	var changes []Change
	var sections []patch.File // of each change
	for _, f := range files {
		sections = append(sections, f)
		if f.MoveTo != "" {
			sections = append(sections, f)
		}
	}
	if len(sections) != len(bound) {
		return nil, false
	}
	for i, b := range bound {
		f := sections[i]
		data := now[b.Path]
		switch {
		case b.After == "":
			changes = append(changes, Change{Path: b.Path, Remove: true})
			continue
		case data != nil && digestOf(data) == b.After:
		case f.Op == patch.Add:
			data = f.Content()
		default:
			from := b.Path
			if f.MoveTo != "" {
				from = bound[i+1].Path
			}
			var err error
			if data, _, err = f.Apply(now[from]); err != nil {
				return nil, false
			}
		}
		if digestOf(data) != b.After {
			return nil, false
		}
		changes = append(changes, Change{Path: b.Path, Data: data, Mode: b.Mode})
	}
	return changes, true
}
