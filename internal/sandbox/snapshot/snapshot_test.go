package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/sandbox/archive"
	"github.com/countersign/countersign/internal/sandbox/snapshot"
)

type rig struct {
	*snapshot.Store
	t *testing.T
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir := t.TempDir()
	blobs, err := blob.Open(t.Context(), "file://"+dir+"/blobs")
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(dir+"/tmp", 0o700))
	return &rig{t: t, Store: &snapshot.Store{Blobs: blobs, Temp: dir + "/tmp", State: dir + "/state"}}
}

func (r *rig) take(dir string) snapshot.Taken {
	r.t.Helper()
	took, err := r.Take(r.t.Context(), dir, archive.Dir(dir))
	require.NoError(r.t, err)
	require.True(r.t, snapshot.IsRef(took.Ref), took.Ref)
	return took
}

// restore makes a directory of a snapshot.
func (r *rig) restore(ref string) string {
	r.t.Helper()
	dir := r.t.TempDir()
	require.NoError(r.t, r.restoreTo(ref, dir))
	return dir
}

func (r *rig) restoreTo(ref, dir string) error {
	in, err := r.Open(r.t.Context(), ref)
	if err != nil {
		return err
	}
	defer in.Close()
	return archive.Unpack(r.t.Context(), in, dir)
}

// tree is everything below dir: kind, mode, time, content, and which names are of
// one file.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out, first := map[string]string{}, map[uint64]string{}
	require.NoError(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		rel, _ := filepath.Rel(dir, p)
		info, err := d.Info()
		require.NoError(t, err)
		text := info.Mode().String()
		if rel != "." {
			text += " " + info.ModTime().UTC().Format(time.RFC3339Nano)
		}
		switch st := info.Sys().(*syscall.Stat_t); {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(p)
			require.NoError(t, err)
			if _, ok := first[st.Ino]; !ok {
				first[st.Ino] = rel
			}
			text += fmt.Sprintf(" %q of %q", data, first[st.Ino])
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			require.NoError(t, err)
			text += " -> " + to
		}
		if rel != "." {
			out[rel] = text
		}
		return nil
	}))
	return out
}

// churn changes a tree at random.
type churn struct {
	t   *testing.T
	rnd *rand.Rand
	dir string
	n   int
}

var oddNames = []string{"n\xff\nm", ".wh.gone", ".wh..wh..opq", " s ", "-dash", "ünï", ".hidden", strings.Repeat("l", 200)}

func (c *churn) paths(want func(fs.DirEntry) bool) []string {
	var out []string
	require.NoError(c.t, filepath.WalkDir(c.dir, func(p string, d fs.DirEntry, err error) error {
		require.NoError(c.t, err)
		if want(d) && p != c.dir {
			out = append(out, p)
		}
		return nil
	}))
	return out
}

func (c *churn) pick(from []string) string {
	if len(from) == 0 {
		return ""
	}
	return from[c.rnd.IntN(len(from))]
}

func (c *churn) fresh() string {
	dirs := append(c.paths(fs.DirEntry.IsDir), c.dir)
	c.n++
	name := fmt.Sprintf("e%d", c.n)
	if c.rnd.IntN(4) == 0 {
		name = oddNames[c.rnd.IntN(len(oddNames))]
	}
	return filepath.Join(c.pick(dirs), name)
}

func (c *churn) data() []byte {
	b := make([]byte, c.rnd.IntN(2000))
	for i := range b {
		b[i] = byte(c.rnd.UintN(256))
	}
	return b
}

