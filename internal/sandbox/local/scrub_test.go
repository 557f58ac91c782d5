package local

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScrubConfigOfWhatRunsPrograms(t *testing.T) {
	t.Parallel()
	const before = `[core]
	bare = false
	fsmonitor = ./evil.sh
	Pager = sh -c 'evil \\
	and more'
	autocrlf = input
[core] hooksPath = hooks
[remote "origin"]
	url = https://ada:secret@example.org/x.git
	fetch = +refs/heads/*:refs/remotes/origin/*
[credential "https://example.org"]
	helper = store
[diff]
	external = ./evil
	renames = true
[diff "x"]
	textconv = ./evil
	binary = true
[diff.y]
	command = ./evil
[alias]
	st = !evil
[filter "lfs"]
	clean = evil
[includeIf "gitdir:~/x"]
	path = ~/evil
[user]
	name = Ada
`
	const after = `[core]
	bare = false
	autocrlf = input
[core]
[remote "origin"]
	url = https://example.org/x.git
	fetch = +refs/heads/*:refs/remotes/origin/*
[diff]
	renames = true
[diff "x"]
	binary = true
[diff.y]
[user]
	name = Ada
`
	require.Equal(t, after, scrubConfig(before))
	require.Equal(t, after, scrubConfig(after))
}
