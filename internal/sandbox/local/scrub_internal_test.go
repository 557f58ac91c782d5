package local

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
