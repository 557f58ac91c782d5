package fill_test

import (
	"context"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/manifest"
	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/fill"
	"github.com/countersign/countersign/internal/sandbox/local"
)

const token = "ght-c0untersign-token"

// git runs git and returns what it prints.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@x", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@x")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %v: %s", args, out)
	return strings.TrimSpace(string(out))
}

// origin is a bare repository with two commits on main, a tag and a branch.
func origin(t *testing.T) (bare, first string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	top := t.TempDir()
	work := filepath.Join(top, "work")
	git(t, top, "init", "-q", "-b", "main", work)
	require.NoError(t, os.WriteFile(filepath.Join(work, "f"), []byte("one\n"), 0o600))
	git(t, work, "add", "f")
	git(t, work, "commit", "-q", "-m", "one")
	first = git(t, work, "rev-parse", "HEAD")
	git(t, work, "tag", "v1")
	git(t, work, "checkout", "-q", "-b", "side")
	require.NoError(t, os.WriteFile(filepath.Join(work, "f"), []byte("side\n"), 0o600))
	git(t, work, "commit", "-q", "-a", "-m", "side")
	git(t, work, "checkout", "-q", "main")
	require.NoError(t, os.WriteFile(filepath.Join(work, "f"), []byte("two\n"), 0o600))
	git(t, work, "commit", "-q", "-a", "-m", "two")
	bare = filepath.Join(top, "origin.git")
	git(t, top, "clone", "-q", "--bare", work, bare)
	return bare, first
}

// serve offers the repositories of a directory to who knows the token.
func serve(t *testing.T, dir string) (url string, asked *atomic.Int32) {
	t.Helper()
	exe, err := exec.LookPath("git")
	require.NoError(t, err)
	asked = &atomic.Int32{}
	backend := &cgi.Handler{Path: exe, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, pass, _ := r.BasicAuth(); user != "bot" || pass != token {
			asked.Add(1)
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

func filler(t *testing.T, env map[string]string) fill.Filler {
	t.Helper()
	b, err := local.New(t.Context(), local.Config{DataDir: t.TempDir(), NoIsolation: true})
	require.NoError(t, err)
	return fill.Filler{Getenv: func(name string) string { return env[name] }, CopyDir: b.CopyDir}
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(parts...))
	require.NoError(t, err)
	return string(data)
}

// holds fails where a file below dir holds the text.
func holds(t *testing.T, dir, text string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			require.NotContains(t, read(t, p), text, p)
		}
		return err
	}))
}

func TestCloneWithCredentials(t *testing.T) {
	t.Parallel()
	bare, _ := origin(t)
	url, asked := serve(t, filepath.Dir(bare))
	f, dir := filler(t, map[string]string{"TOKEN": token}), t.TempDir()
	w := manifest.Workspace{Repositories: []manifest.Repository{
		{URL: url + "/origin.git", Depth: 1, Credentials: &manifest.Credentials{Reference: manifest.Reference{Env: "TOKEN"}, User: "bot"}},
	}}
	require.NoError(t, f.Fill(t.Context(), w, dir))
	require.Positive(t, asked.Load(), "the token is sent when it is asked for")
	require.Equal(t, "two\n", read(t, dir, "f"))
	require.Equal(t, "1", git(t, dir, "rev-list", "--count", "HEAD"))
	require.Equal(t, url+"/origin.git", git(t, dir, "config", "remote.origin.url"))
	require.Equal(t, "main", git(t, dir, "branch", "--show-current"))
	holds(t, dir, token)
	holds(t, dir, "credential")

	for _, env := range []map[string]string{nil, {"TOKEN": "wrong-" + token}} {
		err := filler(t, env).Fill(t.Context(), w, t.TempDir())
		var refused *sandbox.RefusedError
		require.ErrorAs(t, err, &refused)
		require.Contains(t, refused.Text, "The repository "+url+"/origin.git cannot be cloned: ")
		require.NotContains(t, refused.Text, token)
	}
}

// A server that redirects elsewhere does not get the token sent there.
func TestCredentialsStayWithTheirServer(t *testing.T) {
	t.Parallel()
	bare, _ := origin(t)
	other, _ := serve(t, filepath.Dir(bare))
	lure := httptest.NewServer(http.RedirectHandler(other+"/origin.git/info/refs?service=git-upload-pack", http.StatusFound))
	t.Cleanup(lure.Close)
	w := manifest.Workspace{Repositories: []manifest.Repository{
		{URL: lure.URL + "/origin.git", Credentials: &manifest.Credentials{Reference: manifest.Reference{Env: "TOKEN"}, User: "bot"}},
	}}
	require.Error(t, filler(t, map[string]string{"TOKEN": token}).Fill(t.Context(), w, t.TempDir()))
}

