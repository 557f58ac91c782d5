package archive_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox/archive"
)

// tree lists everything below dir: kind and mode, time, link or content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if p == dir {
			return nil
		}
		info, err := d.Info()
		require.NoError(t, err)
		text := info.Mode().String() + " " + info.ModTime().UTC().Format(time.RFC3339Nano)
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(p)
			require.NoError(t, err)
			text += " " + string(data)
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			require.NoError(t, err)
			text += " -> " + to
		}
		rel, _ := filepath.Rel(dir, p)
		out[rel] = text
		return nil
	}))
	return out
}

func fill(t *testing.T, dir string) {
	t.Helper()
	at := time.Date(2021, 3, 4, 5, 6, 7, 123456789, time.UTC)
	big := make([]byte, 3<<20)
	_, _ = rand.Read(big)
	for name, f := range map[string]struct {
		data string
		mode fs.FileMode
	}{
		"plain": {"hello\n", 0o644}, "run.sh": {"#!/bin/sh\n", 0o755}, "secret": {"s", 0o600}, "empty": {"", 0o444},
		"d/e/f": {"deep", 0o640}, "d/e/\xff\xfe name\n": {"odd", 0o644}, "unreadable": {"x", 0}, "big": {string(big), 0o644},
		string(bytes.Repeat([]byte("n"), 250)): {"long", 0o644},
	} {
		p := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(f.data), 0o600))
		require.NoError(t, os.Chmod(p, f.mode))
		require.NoError(t, os.Chtimes(p, at, at))
	}
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "void/inner"), 0o750))
	require.NoError(t, os.Symlink("plain", filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "outside")))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "d/dangling")))
	require.NoError(t, os.Chtimes(filepath.Join(dir, "void"), at, at))
	require.NoError(t, os.Chmod(filepath.Join(dir, "d/e"), 0o550))
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	src, dst := t.TempDir(), t.TempDir()
	fill(t, src)
	var buf bytes.Buffer
	packed, err := archive.Pack(t.Context(), src, &buf)
	require.NoError(t, err)
	require.Equal(t, 12, packed.Files)
	first := bytes.Clone(buf.Bytes())

	unpacked, err := archive.Unpack(t.Context(), &buf, dst)
	require.NoError(t, err)
	require.Equal(t, packed, unpacked)
	require.Equal(t, tree(t, src), tree(t, dst))

	var again bytes.Buffer
	_, err = archive.Pack(t.Context(), dst, &again)
	require.NoError(t, err)
	require.True(t, bytes.Equal(first, again.Bytes()), "equal content gives equal bytes")
}

func TestPackLeavesOut(t *testing.T) {
	t.Parallel()
	src, dst := t.TempDir(), t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(src, "pipe"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(src, "su"), nil, 0o600))
	require.NoError(t, os.Chmod(filepath.Join(src, "su"), 0o755|fs.ModeSetuid))
	var buf bytes.Buffer
	_, err := archive.Pack(t.Context(), src, &buf)
	require.NoError(t, err)
	_, err = archive.Unpack(t.Context(), &buf, dst)
	require.NoError(t, err)
	got := tree(t, dst)
	require.Len(t, got, 1)
	require.Contains(t, got["su"], "-rwxr-xr-x ")
}

// Other tools read what Pack writes.
func TestReadByTar(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	fill(t, src)
	var buf bytes.Buffer
	_, err := archive.Pack(t.Context(), src, &buf)
	require.NoError(t, err)
	z, err := zstd.NewReader(&buf)
	require.NoError(t, err)
	defer z.Close()
	cmd := exec.CommandContext(t.Context(), "tar", "-tf", "-")
	cmd.Stdin = z
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "d/dangling")
}

func pack(t *testing.T, headers ...tar.Header) *bytes.Buffer {
	t.Helper()
	var buf bytes.Buffer
	z, err := zstd.NewWriter(&buf)
	require.NoError(t, err)
	w := tar.NewWriter(z)
	for _, h := range headers {
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		require.NoError(t, w.WriteHeader(&h))
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return &buf
}

func TestUnpackRefuses(t *testing.T) {
	t.Parallel()
	for name, headers := range map[string][]tar.Header{
		"parent":            {{Name: "../evil", Typeflag: tar.TypeReg}},
		"inner parent":      {{Name: "a/../../evil", Typeflag: tar.TypeReg}},
		"absolute":          {{Name: "/tmp/evil", Typeflag: tar.TypeReg}},
		"device":            {{Name: "dev", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}},
		"pipe":              {{Name: "pipe", Typeflag: tar.TypeFifo}},
		"hard link":         {{Name: "hard", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}},
		"set-uid":           {{Name: "su", Typeflag: tar.TypeReg, Mode: 0o4755}},
		"set-gid directory": {{Name: "sg/", Typeflag: tar.TypeDir, Mode: 0o2755}},
		"through link":      {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/tmp"}, {Name: "l/evil", Typeflag: tar.TypeReg}},
		"over link":         {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/tmp/evil"}, {Name: "l", Typeflag: tar.TypeReg}},
		"root":              {{Name: ".", Typeflag: tar.TypeSymlink, Linkname: "/tmp"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "in")
			require.NoError(t, os.Mkdir(dir, 0o700))
			_, err := archive.Unpack(t.Context(), pack(t, headers...), dir)
			require.ErrorIs(t, err, archive.ErrBad)
			_, err = os.Lstat(filepath.Join(dir, "..", "evil"))
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}

func TestUnpackTorn(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	fill(t, src)
	var buf bytes.Buffer
	_, err := archive.Pack(t.Context(), src, &buf)
	require.NoError(t, err)
	_, err = archive.Unpack(t.Context(), bytes.NewReader(buf.Bytes()[:buf.Len()/2]), t.TempDir())
	require.Error(t, err)
}

func TestPackStops(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	fill(t, src)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := archive.Pack(ctx, src, &bytes.Buffer{})
	require.ErrorIs(t, err, context.Canceled)
}
