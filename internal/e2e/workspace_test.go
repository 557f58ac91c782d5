package e2e_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const workerSecret = "of-the-worker-alone-42"

const workspacesConfig = `
workspaces:
  api:
    repositories: [{url: "file://REPO", path: code, depth: 1}]
    directories: [{path: fixtures, from: project}]
    files: [{path: notes.md, text: "Read me first.\n"}]
    environment: {MODE: test}
    secrets: {API_KEY: {env: WORKER_KEY}}
    setup:
      - cp code/f copied
      - 'echo "set up with ${#API_KEY}: $API_KEY"'
  broken:
    setup: [echo nothing works here; false]
`

// repository makes one with a file f.
func repository(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("from git\n"), 0o644))
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "f"},
		{"-c", "user.name=a", "-c", "user.email=a@x", "commit", "-q", "-m", "one"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// A named workspace is filled and set up by its manifest, with a secret that
// nobody reads, in the thread, in Temporal's file or in a blob; and it comes
// along to a session that starts from it.
func TestNamedWorkspace(t *testing.T) {
	t.Parallel()
	d := newDev(t)
	repo := filepath.Join(d.home, "repo")
	repository(t, repo)
	text := strings.ReplaceAll(workspacesConfig, "REPO", repo)
	require.NoError(t, os.WriteFile(filepath.Join(d.home, "countersign.yaml"), []byte(text), 0o600))
	d.env = append(d.env, "WORKER_KEY="+workerSecret)
	d.up(t)
	ada := d.as("ada")

	id := ada.opens(t, "run --workspace api `cat notes.md copied fixtures/README.md; echo $MODE ${#API_KEY} $API_KEY`")
	ada.sees(t, id, "printing a credential asks", waiting)
	ada.approves(t, id, 1)
	th := ada.sees(t, id, "the answer", answered(1))
	for _, want := range []string{"Read me first.", "from git", "A project.", "test 22 **********************"} {
		require.Contains(t, th.answer(1).Text, want)
	}
	require.Contains(t, th.all("header")[0].Text, "workspace api")
	calls := th.calls(1)
	require.Len(t, calls, 4)
	require.Equal(t, "Prepare the sandbox: local, workspace api", calls[0].Command)
	require.Equal(t, "cp code/f copied", calls[1].Command)
	ran(t, calls[1])
	require.Equal(t, "set up with 22: **********************\n", ada.output(t, calls[2].ID, "stdout", 0))
	require.Contains(t, th.turn(1).Text, "1 command")

	// The wiring of a fork: the copied workspace keeps its name and its secret.
	copied := ada.says(t, id, "/agent fork").Opened
	require.NotEmpty(t, copied)
	ada.says(t, copied, "`cat copied; env | grep -c API_KEY`")
	ada.approves(t, copied, 1)
	require.Contains(t, ada.sees(t, copied, "the copy's answer", answered(1)).answer(1).Text, "from git\n1")

	broken := ada.opens(t, "run --workspace broken `true`")
	th = ada.sees(t, broken, "the turn's end", over(1))
	require.Contains(t, th.turn(1).Text, "The workspace broken is not set up: `echo nothing works here; false` ended with exit code 1: nothing works here.")

	r := ada.refusal(t, 400, "POST", "/channels/general/messages", map[string]any{"text": "/agent run --workspace none `true`", "client_id": "none"})
	require.Contains(t, r.Error.Message, "There is no workspace “none”.")
	require.Equal(t, "Workspaces: api, broken.", r.Error.Hint)

	d.interrupt(t)
	// Sandboxes are the worker's own, and what was made ahead in them still goes.
	sandboxes := filepath.Join(d.dir, "sandboxes")
	require.NoError(t, filepath.WalkDir(d.dir, func(p string, e os.DirEntry, err error) error {
		if p == sandboxes {
			return filepath.SkipDir
		}
		if err == nil && e.Type().IsRegular() {
			data, rerr := os.ReadFile(p)
			require.NoError(t, rerr)
			require.False(t, bytes.Contains(data, []byte(workerSecret)), p)
		}
		return err
	}))
}

// What a set-up command prints, and so what the pull of an image says, is in the
// thread while it lasts.
func TestPreparingIsFollowed(t *testing.T) {
	t.Parallel()
	d := newDev(t)
	text := "workspaces: {slow: {setup: ['echo half way; until [ -e go ]; do sleep 0.1; done']}}\n"
	require.NoError(t, os.WriteFile(filepath.Join(d.home, "countersign.yaml"), []byte(text), 0o600))
	d.up(t)
	ada := d.as("ada")
	id := ada.opens(t, "run --workspace slow `echo on`")
	ada.sees(t, id, "what it prints", func(th thread) bool { return strings.Contains(th.call(1, 0).Tail, "\nhalf way") })
	at, err := filepath.Glob(filepath.Join(d.dir, "sandboxes", "*"+id+"*", "workspace"))
	require.NoError(t, err)
	require.Len(t, at, 1)
	require.NoError(t, os.WriteFile(filepath.Join(at[0], "go"), nil, 0o644))
	th := ada.sees(t, id, "the answer", answered(1))
	for _, c := range th.calls(1)[1:] {
		ran(t, c)
	}
}
