package ignore_test

import (
	"bytes"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox/ignore"
)

// ignored asks the way a walk does: each parent first.
func ignored(r ignore.Rules, name string, dir bool) bool {
	for i := range len(name) {
		if name[i] == '/' && r.Match(name[:i], true) {
			return true
		}
	}
	return r.Match(name, dir)
}

func TestRules(t *testing.T) {
	t.Parallel()
	r := ignore.Parse("# comment\r\n*.log\n!keep.log\n/top\nbuild/\na/*/c\n\\#odd\n\\!bang\ntrail \nspace\\ \nx[0-9].o\ndoc/**/*.pdf\n**/deep\nend/**\n")
	for name, want := range map[string]bool{
		"x.log": true, "d/x.log": true, "keep.log": false, "top": true, "d/top": false, "build": false, "build/": true, "d/build/": true,
		"a/b/c": true, "a/b/d/c": false, "#odd": true, "!bang": true, "trail": true, "space ": true, "space": false, "x1.o": true, "xa.o": false,
		"doc/a.pdf": true, "doc/b/c/a.pdf": true, "deep": true, "q/deep": true, "end": false, "end/x": true, ".git/x.log": false, "sub/.git/build/": false,
	} {
		dir := strings.HasSuffix(name, "/")
		require.Equal(t, want, ignored(r, strings.TrimSuffix(name, "/"), dir), name)
	}
	caches := ignore.Parse(ignore.Caches, "!.tox/\n")
	require.True(t, ignored(caches, "a/__pycache__/x.pyc", false))
	require.True(t, ignored(caches, "web/node_modules/.cache/x", false))
	require.False(t, ignored(caches, "node_modules/x", false))
	require.False(t, ignored(caches, ".tox/x", false))
	require.False(t, ignored(caches, "__pycache__", false), "a file of that name is no cache")
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rules, path string
		dir, want   bool
	}{
		{"*.log", "a.logs", false, false}, {"/a", "d/a", false, false}, {"d/a", "d/a", false, true}, {"d/a", "x/d/a", false, false},
		{"build/", "x/build", true, true}, {"a/**", "a/b/c", false, true}, {"a/**/c", "a/c", false, true}, {"a/**/c", "a/x/y/c", false, true},
		{"*\n!keep", "keep", false, false}, {"!keep\n*", "keep", false, true}, {"a?c", "a/c", false, false}, {"a.b", "axb", false, false},
		{"# x", "x", false, false}, {"", "a", false, false}, {"  ", "a", false, false}, {"*", ".", true, false}, {"[", "[", false, false},
	} {
		require.Equal(t, c.want, ignore.Parse(c.rules).Match(c.path, c.dir), "%q on %q", c.rules, c.path)
	}
}

// Git says of random rules and names what Match says.
func TestAsGit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git to compare with")
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	dir := t.TempDir()
	require.NoError(t, exec.CommandContext(t.Context(), "git", "init", "-q", dir).Run())
	dirs := map[string]bool{} // everything in the tree: whether it is one
	for range 200 {
		var parts []string
		for range 1 + rnd.IntN(4) {
			parts = append(parts, pick("a", "b", "ab", "abb", "c", ".x", "a.x"))
		}
		name := strings.Join(parts, "/")
		if rnd.IntN(2) == 0 {
			_ = os.MkdirAll(filepath.Join(dir, name), 0o755)
		} else if os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755) == nil {
			_ = os.WriteFile(filepath.Join(dir, name), nil, 0o600)
		}
	}
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p)
		if rel == ".git" {
			return fs.SkipDir
		}
		if rel != "." {
			dirs[rel] = d.IsDir()
		}
		return err
	}))
	names := slices.Sorted(maps.Keys(dirs))
	matched := 0
	for range 150 {
		var rules []string
		for range 1 + rnd.IntN(4) {
			line := pick("", "", "!", "/")
			for range 1 + rnd.IntN(4) {
				line += pick("a", "b", "ab", "*", "**", "?", "/", "/**/", "[ab]", "[!a]", "[a-b]", "[[:alpha:]]", `\a`, "a*", ".x")
			}
			rules = append(rules, line+pick("", "", "/", " "))
		}
		text := strings.Join(rules, "\n") + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".git", "info", "exclude"), []byte(text), 0o600))
		cmd := exec.CommandContext(t.Context(), "git", "-C", dir, "check-ignore", "--no-index", "-z", "--stdin")
		cmd.Stdin = strings.NewReader(strings.Join(names, "\x00"))
		out, _ := cmd.Output()
		want := map[string]bool{}
		for name := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
			want[string(name)] = true
		}
		matched += len(want)
		r := ignore.Parse(text)
		for name, isDir := range dirs {
			require.Equal(t, want[name], ignored(r, name, isDir), "rules %q, name %q, directory %v", text, name, isDir)
		}
	}
	require.Greater(t, matched, 1000)
}
