package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What an older kernel's Landlock does not hold is not said to be held.
func TestReach(t *testing.T) {
	t.Parallel()
	const emptied, signals = "though they can empty other files", "signal the worker's own processes"
	for abi, want := range map[int][2]bool{2: {true, true}, 3: {false, true}, 5: {false, true}, 6: {false, false}, 7: {false, false}} {
		m := isolation{landlock: abi}
		require.Equal(t, want, [2]bool{strings.Contains(m.reach(), emptied), strings.Contains(m.gap(), signals)}, abi)
	}
	require.Empty(t, isolation{}.gap())
}

func TestPrivateBelow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"open": 0o644, "shut": 0o640, "d/open": 0o644, "d/shut": 0o600, "none/open": 0o644} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Chmod(path, mode))
	}
	require.NoError(t, os.Chmod(filepath.Join(dir, "none"), 0o751))
	require.NoError(t, os.Symlink("shut", filepath.Join(dir, "link")))
	require.Equal(t, []string{filepath.Join(dir, "d/shut"), filepath.Join(dir, "none"), filepath.Join(dir, "shut")}, privateBelow(dir))
}