func (c *churn) once() {
	files := c.paths(func(d fs.DirEntry) bool { return d.Type().IsRegular() })
	all := c.paths(func(fs.DirEntry) bool { return true })
	at := c.fresh()
	var err error
	switch f, any := c.pick(files), c.pick(all); c.rnd.IntN(13) {
	case 0, 1, 2:
		_ = os.WriteFile(at, c.data(), fs.FileMode(0o400|c.rnd.UintN(0o400)))
	case 3, 4:
		_ = os.Mkdir(at, 0o755)
	case 5:
		_ = os.Symlink(c.pick(append(all, "nowhere", "/etc/passwd")), at)
	case 6:
		if f != "" {
			_ = os.Link(f, at)
		}
	case 7:
		if any != "" {
			err = os.RemoveAll(any)
		}
	case 8:
		if any != "" {
			_ = os.Rename(any, at)
		}
	case 9:
		if f != "" {
			err = os.WriteFile(f, c.data(), 0)
		}
	case 10: // same size, same time
		if f != "" {
			info, serr := os.Stat(f)
			require.NoError(c.t, serr)
			b := make([]byte, info.Size())
			_ = c.rnd.Uint32()
			for i := range b {
				b[i] = byte(c.rnd.UintN(256))
			}
			err = errors.Join(os.WriteFile(f, b, 0), os.Chtimes(f, info.ModTime(), info.ModTime()))
		}
	case 11:
		if any != "" {
			if info, serr := os.Lstat(any); serr == nil && info.Mode()&fs.ModeSymlink == 0 {
				err = os.Chmod(any, fs.FileMode(0o500|c.rnd.UintN(0o300)))
			}
		}
	case 12: // a directory becomes a file, or the other way round
		if any != "" {
			info, serr := os.Lstat(any)
			require.NoError(c.t, serr)
			require.NoError(c.t, os.RemoveAll(any))
			if info.IsDir() {
				err = os.WriteFile(any, c.data(), 0o644)
			} else {
				err = errors.Join(os.Mkdir(any, 0o755), os.WriteFile(any+"/in", c.data(), 0o600))
			}
		}
	}
	require.NoError(c.t, err)
}

// Every generation of a tree that changes at random comes back, after later ones
// were taken, too; also where the tree goes on as one that was restored.
func TestGenerations(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			c := &churn{t: t, rnd: rand.New(rand.NewPCG(seed, 7)), dir: t.TempDir()}
			for range 40 {
				c.once()
			}
			refs, want := []string{}, []map[string]string{}
			for gen := range 22 {
				took := r.take(c.dir)
				require.LessOrEqual(t, took.Layers, 17)
				refs, want = append(refs, took.Ref), append(want, tree(t, c.dir))
				if gen%7 == 6 {
					c.dir = r.restore(took.Ref)
					require.NoError(t, r.Seeded(t.Context(), c.dir, took.Ref, archive.Dir(c.dir)))
					require.Equal(t, took.Ref, r.take(c.dir).Ref, "what was restored has not changed")
				}
				for range 1 + c.rnd.IntN(12) {
					c.once()
				}
			}
			for i, ref := range refs {
				require.Equal(t, want[i], tree(t, r.restore(ref)), "generation %d", i)
			}
		})
	}
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(text), 0o644))
	}
}

func TestIncremental(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	big := make([]byte, 1<<20)
	for i := range big {
		big[i] = byte(rand.UintN(256))
	}
	write(t, dir, map[string]string{"big": string(big), "d/e/small": "x", "gone/a": "1", "gone/b": "2"})
	first := r.take(dir)
	require.Equal(t, 4, first.Files)
	require.Greater(t, first.Stored, int64(1<<20))
	require.Equal(t, first.Ref, r.take(dir).Ref)
	write(t, dir, map[string]string{"d/e/small": "other"})
	require.NoError(t, os.RemoveAll(dir+"/gone"))
	second := r.take(dir)
	require.NotEqual(t, first.Ref, second.Ref)
	require.Equal(t, 2, second.Layers)
	require.Less(t, second.Stored, int64(1000), "what has not changed is not stored again")

	// Without what was known of the files a whole one is taken.
	require.NoError(t, os.RemoveAll(r.State))
	require.Equal(t, 1, r.take(dir).Layers)
	r.Forget(dir)
	require.Equal(t, 1, r.take(dir).Layers)
}

