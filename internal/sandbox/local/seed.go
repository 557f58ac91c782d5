package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/ignore"
)

// CopyDir copies a directory of this machine into one that is there, without what
// git or a .countersignignore file ignores, and without the data directory. What
// people must put right is a [sandbox.RefusedError]; a name that is taken is
// [fs.ErrExist].
func (b *Backend) CopyDir(ctx context.Context, from, to string) error {
	return copySeed(ctx, from, to, b.cfg.DataDir)
}

// copySeed copies src into the empty directory dst without what git or an
// [ignore.File] ignores, and without dataDir. src is only read.
func copySeed(ctx context.Context, src, dst, dataDir string) error {
	src, err := filepath.EvalSymlinks(src)
	if err == nil {
		src, err = filepath.Abs(src)
	}
	if err != nil {
		return sandbox.Refuse(fmt.Sprintf("The workspace's source cannot be read: %v.", err))
	}
	if info, err := os.Stat(src); err != nil || !info.IsDir() {
		return sandbox.Refuse(fmt.Sprintf("The workspace's source %s is no directory.", src))
	}
	if within(dataDir, src) {
		return sandbox.Refuse(fmt.Sprintf("The workspace's source %s lies in the data directory.", src))
	}
	from, err := os.OpenRoot(src)
	if err != nil {
		return fmt.Errorf("opening the workspace's source: %w", err)
	}
	defer from.Close()
	to, err := os.OpenRoot(dst)
	if err != nil {
		return fmt.Errorf("opening the new workspace: %w", err)
	}
	defer to.Close()
	ignored, err := readIgnore(from)
	if err != nil {
		return err
	}
	c := copier{ctx: ctx, from: from, to: to, dst: dst}
	c.skip = func(rel string, dir bool) bool {
		if rel == ".git" || strings.HasPrefix(rel, ".git/") {
			return false // half a repository is none
		}
		return within(dataDir, filepath.Join(src, rel)) || ignored.Match(rel, dir) || c.left[rel] || inDataDir(src, rel)
	}
	if err := c.copy(src); err != nil {
		return fmt.Errorf("copying the workspace: %w", err)
	}
	return c.times()
}

func readIgnore(root *os.Root) (ignore.Rules, error) {
	data, err := root.ReadFile(ignore.File)
	if errors.Is(err, fs.ErrNotExist) {
		return ignore.Rules{}, nil
	}
	if err != nil {
		return ignore.Rules{}, fmt.Errorf("reading %s: %w", ignore.File, err)
	}
	if len(data) > ignore.MaxFile {
		return ignore.Rules{}, fmt.Errorf("%s is over %d bytes", ignore.File, ignore.MaxFile)
	}
	return ignore.Parse(string(data)), nil
}

// dataDirMarks are files that a data directory of this program has: one that lies
// in a workspace, of another process or an earlier one, holds its token and every
// session's files, and is never copied.
var dataDirMarks = []string{"host_id", "worker.lock"}

// inDataDir tells whether rel, below src, is a data directory or lies in one.
func inDataDir(src, rel string) bool {
	for dir := path.Clean(rel); dir != "." && dir != "/"; dir = path.Dir(dir) {
		all := true
		for _, mark := range dataDirMarks {
			if _, err := os.Lstat(filepath.Join(src, dir, mark)); err != nil {
				all = false
				break
			}
		}
		if all {
			return true
		}
	}
	return false
}

// within tells whether p is dir or lies below it.
func within(dir, p string) bool {
	rel, err := filepath.Rel(dir, p)
	return err == nil && filepath.IsLocal(rel)
}

type copier struct {
	ctx      context.Context
	from, to *os.Root
	dst      string
	skip     func(rel string, dir bool) bool
	left     map[string]bool // what .gitignore files leave out where git keeps no list
	dirs     []string
	made     map[string]bool
}

// copy takes git's list where src is a git working tree, else everything.
func (c *copier) copy(src string) error {
	c.made = map[string]bool{}
	files, isGit, err := gitFiles(c.ctx, src)
	if err != nil {
		return err
	}
	if !isGit {
		if c.left, err = gitIgnored(c.ctx, src); err != nil {
			return err
		}
		return c.tree(".")
	}
	for _, rel := range files {
		// A listed directory is a submodule or a repository of its own.
		if sub := strings.TrimSuffix(rel, "/"); c.isDir(sub) {
			err = c.tree(sub)
		} else {
			err = c.entry(rel)
		}
		if err != nil {
			return err
		}
	}
	return c.gitDir(src)
}

func (c *copier) isDir(rel string) bool {
	info, err := c.from.Lstat(rel)
	return err == nil && info.IsDir()
}

