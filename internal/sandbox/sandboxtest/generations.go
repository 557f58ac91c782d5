package sandboxtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/blob"
	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/archive"
	"github.com/countersign/countersign/internal/sandbox/snapshot"
)

// churn writes commands that change a workspace at random. Some of them fail.
type churn struct{ *rand.Rand }

// name is a path as a shell's word. There are few, so that they meet again.
func (c churn) name() string {
	var parts []string
	for range 1 + c.IntN(3) {
		parts = append(parts, []string{"a", "b", "c", "d", "e", "f", ".wh.x", " s ", "-dash", "ü"}[c.IntN(10)])
	}
	name := strings.Join(parts, "/")
	if c.IntN(10) == 0 {
		return `"$(printf './` + name + `n\377\nm')"`
	}
	return `"./` + name + `"`
}

func (c churn) command() string {
	at, other := c.name(), c.name()
	switch c.IntN(14) {
	case 0, 1, 2, 3:
		return fmt.Sprintf("mkdir -p $(dirname %s); printf '%%0%dd' %d > %s", at, 1+c.IntN(3000), c.IntN(1000), at)
	case 4:
		return "mkdir -p " + at
	case 5:
		return "ln -s " + other + " " + at
	case 6, 7:
		return "ln " + other + " " + at
	case 8:
		return "rm -rf " + at
	case 9:
		return "mv " + other + " " + at
	case 10: // a change that size and time do not tell
		return fmt.Sprintf("touch -r %s ref && printf '%%0%dd' %d > %s && touch -r ref %s; rm -f ref", at, 1+c.IntN(3000), c.IntN(1000), at, at)
	case 11:
		return fmt.Sprintf("chmod %o %s", c.IntN(0o1000), at)
	case 12:
		return fmt.Sprintf("touch -d '2001-02-03 04:05:%02d' %s", c.IntN(60), at)
	}
	return "rm -rf " + at + "; printf new > " + at
}

func flat(t *testing.T, tree snapshot.Tree) []byte {
	t.Helper()
	var buf bytes.Buffer
	_, err := snapshot.Flat(t.Context(), tree, &buf)
	require.NoError(t, err)
	return buf.Bytes()
}

// makeRemovable lets the owner remove what is in a directory.
func makeRemovable(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(path, 0o700)
		}
		return err
	})
}

// Every generation of a workspace that changes at random comes back to the byte
// and to the nanosecond, in the backend and elsewhere, also after later ones were
// taken, and where it goes on in a sandbox that was restored.
func testGenerations(t *testing.T, b *rig) {
	ctx := t.Context()
	blobs, err := blob.Open(ctx, "mem://")
	require.NoError(t, err)
	store := &snapshot.Store{Blobs: blobs, Temp: t.TempDir(), State: t.TempDir()}
	c := churn{rand.New(rand.NewPCG(uint64(len(t.Name())), 3))}
	s, id := b.open(t), "first"
	restored := func(ref, id string) sandbox.Session {
		return b.openSpec(t, sandbox.Spec{ID: newID(), Generation: 1, Seed: sandbox.Seed{
			Snapshot: func(ctx context.Context) (io.ReadCloser, error) { return store.Open(ctx, ref) },
			Filled:   func(ctx context.Context, tree snapshot.Tree) { require.NoError(t, store.Seeded(ctx, id, ref, tree)) },
		}})
	}
	var refs []string
	var want [][]byte
	for gen := range 20 {
		var script strings.Builder
		for range 12 + c.IntN(12) {
			script.WriteString(c.command() + "\n")
		}
		run(t, s, "{ "+script.String()+"} 2>/dev/null; true")
		took, err := store.Take(ctx, id, s)
		require.NoError(t, err)
		refs, want = append(refs, took.Ref), append(want, flat(t, s))
		same, err := store.Take(ctx, id, s)
		require.NoError(t, err)
		require.Equal(t, took.Ref, same.Ref, "nothing has changed")
		if gen == 7 || gen == 14 {
			id = fmt.Sprint("restored ", gen)
			s = restored(took.Ref, id)
			same, err := store.Take(ctx, id, s)
			require.NoError(t, err)
			require.Equal(t, took.Ref, same.Ref, "what was restored has not changed")
		}
	}
	require.Greater(t, len(want[19]), 5000, "there is something in it")
	for gen, ref := range refs {
		dir := t.TempDir()
		t.Cleanup(func() { require.NoError(t, makeRemovable(dir)) })
		r, err := store.Open(ctx, ref)
		require.NoError(t, err)
		require.NoError(t, archive.Unpack(ctx, r, dir))
		require.NoError(t, r.Close())
		require.True(t, bytes.Equal(want[gen], flat(t, archive.Dir(dir))), "generation %d", gen)
		if gen == 3 || gen == 19 {
			require.True(t, bytes.Equal(want[gen], flat(t, restored(ref, "other"))), "generation %d in the backend", gen)
		}
	}
}
