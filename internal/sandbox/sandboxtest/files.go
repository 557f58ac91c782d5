package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/snapshot"
)

func testFiles(t *testing.T, b *rig) {
	s, ctx := b.open(t), t.Context()
	root := s.Info().Workspace
	require.NoError(t, s.WriteFile(ctx, "a/b/c.txt", []byte("hello")))
	require.Equal(t, "hello", run(t, s, "cat a/b/c.txt").Stdout)
	data, size, err := s.ReadFile(ctx, root+"/a/./b/../b/c.txt", 3)
	require.NoError(t, err)
	require.Equal(t, "hel", string(data))
	require.EqualValues(t, 5, size)
	sum, err := s.Hash(ctx, "a/b/c.txt")
	require.NoError(t, err)
	require.Equal(t, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824", sum)

	run(t, s, "chmod 755 a/b/c.txt; mkfifo pipe; echo from inside > made")
	require.NoError(t, s.WriteFile(ctx, "a/b/c.txt", []byte("other")))
	info, err := s.Stat(ctx, "a/b/c.txt")
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o755), info.Mode.Perm(), "an existing file's mode stays")
	require.Equal(t, root+"/a/b/c.txt", info.Resolved)
	require.EqualValues(t, 5, info.Size)
	require.Equal(t, "from inside\n", content(t, s, "made"))
	require.Equal(t, "a\nmade\npipe\n", run(t, s, "ls -A").Stdout, "a write leaves no temporary file")

	_, _, err = s.ReadFile(ctx, "pipe", 1)
	require.ErrorIs(t, err, sandbox.ErrNotFile)
	_, _, err = s.ReadFile(ctx, "a", 1)
	require.ErrorIs(t, err, sandbox.ErrNotFile)
	require.ErrorIs(t, s.WriteFile(ctx, "a", nil), sandbox.ErrNotFile)
	_, _, err = s.ReadFile(ctx, "none", 1)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = s.Hash(ctx, "none")
	require.ErrorIs(t, err, fs.ErrNotExist)
	info, err = s.Stat(ctx, "none/../of/these")
	require.NoError(t, err)
	require.False(t, info.Exists)
}

func testLinks(t *testing.T, b *rig) {
	s, ctx := b.open(t), t.Context()
	root := s.Info().Workspace
	run(t, s, "mkdir -p d/e; echo x > d/e/f; ln -s d/e rel; ln -s "+root+"/d abs; ln -s f d/e/same; ln -s ../.. d/e/up; ln -s loop loop; ln -s nothing dangling")
	for path, want := range map[string]string{
		"rel/f": "/d/e/f", "abs/e/f": "/d/e/f", "rel/same": "/d/e/f", "rel/up/d": "/d", "rel/../e/f": "/d/e/f",
		"dangling": "/nothing", "dangling/more": "/nothing/more", "abs/none/x": "/d/none/x", "rel": "/d/e",
	} {
		info, err := s.Stat(ctx, path)
		require.NoError(t, err, path)
		require.Equal(t, root+want, info.Resolved, path)
		require.False(t, info.Outside, path)
	}
	require.Equal(t, "x\n", content(t, s, "abs/e/same"))
	_, err := s.Stat(ctx, "loop")
	require.Error(t, err)
	require.NoError(t, s.WriteFile(ctx, "rel/same", []byte("through")))
	require.Equal(t, "through", run(t, s, "cat d/e/f; test -L d/e/same").Stdout, "a write goes where the link leads")
	require.NoError(t, s.WriteFile(ctx, "dangling", []byte("made")))
	require.Equal(t, "made", content(t, s, "nothing"))
}

