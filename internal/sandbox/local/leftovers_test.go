package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/local"
)

// A removal that was cut short between the word that the sandbox is destroyed and the
// end of it goes on when it is asked for again.
func TestARemovalCutShortGoesOn(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	b, err := local.New(t.Context(), local.Config{DataDir: data, NoIsolation: true})
	require.NoError(t, err)
	left := func() []string {
		dirs, err := filepath.Glob(filepath.Join(data, "sandboxes", "left-*", "sandbox.json"))
		require.NoError(t, err)
		return dirs
	}
	for _, aside := range []string{"", ".trash-1"} { // before it was put aside, and after
		spec := sandbox.Spec{ID: "left", Generation: 1 + len(aside)}
		_, err = b.Open(t.Context(), spec)
		require.NoError(t, err)
		require.Len(t, left(), 1)
		dir := filepath.Dir(left()[0])
		require.NoError(t, os.WriteFile(dir+".gone", nil, 0o600))
		if aside != "" {
			require.NoError(t, os.Rename(dir, dir+aside))
		}
		spec.Existing = true
		_, err = b.Open(t.Context(), spec)
		require.ErrorIs(t, err, sandbox.ErrGone)
		require.Empty(t, left())
	}
}