// tree copies everything below rel.
func (c *copier) tree(rel string) error {
	if c.skip(rel, true) {
		return nil
	}
	if err := c.dir(rel); err != nil {
		return err
	}
	d, err := c.from.Open(rel)
	if err != nil {
		return tolerated(err)
	}
	names, err := d.Readdirnames(-1)
	d.Close()
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		p := path.Join(rel, name)
		if c.isDir(p) {
			err = c.tree(p)
		} else {
			err = c.entry(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dir makes a directory and its parents, with the modes they have in the source.
func (c *copier) dir(rel string) error {
	if rel == "." || c.made[rel] {
		return nil
	}
	if err := c.dir(path.Dir(rel)); err != nil {
		return err
	}
	info, err := c.from.Lstat(rel)
	if err != nil {
		return tolerated(err)
	}
	c.made[rel] = true
	c.dirs = append(c.dirs, rel)
	if err := c.to.Mkdir(rel, info.Mode().Perm()|0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// entry copies one file or link. What vanished, may not be read or is no file is
// left out.
func (c *copier) entry(rel string) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if rel == "" || c.skipped(rel) {
		return nil
	}
	info, err := c.from.Lstat(rel)
	if err != nil {
		return tolerated(err)
	}
	if !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0 {
		return nil
	}
	if err := c.dir(path.Dir(rel)); err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		to, err := c.from.Readlink(rel)
		if err != nil {
			return tolerated(err)
		}
		if err := c.to.Symlink(to, rel); err != nil {
			return err
		}
		ts := unix.NsecToTimespec(info.ModTime().UnixNano())
		_ = unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(c.dst, rel), []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
		return nil
	}
	return c.file(rel, info)
}

// skipped tells whether an entry or one of its parents is left out. What is
// listed below a directory that is now a link is no part of the tree.
func (c *copier) skipped(rel string) bool {
	if c.skip(rel, false) {
		return true
	}
	dir := path.Dir(rel)
	if dir == "." || c.made[dir] {
		return false
	}
	for p := dir; p != "."; p = path.Dir(p) {
		if c.skip(p, true) {
			return true
		}
	}
	parts := strings.Split(dir, "/")
	for i := range parts {
		if !c.isDir(path.Join(parts[:i+1]...)) {
			return true
		}
	}
	return false
}

func (c *copier) file(rel string, info fs.FileInfo) error {
	in, err := c.from.Open(rel)
	if err != nil {
		return tolerated(err)
	}
	defer in.Close()
	out, err := c.to.OpenFile(rel, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm()|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Chmod(info.Mode().Perm())
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return c.to.Chtimes(rel, time.Time{}, info.ModTime())
}

// times gives directories the times they have in the source, the deepest first.
func (c *copier) times() error {
	for _, rel := range slices.Backward(c.dirs) {
		if info, err := c.from.Lstat(rel); err == nil {
			if err := c.to.Chtimes(rel, time.Time{}, info.ModTime()); err != nil {
				return fmt.Errorf("copying the workspace: %w", err)
			}
		}
	}
	return nil
}

// tolerated drops the errors of files that are not there or not for us.
func tolerated(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// git runs git in dir without anything that could write there, run a hook or
// ask a question.
func git(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "core.fsmonitor=false", "-c", "safe.directory=*"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "GIT_") }),
		"GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(problem.String()))
	}
	return out, nil
}

// gitFiles lists the files below dir that git tracks or would track. It says
// false where dir is in no working tree or there is no git.
func gitFiles(ctx context.Context, dir string) ([]string, bool, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, false, nil
	}
	out, err := git(ctx, dir, "rev-parse", "--is-inside-work-tree")
	if err != nil || strings.TrimSpace(string(out)) != "true" {
		return nil, false, ctx.Err()
	}
	out, err = git(ctx, dir, "ls-files", "-z", "-c", "-o", "--exclude-standard")
	if err != nil {
		return nil, false, err
	}
	files := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	slices.Sort(files)
	return slices.Compact(files), true, nil // a file in conflict is listed once a side
}

// gitIgnored are the files and directories that .gitignore files leave out of a tree
// that is no repository's, such as an unpacked release: people expect of them what
// they do in one. Where there is no git they are not looked at.
func gitIgnored(ctx context.Context, dir string) (map[string]bool, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, nil
	}
	none, err := os.MkdirTemp("", "countersign-ignored-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for git: %w", err)
	}
	defer func() { _ = os.RemoveAll(none) }() // it is temporary
	if _, err := git(ctx, none, "init", "-q", "--bare", "--template="); err != nil {
		return nil, err
	}
	out, err := git(ctx, dir, "--git-dir="+none, "--work-tree=.",
		"ls-files", "-z", "--others", "--ignored", "--directory", "--exclude-per-directory=.gitignore")
	if err != nil {
		return nil, err
	}
	left := map[string]bool{}
	for name := range strings.SplitSeq(string(out), "\x00") {
		left[strings.TrimSuffix(name, "/")] = true
	}
	delete(left, "")
	return left, nil
}

// gitDir copies the repository itself. A linked working tree or a submodule gets
// one of its own, made of what it shares and what is its own.
func (c *copier) gitDir(src string) error {
	info, err := c.from.Lstat(".git")
	if err != nil {
		return tolerated(err)
	}
	if info.IsDir() {
		if err := c.tree(".git"); err != nil {
			return err
		}
	} else if err := c.linkedGitDir(src); err != nil {
		return err
	}
	return c.scrub()
}

func (c *copier) linkedGitDir(src string) error {
	out, err := git(c.ctx, src, "rev-parse", "--absolute-git-dir", "--git-common-dir")
	if err != nil {
		return err
	}
	own, shared, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if !filepath.IsAbs(shared) {
		shared = filepath.Join(src, shared)
	}
	sub, err := os.OpenRoot(shared)
	if err != nil {
		return tolerated(err)
	}
	defer sub.Close()
	if err := c.to.Mkdir(".git", 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	into, err := c.to.OpenRoot(".git")
	if err != nil {
		return err
	}
	defer into.Close()
	inner := copier{ctx: c.ctx, from: sub, to: into, dst: filepath.Join(c.dst, ".git"), made: map[string]bool{},
		skip: func(rel string, _ bool) bool { return rel == "worktrees" || rel == "modules" }}
	if err := inner.tree("."); err != nil {
		return err
	}
	for _, name := range []string{"HEAD", "index", "ORIG_HEAD"} {
		data, err := os.ReadFile(filepath.Join(own, name))
		if err != nil {
			continue
		}
		if err := into.WriteFile(name, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