func testOutside(t *testing.T, b *rig) {
	s, ctx := b.open(t), t.Context()
	run(t, s, "ln -s /etc etc; ln -s /etc/passwd passwd; mkdir d; ln -s ../.. d/up; ln -s up/x d/far")
	for path, resolved := range map[string]string{
		"etc/hosts": "/etc/hosts", "passwd": "/etc/passwd", "/etc/passwd": "/etc/passwd", "../x": "", "d/up/x": "", "d/far": "",
		s.Info().Workspace + "/../x": "", s.Info().Workspace + "x": s.Info().Workspace + "x", "~/x": s.Info().Home + "/x",
	} {
		info, err := s.Stat(ctx, path)
		require.NoError(t, err, path)
		require.True(t, info.Outside, path)
		if resolved != "" {
			require.Equal(t, resolved, info.Resolved, path)
		}
		_, _, err = s.ReadFile(ctx, path, 1)
		require.ErrorIs(t, err, sandbox.ErrOutside, path)
		require.ErrorIs(t, s.WriteFile(ctx, path, []byte("x")), sandbox.ErrOutside, path)
		_, err = s.Hash(ctx, path)
		require.ErrorIs(t, err, sandbox.ErrOutside, path)
	}
	_, err := s.Stat(ctx, "a\x00b")
	require.Error(t, err)
	require.Equal(t, s.Info().Workspace+"/d", mustStat(t, s, "../"+s.Info().Workspace[strings.LastIndex(s.Info().Workspace, "/")+1:]+"/d").Resolved)
}

func mustStat(t *testing.T, s sandbox.Session, path string) sandbox.FileInfo {
	t.Helper()
	info, err := s.Stat(t.Context(), path)
	require.NoError(t, err)
	return info
}

func testGlob(t *testing.T, b *rig) {
	s, ctx := b.open(t), t.Context()
	root := s.Info().Workspace
	run(t, s, "mkdir -p a b/c .h; touch a/1.go a/2.go a/x.md b/c/3.go b/.dot .h/z; ln -s a link; ln -s /etc out")
	for pattern, want := range map[string][]string{
		"a/*.go": {"/a/1.go", "/a/2.go"}, "*/*.go": {"/a/1.go", "/a/2.go", "/link/1.go", "/link/2.go"}, "b/*": {"/b/c"},
		"b/.*": {"/b/.dot"}, "a/?.[gm][od]": {"/a/1.go", "/a/2.go", "/a/x.md"}, "none*": nil, "a": {"/a"}, "a/[!1]*": {"/a/2.go", "/a/x.md"},
		root + "/b/*/3.go": {"/b/c/3.go"},
	} {
		got, err := s.Glob(ctx, pattern, 100)
		if pattern == "*/*.go" {
			require.ErrorIs(t, err, sandbox.ErrOutside, "a match leads out of the workspace")
			run(t, s, "rm out")
			got, err = s.Glob(ctx, pattern, 100)
		}
		require.NoError(t, err, pattern)
		require.Len(t, got, len(want), "%s: %v", pattern, got)
		for i := range want {
			require.Equal(t, root+want[i], got[i], pattern)
		}
	}
	got, err := s.Glob(ctx, "a/*", 2)
	require.NoError(t, err)
	require.Len(t, got, 2)
	_, err = s.Glob(ctx, "*/*.go", 1)
	require.ErrorIs(t, err, sandbox.ErrTooMany)
	_, err = s.Glob(ctx, "/etc/*", 10)
	require.ErrorIs(t, err, sandbox.ErrOutside)
	_, err = s.Glob(ctx, "a/[", 10)
	require.Error(t, err)
}

func testTemp(t *testing.T, b *rig) {
	s := b.open(t)
	run(t, s, `echo kept > "$TMPDIR/x"; echo kept > "$HOME/y"`)
	require.Equal(t, "kept\nkept\n", run(t, s, `cat "$TMPDIR/x" "$HOME/y"`).Stdout)
	if s.Info().Isolated {
		other := b.open(t)
		require.Empty(t, run(t, other, `ls -A /tmp "$HOME" | grep -v :`).Stdout[1:], "sessions share /tmp")
	}
}

func testOpenTwice(t *testing.T, b *rig) {
	spec := sandbox.Spec{ID: "agent/web/main/" + newID(), Generation: 1}
	s := b.openSpec(t, spec)
	require.NoError(t, s.WriteFile(t.Context(), "x", []byte("kept")))
	spec.Seed = sandbox.Seed{Snapshot: func(context.Context) (io.ReadCloser, error) { return nil, errors.New("looked at") }}
	again := b.openSpec(t, spec)
	require.Equal(t, "kept", content(t, again, "x"))
	spec.Generation, spec.Seed = 2, sandbox.Seed{}
	require.Empty(t, content(t, b.openSpec(t, spec), "x"), "another generation is another sandbox")
	spec.ID += "_"
	require.Empty(t, content(t, b.openSpec(t, spec), "x"))
}

