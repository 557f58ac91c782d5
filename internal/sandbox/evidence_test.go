package sandbox_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/mask"
	"github.com/countersign/countersign/internal/policy"
	"github.com/countersign/countersign/internal/workflows"
)

// What a held command would lose comes with its verdict; what runs at once is not
// looked at, and a look that takes too long is given up.
func TestEvidence(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	token := "ghp_" + "a1B2c3D4e5F6g7H8j9K0a1B2c3D4e5F6g7H8"
	r.shell("mkdir -p build/deep; head -c 3000000 /dev/zero > build/big; for i in 1 2 3 4 5; do echo $i > build/deep/$i.log; done; touch a.log b.log; echo x > " + token + ".log")
	r.restartWith(policy.Default())
	evidence := func(command string) []string {
		return r.judge(toolCall(t, workflows.ToolShell, workflows.ShellArgs{Command: command})).Evidence
	}
	require.Equal(t, []string{"6 files, 3.0 MB"}, evidence("rm -rf build"))
	require.Equal(t, []string{"`*.log` is `a.log`, `b.log` and `ghp_" + mask.Mark + ".log`", "3 files, under 0.1 MB"}, evidence("rm -rf *.log"))
	require.Empty(t, evidence("ls *.log"))
	require.Equal(t, []string{"5 files, under 0.1 MB"}, r.judge(toolCall(t, workflows.ToolShell, workflows.ShellArgs{Command: "rm -rf deep", Cwd: "build"})).Evidence)

	r.restartWith(gate{})
	out := r.shell("git init -q . && git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m one && echo x > c && git add c && mkfifo .git/wait && git config include.path wait && echo done")
	if !succeeded(out) {
		t.Skip("needs git in the sandbox")
	}
	r.restartWith(policy.Default())
	began := time.Now()
	require.Empty(t, evidence("git reset --hard"), "git hangs in this repository")
	require.Less(t, time.Since(began), 15*time.Second)
	r.restartWith(gate{})
	r.shell("rm .git/wait")
	r.restartWith(policy.Default())
	require.Equal(t, []string{"uncommitted changes are lost: 1 file, +1 −0"}, evidence("git reset --hard"))
}

func succeeded(res workflows.ToolResult) bool {
	return res.State == workflows.CallCompleted && res.ExitCode != nil && *res.ExitCode == 0
}
