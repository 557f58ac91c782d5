// Package fill makes a fresh workspace from its manifest, on the worker's
// machine: what it holds is then the sandbox's, and how it got there is not.
package fill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/countersign/countersign/internal/manifest"
	"github.com/countersign/countersign/internal/sandbox"
)

// Filler fills workspaces. It is safe for concurrent use.
type Filler struct {
	// Getenv looks up the worker's environment variables.
	Getenv func(string) string
	// CopyDir copies a directory of the worker into one that is there, without
	// what is ignored in it.
	CopyDir func(ctx context.Context, from, to string) error
}

// maxFile bounds what is copied of a worker's file, in bytes.
const maxFile = 1 << 30 // 1 GiB

// Fill makes what the manifest says in dir, which is there and empty. What people
// must put right is a [sandbox.RefusedError].
func (f Filler) Fill(ctx context.Context, w manifest.Workspace, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("opening the new workspace: %w", err)
	}
	defer root.Close()
	repos := slices.Clone(w.Repositories)
	// The outer before those inside it.
	slices.SortStableFunc(repos, func(a, b manifest.Repository) int { return len(path.Clean(a.Path)) - len(path.Clean(b.Path)) })
	for _, r := range repos {
		if err := f.clone(ctx, r, filepath.Join(dir, r.Path)); err != nil {
			return err
		}
	}
	for _, d := range w.Directories {
		if err := f.directory(ctx, root, d, dir); err != nil {
			return err
		}
	}
	for _, file := range w.Files {
		if err := f.file(root, file); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (f Filler) directory(ctx context.Context, root *os.Root, d manifest.Directory, dir string) error {
	if err := root.MkdirAll(d.Path, 0o755); err != nil {
		return sandbox.Refuse(fmt.Sprintf("The workspace's directory %s cannot be made: %v.", d.Path, cause(err)))
	}
	if d.From == "" {
		return nil
	}
	err := f.CopyDir(ctx, d.From, filepath.Join(dir, d.Path))
	if errors.Is(err, fs.ErrExist) {
		return sandbox.Refuse(fmt.Sprintf("The workspace's directory %s and something else in the manifest both hold a file of the same name: %v.", d.Path, cause(err)))
	}
	return err
}

func (f Filler) file(root *os.Root, file manifest.File) error {
	from := io.Reader(bytes.NewReader([]byte(file.Text)))
	if file.From != "" {
		in, err := os.Open(file.From)
		if err != nil {
			return sandbox.Refuse(fmt.Sprintf("The workspace's file %s cannot be copied: %v.", file.Path, cause(err)))
		}
		defer in.Close()
		if info, err := in.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxFile {
			return sandbox.Refuse(fmt.Sprintf("The workspace's file %s cannot be copied: %s is no file of at most 1 GB.", file.Path, file.From))
		}
		from = in
	}
	mode := fs.FileMode(0o644)
	if file.Executable {
		mode = 0o755
	}
	err := root.MkdirAll(path.Dir(path.Clean(file.Path)), 0o755)
	var out *os.File
	if err == nil {
		// A link of a repository is replaced, not followed.
		if info, serr := root.Lstat(file.Path); serr == nil && !info.IsDir() {
			err = root.Remove(file.Path)
		}
	}
	if err == nil {
		out, err = root.OpenFile(file.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	}
	if err == nil {
		_, err = io.Copy(out, from)
		if cerr := errors.Join(out.Chmod(mode), out.Close()); err == nil {
			err = cerr
		}
	}
	if err != nil {
		return sandbox.Refuse(fmt.Sprintf("The workspace's file %s cannot be written: %v.", file.Path, cause(err)))
	}
	return nil
}

// cause is an error without the operation and path that people know already.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return fmt.Errorf("%s: %w", p.Path, p.Err)
	}
	return err
}