func TestSquash(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	base := map[string]string{}
	for i := range 200 {
		base[fmt.Sprintf("d%d/f%d", i%10, i)] = strings.Repeat("text ", i)
	}
	write(t, dir, base)
	most, squashed := 0, 0
	last := r.take(dir)
	for i := range 60 {
		write(t, dir, map[string]string{"d1/changes": fmt.Sprint(i)})
		require.NoError(t, os.RemoveAll(filepath.Join(dir, fmt.Sprintf("d%d/f%d", i%10, i))))
		took := r.take(dir)
		if took.Layers <= last.Layers {
			squashed++
			require.Equal(t, 2, took.Layers)
			require.Less(t, took.Stored, int64(20000), "a chain is squashed by what changed since its beginning")
		}
		most, last = max(most, took.Layers), took
	}
	require.Equal(t, 16, most)
	require.Equal(t, 3, squashed)
	require.Equal(t, tree(t, dir), tree(t, r.restore(last.Ref)))

	// What the chain held before is nobody's any more: of its layers those are kept
	// that the last snapshot has.
	res, err := r.Collect(t.Context(), time.Now().Add(time.Hour), false, func(context.Context) ([]string, error) { return []string{last.Ref}, nil })
	require.NoError(t, err)
	require.Equal(t, last.Layers+2, res.Kept, "its layers, its image and that one's settings")
	require.GreaterOrEqual(t, res.Blobs, 60)
	require.Equal(t, tree(t, dir), tree(t, r.restore(last.Ref)))

	// When most of it is new a chain begins anew.
	began := false
	for i := range 10 {
		write(t, dir, map[string]string{"new": strings.Repeat(string(rune('a'+i)), 20<<20)})
		last = r.take(dir)
		began = began || last.Layers == 1
	}
	require.True(t, began)
	require.Equal(t, tree(t, dir), tree(t, r.restore(last.Ref)))
}

func TestIgnore(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	write(t, dir, map[string]string{
		"a.py": "", "__pycache__/a.pyc": "", "web/node_modules/.cache/x": "", "web/node_modules/m/index.js": "", "out/x": "", "x.log": "",
		".git/refs/heads/__pycache__/x": "", "keep.log": "",
	})
	names := func(ref string) []string {
		var out []string
		for name := range tree(t, r.restore(ref)) {
			if info, err := os.Lstat(filepath.Join(dir, name)); err == nil && !info.IsDir() {
				out = append(out, name)
			}
		}
		slices.Sort(out)
		return out
	}
	require.Equal(t, []string{".git/refs/heads/__pycache__/x", "a.py", "keep.log", "out/x", "web/node_modules/m/index.js", "x.log"}, names(r.take(dir).Ref))
	write(t, dir, map[string]string{".countersignignore": "# mine\n*.log\n!keep.log\n/out/\n!__pycache__/\n"})
	require.Equal(t, []string{".countersignignore", ".git/refs/heads/__pycache__/x", "__pycache__/a.pyc", "a.py", "keep.log", "web/node_modules/m/index.js"}, names(r.take(dir).Ref))
	write(t, dir, map[string]string{"more.log": "", "a.py": "changed"})
	require.NotContains(t, names(r.take(dir).Ref), "more.log", "the rules are known of an unchanged file, too")
	write(t, dir, map[string]string{".countersignignore": strings.Repeat("# long\n", 10000)})
	_, err := r.Take(t.Context(), dir, archive.Dir(dir))
	require.ErrorIs(t, err, snapshot.ErrIgnoreFile)
}

