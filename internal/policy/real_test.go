package policy_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/countersign/countersign/internal/policy"
)

// TestSafeCommandsChangeNothing runs the tables' safe commands in a real bash,
// confined by bubblewrap, and compares the workspace before and after.
func TestSafeCommandsChangeNothing(t *testing.T) {
	t.Parallel()
	if err := confined(t, t.TempDir(), "true").Run(); err != nil {
		t.Skipf("bubblewrap does not work here: %v", err)
	}
	p := policy.Default()
	ws := workspace(t)
	before := content(t, ws)
	ran := 0
	for _, name := range []string{"risk_cases.tsv", "more_cases.tsv"} {
		for _, r := range rows(t, name) {
			if p.Judge(r.command, sandbox(), policy.Facts{}).Tier != policy.Safe || strings.Contains(r.command, "sleep 5") {
				continue
			}
			ran++
			out, err := confined(t, ws, r.command).CombinedOutput()
			if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
				require.NoError(t, err, r.command)
			}
			require.NotContains(t, string(out), "Read-only file system", "%q tries to write elsewhere", r.command)
			require.Equal(t, before, content(t, ws), "%q is safe, and changed the workspace", r.command)
		}
	}
	require.Greater(t, ran, 100)
}

// confined is a command that sees this machine read-only, without network, and
// the workspace alone writable.
func confined(t *testing.T, ws, command string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, "bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/home",
		"--dir", "/home/agent", "--bind", ws, "/tmp/workspace", "--chdir", "/tmp/workspace", "--unshare-all", "--die-with-parent", "--clearenv",
		"--setenv", "HOME", "/home/agent", "--setenv", "PATH", os.Getenv("PATH"), "bash", "--noprofile", "--norc", "-c", command)
}

func workspace(t *testing.T) string {
	t.Helper()
	ws := t.TempDir()
	for _, name := range []string{"README.md", "a", "b", "f", "x", "file.txt", "data.txt", "src/a.c", "scripts/s.sh", "list", "dump"} {
		path := filepath.Join(ws, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte("content of "+name+"\n"), 0o600))
	}
	return ws
}

// content is every file's name, kind and digest.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			out[path] = d.Type().String()
			return err
		}
		data, err := os.ReadFile(path)
		out[path] = fmt.Sprintf("%x", sha256.Sum256(data))
		return err
	}))
	return out
}
