package sandbox_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/workflows"
)

// What is looked at without anybody's verdict runs nothing that a repository or a
// submodule of it names.
func TestALookRunsNothing(t *testing.T) {
	t.Parallel()
	const commit = "git -c user.name=a -c user.email=a@b commit -qm x"
	const filter = `echo 'f filter=x diff=x' > .git/info/attributes; git config filter.x.clean "$x"; git config diff.x.textconv "$x"; git config core.fsmonitor "$x"; ` +
		`git config extensions.partialClone origin; touch -d 2001-01-01 f; `
	r := newRig(t)
	r.shell(`x="$PWD/run"; printf '#!/bin/sh\necho > %s\ncat\n' "$PWD/ran" > run; chmod +x run; ` +
		"git init -q -b main sub; (cd sub; echo a > f; git add f; " + commit + "; " + filter + "); " +
		"git init -q -b main .; echo a > f; git add README.md f sub; " + commit + "; " + filter +
		`git -c core.fsmonitor=false status --porcelain; test -e ran && rm ran && echo 'it would run' > proof; touch -d 2002-02-02 f sub/f`)
	require.Contains(t, r.shell("cat proof").Output.Text, "it would run", "a plain status runs it")
	taken, err := call[workflows.SnapshotResult](r, r.acts.TakeSnapshot, workflows.SnapshotInput{WorkflowID: session, Sandbox: r.ref, Turn: 1})
	require.NoError(t, err)
	require.NotNil(t, taken.Work)
	require.Equal(t, []string{"1 on main", "1 on main in sub"}, taken.Work.Unpushed)
	require.Equal(t, 1, *r.shell("test -e ran").ExitCode)
}
