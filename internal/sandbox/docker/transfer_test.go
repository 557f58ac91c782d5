package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/archive"
	"github.com/countersign/countersign/internal/sandbox/docker"
	"github.com/countersign/countersign/internal/sandbox/local"
	"github.com/countersign/countersign/internal/sandbox/snapshot"
)

// makeTree makes one of everything that a workspace may hold.
const makeTree = `mkdir -p d/e void deep/er shut
printf x > d/e/f; chmod 640 d/e/f; printf '#!/bin/sh\n' > tool; chmod 755 tool; : > empty
ln -s d/e/f link; ln -s /etc/passwd out; ln -s ../../.. deep/er/far; ln -s ../x above; ln -s nowhere dangling
printf odd > "$(printf 'n\377\nm')"; printf u > 'ünïcödé 🙂'; printf s > ' spaces '; printf -- - > -dash
printf hard > first; ln first second; ln first d/third
printf secret > none; chmod 000 none; printf run > setuid; chmod 4755 setuid; mkfifo pipe
head -c 300000 /dev/zero > big; printf 1 > "$(printf '%0200d' 0)"
mkdir -p "$(printf '%0200d' 1)"; printf 1 > "$(printf '%0200d' 1)/$(printf '%0200d' 2)"
touch -h -d '2021-03-04 05:06:07.123456789 UTC' d/e/f link deep/er/far above; touch -d '1999-01-02 03:04:05.5 UTC' void d/e d deep/er deep
printf in > shut/in; chmod 500 shut; chmod 700 void`

// listTree says of each entry what must come back.
const listTree = `find . -mindepth 1 ! -type p -printf '%P|%y|%m|%T@|%l|%s\n' | grep -a -v -e '^none' -e '|d|' | LC_ALL=C sort
find . -mindepth 1 -type d -printf '%P|%m|%T@\n' | LC_ALL=C sort; cat d/e/f tool first second d/third big | sha256sum`

func export(t *testing.T, s sandbox.Session) ([]byte, snapshot.Content) {
	t.Helper()
	var buf bytes.Buffer
	c, err := snapshot.Flat(t.Context(), s, &buf)
	require.NoError(t, err)
	return buf.Bytes(), c
}

