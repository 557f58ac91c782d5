package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/countersign/countersign/internal/policy"
	"github.com/countersign/countersign/internal/workflows"
)

// Bounds of a listing.
const (
	maxListed = 1000
	maxDepth  = 20
)

// readList reads a call that only looks.
func (a *Activities) readList(ctx context.Context, s Session, ref workflows.SandboxRef, args string) (act, error) {
	var in workflows.ListFilesArgs
	if err := decode(args, &in); err != nil {
		return act{}, err
	}
	if in.Path == "" {
		in.Path = "."
	}
	c := act{tool: workflows.ToolListFiles, path: s.Info().Abs(in.Path), timeout: a.cfg.Timeouts.Read, depth: min(max(in.Depth, 1), maxDepth)}
	at, err := insideFile(ctx, s, in.Path)
	if err != nil {
		return act{}, err
	}
	c.verdict = policy.Verdict{Tier: policy.Safe, Display: workflows.ToolListFiles + " " + c.path, Displayable: true, Paths: []string{c.path}}
	c.cwd, c.path = ref.Root, at.Resolved
	return c, c.bind(ctx, s, ref, a.cfg.Workspaces[ref.Workspace].Fingerprint())
}

// list lists a directory for the model. Links are named, not followed.
func (r *run) list(ctx context.Context) (workflows.ToolResult, error) {
	started := time.Now().UTC()
	c, what, err := r.asJudged(ctx)
	if err != nil {
		return workflows.ToolResult{}, err
	}
	if what != "" {
		return r.ended(ctx, workflows.ResultChanged, what)
	}
	text, more, err := Listing(ctx, r.s, c.path, c.depth, maxListed)
	switch {
	case err == nil:
	case fatal(ctx, err), !ofPath(err):
		return workflows.ToolResult{}, err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return r.ended(ctx, workflows.CallFailed, fmt.Sprintf("%s does not exist.", c.path))
	case errors.Is(err, ErrNotDir):
		return r.ended(ctx, workflows.CallFailed, fmt.Sprintf("%s is no directory.", c.path))
	case errors.Is(err, fs.ErrPermission):
		return r.ended(ctx, workflows.CallFailed, fmt.Sprintf("%s may not be listed.", c.path))
	default:
		return r.ended(ctx, workflows.CallFailed, fmt.Sprintf("%s cannot be listed: %s.", c.path, unfit(err)))
	}
	note := ""
	if more {
		note = fmt.Sprintf("there is more than these %d entries; list a directory below", maxListed)
	}
	return r.done(ctx, started, Output{Stdout: text, StdoutBytes: int64(len(text)), Note: note}, 0)
}

// Listing lists what is below a directory, depth levels deep, at most limit
// entries: a line for each, directories with a slash behind, files with their
// size in bytes. It reports whether there is more.
func Listing(ctx context.Context, s Files, dir string, depth, limit int) (text string, more bool, err error) {
	var b strings.Builder
	left := limit
	var walk func(at, rel string, depth int) error
	walk = func(at, rel string, depth int) error {
		entries, over, err := s.ReadDir(ctx, at, left)
		if err != nil {
			if rel != "" && !fatal(ctx, err) {
				return nil // a directory that is gone or closed
			}
			return err
		}
		more = more || over
		for _, e := range entries {
			if left == 0 {
				more = true
				return nil
			}
			left--
			name := path.Join(rel, e.Name)
			b.WriteString(entryLine(name, e) + "\n")
			if e.Mode.IsDir() && depth > 1 {
				if err := walk(path.Join(at, e.Name), name, depth-1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err = walk(dir, "", depth)
	return b.String(), more, err
}

func entryLine(name string, e DirEntry) string {
	name = strings.NewReplacer("\n", "␊", "\r", "␍").Replace(clean(name))
	switch {
	case e.Mode.IsDir():
		return name + "/"
	case e.Mode&fs.ModeSymlink != 0:
		return name + "  link"
	case e.Mode.IsRegular():
		return fmt.Sprintf("%s  %d", name, e.Size)
	}
	return name + "  special"
}
