package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
)

// A data directory of another process that lies in a workspace's source is not
// copied: it holds that one's token and sessions.
func TestADataDirectoryInTheSourceIsNotCopied(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	for _, name := range []string{"a.txt", ".countersign/host_id", ".countersign/worker.lock", ".countersign/web_token", ".countersign/web/chat.db", "other/host_id"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(src, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(src, name), []byte("x"), 0o644))
	}
	b, err := New(t.Context(), Config{DataDir: t.TempDir()})
	require.NoError(t, err)
	s, err := b.Open(t.Context(), sandbox.Spec{ID: "s", Generation: 1, Seed: sandbox.Seed{Directory: src}})
	require.NoError(t, err)
	root := s.Info().HostPath
	require.FileExists(t, filepath.Join(root, "a.txt"))
	require.FileExists(t, filepath.Join(root, "other", "host_id"))
	require.NoDirExists(t, filepath.Join(root, ".countersign"))
}
