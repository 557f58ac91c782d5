package sandbox_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/blob/execlog"
	"github.com/countersign/countersign/internal/manifest"
	"github.com/countersign/countersign/internal/sandbox"
	"github.com/countersign/countersign/internal/sandbox/local"
	"github.com/countersign/countersign/internal/workflows"
)

const apiSecret = "s3cret-of-the-api"

// withWorkspaces is another worker, with manifests.
func (r *rig) withWorkspaces(w manifest.Workspaces, env map[string]string) {
	b, err := local.New(r.t.Context(), local.Config{DataDir: filepath.Join(r.dir, "data")})
	require.NoError(r.t, err)
	r.acts = sandbox.NewActivities(sandbox.Config{
		Offers: []sandbox.Offer{{Backend: b, Queue: "sandbox-exec/host", Host: "host"}}, Default: "local", Blobs: r.blobs, Gate: gate{},
		Format: format, TempDir: r.dir, Workspaces: w, Getenv: func(name string) string { return env[name] },
		Fill: func(_ context.Context, w manifest.Workspace, dir string) error {
			for _, f := range w.Files {
				if err := os.WriteFile(filepath.Join(dir, f.Path), []byte(f.Text), 0o600); err != nil {
					return err
				}
			}
			return nil
		},
		Timeouts: sandbox.Timeouts{Read: 30 * time.Second, Shell: 60 * time.Second, Install: 600 * time.Second},
	})
}

func workspaces() manifest.Workspaces {
	return manifest.Workspaces{"api": {
		Files:       []manifest.File{{Path: "notes", Text: "hello\n"}},
		Environment: map[string]string{"MODE": "test"},
		Secrets:     map[string]manifest.Reference{"API_KEY": {Env: "WORKER_KEY"}},
		Setup:       []string{"cp notes copy; echo run >> runs; echo \"key $API_KEY\""},
	}}
}

func (r *rig) openAPI(t *testing.T, id string) workflows.OpenResult {
	t.Helper()
	res, err := call[workflows.OpenResult](r, r.acts.OpenSandbox, workflows.OpenInput{WorkflowID: id, Generation: 1, Workspace: "api", ExecID: "open-1"})
	require.NoError(t, err)
	return res
}

func TestWorkspaceIsFilledAndSetUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.withWorkspaces(workspaces(), map[string]string{"WORKER_KEY": apiSecret})
	res := r.openAPI(t, session+"/api")
	require.Equal(t, "api", res.Workspace)
	require.Len(t, res.Setup, 1)
	require.Equal(t, "open-1.1", res.Setup[0].ExecID)
	require.False(t, res.Setup[0].EndedAt.Before(res.Setup[0].StartedAt))
	again := r.openAPI(t, session+"/api")
	require.Equal(t, res, again, "opening again runs nothing again")

	old := r.ref
	r.ref = res.SandboxRef
	out := r.shell("cat copy runs; echo $MODE; printf %s $API_KEY | wc -c; echo $API_KEY")
	require.Equal(t, "completed|false||hello\nrun\ntest\n17\n"+strings.Repeat("*", 17)+"\n|", out.Output.Text)
	require.NotContains(t, out.Tail, apiSecret)

	data, err := execlog.New(r.blobs, session+"/api").ReadAt(t.Context(), "open-1.1", execlog.Stdout, 0, 1<<10)
	require.NoError(t, err)
	require.Equal(t, "key "+strings.Repeat("*", 17)+"\n", string(data))

	// Nothing that history or the blob store keeps holds the secret.
	read := toolCall(t, workflows.ToolReadFile, workflows.ReadFileArgs{Path: "leak"})
	r.shell("echo $API_KEY > leak; for i in 1 2 3 4 5; do printf s3cret; sleep 0.3; printf '%s\\n' -of-the-api; done")
	all, err := json.Marshal([]any{res, out, r.run(r.runInput(read, r.judge(read)))})
	require.NoError(t, err)
	require.NotContains(t, string(all), apiSecret)
	require.NoError(t, filepath.WalkDir(filepath.Join(r.dir, "blobs"), func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			text, rerr := os.ReadFile(p)
			require.NoError(t, rerr)
			require.NotContains(t, string(text), apiSecret, p)
		}
		return err
	}))
	r.ref = old
}

func TestWorkspaceFaults(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := workspaces()
	r.withWorkspaces(w, nil)
	open := func(id, name string) error {
		_, err := r.open(workflows.OpenInput{WorkflowID: id, Generation: 1, Workspace: name, ExecID: "open"})
		return err
	}
	require.ErrorContains(t, open("a", "nope"), `There is no workspace "nope" on this worker. There is: api.`)
	require.ErrorContains(t, open("b", "api"), "in workspace api the secret API_KEY is missing: the worker's environment variable WORKER_KEY is not set.")
	api := w["api"]
	api.Secrets, api.Setup = nil, []string{"true", "echo no such thing >&2; exit 7"}
	w["api"] = api
	err := open("c", "api")
	require.Equal(t, sandbox.ErrTypeRefused, errType(err))
	require.ErrorContains(t, err, "The workspace api is not set up: `echo no such thing >&2; exit 7` ended with exit code 7: no such thing.")
	// The next turn tries again, under another name.
	api.Setup = []string{"echo fine > fine"}
	w["api"] = api
	res, err := call[workflows.OpenResult](r, r.acts.OpenSandbox, workflows.OpenInput{WorkflowID: "c", Generation: 1, Workspace: "api", ExecID: "open2"})
	require.NoError(t, err)
	require.Len(t, res.Setup, 1)
}

// What a manifest gives commands is part of what an approval binds.
func TestManifestIsBound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w, env := workspaces(), map[string]string{"WORKER_KEY": apiSecret}
	r.withWorkspaces(w, env)
	r.ref = r.openAPI(t, session+"/bound").SandboxRef
	c := toolCall(t, workflows.ToolShell, workflows.ShellArgs{Command: "rm -rf x"})
	j := r.judge(c)
	api := w["api"]
	api.Environment = map[string]string{"MODE": "other"}
	w["api"] = api
	res := r.run(r.runInput(c, j))
	require.Equal(t, workflows.ResultChanged, res.State)
	require.Equal(t, "What the workspace's manifest gives commands has changed since it was judged.", res.Error)
	delete(w, "api")
	res = r.run(r.runInput(c, r.judge(c)))
	require.Equal(t, workflows.CallFailed, res.State)
	require.Contains(t, res.Error, `There is no workspace "api"`)
}

// What a destroy would lose is known at each boundary.
func TestWorkAtBoundary(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	take := func() *workflows.Inventory {
		res, err := call[workflows.SnapshotResult](r, r.acts.TakeSnapshot, workflows.SnapshotInput{WorkflowID: session, Sandbox: r.ref})
		require.NoError(t, err)
		return res.Work
	}
	require.Nil(t, take())
	const as = "git -c user.name=a -c user.email=a@x "
	out := r.shell("git init -q -b main sub && cd sub && echo 1 > f && git add f && " + as + "commit -q -m one && echo 2 > f && echo 3 > g")
	if out.ExitCode == nil || *out.ExitCode != 0 {
		t.Skip("there is no git in the sandbox: " + out.Output.Text)
	}
	require.Equal(t, &workflows.Inventory{Uncommitted: 2, Unpushed: []string{"1 on main in sub"}}, take())
}
