package local_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/local"
)

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(text), 0o644))
	}
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %v: %s", args, out)
	return strings.TrimSpace(string(out))
}

// list returns all files and links below dir, without what is in .git.
func list(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		rel, _ := filepath.Rel(dir, p)
		if rel == ".git" && d.IsDir() {
			return fs.SkipDir
		}
		if !d.IsDir() {
			out = append(out, rel)
		}
		return nil
	}))
	return out
}

// seeded opens a sandbox with this seed and returns its workspace on the host.
func seeded(t *testing.T, dataDir, seed string) (sandbox.Session, string) {
	t.Helper()
	b, err := local.New(t.Context(), local.Config{DataDir: dataDir, NoIsolation: true})
	require.NoError(t, err)
	s, err := b.Open(t.Context(), sandbox.Spec{ID: "s", Seed: sandbox.Seed{Directory: seed}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Destroy(t.Context()) })
	return s, s.Info().HostPath
}

func TestSeedOfGitTree(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	write(t, src, map[string]string{
		".gitignore": "*.log\nbuild/\n", ".countersignignore": "secret.txt\n/docs/private/\n",
		"a.go": "package a\n", "b.log": "x", "build/out": "x", "secret.txt": "x", "docs/private/x": "x", "docs/open": "x",
		"deleted": "x", "sub dir/ünï": "x", "tracked.log": "x",
	})
	require.NoError(t, os.Symlink("a.go", filepath.Join(src, "link")))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(src, "outside")))
	require.NoError(t, os.Chmod(filepath.Join(src, "a.go"), 0o755))
	at := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	require.NoError(t, os.Chtimes(filepath.Join(src, "a.go"), at, at))
	git(t, src, "init", "-q")
	git(t, src, "add", ".")
	git(t, src, "add", "-f", "tracked.log")
	git(t, src, "commit", "-qm", "first")
	git(t, src, "remote", "add", "origin", "https://user:hunter2@example.org/x.git")
	git(t, src, "config", "http.https://example.org/.extraheader", "AUTHORIZATION: basic hunter2")
	require.NoError(t, os.Remove(filepath.Join(src, "deleted")))
	write(t, src, map[string]string{"untracked": "x"})
	before := snapshot(t, src)

	// The data directory may lie in the tree itself, as it does by default.
	s, ws := seeded(t, filepath.Join(src, ".countersign"), src)
	require.Equal(t, []string{
		".countersignignore", ".gitignore", "a.go", "docs/open", "link", "outside", "sub dir/ünï", "tracked.log", "untracked",
	}, list(t, ws))
	info, err := os.Stat(filepath.Join(ws, "a.go"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755), info.Mode().Perm())
	require.True(t, info.ModTime().Equal(at))
	require.Equal(t, "first", git(t, ws, "log", "--format=%s"))
	require.Equal(t, "https://example.org/x.git", git(t, ws, "remote", "get-url", "origin"))
	config, err := os.ReadFile(filepath.Join(ws, ".git/config"))
	require.NoError(t, err)
	require.NotContains(t, string(config), "hunter2")

	require.NoError(t, s.WriteFile(t.Context(), "a.go", []byte("changed")))
	require.NoError(t, os.RemoveAll(filepath.Join(src, ".countersign")))
	require.Equal(t, before, snapshot(t, src), "the user's directory is never written")
}

// snapshot is everything below dir with its times.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		if p != dir {
			out[p] = info.Mode().String() + info.ModTime().String()
		}
		return nil
	}))
	return out
}

func TestSeedOfPlainTree(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "plain")
	write(t, src, map[string]string{
		".countersignignore": "# comment\n*.tmp\n!keep.tmp\ncache/\n", "a": "x", "x.tmp": "x", "keep.tmp": "x", "cache/y": "x", "d/cache/z": "x", "d/e.tmp": "x",
	})
	require.NoError(t, os.MkdirAll(filepath.Join(src, "empty"), 0o755))
	_, ws := seeded(t, t.TempDir(), src)
	require.Equal(t, []string{".countersignignore", "a", "keep.tmp"}, list(t, ws))
	require.DirExists(t, filepath.Join(ws, "empty"))
}

// An unpacked release is no repository, and its .gitignore files count all the same.
func TestSeedOfPlainTreeWithGitignore(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "plain")
	write(t, src, map[string]string{
		".gitignore": "*.log\n!keep.log\n/build/\nnode_modules/\n", "sub/.gitignore": "local\n", ".countersignignore": "secret\n",
		"a": "x", "a.log": "x", "keep.log": "x", "build/out": "x", "sub/build/in": "x", "sub/local": "x", "sub/other": "x",
		"sub/node_modules/m/index.js": "x", "logs/x.log": "x", "secret": "x", "ünï/ö.log": "x", "ünï/ä": "x",
	})
	require.NoError(t, os.MkdirAll(filepath.Join(src, "empty"), 0o755))
	before := snapshot(t, src)
	_, ws := seeded(t, t.TempDir(), src)
	require.Equal(t, []string{
		".countersignignore", ".gitignore", "a", "keep.log", "sub/.gitignore", "sub/build/in", "sub/other", "ünï/ä",
	}, list(t, ws))
	require.DirExists(t, filepath.Join(ws, "empty"))
	require.Equal(t, before, snapshot(t, src), "the user's directory is never written")
}

func TestSeedOfLinkedWorktree(t *testing.T) {
	t.Parallel()
	main := filepath.Join(t.TempDir(), "main")
	write(t, main, map[string]string{"a": "x"})
	git(t, main, "init", "-q")
	git(t, main, "add", ".")
	git(t, main, "commit", "-qm", "first")
	linked := filepath.Join(t.TempDir(), "linked")
	git(t, main, "worktree", "add", "-q", "-b", "topic", linked)
	write(t, linked, map[string]string{"b": "y"})

	_, ws := seeded(t, t.TempDir(), linked)
	require.Equal(t, []string{"a", "b"}, list(t, ws))
	require.Equal(t, "topic", git(t, ws, "branch", "--show-current"))
	require.Equal(t, "?? b", git(t, ws, "status", "--porcelain"))
	require.Equal(t, filepath.Join(ws, ".git"), git(t, ws, "rev-parse", "--absolute-git-dir"))
}

func TestSeedRefuses(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	b, err := local.New(t.Context(), local.Config{DataDir: data, NoIsolation: true})
	require.NoError(t, err)
	write(t, data, map[string]string{"x/y": "z", "file": "z"})
	for _, dir := range []string{filepath.Join(data, "x"), data, filepath.Join(t.TempDir(), "nowhere"), filepath.Join(data, "file")} {
		_, err = b.Open(t.Context(), sandbox.Spec{ID: "s", Seed: sandbox.Seed{Directory: dir}})
		var refused *sandbox.RefusedError
		require.ErrorAs(t, err, &refused, dir)
		_, err = b.Open(t.Context(), sandbox.Spec{ID: "s", Existing: true})
		require.ErrorIs(t, err, sandbox.ErrGone)
	}
}
