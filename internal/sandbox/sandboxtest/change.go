package sandboxtest

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
)

func testReadDir(t *testing.T, b *rig) {
	s, ctx := b.open(t), t.Context()
	root := s.Info().Workspace
	got, more, err := s.ReadDir(ctx, "", 10)
	require.NoError(t, err)
	require.False(t, more)
	require.Empty(t, got)
	run(t, s, `mkdir -p d/sub; printf 12345 > d/b; ln -s b d/link; mkfifo d/pipe; printf x > "$(printf 'd/.o\nd')"; ln -s d over`)
	for _, path := range []string{"d", root + "/d", "over", "over/"} {
		got, more, err = s.ReadDir(ctx, path, 10)
		require.NoError(t, err, path)
		require.False(t, more)
		var lines []string
		for _, e := range got {
			lines = append(lines, fmt.Sprintf("%q %s", e.Name, e.Mode.Type()))
		}
		require.Equal(t, []string{`".o\nd" ----------`, `"b" ----------`, `"link" L---------`, `"pipe" p---------`, `"sub" d---------`}, lines, path)
		require.EqualValues(t, 5, got[1].Size)
		require.False(t, got[1].ModTime.IsZero())
	}
	got, more, err = s.ReadDir(ctx, "d", 2)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.True(t, more)
	_, _, err = s.ReadDir(ctx, "none", 1)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, _, err = s.ReadDir(ctx, "d/b", 1)
	require.ErrorIs(t, err, sandbox.ErrNotDir)
	_, _, err = s.ReadDir(ctx, "..", 1)
	require.ErrorIs(t, err, sandbox.ErrOutside)
}

func testChange(t *testing.T, b *rig) {
	s, ctx := b.open(t), t.Context()
	run(t, s, "mkdir d; printf old > a; chmod 751 a; printf gone > d/b; printf real > real; ln -s ../real d/link")
	odd := "d/n'ew\n\\x"
	changes := []sandbox.Change{
		{Path: "a", Data: []byte("new")},
		{Path: "d/b", Remove: true},
		{Path: "x/y/z", Data: []byte("made"), Mode: 0o755},
		{Path: odd, Data: nil},
		{Path: "d/link", Data: []byte("through")},
		{Path: "big", Data: []byte(strings.Repeat("0123456789abcde\n", 100_000))},
	}
	for range 2 { // making it again makes the same
		require.NoError(t, s.Change(ctx, changes))
		require.Equal(t, "new", content(t, s, "a"))
		require.Equal(t, fs.FileMode(0o751), mustStat(t, s, "a").Mode.Perm(), "an existing file's mode stays")
		require.False(t, mustStat(t, s, "d/b").Exists)
		require.Equal(t, "made", content(t, s, "x/y/z"))
		require.Equal(t, fs.FileMode(0o755), mustStat(t, s, "x/y/z").Mode.Perm())
		require.True(t, mustStat(t, s, odd).Exists)
		require.EqualValues(t, 1_600_000, mustStat(t, s, "big").Size)
		require.Equal(t, "through", run(t, s, "cat real; test -L d/link").Stdout)
		require.Equal(t, "./a\n./big\n./d\n./d/link\n./real\n./x\n./x/y\n./x/y/z\n",
			run(t, s, `rm -f d/n*; find . -mindepth 1 | LC_ALL=C sort`).Stdout, "nothing is left beside")
	}
	require.ErrorIs(t, s.Change(ctx, []sandbox.Change{{Path: "new", Data: []byte("x")}, {Path: "d", Data: []byte("x")}}), sandbox.ErrNotFile)
	require.False(t, mustStat(t, s, "new").Exists)
	require.ErrorIs(t, s.Change(ctx, []sandbox.Change{{Path: "new", Data: []byte("x")}, {Path: "../x", Data: []byte("x")}}), sandbox.ErrOutside)
	require.False(t, mustStat(t, s, "new").Exists)
}

func testChangeUndone(t *testing.T, b *rig) {
	s, ctx := b.open(t), t.Context()
	run(t, s, "mkdir shut; printf kept > shut/f; printf kept > a; printf kept > b; chmod 555 shut")
	if s.WriteFile(ctx, "shut/x", nil) == nil {
		t.Skip("the worker's user writes where nobody may")
	}
	err := s.Change(ctx, []sandbox.Change{
		{Path: "a", Data: []byte("lost")}, {Path: "b", Remove: true}, {Path: "made", Data: []byte("lost")}, {Path: "shut/f", Data: []byte("lost")},
	})
	require.Error(t, err)
	require.Equal(t, "kept", content(t, s, "a"))
	require.Equal(t, "kept", content(t, s, "b"))
	require.Equal(t, "kept", content(t, s, "shut/f"))
	require.Equal(t, "a\nb\nshut\n", run(t, s, "ls -A").Stdout)
	require.Equal(t, "f\n", run(t, s, "ls -A shut").Stdout)
}
