package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
)

// A worker that is killed while it writes a file leaves nothing beside it once the
// sandbox is opened again; who writes at that moment is not disturbed.
func TestKilledWhileItWrites(t *testing.T) {
	t.Parallel()
	cfg := Config{DataDir: t.TempDir(), NoIsolation: true}
	open := func() *session {
		b, err := New(t.Context(), cfg)
		require.NoError(t, err)
		s, err := b.Open(t.Context(), sandbox.Spec{ID: "x", Generation: 1})
		require.NoError(t, err)
		return s.(*session)
	}
	s := open()
	require.NoError(t, s.WriteFile(t.Context(), "d/kept", []byte("kept")))
	notes, err := os.ReadDir(filepath.Join(s.dir, notesDir))
	require.NoError(t, err)
	require.Empty(t, notes)

	killed, err := s.note("d/.countersign-killed")
	require.NoError(t, err)
	require.NoError(t, s.root.WriteFile("d/.countersign-killed", []byte("half"), 0o600))
	require.NoError(t, killed.Close()) // as the kernel closes it
	for _, odd := range []string{"d/kept", "../sandbox.json", "", "/etc/passwd"} {
		f, err := s.note(odd)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	writing, err := s.note("d/.countersign-writing")
	require.NoError(t, err)
	require.NoError(t, s.root.WriteFile("d/.countersign-writing", []byte("half"), 0o600))

	s = open()
	entries, err := os.ReadDir(filepath.Join(s.root.Name(), "d"))
	require.NoError(t, err)
	require.Len(t, entries, 2)
	require.Equal(t, ".countersign-writing", entries[0].Name())
	require.Equal(t, "kept", entries[1].Name())
	notes, err = os.ReadDir(filepath.Join(s.dir, notesDir))
	require.NoError(t, err)
	require.Len(t, notes, 1)
	require.NoError(t, writing.Close())

	require.Len(t, func() []os.DirEntry { e, _ := os.ReadDir(filepath.Join(open().root.Name(), "d")); return e }(), 1)
}
