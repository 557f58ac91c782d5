package local

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIgnore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rules, path string
		dir, want   bool
	}{
		{"*.log", "a.log", false, true}, {"*.log", "d/a.log", false, true}, {"*.log", "a.logs", false, false},
		{"/a", "a", false, true}, {"/a", "d/a", false, false}, {"d/a", "d/a", false, true}, {"d/a", "x/d/a", false, false},
		{"build/", "build", true, true}, {"build/", "build", false, false}, {"build/", "x/build", true, true},
		{"**/x", "a/b/x", false, true}, {"a/**", "a/b/c", false, true}, {"a/**/c", "a/c", false, true}, {"a/**/c", "a/x/y/c", false, true},
		{"*\n!keep", "keep", false, false}, {"!keep\n*", "keep", false, true}, {"a?c", "abc", false, true}, {"a?c", "a/c", false, false},
		{"[ab].x", "a.x", false, true}, {"[!ab].x", "a.x", false, false}, {`\#x`, "#x", false, true}, {"# x", "x", false, false},
		{"a.b", "axb", false, false}, {"", "a", false, false}, {"  ", "a", false, false}, {"*", ".", true, false}, {"[", "[", false, true},
	} {
		require.Equal(t, c.want, parseIgnore(c.rules).match(c.path, c.dir), "%q on %q", c.rules, c.path)
	}
}

func TestScrubConfig(t *testing.T) {
	t.Parallel()
	got := scrubConfig(`[core]
	bare = false
	worktree = /home/ada/main
[remote "origin"]
	url = https://ada:pw@example.org/x.git
	pushurl = ssh://git@example.org/x.git
	fetch = +refs/heads/*:refs/remotes/origin/*
[credential "https://example.org"]
	helper = store
	username = ada
[http "https://example.org/"]
	extraheader = AUTHORIZATION: basic c2VjcmV0
	sslVerify = true
[user]
	name = Ada
`)
	require.Equal(t, `[core]
	bare = false
[remote "origin"]
	url = https://example.org/x.git
	pushurl = ssh://git@example.org/x.git
	fetch = +refs/heads/*:refs/remotes/origin/*
[http "https://example.org/"]
	sslVerify = true
[user]
	name = Ada
`, got)
}
