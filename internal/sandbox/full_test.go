package sandbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sys/unix"

	"github.com/countersign/countersign/internal/workflows"
)

// onDisk is a rig whose sandboxes lie on a disk of so many bytes.
func onDisk(t *testing.T, size string) *rig {
	t.Helper()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	require.NoError(t, os.Mkdir(data, 0o755))
	if err := unix.Mount("tmpfs", data, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(data, unix.MNT_DETACH)) })
	return newRigIn(t, dir)
}

// A full disk is said to be one, with what to do, and nothing is lost by it: once
// there is room, the same calls succeed.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	r := onDisk(t, "4m")
	require.NoError(t, os.WriteFile(filepath.Join(r.ref.WorkspacePath, "kept"), []byte("kept\n"), 0o644))
	write := toolCall(t, workflows.ToolWriteFile, workflows.WriteFileArgs{Path: "new", Content: strings.Repeat("x", 400_000)})
	patch := toolCall(t, workflows.ToolApplyPatch, workflows.ApplyPatchArgs{
		Patch: "*** Begin Patch\n*** Add File: patched\n+" + strings.Repeat("y", 400_000) + "\n*** End Patch",
	})
	inputs := map[string]workflows.RunInput{}
	for name, c := range map[string]workflows.ToolCall{"write_file": write, "apply_patch": patch} {
		inputs[name] = r.runInput(c, r.judge(c))
	}
	full := filepath.Join(r.ref.WorkspacePath, "full")
	f, err := os.Create(full)
	require.NoError(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, unix.ENOSPC)
	require.NoError(t, f.Close())

	for name, in := range inputs {
		res, err := call[workflows.ToolResult](r, r.acts.RunTool, in)
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app, "%s: %+v", name, res)
		require.Equal(t, workflows.ErrTypeSandboxUnavailable, app.Type(), name)
		require.Equal(t, "The worker's disk that holds this session's files is full. Free some space on it.", app.Message(), name)
		require.False(t, app.NonRetryable(), name)
	}
	require.NoError(t, os.Remove(full))
	require.Contains(t, r.shell("cat kept").Output.Text, "kept\n")
	for name, in := range inputs {
		var res workflows.ToolResult
		require.Eventually(t, func() bool { // the kernel may count what is free somewhat later
			var err error
			res, err = call[workflows.ToolResult](r, r.acts.RunTool, in)
			return err == nil
		}, time.Minute, 50*time.Millisecond, name)
		require.Equal(t, workflows.CallCompleted, res.State, "%s: %s", name, res.Error)
	}
	entries, err := os.ReadDir(r.ref.WorkspacePath)
	require.NoError(t, err)
	for _, e := range entries {
		require.False(t, strings.HasPrefix(e.Name(), ".countersign-"), e.Name())
	}
}

// A command whose output no longer fits on the disk is ended, and that is said.
func TestFullDiskOfOutput(t *testing.T) {
	t.Parallel()
	r := onDisk(t, "4m")
	res := r.shell("yes | head -c 20000000; sleep 60")
	require.Contains(t, res.Error, "The disk that holds this session's files is full, or fails; free some space on it.")
}

// What a file says of its size costs nobody anything: it is read to a bound.
func TestHugeSparseFile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.shell("truncate -s 1T huge; truncate -s 1T huge.sh; chmod +x huge.sh")
	read := toolCall(t, workflows.ToolReadFile, workflows.ReadFileArgs{Path: "huge"})
	res := r.run(r.runInput(read, r.judge(read)))
	require.Equal(t, workflows.CallCompleted, res.State)
	require.Less(t, res.StdoutBytes, int64(16<<20))
	sent, err := call[workflows.ReadFilesResult](r, r.acts.ReadFiles, workflows.ReadFilesInput{WorkflowID: session, Sandbox: r.ref, Path: "huge"})
	require.NoError(t, err)
	require.Nil(t, sent.File)
	require.Contains(t, sent.Text.Text, "files of at most 8.0 MB can be sent")
	j := r.judge(toolCall(t, workflows.ToolShell, workflows.ShellArgs{Command: "sh huge.sh"}))
	require.Equal(t, "forbidden", j.Tier)
	require.Contains(t, j.Bad, "run something smaller")
	patch := toolCall(t, workflows.ToolApplyPatch, workflows.ApplyPatchArgs{Patch: "*** Begin Patch\n*** Update File: huge\n@@\n-x\n+y\n*** End Patch"})
	require.NotEmpty(t, r.judge(patch).Bad)
}

// A command that fills the disk itself ends as it does, and its outcome is known.
func TestCommandFillsTheDisk(t *testing.T) {
	t.Parallel()
	r := onDisk(t, "4m")
	res := r.shell("head -c 20000000 /dev/zero 2>/dev/null > full; exit 7")
	require.NotNil(t, res.ExitCode, "%+v", res)
	require.Equal(t, 7, *res.ExitCode)
}