func testRelease(t *testing.T, b *rig) {
	spec := sandbox.Spec{ID: "agent/web/main/" + newID(), Generation: 3}
	s := b.openSpec(t, spec)
	done := Start(t, s, "echo kept | tee file; exit 4")
	await(t, s, done)
	running := Start(t, s, "echo begun; sleep 60")
	awaitOutput(t, s, running, "begun")
	require.NoError(t, s.Release(t.Context()))

	spec.Existing = true
	s = b.openSpec(t, spec)
	require.Equal(t, "kept\n", content(t, s, "file"))
	r := await(t, s, done)
	require.Equal(t, 4, r.ExitCode)
	require.Equal(t, "kept\n", r.Stdout)
	r = await(t, s, running)
	require.Equal(t, sandbox.StateCancelled, r.State)
	require.Equal(t, "begun\n", r.Stdout)
}

func testGone(t *testing.T, b *rig) {
	spec := sandbox.Spec{ID: "agent/web/main/" + newID(), Generation: 1, Existing: true}
	_, err := b.backend.Open(t.Context(), spec)
	require.ErrorIs(t, err, sandbox.ErrGone)
	_, err = b.backend.Open(t.Context(), spec)
	require.ErrorIs(t, err, sandbox.ErrGone, "asking after it has not made it")
}

func testDestroy(t *testing.T, b *rig) {
	spec := sandbox.Spec{ID: "agent/web/main/" + newID(), Generation: 1}
	s, ctx := b.openSpec(t, spec), t.Context()
	id := Start(t, s, "chmod 500 .; mkdir -p $HOME/d; touch $HOME/d/f; chmod 000 $HOME/d; echo ready; sleep 60")
	awaitOutput(t, s, id, "ready")
	require.NoError(t, s.Destroy(ctx))
	require.NoError(t, s.Destroy(ctx), "destroying is idempotent")
	for _, existing := range []bool{true, false} {
		spec.Existing = existing
		_, err := b.backend.Open(ctx, spec)
		require.ErrorIs(t, err, sandbox.ErrGone)
	}
	require.ErrorIs(t, s.Start(ctx, sandbox.ExecSpec{ID: "x", Command: "true"}), sandbox.ErrGone)
	_, err := s.Status(ctx, id)
	require.ErrorIs(t, err, sandbox.ErrGone)
}

func testExport(t *testing.T, b *rig) {
	s, ctx := b.open(t), t.Context()
	r := run(t, s, `mkdir -p d/e void; printf x > d/e/f; chmod 640 d/e/f; ln -s d/e/f link; ln -s /etc/passwd out; ln d/e/f d/second
printf odd > "$(printf 'n\377\nm')"; printf run > s; chmod 4755 s; mkfifo pipe; mkdir shut; printf in > shut/in; printf no > none
touch -d '2021-03-04 05:06:07.123456 UTC' d/e/f d void; chmod 700 void; chmod 100 shut; chmod 0 none`)
	require.Equal(t, 0, r.ExitCode, r.Stderr)
	const list = "find . -mindepth 1 ! -type p -printf '%p %y %m %n %T@ %l\\n' 2>/dev/null | sed 's/^.\\/s f 4755/.\\/s f 755/' | LC_ALL=C sort; cat d/e/f n*; cat shut/in"
	want := run(t, s, list)
	require.NotEmpty(t, want.Stdout)
	var buf bytes.Buffer
	c, err := snapshot.Flat(ctx, s, &buf)
	require.NoError(t, err)
	require.Equal(t, snapshot.Content{Files: 8, Bytes: 12}, c)
	require.Equal(t, want.Stdout, run(t, s, list).Stdout, "it is only read")

	other := b.openSpec(t, sandbox.Spec{ID: newID(), Seed: sandbox.Seed{Snapshot: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(&buf), nil
	}}})
	require.Equal(t, want.Stdout, run(t, other, list).Stdout)
	require.Equal(t, "755\n", run(t, other, "stat -c %a s").Stdout, "a set-uid bit does not travel")
}

func testTornSnapshot(t *testing.T, b *rig) {
	spec := sandbox.Spec{ID: newID(), Seed: sandbox.Seed{Snapshot: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(iotest.ErrReader(errors.New("torn"))), nil
	}}}
	_, err := b.backend.Open(t.Context(), spec)
	require.ErrorContains(t, err, "torn")
	spec.Existing = true
	_, err = b.backend.Open(t.Context(), spec)
	require.ErrorIs(t, err, sandbox.ErrGone, "half a sandbox is none")
}
