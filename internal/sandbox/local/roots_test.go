package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/local"
)

// A workspace below a root has a directory of its own there, beside what is there
// already, and takes it along when it goes.
func TestRoot(t *testing.T) {
	t.Parallel()
	data, root := t.TempDir(), t.TempDir()
	write(t, root, map[string]string{"mine.txt": "mine"})
	seed := t.TempDir()
	write(t, seed, map[string]string{"README.md": "seed"})
	b, err := local.New(t.Context(), local.Config{DataDir: data, AllowUnisolated: true})
	require.NoError(t, err)
	spec := sandbox.Spec{ID: "s", Generation: 1, Root: root, Seed: sandbox.Seed{Directory: seed}}
	s, err := b.Open(t.Context(), spec)
	require.NoError(t, err)
	require.Equal(t, root, filepath.Dir(s.Info().HostPath))
	require.NoError(t, s.WriteFile(t.Context(), "a.txt", []byte("a")))
	require.NoError(t, s.Start(t.Context(), sandbox.ExecSpec{ID: "x", Command: "cp README.md b.txt && ls .."}))
	require.NoError(t, s.Attach(t.Context(), "x", sandbox.Stdout, 0, os.Stderr))
	require.ElementsMatch(t, []string{"README.md", "a.txt", "b.txt"}, list(t, s.Info().HostPath))

	again, err := local.New(t.Context(), local.Config{DataDir: data, AllowUnisolated: true})
	require.NoError(t, err)
	resumed, err := again.Open(t.Context(), sandbox.Spec{ID: "s", Generation: 1, Existing: true})
	require.NoError(t, err)
	require.Equal(t, s.Info().HostPath, resumed.Info().HostPath)
	require.NoError(t, resumed.Destroy(t.Context()))
	require.Equal(t, []string{"mine.txt"}, list(t, root))

	_, err = b.Open(t.Context(), sandbox.Spec{ID: "t", Generation: 1, Root: filepath.Join(root, "nowhere")})
	var refused *sandbox.RefusedError
	require.ErrorAs(t, err, &refused)
	require.Contains(t, refused.Text, "The workspace cannot be kept in")
}

// Where commands cannot be isolated none run, unless the settings say so; files
// are there all the same.
func TestUnisolatedIsRefused(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // without bubblewrap
	data := t.TempDir()
	b, err := local.New(t.Context(), local.Config{DataDir: data})
	require.NoError(t, err)
	_, err = b.Open(t.Context(), sandbox.Spec{ID: "s", Generation: 1})
	var refused *sandbox.RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "Commands cannot be isolated on this worker, so none run here: bubblewrap is not installed on the worker's machine. "+
		"Install bubblewrap, take the docker backend, or set sandbox.local.allow_unisolated to run them all the same.", refused.Text)
	require.Equal(t, refused.Text, b.Refuses())

	allowed, err := local.New(t.Context(), local.Config{DataDir: data, AllowUnisolated: true})
	require.NoError(t, err)
	s, err := allowed.Open(t.Context(), sandbox.Spec{ID: "s", Generation: 1})
	require.NoError(t, err)
	require.NoError(t, s.WriteFile(t.Context(), "a.txt", []byte("a")))

	s, err = b.Open(t.Context(), sandbox.Spec{ID: "s", Generation: 1, Existing: true})
	require.NoError(t, err, "what is there can be saved and removed")
	require.ErrorAs(t, s.Start(t.Context(), sandbox.ExecSpec{ID: "x", Command: "true"}), &refused)
	content, _, err := s.ReadFile(t.Context(), "a.txt", 10)
	require.NoError(t, err)
	require.Equal(t, "a", string(content))
}