// Tools for container images read what is stored.
func TestOCILayout(t *testing.T) {
	t.Parallel()
	r, dir, out := newRig(t), t.TempDir(), t.TempDir()
	write(t, dir, map[string]string{"kept": "1", "changed": "1", "d/gone": "1", "tree/gone/x": "1"})
	r.take(dir)
	write(t, dir, map[string]string{"changed": "2", "new": "2"})
	require.NoError(t, os.Remove(dir+"/d/gone"))
	require.NoError(t, os.RemoveAll(dir+"/tree/gone"))
	took := r.take(dir)
	require.Equal(t, 2, took.Layers)
	require.NoError(t, r.Export(t.Context(), took.Ref, out))

	index, err := layout.ImageIndexFromPath(out)
	require.NoError(t, err)
	require.NoError(t, validate.Index(index, validate.Fast))
	list, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, list.Manifests, 1)
	require.Equal(t, took.Ref, list.Manifests[0].Digest.String())
	img, err := index.Image(list.Manifests[0].Digest)
	require.NoError(t, err)
	require.NoError(t, validate.Image(img, validate.Fast))
	layers, err := img.Layers()
	require.NoError(t, err)
	require.Len(t, layers, 2)
	for _, l := range layers { // validate itself knows gzip only
		digest, err := l.Digest()
		require.NoError(t, err)
		require.Equal(t, digest, hashOf(t, l.Compressed))
		diff, err := l.DiffID()
		require.NoError(t, err)
		require.Equal(t, diff, hashOf(t, l.Uncompressed))
	}
	flat := mutate.Extract(img)
	defer flat.Close()
	got := t.TempDir()
	require.NoError(t, unpackAny(flat, got))
	want := map[string]string{"kept": "1", "changed": "2", "new": "2"}
	for name, text := range want {
		data, err := os.ReadFile(filepath.Join(got, name))
		require.NoError(t, err)
		require.Equal(t, text, string(data))
	}
	for _, name := range []string{"d/gone", "tree/gone"} {
		_, err := os.Lstat(filepath.Join(got, name))
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	_, err = os.Lstat(got + "/tree")
	require.NoError(t, err)
}

func hashOf(t *testing.T, open func() (io.ReadCloser, error)) v1.Hash {
	t.Helper()
	r, err := open()
	require.NoError(t, err)
	defer r.Close()
	h, _, err := v1.SHA256(r)
	require.NoError(t, err)
	return h
}

// What breaks off leaves the snapshot before, and the next one is whole.
func TestBreaksOff(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	write(t, dir, map[string]string{"a": "1", "b": "1"})
	first := r.take(dir)
	before := tree(t, dir)
	write(t, dir, map[string]string{"a": "22", "c": "2"})
	_, err := r.Take(t.Context(), dir, breaking{archive.Dir(dir), "c"})
	require.ErrorContains(t, err, "broke")
	left, err := os.ReadDir(r.Temp)
	require.NoError(t, err)
	require.Empty(t, left)
	require.Equal(t, before, tree(t, r.restore(first.Ref)))
	require.Equal(t, tree(t, dir), tree(t, r.restore(r.take(dir).Ref)))
}

// breaking fails at one file.
type breaking struct {
	snapshot.Tree
	at string
}

func (b breaking) Read(ctx context.Context, names []string, each func(string, int64, io.Reader) error) error {
	return b.Tree.Read(ctx, names, func(name string, size int64, r io.Reader) error {
		if name == b.at {
			return errors.New("it broke")
		}
		return each(name, size, r)
	})
}

// vanishing removes a file after it was listed.
type vanishing struct {
	snapshot.Tree
	file string
}

func (v vanishing) Read(ctx context.Context, names []string, each func(string, int64, io.Reader) error) error {
	_ = os.Remove(v.file)
	return v.Tree.Read(ctx, names, each)
}

func TestVanishes(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	write(t, dir, map[string]string{"a": "1", "b": "1"})
	require.NoError(t, os.Link(dir+"/a", dir+"/z"))
	r.take(dir)
	write(t, dir, map[string]string{"a": "22", "b": "22"})
	took, err := r.Take(t.Context(), dir, vanishing{archive.Dir(dir), dir + "/b"})
	require.NoError(t, err)
	require.Equal(t, tree(t, dir), tree(t, r.restore(took.Ref)))
	_, err = r.Take(t.Context(), dir+"-", unreadable{archive.Dir(dir)})
	require.ErrorContains(t, err, "cannot be read")
}

// unreadable gives nothing of what it lists.
type unreadable struct{ snapshot.Tree }

