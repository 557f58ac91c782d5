package sandbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/workflows"
)

// An open sandbox tells of its AGENTS.md files, nearest to the root first, each
// with a digest that follows its content, capped.
func TestGuides(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	again := workflows.OpenInput{WorkflowID: session, Generation: 1, Current: &r.ref}
	guides := func() map[string]workflows.Guide {
		res, err := call[workflows.OpenResult](r, r.acts.OpenSandbox, again)
		require.NoError(t, err)
		require.Equal(t, r.ref, res.SandboxRef)
		all := map[string]workflows.Guide{}
		for _, g := range res.Guides {
			all[g.Path] = g
		}
		return all
	}
	require.Empty(t, guides())
	put := func(path, text string) {
		full := filepath.Join(r.ref.WorkspacePath, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(t, os.WriteFile(full, []byte(text), 0o644))
	}
	put("AGENTS.md", "Run make check.\x00")
	put("api/AGENTS.md", "Go only.")
	put("api/v1/AGENTS.md", strings.Repeat("long ", 10_000))
	put("api/v1/deep/AGENTS.md", "not looked for")
	put("node_modules/x/AGENTS.md", "somebody else's")
	require.NoError(t, os.Symlink("loop", filepath.Join(r.ref.WorkspacePath, "loop")))
	require.NoError(t, os.Symlink("/etc", filepath.Join(r.ref.WorkspacePath, "a-link-that-leads-out")))
	for i := range 30 {
		put(fmt.Sprintf("a%02d/file", i), "many directories")
	}
	before := guides()
	require.Len(t, before, 3)
	require.Equal(t, "Run make check.", before["AGENTS.md"].Text.Text)
	require.False(t, before["AGENTS.md"].Cut)
	require.True(t, before["api/v1/AGENTS.md"].Cut)
	require.Equal(t, 16<<10, before["api/v1/AGENTS.md"].Text.Bytes)
	require.NotEmpty(t, before["api/v1/AGENTS.md"].Text.Ref)
	put("AGENTS.md", "Run make test.")
	require.NotEqual(t, before["AGENTS.md"].Digest, guides()["AGENTS.md"].Digest)
	require.Equal(t, before["api/AGENTS.md"], guides()["api/AGENTS.md"])
}
