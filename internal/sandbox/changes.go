package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/countersign/countersign/internal/policy"
	"github.com/countersign/countersign/internal/sandbox/patch"
	"github.com/countersign/countersign/internal/workflows"
)

// maxPatch is the longest patch, in bytes.
const maxPatch = 1 << 20

// boundChange is one file that a patch changes: what it holds before and after,
// as SHA-256; empty where it is not there.
type boundChange struct {
	Path   string      `json:"path"` // resolved
	Before string      `json:"before,omitempty"`
	After  string      `json:"after,omitempty"`
	Mode   fs.FileMode `json:"mode,omitempty"` // of a moved file
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// patching reads the files that a patch names and works out what it does.
type patching struct {
	s     Session
	c     *act
	shown strings.Builder
	names []string
	more  int // lines added
	less  int // lines taken away
	taken map[string]bool
}

// readPatch reads, applies and judges a patch; nothing is changed yet.
func (a *Activities) readPatch(ctx context.Context, s Session, ref workflows.SandboxRef, args string) (act, error) {
	var in workflows.ApplyPatchArgs
	if err := decode(args, &in); err != nil {
		return act{}, err
	}
	if len(in.Patch) > maxPatch {
		return act{}, badCall(fmt.Sprintf("The patch is %d bytes long; at most %d can be applied at once.", len(in.Patch), maxPatch))
	}
	files, err := patch.Parse(in.Patch)
	if err != nil {
		return act{}, badPatch(err)
	}
	c := act{tool: workflows.ToolApplyPatch, content: in.Patch, timeout: a.cfg.Timeouts.Read, cwd: ref.Root}
	p := patching{s: s, c: &c, taken: map[string]bool{}}
	for _, f := range files {
		if err := p.file(ctx, f); err != nil {
			return act{}, badPatch(err)
		}
	}
	var changes []policy.FileChange
	var paths []string
	for _, ch := range c.changes {
		changes = append(changes, policy.FileChange{Path: ch.Path, Remove: ch.Remove})
		paths = append(paths, ch.Path)
	}
	facts, err := gather(ctx, s, policy.Needs{Paths: paths})
	if err != nil {
		return act{}, err
	}
	c.verdict = a.cfg.Gate.JudgeChanges(changes, p.text(), envOf(ref, ref.Root), facts)
	for i, ch := range c.changes {
		c.verdict.Paths = append(c.verdict.Paths, ch.Path)
		c.changes[i].Path = c.bound[i].Path
	}
	return c, c.bind(ctx, s, ref, a.cfg.Workspaces[ref.Workspace].Fingerprint())
}

func badPatch(err error) error {
	var bad *patch.Error
	if errors.As(err, &bad) {
		return badCall("The patch was not applied, no file was changed. " + bad.Text)
	}
	return err
}

func refusePatch(format string, args ...any) error {
	return &patch.Error{Text: fmt.Sprintf(format, args...)}
}

// file adds what one section does.
func (p *patching) file(ctx context.Context, f patch.File) error {
	at, err := p.look(ctx, f.Path)
	if err != nil {
		return err
	}
	switch {
	case f.Op == patch.Add && at.Exists:
		return refusePatch("%s is there already: update it, or delete it first.", f.Path)
	case f.Op == patch.Add:
		p.head("Add", f.Path, "")
		p.lines(f.Added())
		return p.put(f.Path, at, "", f.Content(), 0)
	case !at.Exists:
		return refusePatch("%s does not exist.", f.Path)
	}
	old, size, err := p.s.ReadFile(ctx, f.Path, maxWrite+1)
	switch {
	case cannotRead(f.Path, err) != "":
		return refusePatch("%s", cannotRead(f.Path, err))
	case err != nil:
		return err
	case size > maxWrite:
		return refusePatch("%s is %d bytes long; files of at most %d bytes can be patched.", f.Path, size, maxWrite)
	}
	if f.Op == patch.Delete {
		p.head("Delete", f.Path, fmt.Sprintf(" (%d bytes)", size))
		return p.remove(f.Path, at, old)
	}
	now, diff, err := f.Apply(old)
	if err != nil {
		return err
	}
	if f.MoveTo == "" {
		p.head("Update", f.Path, "")
		p.lines(diff)
		return p.put(f.Path, at, digestOf(old), now, 0)
	}
	to, err := p.look(ctx, f.MoveTo)
	switch {
	case err != nil:
		return err
	case to.Exists:
		return refusePatch("%s cannot be moved to %s, which is there already.", f.Path, f.MoveTo)
	}
	p.head("Move", f.Path, " to "+f.MoveTo)
	p.lines(diff)
	// Gone only where it came to.
	if err := p.put(f.MoveTo, to, "", now, at.Mode.Perm()); err != nil {
		return err
	}
	return p.remove(f.Path, at, old)
}

// look resolves a path, which must be in the workspace, no other kind of thing
// than a file, and named once.
func (p *patching) look(ctx context.Context, name string) (FileInfo, error) {
	if !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return FileInfo{}, refusePatch("A path of the patch is no text.")
	}
	at, err := insideFile(ctx, p.s, name)
	var bad badCall
	switch {
	case errors.As(err, &bad):
		return at, refusePatch("%s", string(bad))
	case err != nil:
		return at, err
	case at.Exists && !at.Mode.IsRegular():
		return at, refusePatch("%s is no regular file.", name)
	case p.taken[at.Resolved]:
		return at, refusePatch("%s is named twice; a patch has one section for each file.", name)
	}
	p.taken[at.Resolved] = true
	return at, nil
}

func (p *patching) put(name string, at FileInfo, before string, data []byte, mode fs.FileMode) error {
	if len(data) > maxWrite {
		return refusePatch("%s would be %d bytes long; at most %d can be written.", name, len(data), maxWrite)
	}
	p.c.changes = append(p.c.changes, Change{Path: p.s.Info().Abs(name), Data: data, Mode: mode})
	p.c.bound = append(p.c.bound, boundChange{Path: at.Resolved, Before: before, After: digestOf(data), Mode: mode})
	return nil
}

func (p *patching) remove(name string, at FileInfo, old []byte) error {
	p.c.changes = append(p.c.changes, Change{Path: p.s.Info().Abs(name), Remove: true})
	p.c.bound = append(p.c.bound, boundChange{Path: at.Resolved, Before: digestOf(old)})
	return nil
}

func (p *patching) head(what, name, more string) {
	p.names = append(p.names, name)
	fmt.Fprintf(&p.shown, "%s %s%s\n", what, name, more)
}

func (p *patching) lines(diff string) {
	p.shown.WriteString(diff)
	for l := range strings.Lines(diff) {
		switch l[0] {
		case '+':
			p.more++
		case '-':
			p.less++
		}
	}
}

// text is the patch as people read it: its files on the first line, then what
// it does to each as it is now.
func (p *patching) text() string {
	const most = 5
	names := p.names
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
		names = names[:most]
	}
	return fmt.Sprintf("%s %s%s (+%d −%d)\n%s", workflows.ToolApplyPatch, strings.Join(names, ", "), more, p.more, p.less,
		strings.TrimSuffix(p.shown.String(), "\n"))
}