func (unreadable) Read(context.Context, []string, func(string, int64, io.Reader) error) error {
	return nil
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	r, dir := newRig(t), t.TempDir()
	write(t, dir, map[string]string{"a": strings.Repeat("some text ", 10000)})
	ref := r.take(dir).Ref
	keys := map[string][]byte{}
	for o, err := range r.Blobs.List(t.Context(), snapshot.Prefix) {
		require.NoError(t, err)
		data, err := r.Blobs.Get(t.Context(), o.Key)
		require.NoError(t, err)
		keys[o.Key] = data
	}
	require.Len(t, keys, 3, "layer, config and manifest")
	config := 0
	for key, data := range keys {
		for _, at := range []int{0, len(data) / 2, len(data) - 1} {
			bad := slices.Clone(data)
			bad[at] ^= 0x10
			require.NoError(t, r.Blobs.Write(t.Context(), key, bad))
			if err := r.restoreTo(ref, t.TempDir()); err == nil {
				config++ // what a restore does not need
			} else {
				require.ErrorIs(t, err, snapshot.ErrDamaged, "%s at %d", key, at)
			}
		}
		require.NoError(t, r.Blobs.Delete(t.Context(), key))
		if err := r.restoreTo(ref, t.TempDir()); err != nil {
			require.ErrorIs(t, err, snapshot.ErrNotKept)
		}
		require.NoError(t, r.Blobs.Write(t.Context(), key, data))
	}
	require.Equal(t, 3, config)
	require.Equal(t, tree(t, dir), tree(t, r.restore(ref)))

	// A chain that lacks a part is not built upon.
	for key := range keys {
		require.NoError(t, r.Blobs.Delete(t.Context(), key))
		write(t, dir, map[string]string{"b": key})
		took := r.take(dir)
		require.Equal(t, 1, took.Layers, key)
		require.Equal(t, tree(t, dir), tree(t, r.restore(took.Ref)))
		break
	}
	for _, bad := range []string{"", "x", "sha256:00", "sha512:" + strings.Repeat("0", 128), "sha256:../../" + strings.Repeat("0", 58)} {
		require.ErrorIs(t, r.restoreTo(bad, t.TempDir()), snapshot.ErrBadReference, bad)
	}
}

func TestCollect(t *testing.T) {
	t.Parallel()
	r, dir, other := newRig(t), t.TempDir(), t.TempDir()
	ctx := t.Context()
	write(t, dir, map[string]string{"a": "1"})
	first := r.take(dir)
	write(t, dir, map[string]string{"a": "22"})
	second := r.take(dir)
	write(t, other, map[string]string{"other": "text"})
	gone := r.take(other)
	needs := func(refs ...string) func(context.Context) ([]string, error) {
		return func(context.Context) ([]string, error) { return refs, nil }
	}
	future := time.Now().Add(time.Hour)

	// Everything is young.
	res, err := r.Collect(ctx, time.Now().Add(-time.Hour), false, needs())
	require.NoError(t, err)
	require.Zero(t, res.Blobs)
	require.Equal(t, 9, res.Kept)

	// Who needs what cannot be found out.
	_, err = r.Collect(ctx, future, false, func(context.Context) ([]string, error) { return nil, errors.New("no answer") })
	require.ErrorContains(t, err, "no answer")
	_, err = r.Collect(ctx, future, false, needs("odd"))
	require.ErrorIs(t, err, snapshot.ErrBadReference)

	res, err = r.Collect(ctx, future, true, needs(second.Ref))
	require.NoError(t, err)
	require.Equal(t, 5, res.Blobs)
	require.NoError(t, r.restoreTo(gone.Ref, t.TempDir()), "a dry run removes nothing")

	res, err = r.Collect(ctx, future, false, needs(second.Ref, "sha256:"+strings.Repeat("0", 64)))
	require.NoError(t, err)
	require.Equal(t, 5, res.Blobs)
	require.Equal(t, 4, res.Kept)
	require.Positive(t, res.Bytes)
	require.ErrorIs(t, r.restoreTo(gone.Ref, t.TempDir()), snapshot.ErrNotKept)
	require.ErrorIs(t, r.restoreTo(first.Ref, t.TempDir()), snapshot.ErrNotKept)
	require.Equal(t, tree(t, dir), tree(t, r.restore(second.Ref)))
	require.Equal(t, second.Ref, r.take(dir).Ref)
	require.Equal(t, 1, r.take(other).Layers, "what was collected is taken anew")
}