func from(data []byte) sandbox.Seed {
	return sandbox.Seed{Snapshot: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

// A workspace goes from Docker to local and back, and is the same each time.
func TestMoves(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.open(t, sandbox.Spec{})
	require.Equal(t, "", run(t, first, makeTree).Stderr)
	want := run(t, first, listTree).Stdout
	data, st := export(t, first)

	l, err := local.New(t.Context(), local.Config{DataDir: t.TempDir(), NoIsolation: true})
	require.NoError(t, err)
	second, err := l.Open(t.Context(), sandbox.Spec{ID: "x", Seed: from(data)})
	require.NoError(t, err)
	defer second.Destroy(context.WithoutCancel(t.Context()))
	// What differs: set-uid bits do not travel.
	want = string(bytes.ReplaceAll([]byte(want), []byte("|4755|"), []byte("|755|")))
	require.Equal(t, want, run(t, second, listTree).Stdout)
	again, stAgain := export(t, second)
	require.Equal(t, st, stAgain)
	require.True(t, bytes.Equal(data, again), "equal content gives equal bytes")

	third := r.open(t, sandbox.Spec{Seed: from(again)})
	require.Equal(t, want, run(t, third, listTree).Stdout)
	require.Equal(t, "agent 1000 1000\n", run(t, third, "stat -c '%U %u %g' d/e/f").Stdout)
	data, st = export(t, third)
	require.Equal(t, stAgain, st)
	require.True(t, bytes.Equal(data, again))
}

func TestBadArchives(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, headers := range map[string][]tar.Header{
		"above":       {{Typeflag: tar.TypeReg, Name: "../x"}},
		"absolute":    {{Typeflag: tar.TypeReg, Name: "/etc/x"}},
		"dots":        {{Typeflag: tar.TypeDir, Name: "a/"}, {Typeflag: tar.TypeReg, Name: "a/../../x"}},
		"device":      {{Typeflag: tar.TypeChar, Name: "x", Devmajor: 1, Devminor: 3}},
		"pipe":        {{Typeflag: tar.TypeFifo, Name: "x"}},
		"link out":    {{Typeflag: tar.TypeLink, Name: "x", Linkname: "/etc/passwd"}},
		"set-uid":     {{Typeflag: tar.TypeReg, Name: "x", Mode: 0o4755}},
		"set-gid dir": {{Typeflag: tar.TypeDir, Name: "x/", Mode: 0o2755}},
		"twice":       {{Typeflag: tar.TypeReg, Name: "x"}, {Typeflag: tar.TypeReg, Name: "./x"}},
		"by a link":   {{Typeflag: tar.TypeSymlink, Name: "x", Linkname: "/countersign"}, {Typeflag: tar.TypeReg, Name: "x/y"}},
		"itself":      {{Typeflag: tar.TypeSymlink, Name: ".", Linkname: "/etc"}},
	} {
		var buf bytes.Buffer
		w := tar.NewWriter(&buf)
		for _, h := range headers {
			require.NoError(t, w.WriteHeader(&h))
		}
		require.NoError(t, w.Close())
		_, err := r.Open(t.Context(), sandbox.Spec{ID: name, Seed: from(buf.Bytes())})
		require.ErrorIs(t, err, archive.ErrBad, name)
		_, err = r.Open(t.Context(), sandbox.Spec{ID: name, Existing: true})
		require.ErrorIs(t, err, sandbox.ErrGone, name)
	}
	require.Empty(t, r.volumes(t), "a sandbox that failed leaves nothing")
	_, err := r.Open(t.Context(), sandbox.Spec{ID: "torn", Seed: from([]byte("no archive"))})
	require.Error(t, err)
	require.Empty(t, r.volumes(t))
}

func TestSeedDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o600))
	seed := sandbox.Seed{Directory: dir}
	r := newRig(t, func(c *docker.Config) {
		c.PackSeed = func(ctx context.Context, seed sandbox.Seed, w io.Writer) error {
			_, err := snapshot.Flat(ctx, archive.Dir(seed.Directory), w)
			return err
		}
	})
	require.Equal(t, "text", run(t, r.open(t, sandbox.Spec{Seed: seed}), "cat file").Stdout)
	_, err := r.Open(t.Context(), sandbox.Spec{ID: "x", Seed: sandbox.Seed{Directory: filepath.Join(dir, "none")}})
	require.ErrorIs(t, err, os.ErrNotExist)
	var refused *sandbox.RefusedError
	_, err = newRig(t).Open(t.Context(), sandbox.Spec{ID: "x", Seed: seed})
	require.ErrorAs(t, err, &refused)
}

// Without GNU find and tar all the same comes back.
func TestMovesBusybox(t *testing.T) {
	t.Parallel()
	needImage(t, imageBusybox)
	r := newRig(t, func(c *docker.Config) { c.Image = imageBusybox })
	s := r.open(t, sandbox.Spec{})
	require.Equal(t, "", run(t, s, `mkdir -p d/e void; echo x > d/file; touch -d '2021-03-04 05:06:07' d/file; ln -s d/file link; ln d/file d/e/hard
echo odd > "$(printf 'n\377\nm')"; mkdir shut; echo in > shut/in; chmod 0 shut; echo none > none; chmod 0 none`).Stderr)
	data, c := export(t, s)
	require.Equal(t, snapshot.Content{Files: 6, Bytes: 2 + 2 + 4 + 3 + 5}, c)
	again, _ := export(t, r.open(t, sandbox.Spec{ID: "other", Seed: from(data)}))
	require.True(t, bytes.Equal(data, again))
	times := map[string]time.Time{}
	for in := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		times[h.Name] = h.ModTime
	}
	require.True(t, times["d/file"].Equal(time.Date(2021, 3, 4, 5, 6, 7, 0, time.UTC)), times)
	require.Contains(t, times, "shut/in")
}