func TestRefs(t *testing.T) {
	t.Parallel()
	bare, first := origin(t)
	for ref, want := range map[string]string{"": "two\n", "main": "two\n", "side": "side\n", "v1": "one\n", first: "one\n"} {
		for _, depth := range []int{0, 1} {
			dir := t.TempDir()
			w := manifest.Workspace{Repositories: []manifest.Repository{{Path: "a/b", URL: "file://" + bare, Ref: ref, Depth: depth}}}
			require.NoError(t, filler(t, nil).Fill(t.Context(), w, dir), ref)
			require.Equal(t, want, read(t, dir, "a", "b", "f"), ref)
		}
	}
	w := manifest.Workspace{Repositories: []manifest.Repository{{URL: "file://" + bare, Ref: "nonesuch"}}}
	require.ErrorContains(t, filler(t, nil).Fill(t.Context(), w, t.TempDir()), "nonesuch")
}

func TestFilesAndDirectories(t *testing.T) {
	t.Parallel()
	bare, _ := origin(t)
	src := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(src, "data"), []byte("data\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(src, ".countersignignore"), []byte("cache\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(src, "cache"), []byte("x"), 0o600))
	dir := t.TempDir()
	w := manifest.Workspace{
		Repositories: []manifest.Repository{{Path: "sub/repo", URL: "file://" + bare}, {URL: "file://" + bare}},
		Directories:  []manifest.Directory{{Path: "in", From: src}, {Path: "deep/empty"}},
		Files: []manifest.File{
			{Path: "f", Text: "mine\n"}, {Path: "bin/tool", From: filepath.Join(src, "data"), Executable: true},
		},
	}
	require.NoError(t, filler(t, nil).Fill(t.Context(), w, dir))
	require.Equal(t, "mine\n", read(t, dir, "f"), "a file stands over the repository's")
	require.Equal(t, "two\n", read(t, dir, "sub/repo/f"))
	require.Equal(t, "data\n", read(t, dir, "in/data"))
	require.NoFileExists(t, filepath.Join(dir, "in/cache"))
	require.DirExists(t, filepath.Join(dir, "deep/empty"))
	info, err := os.Stat(filepath.Join(dir, "bin/tool"))
	require.NoError(t, err)
	require.EqualValues(t, 0o755, info.Mode().Perm())

	for want, w := range map[string]manifest.Workspace{
		"both hold a file of the same name": {Repositories: w.Repositories[1:], Directories: []manifest.Directory{{Path: ".", From: filepath.Join(dir, "sub/repo")}}},
		"cannot be copied":                  {Files: []manifest.File{{Path: "x", From: "/nonexistent/x"}}},
		"is no directory":                   {Directories: []manifest.Directory{{Path: "x", From: filepath.Join(src, "data")}}},
		"cannot be written":                 {Directories: []manifest.Directory{{Path: "x"}}, Files: []manifest.File{{Path: "x", Text: "y"}}},
	} {
		var refused *sandbox.RefusedError
		require.ErrorAs(t, filler(t, nil).Fill(t.Context(), w, t.TempDir()), &refused, want)
		require.Contains(t, refused.Text, want)
	}
}

// A link in a repository does not lead what comes later out of the workspace.
func TestLinksAreNotFollowed(t *testing.T) {
	t.Parallel()
	bare, _ := origin(t)
	outside := t.TempDir()
	work := filepath.Join(t.TempDir(), "w")
	git(t, outside, "clone", "-q", bare, work)
	require.NoError(t, os.Symlink(outside, filepath.Join(work, "out")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "file"), filepath.Join(work, "link")))
	git(t, work, "add", ".")
	git(t, work, "commit", "-q", "-m", "links")
	w := manifest.Workspace{
		Repositories: []manifest.Repository{{URL: "file://" + work}},
		Files:        []manifest.File{{Path: "link", Text: "here\n"}},
	}
	dir := t.TempDir()
	require.NoError(t, filler(t, nil).Fill(t.Context(), w, dir))
	require.Equal(t, "here\n", read(t, dir, "link"))
	require.NoFileExists(t, filepath.Join(outside, "file"))
	w.Files = []manifest.File{{Path: "out/x", Text: "y"}}
	require.Error(t, filler(t, nil).Fill(t.Context(), w, t.TempDir()))
	w.Files, w.Directories = nil, []manifest.Directory{{Path: "out", From: work}}
	require.Error(t, filler(t, nil).Fill(t.Context(), w, t.TempDir()))
	require.NoFileExists(t, filepath.Join(outside, "x"))
	require.NoFileExists(t, filepath.Join(outside, "f"))
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	bare, _ := origin(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := manifest.Workspace{Repositories: []manifest.Repository{{URL: "file://" + bare}}}
	require.ErrorIs(t, filler(t, nil).Fill(ctx, w, t.TempDir()), context.Canceled)
}
