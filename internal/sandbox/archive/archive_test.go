package archive_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/countersign/countersign/internal/sandbox/archive"
	"github.com/countersign/countersign/internal/sandbox/snapshot"
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

// flat packs a directory as plain tar.
func flat(t *testing.T, dir string) ([]byte, snapshot.Content) {
	t.Helper()
	var buf bytes.Buffer
	c, err := snapshot.Flat(t.Context(), archive.Dir(dir), &buf)
	require.NoError(t, err)
	return buf.Bytes(), c
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	src, dst := t.TempDir(), t.TempDir()
	fill(t, src)
	before := tree(t, src)
	packed, c := flat(t, src)
	require.Equal(t, 12, c.Files)
	require.NoError(t, archive.Unpack(t.Context(), bytes.NewReader(packed), dst))
	require.Equal(t, before, tree(t, dst))
	require.Equal(t, before, tree(t, src), "packing changes nothing")
	again, _ := flat(t, dst)
	require.True(t, bytes.Equal(packed, again), "equal content gives equal bytes")
}

func TestHardLinks(t *testing.T) {
	t.Parallel()
	src, dst := t.TempDir(), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(src, "d"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(src, "d/first"), []byte("text"), 0o640))
	require.NoError(t, os.Link(filepath.Join(src, "d/first"), filepath.Join(src, "second")))
	require.NoError(t, os.Link(filepath.Join(src, "d/first"), filepath.Join(src, "a")))
	packed, c := flat(t, src)
	require.Equal(t, 3, c.Files)
	require.NoError(t, archive.Unpack(t.Context(), bytes.NewReader(packed), dst))
	require.Equal(t, tree(t, src), tree(t, dst))
	info, err := os.Stat(filepath.Join(dst, "d/first"))
	require.NoError(t, err)
	require.EqualValues(t, 3, info.Sys().(*syscall.Stat_t).Nlink)
}

func TestLeavesOut(t *testing.T) {
	t.Parallel()
	src, dst := t.TempDir(), t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(src, "pipe"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(src, "su"), nil, 0o600))
	require.NoError(t, os.Chmod(filepath.Join(src, "su"), 0o755|fs.ModeSetuid))
	packed, _ := flat(t, src)
	require.NoError(t, archive.Unpack(t.Context(), bytes.NewReader(packed), dst))
	got := tree(t, dst)
	require.Len(t, got, 1)
	require.Contains(t, got["su"], "-rwxr-xr-x ")
}

// Read gives nothing of what became something else since it was listed.
func TestReadGone(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(out, "secret"), []byte("s"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "there"), []byte("x"), 0o600))
	require.NoError(t, os.Symlink(out, filepath.Join(dir, "d")))
	require.NoError(t, os.Symlink(filepath.Join(out, "secret"), filepath.Join(dir, "link")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "dir"), 0o700))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	var got []string
	err := archive.Dir(dir).Read(t.Context(), []string{"d/secret", "dir", "gone", "link", "pipe", "there", "there/x"},
		func(name string, size int64, r io.Reader) error {
			data, err := io.ReadAll(r)
			got = append(got, name+" "+string(data))
			return err
		})
	require.NoError(t, err)
	require.Equal(t, []string{"there x"}, got)
}

func pack(t *testing.T, headers ...tar.Header) *bytes.Buffer {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range headers {
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		require.NoError(t, w.WriteHeader(&h))
	}
	require.NoError(t, w.Close())
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
		"link out":          {{Name: "hard", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}},
		"link above":        {{Name: "hard", Typeflag: tar.TypeLink, Linkname: "../evil"}},
		"link to link":      {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, {Name: "h", Typeflag: tar.TypeLink, Linkname: "l"}},
		"link to directory": {{Name: "d/", Typeflag: tar.TypeDir}, {Name: "h", Typeflag: tar.TypeLink, Linkname: "d"}},
		"set-uid":           {{Name: "su", Typeflag: tar.TypeReg, Mode: 0o4755}},
		"set-gid directory": {{Name: "sg/", Typeflag: tar.TypeDir, Mode: 0o2755}},
		"through link":      {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/tmp"}, {Name: "l/evil", Typeflag: tar.TypeReg}},
		"over link":         {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/tmp/evil"}, {Name: "l", Typeflag: tar.TypeReg}},
		"no parent":         {{Name: "d/e", Typeflag: tar.TypeReg}},
		"root":              {{Name: ".", Typeflag: tar.TypeSymlink, Linkname: "/tmp"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "in")
			require.NoError(t, os.Mkdir(dir, 0o700))
			require.ErrorIs(t, archive.Unpack(t.Context(), pack(t, headers...), dir), archive.ErrBad)
			_, err := os.Lstat(filepath.Join(dir, "..", "evil"))
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}

func TestUnpackTorn(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	fill(t, src)
	packed, _ := flat(t, src)
	require.Error(t, archive.Unpack(t.Context(), bytes.NewReader(packed[:len(packed)/2]), t.TempDir()))
}

func TestPackStops(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	fill(t, src)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := snapshot.Flat(ctx, archive.Dir(src), &bytes.Buffer{})
	require.ErrorIs(t, err, context.Canceled)
}

// A sparse file takes no more of the disk than it did, and has the same bytes.
func TestSparse(t *testing.T) {
	t.Parallel()
	const size = 64 << 20
	from, to := t.TempDir(), t.TempDir()
	f, err := os.Create(filepath.Join(from, "image"))
	require.NoError(t, err)
	for _, at := range []int64{0, 5<<20 + 100, 32<<20 - 1, size - 10} {
		_, err = f.WriteAt([]byte("data"), at)
		require.NoError(t, err)
	}
	require.NoError(t, f.Truncate(size))
	require.NoError(t, f.Close())
	require.NoError(t, os.WriteFile(filepath.Join(from, "small"), make([]byte, 5000), 0o600))
	require.NoError(t, os.Truncate(filepath.Join(from, "small"), 5000))
	var stream bytes.Buffer
	_, err = snapshot.Flat(t.Context(), archive.Dir(from), &stream)
	require.NoError(t, err)
	require.NoError(t, archive.Unpack(t.Context(), &stream, to))
	want, err := os.ReadFile(filepath.Join(from, "image"))
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(to, "image"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))
	var st unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(to, "image"), &st))
	require.Less(t, st.Blocks*512, int64(1<<20), "it takes what its data takes")
	info, err := os.Stat(filepath.Join(to, "small"))
	require.NoError(t, err)
	require.EqualValues(t, 5000, info.Size())
}
