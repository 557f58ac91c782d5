package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// patches writes a message that asks the offline model for a patch.
func patches(lines ...string) string {
	return "```\n*** Begin Patch\n" + strings.Join(lines, "\n") + "\n*** End Patch\n```"
}

// A patch of ordinary files is applied at once; one of a protected file is shown
// as a diff and waits; what changed meanwhile is asked about anew.
func TestPatch(t *testing.T) {
	t.Parallel()
	ada := sharedDev(t).as("ada")
	id := ada.opens(t, patches("*** Add File: src/a.txt", "+one", "+two")+"\n\n"+
		patches("*** Update File: src/a.txt", "*** Move to: b.txt", "@@", " one", "-two", "+2")+"\n\n`list_files`")
	th := ada.sees(t, id, "the answer", answered(1))
	for _, c := range th.calls(1) {
		require.Equal(t, "completed", c.State, c.Command)
	}
	require.Equal(t, "one\n2\n", th.inWorkspace(t, "b.txt"))
	require.Empty(t, th.inWorkspace(t, "src/a.txt"))
	require.Empty(t, th.all("approval"))
	require.Contains(t, th.answer(1).Text, "b.txt  6\n")

	ada.says(t, id, patches("*** Update File: b.txt", "@@", " one", "-three", "+3"))
	th = ada.sees(t, id, "the second answer", answered(2))
	require.Equal(t, "failed", th.calls(2)[0].State)
	require.Contains(t, th.answer(2).Text, `at line 2 of the file it expects "three", but found "2"`)

	ada.says(t, id, patches("*** Add File: .envrc", "+export A=1", "*** Update File: b.txt", "@@", "-one", "+1"))
	m := ada.sees(t, id, "a request", waiting).pending()[0]
	require.Equal(t, "risky", m.Approval.Tier)
	require.Contains(t, m.Approval.Command, "Add .envrc\n+export A=1\nUpdate b.txt\n@@ -1,2 +1,2 @@\n-one\n+1\n 2")
	require.Contains(t, m.Text, ".envrc`, which is protected")
	require.NoError(t, os.WriteFile(filepath.Join(th.workspace(t), "b.txt"), []byte("one\n2\nthree\n"), 0o644))
	require.Equal(t, "changed", ada.click(t, m, "approve", nil).Outcome)
	th = ada.sees(t, id, "another request", func(th thread) bool {
		all := th.all("approval")
		return len(all) == 2 && all[0].Approval.State == "changed" && all[1].Approval.State == "pending"
	})
	require.Empty(t, th.inWorkspace(t, ".envrc"))
	ada.approves(t, id, 3)
	th = ada.sees(t, id, "the third answer", answered(3))
	require.Equal(t, "completed", th.calls(3)[0].State)
	require.Equal(t, "export A=1\n", th.inWorkspace(t, ".envrc"))
	require.Equal(t, "1\n2\nthree\n", th.inWorkspace(t, "b.txt"))
	once(t, th)
}
